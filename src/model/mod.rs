//! Networks without state, and sessions that pair one with its cache.
//!
//! `CausalLm` is what the rest of the program knows of a network. `decoder` is the one network that all
//! architectures of `arch` are declarations of; its parts live in `layers`. Nothing here knows that
//! drafters exist.

pub mod arch;
mod decoder;
pub mod layers;
mod load;
mod session;

use candle_core::{DType, Device, Tensor};

pub use decoder::Decoder;
pub use layers::rope::Rotary;
pub use load::{LoadOptions, Loaded, load};
pub(crate) use session::host_rows;
pub use session::{PREFILL_CHUNK, Session, Staged};

use crate::cache::{KvCache, SlotLayout};
use crate::error::Result;

/// A hidden state that a drafter can ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tap {
    /// Input of the first layer.
    Embedding,
    /// Output of decoder layer `i`, from 0: the residual stream.
    Layer(usize),
    /// After the last norm; what the head reads.
    Final,
}

/// The rows of one sequence in a pass.
pub struct Segment<'a> {
    /// Token ids, `[rows]`.
    pub tokens: &'a [u32],
    /// For each row the earlier row of this segment it continues; none continues the committed rows. A
    /// row sees its ancestors, itself and the committed rows.
    pub parents: &'a [Option<usize>],
    /// Where the rows' keys and values are staged.
    pub cache: &'a mut KvCache,
    /// Rotations of this run.
    pub rotary: &'a Rotary,
}

/// What a pass computed, rows of all segments one after another. Cloning shares the tensors.
#[derive(Clone)]
pub struct Hidden {
    /// After the last norm, `[rows, hidden]`.
    pub last: Tensor,
    /// One `[rows, hidden]` per tap asked for, in that order.
    pub taps: Vec<Tensor>,
}

/// A decoder-only network, shared by reference.
pub trait CausalLm {
    /// Rows of the embedding; ids at or above it are errors. May exceed the tokenizer's vocabulary.
    fn vocab_size(&self) -> usize;

    /// What each layer keeps.
    fn cache_layout(&self) -> &[SlotLayout];

    /// Type of the cached rows.
    fn cache_dtype(&self) -> DType;

    /// Where the network runs.
    fn device(&self) -> &Device;

    /// Rotations for a run of at most `run_len` tokens. Scalings that depend on length are fixed
    /// here, once per run, so that a block and its rows one by one agree.
    fn rotary(&self, run_len: usize) -> Rotary;

    /// Runs the segments through all layers, staging each one's rows in its cache.
    ///
    /// # Errors
    /// `TokenOutOfRange` for an id outside the vocabulary.
    fn forward(&self, segments: &mut [Segment<'_>], taps: &[Tap]) -> Result<Hidden>;

    /// Logits of hidden rows: `[rows, hidden]` to `[rows, vocab]`, f32.
    fn logits(&self, hidden: &Tensor) -> Result<Tensor>;

    /// Input embeddings of `tokens` as the first layer sees them, `[rows, hidden]`.
    fn embed(&self, tokens: &[u32]) -> Result<Tensor>;
}

/// Parents of a chain of `rows` rows.
pub fn chain(rows: usize) -> Vec<Option<usize>> {
    (0..rows).map(|row| row.checked_sub(1)).collect()
}

/// Depth of each row of a block below the committed rows: 0 for a row without a parent.
///
/// # Panics
/// When a parent does not come before its child.
pub fn depths(parents: &[Option<usize>]) -> Vec<usize> {
    let mut depths: Vec<usize> = Vec::with_capacity(parents.len());
    for (row, parent) in parents.iter().enumerate() {
        assert!(parent.is_none_or(|parent| parent < row), "row {row} comes before its parent");
        depths.push(parent.map_or(0, |parent| depths[parent] + 1));
    }
    depths
}
