//! A slot of a recurrent layer: one committed state, and a snapshot for every staged row.
//!
//! Keeping the snapshot of the last kept row is a commit; there is nothing older to go back to.

use candle_core::Tensor;

use crate::error::{Error, Result};

#[derive(Default)]
pub(super) struct StateSlot {
    committed: Vec<Tensor>,
    staged: Vec<Vec<Tensor>>,
}

impl StateSlot {
    pub(super) fn committed(&self) -> &[Tensor] {
        &self.committed
    }

    pub(super) fn stage(&mut self, states: Vec<Vec<Tensor>>) {
        self.staged = states;
    }

    /// Keeps the snapshot of `row`, or the committed state when no row is kept.
    pub(super) fn commit(&mut self, row: Option<usize>) {
        if let Some(row) = row {
            self.committed = self.staged.swap_remove(row);
        }
        self.staged.clear();
    }

    pub(super) fn clear(&mut self) {
        self.committed.clear();
    }

    pub(super) fn check_truncate(from: usize, to: usize) -> Result<()> {
        if to == 0 { Ok(()) } else { Err(Error::CannotTruncate { from, to, kept: "only the newest state" }) }
    }

    pub(super) fn size_bytes(&self) -> usize {
        let states = self.committed.iter().chain(self.staged.iter().flatten());
        states.map(|tensor| tensor.elem_count() * tensor.dtype().size_in_bytes()).sum()
    }
}
