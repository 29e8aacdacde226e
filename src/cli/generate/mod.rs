//! `specdec generate`: load, run, report.

mod plan;
mod prompts;
mod sampling;
mod scoring;
mod watch;

use anyhow::Result;

use super::args::GenerateArgs;
use super::models::Model;
use super::ui::{self, Output, Paint, Verbosity};
use super::{interrupt, usage};
use crate::checkpoint::Checkpoint;
use crate::decode::{self, FinishReason, Request, SystemClock};
use crate::error::ExitCode;
use crate::model::CausalLm;
use crate::report::{Report, Settings, jsonl};
use crate::sampling::SamplingParams;
use crate::speculation::acceptance::RuleKind;
use crate::speculation::{Source, pairing};
use crate::{demo, device};
use plan::Plan;
use prompts::{Encoded, Encoder, Prompt};
use watch::{Live, Watch};

/// The context of a model that does not say, in tokens.
const DEFAULT_CONTEXT: usize = 4096;

/// Runs the command.
pub(super) fn run(args: &GenerateArgs) -> Result<ExitCode> {
    let verbosity = if args.output.quiet { Verbosity::Quiet } else { Verbosity::Normal };
    let plan = Plan::new(args)?;
    let prompts = prompts::read(&args.prompt, args.models.model.is_none())?;
    let mut output = Output::open(args.output.output.as_deref())?;
    let mut trace = args.output.trace.as_deref().map(|path| Output::open(Some(path))).transpose()?;
    let target_files = match &args.models.model {
        Some(path) => Checkpoint::open(path)?,
        None => Checkpoint::built_in(&demo::TARGET)?,
    };
    let encoder = Encoder::new(&args.prompt, &target_files)?;
    if args.prompt.print_prompt {
        return print_prompts(&plan, &prompts, &encoder, &mut output);
    }
    let params = sampling::params(&args.sampling, &target_files)?;
    let rule = Plan::rule(&args.speculation, &params)?;
    if args.sampling.stop.iter().any(String::is_empty) {
        return Err(usage("--stop", "an empty text ends nothing".to_owned()));
    }
    if !args.sampling.stop.is_empty() && target_files.tokenizer.is_none() {
        let problem = format!("`{}` has no tokenizer, so there is no text", target_files.path.display());
        return Err(usage("--stop", problem));
    }
    // A prompt that cannot be encoded should not have to wait for the weights.
    let mut encoded = Vec::with_capacity(prompts.len());
    for prompt in &prompts {
        let outcome = encoder.encode(&prompt.source);
        if args.prompt.prompts.is_none() {
            encoded.push(Ok(outcome?));
        } else {
            encoded.push(outcome);
        }
    }
    let draft_files = match (plan.drafter.needs_model && !args.prompt.score, &args.models.draft_model) {
        (false, _) => None,
        (true, Some(path)) => Some(Checkpoint::open(path)?),
        (true, None) => Some(Checkpoint::built_in(&demo::DRAFTER)?),
    };
    if let Some(drafter) = &draft_files {
        pairing::check_tokenizers(&target_files, drafter)?;
    }
    let Models { target, drafter } = Models::load(args, &target_files, draft_files.as_ref(), verbosity)?;
    if encoder.uses_template() {
        let text = "prompt: through the model's chat template; --raw continues the text as it is";
        ui::note(verbosity, text);
        if encoded.iter().flatten().any(|prompt| prompt.lacks_bos) {
            let text = "note: the template begins without the token that begins a text for this tokenizer";
            ui::note(verbosity, text);
        }
    }
    let vocab_size = target.loaded.model.vocab_size();
    if let Some((id, _)) = params.logit_bias.iter().find(|(id, _)| *id as usize >= vocab_size) {
        let problem = format!("there is no token {id}; the model has {vocab_size}");
        return Err(usage("--logit-bias", problem));
    }
    let context_len = context_len(args, target.loaded.max_context)?;
    if args.prompt.score {
        let Encoded { ids, .. } = encoded.remove(0)?;
        let tokenizer = target_files.tokenizer.as_ref();
        scoring::run(args, &plan, &target, tokenizer, &ids, context_len, &mut output)?;
        return Ok(ExitCode::Done);
    }
    let mut job = Job {
        args,
        plan: &plan,
        rule,
        params,
        seed: None,
        target_files: &target_files,
        target: &target,
        drafter: drafter.as_ref(),
        context_len,
        output: &mut output,
        trace: trace.as_mut(),
        has_told_parked: false,
        verbosity,
    };
    let code = job.run_all(&prompts, encoded)?;
    output.finish()?;
    if let Some(trace) = &mut trace {
        trace.finish()?;
    }
    Ok(code)
}

/// The loaded models.
struct Models {
    target: Model,
    drafter: Option<Model>,
}

impl Models {
    /// Loads both and says what they are.
    fn load(
        args: &GenerateArgs,
        target: &Checkpoint,
        drafter: Option<&Checkpoint>,
        verbosity: Verbosity,
    ) -> Result<Self> {
        // Scoring has no rounds to end after; a signal ends it at once.
        if !args.prompt.score {
            interrupt::listen();
        }
        let (dtype, quant) = (args.models.dtype.as_deref(), args.models.quant.as_deref());
        let target = Model::load(target, "", dtype, quant)?;
        ui::note(verbosity, &format!("target: {}", target.line()));
        let (dtype, quant) = (args.models.draft_dtype.as_deref(), args.models.draft_quant.as_deref());
        let drafter = drafter.map(|files| Model::load(files, "draft-", dtype, quant)).transpose()?;
        if let Some(drafter) = &drafter {
            ui::note(verbosity, &format!("drafter: {}", drafter.line()));
        }
        Ok(Self { target, drafter })
    }
}

/// What stays the same from prompt to prompt.
struct Job<'j> {
    args: &'j GenerateArgs,
    plan: &'j Plan,
    rule: &'static RuleKind,
    params: SamplingParams,
    /// Chosen with the first prompt.
    seed: Option<u64>,
    target_files: &'j Checkpoint,
    target: &'j Model,
    drafter: Option<&'j Model>,
    context_len: usize,
    output: &'j mut Output,
    trace: Option<&'j mut Output>,
    has_told_parked: bool,
    verbosity: Verbosity,
}

impl Job<'_> {
    /// Runs every prompt. With `--prompts` one that fails has its own line, and the first failure's code
    /// is the program's.
    fn run_all(&mut self, prompts: &[Prompt], encoded: Vec<Result<Encoded>>) -> Result<ExitCode> {
        let mut worst = ExitCode::Done;
        for (number, (prompt, encoded)) in prompts.iter().zip(encoded).enumerate() {
            let outcome = encoded.and_then(|encoded| self.run(number, prompt, &encoded));
            let code = match outcome {
                Ok(code) => code,
                Err(error) if self.args.prompt.prompts.is_some() && !super::is_closed_pipe(&error) => {
                    let (id, error_text) = (&prompt.id, error.to_string());
                    let line = serde_json::json!({
                        "schema": "specdec.generate/1", "event": "error", "id": id, "error": error_text,
                    });
                    self.output.write(&format!("{line}\n"))?;
                    ui::report_error(&error)
                }
                Err(error) => return Err(error),
            };
            if code == ExitCode::Interrupted {
                worst = code;
                break;
            }
            if worst == ExitCode::Done {
                worst = code;
            }
        }
        Ok(worst)
    }

    fn run(&mut self, number: usize, prompt: &Prompt, encoded: &Encoded) -> Result<ExitCode> {
        let Self { args, plan, rule, target, drafter, target_files, .. } = *self;
        let default = || if self.params.is_greedy() { 0 } else { fresh_seed() };
        let seed = *self.seed.get_or_insert_with(|| args.sampling.seed.unwrap_or_else(default));
        let request = Request {
            prompt: &encoded.ids,
            max_tokens: args.sampling.max_tokens,
            context_len: self.context_len,
            stop_ids: if args.sampling.ignore_eos { &[] } else { target_files.eos_ids.as_slice() },
            params: self.params.clone(),
            seed,
            sequence: number as u64,
            logprobs: args.output.logprobs,
        };
        let clock = SystemClock::default();
        let mut setup = plan.setup(rule, target, drafter, &request, &clock)?;
        let settings = plan.settings(args, rule, &request);
        let live = match (plan.format.streams, plan.format.replaces_text) {
            (true, _) => Live::Events,
            (false, true) => Live::Nothing,
            (false, false) => Live::Text,
        };
        if live == Live::Events {
            let start = self.start(prompt, encoded, &settings, seed);
            self.output.write(&start)?;
        }
        let paint = Paint::new(args.output.color_source, self.output);
        let tokenizer = target_files.tokenizer.as_ref();
        let mut watch = Watch::new(
            tokenizer,
            &args.sampling.stop,
            live,
            &mut *self.output,
            self.trace.as_deref_mut(),
            paint,
        );
        let mut generation = decode::generate(&mut setup, &request, &mut watch)?;
        watch.finish()?;
        let (text, stop_string, logprobs) =
            (std::mem::take(&mut watch.text), watch.stop_string.take(), std::mem::take(&mut watch.logprobs));
        drop(watch);
        if stop_string.is_some() {
            generation.finish_reason = FinishReason::StopString;
        }

        let report = Report {
            id: prompt.id.as_ref(),
            generation: &generation,
            prompt_ids: &encoded.ids,
            prompt_text: encoded.text.as_deref(),
            text: tokenizer.is_some().then_some(text.as_str()),
            stop_string: stop_string.as_deref(),
            logprobs: args.output.logprobs.is_some().then_some(logprobs.as_slice()),
            target: &target.report,
            drafter: drafter.map(|drafter| &drafter.report),
            settings: &settings,
            seed,
            parked: setup.scheduler.parked(),
            peak_memory_bytes: device::peak_memory_bytes(),
            with_rounds: args.output.rounds,
        };
        let rendered = (plan.format.render)(&report);
        if plan.format.replaces_text {
            self.output.write(&format!("{rendered}\n"))?;
        } else if self.verbosity == Verbosity::Normal {
            self.output.end_of_text();
            ui::note(self.verbosity, &format!("\n{rendered}"));
        }
        let parked = report.parked_ever();
        if !parked.is_empty() && !self.has_told_parked {
            self.has_told_parked = true;
            ui::note(self.verbosity, &parked_note(&parked));
        }
        let was_interrupted = generation.finish_reason == FinishReason::Interrupted;
        Ok(if was_interrupted { ExitCode::Interrupted } else { ExitCode::Done })
    }

    fn start(&self, prompt: &Prompt, encoded: &Encoded, settings: &Settings, seed: u64) -> String {
        jsonl::start(&jsonl::Start {
            id: prompt.id.as_ref(),
            prompt_ids: &encoded.ids,
            prompt_text: encoded.text.as_deref(),
            target: &self.target.report,
            drafter: self.drafter.map(|drafter| &drafter.report),
            settings,
            seed,
        })
    }
}

/// What to say once when a source stops drafting.
fn parked_note(parked: &[Source]) -> String {
    let names: Vec<&str> = parked.iter().map(|source| source.0).collect();
    format!(
        "note: {} did not draft in some rounds, because drafting cost more than it gained; -k N drafts anyway",
        names.join(" and ")
    )
}

/// `--print-prompt`.
fn print_prompts(
    plan: &Plan,
    prompts: &[Prompt],
    encoder: &Encoder<'_>,
    output: &mut Output,
) -> Result<ExitCode> {
    for prompt in prompts {
        let Encoded { ids, text, .. } = encoder.encode(&prompt.source)?;
        if plan.format.replaces_text {
            let line = serde_json::json!({"id": prompt.id, "prompt": text, "prompt_ids": ids});
            output.write(&format!("{line}\n"))?;
        } else {
            let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
            output.write(&format!("{}\n\n{}\n", text.unwrap_or_default(), ids.join(",")))?;
        }
    }
    Ok(ExitCode::Done)
}

/// A seed nobody chose. 32 bits, so that every JSON reader keeps it exactly.
fn fresh_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish() >> 32
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
