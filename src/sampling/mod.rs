//! From logits to a token: sampling parameters, the distribution they make of a row, and its noise.
//!
//! One function turns a row of logits into a `Distribution`, for target and drafter alike. All ties go
//! to the lowest token id, here and nowhere else, and a row that is not numbers is an error here.

mod cutoff;
mod distribution;
mod logprobs;
mod noise;
mod params;
mod penalties;
mod probabilities;
mod truncation;

pub use cutoff::cutoff_gap;
pub use distribution::Distribution;
pub use logprobs::{LogProbabilities, Ranked};
pub use noise::{MAX_GUMBEL, Noise, PositionNoise, Purpose};
pub use params::SamplingParams;
pub use probabilities::Probabilities;
pub(crate) use probabilities::pick;

/// The tokens before a row: those that were emitted, then those of the draft on the row's own path.
#[derive(Debug, Clone, Copy)]
pub struct History<'a> {
    /// Prompt and emitted tokens, the anchor last.
    pub emitted: &'a [u32],
    /// Draft tokens from the anchor down to the row.
    pub path: &'a [u32],
    /// How many of the emitted tokens are the prompt.
    pub prompt_len: usize,
}

impl History<'_> {
    /// Absolute position of the token that follows.
    pub fn next_position(&self) -> usize {
        self.emitted.len() + self.path.len()
    }
}
