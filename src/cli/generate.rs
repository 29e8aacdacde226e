//! `specdec generate`: load, run, report.

use std::ops::ControlFlow;
use std::path::Path;

use anyhow::Result;
use candle_core::Device;

use super::args::{GenerateArgs, SpeculationArgs};
use super::ui::{self, Verbosity};
use crate::checkpoint::{Checkpoint, WeightFiles, quant_formats};
use crate::decode::{self, Request, Setup, SystemClock};
use crate::demo;
use crate::device::{self, DTYPES};
use crate::error::Error;
use crate::model::layers::Ops;
use crate::model::{CausalLm, LoadOptions, Loaded, load};
use crate::report::{FORMATS, ModelReport, Report, Settings};
use crate::sampling::SamplingParams;
use crate::speculation::acceptance::{RULES, RuleKind};
use crate::speculation::drafter::{DRAFTERS, DrafterKind, DrafterParts, NgramOptions, PLAIN, WITH_MODEL};
use crate::speculation::pairing;
use crate::speculation::schedule::SCHEDULERS;
use crate::tokenizer::Tokenizer;

const DEFAULT_DRAFT_TOKENS: usize = 4;
const MAX_DRAFT_TOKENS: usize = 1024;
/// Below this, scores overflow.
const MIN_TEMPERATURE: f64 = 1e-6;
/// The context of a model that does not say, in tokens.
const DEFAULT_CONTEXT: usize = 4096;

/// Runs the command.
pub(super) fn run(args: &GenerateArgs) -> Result<()> {
    let verbosity = if args.output.quiet { Verbosity::Quiet } else { Verbosity::Normal };
    let plan = Plan::new(args)?;
    let target_checkpoint = match &args.models.model {
        Some(path) => Checkpoint::open(path)?,
        None => Checkpoint::built_in(&demo::TARGET)?,
    };
    let tokenizer = target_checkpoint.tokenizer.as_ref();
    let prompt = prompt_ids(args, &target_checkpoint)?;
    let draft_checkpoint = match (plan.drafter.needs_model, &args.models.draft_model) {
        (false, _) => None,
        (true, Some(path)) => Some(Checkpoint::open(path)?),
        (true, None) => Some(Checkpoint::built_in(&demo::DRAFTER)?),
    };
    if let Some(drafter) = &draft_checkpoint {
        pairing::check_tokenizers(&target_checkpoint, drafter)?;
    }
    let target =
        Model::load(&target_checkpoint, "", args.models.dtype.as_deref(), args.models.quant.as_deref())?;
    ui::note(verbosity, &format!("target: {}", target.line()));
    let drafter = draft_checkpoint
        .as_ref()
        .map(|files| {
            let (dtype, quant) = (args.models.draft_dtype.as_deref(), args.models.draft_quant.as_deref());
            Model::load(files, "draft-", dtype, quant)
        })
        .transpose()?;
    if let Some(drafter) = &drafter {
        ui::note(verbosity, &format!("drafter: {}", drafter.line()));
    }

    let context_len = context_len(args, target.loaded.max_context)?;
    let stop_ids = if args.sampling.ignore_eos { &[] } else { target_checkpoint.eos_ids.as_slice() };
    let request = Request {
        prompt: &prompt,
        max_tokens: args.sampling.max_tokens,
        context_len,
        stop_ids,
        params: plan.params.clone(),
        seed: plan.seed,
        sequence: 0,
    };
    let clock = SystemClock::default();
    let mut setup = plan.setup(&target, drafter.as_ref(), &request, &clock)?;

    let format = plan.format;
    let mut text = TextOut::new(tokenizer, !format.replaces_text);
    let generation = decode::generate(&mut setup, &request, &mut |emitted| {
        text.push(emitted.token)?;
        Ok(ControlFlow::Continue(()))
    })?;
    text.finish()?;

    let settings = plan.settings(args, context_len);
    let report = Report {
        generation: &generation,
        prompt_ids: &prompt,
        text: tokenizer.is_some().then_some(text.whole.as_str()),
        target: &target.report,
        drafter: drafter.as_ref().map(|drafter| &drafter.report),
        settings: &settings,
        seed: plan.seed,
        peak_memory_bytes: device::peak_memory_bytes(),
        with_rounds: args.output.rounds,
    };
    if format.replaces_text {
        ui::result(&format!("{}\n", (format.render)(&report)))?;
    } else if verbosity == Verbosity::Normal {
        ui::end_of_text();
        ui::note(verbosity, &format!("\n{}", (format.render)(&report)));
    }
    Ok(())
}

/// Choices that follow from the flags alone, checked before any file is opened.
struct Plan {
    drafter: &'static DrafterKind,
    rule: &'static RuleKind,
    params: SamplingParams,
    num_draft_tokens: usize,
    ngram: NgramOptions,
    seed: u64,
    format: &'static crate::report::Format,
}

impl Plan {
    fn new(args: &GenerateArgs) -> Result<Self> {
        let temperature = args.sampling.temperature;
        if !(temperature.is_finite() && temperature >= 0.0) {
            return Err(usage("--temp", format!("{temperature} is not a temperature; 0 or more is")));
        }
        if args.sampling.max_tokens == 0 {
            return Err(usage("-n", "at least one token must be asked for".to_owned()));
        }
        if temperature > 0.0 && temperature < MIN_TEMPERATURE {
            let problem =
                format!("{temperature} is too close to 0 to sample at; 0 takes the most likely token");
            return Err(usage("--temp", problem));
        }
        let params = SamplingParams { temperature };
        let drafter = choose_drafter(args)?;
        refuse_without_effect(args, drafter)?;
        let num_draft_tokens = match args.speculation.num_draft_tokens {
            Some(0) => {
                return Err(usage(
                    "-k",
                    "0 tokens cannot be drafted; plain decoding is --drafter none".into(),
                ));
            }
            Some(given) if given > MAX_DRAFT_TOKENS => {
                return Err(usage(
                    "-k",
                    format!("{given} is beyond the longest draft of {MAX_DRAFT_TOKENS} tokens"),
                ));
            }
            given => given.unwrap_or(DEFAULT_DRAFT_TOKENS),
        };
        let rule = choose_rule(&args.speculation, &params)?;
        let format = FORMATS.iter().find(|format| format.name == args.output.format);
        let format = format.expect("clap admits only names of the table");
        if args.output.rounds && !format.replaces_text {
            return Err(usage("--rounds", "has an effect with --format json only".to_owned()));
        }
        let seed = args.sampling.seed.unwrap_or_else(|| if params.is_greedy() { 0 } else { fresh_seed() });
        Ok(Self {
            drafter,
            rule,
            params,
            num_draft_tokens,
            ngram: ngram_options(&args.speculation)?,
            seed,
            format,
        })
    }

    fn setup<'a>(
        &self,
        target: &'a Model,
        drafter: Option<&'a Model>,
        request: &Request<'_>,
        clock: &'a SystemClock,
    ) -> Result<Setup<'a>> {
        let model: Option<&'a dyn CausalLm> = match drafter {
            Some(drafter) => Some(&drafter.loaded.model),
            None => None,
        };
        let shared_vocab = match drafter {
            Some(drafter) => pairing::shared_vocab(&target.vocabulary(), &drafter.vocabulary())?,
            None => target.loaded.model.vocab_size(),
        };
        let limit = drafter.and_then(|drafter| drafter.loaded.max_context).unwrap_or(usize::MAX);
        let parts = DrafterParts {
            target: &target.loaded.model,
            model,
            shared_vocab,
            run_len: request.run_len().min(limit),
            max_draft: self.num_draft_tokens,
            ngram: self.ngram,
        };
        Ok(Setup {
            target: &target.loaded.model,
            drafter: (self.drafter.build)(parts)?,
            rule: (self.rule.build)(),
            scheduler: (SCHEDULERS[0].build)(self.num_draft_tokens),
            clock,
        })
    }

    fn settings(&self, args: &GenerateArgs, ctx_size: usize) -> Settings {
        Settings {
            drafter: self.drafter.name,
            accept: self.rule.name,
            scheduler: SCHEDULERS[0].name,
            num_draft_tokens: self.num_draft_tokens,
            temperature: self.params.temperature,
            max_tokens: args.sampling.max_tokens,
            ctx_size,
            ignore_eos: args.sampling.ignore_eos,
            threads: rayon::current_num_threads(),
        }
    }
}

fn choose_drafter(args: &GenerateArgs) -> Result<&'static DrafterKind> {
    let is_demo = args.models.model.is_none();
    let has_model = args.models.draft_model.is_some();
    let default = if has_model || is_demo { WITH_MODEL } else { PLAIN };
    let named = args.speculation.drafter.as_deref();
    let kind = named.map_or(default, |name| {
        DRAFTERS.iter().find(|kind| kind.name == name).expect("clap admits only names of the table")
    });
    if kind.needs_model && !has_model && !is_demo {
        return Err(usage("--drafter", format!("{} needs a model that drafts: -d PATH", kind.name)));
    }
    Ok(kind)
}

/// A flag that cannot do anything is a mistake worth telling, except beside an explicit `--drafter none`,
/// which is how one switches speculation off in a long command.
fn refuse_without_effect(args: &GenerateArgs, drafter: &DrafterKind) -> Result<()> {
    if args.speculation.drafter.is_some() && !drafter.drafts {
        return Ok(());
    }
    let SpeculationArgs { num_draft_tokens, accept, ngram_min, ngram_max, .. } = &args.speculation;
    let flags = [
        ("-d", args.models.draft_model.is_some(), drafter.needs_model),
        ("--draft-dtype", args.models.draft_dtype.is_some(), drafter.needs_model),
        ("--draft-quant", args.models.draft_quant.is_some(), drafter.needs_model),
        ("-k", num_draft_tokens.is_some(), drafter.drafts),
        ("--accept", accept.is_some(), drafter.drafts),
        ("--ngram-min", ngram_min.is_some(), drafter.uses_ngram),
        ("--ngram-max", ngram_max.is_some(), drafter.uses_ngram),
    ];
    match flags.iter().find(|(_, given, has_effect)| *given && !has_effect) {
        Some((flag, ..)) if drafter.drafts => {
            Err(usage(flag, format!("has no effect with --drafter {}", drafter.name)))
        }
        Some((flag, ..)) => {
            Err(usage(flag, "has no effect without a drafter; name one with -d or --drafter".into()))
        }
        None => Ok(()),
    }
}

fn choose_rule(args: &SpeculationArgs, params: &SamplingParams) -> Result<&'static RuleKind> {
    let Some(name) = args.accept.as_deref() else {
        let suits = RULES.iter().find(|rule| (rule.suits)(params));
        return Ok(suits.expect("some rule suits every temperature"));
    };
    let rule = RULES.iter().find(|rule| rule.name == name).expect("clap admits only names of the table");
    if !(rule.suits)(params) {
        return Err(usage(
            "--accept",
            format!("{name} does not suit --temp {}: {}", params.temperature, rule.about),
        ));
    }
    Ok(rule)
}

fn ngram_options(args: &SpeculationArgs) -> Result<NgramOptions> {
    let default = NgramOptions::default();
    let min_len =
        args.ngram_min.unwrap_or(args.ngram_max.map_or(default.min_len, |max| default.min_len.min(max)));
    let max_len = args.ngram_max.unwrap_or(default.max_len.max(min_len));
    if args.ngram_max == Some(0) {
        return Err(usage("--ngram-max", "a match has at least one token".to_owned()));
    }
    if min_len == 0 {
        return Err(usage("--ngram-min", "a match has at least one token".to_owned()));
    }
    if max_len < min_len {
        return Err(usage("--ngram-max", format!("{max_len} is below --ngram-min {min_len}")));
    }
    Ok(NgramOptions { min_len, max_len })
}

/// A seed nobody chose. 32 bits, so that every JSON reader keeps it exactly.
fn fresh_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish() >> 32
}

fn prompt_ids(args: &GenerateArgs, target: &Checkpoint) -> Result<Vec<u32>> {
    if let Some(ids) = &args.prompt_ids {
        return Ok(ids.clone());
    }
    let text = match (&args.prompt, &args.prompt_option) {
        (Some(text), _) | (None, Some(text)) => text.as_str(),
        (None, None) if args.models.model.is_none() => demo::OPENING.trim_end(),
        (None, None) => {
            return Err(usage("prompt", "none was given; use -p TEXT or --prompt-ids".to_owned()));
        }
    };
    if text.is_empty() {
        return Err(usage("prompt", "it is empty".to_owned()));
    }
    let Some(tokenizer) = &target.tokenizer else {
        let problem = format!("`{}` has no tokenizer; use --prompt-ids", target.path.display());
        return Err(usage("prompt", problem));
    };
    Ok(tokenizer.encode(text)?)
}

fn context_len(args: &GenerateArgs, max_context: Option<usize>) -> Result<usize> {
    match (args.sampling.ctx_size, max_context) {
        (Some(0), _) => Err(usage("-c", "a context holds at least one token".to_owned())),
        (Some(given), Some(limit)) if given > limit => {
            Err(usage("-c", format!("{given} is beyond the model's limit of {limit} tokens")))
        }
        (Some(given), _) => Ok(given),
        (None, limit) => Ok(limit.unwrap_or(DEFAULT_CONTEXT)),
    }
}

/// A loaded model with what reports say about it.
struct Model {
    loaded: Loaded,
    report: ModelReport,
    tokenizer_vocab: Option<usize>,
}

impl Model {
    /// Loads a checkpoint; `flags` is what the names of its flags begin with.
    fn load(checkpoint: &Checkpoint, flags: &str, dtype: Option<&str>, quant: Option<&str>) -> Result<Self> {
        if matches!(checkpoint.files, WeightFiles::Gguf(_)) {
            for (flag, given) in [("dtype", dtype), ("quant", quant)] {
                if given.is_some() {
                    let problem =
                        "cannot be used with a GGUF file, which says how its weights are stored".to_owned();
                    return Err(usage(&format!("--{flags}{flag}"), problem));
                }
            }
        }
        let device = Device::Cpu;
        let choice = DTYPES
            .iter()
            .find(|(name, _)| Some(*name) == dtype)
            .map_or_else(Default::default, |found| found.1);
        let quantize = quant_formats().find(|(name, _)| Some(name.as_str()) == quant).map(|found| found.1);
        let options =
            LoadOptions { dtype: choice.resolve(&device), device: device.clone(), quantize, ops: Ops::Fused };
        let loaded = load(checkpoint, &options)?;
        let report = ModelReport {
            class: loaded.description.headline(),
            path: checkpoint.path.display().to_string(),
            revision: None,
            format: format_line(&checkpoint.files, loaded.model.formats()),
            device: device::name(&device).to_owned(),
        };
        let tokenizer_vocab = checkpoint.tokenizer.as_ref().map(Tokenizer::vocab_size);
        Ok(Self { loaded, report, tokenizer_vocab })
    }

    fn vocabulary(&self) -> pairing::Vocabulary<'_> {
        pairing::Vocabulary {
            name: Path::new(&self.report.path),
            rows: self.loaded.model.vocab_size(),
            tokens: self.tokenizer_vocab,
        }
    }

    fn line(&self) -> String {
        let ModelReport { class, path, format, device, .. } = &self.report;
        format!("{path}: {class}; {format}; {device}")
    }
}

/// Container and storage types, with shares where there are several: `GGUF Q4_K 83 %, Q6_K 17 %`.
#[expect(clippy::cast_precision_loss, reason = "a share shown in whole percents")]
fn format_line(files: &WeightFiles, formats: &[(String, usize)]) -> String {
    let total: usize = formats.iter().map(|(_, count)| count).sum();
    let shares: Vec<String> = match formats {
        [(only, _)] => vec![only.clone()],
        several => several
            .iter()
            .map(|(format, count)| format!("{format} {:.0} %", *count as f64 / total as f64 * 100.0))
            .collect(),
    };
    format!("{} {}", files.container(), shares.join(", "))
}

/// Text on its way out; ids where there is no tokenizer.
struct TextOut<'t> {
    stream: Option<crate::tokenizer::TextStream<'t>>,
    prints: bool,
    whole: String,
    num_tokens: usize,
}

impl<'t> TextOut<'t> {
    fn new(tokenizer: Option<&'t Tokenizer>, prints: bool) -> Self {
        Self { stream: tokenizer.map(Tokenizer::stream), prints, whole: String::new(), num_tokens: 0 }
    }

    fn push(&mut self, token: u32) -> crate::error::Result<()> {
        let separator = if self.num_tokens == 0 { "" } else { " " };
        self.num_tokens += 1;
        let piece = match &mut self.stream {
            Some(stream) => stream.push(token),
            None => format!("{separator}{token}"),
        };
        self.show(&piece)
    }

    fn finish(&mut self) -> crate::error::Result<()> {
        let rest = self.stream.as_mut().map(crate::tokenizer::TextStream::finish).unwrap_or_default();
        self.show(&rest)
    }

    fn show(&mut self, piece: &str) -> crate::error::Result<()> {
        self.whole.push_str(piece);
        if self.prints && !piece.is_empty() { ui::result(piece) } else { Ok(()) }
    }
}

fn usage(flag: &str, problem: String) -> anyhow::Error {
    Error::Usage { flag: flag.to_owned(), problem }.into()
}
