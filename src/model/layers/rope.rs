//! Rotary position embeddings: frequencies of every scaling in use, and the rotation itself.
//!
//! Frequencies are fixed once per run. Scalings that depend on length
//! (`dynamic`, `longrope`) take the length of the whole run, prompt and continuation, so a block and
//! its rows one by one are rotated alike.
//!
//! Formulas: RoPE, arXiv:2104.09864; YaRN, arXiv:2309.00071; LongRoPE, arXiv:2402.13753; `llama3` and
//! `dynamic` as published with the Llama 3.1 and NTK-aware configurations.

use candle_core::{DType, Device, Tensor};

use super::Ops;
use crate::error::Result;

/// Which half of a pair is where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RopeLayout {
    /// Element `i` pairs with `i + dim / 2`.
    HalfSplit,
    /// Element `2 i` pairs with `2 i + 1`.
    Interleaved,
}

/// How frequencies are changed for contexts longer than the trained one.
#[derive(Debug, Clone, PartialEq)]
pub enum RopeScaling {
    /// Not at all.
    None,
    /// Positions divided by a factor.
    Linear {
        /// Divides every frequency.
        factor: f64,
    },
    /// NTK-aware: the base grows with the length of the run once that exceeds `trained_len`.
    Dynamic {
        /// How far the context is stretched.
        factor: f64,
        /// Trained context length in tokens.
        trained_len: usize,
    },
    /// Low frequencies divided, high ones kept, a ramp between.
    Llama3 {
        /// Divides the low frequencies.
        factor: f64,
        /// Wavelengths above `trained_len / low_freq_factor` are divided.
        low_freq_factor: f64,
        /// Wavelengths below `trained_len / high_freq_factor` are kept.
        high_freq_factor: f64,
        /// Trained context length in tokens.
        trained_len: usize,
    },
    /// YaRN: a ramp by dimension, and attention scaled up.
    Yarn {
        /// Divides the low frequencies.
        factor: f64,
        /// Rotations over the trained context above which a dimension is kept.
        beta_fast: f64,
        /// Rotations below which a dimension is divided.
        beta_slow: f64,
        /// Trained context length in tokens.
        trained_len: usize,
        /// Multiplies cosines and sines.
        attention_factor: f64,
        /// Whether the ends of the ramp are rounded to whole dimensions.
        truncate: bool,
    },
    /// LongRoPE: one divisor per dimension, another set once the run exceeds `trained_len`.
    LongRope {
        /// Divisors up to the trained length, `[dim / 2]`.
        short: Vec<f64>,
        /// Divisors beyond, `[dim / 2]`.
        long: Vec<f64>,
        /// Trained context length in tokens.
        trained_len: usize,
        /// Multiplies cosines and sines.
        attention_factor: f64,
    },
    /// Divisors stored in the checkpoint, `[dim / 2]`.
    Divisors(Vec<f64>),
}

/// One kind of rotation; a model has one, or one for full and one for windowed layers.
#[derive(Debug, Clone, PartialEq)]
pub struct RopeSpec {
    /// Rotated elements of a head, from the first on; even.
    pub dim: usize,
    /// Base of the frequencies.
    pub theta: f64,
    /// Pairing of elements.
    pub layout: RopeLayout,
    /// Change for long contexts.
    pub scaling: RopeScaling,
}

impl RopeSpec {
    /// Angle per position of each pair, `[dim / 2]`, and the factor on cosines and sines, for a run of
    /// `run_len` tokens.
    pub fn frequencies(&self, run_len: usize) -> (Vec<f64>, f64) {
        let dim = self.dim as f64;
        let powers = |theta: f64| (0..self.dim / 2).map(move |i| theta.powf(-2.0 * i as f64 / dim));
        let plain = powers(self.theta);
        match &self.scaling {
            RopeScaling::None => (plain.collect(), 1.0),
            RopeScaling::Linear { factor } => (plain.map(|f| f / factor).collect(), 1.0),
            RopeScaling::Dynamic { factor, trained_len } => {
                let trained = *trained_len as f64;
                let len = (run_len as f64).max(trained);
                let stretch = factor * len / trained - (factor - 1.0);
                (powers(self.theta * stretch.powf(dim / (dim - 2.0))).collect(), 1.0)
            }
            RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, trained_len } => {
                let rescale = |frequency: f64| {
                    let turns = *trained_len as f64 * frequency / std::f64::consts::TAU;
                    if turns > *high_freq_factor {
                        return frequency;
                    }
                    if turns < *low_freq_factor {
                        return frequency / factor;
                    }
                    let kept = (turns - low_freq_factor) / (high_freq_factor - low_freq_factor);
                    frequency * (kept + (1.0 - kept) / factor)
                };
                (plain.map(rescale).collect(), 1.0)
            }
            RopeScaling::Yarn { factor, beta_fast, beta_slow, trained_len, attention_factor, truncate } => {
                // Dimension whose pair turns `rotations` times over the trained context.
                let dimension_of = |rotations: f64| {
                    dim * (*trained_len as f64 / (rotations * std::f64::consts::TAU)).ln()
                        / (2.0 * self.theta.ln())
                };
                let (mut low, mut high) = (dimension_of(*beta_fast), dimension_of(*beta_slow));
                if *truncate {
                    (low, high) = (low.floor(), high.ceil());
                }
                let low = low.max(0.0);
                let high = high.min(dim - 1.0);
                // A ramp of no width would divide by zero.
                let high = if high - low < 1e-9 { low + 0.001 } else { high };
                let blend = |(i, frequency): (usize, f64)| {
                    let divided = ((i as f64 - low) / (high - low)).clamp(0.0, 1.0);
                    frequency * (1.0 - divided) + frequency / factor * divided
                };
                (plain.enumerate().map(blend).collect(), *attention_factor)
            }
            RopeScaling::LongRope { short, long, trained_len, attention_factor } => {
                let divisors = if run_len > *trained_len { long } else { short };
                (plain.zip(divisors).map(|(f, divisor)| f / divisor).collect(), *attention_factor)
            }
            RopeScaling::Divisors(divisors) => {
                (plain.zip(divisors).map(|(f, divisor)| f / divisor).collect(), 1.0)
            }
        }
    }
}

/// Index into a model's list of rotations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RopeId(pub usize);

/// The rotations of a model with their frequencies fixed for one run.
pub struct Rotary {
    kinds: Vec<RotaryKind>,
    dtype: DType,
    device: Device,
}

struct RotaryKind {
    /// Angle per position of each pair, `[dim / 2]`.
    frequencies: Vec<f64>,
    /// Multiplies cosines and sines.
    factor: f64,
    dim: usize,
    layout: RopeLayout,
}

impl Rotary {
    /// Frequencies for a run of at most `run_len` tokens.
    pub fn new(specs: &[RopeSpec], run_len: usize, dtype: DType, device: &Device) -> Self {
        let kinds = specs.iter().map(|spec| {
            let (frequencies, factor) = spec.frequencies(run_len);
            RotaryKind { frequencies, factor, dim: spec.dim, layout: spec.layout }
        });
        Self { kinds: kinds.collect(), dtype, device: device.clone() }
    }
}

/// Cosines and sines of one kind of rotation for the rows of a pass.
struct Table {
    /// `[rows, dim / 2]`.
    cos: Tensor,
    /// `[rows, dim / 2]`.
    sin: Tensor,
    dim: usize,
    layout: RopeLayout,
}

/// The rotations of the rows of one pass.
pub struct RowRotations {
    tables: Vec<Table>,
}

impl RowRotations {
    /// Rows of several sequences one after another: each brings its run's frequencies and its rows'
    /// absolute positions. All are of one model.
    pub fn new(parts: &[(&Rotary, &[usize])]) -> Result<Self> {
        let Some((first, _)) = parts.first() else { return Ok(Self { tables: Vec::new() }) };
        let tables = (0..first.kinds.len()).map(|kind| {
            let (mut cos, mut sin) = (Vec::new(), Vec::new());
            for (rotary, positions) in parts {
                let RotaryKind { frequencies, factor, .. } = &rotary.kinds[kind];
                for (position, frequency) in
                    positions.iter().flat_map(|position| frequencies.iter().map(move |f| (*position, f)))
                {
                    let (s, c) = (position as f64 * frequency).sin_cos();
                    #[expect(clippy::cast_possible_truncation, reason = "rotations are f32")]
                    {
                        cos.push((c * factor) as f32);
                        sin.push((s * factor) as f32);
                    }
                }
            }
            let RotaryKind { frequencies, dim, layout, .. } = &first.kinds[kind];
            let shape = (cos.len() / frequencies.len(), frequencies.len());
            let tensor = |values| Tensor::from_vec(values, shape, &first.device)?.to_dtype(first.dtype);
            Ok(Table { cos: tensor(cos)?, sin: tensor(sin)?, dim: *dim, layout: *layout })
        });
        Ok(Self { tables: tables.collect::<Result<_>>()? })
    }

    /// Rotates `[heads, rows, head_dim]`; elements past the rotation's dimension stay as they are.
    pub fn rotate(&self, rope: RopeId, x: &Tensor, ops: Ops) -> Result<Tensor> {
        let Table { cos, sin, dim, layout } = &self.tables[rope.0];
        let width = x.dim(2)?;
        if *dim < width {
            let rotated = rotate_whole(&x.narrow(2, 0, *dim)?, cos, sin, *layout, ops)?;
            return Ok(Tensor::cat(&[&rotated, &x.narrow(2, *dim, width - dim)?], 2)?);
        }
        rotate_whole(x, cos, sin, *layout, ops)
    }
}

fn rotate_whole(x: &Tensor, cos: &Tensor, sin: &Tensor, layout: RopeLayout, ops: Ops) -> Result<Tensor> {
    use candle_nn::rotary_emb::{rope, rope_i, rope_i_slow, rope_slow};
    let x = x.contiguous()?.unsqueeze(0)?;
    let rotated = match (layout, ops) {
        (RopeLayout::HalfSplit, Ops::Fused) => rope(&x, cos, sin)?,
        (RopeLayout::HalfSplit, Ops::Differentiable) => rope_slow(&x, cos, sin)?,
        (RopeLayout::Interleaved, Ops::Fused) => rope_i(&x, cos, sin)?,
        (RopeLayout::Interleaved, Ops::Differentiable) => rope_i_slow(&x, cos, sin)?,
    };
    Ok(rotated.squeeze(0)?)
}
