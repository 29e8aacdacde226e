//! What was understood: per-layer facts, and the figures derived from them.
//!
//! Everything an engine or a report needs is in [`Description::layers`]; [`Facts`] and the headline
//! only count and name. Bytes are in `memory`.

use serde::Serialize;

use super::evidence::Evidence;
use crate::error::Result;

/// What kind of network a model is as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModelFamily {
    /// Softmax attention, in every layer that mixes tokens.
    Transformer,
    /// State-space layers only.
    Ssm,
    /// Linear recurrences only.
    LinearRnn,
    /// Softmax attention and a recurrent mixer both occur.
    Hybrid,
    /// Nothing mixes tokens: a draft head.
    None,
}

/// What a model is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// An autoregressive decoder.
    Decoder,
    /// Bidirectional: there is no cache to size.
    Encoder,
    /// A decoder that also attends to an encoder's output.
    EncoderDecoder,
    /// A drafter for another model.
    Draft,
}

/// How query heads share keys and values, judged on the layers with softmax attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Attention {
    /// As many KV heads as query heads.
    #[serde(rename = "MHA")]
    Mha,
    /// Several query heads per KV head.
    #[serde(rename = "GQA")]
    Gqa,
    /// One KV head.
    #[serde(rename = "MQA")]
    Mqa,
    /// Keys and values come out of one cached latent.
    #[serde(rename = "MLA")]
    Mla,
    /// Layers differ in the above.
    #[serde(rename = "mixed")]
    Mixed,
    /// No softmax attention.
    #[serde(rename = "none")]
    None,
}

/// A mixer whose state does not grow with the context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecurrentKind {
    /// Mamba, selective state space.
    Mamba,
    /// Mamba 2, state space with heads.
    Mamba2,
    /// Gated `DeltaNet`.
    GatedDelta,
    /// Kimi Delta Attention.
    KimiDelta,
    /// Lightning attention.
    Lightning,
    /// Linear attention of a kind the file does not name.
    LinearAttention,
    /// RWKV time mixing.
    Rwkv,
    /// The RG-LRU of Griffin.
    RgLru,
    /// A short convolution.
    ShortConv,
    /// The mLSTM cell.
    Xlstm,
    /// Retention.
    Retention,
}

impl RecurrentKind {
    /// The name used in headlines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mamba => "Mamba",
            Self::Mamba2 => "Mamba-2",
            Self::GatedDelta => "gated DeltaNet",
            Self::KimiDelta => "Kimi delta attention",
            Self::Lightning => "lightning attention",
            Self::LinearAttention => "linear attention",
            Self::Rwkv => "RWKV",
            Self::RgLru => "RG-LRU",
            Self::ShortConv => "short convolution",
            Self::Xlstm => "xLSTM",
            Self::Retention => "retention",
        }
    }

    /// Whether a model made of such layers alone is a state-space model.
    pub fn is_state_space(self) -> bool {
        matches!(self, Self::Mamba | Self::Mamba2)
    }
}

/// Which past positions a layer's queries see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mask {
    /// All of them.
    Full,
    /// The last `window` tokens, the query's own included.
    Sliding {
        /// Tokens.
        window: usize,
    },
    /// Those in the same chunk of `size` tokens.
    Chunked {
        /// Tokens.
        size: usize,
    },
    /// The last `window` tokens, and one entry for every `ratio` tokens of the whole past.
    Compressed {
        /// Tokens.
        window: usize,
        /// Tokens per compressed entry.
        ratio: usize,
    },
}

impl Mask {
    /// The word of the `groups` field.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Full | Self::Compressed { .. } => "full",
            Self::Sliding { .. } => "sliding",
            Self::Chunked { .. } => "chunked",
        }
    }
}

/// The latent that an MLA layer caches instead of keys and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Latent {
    /// Width of the compressed part, `kv_lora_rank`.
    pub rank: usize,
    /// Width of the rotary part, `qk_rope_head_dim`.
    pub rope_dim: usize,
}

/// The softmax attention of one layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerAttention {
    /// Query heads.
    pub query_heads: usize,
    /// Heads whose keys and values are computed. With a latent: as many as query heads.
    pub kv_heads: usize,
    /// Width of a query and key head.
    pub head_dim: usize,
    /// Width of a value head.
    pub v_head_dim: usize,
    /// Which past positions are seen.
    pub mask: Mask,
    /// What is cached instead of keys and values, in an MLA layer.
    pub latent: Option<Latent>,
    /// The layer whose keys and values are used, if not its own.
    pub kv_from: Option<usize>,
    /// Whether keys and values are one tensor, stored once.
    pub one_tensor: bool,
}

impl LayerAttention {
    /// Whether the layer stores keys and values of its own.
    pub fn owns_kv(&self) -> bool {
        self.kv_from.is_none()
    }

    /// How the heads share.
    pub fn sharing(&self) -> Attention {
        if self.latent.is_some() {
            Attention::Mla
        } else if self.kv_heads == self.query_heads {
            Attention::Mha
        } else if self.kv_heads == 1 {
            Attention::Mqa
        } else {
            Attention::Gqa
        }
    }
}

/// The recurrent mixer of one layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerRecurrence {
    /// Which mixer.
    pub kind: RecurrentKind,
    /// Approximate elements of state per sequence, where the file says enough.
    pub state_elements: Option<u64>,
}

/// What mixes tokens in a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mixer {
    /// Softmax attention.
    Attention,
    /// Softmax attention over a latent.
    Latent,
    /// A recurrent mixer.
    Recurrent(RecurrentKind),
    /// Softmax attention and a recurrent mixer.
    Both(RecurrentKind),
    /// Cross-attention to something outside the text.
    Cross,
    /// Nothing: an MLP, an expert layer or a no-op.
    None,
}

/// One decoder layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LayerDescription {
    /// Self-attention over the text.
    pub attention: Option<LayerAttention>,
    /// A recurrent mixer, possibly beside attention.
    pub recurrent: Option<LayerRecurrence>,
    /// Whether the layer attends to something outside the text instead.
    pub cross: bool,
}

impl LayerDescription {
    /// What mixes tokens here.
    pub fn mixer(&self) -> Mixer {
        match (self.attention, self.recurrent) {
            (Some(_), Some(recurrent)) => Mixer::Both(recurrent.kind),
            (None, Some(recurrent)) => Mixer::Recurrent(recurrent.kind),
            (Some(attention), None) if attention.latent.is_some() => Mixer::Latent,
            (Some(_), None) => Mixer::Attention,
            (None, None) if self.cross => Mixer::Cross,
            (None, None) => Mixer::None,
        }
    }
}

/// The drafting method a checkpoint was made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DraftKind {
    /// EAGLE 1 or 2.
    Eagle,
    /// EAGLE 3.
    Eagle3,
    /// `DFlash` block diffusion.
    Dflash,
    /// `DSpark`.
    Dspark,
    /// Domino.
    Domino,
    /// Medusa heads.
    Medusa,
    /// MLP speculator.
    MlpSpeculator,
    /// Multi-token-prediction layers as a model of their own.
    Mtp,
    /// Some other drafter.
    Other,
}

/// What a configuration says, layer by layer, and how that was found out.
#[derive(Debug, Clone)]
pub struct Description {
    /// `model_type` of the language model, as the file gives it.
    pub model_type: String,
    /// What the model is for.
    pub role: Role,
    /// The drafting method, if the checkpoint is a drafter.
    pub draft: Option<DraftKind>,
    /// Decoder layers from first to last, built-in MTP layers not included.
    pub layers: Vec<LayerDescription>,
    /// Attention blocks in each layer: 1, or 2 in LongCat.
    pub attention_per_layer: usize,
    /// Layers of the encoder, in an encoder-decoder model.
    pub encoder_layers: Option<usize>,
    /// Model width.
    pub hidden_size: Option<usize>,
    /// Longest context in tokens.
    pub max_context: Option<usize>,
    /// Width of a sparse indexer's keys, per token and layer. Not part of any byte figure.
    pub indexer_key_dim: Option<usize>,
    /// Built-in multi-token-prediction layers.
    pub mtp_layers: Option<usize>,
    /// The declared dtype.
    pub dtype: Option<String>,
    /// Bits per cache element, where the file declares a cache format.
    pub kv_cache_bits: Option<u64>,
    /// Where in the file the language model is; empty at the top.
    pub text_at: String,
    /// Keys read, defaults assumed, keys ignored.
    pub evidence: Vec<Evidence>,
    /// Keys of the language model's part that no rule read.
    pub unread: Vec<String>,
}

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

/// The value all items share, if they do.
fn uniform<T: PartialEq>(mut items: impl Iterator<Item = T>) -> Option<T> {
    let first = items.next()?;
    items.all(|item| item == first).then_some(first)
}

fn reduced(query_heads: usize, kv_heads: usize) -> (usize, usize) {
    let (mut a, mut b) = (query_heads, kv_heads);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    let divisor = a.max(1);
    (query_heads / divisor, kv_heads / divisor)
}

impl Description {
    /// The layers' softmax attention, first to last, layers without one left out.
    pub fn attentions(&self) -> impl Iterator<Item = &LayerAttention> {
        self.layers.iter().filter_map(|layer| layer.attention.as_ref())
    }

    fn recurrences(&self) -> impl Iterator<Item = LayerRecurrence> {
        self.layers.iter().filter_map(|layer| layer.recurrent)
    }

    /// What kind of network this is.
    pub fn family(&self) -> ModelFamily {
        let softmax = self.attentions().next().is_some() || self.layers.iter().any(|layer| layer.cross);
        let mut recurrences = self.recurrences().peekable();
        match (softmax, recurrences.peek().is_some()) {
            (true, true) => ModelFamily::Hybrid,
            (true, false) => ModelFamily::Transformer,
            (false, true) if recurrences.any(|layer| layer.kind.is_state_space()) => ModelFamily::Ssm,
            (false, true) => ModelFamily::LinearRnn,
            (false, false) => ModelFamily::None,
        }
    }

    /// How heads share keys and values.
    pub fn attention(&self) -> Attention {
        if self.attentions().next().is_none() {
            return Attention::None;
        }
        uniform(self.attentions().map(LayerAttention::sharing)).unwrap_or(Attention::Mixed)
    }

    /// Query heads per KV head where all layers agree, reduced, such as `4:1`.
    pub fn ratio(&self) -> Option<String> {
        if self.attentions().any(|layer| layer.latent.is_some()) {
            return None;
        }
        let (query, kv) = uniform(self.attentions().map(|layer| reduced(layer.query_heads, layer.kv_heads)))?;
        Some(format!("{query}:{kv}"))
    }

    /// Approximate elements of constant state per sequence over all recurrent layers.
    pub fn state_elements(&self) -> Option<u64> {
        self.recurrences().try_fold(0u64, |sum, layer| sum.checked_add(layer.state_elements?))
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_reduced() {
        assert_eq!(reduced(32, 8), (4, 1));
        assert_eq!(reduced(12, 8), (3, 2));
        assert_eq!(reduced(71, 1), (71, 1));
    }

    #[test]
    fn uniform_needs_something_to_agree_on() {
        assert_eq!(uniform([1, 1].into_iter()), Some(1));
        assert_eq!(uniform([1, 2].into_iter()), None);
        assert_eq!(uniform(std::iter::empty::<usize>()), None);
    }
}
