//! Mistral: Llama with a sliding window on every layer and no biases.

use super::common;
use super::names::NameTable;
use crate::config::{Description, ModelConfig};
use crate::error::Result;
use crate::model::decoder::DecoderSpec;

pub(super) const NAMES: NameTable = NameTable { hugging_face: &[], gguf: &[] };

pub(super) fn declare(config: &ModelConfig, description: &Description) -> Result<DecoderSpec> {
    common::pre_norm(config, description)
}
