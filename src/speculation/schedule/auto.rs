//! The draft length with the most expected tokens per second, by what was measured in this run.
//!
//! For a source with conditional acceptance `a_j` at position j, a draft of k tokens yields
//! `E(k) = 1 + sum over i <= k of a_1 ... a_i` tokens (Leviathan et al., 2023, section 3) and costs a pass
//! over 1 + k rows and k draft steps. The k with the largest ratio is taken, 0 included. All of it is
//! estimated while running: nothing is known of a machine or a pair beforehand.
//!
//! Finding out costs time too. What rounds of trying lost against plain steps is added up and kept below
//! a share of the time of the run, so that a drafter that never helps costs hardly anything.
//!
//! Decisions rest on judged tokens of earlier rounds and on times, never on the tokens about to be
//! drafted, so speculative sampling stays exact.

use super::costs::{CostCurve, PassCosts, Recent};
use super::{Budget, Scheduler};
use crate::speculation::{Round, Source};

/// Draft length of the first rounds, in tokens.
const OPENING: usize = 2;
/// Rounds with a draft after which a source is judged by its figures.
const OPENING_ROUNDS: usize = 2;
/// The share of the run's time that trying may lose.
const TRYING_SHARE: f64 = 0.015;
/// Rounds between two tries of a parked source, at least.
const TRY_EVERY: usize = 16;
/// What reading a token in a longer pass is assumed to cost a drafter, in draft steps.
const ASSUMED_CATCH_UP: f64 = 0.2;
/// How much better than plain steps a parked source must promise to be before it drafts again.
const RETURN_GAIN: f64 = 1.02;
/// Rounds after which the cost of a one-row pass is measured again.
const PLAIN_EVERY: usize = 64;
/// A gain so large that a stale cost of one row cannot turn the decision.
const CLEAR_GAIN: f64 = 1.5;
/// Acceptance assumed at the first position, and the weight of an assumption in judged tokens.
const PRIOR: f64 = 0.6;
const PRIOR_WEIGHT: f64 = 2.0;
/// Weight of a round against the one after it.
const MEMORY: f64 = 0.97;

pub(super) struct Auto {
    max_draft: usize,
    passes: PassCosts,
    sources: Vec<SourceState>,
    num_rounds: usize,
    /// Rounds since a pass over one row was measured.
    since_plain: usize,
    /// Seconds of all rounds.
    elapsed_s: f64,
}

struct SourceState {
    source: Source,
    /// Accepted and judged tokens by position, fading.
    positions: Vec<(f64, f64)>,
    /// Seconds per drafted token.
    step: Recent,
    num_rounds: usize,
    /// Rounds since it drafted.
    since_draft: usize,
    /// Tokens emitted since it drafted: what it must read first.
    unread: usize,
    /// How often it proposes something when asked, fading, and what asking in vain costs.
    finds: f64,
    in_vain: Recent,
    /// Whether it was asked in the round under way.
    is_asked: bool,
    is_parked: bool,
    /// Seconds that trying has lost against plain steps.
    lost_s: f64,
    /// Seconds a token that was not read adds to the next try, once that was measured.
    catch_up_s: Option<f64>,
    /// Whether the coming draft is a try.
    is_trying: bool,
}

impl Auto {
    pub(super) fn new(sources: &[Source], max_draft: usize) -> Self {
        let state = |source: &Source| SourceState {
            source: *source,
            positions: vec![(0.0, 0.0); max_draft],
            step: Recent::default(),
            num_rounds: 0,
            since_draft: 0,
            unread: 0,
            finds: 1.0,
            in_vain: Recent::default(),
            is_asked: false,
            is_parked: false,
            lost_s: 0.0,
            catch_up_s: None,
            is_trying: true,
        };
        Self {
            max_draft,
            passes: PassCosts::default(),
            sources: sources.iter().map(state).collect(),
            num_rounds: 0,
            since_plain: 0,
            elapsed_s: 0.0,
        }
    }

    fn budget_of(&mut self, index: usize, curve: &CostCurve) -> usize {
        let Self { max_draft, passes, sources, elapsed_s, .. } = self;
        let state = &mut sources[index];
        let opening = OPENING.min(*max_draft);
        let (Some(plain_s), true) = (passes.one_row_s(), state.num_rounds >= OPENING_ROUNDS) else {
            state.is_trying = true;
            return opening;
        };
        let step_s = state.step.median().unwrap_or(0.0);
        let (finds, in_vain_s) = (state.finds, state.in_vain.median().unwrap_or(0.0));
        let acceptance = state.acceptance();
        let speed = |k: usize| {
            let found_s = curve.pass_s(1 + k).unwrap_or(plain_s) + step_s * k as f64;
            let in_vain_s = plain_s + in_vain_s;
            let tokens = finds * expected(&acceptance[..k]) + (1.0 - finds);
            tokens / (finds * found_s + (1.0 - finds) * in_vain_s)
        };
        let speeds = (1..=*max_draft).map(|k| (k, speed(k)));
        let (best, fastest) = speeds.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((0, 0.0));
        let gain = fastest * plain_s;
        let needed = if state.is_parked { RETURN_GAIN } else { 1.0 };
        state.is_parked = gain <= needed;
        state.is_trying = false;
        if !state.is_parked {
            return best;
        }
        // A try with one token: what it would lose, and what has been lost so far.
        let fixed_s = curve.pass_s(2).unwrap_or(plain_s) + step_s - plain_s * expected(&acceptance[..1]);
        let catch_up_s = state.catch_up_s.unwrap_or(ASSUMED_CATCH_UP * step_s);
        let try_s = fixed_s.max(0.0) + catch_up_s * state.unread as f64;
        if state.since_draft >= TRY_EVERY && state.lost_s + try_s <= TRYING_SHARE * *elapsed_s {
            state.is_trying = true;
            return 1;
        }
        0
    }

    /// Whether the coming round should be a plain step for the sake of its measurement.
    fn wants_plain(&self) -> bool {
        // The first round reads the prompt, and its time says nothing.
        if self.passes.one_row_s().is_none() {
            return self.num_rounds == 1;
        }
        let is_clear = self.sources.iter().any(|state| {
            let acceptance = state.acceptance();
            !state.is_parked && expected(&acceptance[..1.min(acceptance.len())]) > CLEAR_GAIN
        });
        self.since_plain >= if is_clear { 4 * PLAIN_EVERY } else { PLAIN_EVERY }
    }
}

impl Scheduler for Auto {
    fn next(&mut self) -> Budget {
        let curve = self.passes.curve();
        let is_plain = self.wants_plain();
        let budgets: Vec<(Source, usize)> = (0..self.sources.len())
            .map(|index| {
                let budget = if is_plain { 0 } else { self.budget_of(index, &curve) };
                self.sources[index].is_asked = budget > 0;
                (self.sources[index].source, budget)
            })
            .collect();
        Budget::by_source(budgets)
    }

    fn observe(&mut self, round: &Round) {
        let reads_prompt = self.num_rounds == 0;
        let rows = 1 + round.draft.len();
        self.num_rounds += 1;
        self.since_plain = if rows == 1 { 0 } else { self.since_plain + 1 };
        if !reads_prompt {
            self.elapsed_s += round.total_s();
            self.passes.push(rows, round.verify_s + round.other_s);
        }
        let plain_s = self.passes.one_row_s();
        // Asked in vain: the time was that of the last source, which is asked when those before it find
        // nothing.
        if let (true, Some(state)) = (
            round.draft.is_empty() && round.budget > 0,
            self.sources.iter_mut().rfind(|state| state.is_asked),
        ) {
            state.finds *= MEMORY;
            if !reads_prompt {
                state.num_rounds += 1;
                state.in_vain.push(round.draft_s);
            }
        }
        for state in &mut self.sources {
            state.since_draft += 1;
            if round.draft.iter().any(|token| token.source == state.source) {
                state.observe(round, reads_prompt, plain_s);
                // It has read what it drafted.
                state.unread = round.emitted - round.accepted;
            } else {
                state.unread += round.emitted;
            }
        }
    }

    fn parked(&self) -> Vec<Source> {
        self.sources.iter().filter(|state| state.is_parked).map(|state| state.source).collect()
    }
}

impl SourceState {
    fn observe(&mut self, round: &Round, reads_prompt: bool, plain_s: Option<f64>) {
        self.finds = self.finds * MEMORY + 1.0 - MEMORY;
        let had_to_catch_up = self.since_draft > 1;
        for (accepted, judged) in &mut self.positions {
            (*accepted, *judged) = (*accepted * MEMORY, *judged * MEMORY);
        }
        // A position behind a refusal or a stop was not judged: that says nothing about it.
        for (depth, (accepted, judged)) in (1..=round.max_depth()).zip(&mut self.positions) {
            if round.tested(depth) {
                *judged += 1.0;
                *accepted += f64::from(u8::from(round.accepted >= depth));
            }
        }
        if !reads_prompt {
            self.num_rounds += 1;
            let steps = round.draft.len() as f64;
            if !had_to_catch_up || self.step.median().is_none() {
                self.step.push(round.draft_s / steps);
            }
            if let (Some(plain_s), true) = (plain_s, self.is_trying) {
                self.lost_s = (self.lost_s + round.total_s() - plain_s * round.emitted as f64).max(0.0);
            }
            // A token or two drown in the noise of the draft steps.
            if self.since_draft > TRY_EVERY {
                let step_s = self.step.median().unwrap_or(0.0);
                let extra_s = (round.draft_s - step_s * steps).max(0.0);
                self.catch_up_s = Some(extra_s / self.unread.max(1) as f64);
            }
        }
        self.since_draft = 0;
    }

    /// Conditional acceptance by position. What was judged seldom leans on the position before.
    fn acceptance(&self) -> Vec<f64> {
        let mut before = PRIOR;
        self.positions
            .iter()
            .map(|(accepted, judged)| {
                before = (accepted + PRIOR_WEIGHT * before) / (judged + PRIOR_WEIGHT);
                before
            })
            .collect()
    }
}

/// Expected tokens of a round, given the conditional acceptance of its draft tokens.
fn expected(acceptance: &[f64]) -> f64 {
    let reached = acceptance.iter().scan(1.0, |reached, rate| {
        *reached *= rate;
        Some(*reached)
    });
    1.0 + reached.sum::<f64>()
}
