//! Figures derived from raw rounds by pure functions. Every report and comparison takes them from here.
//!
//! A *round* is one target pass while decoding; a *draft round* is one that had a draft. For a tree, a
//! position is a depth.

use serde::Serialize;

use crate::decode::Generation;
use crate::speculation::Round;

/// Drafted and accepted tokens of one source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SourceSummary {
    /// The drafter that proposed them.
    pub source: &'static str,
    /// Tokens proposed.
    pub drafted: usize,
    /// Tokens emitted.
    pub accepted: usize,
}

/// The figures of one run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Tokens emitted.
    pub emitted: usize,
    /// Target passes while decoding.
    pub rounds: usize,
    /// Rounds that had a draft.
    pub draft_rounds: usize,
    /// Rounds in which nothing was to draft, because it costs more than it gains.
    pub parked_rounds: usize,
    /// Share of those rounds in the time of all rounds after the first.
    pub parked_share: Option<f64>,
    /// Draft tokens proposed and judged.
    pub drafted: usize,
    /// Draft tokens proposed behind the end of the text; in no other figure.
    pub discarded: usize,
    /// Draft tokens emitted; what a stop cut off does not count.
    pub accepted: usize,
    /// accepted / drafted, in [0, 1]; null without drafts.
    pub acceptance_rate: Option<f64>,
    /// Tau: 1 + accepted / draft rounds; null without drafts.
    pub acceptance_length: Option<f64>,
    /// emitted / rounds.
    pub tokens_per_pass: Option<f64>,
    /// Draft rounds that accepted position k (from 1) / draft rounds; their sum is tau - 1.
    pub acceptance_by_position: Vec<f64>,
    /// Rounds that accepted position k / rounds whose draft reached k with all before it accepted; null
    /// where no draft did.
    pub acceptance_by_position_given_reached: Vec<Option<f64>>,
    /// By drafter, in order of appearance.
    pub sources: Vec<SourceSummary>,
    /// Seconds from the end of loading to the first token (the end of the first round).
    pub time_to_first_token_s: f64,
    /// Prompt tokens per second up to the first token.
    pub prefill_tokens_per_s: Option<f64>,
    /// Tokens emitted after the first round per second of the rounds after it; null when there were none.
    pub decode_tokens_per_s: Option<f64>,
    /// Seconds from the end of loading to the last token.
    pub total_s: f64,
    /// Seconds of drafting in the rounds after the first, which reads the prompt.
    pub draft_s: f64,
    /// Seconds of target passes in the rounds after the first.
    pub verify_s: f64,
    /// Seconds of everything else in the rounds after the first.
    pub other_s: f64,
}

impl Summary {
    /// Derives all figures.
    pub fn new(generation: &Generation) -> Self {
        let rounds = &generation.rounds;
        let drafting: Vec<&Round> = rounds.iter().filter(|round| !round.draft.is_empty()).collect();
        let (num_rounds, num_drafting) = (rounds.len(), drafting.len());
        let drafted: usize = drafting.iter().map(|round| round.drafted().count()).sum();
        let discarded: usize = drafting.iter().map(|round| round.draft.len()).sum::<usize>() - drafted;
        let accepted: usize = drafting.iter().map(|round| round.accepted).sum();
        let emitted = generation.tokens.len();
        let longest = drafting.iter().map(|round| round.max_depth()).max().unwrap_or(0);
        let at = |k: usize| drafting.iter().filter(|round| round.accepted >= k).count();
        let reached = |k: usize| drafting.iter().filter(|round| round.tested(k)).count();
        let decode_s: f64 = rounds.iter().skip(1).map(Round::total_s).sum();
        let is_parked = |round: &&Round| round.budget == 0 && !round.parked.is_empty();
        let parked: Vec<f64> = rounds.iter().skip(1).filter(is_parked).map(Round::total_s).collect();
        let decode_tokens: usize = rounds.iter().skip(1).map(|round| round.emitted).sum();
        Self {
            prompt_tokens: generation.prompt_len,
            emitted,
            rounds: num_rounds,
            draft_rounds: num_drafting,
            parked_rounds: parked.len(),
            parked_share: (decode_s > 0.0).then(|| parked.iter().sum::<f64>() / decode_s),
            drafted,
            discarded,
            accepted,
            acceptance_rate: ratio(accepted, drafted),
            acceptance_length: ratio(accepted, num_drafting).map(|mean| 1.0 + mean),
            tokens_per_pass: ratio(emitted, num_rounds),
            acceptance_by_position: (1..=longest).filter_map(|k| ratio(at(k), num_drafting)).collect(),
            acceptance_by_position_given_reached: (1..=longest).map(|k| ratio(at(k), reached(k))).collect(),
            sources: sources(&drafting),
            time_to_first_token_s: generation.time_to_first_token_s,
            prefill_tokens_per_s: per_s(generation.prompt_len, generation.time_to_first_token_s),
            decode_tokens_per_s: if decode_tokens > 0 { per_s(decode_tokens, decode_s) } else { None },
            total_s: generation.total_s,
            draft_s: rounds.iter().skip(1).map(|round| round.draft_s).sum(),
            verify_s: rounds.iter().skip(1).map(|round| round.verify_s).sum(),
            other_s: rounds.iter().skip(1).map(|round| round.other_s).sum(),
        }
    }

    /// Shares of drafting, verifying and everything else in the time of the rounds after the first.
    pub fn time_shares(&self) -> Option<[f64; 3]> {
        let total = self.draft_s + self.verify_s + self.other_s;
        (total > 0.0).then(|| [self.draft_s / total, self.verify_s / total, self.other_s / total])
    }
}

fn sources(drafting: &[&Round]) -> Vec<SourceSummary> {
    let mut sources: Vec<SourceSummary> = Vec::new();
    for token in drafting.iter().flat_map(|round| round.drafted()) {
        let index = sources.iter().position(|known| known.source == token.source.0).unwrap_or_else(|| {
            sources.push(SourceSummary { source: token.source.0, drafted: 0, accepted: 0 });
            sources.len() - 1
        });
        sources[index].drafted += 1;
        sources[index].accepted += usize::from(token.accepted);
    }
    sources
}

#[expect(clippy::cast_precision_loss, reason = "counts of tokens are far below 2^52")]
fn ratio(part: usize, whole: usize) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[expect(clippy::cast_precision_loss, reason = "counts of tokens are far below 2^52")]
fn per_s(count: usize, seconds: f64) -> Option<f64> {
    (seconds > 0.0).then(|| count as f64 / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::FinishReason;
    use crate::speculation::{DraftedToken, Source};

    /// A round with a chain of `drafted` tokens of which `accepted` were emitted.
    fn round(drafted: usize, accepted: usize, corrected: bool, emitted: usize) -> Round {
        let token = |depth| DraftedToken {
            token: 7,
            depth,
            source: Source(if depth % 2 == 0 { "b" } else { "a" }),
            accepted: depth <= accepted,
            discarded: emitted <= accepted && depth > accepted,
        };
        Round {
            anchor_position: 0,
            prompt_rows: 0,
            budget: drafted,
            parked: Vec::new(),
            draft: (1..=drafted).map(token).collect(),
            accepted,
            corrected,
            emitted,
            draft_s: 1.0,
            verify_s: 2.0,
            other_s: 1.0,
        }
    }

    fn summary(rounds: Vec<Round>) -> Summary {
        let emitted = rounds.iter().map(|round| round.emitted).sum();
        Summary::new(&Generation {
            tokens: vec![7; emitted],
            finish_reason: FinishReason::Length,
            rounds,
            prompt_len: 10,
            time_to_first_token_s: 5.0,
            total_s: 20.0,
            target_cache_bytes: 0,
            drafter_cache_bytes: 0,
        })
    }

    #[test]
    fn figures_of_a_worked_example() {
        // 3 of 3 and a bonus; 1 of 3 and a correction; no draft.
        let summary = summary(vec![round(3, 3, false, 4), round(3, 1, true, 2), round(0, 0, false, 1)]);
        assert_eq!((summary.rounds, summary.draft_rounds, summary.drafted, summary.accepted), (3, 2, 6, 4));
        assert_eq!(summary.acceptance_rate, Some(4.0 / 6.0));
        assert_eq!(summary.acceptance_length, Some(3.0));
        assert_eq!(summary.tokens_per_pass, Some(7.0 / 3.0));
        assert_eq!(summary.acceptance_by_position, [1.0, 0.5, 0.5]);
        assert_eq!(summary.acceptance_by_position_given_reached, [Some(1.0), Some(0.5), Some(1.0)]);
        assert_eq!(summary.prefill_tokens_per_s, Some(2.0));
        assert_eq!(summary.decode_tokens_per_s, Some(3.0 / 8.0));
        let by_source: Vec<_> = summary.sources.iter().map(|s| (s.source, s.drafted, s.accepted)).collect();
        assert_eq!(by_source, [("a", 4, 3), ("b", 2, 1)]);
    }

    #[test]
    fn tau_is_one_plus_the_sum_over_positions() {
        let rounds = (0..20).map(|i| round(1 + i % 4, (i * 7) % (2 + i % 4), true, 9)).collect();
        let summary = summary(rounds);
        let sum: f64 = summary.acceptance_by_position.iter().sum();
        assert!((summary.acceptance_length.unwrap() - 1.0 - sum).abs() < 1e-12);
    }

    #[test]
    fn tokens_behind_a_stop_are_in_no_figure() {
        // The second of four accepted tokens ended the text: nothing was refused.
        let summary = summary(vec![round(4, 2, false, 2)]);
        assert_eq!((summary.drafted, summary.discarded, summary.accepted), (2, 2, 2));
        assert_eq!(summary.acceptance_rate, Some(1.0));
        assert_eq!(summary.acceptance_by_position, [1.0, 1.0]);
        assert_eq!(summary.acceptance_by_position_given_reached, [Some(1.0), Some(1.0)]);
    }

    #[test]
    fn without_drafts_there_are_no_rates() {
        let summary = summary(vec![round(0, 0, false, 1)]);
        assert_eq!((summary.acceptance_rate, summary.acceptance_length), (None, None));
        assert_eq!((summary.tokens_per_pass, summary.decode_tokens_per_s), (Some(1.0), None));
    }
}
