//! The processed distribution of one row, and the ways to choose a token from it.

use std::cmp::Ordering;

use super::noise::{self, PositionNoise};
use super::{History, MAX_GUMBEL, SamplingParams};
use crate::error::{Error, Result};

/// What a model says about one position, after the sampling parameters were applied.
#[derive(Debug, Clone)]
pub struct Distribution<'a> {
    logits: &'a [f32],
    /// Scores are logits times this; 1 when greedy.
    inverse_temperature: f64,
    argmax: u32,
    is_greedy: bool,
}

impl<'a> Distribution<'a> {
    /// Applies `params` to the `logits` (`[vocab]`, f32) of the token that follows `history`.
    ///
    /// # Errors
    /// `NanLogits` when a logit is NaN or none is larger than minus infinity.
    pub fn new(logits: &'a [f32], params: &SamplingParams, history: History<'_>) -> Result<Self> {
        let position = history.next_position();
        let argmax = first_argmax(logits).ok_or(Error::NanLogits { position })?;
        let inverse_temperature = if params.is_greedy() { 1.0 } else { params.temperature.recip() };
        Ok(Self { logits, inverse_temperature, argmax, is_greedy: params.is_greedy() })
    }

    /// The most likely token, the lowest id on a tie.
    pub fn argmax(&self) -> u32 {
        self.argmax
    }

    /// The token with the largest log-probability plus Gumbel noise: a sample, fixed by the noise.
    ///
    /// Noise is drawn only for tokens that can still win: the best score so far bounds what a token's
    /// noise would have to be, and the leading zeros of its bits bound what it is.
    pub fn coupled(&self, noise: PositionNoise) -> u32 {
        let mut best_token = self.argmax;
        let mut best = self.perturbed(best_token, noise);
        for (token, &logit) in (0u32..).zip(self.logits) {
            let score = f64::from(logit) * self.inverse_temperature;
            if score + MAX_GUMBEL < best {
                continue;
            }
            let bits = noise.bits(token);
            if score + noise::gumbel_bound(bits) < best {
                continue;
            }
            let perturbed = score + noise::gumbel(bits);
            let wins = match perturbed.total_cmp(&best) {
                Ordering::Greater => true,
                Ordering::Equal => token < best_token,
                Ordering::Less => false,
            };
            if wins {
                (best, best_token) = (perturbed, token);
            }
        }
        best_token
    }

    /// The token plain decoding takes here: `coupled`, or the arg-max at temperature 0.
    pub fn choose(&self, noise: PositionNoise) -> u32 {
        if self.is_greedy { self.argmax } else { self.coupled(noise) }
    }

    /// Score plus noise of one token: what `coupled` maximises.
    pub fn perturbed(&self, token: u32, noise: PositionNoise) -> f64 {
        f64::from(self.logits[token as usize]) * self.inverse_temperature + noise.gumbel(token)
    }

    /// Natural logarithm of the probability of one token.
    pub fn log_probability(&self, token: u32) -> f64 {
        let largest = f64::from(self.logits[self.argmax as usize]) * self.inverse_temperature;
        let total: f64 =
            self.logits.iter().map(|&l| (f64::from(l) * self.inverse_temperature - largest).exp()).sum();
        f64::from(self.logits[token as usize]) * self.inverse_temperature - largest - total.ln()
    }
}

/// The lowest index of the largest value; none when a value is NaN or all are minus infinity.
fn first_argmax(logits: &[f32]) -> Option<u32> {
    let (mut best, mut largest) = (None, f32::NEG_INFINITY);
    for (token, &logit) in (0u32..).zip(logits) {
        if logit.is_nan() {
            return None;
        }
        if logit > largest {
            (best, largest) = (Some(token), logit);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::Noise;

    const START: History<'_> = History { emitted: &[], path: &[] };

    fn sampled(temperature: f64) -> SamplingParams {
        SamplingParams { temperature }
    }

    #[test]
    fn ties_go_to_the_lowest_id() {
        let row = [0.5, 2.0, 2.0, 1.0];
        assert_eq!(Distribution::new(&row, &SamplingParams::default(), START).unwrap().argmax(), 1);
    }

    #[test]
    fn rows_that_are_not_numbers_are_errors() {
        for row in [vec![1.0, f32::NAN], vec![f32::NEG_INFINITY; 3], vec![]] {
            let history = History { emitted: &[1; 7], path: &[2; 2] };
            let problem = Distribution::new(&row, &sampled(1.0), history).unwrap_err();
            assert!(matches!(problem, Error::NanLogits { position: 9 }));
        }
    }

    #[test]
    fn skipping_hopeless_tokens_changes_nothing() {
        let logits: Vec<f32> = (0..500).map(|i| ((i * 7919) % 101) as f32 * 0.13 - 6.0).collect();
        for temperature in [0.3, 1.0, 4.0] {
            let params = sampled(temperature);
            let row = Distribution::new(&logits, &params, START).unwrap();
            for position in 0..200 {
                let noise = Noise::new(7, 0).at(position);
                let all = (0..500u32)
                    .max_by(|a, b| row.perturbed(*a, noise).total_cmp(&row.perturbed(*b, noise)))
                    .unwrap();
                assert_eq!(row.coupled(noise), all);
            }
        }
    }

    #[test]
    fn coupled_tokens_have_the_right_marginal() {
        let logits = [0.0f32, 1.0, 2.0, -1.0, f32::NEG_INFINITY];
        let params = sampled(0.7);
        let row = Distribution::new(&logits, &params, START).unwrap();
        let mut counts = [0u32; 5];
        let total = 40_000u32;
        for position in 0..total {
            counts[row.coupled(Noise::new(3, 0).at(position as usize)) as usize] += 1;
        }
        for (token, count) in (0u32..).zip(counts) {
            let (seen, p) = (f64::from(count) / f64::from(total), row.log_probability(token).exp());
            assert!((seen - p).abs() < 0.01, "token {token}: {seen} against {p}");
        }
        assert_eq!(counts[4], 0);
    }
}
