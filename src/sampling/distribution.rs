//! The processed distribution of one row, and the ways to choose a token from it.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::noise::{self, PositionNoise};
use super::probabilities::Probabilities;
use super::truncation::{self, Candidate};
use super::{History, MAX_GUMBEL, SamplingParams, penalties};
use crate::error::{Error, Result};
use crate::kernels;

/// What a model says about one position, after the sampling parameters were applied.
#[derive(Debug, Clone)]
pub struct Distribution<'a> {
    /// With biases and penalties.
    logits: Cow<'a, [f32]>,
    /// Scores are logits times this; 1 when greedy.
    inverse_temperature: f64,
    argmax: u32,
    is_greedy: bool,
    /// The tokens that were not dropped, by id; none when all stay.
    kept: Option<Vec<Candidate>>,
}

impl<'a> Distribution<'a> {
    /// Applies `params` to the `logits` (`[vocab]`, f32) of the token that follows `history`.
    ///
    /// # Errors
    /// `NanLogits` when a logit is NaN or none is larger than minus infinity.
    pub fn new(logits: &'a [f32], params: &SamplingParams, history: History<'_>) -> Result<Self> {
        let position = history.next_position();
        let logits = penalties::adjusted(logits, params, history);
        let argmax = first_argmax(&logits).ok_or(Error::NanLogits { position })?;
        let inverse_temperature = if params.is_greedy() { 1.0 } else { params.temperature.recip() };
        let largest = logits[argmax as usize];
        let kept = truncation::kept(&logits, largest, single(inverse_temperature), params);
        Ok(Self { logits, inverse_temperature, argmax, is_greedy: params.is_greedy(), kept })
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
        // The arg-max is never dropped by a filter but typical-p; any kept token may be the first bound.
        let start = match &self.kept {
            Some(kept) => kept[0].token,
            None => self.argmax,
        };
        let mut best = (self.perturbed(start, noise), start);
        match &self.kept {
            Some(kept) => kept.iter().for_each(|candidate| self.challenge(candidate.token, noise, &mut best)),
            None => {
                for token in 0..u32::try_from(self.logits.len()).expect("a vocabulary has 32-bit ids") {
                    self.challenge(token, noise, &mut best);
                }
            }
        }
        best.1
    }

    /// Makes `token` the best if its perturbed score is larger, or equal and its id lower.
    #[inline]
    fn challenge(&self, token: u32, noise: PositionNoise, best: &mut (f64, u32)) {
        let score = self.score(token);
        if score + MAX_GUMBEL < best.0 {
            return;
        }
        let bits = noise.bits(token);
        if score + noise::gumbel_bound(bits) < best.0 {
            return;
        }
        let perturbed = score + noise::gumbel(bits);
        let wins = match perturbed.total_cmp(&best.0) {
            Ordering::Greater => true,
            Ordering::Equal => token < best.1,
            Ordering::Less => false,
        };
        if wins {
            *best = (perturbed, token);
        }
    }

    /// The token plain decoding takes here: `coupled`, or the arg-max at temperature 0.
    pub fn choose(&self, noise: PositionNoise) -> u32 {
        if self.is_greedy { self.argmax } else { self.coupled(noise) }
    }

    fn score(&self, token: u32) -> f64 {
        f64::from(self.logits[token as usize]) * self.inverse_temperature
    }

    /// Score plus noise of one token: what `coupled` maximises over the tokens that were kept.
    pub fn perturbed(&self, token: u32, noise: PositionNoise) -> f64 {
        self.score(token) + noise.gumbel(token)
    }

    /// Whether the filters kept a token.
    pub fn keeps(&self, token: u32) -> bool {
        self.kept.as_ref().is_none_or(|kept| kept.binary_search_by_key(&token, |c| c.token).is_ok())
    }

    /// The probabilities a token is drawn from; at temperature 0 all on the arg-max.
    pub fn probabilities(&self) -> Probabilities {
        if self.is_greedy {
            return Probabilities::certain(self.argmax);
        }
        if let Some(kept) = &self.kept {
            let (tokens, weights) = kept.iter().map(|candidate| (candidate.token, candidate.weight)).unzip();
            return Probabilities::new(Some(tokens), weights);
        }
        let (largest, scale) = (self.logits[self.argmax as usize], single(self.inverse_temperature));
        let weights = self.logits.iter().map(|&logit| kernels::weight(logit, largest, scale));
        Probabilities::new(None, weights.collect())
    }
}

/// The precision of weights, which are sums of differences of single-precision logits anyway.
#[expect(clippy::cast_possible_truncation, reason = "rounding is meant")]
fn single(value: f64) -> f32 {
    value as f32
}

/// The lowest index of the largest value; none when a value is NaN or all are minus infinity.
fn first_argmax(logits: &[f32]) -> Option<u32> {
    // In lanes, so that it becomes vector code.
    const LANES: usize = 16;
    let (mut largest, mut is_nan) = ([f32::NEG_INFINITY; LANES], [false; LANES]);
    let mut parts = logits.chunks_exact(LANES);
    for part in &mut parts {
        for (lane, &logit) in part.iter().enumerate() {
            largest[lane] = if logit > largest[lane] { logit } else { largest[lane] };
            is_nan[lane] |= logit.is_nan();
        }
    }
    let rest = parts.remainder();
    if is_nan.contains(&true) || rest.iter().any(|logit| logit.is_nan()) {
        return None;
    }
    let largest = largest.iter().chain(rest).copied().fold(f32::NEG_INFINITY, f32::max);
    let first = logits.iter().position(|logit| *logit == largest && largest > f32::NEG_INFINITY);
    first.and_then(|index| u32::try_from(index).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::Noise;

    const START: History<'_> = History { emitted: &[], path: &[], prompt_len: 0 };

    fn sampled(temperature: f64) -> SamplingParams {
        SamplingParams { temperature, ..SamplingParams::default() }
    }

    #[test]
    fn ties_go_to_the_lowest_id() {
        let row = [0.5, 2.0, 2.0, 1.0];
        assert_eq!(Distribution::new(&row, &SamplingParams::default(), START).unwrap().argmax(), 1);
    }

    #[test]
    fn rows_that_are_not_numbers_are_errors() {
        for row in [vec![1.0, f32::NAN], vec![f32::NEG_INFINITY; 3], vec![]] {
            let history = History { emitted: &[1; 7], path: &[2; 2], prompt_len: 7 };
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
            let (seen, p) = (f64::from(count) / f64::from(total), row.probabilities().get(token));
            assert!((seen - p).abs() < 0.01, "token {token}: {seen} against {p}");
        }
        assert_eq!(counts[4], 0);
    }
}
