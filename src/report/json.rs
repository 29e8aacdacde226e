//! `specdec.generate/1`: one JSON object with everything, raw rounds where asked for.

use serde::Serialize;

use super::{ModelReport, Report, Settings, Summary};
use crate::decode::FinishReason;
use crate::sampling::LogProbabilities;
use crate::speculation::{Round, Source};

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a serde_json::Value>,
    prompt_text: Option<&'a str>,
    prompt_ids: &'a [u32],
    token_ids: &'a [u32],
    text: Option<&'a str>,
    finish_reason: FinishReason,
    stop_string: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logprobs: Option<&'a [LogProbabilities]>,
    target: &'a ModelReport,
    drafter: Option<&'a ModelReport>,
    settings: &'a Settings,
    seed: u64,
    stats: Stats,
    #[serde(skip_serializing_if = "Option::is_none")]
    rounds: Option<&'a [Round]>,
}

#[derive(Serialize)]
struct Stats {
    #[serde(flatten)]
    summary: Summary,
    /// Sources that were parked at the end, and in any round.
    parked: Vec<Source>,
    parked_ever: Vec<Source>,
    target_cache_bytes: usize,
    drafter_cache_bytes: usize,
    peak_memory_bytes: Option<u64>,
}

pub(super) fn render(report: &Report<'_>) -> String {
    let document = Document {
        schema: "specdec.generate/1",
        version: env!("CARGO_PKG_VERSION"),
        id: report.id,
        prompt_text: report.prompt_text,
        prompt_ids: report.prompt_ids,
        token_ids: &report.generation.tokens,
        text: report.text,
        finish_reason: report.finish_reason(),
        stop_string: report.stop_string,
        logprobs: report.logprobs,
        target: report.target,
        drafter: report.drafter,
        settings: report.settings,
        seed: report.seed,
        stats: Stats {
            summary: report.summary(),
            parked: report.parked.clone(),
            parked_ever: report.parked_ever(),
            target_cache_bytes: report.generation.target_cache_bytes,
            drafter_cache_bytes: report.generation.drafter_cache_bytes,
            peak_memory_bytes: report.peak_memory_bytes,
        },
        rounds: report.with_rounds.then_some(report.generation.rounds.as_slice()),
    };
    serde_json::to_string(&document).expect("a report has string keys and finite or null numbers")
}
