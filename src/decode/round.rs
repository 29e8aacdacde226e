//! One round: propose, verify, commit.
//!
//! After every round the rows kept equal the tokens emitted, and no cache holds a token that was not
//! emitted; the newest token, the anchor, is known but unread. The first anchor is the last token of
//! the prompt; its block also carries the unread end of the prompt before it, so the first token costs
//! no extra pass.

use std::ops::ControlFlow;

use super::observer::{Emitted, Observer};
use super::request::{FinishReason, Request, Setup};
use crate::error::Result;
use crate::model::Session;
use crate::sampling::{Distribution, History, LogProbabilities, SamplingParams};
use crate::speculation::acceptance::{Next, TargetRows, Verdict};
use crate::speculation::drafter::{DraftContext, Needs, Outcome, ReadRows};
use crate::speculation::schedule::Budget;
use crate::speculation::{Draft, DraftedToken, Round};

/// Processed rows of a block's logits, made when a rule asks.
struct BlockRows<'a> {
    /// `[1 + nodes, vocab]`, the anchor's row first.
    logits: &'a [f32],
    vocab_size: usize,
    /// Prompt and emitted tokens, the anchor last.
    emitted: &'a [u32],
    draft: &'a Draft,
    params: &'a SamplingParams,
    prompt_len: usize,
}

impl BlockRows<'_> {
    /// The raw logits after `node`, or after the anchor.
    fn logits(&self, node: Option<usize>) -> &[f32] {
        let row = node.map_or(0, |node| node + 1);
        &self.logits[row * self.vocab_size..(row + 1) * self.vocab_size]
    }
}

impl TargetRows for BlockRows<'_> {
    fn row(&mut self, node: Option<usize>) -> Result<Distribution<'_>> {
        let path = self.draft.path(node);
        let history = History { emitted: self.emitted, path: &path, prompt_len: self.prompt_len };
        Distribution::new(self.logits(node), self.params, history)
    }

    fn next_position(&self, node: Option<usize>) -> usize {
        self.emitted.len() + node.map_or(0, |node| self.draft.depth(node))
    }
}

/// One run under way.
pub(super) struct Run<'r, 'm> {
    pub(super) request: &'r Request<'r>,
    pub(super) context: DraftContext<'r>,
    pub(super) needs: Needs,
    pub(super) session: Session<'m>,
    /// Prompt and emitted tokens, the anchor last.
    pub(super) tokens: Vec<u32>,
}

/// Runs one round that emits at most `wanted` tokens; says why the text ended if it did.
pub(super) fn run_round(
    setup: &mut Setup<'_>,
    run: &mut Run<'_, '_>,
    wanted: usize,
    observer: &mut dyn Observer,
) -> Result<(Round, Option<FinishReason>)> {
    let Run { request, context, needs, session, tokens } = run;
    let clock = setup.clock;
    let start_s = clock.now_s();
    let longest = needs.longest_draft.unwrap_or(usize::MAX).min(wanted - 1);
    let budget = if longest > 0 { setup.scheduler.next().capped(longest) } else { Budget::uniform(0) };
    let largest = budget.largest();
    let planned_s = clock.now_s();
    let draft = if largest > 0 { setup.drafter.propose(context, tokens, &budget)? } else { Draft::default() };
    assert!(draft.len() <= largest, "a draft of {} nodes for a budget of {largest}", draft.len());
    assert!(needs.branching || !draft.branches(), "a drafter that does not branch proposed a tree");
    let drafted_s = clock.now_s();

    let committed = session.len();
    let anchor_position = tokens.len() - 1;
    let anchor_row = anchor_position - committed;
    let (block, parents) = block(&tokens[committed..], &draft);
    let staged = session.stage(&block, &parents, &needs.taps)?;
    let logits = staged.logits(anchor_row, 1 + draft.len())?;
    let read_s = clock.now_s();

    let mut rows = BlockRows {
        logits: &logits,
        vocab_size: setup.target.vocab_size(),
        emitted: tokens,
        draft: &draft,
        params: &request.params,
        prompt_len: request.prompt.len(),
    };
    let verdict = setup.rule.verify(&draft, &mut rows, &context.noise)?;
    let (emitted, end) = emit(&verdict, &rows, request, observer)?;
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
            taps: kept_taps(hidden.taps, &kept)?,
        },
        tokens,
        num_emitted: emitted.len(),
        accepted,
    };
    setup.drafter.observe(context, &outcome)?;
    let end_s = clock.now_s();
    debug_assert_eq!(session.len() + 1, tokens.len(), "every emitted token but the newest is read");

    let (draft_s, verify_s) = (drafted_s - planned_s + end_s - committed_s, read_s - drafted_s);
    let drafted = draft.nodes().iter().enumerate().map(|(index, node)| DraftedToken {
        token: node.token,
        depth: draft.depth(index),
        source: node.source,
        accepted: accepted.contains(&index),
        discarded: emitted.len() <= accepted.len() && draft.depth(index) > accepted.len(),
    });
    let round = Round {
        anchor_position,
        prompt_rows: anchor_row,
        budget: largest,
        parked: setup.scheduler.parked(),
        draft: drafted.collect(),
        accepted: accepted.len(),
        corrected: emitted.len() > accepted.len() && verdict.kind == Next::Correction,
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

/// Hands the accepted tokens and the next one to `observer`, up to the first that ends the text.
fn emit(
    verdict: &Verdict,
    rows: &BlockRows<'_>,
    request: &Request<'_>,
    observer: &mut dyn Observer,
) -> Result<(Vec<u32>, Option<FinishReason>)> {
    let mut emitted = Vec::with_capacity(verdict.path.len() + 1);
    let mut row = None;
    for node in verdict.path.iter().map(|node| Some(*node)).chain([None]) {
        let (token, source) = match node {
            Some(node) => (rows.draft.nodes()[node].token, Some(rows.draft.nodes()[node].source)),
            None => (verdict.next, None),
        };
        emitted.push(token);
        let logprobs =
            request.logprobs.map(|num_top| LogProbabilities::new(rows.logits(row), token, num_top));
        let flow = observer.token(&Emitted { token, source, logprobs })?;
        if request.stop_ids.contains(&token) {
            return Ok((emitted, Some(FinishReason::Stop)));
        }
        if let ControlFlow::Break(reason) = flow {
            return Ok((emitted, Some(reason)));
        }
        row = node;
    }
    Ok((emitted, None))
}

/// The kept rows of each tap.
fn kept_taps(taps: Vec<candle_core::Tensor>, kept: &[usize]) -> Result<Vec<candle_core::Tensor>> {
    taps.into_iter()
        .map(|tap| {
            let rows = crate::cache::row_index(kept.iter().copied(), tap.device())?;
            Ok(tap.index_select(&rows, 0)?)
        })
        .collect()
}
