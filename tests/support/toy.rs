//! A model without weights: its logits are a hash of exactly the rows it may see, so any mistake in
//! masks, rollback or commit changes the output.

use candle_core::{DType, Device, Tensor};
use specdec::cache::{RowShape, SlotLayout};
use specdec::error::{Error, Result};
use specdec::model::layers::mask::BlockPositions;
use specdec::model::{CausalLm, Hidden, Rotary, Segment, Tap, depths};

const LEVELS: u64 = 41;

/// A hash of what is visible, as a model.
pub(crate) struct Toy {
    salt: u64,
    vocab_size: usize,
    layout: Vec<SlotLayout>,
    device: Device,
}

/// A slot that keeps all rows.
pub(crate) const FULL: SlotLayout = rows(None);

/// A slot of rows, with a window.
pub(crate) const fn rows(window: Option<usize>) -> SlotLayout {
    let one = RowShape { heads: 1, width: 1 };
    SlotLayout::Rows { keys: one, values: one, window }
}

impl Toy {
    pub(crate) fn new(salt: u64, vocab_size: usize, layout: &[SlotLayout]) -> Self {
        Self { salt, vocab_size, layout: layout.to_vec(), device: Device::Cpu }
    }

    /// The layouts worth testing: whole, windowed, recurrent, and all of them in one model.
    pub(crate) fn layouts() -> Vec<Vec<SlotLayout>> {
        vec![
            vec![FULL],
            vec![rows(Some(5)), FULL],
            vec![rows(Some(3))],
            vec![SlotLayout::State],
            vec![FULL, SlotLayout::Empty, SlotLayout::State, rows(Some(4))],
        ]
    }

    fn rows_hash(&self, layer: usize, segment: &mut Segment<'_>, positions: &[usize]) -> Result<Vec<u64>> {
        let SlotLayout::Rows { window, .. } = self.layout[layer] else { unreachable!() };
        let committed = segment.cache.len();
        let column = |values: Vec<f32>| Tensor::from_vec(values, (1, positions.len(), 1), &self.device);
        let tokens = column(segment.tokens.iter().map(|token| *token as f32).collect())?;
        let places = column(positions.iter().map(|position| *position as f32).collect())?;
        let visible = segment.cache.append(layer, &tokens, &places)?;
        let block = BlockPositions { committed, parents: segment.parents, positions };
        let mask = block.mask(visible.first_position, window);
        let tokens = visible.keys.flatten_all()?.to_vec1::<f32>()?;
        let places = visible.values.flatten_all()?.to_vec1::<f32>()?;
        let everything = vec![true; tokens.len()];
        let hash_row = |row: usize| {
            let line = mask.as_ref().map_or(everything.as_slice(), |mask| mask.row(row));
            line.iter().zip(tokens.iter().zip(&places)).filter(|(seen, _)| **seen).fold(
                self.salt,
                |hash, (_, (token, place))| {
                    hash.wrapping_add(mix(u64::from(token.to_bits()) << 32 | u64::from(place.to_bits())))
                },
            )
        };
        Ok((0..positions.len()).map(hash_row).collect())
    }

    /// A state folds one token after another, in order.
    fn state_hash(&self, layer: usize, segment: &mut Segment<'_>) -> Result<Vec<u64>> {
        let before = match segment.cache.state(layer) {
            [] => self.salt,
            [state, ..] => unpack(&state.to_vec1::<f32>()?),
        };
        let mut states: Vec<u64> = Vec::new();
        for (token, parent) in segment.tokens.iter().zip(segment.parents) {
            let from = parent.map_or(before, |parent| states[parent]);
            // What `pack` keeps of it, so that a state read back is the state.
            states.push(mix(from.rotate_left(7) ^ u64::from(*token)) & ((1 << 60) - 1));
        }
        let tensors =
            states.iter().map(|state| Ok(vec![Tensor::new(pack(*state).as_slice(), &self.device)?]));
        let tensors = tensors.collect::<Result<_>>()?;
        segment.cache.append_states(layer, tensors);
        Ok(states)
    }
}

/// A hash as three numbers that f32 holds exactly.
fn pack(hash: u64) -> [f32; 3] {
    [hash & 0xf_ffff, hash >> 20 & 0xf_ffff, hash >> 40 & 0xf_ffff].map(|part| part as f32)
}

fn unpack(parts: &[f32]) -> u64 {
    parts.iter().rev().fold(0, |hash, part| hash << 20 | *part as u64)
}

fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 31)).wrapping_mul(0x7fb5_d329_728e_a185);
    x = (x ^ (x >> 27)).wrapping_mul(0x81da_def4_bc2d_d44d);
    x ^ (x >> 33)
}

impl CausalLm for Toy {
    fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    fn cache_layout(&self) -> &[SlotLayout] {
        &self.layout
    }

    fn cache_dtype(&self) -> DType {
        DType::F32
    }

    fn device(&self) -> &Device {
        &self.device
    }

    fn rotary(&self, run_len: usize) -> Rotary {
        Rotary::new(&[], run_len, DType::F32, &self.device)
    }

    fn forward(&self, segments: &mut [Segment<'_>], taps: &[Tap]) -> Result<Hidden> {
        let tokens: Vec<u32> = segments.iter().flat_map(|segment| segment.tokens).copied().collect();
        if let Some(id) = tokens.iter().find(|id| **id as usize >= self.vocab_size) {
            return Err(Error::TokenOutOfRange { id: *id, vocab_size: self.vocab_size });
        }
        let mut hidden = Vec::new();
        for segment in segments {
            let committed = segment.cache.len();
            segment.cache.stage(segment.tokens.len());
            let positions: Vec<usize> =
                depths(segment.parents).iter().map(|depth| committed + depth).collect();
            let mut hashes = vec![self.salt; segment.tokens.len()];
            for (layer, slot) in self.layout.iter().enumerate() {
                let seen = match slot {
                    SlotLayout::Rows { .. } => self.rows_hash(layer, segment, &positions)?,
                    SlotLayout::State => self.state_hash(layer, segment)?,
                    SlotLayout::Empty => continue,
                };
                for (hash, seen) in hashes.iter_mut().zip(seen) {
                    *hash = mix(*hash ^ seen.wrapping_add(layer as u64));
                }
            }
            hidden.extend(hashes.into_iter().flat_map(pack));
        }
        let last = Tensor::from_vec(hidden, (tokens.len(), 3), &self.device)?;
        let taps = taps
            .iter()
            .map(|tap| if *tap == Tap::Embedding { self.embed(&tokens) } else { Ok(last.clone()) });
        Ok(Hidden { taps: taps.collect::<Result<_>>()?, last })
    }

    fn logits(&self, hidden: &Tensor) -> Result<Tensor> {
        let rows = hidden.to_vec2::<f32>()?;
        let mut logits = Vec::new();
        for row in &rows {
            let hash = unpack(row);
            // Few levels, so that ties happen.
            logits.extend((0..self.vocab_size as u64).map(|token| (mix(hash ^ token) % LEVELS) as f32 * 0.1));
        }
        Ok(Tensor::from_vec(logits, (rows.len(), self.vocab_size), &self.device)?)
    }

    fn embed(&self, tokens: &[u32]) -> Result<Tensor> {
        let rows: Vec<f32> = tokens.iter().flat_map(|token| [*token as f32, 0.0, 0.0]).collect();
        Ok(Tensor::from_vec(rows, (tokens.len(), 3), &self.device)?)
    }
}
