//! From logits to a token: sampling parameters, the distribution they make of a row, and its noise.
//!
//! One function turns a row of logits into a `Distribution`, for target and drafter alike. All ties go
//! to the lowest token id, here and nowhere else, and a row that is not numbers is an error here.

mod distribution;
mod noise;

pub use distribution::Distribution;
pub use noise::{MAX_GUMBEL, Noise, PositionNoise};

/// The tokens before a row: those that were emitted, then those of the draft on the row's own path.
#[derive(Debug, Clone, Copy)]
pub struct History<'a> {
    /// Prompt and emitted tokens, the anchor last.
    pub emitted: &'a [u32],
    /// Draft tokens from the anchor down to the row.
    pub path: &'a [u32],
}

impl History<'_> {
    /// Absolute position of the token that follows.
    pub fn next_position(&self) -> usize {
        self.emitted.len() + self.path.len()
    }
}

/// How a row of logits becomes a distribution.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplingParams {
    /// Divides the logits; 0 means the arg-max.
    pub temperature: f64,
}

impl Default for SamplingParams {
    fn default() -> Self {
        Self { temperature: 0.0 }
    }
}

impl SamplingParams {
    /// Whether the text does not depend on noise.
    pub fn is_greedy(&self) -> bool {
        self.temperature == 0.0
    }
}
