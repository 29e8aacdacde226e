//! Linear layers and embeddings over dense or quantised weights.
//!
//! `checkpoint::Weights` decides which kind a weight is; nobody above this file asks.

use std::sync::Arc;

use candle_core::quantized::{QMatMul, QTensor};
use candle_core::{Device, Module, Tensor};

use crate::checkpoint::Weight;
use crate::error::Result;

enum Product {
    /// Transposed view `[in, out]`.
    Dense(Tensor),
    Quantized(Arc<QTensor>, QMatMul),
}

/// `x W^T + b`.
pub struct Linear {
    product: Product,
    bias: Option<Tensor>,
}

impl Linear {
    /// A layer with `weight` `[out, in]` and `bias` `[out]`.
    pub fn new(weight: Weight, bias: Option<Tensor>) -> Result<Self> {
        let product = match weight {
            Weight::Dense(tensor) => Product::Dense(tensor.t()?),
            Weight::Quantized(tensor) => Product::Quantized(tensor.clone(), QMatMul::from_arc(tensor)?),
        };
        Ok(Self { product, bias })
    }

    /// `[rows, in]` to `[rows, out]`.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let product = match &self.product {
            Product::Dense(transposed) => x.matmul(transposed)?,
            Product::Quantized(_, matmul) => matmul.forward(x)?,
        };
        self.add_bias(product)
    }

    fn add_bias(&self, product: Tensor) -> Result<Tensor> {
        Ok(match &self.bias {
            Some(bias) => product.broadcast_add(bias)?,
            None => product,
        })
    }
}

/// Applies layers that read the same rows, sharing what can be shared of their input's preparation.
pub(crate) fn apply_shared<const N: usize>(layers: [&Linear; N], x: &Tensor) -> Result<[Tensor; N]> {
    let quantized: Vec<&QTensor> = layers
        .iter()
        .filter_map(|layer| match &layer.product {
            Product::Quantized(tensor, _) => Some(tensor.as_ref()),
            Product::Dense(_) => None,
        })
        .collect();
    let shared = if quantized.len() == N { QTensor::gemv_fused_shared_lhs(&quantized, x)? } else { None };
    let outputs = match shared {
        Some(products) => {
            layers.iter().zip(products).map(|(layer, product)| layer.add_bias(product)).collect()
        }
        None => layers.iter().map(|layer| layer.forward(x)).collect::<Result<Vec<_>>>(),
    }?;
    Ok(outputs.try_into().expect("one output per layer"))
}

/// Rows of a weight matrix looked up by token id.
pub struct Embedding {
    weight: Weight,
    scale: Option<f64>,
}

impl Embedding {
    /// A table `[vocab, hidden]` whose rows are multiplied by `scale`.
    pub fn new(weight: Weight, scale: Option<f64>) -> Self {
        Self { weight, scale }
    }

    /// Ids that have a row.
    pub fn vocab_size(&self) -> usize {
        self.weight.rows()
    }

    /// `[rows, hidden]`.
    pub fn forward(&self, tokens: &[u32], device: &Device) -> Result<Tensor> {
        let ids = Tensor::new(tokens, device)?;
        let rows = match &self.weight {
            Weight::Dense(tensor) => tensor.index_select(&ids, 0)?,
            Weight::Quantized(tensor) => tensor.embedding(&ids)?,
        };
        Ok(match self.scale {
            Some(scale) => (rows * scale)?,
            None => rows,
        })
    }
}
