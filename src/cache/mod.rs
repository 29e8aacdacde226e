//! What a sequence remembers: one slot per layer, one length for all of them.
//!
//! A forward pass *stages* rows; `commit` keeps some of them, `discard` none, `truncate` goes back.
//! Committed row `i` is the token at absolute position `i`. Which rows a query sees is decided by
//! position in `model::layers::mask`; this module only stores.

mod rows;
mod state;

use candle_core::{DType, Device, Tensor};

use crate::error::Result;
use rows::RowSlot;
use state::StateSlot;

/// Heads and width of one stored stream: a row is `[heads, width]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowShape {
    /// Heads stored per token.
    pub heads: usize,
    /// Elements per head.
    pub width: usize,
}

/// What one layer keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotLayout {
    /// Two streams of rows: keys and values, or a latent and its rotary part. With a `window`, rows
    /// that no later query can see are dropped.
    Rows {
        /// Keys, or the latent.
        keys: RowShape,
        /// Values, or the latent's rotary part.
        values: RowShape,
        /// A query at position `i` sees positions above `i - window`.
        window: Option<usize>,
    },
    /// A recurrent state; a snapshot is staged with every row.
    State,
    /// Nothing: the layer reads another layer's slot or has no mixer.
    Empty,
}

/// How far a cache can go back without reading tokens again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rollback {
    /// To any length.
    Any,
    /// By at most this many committed tokens.
    Margin(usize),
    /// Only by dropping staged rows.
    StagedOnly,
}

enum Slot {
    Rows(RowSlot),
    State(StateSlot),
    Empty,
}

/// The rows a layer attends to: committed ones first, then the staged block.
pub struct VisibleRows {
    /// `[heads, len, width]`.
    pub keys: Tensor,
    /// `[heads, len, width]`.
    pub values: Tensor,
    /// Absolute position of the first row; the committed rows follow one by one.
    pub first_position: usize,
}

/// The cache of one sequence.
pub struct KvCache {
    slots: Vec<Slot>,
    /// Committed tokens.
    len: usize,
    /// Rows staged by the pass under way or just done.
    staged: usize,
}

impl KvCache {
    /// An empty cache. `margin` is how many committed tokens `truncate` must be able to take back from
    /// windowed slots: the longest draft.
    pub fn new(layout: &[SlotLayout], margin: usize, dtype: DType, device: &Device) -> Self {
        let slots = layout
            .iter()
            .map(|slot| match *slot {
                SlotLayout::Rows { keys, values, window } => Slot::Rows(RowSlot::new(
                    keys,
                    values,
                    window.map(|window| (window, margin)),
                    dtype,
                    device,
                )),
                SlotLayout::State => Slot::State(StateSlot::default()),
                SlotLayout::Empty => Slot::Empty,
            })
            .collect();
        Self { slots, len: 0, staged: 0 }
    }

    /// Committed tokens.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is committed.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Rows staged and neither committed nor discarded.
    pub fn staged(&self) -> usize {
        self.staged
    }

    /// Bytes held by all slots.
    pub fn size_bytes(&self) -> usize {
        self.slots
            .iter()
            .map(|slot| match slot {
                Slot::Rows(rows) => rows.size_bytes(),
                Slot::State(state) => state.size_bytes(),
                Slot::Empty => 0,
            })
            .sum()
    }

    /// Opens a block of `rows` rows. Every layer that stores something then appends to its slot once.
    ///
    /// # Panics
    /// When the previous block was neither committed nor discarded.
    pub fn stage(&mut self, rows: usize) {
        assert_eq!(self.staged, 0, "a block is staged while another is open");
        self.staged = rows;
    }

    /// Appends the block's keys and values (`[heads, rows, width]` each) to the slot of `layer` and
    /// returns everything stored there.
    ///
    /// # Panics
    /// When the slot does not store rows or the number of rows is not the staged one.
    pub fn append(&mut self, layer: usize, keys: &Tensor, values: &Tensor) -> Result<VisibleRows> {
        let Slot::Rows(slot) = &mut self.slots[layer] else { panic!("layer {layer} stores no rows") };
        assert_eq!(keys.dims()[1], self.staged, "rows appended to layer {layer}");
        slot.append(self.len, keys, values)
    }

    /// What the slot of `layer` holds, for a layer that shares it.
    ///
    /// # Panics
    /// When the slot does not store rows.
    pub fn visible(&self, layer: usize) -> Result<VisibleRows> {
        let Slot::Rows(slot) = &self.slots[layer] else { panic!("layer {layer} stores no rows") };
        slot.visible(self.len, self.staged)
    }

    /// The committed recurrent state of `layer`; empty before the first token.
    ///
    /// # Panics
    /// When the slot is not recurrent.
    pub fn state(&self, layer: usize) -> &[Tensor] {
        let Slot::State(slot) = &self.slots[layer] else { panic!("layer {layer} has no state") };
        slot.committed()
    }

    /// Stages one state per row of the block: what the layer's state would be if that row were the last.
    ///
    /// # Panics
    /// When the slot is not recurrent or the number of states is not the staged one.
    pub fn append_states(&mut self, layer: usize, states: Vec<Vec<Tensor>>) {
        let Slot::State(slot) = &mut self.slots[layer] else { panic!("layer {layer} has no state") };
        assert_eq!(states.len(), self.staged, "states appended to layer {layer}");
        slot.stage(states);
    }

    /// Moves the staged rows named in `rows` behind the committed ones and forgets the rest.
    ///
    /// `rows` is strictly increasing. For the first rows of a chain this changes only a length; for a
    /// tree it gathers `[heads, rows, width]` in every layer.
    ///
    /// # Panics
    /// When `rows` is not increasing or names a row that was not staged.
    pub fn commit(&mut self, rows: &[usize]) -> Result<()> {
        assert!(rows.is_sorted_by(|a, b| a < b), "committed rows must increase: {rows:?}");
        assert!(rows.last().is_none_or(|last| *last < self.staged), "{rows:?} of {} staged", self.staged);
        let is_prefix = rows.iter().enumerate().all(|(index, row)| index == *row);
        for slot in &mut self.slots {
            match slot {
                Slot::Rows(slot) if !is_prefix => slot.gather(self.len, rows)?,
                Slot::State(slot) => slot.commit(rows.last().copied()),
                Slot::Rows(_) | Slot::Empty => {}
            }
        }
        self.len += rows.len();
        self.staged = 0;
        Ok(())
    }

    /// Forgets the staged rows.
    pub fn discard(&mut self) {
        self.staged = 0;
        for slot in &mut self.slots {
            if let Slot::State(slot) = slot {
                slot.commit(None);
            }
        }
    }

    /// Goes back to `len` committed tokens.
    ///
    /// # Errors
    /// `CannotTruncate` when a slot no longer holds what a query at `len` would see; nothing changes then.
    ///
    /// # Panics
    /// When a block is staged or `len` is larger than now.
    pub fn truncate(&mut self, len: usize) -> Result<()> {
        assert!(self.staged == 0 && len <= self.len, "truncate({len}) of {} + {}", self.len, self.staged);
        if len == self.len {
            return Ok(());
        }
        for slot in &self.slots {
            match slot {
                Slot::Rows(slot) => slot.check_truncate(self.len, len)?,
                Slot::State(_) => StateSlot::check_truncate(self.len, len)?,
                Slot::Empty => {}
            }
        }
        for slot in &mut self.slots {
            if let Slot::State(slot) = slot {
                slot.clear();
            }
        }
        self.len = len;
        Ok(())
    }
}

/// Row numbers as an index tensor.
///
/// # Panics
/// When a row number does not fit u32, which no cache reaches.
pub(crate) fn row_index(rows: impl IntoIterator<Item = usize>, device: &Device) -> Result<Tensor> {
    let ids: Vec<u32> =
        rows.into_iter().map(|row| u32::try_from(row).expect("row numbers fit u32")).collect();
    Ok(Tensor::new(ids, device)?)
}

/// How far a cache of this layout can go back once `margin` is set as in `KvCache::new`.
pub fn rollback(layout: &[SlotLayout], margin: usize) -> Rollback {
    layout.iter().fold(Rollback::Any, |so_far, slot| match (so_far, slot) {
        (Rollback::StagedOnly, _) | (_, SlotLayout::State) => Rollback::StagedOnly,
        (_, SlotLayout::Rows { window: Some(_), .. }) => Rollback::Margin(margin),
        (other, _) => other,
    })
}
