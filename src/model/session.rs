//! A model and its cache moving together.
//!
//! A block that was staged is a value: committing consumes it, dropping it rolls the cache back. So a
//! block cannot be forgotten half-way.

use candle_core::Tensor;

use super::{CausalLm, Hidden, Rotary, Segment, Tap, chain};
use crate::cache::KvCache;
use crate::error::{Error, Result};

/// Tokens read in one pass while a prompt is prefilled.
pub const PREFILL_CHUNK: usize = 512;

/// One sequence on one model.
pub struct Session<'m> {
    model: &'m dyn CausalLm,
    cache: KvCache,
    rotary: Rotary,
    run_len: usize,
}

impl<'m> Session<'m> {
    /// An empty sequence of at most `run_len` tokens. `margin` is how many committed tokens it must be
    /// possible to take back.
    pub fn new(model: &'m dyn CausalLm, run_len: usize, margin: usize) -> Self {
        let cache = KvCache::new(model.cache_layout(), margin, model.cache_dtype(), model.device());
        Self { model, cache, rotary: model.rotary(run_len), run_len }
    }

    /// The network.
    pub fn model(&self) -> &'m dyn CausalLm {
        self.model
    }

    /// Committed tokens.
    pub fn len(&self) -> usize {
        self.cache.len()
    }

    /// Whether nothing is committed.
    pub fn is_empty(&self) -> bool {
        self.cache.is_empty()
    }

    /// The most tokens this session can hold.
    pub fn run_len(&self) -> usize {
        self.run_len
    }

    /// Bytes the cache holds.
    pub fn cache_bytes(&self) -> usize {
        self.cache.size_bytes()
    }

    /// Reads `tokens` in one pass and commits them.
    pub fn extend(&mut self, tokens: &[u32], taps: &[Tap]) -> Result<Hidden> {
        let staged = self.stage(tokens, &chain(tokens.len()), taps)?;
        staged.commit(&(0..tokens.len()).collect::<Vec<_>>())
    }

    /// Reads a block whose rows continue the committed tokens or each other, without committing it.
    ///
    /// # Errors
    /// `ContextTooLong` when the deepest row lies beyond `run_len`.
    pub fn stage(
        &mut self,
        tokens: &[u32],
        parents: &[Option<usize>],
        taps: &[Tap],
    ) -> Result<Staged<'_, 'm>> {
        let depth = super::depths(parents).into_iter().max().map_or(0, |depth| depth + 1);
        if self.len() + depth > self.run_len {
            return Err(Error::ContextTooLong { needed: self.len() + depth, limit: self.run_len });
        }
        let mut segment = [Segment { tokens, parents, cache: &mut self.cache, rotary: &self.rotary }];
        match self.model.forward(&mut segment, taps) {
            Ok(hidden) => Ok(Staged { session: self, hidden }),
            Err(error) => {
                self.cache.discard();
                Err(error)
            }
        }
    }

    /// Goes back to `len` committed tokens.
    ///
    /// # Errors
    /// `CannotTruncate` when the cache no longer holds what is needed.
    pub fn truncate(&mut self, len: usize) -> Result<()> {
        self.cache.truncate(len)
    }
}

/// A block in the cache that is not committed yet.
pub struct Staged<'s, 'm> {
    session: &'s mut Session<'m>,
    hidden: Hidden,
}

impl Staged<'_, '_> {
    /// The block's hidden states.
    pub fn hidden(&self) -> &Hidden {
        &self.hidden
    }

    /// Logits of `count` rows from `first` on, `[count, vocab]` row by row on the host.
    pub fn logits(&self, first: usize, count: usize) -> Result<Vec<f32>> {
        let rows = self.hidden.last.narrow(0, first, count)?;
        host_rows(&self.session.model.logits(&rows)?)
    }

    /// Keeps `rows` (increasing, each with its parent) and returns the hidden states of the block.
    pub fn commit(self, rows: &[usize]) -> Result<Hidden> {
        self.session.cache.commit(rows)?;
        Ok(self.hidden.clone())
    }
}

impl Drop for Staged<'_, '_> {
    fn drop(&mut self) {
        self.session.cache.discard();
    }
}

/// Copies `[rows, vocab]` logits to the host, row after row.
pub(crate) fn host_rows(logits: &Tensor) -> Result<Vec<f32>> {
    Ok(logits.flatten_all()?.to_vec1::<f32>()?)
}
