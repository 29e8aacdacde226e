//! How near a row is to keeping other tokens.
//!
//! Two passes over the same tokens may differ in the last bits. Where a filter cuts closer than that,
//! they keep different tokens, and coupled runs may part there although no perturbed scores are close.

use super::{History, SamplingParams, penalties};

/// The smallest change of scores (logits over temperature) that could change which tokens the filters of
/// `params` keep in a row of `logits` (`[vocab]`); infinite where no filter drops any.
///
/// For a share of probability c that is compared with a limit p the change is that of the log-odds of c.
pub fn cutoff_gap(logits: &[f32], params: &SamplingParams, history: History<'_>) -> f64 {
    if !params.truncates() {
        return f64::INFINITY;
    }
    let row = penalties::adjusted(logits, params, history);
    let mut scores: Vec<f64> = row.iter().map(|&logit| f64::from(logit) / params.temperature).collect();
    scores.sort_by(|a, b| b.total_cmp(a));
    let mut gap = f64::INFINITY;
    if params.top_k > 0 && params.top_k < scores.len() {
        let last = scores[params.top_k - 1];
        gap = gap.min(last - scores[params.top_k]);
        scores.retain(|score| *score >= last);
    }
    if params.top_p < 1.0 {
        let probabilities = softmax(&scores);
        let len = kept(&probabilities, params.top_p, &mut gap);
        if len < scores.len() {
            gap = gap.min(scores[len - 1] - scores[len]);
        }
        scores.truncate(len);
    }
    if params.min_p > 0.0 {
        let limit = scores[0] + params.min_p.ln();
        gap = scores.iter().map(|score| (score - limit).abs()).fold(gap, f64::min);
        scores.retain(|score| *score >= limit);
    }
    if params.typical_p < 1.0 {
        let probabilities = softmax(&scores);
        let surprise = |p: &f64| if *p > 0.0 { -p.ln() } else { f64::INFINITY };
        let entropy: f64 = probabilities.iter().filter(|p| **p > 0.0).map(|p| p * surprise(p)).sum();
        let mut typical: Vec<(f64, f64)> =
            probabilities.iter().map(|p| ((surprise(p) - entropy).abs(), *p)).collect();
        typical.sort_by(|a, b| a.0.total_cmp(&b.0));
        let ordered: Vec<f64> = typical.iter().map(|(_, p)| *p).collect();
        let len = kept(&ordered, params.typical_p, &mut gap);
        if len < typical.len() {
            gap = gap.min(typical[len].0 - typical[len - 1].0);
        }
    }
    gap.max(0.0)
}

fn softmax(scores: &[f64]) -> Vec<f64> {
    let weights: Vec<f64> = scores.iter().map(|score| (score - scores[0]).exp()).collect();
    let total: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / total).collect()
}

/// How many of the first probabilities reach `limit` together, at least one; narrows `gap` to the change
/// that would make it another number.
fn kept(probabilities: &[f64], limit: f64, gap: &mut f64) -> usize {
    let log_odds = |share: f64| share.ln() - (1.0 - share).max(0.0).ln();
    let (mut sum, mut len) = (0.0, 0);
    while len < probabilities.len() && (sum < limit || len == 0) {
        if sum > 0.0 {
            *gap = gap.min((log_odds(sum) - log_odds(limit)).abs());
        }
        sum += probabilities[len];
        len += 1;
    }
    if sum < 1.0 {
        *gap = gap.min((log_odds(sum) - log_odds(limit)).abs());
    }
    len
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gap(params: SamplingParams) -> f64 {
        // 0.5, 0.25, 0.15, 0.1
        let logits = [0.5f32, 0.25, 0.15, 0.1].map(f32::ln);
        let params = SamplingParams { temperature: 1.0, ..params };
        cutoff_gap(&logits, &params, History { emitted: &[], path: &[], prompt_len: 0 })
    }

    #[test]
    fn gaps_are_distances_to_the_cut() {
        let off = SamplingParams::default;
        assert_eq!(gap(off()), f64::INFINITY);
        assert!((gap(SamplingParams { top_k: 2, ..off() }) - (0.25f64 / 0.15).ln()).abs() < 1e-6);
        assert!(gap(SamplingParams { top_p: 0.75, ..off() }) < 1e-6, "0.5 + 0.25 is the limit itself");
        assert!(gap(SamplingParams { top_p: 0.6, ..off() }) > 0.3);
        assert!((gap(SamplingParams { min_p: 0.29, ..off() }) - (0.3f64 / 0.29).ln()).abs() < 1e-6);
        assert!(gap(SamplingParams { typical_p: 0.25, ..off() }).is_finite());
    }
}
