//! Figures of a run and the formats they are shown in.
//!
//! A report keeps raw rounds; every figure is derived from them on the way out, in one place.
//! To add a format: a file with a function from `Report` to text, and a line in `FORMATS`.

mod json;
pub mod jsonl;
mod summary;
mod text;

use serde::Serialize;

pub use summary::{SourceSummary, Summary};

use crate::decode::{FinishReason, Generation};
use crate::sampling::{LogProbabilities, SamplingParams};
use crate::speculation::Source;

/// One model as a report names it.
#[derive(Debug, Clone, Serialize)]
pub struct ModelReport {
    /// One line: what its attention is.
    pub class: String,
    /// As the user named it.
    pub path: String,
    /// Commit of a downloaded model; none for local files.
    pub revision: Option<String>,
    /// Container and storage types of the weights.
    pub format: String,
    /// Where it runs.
    pub device: String,
}

/// The settings that produced a run.
#[derive(Debug, Clone, Serialize)]
pub struct Settings {
    /// Drafter's table name.
    pub drafter: &'static str,
    /// Acceptance rule's table name.
    pub accept: &'static str,
    /// Scheduler's table name.
    pub scheduler: &'static str,
    /// Longest draft.
    pub num_draft_tokens: usize,
    /// Shortest match of prompt lookup, in tokens.
    pub ngram_min: usize,
    /// Longest match prompt lookup looks at, in tokens.
    pub ngram_max: usize,
    /// Confidence below which a drafter's model stops; 0 is off.
    pub draft_p_min: f64,
    /// Sampling parameters.
    #[serde(flatten)]
    pub sampling: SamplingParams,
    /// Strings that end the text.
    pub stop: Vec<String>,
    /// The most tokens asked for.
    pub max_tokens: usize,
    /// The most tokens of prompt and text together.
    pub ctx_size: usize,
    /// Whether end-of-sequence ids were ignored.
    pub ignore_eos: bool,
    /// Threads the backend uses.
    pub threads: usize,
}

/// Everything known of one finished run.
pub struct Report<'a> {
    /// `id` of the prompt's line, in a file of prompts.
    pub id: Option<&'a serde_json::Value>,
    /// The run.
    pub generation: &'a Generation,
    /// Prompt ids.
    pub prompt_ids: &'a [u32],
    /// Text of the prompt, rendered, where it was one.
    pub prompt_text: Option<&'a str>,
    /// Text, where there is a tokenizer.
    pub text: Option<&'a str>,
    /// The stop string that ended it.
    pub stop_string: Option<&'a str>,
    /// Log-probabilities of every emitted token, where asked for.
    pub logprobs: Option<&'a [LogProbabilities]>,
    /// The target.
    pub target: &'a ModelReport,
    /// The drafter's model, where it has one.
    pub drafter: Option<&'a ModelReport>,
    /// Settings.
    pub settings: &'a Settings,
    /// Seed of all noise.
    pub seed: u64,
    /// Sources that were not drafting at the end, because it cost more than it gained.
    pub parked: Vec<Source>,
    /// Peak resident memory of the process in bytes, where the system tells.
    pub peak_memory_bytes: Option<u64>,
    /// Whether to print every round.
    pub with_rounds: bool,
}

impl Report<'_> {
    /// The figures.
    pub fn summary(&self) -> Summary {
        Summary::new(self.generation)
    }

    /// Sources that were not drafting in some round, because it cost more than it gained.
    pub fn parked_ever(&self) -> Vec<Source> {
        let mut parked: Vec<Source> = Vec::new();
        for source in self.generation.rounds.iter().flat_map(|round| &round.parked) {
            if !parked.contains(source) {
                parked.push(*source);
            }
        }
        parked
    }

    fn finish_reason(&self) -> FinishReason {
        self.generation.finish_reason
    }
}

/// A format of `specdec generate`.
pub struct Format {
    /// Value of `--format`.
    pub name: &'static str,
    /// One line of help.
    pub about: &'static str,
    /// Whether the report replaces the text on standard output; else it goes to standard error.
    pub replaces_text: bool,
    /// Whether events are written while the text grows; the report is then the last of them.
    pub streams: bool,
    /// Writes the report.
    pub render: fn(&Report<'_>) -> String,
}

/// Every format, in the order help shows them.
pub const FORMATS: &[Format] = &[
    Format {
        name: "text",
        about: "the text as it is made; figures on standard error",
        replaces_text: false,
        streams: false,
        render: text::render,
    },
    Format {
        name: "json",
        about: "one JSON object",
        replaces_text: true,
        streams: false,
        render: json::render,
    },
    Format {
        name: "jsonl",
        about: "events as they come, one JSON object per line: start, tokens, rounds, end",
        replaces_text: true,
        streams: true,
        render: jsonl::render,
    },
];
