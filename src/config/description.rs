//! What was understood: per-layer facts, and the figures derived from them.
//!
//! Everything an engine or a report needs is in [`Description::layers`]; `facts` and `headline` only
//! count and name. Bytes are in `memory`.

use serde::Serialize;

use super::evidence::Evidence;

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

/// The value all items share, if they do.
pub(super) fn uniform<T: PartialEq>(mut items: impl Iterator<Item = T>) -> Option<T> {
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

    pub(super) fn recurrences(&self) -> impl Iterator<Item = LayerRecurrence> {
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
