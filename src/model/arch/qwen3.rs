//! Qwen3: Llama with a norm over each query and key head.

use super::common;
use super::names::NameTable;
use crate::config::{Description, ModelConfig};
use crate::error::Result;
use crate::model::decoder::DecoderSpec;

pub(super) const NAMES: NameTable = NameTable { hugging_face: &[], gguf: &[] };

pub(super) fn declare(config: &ModelConfig, description: &Description) -> Result<DecoderSpec> {
    let mut spec = common::pre_norm(config, description)?;
    let bias = config.get_bool("attention_bias")?.unwrap_or(false);
    for layer in &mut spec.layers {
        layer.head_norms = true;
        layer.biases.qkv = bias;
        layer.biases.output = bias;
    }
    Ok(spec)
}
