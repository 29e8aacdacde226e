//! Plain decoding: no drafts.

use super::{DraftContext, Drafter, Needs, Outcome, ReadRows};
use crate::error::Result;
use crate::speculation::Draft;
use crate::speculation::schedule::Budget;

pub(super) struct NoDrafter;

impl Drafter for NoDrafter {
    fn needs(&self) -> Needs {
        Needs { longest_draft: Some(0), ..Needs::default() }
    }

    fn begin(&mut self, _: &DraftContext<'_>, _: &ReadRows<'_>) -> Result<()> {
        Ok(())
    }

    fn propose(&mut self, _: &DraftContext<'_>, _: &[u32], _: &Budget) -> Result<Draft> {
        Ok(Draft::default())
    }

    fn observe(&mut self, _: &DraftContext<'_>, _: &Outcome<'_>) -> Result<()> {
        Ok(())
    }
}
