//! What the target itself says of a token: log-probabilities of its raw logits.
//!
//! They are those of temperature 1 without any filter or penalty, so they mean the same whatever the
//! sampling parameters are, and for a drafted token the same as for any other.

use crate::kernels::total_weight;

/// A token with its log-probability.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Ranked {
    /// Token id.
    pub token: u32,
    /// Natural logarithm of its probability.
    pub logprob: f64,
}

/// Log-probabilities of a token and of the likeliest ones beside it.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct LogProbabilities {
    /// Natural logarithm of the token's probability.
    pub logprob: f64,
    /// The likeliest tokens, most likely first, the lower id first on a tie.
    pub top: Vec<Ranked>,
}

impl LogProbabilities {
    /// Of `token` in a row of raw `logits` (`[vocab]`), with the `num_top` likeliest.
    pub fn new(logits: &[f32], token: u32, num_top: usize) -> Self {
        let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let log_total = total_weight(logits, largest, 1.0).ln();
        let logprob = |logit: f32| f64::from(logit) - f64::from(largest) - log_total;
        let mut order: Vec<(u32, f32)> = (0u32..).zip(logits.iter().copied()).collect();
        let by_logit = |a: &(u32, f32), b: &(u32, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        let num_top = num_top.min(order.len());
        if num_top > 0 && num_top < order.len() {
            order.select_nth_unstable_by(num_top - 1, by_logit);
        }
        order.truncate(num_top);
        order.sort_unstable_by(by_logit);
        let top = order.into_iter().map(|(token, logit)| Ranked { token, logprob: logprob(logit) }).collect();
        Self { logprob: logprob(logits[token as usize]), top }
    }

    /// Probability of the likeliest token of a row of raw `logits`.
    pub(crate) fn confidence(logits: &[f32]) -> f64 {
        let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        total_weight(logits, largest, 1.0).recip()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_logarithms_of_probabilities() {
        let logits = [1.0f32.ln(), 4.0f32.ln(), 3.0f32.ln(), 0.0f32.ln()].map(|l| l + 5.0);
        let found = LogProbabilities::new(&logits, 2, 2);
        assert!((found.logprob.exp() - 3.0 / 8.0).abs() < 1e-6);
        assert_eq!(found.top.iter().map(|ranked| ranked.token).collect::<Vec<_>>(), [1, 2]);
        assert!((found.top[0].logprob.exp() - 0.5).abs() < 1e-6);
        assert!((LogProbabilities::confidence(&logits) - 0.5).abs() < 1e-6);
        assert_eq!(LogProbabilities::new(&logits, 3, 0).logprob, f64::NEG_INFINITY);
    }
}
