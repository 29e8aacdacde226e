//! How many decoder layers there are.

use serde_json::Value;

use super::description::Role;
use super::evidence::{Found, MAX_LAYERS, Reader, tokens};
use super::families::{Family, Rule};
use super::listed;
use crate::error::Result;

/// The number of decoder layers.
pub(super) fn num_layers(reader: &mut Reader<'_>, family: &Family, role: Role) -> Result<usize> {
    const KEYS: &[&str] =
        &["num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_transformer_layers", "num_blocks"];
    const DECODER_KEYS: &[&str] = &[
        "decoder_layers",
        "num_decoder_layers",
        "decoder_num_hidden_layers",
        "num_layers",
        "num_hidden_layers",
    ];
    if family.rule == Rule::BlocksCount
        && let Some(items) = reader.list("layers_block_type")?
    {
        reader.ignored("num_hidden_layers", "the list of blocks counts the layers");
        return checked_layers(reader, "layers_block_type", items.len());
    }
    let keys = match (role, family.rule) {
        (Role::EncoderDecoder, _) => DECODER_KEYS,
        (_, Rule::TwoBlocks) => &["num_layers", "num_hidden_layers", "n_layers"],
        _ => KEYS,
    };
    let found = reader.first(keys);
    if let Found::Is((key, value)) = found {
        let layers = tokens(value).map_err(|fault| reader.at_key(key, fault))?;
        if family.rule == Rule::TwoBlocks && key == "num_hidden_layers" {
            reader.read(key, value, "attention blocks, two in each decoder layer");
            if !layers.is_multiple_of(2) {
                return Err(
                    reader.at_key(key, format!("is {layers}, but it counts two attention blocks per layer"))
                );
            }
            return checked_layers(reader, key, layers / 2);
        }
        reader.read(key, value, "decoder layers");
        return checked_layers(reader, key, layers);
    }
    for &key in listed::LENGTH_KEYS {
        let len = match reader.look(key) {
            Some(Value::Array(items)) => items.len(),
            Some(Value::String(pattern)) if key == "hybrid_override_pattern" => pattern.chars().count(),
            _ => continue,
        };
        reader.assumed(keys[0], len, format!("length of {key}"));
        return checked_layers(reader, key, len);
    }
    let key = keys[0];
    match found {
        Found::Null => Err(reader.at_key(key, "is null, but it is required (missing)")),
        _ if family.layers > 0 && !reader.config().is_gguf() => {
            reader.assumed(key, family.layers, "class default: decoder layers");
            Ok(family.layers)
        }
        _ => Err(reader.unsupported(format!("`{}` is missing", reader.config().spelling(key)))),
    }
}

fn checked_layers(reader: &Reader<'_>, key: &str, layers: usize) -> Result<usize> {
    match layers {
        0 => Err(reader.at_key(key, "says 0 (zero) layers, but their number must be positive")),
        _ if layers > MAX_LAYERS => {
            Err(reader
                .at_key(key, format!("says {layers} layers: too large (huge; the limit is {MAX_LAYERS})")))
        }
        _ => Ok(layers),
    }
}
