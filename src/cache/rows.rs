//! A slot of keys and values, whole or windowed.
//!
//! Rows lie in buffers `[heads, capacity, width]` that are written in place and grow by doubling. A
//! windowed slot drops rows from the front, but only rows that neither the window nor a `truncate`
//! within the margin can ask for again; so the row of a position is its distance from `first`.

use candle_core::{DType, Device, Tensor};

use super::{RowShape, VisibleRows};
use crate::error::{Error, Result};

const INITIAL_CAPACITY: usize = 64;

pub(super) struct RowSlot {
    shapes: [RowShape; 2],
    /// Window and margin, in tokens.
    window: Option<(usize, usize)>,
    dtype: DType,
    device: Device,
    buffers: Option<[Tensor; 2]>,
    capacity: usize,
    /// Absolute position of the first row kept.
    first: usize,
}

impl RowSlot {
    pub(super) fn new(
        keys: RowShape,
        values: RowShape,
        window: Option<(usize, usize)>,
        dtype: DType,
        device: &Device,
    ) -> Self {
        let device = device.clone();
        Self { shapes: [keys, values], window, dtype, device, buffers: None, capacity: 0, first: 0 }
    }

    pub(super) fn size_bytes(&self) -> usize {
        let elements: usize = self.shapes.iter().map(|shape| shape.heads * shape.width).sum();
        elements * self.capacity * self.dtype.size_in_bytes()
    }

    /// Writes rows behind `len` committed tokens, over whatever was staged there before.
    pub(super) fn append(&mut self, len: usize, keys: &Tensor, values: &Tensor) -> Result<VisibleRows> {
        let rows = keys.dim(1)?;
        if len + rows - self.first > self.capacity {
            self.make_room(len, rows)?;
        }
        let buffers = self.buffers.as_ref().expect("make_room allocates");
        for (buffer, new) in buffers.iter().zip([keys, values]) {
            buffer.slice_set(&new.contiguous()?, 1, len - self.first)?;
        }
        self.visible(len, rows)
    }

    /// What `rows` rows staged behind `len` committed ones can see: the first of them bounds the window.
    pub(super) fn visible(&self, len: usize, rows: usize) -> Result<VisibleRows> {
        let [keys, values] = self.buffers.as_ref().expect("rows were appended");
        let first_position = match self.window {
            Some((window, _)) => (len + 1).saturating_sub(window).max(self.first),
            None => self.first,
        };
        let (start, count) = (first_position - self.first, len + rows - first_position);
        Ok(VisibleRows {
            keys: keys.narrow(1, start, count)?,
            values: values.narrow(1, start, count)?,
            first_position,
        })
    }

    /// Packs the named staged rows behind `len` committed ones.
    pub(super) fn gather(&mut self, len: usize, rows: &[usize]) -> Result<()> {
        let Some(buffers) = &self.buffers else { return Ok(()) };
        if rows.is_empty() {
            return Ok(());
        }
        let start = len - self.first;
        let sources = super::row_index(rows.iter().map(|row| start + row), &self.device)?;
        for buffer in buffers {
            buffer.slice_set(&buffer.index_select(&sources, 1)?, 1, start)?;
        }
        Ok(())
    }

    pub(super) fn check_truncate(&self, from: usize, to: usize) -> Result<()> {
        match self.window {
            Some((window, _)) if self.first > (to + 1).saturating_sub(window) => {
                Err(Error::CannotTruncate { from, to, kept: "a window and the longest draft" })
            }
            _ => Ok(()),
        }
    }

    /// Drops rows nobody can ask for, and grows the buffers if that is not enough.
    fn make_room(&mut self, len: usize, rows: usize) -> Result<()> {
        let first = match self.window {
            Some((window, margin)) => (len + 1).saturating_sub(window).saturating_sub(margin).max(self.first),
            None => self.first,
        };
        let kept = len - first;
        // Twice what is needed at least, so that moving rows costs a constant per token.
        let capacity = if self.window.is_some() {
            self.capacity.max((2 * (kept + rows)).max(INITIAL_CAPACITY))
        } else {
            (kept + rows).max(2 * self.capacity).max(INITIAL_CAPACITY)
        };
        let mut buffers = Vec::with_capacity(2);
        for (index, shape) in self.shapes.iter().enumerate() {
            let buffer = Tensor::zeros((shape.heads, capacity, shape.width), self.dtype, &self.device)?;
            if let (Some(old), true) = (&self.buffers, kept > 0) {
                let kept_rows = old[index].narrow(1, first - self.first, kept)?.contiguous()?;
                buffer.slice_set(&kept_rows, 1, 0)?;
            }
            buffers.push(buffer);
        }
        self.buffers = buffers.try_into().ok();
        self.capacity = capacity;
        self.first = first;
        Ok(())
    }
}
