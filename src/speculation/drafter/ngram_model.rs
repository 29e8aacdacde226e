//! Prompt lookup first; the model where lookup finds nothing.

use super::model::ModelDrafter;
use super::ngram::Ngram;
use super::{DraftContext, Drafter, DrafterParts, Needs, Outcome, ReadRows};
use crate::error::Result;
use crate::speculation::Draft;
use crate::speculation::schedule::Budget;

struct NgramModel<'m> {
    ngram: Ngram,
    model: ModelDrafter<'m>,
}

/// Builds the drafter; the caller has checked that there is a model.
pub(super) fn build(parts: DrafterParts<'_>) -> Result<Box<dyn Drafter + '_>> {
    Ok(Box::new(NgramModel { ngram: Ngram::new(parts.ngram), model: ModelDrafter::new(parts)? }))
}

impl Drafter for NgramModel<'_> {
    fn needs(&self) -> Needs {
        self.model.needs()
    }

    fn begin(&mut self, context: &DraftContext<'_>, rows: &ReadRows<'_>) -> Result<()> {
        self.ngram.begin(context, rows)?;
        self.model.begin(context, rows)
    }

    fn propose(&mut self, context: &DraftContext<'_>, tokens: &[u32], budget: &Budget) -> Result<Draft> {
        let draft = self.ngram.propose(context, tokens, budget)?;
        if draft.is_empty() { self.model.propose(context, tokens, budget) } else { Ok(draft) }
    }

    fn observe(&mut self, context: &DraftContext<'_>, outcome: &Outcome<'_>) -> Result<()> {
        self.ngram.observe(context, outcome)?;
        self.model.observe(context, outcome)
    }

    fn cache_bytes(&self) -> usize {
        self.model.cache_bytes()
    }
}
