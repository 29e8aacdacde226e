//! Facts in words: the phrases that `table` and `markdown` share.
//!
//! Every number carries its unit. Text from files is cleaned of control characters before it reaches
//! a terminal.

use super::super::speculation::{Speculation, method_name};
use super::super::units::{show_bytes, show_count, show_large};
use super::super::weights::Weights;
use super::super::{Inspected, Options, Origin};
use crate::config::{Attention, KvType, LayerAttention, LayerDescription, Mask};
use crate::error::Result;

/// Text without characters that could steer a terminal.
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// The name a cache type is typed with.
pub(super) fn kv_name(kv_type: KvType) -> &'static str {
    KvType::ALL.iter().find(|(_, known)| *known == kv_type).map_or("?", |&(name, _)| name)
}

/// Bytes of one cached element.
fn kv_width(kv_type: KvType) -> &'static str {
    match kv_type {
        KvType::F32 => "4 bytes",
        KvType::F16 | KvType::Bf16 => "2 bytes",
        KvType::Fp8 => "1 byte",
        KvType::Q8_0 => "34/32 bytes",
        KvType::Q4_0 => "18/32 bytes",
    }
}

pub(super) fn sequences(batch: u64) -> String {
    if batch == 1 { "one sequence".to_owned() } else { format!("{} sequences", show_count(batch)) }
}

fn mask(mask: Mask) -> String {
    match mask {
        Mask::Full => "full".to_owned(),
        Mask::Sliding { window } => format!("sliding window {}", show_count(window as u64)),
        Mask::Chunked { size } => format!("chunks of {}", show_count(size as u64)),
        Mask::Compressed { window, ratio } => {
            format!("window {} and the past compressed {ratio}:1", show_count(window as u64))
        }
    }
}

fn heads(layer: &LayerAttention) -> String {
    let LayerAttention { query_heads, kv_heads, head_dim, v_head_dim, .. } = *layer;
    let width = if v_head_dim == head_dim {
        format!("head_dim {head_dim}")
    } else {
        format!("head_dim {head_dim}, values {v_head_dim}")
    };
    match (layer.latent, layer.sharing()) {
        (Some(latent), _) => {
            format!("MLA, {query_heads} heads, latent {} + rope {}", latent.rank, latent.rope_dim)
        }
        (None, Attention::Mha) => format!("MHA, {query_heads} heads, {width}"),
        (None, sharing) => {
            let name = if sharing == Attention::Mqa { "MQA" } else { "GQA" };
            format!("{name}, {query_heads} query / {kv_heads} KV heads, {width}")
        }
    }
}

/// What stands in a layer.
pub(super) fn layer(layer: &LayerDescription) -> String {
    let attention = layer.attention.map(|attention| {
        let reused = if attention.owns_kv() { "" } else { ", reuses an earlier layer's K/V" };
        format!("{}, {}{reused}", mask(attention.mask), heads(&attention))
    });
    match (attention, layer.recurrent) {
        (Some(attention), Some(recurrent)) => format!("{attention}; beside it {}", recurrent.kind.name()),
        (Some(attention), None) => attention,
        (None, Some(recurrent)) => format!("{}, recurrent", recurrent.kind.name()),
        (None, None) if layer.cross => "cross-attention to something outside the text".to_owned(),
        (None, None) => "no mixer: MLP, experts or nothing".to_owned(),
    }
}

/// Layers that are alike, by index and in order of their first appearance.
pub(super) fn layer_groups(model: &Inspected) -> Vec<(String, usize, String)> {
    let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
    for (index, described) in model.description.layers.iter().enumerate() {
        let text = layer(described);
        match groups.iter_mut().find(|(known, _)| *known == text) {
            Some((_, indices)) => indices.push(index),
            None => groups.push((text, vec![index])),
        }
    }
    groups.into_iter().map(|(text, indices)| (ranges(&indices), indices.len(), text)).collect()
}

/// Increasing indices as ranges: `0-4, 6`, or `5, 11, ... 59 (every 6th)`.
fn ranges(indices: &[usize]) -> String {
    let step = |pair: &[usize]| pair[1] - pair[0];
    if let [first, second, .., last] = *indices {
        let every = second - first;
        if indices.len() > 3 && every > 1 && indices.windows(2).all(|pair| step(pair) == every) {
            return format!("{first}, {second}, ... {last} (steps of {every})");
        }
    }
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &index in indices {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == index => *last = index,
            _ => runs.push((index, index)),
        }
    }
    let show = |&(first, last): &(usize, usize)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    if runs.len() <= 5 {
        return runs.iter().map(show).collect::<Vec<_>>().join(", ");
    }
    let last = runs.last().map(show).unwrap_or_default();
    format!("{}, {}, ... {last}", show(&runs[0]), show(&runs[1]))
}

/// How the bytes of one token come about, such as `32 layers x 8 KV heads x (128 + 128) x 2 bytes`.
pub(super) fn formula(model: &Inspected, kv_type: KvType) -> String {
    let blocks = model.description.attention_per_layer;
    let mut terms: Vec<(String, usize)> = Vec::new();
    for attention in model.description.attentions().filter(|attention| attention.owns_kv()) {
        let LayerAttention { kv_heads, head_dim, v_head_dim, one_tensor, .. } = *attention;
        let heads = if kv_heads == 1 { "1 KV head".to_owned() } else { format!("{kv_heads} KV heads") };
        let term = match attention.latent {
            Some(latent) => format!("({} + {})", latent.rank, latent.rope_dim),
            None if one_tensor => format!("{heads} x {head_dim}"),
            None => format!("{heads} x ({head_dim} + {v_head_dim})"),
        };
        match terms.iter_mut().find(|(known, _)| *known == term) {
            Some((_, count)) => *count += blocks,
            None => terms.push((term, blocks)),
        }
    }
    let what = |count: usize| match (blocks, count) {
        (1, 1) => "layer",
        (1, _) => "layers",
        _ => "attention blocks",
    };
    let sum: Vec<String> =
        terms.iter().take(4).map(|(term, count)| format!("{count} {} x {term}", what(*count))).collect();
    let more = if terms.len() > 4 { " + ..." } else { "" };
    match terms.len() {
        1 => format!("{} x {}", sum[0], kv_width(kv_type)),
        _ => format!("({}{more}) x {}", sum.join(" + "), kv_width(kv_type)),
    }
}

/// The sum above with its result.
pub(super) fn per_token(model: &Inspected, options: &Options) -> Result<String> {
    let bytes = model.description.kv_bytes_per_token(options.kv_type)?;
    Ok(format!("{} = {}", formula(model, options.kv_type), show_bytes(bytes)))
}

/// How much smaller the cache is than with a K/V head for every query head, at one length.
pub(super) fn saving(model: &Inspected) -> Option<f64> {
    let row = model.memory.last()?;
    (row.needed > 0 && row.as_mha > row.needed).then(|| row.as_mha as f64 / row.needed as f64)
}

pub(super) fn state(model: &Inspected, options: &Options) -> Option<String> {
    if !model.description.layers.iter().any(|layer| layer.recurrent.is_some()) {
        return None;
    }
    Some(match model.state_bytes(options.kv_type) {
        Some(bytes) => format!("about {} per sequence, whatever the context", show_bytes(bytes)),
        None => "constant, of a size the configuration does not tell".to_owned(),
    })
}

pub(super) fn weights(weights: &Weights) -> String {
    let mut parts = Vec::new();
    if let Some(parameters) = weights.parameters {
        let active = weights.active_parameters.map(|active| format!(" ({} per token)", show_large(active)));
        parts.push(format!("{} parameters{}", show_large(parameters), active.unwrap_or_default()));
    }
    match weights.bytes {
        Some(bytes) => parts.push(show_bytes(bytes)),
        None => parts.push("bytes unknown".to_owned()),
    }
    let types: Vec<&str> = weights.types.iter().take(3).map(|(name, _)| name.as_str()).collect();
    if !types.is_empty() {
        parts.push(if weights.types.len() == 1 {
            types.join("")
        } else {
            format!("mostly {}", types.join(", "))
        });
    }
    let note = weights.note.as_deref().map(|note| format!("; {note}")).unwrap_or_default();
    format!("{} ({}{note})", parts.join(", "), weights.source.name())
}

pub(super) fn vocabulary(speculation: &Speculation) -> String {
    let Speculation { vocab_size, tokenizer_tokens, padding_rows, tokenizer_fingerprint, .. } = speculation;
    let mut text = match (vocab_size, tokenizer_tokens) {
        (Some(rows), _) => format!("{} rows", show_count(*rows)),
        (None, Some(tokens)) => format!("{} tokens", show_count(*tokens)),
        (None, None) => return "size not stated".to_owned(),
    };
    if let (Some(_), Some(tokens), Some(padding)) = (vocab_size, tokenizer_tokens, padding_rows) {
        text += &format!(", {} tokens + {} of padding", show_count(*tokens), show_count(*padding));
    }
    if let Some(fingerprint) = tokenizer_fingerprint {
        text += &format!(", fingerprint {fingerprint}");
    }
    text
}

pub(super) fn drafter(model: &Inspected) -> String {
    match &model.speculation.drafter {
        // EAGLE-1 heads, for one, are published as one-layer Llama models.
        None if model.description.layers.len() == 1 => {
            "not declared, though one layer suggests it".to_owned()
        }
        None => "no: a model of its own".to_owned(),
        Some(drafter) => {
            let target = match &drafter.target.model {
                Some(model) => format!("for {model}"),
                None => "for a target its configuration does not name".to_owned(),
            };
            format!("yes: {} {target}", method_name(drafter.method))
        }
    }
}

pub(super) fn own_drafts(speculation: &Speculation) -> String {
    match (speculation.mtp_layers, speculation.built_in) {
        (Some(1), _) => "1 MTP layer".to_owned(),
        (Some(layers), _) => format!("{layers} MTP layers"),
        (None, Some(method)) => format!("{method} layers"),
        (None, None) => "none".to_owned(),
    }
}

pub(super) fn origin(origin: &Origin, revision: Option<&str>) -> String {
    match origin {
        Origin::File { path } => path.clone(),
        Origin::Stdin => "standard input".to_owned(),
        Origin::Cache { path } => match revision {
            Some(revision) => format!("{path} (commit {revision})"),
            None => path.clone(),
        },
        Origin::Table { date, .. } => {
            format!("built-in table of well-known models, {date}; not the model itself")
        }
        Origin::Nowhere => "nowhere".to_owned(),
    }
}

/// Breaks a paragraph into lines of at most `width` characters, words kept whole.
pub(super) fn wrapped(paragraph: &str, width: usize) -> String {
    let mut text = String::new();
    let mut column = 0;
    for word in paragraph.split_whitespace() {
        let len = word.chars().count();
        if column > 0 && column + 1 + len > width {
            text.push('\n');
            column = 0;
        } else if column > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += len;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_shortened() {
        assert_eq!(ranges(&[0, 1, 2, 5]), "0-2, 5");
        assert_eq!(ranges(&[5, 11, 17, 23]), "5, 11, ... 23 (steps of 6)");
        assert_eq!(ranges(&[0, 1, 3, 4, 6, 7, 9, 10, 12, 13, 15]), "0-1, 3-4, ... 15");
        assert_eq!(ranges(&[7]), "7");
    }

    #[test]
    fn a_terminal_cannot_be_steered() {
        assert_eq!(clean("a\u{1b}[2Jb\nc\r"), "a\u{fffd}[2Jb\nc\u{fffd}");
    }
}
