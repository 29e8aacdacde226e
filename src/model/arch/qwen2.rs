//! Qwen2: Llama with biases on queries, keys and values; windows on some layers where asked for.

use super::common;
use super::names::NameTable;
use crate::config::{Description, ModelConfig};
use crate::error::Result;
use crate::model::decoder::DecoderSpec;

pub(super) const NAMES: NameTable = NameTable { hugging_face: &[], gguf: &[] };

pub(super) fn declare(config: &ModelConfig, description: &Description) -> Result<DecoderSpec> {
    let mut spec = common::pre_norm(config, description)?;
    for layer in &mut spec.layers {
        layer.biases.qkv = true;
    }
    Ok(spec)
}
