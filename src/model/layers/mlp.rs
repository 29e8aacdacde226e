//! Gated feed-forward layers.

use candle_core::Tensor;

use super::linear::{Linear, apply_shared};
use crate::error::Result;

/// The non-linearity of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// `x * sigmoid(x)`.
    Silu,
    /// GELU with the tanh approximation.
    GeluTanh,
    /// GELU with the error function.
    GeluErf,
    /// `max(0, x)`.
    Relu,
}

/// Names of activations in configurations, and what they mean.
pub const ACTIVATIONS: &[(&str, Activation)] = &[
    ("silu", Activation::Silu),
    ("swish", Activation::Silu),
    ("gelu_pytorch_tanh", Activation::GeluTanh),
    ("gelu_new", Activation::GeluTanh),
    ("gelu_fast", Activation::GeluTanh),
    ("gelu", Activation::GeluErf),
    ("relu", Activation::Relu),
];

impl Activation {
    fn apply(self, x: &Tensor) -> Result<Tensor> {
        Ok(match self {
            Self::Silu => x.silu()?,
            Self::GeluTanh => x.gelu()?,
            Self::GeluErf => x.gelu_erf()?,
            Self::Relu => x.relu()?,
        })
    }
}

/// `down(activation(gate(x)) * up(x))`.
pub struct GatedMlp {
    pub(crate) gate: Linear,
    pub(crate) up: Linear,
    pub(crate) down: Linear,
    pub(crate) activation: Activation,
}

impl GatedMlp {
    /// `[rows, hidden]` to `[rows, hidden]`.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let [gate, up] = apply_shared([&self.gate, &self.up], x)?;
        self.down.forward(&(self.activation.apply(&gate)? * up)?)
    }
}
