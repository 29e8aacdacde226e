//! Architectures, each a declaration over the shared decoder.
//!
//! To add one: a file that turns a configuration into a `DecoderSpec`, starting from `common`, and a
//! line in `ARCHITECTURES`.

mod common;
mod gemma3;
mod llama;
mod mistral;
pub mod names;
mod qwen2;
mod qwen3;

use super::decoder::DecoderSpec;
use crate::config::{Description, ModelConfig};
use crate::error::{Error, Result};
use names::NameTable;

/// One family of models.
pub struct Architecture {
    /// `model_type` of its configuration.
    pub model_type: &'static str,
    /// Turns a configuration into a network.
    pub declare: fn(&ModelConfig, &Description) -> Result<DecoderSpec>,
    /// Tensor names where they differ from Llama's.
    pub names: NameTable,
}

/// Every architecture that can be run, in the order messages list them.
pub const ARCHITECTURES: &[Architecture] = &[
    Architecture { model_type: "llama", declare: llama::declare, names: llama::NAMES },
    Architecture { model_type: "mistral", declare: mistral::declare, names: mistral::NAMES },
    Architecture { model_type: "qwen2", declare: qwen2::declare, names: qwen2::NAMES },
    Architecture { model_type: "qwen3", declare: qwen3::declare, names: qwen3::NAMES },
    Architecture { model_type: "gemma3_text", declare: gemma3::declare, names: gemma3::NAMES },
];

/// The architecture a configuration names.
///
/// # Errors
/// `UnsupportedArchitecture` listing the known ones.
pub fn find(config: &ModelConfig) -> Result<&'static Architecture> {
    let name = config.model_type();
    ARCHITECTURES.iter().find(|architecture| architecture.model_type == name).ok_or_else(|| {
        Error::UnsupportedArchitecture {
            path: config.path().to_owned(),
            name: name.to_owned(),
            known: ARCHITECTURES.iter().map(|architecture| architecture.model_type).collect(),
        }
    })
}
