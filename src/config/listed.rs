//! Layer kinds from a list with one entry per layer.
//!
//! Lists beat everything else a file says. One must have exactly as many entries as there are layers,
//! and a word, letter or number that is not known is an error: a layer taken for another kind would
//! make every figure wrong.

use serde_json::Value;

use super::description::RecurrentKind;
use super::evidence::{Reader, Zero, count, shown};
use super::families::{Family, Plan, Rule};
use super::layers::{Form, Kind, Stack};
use crate::error::Result;

/// Per-layer lists whose length is the number of layers if nothing else says it.
pub(super) const LENGTH_KEYS: &[&str] = &[
    "layer_types",
    "layers_block_type",
    "hybrid_override_pattern",
    "attn_type_list",
    "hybrid_layer_pattern",
    "num_query_heads",
    "num_kv_heads",
    "num_key_value_heads_per_layer",
    "block_configs",
];

/// The first list the file has.
pub(super) fn stack(reader: &mut Reader<'_>, family: &Family, layers: usize) -> Result<Option<Stack>> {
    let forms: [Form; 9] = [
        blocks,
        |reader, family, layers| words(reader, family, "layer_types", layers),
        |reader, family, layers| words(reader, family, "layers_block_type", layers),
        letters,
        softmax_flags,
        sliding_flags,
        ratios,
        tiled,
        run_lengths,
    ];
    for form in forms {
        if let Some(stack) = form(reader, family, layers)? {
            return Ok(Some(stack));
        }
    }
    Ok(None)
}

/// What a word of `layer_types` or `layers_block_type` means.
fn word(word: &str) -> Option<(Kind, Option<RecurrentKind>)> {
    Some(match word {
        "full_attention"
        | "attention"
        | "indexed_attention"
        | "deepseek_sparse_attention"
        | "minimax_m3_sparse"
        | "qwen_sparse_attention" => (Kind::Full, None),
        "sliding_attention" => (Kind::Sliding, None),
        "chunked_attention" => (Kind::Chunked, None),
        "linear_attention" => (Kind::Recurrent, Some(RecurrentKind::LinearAttention)),
        "mamba" => (Kind::Recurrent, Some(RecurrentKind::Mamba)),
        "mamba2" => (Kind::Recurrent, Some(RecurrentKind::Mamba2)),
        "conv" => (Kind::Recurrent, Some(RecurrentKind::ShortConv)),
        "hybrid" => (Kind::BothFull, Some(RecurrentKind::Mamba)),
        "moe" | "mlp" => (Kind::Nothing, None),
        "compressed_sparse_attention" => (Kind::Compressed(4), None),
        "heavily_compressed_attention" => (Kind::Compressed(128), None),
        _ => return None,
    })
}

fn unknown(reader: &Reader<'_>, key: &str, layer: usize, entry: &Value) -> crate::error::Error {
    let key = reader.config().spelling(key);
    reader.unsupported(format!("`{key}` has the unknown entry {} at layer {layer}", shown(entry)))
}

/// Drops the entries of built-in MTP layers, in the classes whose lists include them.
fn without_mtp<'a>(
    reader: &mut Reader<'_>,
    family: &Family,
    items: &'a [Value],
    layers: usize,
) -> Result<&'a [Value]> {
    let includes_mtp = matches!(family.rule, Rule::OtherSetting | Rule::SharedTensor);
    if !includes_mtp || items.len() <= layers {
        return Ok(items);
    }
    let rule = "MTP layers, whose entries end the per-layer lists";
    let mtp = reader.count_or_zero(&["num_nextn_predict_layers"], Zero::Allowed, rule)?.value().unwrap_or(0);
    let cut = family.rule == Rule::SharedTensor || items.len() - layers == mtp;
    Ok(if cut { &items[..layers] } else { items })
}

fn words(
    reader: &mut Reader<'_>,
    family: &Family,
    key: &'static str,
    layers: usize,
) -> Result<Option<Stack>> {
    let Some(items) = reader.list(key)? else { return Ok(None) };
    let entries = without_mtp(reader, family, items, layers)?;
    reader.check_len(key, entries.len(), layers)?;
    let mut stack = Stack::listed(key);
    for (layer, item) in entries.iter().enumerate() {
        let known = item.as_str().and_then(word);
        let (kind, recurrent) = known.ok_or_else(|| unknown(reader, key, layer, item))?;
        stack.kinds.push(kind);
        stack.recurrent = stack.recurrent.or(recurrent);
    }
    reader.read(key, &Value::Array(items.to_vec()), "kind of each layer");
    Ok(Some(stack))
}

/// `hybrid_override_pattern`: a letter per layer, as a string or a list.
fn letters(reader: &mut Reader<'_>, _family: &Family, layers: usize) -> Result<Option<Stack>> {
    const KEY: &str = "hybrid_override_pattern";
    let value = match reader.look(KEY) {
        None | Some(Value::Null) => return Ok(None),
        Some(value) => value,
    };
    let entries: Vec<Value> = match value {
        Value::String(text) => text.chars().map(|letter| Value::from(letter.to_string())).collect(),
        Value::Array(items) => items.clone(),
        other => return Err(reader.wrong(KEY, other, "a string or a list of letters")),
    };
    reader.check_len(KEY, entries.len(), layers)?;
    let mut stack = Stack::listed(KEY);
    for (layer, entry) in entries.iter().enumerate() {
        stack.kinds.push(match entry.as_str() {
            Some("M") => Kind::Recurrent,
            Some("*") => Kind::Full,
            Some("-" | "E") => Kind::Nothing,
            _ => return Err(unknown(reader, KEY, layer, entry)),
        });
    }
    stack.recurrent = Some(RecurrentKind::Mamba2);
    reader.read(KEY, value, "M Mamba, * attention, - MLP, E experts");
    Ok(Some(stack))
}

/// A list of small numbers, each with a meaning.
fn numbers(
    reader: &mut Reader<'_>,
    family: &Family,
    key: &'static str,
    layers: usize,
    rule: &str,
    meaning: impl Fn(u64) -> Option<Kind>,
) -> Result<Option<Stack>> {
    let Some(items) = reader.list(key)? else { return Ok(None) };
    let entries = without_mtp(reader, family, items, layers)?;
    reader.check_len(key, entries.len(), layers)?;
    let mut stack = Stack::listed(key);
    for (layer, entry) in entries.iter().enumerate() {
        let kind = entry.as_u64().and_then(&meaning);
        stack.kinds.push(kind.ok_or_else(|| unknown(reader, key, layer, entry))?);
    }
    reader.read(key, &Value::Array(items.to_vec()), rule);
    Ok(Some(stack))
}

fn softmax_flags(reader: &mut Reader<'_>, family: &Family, layers: usize) -> Result<Option<Stack>> {
    let rule = "1 softmax attention, 0 lightning attention";
    let stack = numbers(reader, family, "attn_type_list", layers, rule, |number| match number {
        0 => Some(Kind::Recurrent),
        1 => Some(Kind::Attention),
        _ => None,
    })?;
    Ok(stack.map(|stack| stack.recurrent(RecurrentKind::Lightning)))
}

fn sliding_flags(reader: &mut Reader<'_>, family: &Family, layers: usize) -> Result<Option<Stack>> {
    numbers(reader, family, "hybrid_layer_pattern", layers, "0 full, 1 sliding", |number| match number {
        0 => Some(Kind::Full),
        1 => Some(Kind::Sliding),
        _ => None,
    })
}

fn ratios(reader: &mut Reader<'_>, family: &Family, layers: usize) -> Result<Option<Stack>> {
    let rule = "0 window only, 4 and 128 compressed by that ratio beside the window";
    numbers(reader, family, "compress_ratios", layers, rule, |number| match number {
        0 => Some(Kind::Sliding),
        4 => Some(Kind::Compressed(4)),
        128 => Some(Kind::Compressed(128)),
        _ => None,
    })
}

/// `block_types` of Griffin: tiled over the depth, the last tile cut.
fn tiled(reader: &mut Reader<'_>, family: &Family, layers: usize) -> Result<Option<Stack>> {
    for key in ["block_types", "_block_types"] {
        let Some(items) = reader.list(key)? else { continue };
        if family.plan != Plan::Griffin {
            continue;
        }
        let mut tile = Vec::new();
        for (index, item) in items.iter().enumerate() {
            tile.push(match item.as_str() {
                Some("recurrent") => Kind::Recurrent,
                Some("attention") => Kind::Attention,
                _ => return Err(unknown(reader, key, index, item)),
            });
        }
        if tile.is_empty() {
            return Err(reader.at_key(key, "is an empty list"));
        }
        let mut stack = Stack::listed(key);
        stack.kinds = tile.into_iter().cycle().take(layers).collect();
        reader.read(key, &Value::Array(items.to_vec()), "tiled over the depth; attention has a window");
        return Ok(Some(stack));
    }
    Ok(None)
}

/// `attention_types` of GPT-Neo: `[[["global", "local"], 12]]`.
fn run_lengths(reader: &mut Reader<'_>, _family: &Family, layers: usize) -> Result<Option<Stack>> {
    const KEY: &str = "attention_types";
    let Some(runs) = reader.list(KEY)? else { return Ok(None) };
    let mut stack = Stack::listed(KEY);
    for run in runs {
        let Some([Value::Array(tile), times]) = run.as_array().map(Vec::as_slice) else {
            return Err(reader.wrong(KEY, run, "a list of [kinds, times]"));
        };
        let times = count(times, Zero::Refused).map_err(|fault| reader.at_key(KEY, fault))?;
        if tile.len().checked_mul(times).is_none_or(|len| len > layers.saturating_sub(stack.kinds.len())) {
            let problem = format!("has more entries than the {layers} layers (the length must match)");
            return Err(reader.at_key(KEY, problem));
        }
        for _ in 0..times {
            for item in tile {
                stack.kinds.push(match item.as_str() {
                    Some("global") => Kind::Full,
                    Some("local") => Kind::Sliding,
                    _ => return Err(unknown(reader, KEY, stack.kinds.len(), item)),
                });
            }
        }
    }
    reader.check_len(KEY, stack.kinds.len(), layers)?;
    reader.read(KEY, &Value::Array(runs.to_vec()), "run lengths of global and local layers");
    Ok(Some(stack))
}

/// `block_configs` of DeciLM and Nemotron NAS: attention, a no-op or a linear map in each block.
fn blocks(reader: &mut Reader<'_>, _family: &Family, layers: usize) -> Result<Option<Stack>> {
    const KEY: &str = "block_configs";
    let Some(items) = reader.list(KEY)? else { return Ok(None) };
    reader.check_len(KEY, items.len(), layers)?;
    let mut stack = Stack::listed(KEY);
    let mut group_sizes = Vec::new();
    for (layer, item) in items.iter().enumerate() {
        let block = item.get("attention").and_then(Value::as_object);
        let block =
            block.ok_or_else(|| reader.at_key(KEY, format!("has no `attention` object at layer {layer}")))?;
        let flag = |name: &str| match block.get(name) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(other) => {
                Err(reader.wrong(&format!("{KEY}[{layer}].attention.{name}"), other, "true or false"))
            }
        };
        let (no_op, linear) = (flag("no_op")?, flag("replace_with_linear")?);
        if no_op || linear {
            stack.kinds.push(Kind::Nothing);
            group_sizes.push(0);
            continue;
        }
        let name = format!("{KEY}[{layer}].attention.n_heads_in_group");
        let size = block.get("n_heads_in_group").unwrap_or(&Value::Null);
        stack.kinds.push(Kind::Attention);
        group_sizes.push(count(size, Zero::Refused).map_err(|fault| reader.at_key(&name, fault))?);
    }
    stack.group_sizes = Some(group_sizes);
    reader.read(
        KEY,
        &Value::Array(items.to_vec()),
        "attention of each block; KV heads = query heads / n_heads_in_group",
    );
    Ok(Some(stack))
}
