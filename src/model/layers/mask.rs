//! Who sees whom, decided by position.
//!
//! Committed row `i` is at position `i`; a block row is one position below its parent. A query sees
//! committed rows and its own ancestors in the block, and in a windowed layer only positions above its
//! own minus the window.

use candle_core::{DType, Device, Tensor};

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

impl BlockPositions<'_> {
    /// Additive mask `[rows, keys]` for keys from absolute position `first_position` on: 0 where the
    /// query sees the key, minus infinity elsewhere. None when every row sees every key.
    pub fn mask(
        &self,
        first_position: usize,
        window: Option<usize>,
        dtype: DType,
        device: &Device,
    ) -> Result<Option<Tensor>> {
        let rows = self.parents.len();
        let num_committed = self.committed - first_position;
        let num_keys = num_committed + rows;
        let in_window = |query: usize, key: usize| window.is_none_or(|window| key + window > query);
        if rows == 1 && in_window(self.positions[0], first_position) {
            return Ok(None);
        }
        let mut mask = vec![f32::NEG_INFINITY; rows * num_keys];
        for row in 0..rows {
            let query = self.positions[row];
            let line = &mut mask[row * num_keys..(row + 1) * num_keys];
            let from = window
                .map_or(first_position, |window| (query + 1).saturating_sub(window).max(first_position));
            if from < self.committed {
                line[from - first_position..num_committed].fill(0.0);
            }
            let mut seen = Some(row);
            while let Some(ancestor) = seen {
                if in_window(query, self.positions[ancestor]) {
                    line[num_committed + ancestor] = 0.0;
                }
                seen = self.parents[ancestor];
            }
        }
        Ok(Some(Tensor::from_vec(mask, (rows, num_keys), device)?.to_dtype(dtype)?))
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
        let Some(mask) = block.mask(first, window, DType::F32, &Device::Cpu).unwrap() else { return vec![] };
        let rows = mask.to_vec2::<f32>().unwrap();
        rows.iter().map(|row| row.iter().map(|x| if *x == 0.0 { 'x' } else { '.' }).collect()).collect()
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
