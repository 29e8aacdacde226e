//! Who sees whom, decided by position.
//!
//! Committed row `i` is at position `i`; a block row is one position below its parent. A query sees
//! committed rows and its own ancestors in the block, and in a windowed layer only positions above its
//! own minus the window.

use std::sync::{Arc, OnceLock};

use candle_core::{Device, Tensor};

use crate::error::Result;

/// The rows of one block and where they stand.
pub struct BlockPositions<'a> {
    /// Committed tokens below the block.
    pub committed: usize,
    /// Parent of each row, as in `Segment`.
    pub parents: &'a [Option<usize>],
    /// Absolute position of each row.
    pub positions: &'a [usize],
}

/// Which keys each row of a block sees.
#[derive(Clone)]
pub struct Mask {
    num_keys: usize,
    /// `[rows, keys]`.
    seen: Arc<[bool]>,
    /// The same for devices that add it to scores, made when first asked for.
    additive: Arc<OnceLock<Tensor>>,
}

impl Mask {
    /// `[rows, keys]`, row after row.
    pub fn seen(&self) -> &Arc<[bool]> {
        &self.seen
    }

    /// The keys one row sees, `[keys]`.
    pub fn row(&self, row: usize) -> &[bool] {
        &self.seen[row * self.num_keys..(row + 1) * self.num_keys]
    }

    /// `[rows, keys]` in f32: 0 where a row sees a key, minus infinity elsewhere.
    pub fn additive(&self, device: &Device) -> Result<Tensor> {
        if let Some(made) = self.additive.get() {
            return Ok(made.clone());
        }
        let values: Vec<f32> =
            self.seen.iter().map(|seen| if *seen { 0.0 } else { f32::NEG_INFINITY }).collect();
        let made = Tensor::from_vec(values, (self.seen.len() / self.num_keys, self.num_keys), device)?;
        Ok(self.additive.get_or_init(|| made).clone())
    }
}

impl BlockPositions<'_> {
    /// Who sees which of the keys from absolute position `first_position` on. None when every row sees
    /// every key.
    pub fn mask(&self, first_position: usize, window: Option<usize>) -> Option<Mask> {
        let rows = self.parents.len();
        let num_committed = self.committed - first_position;
        let num_keys = num_committed + rows;
        let in_window = |query: usize, key: usize| window.is_none_or(|window| key + window > query);
        if rows == 1 && in_window(self.positions[0], first_position) {
            return None;
        }
        let mut seen = vec![false; rows * num_keys];
        for (row, line) in seen.chunks_mut(num_keys).enumerate() {
            let query = self.positions[row];
            let oldest = window.map_or(0, |window| (query + 1).saturating_sub(window)).max(first_position);
            if oldest < self.committed {
                line[oldest - first_position..num_committed].fill(true);
            }
            let mut ancestor = Some(row);
            while let Some(here) = ancestor {
                line[num_committed + here] = in_window(query, self.positions[here]);
                ancestor = self.parents[here];
            }
        }
        Some(Mask { num_keys, seen: seen.into(), additive: Arc::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{chain, depths};

    fn drawn(
        committed: usize,
        parents: &[Option<usize>],
        first: usize,
        window: Option<usize>,
    ) -> Vec<String> {
        let positions: Vec<usize> = depths(parents).iter().map(|depth| committed + depth).collect();
        let block = BlockPositions { committed, parents, positions: &positions };
        let Some(mask) = block.mask(first, window) else { return vec![] };
        let draw = |row| mask.row(row).iter().map(|seen| if *seen { 'x' } else { '.' }).collect();
        (0..parents.len()).map(draw).collect()
    }

    #[test]
    fn a_chain_is_causal_and_sees_all_that_is_committed() {
        assert_eq!(drawn(2, &chain(3), 0, None), ["xxx..", "xxxx.", "xxxxx"]);
        assert!(drawn(5, &chain(1), 0, None).is_empty());
    }

    #[test]
    fn siblings_do_not_see_each_other() {
        // anchor with two children, the second of which has a child
        assert_eq!(
            drawn(1, &[None, Some(0), Some(0), Some(2)], 0, None),
            ["xx...", "xxx..", "xx.x.", "xx.xx"]
        );
    }

    #[test]
    fn windows_go_by_position() {
        assert_eq!(drawn(4, &chain(3), 1, Some(3)), [".xxx..", "..xxx.", "...xxx"]);
        // Two siblings at one position see the same committed rows.
        assert_eq!(drawn(3, &[None, Some(0), Some(0)], 0, Some(3)), [".xxx..", "..xxx.", "..xx.x"]);
        assert_eq!(drawn(4, &chain(1), 1, Some(3)), [".xxx"]);
        assert!(drawn(4, &chain(1), 2, Some(3)).is_empty());
    }
}
