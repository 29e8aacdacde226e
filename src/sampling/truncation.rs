//! Which tokens stay after top-k, top-p, min-p and typical-p, in this order. They stay in order of id.
//!
//! No filter sorts a vocabulary: each first drops what cannot stay, and partitions what is left.

use std::cmp::Ordering;

use super::SamplingParams;
use crate::kernels::{total_weight, weight};

/// A token and its weight, `e` to the power of its score minus the largest score.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub(super) token: u32,
    pub(super) weight: f32,
}

/// Below this many candidates, sorting beats partitioning.
const FEW: usize = 32;

/// The tokens that stay, by id; none when every token does.
///
/// `largest` is the largest of `logits`, `scale` the reciprocal of the temperature.
pub(super) fn kept(
    logits: &[f32],
    largest: f32,
    scale: f32,
    params: &SamplingParams,
) -> Option<Vec<Candidate>> {
    if !params.truncates() {
        return None;
    }
    let by_rank = params.top_k > 0 && params.top_k < logits.len();
    let mut kept = if by_rank {
        let threshold = kth_largest(logits, params.top_k);
        at_least(logits, threshold, largest, scale)
    } else if params.top_p < 1.0 {
        // All tokens below this weight together have less than 1 - top_p, so none of them can stay.
        let total = total_weight(logits, largest, scale);
        let hopeless = (1.0 - params.top_p) * total / logits.len() as f64;
        let mut kept = at_least(logits, largest + lowest_score(hopeless) / scale, largest, scale);
        heaviest(&mut kept, params.top_p * total);
        kept
    } else if params.min_p > 0.0 {
        at_least(logits, largest + lowest_score(params.min_p) / scale, largest, scale)
    } else {
        at_least(logits, f32::NEG_INFINITY, largest, scale)
    };
    if params.top_p < 1.0 && by_rank {
        let total = total(&kept);
        heaviest(&mut kept, params.top_p * total);
    }
    if params.min_p > 0.0 {
        kept.retain(|candidate| f64::from(candidate.weight) >= params.min_p);
    }
    if params.typical_p < 1.0 {
        typical(&mut kept, params.typical_p);
    }
    Some(kept)
}

/// The score of a weight, a little lower so that rounding drops nothing that might stay.
#[expect(clippy::cast_possible_truncation, reason = "rounding is allowed for")]
fn lowest_score(weight: f64) -> f32 {
    weight.ln() as f32 - 1e-3
}

fn total(candidates: &[Candidate]) -> f64 {
    candidates.iter().map(|candidate| f64::from(candidate.weight)).sum()
}

/// The `k`-th largest logit.
fn kth_largest(logits: &[f32], k: usize) -> f32 {
    let capacity = (2 * k).max(256);
    let (mut largest, mut threshold) = (Vec::with_capacity(capacity), f32::NEG_INFINITY);
    let descending = |a: &f32, b: &f32| b.total_cmp(a);
    for &logit in logits {
        if logit >= threshold {
            largest.push(logit);
            if largest.len() == capacity {
                largest.select_nth_unstable_by(k - 1, descending);
                largest.truncate(k);
                threshold = largest[k - 1];
            }
        }
    }
    *largest.select_nth_unstable_by(k - 1, descending).1
}

/// The tokens whose logit is `threshold` or more.
fn at_least(logits: &[f32], threshold: f32, largest: f32, scale: f32) -> Vec<Candidate> {
    // Most parts have none, which is found without a branch per logit.
    const PART: usize = 32;
    let mut kept = Vec::new();
    for (part, first) in logits.chunks(PART).zip((0u32..).step_by(PART)) {
        let highest = part.iter().fold(f32::NEG_INFINITY, |a, &b| if b > a { b } else { a });
        if highest >= threshold {
            let stays = (first..).zip(part).filter(|(_, logit)| **logit >= threshold);
            kept.extend(
                stays.map(|(token, &logit)| Candidate { token, weight: weight(logit, largest, scale) }),
            );
        }
    }
    kept
}

/// Heavier first, then the lower id.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "sorting wants it so")]
fn by_weight(a: &Candidate, b: &Candidate) -> Ordering {
    b.weight.total_cmp(&a.weight).then(a.token.cmp(&b.token))
}

/// Keeps the fewest heaviest candidates that together weigh at least `wanted`, and at least one, in order.
fn heaviest(kept: &mut Vec<Candidate>, wanted: f64) {
    let mut candidates = kept.clone();
    // The last that stays is in `low..high`; all before `low` stay and weigh `before`.
    let (mut low, mut high, mut before) = (0, candidates.len(), 0.0);
    while high - low > FEW {
        let middle = usize::midpoint(low, high);
        candidates[low..high].select_nth_unstable_by(middle - low, by_weight);
        let mass = total(&candidates[low..middle]);
        if before + mass < wanted {
            before += mass;
            low = middle;
        } else {
            high = middle;
        }
    }
    candidates[low..high].sort_unstable_by(by_weight);
    let mut len = low;
    while len < high && (before < wanted || len == 0) {
        before += f64::from(candidates[len].weight);
        len += 1;
    }
    let last = candidates[len - 1];
    kept.retain(|candidate| by_weight(candidate, &last) != Ordering::Greater);
}

/// Keeps the candidates whose surprise is nearest the entropy, until they have `mass` of the probability,
/// and those as near as the last of them.
fn typical(candidates: &mut Vec<Candidate>, mass: f64) {
    let total = total(candidates);
    let surprise = |candidate: &Candidate| -(f64::from(candidate.weight) / total).ln();
    let probability = |candidate: &Candidate| f64::from(candidate.weight) / total;
    let entropy: f64 = candidates
        .iter()
        .filter(|candidate| candidate.weight > 0.0)
        .map(|candidate| probability(candidate) * surprise(candidate))
        .sum();
    let distance = |candidate: &Candidate| (surprise(candidate) - entropy).abs();
    let mut nearest = candidates.clone();
    nearest.sort_by(|a, b| distance(a).total_cmp(&distance(b)));
    let mut sum = 0.0;
    let last = nearest.iter().position(|candidate| {
        sum += probability(candidate);
        sum >= mass
    });
    let furthest = distance(&nearest[last.unwrap_or(nearest.len() - 1)]);
    candidates.retain(|candidate| distance(candidate) <= furthest);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(logits: &[f32], params: SamplingParams) -> Vec<u32> {
        let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let params = SamplingParams { temperature: 1.0, ..params };
        kept(logits, largest, 1.0, &params).unwrap().iter().map(|candidate| candidate.token).collect()
    }

    #[test]
    fn top_k_keeps_ties_with_the_last() {
        let params = SamplingParams { top_k: 2, ..SamplingParams::default() };
        assert_eq!(tokens(&[0.0, 3.0, 1.0, 1.0, -1.0], params), [1, 2, 3]);
    }

    #[test]
    fn top_p_keeps_the_token_that_crosses_and_the_lowest_id_of_equals() {
        // 0.4, 0.3, 0.15, 0.15
        let logits = [0.3f32.ln(), 0.15f32.ln(), 0.4f32.ln(), 0.15f32.ln()];
        let top_p = |top_p| tokens(&logits, SamplingParams { top_p, ..SamplingParams::default() });
        assert_eq!(top_p(0.0), [2]);
        assert_eq!(top_p(0.39), [2]);
        assert_eq!(top_p(0.41), [0, 2]);
        assert_eq!(top_p(0.75), [0, 1, 2]);
        assert_eq!(top_p(0.99), [0, 1, 2, 3]);
    }

    #[test]
    fn partitioning_finds_what_sorting_finds() {
        let logits: Vec<f32> = (0..3000u32).map(|i| ((i * 7919) % 997) as f32 * 0.01).collect();
        for top_p in [0.01, 0.3, 0.9, 0.999] {
            for top_k in [0, 7, 500, 3000, 9000] {
                let params = SamplingParams { top_p, top_k, temperature: 1.0, ..SamplingParams::default() };
                let mut all = at_least(&logits, f32::NEG_INFINITY, 9.96, 1.0);
                all.sort_by(by_weight);
                if top_k > 0 {
                    let last = all[top_k.min(3000) - 1].weight;
                    all.retain(|candidate| candidate.weight >= last);
                }
                let wanted = total(&all) * top_p;
                let mut sum = 0.0;
                let len = all.iter().position(|c| {
                    sum += f64::from(c.weight);
                    sum >= wanted
                });
                let mut sorted: Vec<u32> = all[..=len.unwrap()].iter().map(|c| c.token).collect();
                sorted.sort_unstable();
                assert_eq!(tokens(&logits, params), sorted, "top-p {top_p}, top-k {top_k}");
            }
        }
    }
}
