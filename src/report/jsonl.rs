//! `specdec.generate.events/1`: one JSON object per line while a run goes on: start, tokens, rounds, end.

use serde::Serialize;
use serde_json::Value;

use super::{ModelReport, Report, Settings};
use crate::decode::Emitted;
use crate::sampling::Ranked;
use crate::speculation::{Round, Source};

/// What is known before the first token.
#[derive(Serialize)]
pub struct Start<'a> {
    /// `id` of the prompt's line, in a file of prompts.
    pub id: Option<&'a Value>,
    /// Prompt ids.
    pub prompt_ids: &'a [u32],
    /// Text of the prompt, rendered.
    pub prompt_text: Option<&'a str>,
    /// The target.
    pub target: &'a ModelReport,
    /// The drafter's model, where it has one.
    pub drafter: Option<&'a ModelReport>,
    /// Settings.
    pub settings: &'a Settings,
    /// Seed of all noise.
    pub seed: u64,
}

#[derive(Serialize)]
struct Event<T: Serialize> {
    event: &'static str,
    #[serde(flatten)]
    body: T,
}

#[derive(Serialize)]
struct First<'a> {
    schema: &'static str,
    version: &'static str,
    #[serde(flatten)]
    start: &'a Start<'a>,
}

#[derive(Serialize)]
struct Token<'a> {
    index: usize,
    #[serde(rename = "token_id")]
    id: u32,
    /// Text that became certain with it.
    text: &'a str,
    source: Option<Source>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logprob: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top: Option<&'a [Ranked]>,
}

#[derive(Serialize)]
struct Numbered<'a> {
    index: usize,
    #[serde(flatten)]
    round: &'a Round,
}

fn line(event: &'static str, body: impl Serialize) -> String {
    let line = serde_json::to_string(&Event { event, body });
    line.expect("events have string keys and finite or null numbers") + "\n"
}

/// The first event.
pub fn start(start: &Start<'_>) -> String {
    let schema = "specdec.generate.events/1";
    line("start", First { schema, version: env!("CARGO_PKG_VERSION"), start })
}

/// A token was emitted.
pub fn token(index: usize, emitted: &Emitted, text: &str) -> String {
    let logprobs = emitted.logprobs.as_ref();
    line(
        "token",
        Token {
            index,
            id: emitted.token,
            text,
            source: emitted.source,
            logprob: logprobs.map(|found| found.logprob),
            top: logprobs.map(|found| found.top.as_slice()),
        },
    )
}

#[derive(Serialize)]
struct Rest<'a> {
    text: &'a str,
}

/// Text that was held back for a character or stop string that did not come.
pub fn rest(text: &str) -> String {
    line("text", Rest { text })
}

/// A round is over.
pub fn round(index: usize, round: &Round) -> String {
    line("round", Numbered { index, round })
}

/// The last event, which has the figures of `--format json`.
pub(super) fn render(report: &Report<'_>) -> String {
    let body: Value = serde_json::from_str(&super::json::render(report)).expect("a report is a JSON object");
    line("end", body).trim_end().to_owned()
}
