//! Softmax attention with grouped heads over a cache.

use candle_core::{D, DType, Tensor};

use super::Ops;
use super::linear::{Linear, apply_shared};
use super::mask::Mask;
use super::norm::RmsNorm;
use super::rope::{RopeId, RowRotations};
use crate::cache::VisibleRows;
use crate::error::Result;
use crate::kernels;

/// Sizes of an attention layer.
#[derive(Debug, Clone, Copy)]
pub struct AttentionShape {
    /// Query heads.
    pub query_heads: usize,
    /// Key/value heads; divides the query heads.
    pub kv_heads: usize,
    /// Width of a query and key head.
    pub head_dim: usize,
    /// Width of a value head.
    pub value_head_dim: usize,
}

/// Projections, norms and rotation around the product of queries, keys and values.
pub struct Attention {
    pub(crate) shape: AttentionShape,
    pub(crate) query: Linear,
    pub(crate) key: Linear,
    pub(crate) value: Linear,
    pub(crate) output: Linear,
    /// Norms over each head of queries and keys.
    pub(crate) head_norms: Option<(RmsNorm, RmsNorm)>,
    /// None for layers without rotary positions.
    pub(crate) rope: Option<RopeId>,
    /// Multiplies the scores.
    pub(crate) scale: f64,
    /// `cap * tanh(score / cap)`.
    pub(crate) softcap: Option<f64>,
    pub(crate) ops: Ops,
}

/// Queries, keys and values of the rows of a pass, each `[heads, rows, width]`.
pub struct Projected {
    /// Queries.
    pub queries: Tensor,
    /// Keys, rotated.
    pub keys: Tensor,
    /// Values.
    pub values: Tensor,
}

impl Attention {
    /// Projects, normalises and rotates `[rows, hidden]`.
    pub fn project(&self, x: &Tensor, rotations: &RowRotations) -> Result<Projected> {
        let AttentionShape { query_heads, kv_heads, head_dim, value_head_dim } = self.shape;
        let [queries, keys, values] = apply_shared([&self.query, &self.key, &self.value], x)?;
        let mut queries = heads_first(&queries, query_heads, head_dim)?;
        let mut keys = heads_first(&keys, kv_heads, head_dim)?;
        if let Some((query_norm, key_norm)) = &self.head_norms {
            queries = query_norm.forward(&queries)?;
            keys = key_norm.forward(&keys)?;
        }
        if let Some(rope) = self.rope {
            queries = rotations.rotate(rope, &queries, self.ops)?;
            keys = rotations.rotate(rope, &keys, self.ops)?;
        }
        Ok(Projected { queries, keys, values: heads_first(&values, kv_heads, value_head_dim)? })
    }

    /// Attends with `queries` (`[query_heads, rows, head_dim]`) to the visible rows; the result is
    /// `[rows, query_heads * value_head_dim]`, before the output projection.
    pub fn attend(&self, queries: &Tensor, visible: &VisibleRows, mask: Option<&Mask>) -> Result<Tensor> {
        if self.ops == Ops::Fused && kernels::suits([queries, &visible.keys, &visible.values]) {
            #[expect(clippy::cast_possible_truncation, reason = "factors are given to a few digits")]
            let op = kernels::CpuAttention {
                scale: self.scale as f32,
                softcap: self.softcap.map(|cap| cap as f32),
                seen: mask.map(|mask| mask.seen().clone()),
            };
            return Ok(queries.apply_op3_no_bwd(&visible.keys, &visible.values, &op)?);
        }
        let AttentionShape { query_heads, kv_heads, head_dim, value_head_dim } = self.shape;
        let rows = queries.dim(1)?;
        let num_keys = visible.keys.dim(1)?;
        let group = query_heads / kv_heads;
        // Query heads that share a key head become rows of one product, so no key is repeated.
        let queries = (queries * self.scale)?.reshape((kv_heads, group * rows, head_dim))?;
        let mut scores = queries.matmul(&visible.keys.t()?)?;
        if let Some(cap) = self.softcap {
            scores = ((scores / cap)?.tanh()? * cap)?;
        }
        let dtype = scores.dtype();
        let mut scores = scores.to_dtype(DType::F32)?;
        if let Some(mask) = mask {
            scores = scores
                .reshape((kv_heads, group, rows, num_keys))?
                .broadcast_add(&mask.additive(scores.device())?)?
                .reshape((kv_heads, group * rows, num_keys))?;
        }
        let weights = match self.ops {
            Ops::Fused => candle_nn::ops::softmax_last_dim(&scores)?,
            Ops::Differentiable => candle_nn::ops::softmax(&scores, D::Minus1)?,
        };
        let mixed = weights.to_dtype(dtype)?.matmul(&visible.values)?;
        let mixed = mixed.reshape((query_heads, rows, value_head_dim))?;
        Ok(mixed.transpose(0, 1)?.reshape((rows, query_heads * value_head_dim))?)
    }

    /// `[rows, query_heads * value_head_dim]` to `[rows, hidden]`.
    pub fn output(&self, mixed: &Tensor) -> Result<Tensor> {
        self.output.forward(mixed)
    }
}

/// `[rows, heads * width]` to `[heads, rows, width]`, contiguous.
fn heads_first(x: &Tensor, heads: usize, width: usize) -> Result<Tensor> {
    let rows = x.dim(0)?;
    if rows == 1 {
        return Ok(x.reshape((heads, 1, width))?);
    }
    Ok(x.reshape((rows, heads, width))?.transpose(0, 1)?.contiguous()?)
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Var};

    use crate::checkpoint::Weight;

    use super::*;
    use crate::model::layers::rope::{RopeLayout, RopeScaling, RopeSpec, Rotary};

    /// Attention over its own rows with weights that are variables.
    fn layer(ops: Ops, layout: RopeLayout) -> (Attention, Vec<Var>, RowRotations) {
        let device = Device::Cpu;
        let mut variables = Vec::new();
        let mut variable = |shape: &[usize]| {
            let variable = Var::randn(0f32, 1f32, shape, &device).unwrap();
            variables.push(variable.clone());
            variable.as_tensor().clone()
        };
        let shape = AttentionShape { query_heads: 4, kv_heads: 2, head_dim: 6, value_head_dim: 6 };
        let mut linear = |out, into| Linear::new(Weight::Dense(variable(&[out, into])), None).unwrap();
        let (query, key, value, output) = (linear(24, 8), linear(12, 8), linear(12, 8), linear(8, 24));
        let head_norms = (RmsNorm::new(variable(&[6]), 1e-6, ops), RmsNorm::new(variable(&[6]), 1e-6, ops));
        let attention = Attention {
            shape,
            query,
            key,
            value,
            output,
            head_norms: Some(head_norms),
            rope: Some(RopeId(0)),
            scale: 0.4,
            softcap: Some(20.0),
            ops,
        };
        let spec = RopeSpec { dim: 4, theta: 100.0, layout, scaling: RopeScaling::None };
        let tables = Rotary::new(&[spec], 9, DType::F32, &device);
        let rotations = RowRotations::new(&[(&tables, &[2, 3, 5])]).unwrap();
        (attention, variables, rotations)
    }

    fn forward(attention: &Attention, rotations: &RowRotations, x: &Tensor) -> Tensor {
        let projected = attention.project(x, rotations).unwrap();
        let visible = VisibleRows { keys: projected.keys, values: projected.values, first_position: 0 };
        attention.output(&attention.attend(&projected.queries, &visible, None).unwrap()).unwrap()
    }

    #[test]
    fn every_weight_has_a_gradient() {
        for layout in [RopeLayout::HalfSplit, RopeLayout::Interleaved] {
            let (attention, variables, rotations) = layer(Ops::Differentiable, layout);
            let x = Tensor::randn(0f32, 1f32, (3, 8), &Device::Cpu).unwrap();
            let loss = forward(&attention, &rotations, &x).sqr().unwrap().sum_all().unwrap();
            let gradients = loss.backward().unwrap();
            for variable in &variables {
                let gradient = gradients.get(variable).expect("the weight is in the graph");
                let size = gradient.abs().unwrap().sum_all().unwrap().to_scalar::<f32>().unwrap();
                assert!(size > 0.0, "{layout:?}: a weight of shape {:?} has no influence", variable.dims());
            }
        }
    }
}
