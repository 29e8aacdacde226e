//! Drafters with a known answer: one always right, one always wrong, one silent, one that branches, one
//! that writes down what it is told.

use std::cell::RefCell;
use std::rc::Rc;

use specdec::error::Result;
use specdec::model::Tap;
use specdec::speculation::drafter::{DraftContext, Drafter, Needs, Outcome, ReadRows};
use specdec::speculation::schedule::Budget;
use specdec::speculation::{Draft, DraftNode, Proposal, Source};

use super::Choices;

const SOURCE: Source = Source("test");

/// Proposes what `answer` says comes at each position, changed by `twist`.
pub(crate) struct Scripted<'a> {
    /// Prompt and continuation of plain decoding.
    pub(crate) answer: &'a [u32],
    /// Maps the right token and its depth to the proposed one.
    pub(crate) twist: Box<dyn FnMut(u32, usize) -> u32 + 'a>,
}

impl<'a> Scripted<'a> {
    /// Always right.
    pub(crate) fn oracle(answer: &'a [u32]) -> Self {
        Self { answer, twist: Box::new(|token, _| token) }
    }

    /// Always wrong.
    pub(crate) fn adversary(answer: &'a [u32], vocab_size: u32) -> Self {
        Self { answer, twist: Box::new(move |token, depth| (token + depth as u32) % vocab_size) }
    }

    /// Right now and then.
    pub(crate) fn mixed(answer: &'a [u32], vocab_size: u32, seed: u64) -> Self {
        let mut choices = Choices::new(seed);
        let twist = move |token, _| if choices.below(3) > 0 { token } else { (token + 1) % vocab_size };
        Self { answer, twist: Box::new(twist) }
    }
}

impl Drafter for Scripted<'_> {
    fn needs(&self) -> Needs {
        Needs::default()
    }

    fn begin(&mut self, _: &DraftContext<'_>, _: &ReadRows<'_>) -> Result<()> {
        Ok(())
    }

    fn propose(&mut self, _: &DraftContext<'_>, tokens: &[u32], budget: &Budget) -> Result<Draft> {
        let known = self.answer.get(tokens.len()..).unwrap_or_default();
        let chain: Vec<u32> = known
            .iter()
            .take(budget.of(SOURCE))
            .zip(1..)
            .map(|(token, depth)| (self.twist)(*token, depth))
            .collect();
        Ok(Draft::chain(&chain, SOURCE))
    }

    fn observe(&mut self, _: &DraftContext<'_>, _: &Outcome<'_>) -> Result<()> {
        Ok(())
    }
}

/// Proposes random trees, with the right token at a random child of every right node.
pub(crate) struct Trees<'a> {
    pub(crate) answer: &'a [u32],
    pub(crate) vocab_size: u32,
    pub(crate) choices: Choices,
}

impl Drafter for Trees<'_> {
    fn needs(&self) -> Needs {
        Needs { branching: true, ..Needs::default() }
    }

    fn begin(&mut self, _: &DraftContext<'_>, _: &ReadRows<'_>) -> Result<()> {
        Ok(())
    }

    fn propose(&mut self, _: &DraftContext<'_>, tokens: &[u32], budget: &Budget) -> Result<Draft> {
        let known = self.answer.get(tokens.len()..).unwrap_or_default();
        let mut draft = Draft::default();
        for number in 0..budget.of(SOURCE) {
            let parent = match self.choices.below(number + 1) {
                0 => None,
                earlier => Some(earlier - 1),
            };
            let depth = parent.map_or(0, |parent| draft.depth(parent));
            let right = known.get(depth).copied().filter(|_| self.choices.below(2) == 0);
            let token = right.unwrap_or_else(|| self.choices.below(self.vocab_size as usize) as u32);
            draft.push(DraftNode { token, parent, proposal: Proposal::Point, source: SOURCE });
        }
        Ok(draft)
    }

    fn observe(&mut self, _: &DraftContext<'_>, _: &Outcome<'_>) -> Result<()> {
        Ok(())
    }
}

/// What a `Witness` was told, row by row.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) tokens: Vec<u32>,
    pub(crate) taps: Vec<Vec<Vec<f32>>>,
    pub(crate) emitted: usize,
}

/// Writes down every row and tap it is handed and proposes like an oracle that errs now and then.
pub(crate) struct Witness<'a> {
    pub(crate) taps: Vec<Tap>,
    pub(crate) script: Scripted<'a>,
    pub(crate) told: Rc<RefCell<Told>>,
}

impl Witness<'_> {
    fn write_down(&self, rows: &ReadRows<'_>) -> Result<()> {
        let mut told = self.told.borrow_mut();
        assert_eq!(rows.first_position, told.tokens.len(), "rows come once and in order");
        told.tokens.extend_from_slice(rows.tokens);
        told.taps.resize(self.taps.len(), Vec::new());
        assert_eq!(rows.taps.len(), self.taps.len(), "one tensor per tap");
        for (known, tap) in told.taps.iter_mut().zip(&rows.taps) {
            assert_eq!(tap.dims()[0], rows.tokens.len(), "one tapped row per token");
            known.extend(tap.to_vec2::<f32>()?);
        }
        Ok(())
    }
}

impl Drafter for Witness<'_> {
    fn needs(&self) -> Needs {
        Needs { taps: self.taps.clone(), ..Needs::default() }
    }

    fn begin(&mut self, _: &DraftContext<'_>, rows: &ReadRows<'_>) -> Result<()> {
        self.write_down(rows)
    }

    fn propose(&mut self, context: &DraftContext<'_>, tokens: &[u32], budget: &Budget) -> Result<Draft> {
        self.script.propose(context, tokens, budget)
    }

    fn observe(&mut self, _: &DraftContext<'_>, outcome: &Outcome<'_>) -> Result<()> {
        self.write_down(&outcome.rows)?;
        let mut told = self.told.borrow_mut();
        told.emitted += outcome.num_emitted;
        assert_eq!(told.tokens, outcome.tokens[..outcome.tokens.len() - 1], "all but the anchor was read");
        Ok(())
    }
}
