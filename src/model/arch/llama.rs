//! Llama: pre-norm, grouped heads, gated SiLU, optional biases everywhere.

use super::common;
use super::names::NameTable;
use crate::config::{Description, ModelConfig};
use crate::error::Result;
use crate::model::decoder::DecoderSpec;

pub(super) const NAMES: NameTable = NameTable { hugging_face: &[], gguf: &[] };

pub(super) fn declare(config: &ModelConfig, description: &Description) -> Result<DecoderSpec> {
    let mut spec = common::pre_norm(config, description)?;
    let attention_bias = config.get_bool("attention_bias")?.unwrap_or(false);
    let mlp_bias = config.get_bool("mlp_bias")?.unwrap_or(false);
    for layer in &mut spec.layers {
        layer.biases.qkv = attention_bias;
        layer.biases.output = attention_bias;
        layer.biases.mlp = mlp_bias;
    }
    if config.is_gguf() {
        common::interleave(&mut spec);
    }
    Ok(spec)
}
