//! Root-mean-square normalisation.

use candle_core::Tensor;

use super::Ops;
use crate::error::Result;

/// `x / sqrt(mean(x^2) + eps) * weight` over the last dimension.
pub struct RmsNorm {
    weight: Tensor,
    eps: f32,
    ops: Ops,
}

impl RmsNorm {
    /// A norm with `weight` `[width]`; families that store `w - 1` add the 1 before this.
    pub fn new(weight: Tensor, eps: f64, ops: Ops) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "an epsilon is given to a few digits")]
        let eps = eps as f32;
        Self { weight, eps, ops }
    }

    /// Normalises `[.., width]`.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        Ok(match self.ops {
            Ops::Fused => candle_nn::ops::rms_norm(&x.contiguous()?, &self.weight, self.eps)?,
            Ops::Differentiable => candle_nn::ops::rms_norm_slow(x, &self.weight, self.eps)?,
        })
    }
}
