//! Sampling parameters from flags and, where asked for, from the model's own recommendation.

use anyhow::Result;
use serde_json::Value;

use crate::checkpoint::Checkpoint;
use crate::cli::args::SamplingArgs;
use crate::cli::usage;
use crate::error::Error;
use crate::sampling::SamplingParams;

/// Flags over recommendation over defaults.
pub(super) fn params(args: &SamplingArgs, target: &Checkpoint) -> Result<SamplingParams> {
    let is_recommended = args.sampling.as_deref() == Some("recommended");
    let base = if is_recommended { recommended(target)? } else { SamplingParams::default() };
    let logit_bias = args.logit_bias.iter().map(|text| logit_bias(text)).collect::<Result<_>>()?;
    let params = SamplingParams {
        logit_bias,
        repetition_penalty: args.repetition_penalty.unwrap_or(base.repetition_penalty),
        frequency_penalty: args.frequency_penalty.unwrap_or(base.frequency_penalty),
        presence_penalty: args.presence_penalty.unwrap_or(base.presence_penalty),
        temperature: args.temperature.unwrap_or(base.temperature),
        top_k: args.top_k.unwrap_or(base.top_k),
        top_p: args.top_p.unwrap_or(base.top_p),
        min_p: args.min_p.unwrap_or(base.min_p),
        typical_p: args.typical_p.unwrap_or(base.typical_p),
    };
    match params.problem() {
        Some(("temperature", problem)) => Err(usage("--temp", problem)),
        Some((name, problem)) => Err(usage(&format!("--{}", name.replace('_', "-")), problem)),
        None => Ok(params),
    }
}

/// `ID=BIAS`.
fn logit_bias(text: &str) -> Result<(u32, f32)> {
    let parsed = text.split_once('=').and_then(|(id, bias)| Some((id.parse().ok()?, bias.parse().ok()?)));
    match parsed {
        Some((id, bias)) if !f32::is_nan(bias) && bias < f32::INFINITY => Ok((id, bias)),
        _ => Err(usage("--logit-bias", format!("`{text}` is not a token id, `=` and a number"))),
    }
}

/// What `generation_config.json` says; what it does not say is off.
fn recommended(target: &Checkpoint) -> Result<SamplingParams> {
    let Some(config) = target.generation_config.as_ref().and_then(Value::as_object) else {
        let problem =
            format!("`{}` has no generation_config.json with recommendations", target.path.display());
        return Err(usage("--sampling", problem));
    };
    let malformed = |key: &str, problem: String| Error::Malformed {
        path: target.path.join("generation_config.json"),
        problem: format!("`{key}`: {problem}"),
    };
    let number = |key: &str, default: f64| match config.get(key) {
        None | Some(Value::Null) => Ok(default),
        Some(value) => value.as_f64().ok_or_else(|| malformed(key, format!("{value} is not a number"))),
    };
    let off = SamplingParams::default();
    let samples = config.get("do_sample").and_then(Value::as_bool).unwrap_or(false);
    let top_k = match config.get("top_k") {
        None | Some(Value::Null) => 0,
        Some(value) => value
            .as_u64()
            .and_then(|k| usize::try_from(k).ok())
            .ok_or_else(|| malformed("top_k", format!("{value} is not a count")))?,
    };
    let params = SamplingParams {
        temperature: if samples { number("temperature", 1.0)? } else { 0.0 },
        top_k,
        top_p: number("top_p", off.top_p)?,
        min_p: number("min_p", off.min_p)?,
        typical_p: number("typical_p", off.typical_p)?,
        repetition_penalty: number("repetition_penalty", off.repetition_penalty)?,
        ..off
    };
    match params.problem() {
        Some((key, problem)) => Err(malformed(key, problem).into()),
        None => Ok(params),
    }
}
