//! What a run is asked to do and what it gives back.

use super::clock::Clock;
use crate::model::CausalLm;
use crate::sampling::SamplingParams;
use crate::speculation::Round;
use crate::speculation::acceptance::AcceptanceRule;
use crate::speculation::drafter::Drafter;
use crate::speculation::schedule::Scheduler;

/// The parts a run is made of.
pub struct Setup<'a> {
    /// The model whose distribution is kept.
    pub target: &'a dyn CausalLm,
    /// What proposes.
    pub drafter: Box<dyn Drafter + 'a>,
    /// What judges.
    pub rule: Box<dyn AcceptanceRule>,
    /// What sets draft lengths.
    pub scheduler: Box<dyn Scheduler>,
    /// Where time comes from.
    pub clock: &'a dyn Clock,
}

/// One prompt and how to continue it.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// Token ids; at least one.
    pub prompt: &'a [u32],
    /// The most tokens to emit.
    pub max_tokens: usize,
    /// The most tokens prompt and continuation may have together.
    pub context_len: usize,
    /// Ids that end the text; each is emitted, and nothing after it.
    pub stop_ids: &'a [u32],
    /// How rows become distributions.
    pub params: SamplingParams,
    /// Fixes all noise.
    pub seed: u64,
    /// Number of this sequence among those of one seed.
    pub sequence: u64,
    /// Asks for log-probabilities of every emitted token, with so many of the likeliest beside it.
    pub logprobs: Option<usize>,
}

impl Request<'_> {
    /// Tokens at which the run is over for want of room.
    pub fn end(&self) -> usize {
        self.prompt.len().saturating_add(self.max_tokens).min(self.context_len)
    }

    /// The most rows a cache must hold: the last token is emitted, never read.
    pub fn run_len(&self) -> usize {
        self.end().max(self.prompt.len())
    }
}

/// Why a text ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// A stop id.
    Stop,
    /// A text that was to end it.
    StopString,
    /// As many tokens as were asked for.
    Length,
    /// The context is full.
    ContextLength,
    /// The user interrupted.
    Interrupted,
}

/// A finished run: the tokens and the raw rounds that figures are derived from.
#[derive(Debug, Clone)]
pub struct Generation {
    /// Emitted ids.
    pub tokens: Vec<u32>,
    /// Why there are no more.
    pub finish_reason: FinishReason,
    /// Every round.
    pub rounds: Vec<Round>,
    /// Tokens of the prompt.
    pub prompt_len: usize,
    /// Seconds from the start to the end of the first round.
    pub time_to_first_token_s: f64,
    /// Seconds from the start to the last token.
    pub total_s: f64,
    /// Bytes of the target's cache at the end.
    pub target_cache_bytes: usize,
    /// Bytes of the drafter's cache at the end.
    pub drafter_cache_bytes: usize,
}
