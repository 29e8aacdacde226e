//! One round: propose, verify, commit.
//!
//! After every round the rows kept equal the tokens emitted, and no cache holds a token that was not
//! emitted; the newest token, the anchor, is known but unread. The first anchor is the last token of
//! the prompt; its block also carries the unread end of the prompt before it, so the first token costs
//! no extra pass.

use std::ops::ControlFlow;

use super::Emitted;
use super::request::{FinishReason, Request, Setup};
use crate::error::Result;
use crate::model::Session;
use crate::sampling::{Distribution, SamplingParams};
use crate::speculation::acceptance::{TargetRows, Verdict};
use crate::speculation::drafter::{DraftContext, Outcome, ReadRows};
use crate::speculation::{Draft, Source};

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
}

/// The raw record of a round, which all figures are derived from.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Round {
    /// Absolute position of the anchor.
    pub anchor_position: usize,
    /// Rows of the prompt that the block carried before the anchor.
    pub prompt_rows: usize,
    /// The draft.
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

/// Processed rows of a block's logits, made when a rule asks.
struct BlockRows<'a> {
    /// `[1 + nodes, vocab]`, the anchor's row first.
    logits: &'a [f32],
    vocab_size: usize,
    anchor_position: usize,
    draft: &'a Draft,
    params: &'a SamplingParams,
}

impl TargetRows for BlockRows<'_> {
    fn row(&mut self, node: Option<usize>) -> Result<Distribution<'_>> {
        let row = node.map_or(0, |node| node + 1);
        let logits = &self.logits[row * self.vocab_size..(row + 1) * self.vocab_size];
        Distribution::new(logits, self.params, self.next_position(node))
    }

    fn next_position(&self, node: Option<usize>) -> usize {
        self.anchor_position + 1 + node.map_or(0, |node| self.draft.depth(node))
    }
}

/// Runs one round with a draft of at most `budget` nodes; says why the text ended if it did.
pub(super) fn run(
    setup: &mut Setup<'_>,
    context: &DraftContext<'_>,
    session: &mut Session<'_>,
    tokens: &mut Vec<u32>,
    request: &Request<'_>,
    budget: usize,
    sink: &mut dyn FnMut(Emitted) -> Result<ControlFlow<FinishReason>>,
) -> Result<(Round, Option<FinishReason>)> {
    let clock = setup.clock;
    let start_s = clock.now_s();
    let draft = if budget > 0 { setup.drafter.propose(context, tokens, budget)? } else { Draft::default() };
    assert!(draft.len() <= budget, "a draft of {} nodes for a budget of {budget}", draft.len());
    let drafted_s = clock.now_s();

    let committed = session.len();
    let anchor_position = tokens.len() - 1;
    let anchor_row = anchor_position - committed;
    let (block, parents) = block(&tokens[committed..], &draft);
    let taps = setup.drafter.needs().taps;
    let staged = session.stage(&block, &parents, &taps)?;
    let logits = staged.logits(anchor_row, 1 + draft.len())?;
    let read_s = clock.now_s();

    let mut rows = BlockRows {
        logits: &logits,
        vocab_size: setup.target.vocab_size(),
        anchor_position,
        draft: &draft,
        params: &request.params,
    };
    let verdict = setup.rule.verify(&draft, &mut rows, &context.noise)?;
    let (emitted, end) = emit(&verdict, &draft, request.stop_ids, sink)?;
    // The newest token stays unread: after a stop inside the draft that is the last accepted one.
    let accepted = &verdict.path[..emitted.len().min(verdict.path.len())];
    let read_nodes = &verdict.path[..emitted.len() - 1];
    let kept: Vec<usize> =
        (0..=anchor_row).chain(read_nodes.iter().map(|node| anchor_row + 1 + node)).collect();
    let hidden = staged.commit(&kept)?;
    tokens.extend_from_slice(&emitted);
    let committed_s = clock.now_s();

    let outcome = Outcome {
        rows: ReadRows {
            first_position: committed,
            tokens: &tokens[committed..committed + kept.len()],
            taps: kept_taps(hidden.map(|hidden| hidden.taps).unwrap_or_default(), &kept)?,
        },
        tokens,
        num_emitted: emitted.len(),
        accepted,
    };
    setup.drafter.observe(context, &outcome)?;
    let end_s = clock.now_s();
    debug_assert_eq!(session.len() + 1, tokens.len(), "every emitted token but the newest is read");

    let (draft_s, verify_s) = (drafted_s - start_s + end_s - committed_s, read_s - drafted_s);
    let drafted = draft.nodes().iter().enumerate().map(|(index, node)| DraftedToken {
        token: node.token,
        depth: draft.depth(index),
        source: node.source,
        accepted: accepted.contains(&index),
    });
    let round = Round {
        anchor_position,
        prompt_rows: anchor_row,
        draft: drafted.collect(),
        accepted: accepted.len(),
        corrected: emitted.len() > accepted.len()
            && verdict.kind == crate::speculation::acceptance::Next::Correction,
        emitted: emitted.len(),
        draft_s,
        verify_s,
        other_s: (end_s - start_s - draft_s - verify_s).max(0.0),
    };
    Ok((round, end))
}

/// Tokens and parents of a block: unread tokens as a chain, the draft hanging from the last of them.
fn block(unread: &[u32], draft: &Draft) -> (Vec<u32>, Vec<Option<usize>>) {
    let anchor_row = unread.len() - 1;
    let mut tokens = unread.to_vec();
    let mut parents = crate::model::chain(unread.len());
    for node in draft.nodes() {
        tokens.push(node.token);
        parents.push(Some(node.parent.map_or(anchor_row, |parent| anchor_row + 1 + parent)));
    }
    (tokens, parents)
}

/// Hands the accepted tokens and the next one to `sink`, up to the first that ends the text.
fn emit(
    verdict: &Verdict,
    draft: &Draft,
    stop_ids: &[u32],
    sink: &mut dyn FnMut(Emitted) -> Result<ControlFlow<FinishReason>>,
) -> Result<(Vec<u32>, Option<FinishReason>)> {
    let accepted = verdict.path.iter().map(|node| {
        let node = &draft.nodes()[*node];
        Emitted { token: node.token, source: Some(node.source) }
    });
    let mut emitted = Vec::with_capacity(verdict.path.len() + 1);
    for each in accepted.chain([Emitted { token: verdict.next, source: None }]) {
        emitted.push(each.token);
        let flow = sink(each)?;
        if stop_ids.contains(&each.token) {
            return Ok((emitted, Some(FinishReason::Stop)));
        }
        if let ControlFlow::Break(reason) = flow {
            return Ok((emitted, Some(reason)));
        }
    }
    Ok((emitted, None))
}

/// The kept rows of each tap.
fn kept_taps(taps: Vec<candle_core::Tensor>, kept: &[usize]) -> Result<Vec<candle_core::Tensor>> {
    let ids: Vec<u32> = kept.iter().map(|row| u32::try_from(*row).expect("row numbers fit u32")).collect();
    taps.into_iter()
        .map(|tap| {
            let ids = candle_core::Tensor::new(ids.as_slice(), tap.device())?;
            Ok(tap.index_select(&ids, 0)?)
        })
        .collect()
}
