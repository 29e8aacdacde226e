//! From logits to a token: sampling parameters, the distribution they make of a row, and its noise.
//!
//! One function turns a row of logits into a `Distribution`, for target and drafter alike. All ties go
//! to the lowest token id, here and nowhere else, and a row that is not numbers is an error here.

mod distribution;
mod noise;

pub use distribution::Distribution;
pub use noise::{MAX_GUMBEL, Noise, PositionNoise};

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
