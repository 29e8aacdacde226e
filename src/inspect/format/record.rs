//! One model as the fields that programs read.
//!
//! Names and meanings are documented in README and never change within a schema number. A model that
//! failed has `error` and no figures.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::super::{Inspected, Inspection, MemoryRow, Options};
use super::LayersShown;
use crate::config::{KvType, LayerDescription, Mixer};
use crate::error::Result;

/// Every field a model may have at its top level, so that a wrong name can be told from an absent value.
const FIELDS: &[&str] = &[
    "id",
    "revision",
    "origin",
    "headline",
    "design",
    "model_type",
    "max_context",
    "hidden_size",
    "family",
    "role",
    "attention",
    "layers",
    "query_heads",
    "kv_heads",
    "head_dim",
    "v_head_dim",
    "q_per_kv",
    "latent_dim",
    "kv_lora_rank",
    "qk_rope_head_dim",
    "sparse_indexer",
    "indexer_key_dim",
    "encoder_layers",
    "full_layers",
    "sliding_layers",
    "chunked_layers",
    "sliding_window",
    "chunk_size",
    "recurrent_layers",
    "no_attention_layers",
    "cross_layers",
    "hybrid_layers",
    "kv_shared_layers",
    "attention_per_layer",
    "groups",
    "kv_bytes_per_token_bf16",
    "kv_growth_per_token_bf16",
    "kv_bytes_at_bf16",
    "kv_bytes_per_token_native",
    "cross_kv_bytes_per_source_token_bf16",
    "softmax_qk",
    "reading_rule",
    "dtype",
    "text_at",
    "kv_type",
    "batch",
    "kv_bytes_per_token",
    "kv_bytes_needed",
    "kv_bytes_reserved",
    "kv_bytes_as_mha",
    "recurrent_state_bytes",
    "weights",
    "fits",
    "speculation",
    "evidence",
    "not_understood",
    "not_relevant",
    "layer_list",
    "error",
];

/// The fields of one model.
pub(in crate::inspect) fn record(
    inspection: &Inspection,
    options: &Options,
    layers: LayersShown,
) -> Map<String, Value> {
    let mut record = Map::new();
    record.insert("id".to_owned(), inspection.id.clone().into());
    record.insert("revision".to_owned(), inspection.revision.clone().into());
    record.insert("origin".to_owned(), to_value(&inspection.origin));
    let filled = match &inspection.outcome {
        Ok(model) => fill(&mut record, model, options, layers),
        Err(error) => {
            record.insert("error".to_owned(), error_value(error));
            return record;
        }
    };
    if let Err(error) = filled {
        record.insert("error".to_owned(), error_value(&error));
    }
    record
}

pub(super) fn to_value(value: &impl Serialize) -> Value {
    serde_json::to_value(value).expect("reports have string keys and finite numbers")
}

fn error_value(error: &crate::error::Error) -> Value {
    json!({ "message": error.to_string(), "hint": error.hint(), "exit_code": error.exit_code() as u8 })
}

fn fill(
    record: &mut Map<String, Value>,
    model: &Inspected,
    options: &Options,
    layers: LayersShown,
) -> Result<()> {
    let description = &model.description;
    let mut set = |name: &str, value: Value| {
        record.insert(name.to_owned(), value);
    };
    set("headline", description.headline().into());
    set("design", model.design().into());
    set("model_type", description.model_type.clone().into());
    set("max_context", to_value(&description.max_context));
    set("hidden_size", to_value(&description.hidden_size));
    if let Value::Object(facts) = to_value(&model.facts()?) {
        record.extend(facts);
    }
    let mut set = |name: &str, value: Value| {
        record.insert(name.to_owned(), value);
    };
    let kv_name = KvType::ALL.iter().find(|(_, kv_type)| *kv_type == options.kv_type).map(|&(name, _)| name);
    set("kv_type", to_value(&kv_name));
    set("batch", options.batch.into());
    set("kv_bytes_per_token", description.kv_bytes_per_token(options.kv_type)?.into());
    let by_length = |bytes: fn(&MemoryRow) -> u64| {
        let rows = model.memory.iter().map(|row| (row.context.to_string(), Value::from(bytes(row))));
        Value::Object(rows.collect())
    };
    set("kv_bytes_needed", by_length(|row| row.needed));
    set("kv_bytes_reserved", by_length(|row| row.reserved));
    set("kv_bytes_as_mha", by_length(|row| row.as_mha));
    set("recurrent_state_bytes", to_value(&model.state_bytes(options.kv_type)));
    set("weights", to_value(&model.weights));
    match &model.fits {
        None => {}
        Some(Ok(fits)) => set("fits", to_value(fits)),
        Some(Err(error)) => set("fits", json!({ "error": error_value(error) })),
    }
    set("speculation", to_value(&model.speculation));
    set("evidence", to_value(&description.evidence));
    set("not_understood", model.not_understood().collect());
    set("not_relevant", model.not_relevant().collect());
    if layers == LayersShown::Each {
        set("layer_list", description.layers.iter().enumerate().map(layer_value).collect());
    }
    Ok(())
}

fn layer_value((index, layer): (usize, &LayerDescription)) -> Value {
    let mixer = match layer.mixer() {
        Mixer::Attention => "attention",
        Mixer::Latent => "latent-attention",
        Mixer::Recurrent(_) => "recurrent",
        Mixer::Both(_) => "both",
        Mixer::Cross => "cross-attention",
        Mixer::None => "none",
    };
    let mut value = json!({ "index": index, "mixer": mixer });
    if let Some(attention) = layer.attention {
        value["mask"] = attention.mask.kind().into();
        value["query_heads"] = attention.query_heads.into();
        value["kv_heads"] = attention.kv_heads.into();
        value["head_dim"] = attention.head_dim.into();
        value["v_head_dim"] = attention.v_head_dim.into();
        value["kv_from"] = to_value(&attention.kv_from);
    }
    if let Some(recurrent) = layer.recurrent {
        value["recurrent"] = recurrent.kind.name().into();
        value["state_elements"] = to_value(&recurrent.state_elements);
    }
    value
}

/// What looking up a field gives.
#[derive(Debug, Clone, PartialEq)]
pub enum Lookup {
    /// The value, as text for a shell: strings without quotes, everything else as JSON.
    Value(String),
    /// The field exists and does not apply to this model.
    Absent,
    /// There is no such field; these are.
    Unknown(&'static [&'static str]),
}

/// Looks up a field of a model, dots leading into objects and lists: `kv_bytes_needed.131072`.
pub fn lookup(inspection: &Inspection, options: &Options, layers: LayersShown, path: &str) -> Lookup {
    let first = path.split('.').next().unwrap_or_default();
    if !FIELDS.contains(&first) {
        return Lookup::Unknown(FIELDS);
    }
    let record = Value::Object(record(inspection, options, layers));
    let found = path.split('.').try_fold(&record, |value, name| match value {
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        _ => value.get(name),
    });
    match found {
        None | Some(Value::Null) => Lookup::Absent,
        Some(Value::String(text)) => Lookup::Value(super::clean(text)),
        Some(value) => Lookup::Value(value.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{Depth, known};
    use super::*;

    #[test]
    fn every_field_written_can_be_asked_for() {
        let options = Options { budget_bytes: Some(1 << 45), ..Options::default() };
        for known in known::all() {
            let inspection = Inspection::new(&known.id, &options, Depth::Headers);
            let record = record(&inspection, &options, LayersShown::Each);
            assert!(!record.contains_key("error"), "{}: {:?}", known.id, record["error"]);
            for name in record.keys() {
                assert!(FIELDS.contains(&name.as_str()), "{name}");
            }
        }
    }

    #[test]
    fn values_are_shown_as_a_shell_wants_them() {
        let options = Options { contexts: vec![4096], ..Options::default() };
        let inspection = Inspection::new("meta-llama/Llama-3.1-8B", &options, Depth::Headers);
        let get = |path: &str| lookup(&inspection, &options, LayersShown::Grouped, path);
        assert_eq!(get("attention"), Lookup::Value("GQA".to_owned()));
        assert_eq!(get("kv_bytes_needed.4096"), Lookup::Value("536870912".to_owned()));
        assert_eq!(get("evidence.0.kind"), Lookup::Value("read".to_owned()));
        assert_eq!(get("latent_dim"), Lookup::Absent);
        assert!(matches!(get("atention"), Lookup::Unknown(_)));
    }
}
