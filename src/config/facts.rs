//! The description as named figures, for reports and tests.

use serde::Serialize;

use super::description::{Attention, Description, Mask, Mixer, ModelFamily, Role, uniform};
use crate::error::Result;

/// Layers that are alike, where layers differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Group {
    /// `full`, `sliding` or `chunked`.
    pub kind: &'static str,
    /// How many.
    pub layers: usize,
    /// Query heads, where they differ between layers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub q_heads: Option<usize>,
    /// KV heads; absent for MLA.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_heads: Option<usize>,
    /// Width of a query and key head.
    pub head_dim: usize,
    /// Width of a value head, where it is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub v_head_dim: Option<usize>,
    /// Tokens seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<usize>,
    /// `false` for layers that reuse another layer's keys and values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owns_kv: Option<bool>,
}

/// How to think of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadingRule {
    /// softmax(QK^T)V with a cheaper cache.
    AttentionRefinement,
    /// Softmax attention in some layers, a recurrence in others.
    Hybrid,
    /// No softmax attention.
    NonAttention,
}

/// The description as named figures; the field names are those of the machine-readable report.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the names are the documented fields of the report")]
pub struct Facts {
    pub family: ModelFamily,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    pub attention: Attention,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layers: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query_heads: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_heads: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head_dim: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub v_head_dim: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub q_per_kv: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latent_dim: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_lora_rank: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qk_rope_head_dim: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sparse_indexer: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub indexer_key_dim: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoder_layers: Option<usize>,
    pub full_layers: usize,
    pub sliding_layers: usize,
    pub chunked_layers: usize,
    pub sliding_window: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk_size: Option<usize>,
    pub recurrent_layers: usize,
    pub no_attention_layers: usize,
    pub cross_layers: usize,
    pub hybrid_layers: usize,
    pub kv_shared_layers: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attention_per_layer: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<Vec<Group>>,
    pub kv_bytes_per_token_bf16: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_growth_per_token_bf16: Option<u64>,
    pub kv_bytes_at_bf16: serde_json::Map<String, serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_bytes_per_token_native: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cross_kv_bytes_per_source_token_bf16: Option<u64>,
    pub softmax_qk: bool,
    pub reading_rule: ReadingRule,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dtype: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text_at: Option<String>,
}

impl Description {
    /// Layers that are alike in everything that decides a cache, windowed ones first, those that
    /// reuse another layer's keys and values last.
    pub fn groups(&self) -> Vec<Group> {
        let show_queries = uniform(self.attentions().map(|layer| layer.query_heads)).is_none();
        let mut groups: Vec<Group> = Vec::new();
        for layer in self.attentions() {
            let window = match layer.mask {
                Mask::Sliding { window } => Some(window),
                Mask::Chunked { size } => Some(size),
                Mask::Full | Mask::Compressed { .. } => None,
            };
            let group = Group {
                kind: layer.mask.kind(),
                layers: 0,
                q_heads: show_queries.then_some(layer.query_heads),
                kv_heads: layer.latent.is_none().then_some(layer.kv_heads),
                head_dim: layer.head_dim,
                v_head_dim: (layer.v_head_dim != layer.head_dim).then_some(layer.v_head_dim),
                window,
                owns_kv: (!layer.owns_kv()).then_some(false),
            };
            let same = |known: &&mut Group| Group { layers: 0, ..(**known).clone() } == group;
            match groups.iter_mut().find(same) {
                Some(known) => known.layers += self.attention_per_layer,
                None => groups.push(Group { layers: self.attention_per_layer, ..group }),
            }
        }
        groups.sort_by_key(|group| (group.owns_kv.is_some(), group.window.is_none()));
        groups
    }

    /// The named figures, with total bytes at each of `contexts`.
    ///
    /// # Errors
    /// `UnsupportedConfig` when a figure does not fit in 64 bits.
    pub fn facts(&self, contexts: &[u64]) -> Result<Facts> {
        let blocks = self.attention_per_layer;
        let attentions = || self.attentions();
        let count =
            |wanted: fn(Mask) -> bool| attentions().filter(|layer| wanted(layer.mask)).count() * blocks;
        let latent = uniform(attentions().map(|layer| layer.latent)).flatten();
        let has_latent = attentions().any(|layer| layer.latent.is_some());
        let alike =
            uniform(attentions().map(|l| (l.query_heads, l.kv_heads, l.head_dim, l.v_head_dim))).is_some();
        let values_differ =
            attentions().any(|layer| layer.v_head_dim != layer.head_dim || layer.latent.is_some());
        let is_encoder = self.role == Role::Encoder;
        let bytes = self.byte_facts(contexts)?;
        let family = self.family();
        Ok(Facts {
            family,
            role: (self.role != Role::Decoder).then_some(self.role),
            attention: self.attention(),
            layers: (family != ModelFamily::None).then_some(self.layers.len()),
            query_heads: uniform(attentions().map(|layer| layer.query_heads)),
            kv_heads: uniform(attentions().map(|layer| layer.kv_heads)).filter(|_| !has_latent),
            head_dim: uniform(attentions().map(|layer| layer.head_dim)),
            v_head_dim: uniform(attentions().map(|layer| layer.v_head_dim)).filter(|_| values_differ),
            q_per_kv: self.ratio(),
            latent_dim: latent.map(|latent| latent.rank + latent.rope_dim),
            kv_lora_rank: latent.map(|latent| latent.rank),
            qk_rope_head_dim: latent.map(|latent| latent.rope_dim),
            sparse_indexer: self.indexer_key_dim.map(|_| true),
            indexer_key_dim: self.indexer_key_dim,
            encoder_layers: self.encoder_layers,
            full_layers: count(|mask| mask.kind() == "full"),
            sliding_layers: count(|mask| matches!(mask, Mask::Sliding { .. })),
            chunked_layers: count(|mask| matches!(mask, Mask::Chunked { .. })),
            sliding_window: uniform(attentions().filter_map(|layer| match layer.mask {
                Mask::Sliding { window } | Mask::Compressed { window, .. } => Some(window),
                Mask::Full | Mask::Chunked { .. } => None,
            })),
            chunk_size: uniform(attentions().filter_map(|layer| match layer.mask {
                Mask::Chunked { size } => Some(size),
                _ => None,
            })),
            recurrent_layers: self.recurrences().count(),
            no_attention_layers: self.layers.iter().filter(|layer| layer.mixer() == Mixer::None).count(),
            cross_layers: self.layers.iter().filter(|layer| layer.cross).count(),
            hybrid_layers: self.layers.iter().filter(|layer| matches!(layer.mixer(), Mixer::Both(_))).count(),
            kv_shared_layers: attentions().filter(|layer| !layer.owns_kv()).count(),
            attention_per_layer: (blocks != 1).then_some(blocks),
            groups: (!alike && attentions().next().is_some() && !is_encoder).then(|| self.groups()),
            kv_bytes_per_token_bf16: bytes.per_token,
            kv_growth_per_token_bf16: (bytes.growth != bytes.per_token).then_some(bytes.growth),
            kv_bytes_at_bf16: bytes.at,
            kv_bytes_per_token_native: bytes.native,
            cross_kv_bytes_per_source_token_bf16: bytes.cross,
            softmax_qk: attentions().next().is_some(),
            reading_rule: match family {
                ModelFamily::Transformer => ReadingRule::AttentionRefinement,
                ModelFamily::Hybrid => ReadingRule::Hybrid,
                ModelFamily::Ssm | ModelFamily::LinearRnn | ModelFamily::None => ReadingRule::NonAttention,
            },
            dtype: self.dtype.clone(),
            text_at: Some(self.text_at.clone()).filter(|at| !at.is_empty()),
        })
    }
}
