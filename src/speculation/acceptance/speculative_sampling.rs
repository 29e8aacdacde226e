//! Keep a draft token with probability min(1, p/q), else draw from what q left of p.
//!
//! The output is distributed exactly as the target's (Leviathan et al., "Fast Inference from
//! Transformers via Speculative Decoding", 2023; Chen et al., 2023), but it is another text than plain
//! decoding's with the same seed. A deterministic draft is a point mass. Siblings that share a proposal
//! were drawn from it without replacement, and are judged as recursive rejection sampling does (Jeon et
//! al., 2024): each refusal takes q from p, and the refused token from q.

use std::sync::Arc;

use super::{AcceptanceRule, DraftChoice, Next, TargetRows, Verdict};
use crate::error::Result;
use crate::sampling::{Noise, Probabilities, Purpose, pick};
use crate::speculation::{Draft, DraftNode, Proposal};

pub(super) struct SpeculativeSampling;

impl AcceptanceRule for SpeculativeSampling {
    fn lossless(&self) -> bool {
        true
    }

    fn couples(&self) -> bool {
        false
    }

    fn draft_choice(&self) -> DraftChoice {
        DraftChoice::Sampled
    }

    fn verify(&self, draft: &Draft, rows: &mut dyn TargetRows, noise: &Noise) -> Result<Verdict> {
        let anchor_position = rows.next_position(None);
        let mut path = Vec::new();
        loop {
            let here = path.last().copied();
            let tokens = draft.path(here);
            let mut remainder = Remainder::new(&rows.row(here)?.probabilities());
            let mut children = draft.children(here).peekable();
            let kind = if children.peek().is_some() { Next::Correction } else { Next::Bonus };
            let accepted = children.find(|&child| {
                let node = &draft.nodes()[child];
                let uniform = noise.uniform(Purpose::Acceptance, anchor_position, &tokens, child);
                let accepts = uniform < remainder.acceptance(node);
                if !accepts {
                    remainder.refuse(node);
                }
                accepts
            });
            let Some(child) = accepted else {
                let next = remainder.draw(noise.uniform(Purpose::Target, anchor_position, &tokens, 0));
                return Ok(Verdict { path, next, kind });
            };
            path.push(child);
        }
    }
}

/// What is left of the target's distribution after some siblings were refused.
#[derive(Debug, Clone)]
pub struct Remainder {
    /// By id, adding up to 1.
    masses: Vec<(u32, f64)>,
    /// The proposal of the last refused sibling, and the siblings drawn from it before.
    drawn: Option<(Arc<Probabilities>, Vec<u32>)>,
}

impl Remainder {
    /// Nothing was refused yet.
    pub fn new(target: &Probabilities) -> Self {
        Self { masses: target.iter().collect(), drawn: None }
    }

    /// Probability that `node` is accepted, given that the siblings before it were refused.
    pub fn acceptance(&self, node: &DraftNode) -> f64 {
        let p = self.get(node.token);
        match &node.proposal {
            Proposal::Point => p,
            Proposal::Sampled(proposal) => {
                let q = proposal.get(node.token) / self.undrawn(proposal);
                if q > 0.0 { (p / q).min(1.0) } else { 0.0 }
            }
        }
    }

    /// Refuses `node`: the rest is distributed as max(0, p - q), normalised.
    pub fn refuse(&mut self, node: &DraftNode) {
        match &node.proposal {
            Proposal::Point => self.subtract(|token, p| if token == node.token { 0.0 } else { p }),
            Proposal::Sampled(proposal) => {
                let undrawn = self.undrawn(proposal);
                let mut drawn = match self.drawn.take() {
                    Some((shared, drawn)) if Arc::ptr_eq(&shared, proposal) => drawn,
                    _ => Vec::new(),
                };
                self.subtract(|token, p| {
                    let q = if drawn.contains(&token) { 0.0 } else { proposal.get(token) / undrawn };
                    (p - q).max(0.0)
                });
                drawn.push(node.token);
                self.drawn = Some((Arc::clone(proposal), drawn));
            }
        }
    }

    /// The token that a uniform number in [0, 1) picks from what is left.
    pub fn draw(&self, uniform: f64) -> u32 {
        pick(self.masses.iter().copied(), uniform)
    }

    /// What is left of a token's probability.
    pub fn get(&self, token: u32) -> f64 {
        let index = self.masses.binary_search_by_key(&token, |(token, _)| *token);
        index.map_or(0.0, |index| self.masses[index].1)
    }

    /// The share of a proposal that the siblings refused before had not taken.
    fn undrawn(&self, proposal: &Arc<Probabilities>) -> f64 {
        match &self.drawn {
            Some((shared, drawn)) if Arc::ptr_eq(shared, proposal) => {
                1.0 - drawn.iter().map(|token| proposal.get(*token)).sum::<f64>()
            }
            _ => 1.0,
        }
    }

    fn subtract(&mut self, rest: impl Fn(u32, f64) -> f64) {
        let left: Vec<(u32, f64)> = self.masses.iter().map(|&(token, p)| (token, rest(token, p))).collect();
        let total: f64 = left.iter().map(|(_, mass)| mass).sum();
        // Where p equals q a refusal has no probability but for rounding; p stays what it was.
        if total > 0.0 {
            self.masses = left.into_iter().map(|(token, mass)| (token, mass / total)).collect();
        }
    }
}
