//! A smaller model that guesses token by token.
//!
//! Its session may run ahead of what was emitted; `observe` takes back what was refused. Whatever it
//! has not read yet when asked to propose (the prompt, corrections, the other drafter's tokens) it
//! reads first, in the same pass that gives the first guess.

use super::{DraftContext, Drafter, DrafterParts, Needs, Outcome, ReadRows};
use crate::cache::{Rollback, rollback};
use crate::error::{Error, Result};
use crate::model::{PREFILL_CHUNK, Session};
use crate::sampling::LogProbabilities;
use crate::speculation::schedule::Budget;
use crate::speculation::{Draft, DraftNode, Source};

pub(super) const SOURCE: Source = Source("model");

pub(super) struct ModelDrafter<'m> {
    session: Session<'m>,
    /// Tokens the session holds.
    read: Vec<u32>,
    shared_vocab: usize,
    min_confidence: f64,
}

/// Builds the drafter; the caller has checked that there is a model.
pub(super) fn build(parts: DrafterParts<'_>) -> Result<Box<dyn Drafter + '_>> {
    Ok(Box::new(ModelDrafter::new(parts)?))
}

impl<'m> ModelDrafter<'m> {
    pub(super) fn new(parts: DrafterParts<'m>) -> Result<Self> {
        let model = parts.model.expect("a drafter with a model is built with one");
        let margin = parts.max_draft + 1;
        if rollback(model.cache_layout(), margin) == Rollback::StagedOnly {
            let problem =
                "the cache of its recurrent layers cannot go back when a draft is refused".to_owned();
            return Err(Error::IncompatibleDrafter { drafter: SOURCE.0, problem });
        }
        let session = Session::new(model, parts.run_len, margin);
        let shared_vocab = parts.shared_vocab.min(model.vocab_size());
        Ok(Self { session, read: Vec::new(), shared_vocab, min_confidence: parts.min_confidence })
    }

    /// Reads `tokens` and returns the logits after the last, over the ids both models know.
    fn extend(&mut self, tokens: &[u32]) -> Result<Vec<f32>> {
        let mut chunks = tokens.chunks(PREFILL_CHUNK).peekable();
        while let Some(chunk) = chunks.next() {
            let hidden = self.session.extend(chunk, &[])?;
            self.read.extend_from_slice(chunk);
            if chunks.peek().is_none() {
                let last = hidden.last.narrow(0, chunk.len() - 1, 1)?;
                let mut logits = crate::model::host_rows(&self.session.model().logits(&last)?)?;
                logits.truncate(self.shared_vocab);
                return Ok(logits);
            }
        }
        unreachable!("the anchor is always unread")
    }

    /// Goes back to the longest common beginning of what was read and `tokens`.
    fn rewind(&mut self, tokens: &[u32]) -> Result<()> {
        let common = self.read.iter().zip(tokens).take_while(|(read, token)| read == token).count();
        self.session.truncate(common)?;
        self.read.truncate(common);
        Ok(())
    }
}

impl Drafter for ModelDrafter<'_> {
    fn needs(&self) -> Needs {
        Needs::default()
    }

    fn begin(&mut self, _: &DraftContext<'_>, _: &ReadRows<'_>) -> Result<()> {
        Ok(())
    }

    fn propose(&mut self, context: &DraftContext<'_>, tokens: &[u32], budget: &Budget) -> Result<Draft> {
        let mut draft = Draft::default();
        // A drafter whose context is full proposes less, then nothing.
        let budget = budget.of(SOURCE).min((self.session.run_len() + 1).saturating_sub(tokens.len()));
        let mut unread = tokens[self.read.len().min(tokens.len())..].to_vec();
        // The target may emit ids this model has no embedding for; it cannot follow then.
        let vocab_size = self.session.model().vocab_size();
        if unread.iter().any(|id| *id as usize >= vocab_size) {
            return Ok(draft);
        }
        let mut path = Vec::with_capacity(budget);
        for drafted in 0..budget {
            let logits = self.extend(&unread)?;
            // Known before the token is drawn, so that stopping here cannot bias what is drawn.
            if self.min_confidence > 0.0 && LogProbabilities::confidence(&logits) < self.min_confidence {
                break;
            }
            let (token, proposal) = context.choose(&logits, tokens, &path)?;
            draft.push(DraftNode { token, parent: drafted.checked_sub(1), proposal, source: SOURCE });
            path.push(token);
            unread = vec![token];
        }
        Ok(draft)
    }

    fn observe(&mut self, _: &DraftContext<'_>, outcome: &Outcome<'_>) -> Result<()> {
        // The anchor must stay unread, for its row gives the next guess.
        self.rewind(&outcome.tokens[..outcome.tokens.len() - 1])
    }

    fn cache_bytes(&self) -> usize {
        self.session.cache_bytes()
    }
}
