//! The raw record of a round: what schedulers learn from and every figure is derived from.

use super::Source;

/// One proposed token and what became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct DraftedToken {
    /// Token id.
    pub token: u32,
    /// Nodes from the anchor, itself included.
    pub depth: usize,
    /// Who proposed it.
    pub source: Source,
    /// Whether it was emitted.
    pub accepted: bool,
    /// Whether it was never judged, because the text ended before it. Figures leave it out.
    pub discarded: bool,
}

/// The raw record of a round, which all figures are derived from.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Round {
    /// Absolute position of the anchor.
    pub anchor_position: usize,
    /// Rows of the prompt that the block carried before the anchor.
    pub prompt_rows: usize,
    /// The largest draft budget the scheduler gave to a source; 0 for a plain step.
    pub budget: usize,
    /// Sources that were not to draft, because drafting costs more than it gains.
    pub parked: Vec<Source>,
    /// The draft, empty when nothing was proposed.
    pub draft: Vec<DraftedToken>,
    /// Draft tokens emitted.
    pub accepted: usize,
    /// Whether the token after the accepted ones had a draft beside it that was refused.
    pub corrected: bool,
    /// Tokens emitted.
    pub emitted: usize,
    /// Seconds the drafter took, proposing and observing.
    pub draft_s: f64,
    /// Seconds the target took: the verify pass and its logits.
    pub verify_s: f64,
    /// Seconds of everything else in the round.
    pub other_s: f64,
}

impl Round {
    /// The draft tokens that were judged.
    pub fn drafted(&self) -> impl Iterator<Item = &DraftedToken> {
        self.draft.iter().filter(|token| !token.discarded)
    }

    /// Longest path of the judged draft.
    pub fn max_depth(&self) -> usize {
        self.drafted().map(|token| token.depth).max().unwrap_or(0)
    }

    /// Seconds of the whole round.
    pub fn total_s(&self) -> f64 {
        self.draft_s + self.verify_s + self.other_s
    }

    /// Whether a draft token at depth `k` was judged: all before it were accepted and there was one.
    ///
    /// After a stop inside the draft, the tokens behind it were not judged.
    pub fn tested(&self, k: usize) -> bool {
        self.accepted >= k || (self.corrected && self.accepted + 1 == k)
    }
}
