//! Which part of a draft is kept, and what follows it.
//!
//! To add a rule: a file with an `AcceptanceRule` and a line in `RULES`.

mod coupled;
mod greedy;
mod speculative_sampling;

use super::draft::Draft;
use crate::error::Result;
use crate::sampling::{Distribution, Noise, SamplingParams};

pub use speculative_sampling::Remainder;

/// The target's processed distributions at the rows of a block, made when asked for.
pub trait TargetRows {
    /// Distribution of the token after `node`, or after the anchor.
    fn row(&mut self, node: Option<usize>) -> Result<Distribution<'_>>;

    /// Absolute position of the token after `node`, or after the anchor.
    fn next_position(&self, node: Option<usize>) -> usize;
}

/// Where the token after the accepted path came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Drawn where a draft token was refused.
    Correction,
    /// Drawn after the whole path was accepted.
    Bonus,
}

/// What a rule decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Accepted nodes from the anchor down.
    pub path: Vec<usize>,
    /// The target's own token after them.
    pub next: u32,
    /// What kind of token that is.
    pub kind: Next,
}

/// How a drafter should choose tokens so that this rule accepts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DraftChoice {
    /// The most likely token.
    MostLikely,
    /// The arg-max under the noise the target will use.
    SharedNoise,
    /// A draw from the drafter's own distribution, which the proposal carries.
    Sampled,
}

/// Decides how much of a draft is kept. Pure: no cache, no stop tokens, no text.
pub trait AcceptanceRule {
    /// Whether the output is distributed exactly as plain decoding's. Tests hold it to that.
    fn lossless(&self) -> bool;

    /// Whether the text is plain decoding's with the same seed, token by token.
    fn couples(&self) -> bool;

    /// How a drafter should choose.
    fn draft_choice(&self) -> DraftChoice;

    /// Judges a draft. With an empty draft this is ordinary sampling.
    ///
    /// # Errors
    /// What making a row's distribution gives, such as `NanLogits`.
    fn verify(&self, draft: &Draft, rows: &mut dyn TargetRows, noise: &Noise) -> Result<Verdict>;
}

/// A rule a user can name.
pub struct RuleKind {
    /// Value of `--accept`.
    pub name: &'static str,
    /// One line of help.
    pub about: &'static str,
    /// Whether the rule is right for these sampling parameters.
    pub suits: fn(&SamplingParams) -> bool,
    /// Makes the rule.
    pub build: fn() -> Box<dyn AcceptanceRule>,
}

/// Every acceptance rule a user can name, in the order help shows them; the first that suits the
/// sampling parameters is the default.
pub const RULES: &[RuleKind] = &[
    RuleKind {
        name: "greedy",
        about: "keep drafts that are the target's most likely tokens; needs temperature 0",
        suits: SamplingParams::is_greedy,
        build: || Box::new(greedy::Greedy),
    },
    RuleKind {
        name: "coupled",
        about: "keep drafts that are what plain decoding draws with the same seed: same text at any temperature",
        suits: |_| true,
        build: || Box::new(coupled::Coupled),
    },
    RuleKind {
        name: "speculative-sampling",
        about: "keep a draft with probability min(1, p/q): same distribution, more accepted, another text",
        suits: |_| true,
        build: || Box::new(speculative_sampling::SpeculativeSampling),
    },
];

/// Follows the draft as long as a child holds the token that `choose` picks from each row.
fn walk(
    draft: &Draft,
    rows: &mut dyn TargetRows,
    choose: impl Fn(&Distribution<'_>, usize) -> u32,
) -> Result<Verdict> {
    let mut path = Vec::new();
    loop {
        let here = path.last().copied();
        let position = rows.next_position(here);
        let next = choose(&rows.row(here)?, position);
        let mut children = draft.children(here).peekable();
        let kind = if children.peek().is_some() { Next::Correction } else { Next::Bonus };
        match children.find(|child| draft.nodes()[*child].token == next) {
            Some(child) => path.push(child),
            None => return Ok(Verdict { path, next, kind }),
        }
    }
}
