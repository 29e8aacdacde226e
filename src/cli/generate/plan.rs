//! Choices that follow from the flags alone, checked before any file is opened.

use anyhow::Result;

use crate::cli::args::{GenerateArgs, SpeculationArgs};
use crate::cli::models::Model;
use crate::cli::usage;
use crate::decode::{Request, Setup, SystemClock};
use crate::model::CausalLm;
use crate::report::{FORMATS, Format, Settings};
use crate::sampling::SamplingParams;
use crate::speculation::acceptance::{RULES, RuleKind};
use crate::speculation::drafter::{DRAFTERS, DrafterKind, DrafterParts, NgramOptions, PLAIN, WITH_MODEL};
use crate::speculation::pairing;
use crate::speculation::schedule::{AUTO, FIXED, SchedulerKind};

/// The longest draft that `-k auto` considers.
const AUTO_DRAFT_TOKENS: usize = 16;
const MAX_DRAFT_TOKENS: usize = 1024;

pub(super) struct Plan {
    pub(super) drafter: &'static DrafterKind,
    pub(super) scheduler: &'static SchedulerKind,
    pub(super) format: &'static Format,
    max_draft: usize,
    ngram: NgramOptions,
    min_confidence: f64,
}

impl Plan {
    pub(super) fn new(args: &GenerateArgs) -> Result<Self> {
        if args.sampling.max_tokens == 0 {
            return Err(usage("-n", "at least one token must be asked for".to_owned()));
        }
        let drafter = choose_drafter(args)?;
        refuse_without_effect(args, drafter)?;
        let (scheduler, max_draft) = draft_length(args.speculation.num_draft_tokens.as_deref())?;
        let min_confidence = args.speculation.draft_p_min.unwrap_or(0.0);
        if !(0.0..=1.0).contains(&min_confidence) {
            return Err(usage("--draft-p-min", format!("{min_confidence} is not between 0 and 1")));
        }
        let format = choose_format(args)?;
        let ngram = ngram_options(&args.speculation)?;
        Ok(Self { drafter, scheduler, format, max_draft, ngram, min_confidence })
    }

    /// The acceptance rule for these sampling parameters.
    pub(super) fn rule(args: &SpeculationArgs, params: &SamplingParams) -> Result<&'static RuleKind> {
        let Some(name) = args.accept.as_deref() else {
            let suits = RULES.iter().find(|rule| (rule.suits)(params));
            return Ok(suits.expect("some rule suits every temperature"));
        };
        let rule = RULES.iter().find(|rule| rule.name == name).expect("clap admits only names of the table");
        if !(rule.suits)(params) {
            let problem = format!("{name} does not suit --temp {}: {}", params.temperature, rule.about);
            return Err(usage("--accept", problem));
        }
        Ok(rule)
    }

    pub(super) fn setup<'a>(
        &self,
        rule: &RuleKind,
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
            max_draft: self.max_draft,
            ngram: self.ngram,
            min_confidence: self.min_confidence,
        };
        Ok(Setup {
            target: &target.loaded.model,
            drafter: (self.drafter.build)(parts)?,
            rule: (rule.build)(),
            scheduler: (self.scheduler.build)(self.drafter.sources, self.max_draft),
            clock,
        })
    }

    pub(super) fn settings(&self, args: &GenerateArgs, rule: &RuleKind, request: &Request<'_>) -> Settings {
        Settings {
            drafter: self.drafter.name,
            accept: rule.name,
            scheduler: self.scheduler.name,
            num_draft_tokens: self.max_draft,
            ngram_min: self.ngram.min_len,
            ngram_max: self.ngram.max_len,
            draft_p_min: self.min_confidence,
            sampling: request.params.clone(),
            stop: args.sampling.stop.clone(),
            max_tokens: request.max_tokens,
            ctx_size: request.context_len,
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
    if args.speculation.drafter.is_some() && !drafter.drafts() {
        return Ok(());
    }
    let SpeculationArgs { num_draft_tokens, accept, ngram_min, ngram_max, draft_p_min, .. } =
        &args.speculation;
    let flags = [
        ("-d", args.models.draft_model.is_some(), drafter.needs_model),
        ("--draft-dtype", args.models.draft_dtype.is_some(), drafter.needs_model),
        ("--draft-quant", args.models.draft_quant.is_some(), drafter.needs_model),
        ("--draft-p-min", draft_p_min.is_some(), drafter.needs_model),
        ("-k", num_draft_tokens.is_some(), drafter.drafts()),
        ("--accept", accept.is_some(), drafter.drafts()),
        ("--ngram-min", ngram_min.is_some(), drafter.uses_ngram),
        ("--ngram-max", ngram_max.is_some(), drafter.uses_ngram),
        ("--color-source", args.output.color_source, drafter.drafts()),
    ];
    match flags.iter().find(|(_, given, has_effect)| *given && !has_effect) {
        Some((flag, ..)) if drafter.drafts() => {
            Err(usage(flag, format!("has no effect with --drafter {}", drafter.name)))
        }
        Some((flag, ..)) => {
            Err(usage(flag, "has no effect without a drafter; name one with -d or --drafter".into()))
        }
        None => Ok(()),
    }
}

/// The scheduler and the longest draft that `-k` asks for.
fn draft_length(given: Option<&str>) -> Result<(&'static SchedulerKind, usize)> {
    let Some(text) = given.filter(|text| *text != "auto") else { return Ok((AUTO, AUTO_DRAFT_TOKENS)) };
    match text.parse() {
        Ok(0) => Err(usage("-k", "0 tokens cannot be drafted; plain decoding is --drafter none".to_owned())),
        Ok(number) if number <= MAX_DRAFT_TOKENS => Ok((FIXED, number)),
        Ok(number) => {
            let problem = format!("{number} is beyond the longest draft of {MAX_DRAFT_TOKENS} tokens");
            Err(usage("-k", problem))
        }
        Err(_) => Err(usage("-k", format!("`{text}` is neither a number of tokens nor `auto`"))),
    }
}

fn choose_format(args: &GenerateArgs) -> Result<&'static Format> {
    let output = &args.output;
    let many = args.prompt.prompts.is_some();
    let default = if many { "json" } else { FORMATS[0].name };
    let name = output.format.as_deref().unwrap_or(default);
    let format = FORMATS.iter().find(|format| format.name == name);
    let format = format.expect("clap admits only names of the table");
    if many && !format.replaces_text {
        return Err(usage("--prompts", "prints JSON lines; --format text has one prompt".to_owned()));
    }
    if output.rounds && format.name != "json" {
        return Err(usage("--rounds", "has an effect with --format json only".to_owned()));
    }
    if output.logprobs.is_some() && !format.replaces_text && !args.prompt.score {
        return Err(usage("--logprobs", "has an effect with --format json or jsonl only".to_owned()));
    }
    if output.color_source && format.replaces_text {
        return Err(usage("--color-source", "has an effect with --format text only".to_owned()));
    }
    Ok(format)
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
