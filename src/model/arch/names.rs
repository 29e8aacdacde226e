//! What the tensors of a decoder are called in each container.
//!
//! A name table lists only where a family differs from Llama's names, which most families use.

/// The tensors of a decoder, by what they do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Token embeddings.
    Embedding,
    /// Output head.
    Head,
    /// Norm before the head.
    FinalNorm,
    /// Norm before attention.
    AttentionNorm,
    /// Query projection.
    Query,
    /// Key projection.
    Key,
    /// Value projection.
    Value,
    /// Output projection of attention.
    Output,
    /// Norm over each query head.
    QueryNorm,
    /// Norm over each key head.
    KeyNorm,
    /// Norm after attention, before the residual sum.
    PostAttentionNorm,
    /// Norm before the feed-forward layer.
    MlpNorm,
    /// Norm after the feed-forward layer, before the residual sum.
    PostMlpNorm,
    /// Gate projection.
    Gate,
    /// Up projection.
    Up,
    /// Down projection.
    Down,
}

/// Names by role; `{}` is the layer's number. Without the suffix `.weight` or `.bias`.
pub type Names = &'static [(Role, &'static str)];

/// How one family names its tensors where it differs from Llama.
#[derive(Debug, Clone, Copy, Default)]
pub struct NameTable {
    /// In safetensors and pickles, below the model's prefix.
    pub hugging_face: Names,
    /// In GGUF.
    pub gguf: Names,
}

const LLAMA: NameTable = NameTable {
    hugging_face: &[
        (Role::Embedding, "embed_tokens"),
        (Role::Head, "lm_head"),
        (Role::FinalNorm, "norm"),
        (Role::AttentionNorm, "layers.{}.input_layernorm"),
        (Role::Query, "layers.{}.self_attn.q_proj"),
        (Role::Key, "layers.{}.self_attn.k_proj"),
        (Role::Value, "layers.{}.self_attn.v_proj"),
        (Role::Output, "layers.{}.self_attn.o_proj"),
        (Role::QueryNorm, "layers.{}.self_attn.q_norm"),
        (Role::KeyNorm, "layers.{}.self_attn.k_norm"),
        (Role::MlpNorm, "layers.{}.post_attention_layernorm"),
        (Role::Gate, "layers.{}.mlp.gate_proj"),
        (Role::Up, "layers.{}.mlp.up_proj"),
        (Role::Down, "layers.{}.mlp.down_proj"),
    ],
    gguf: &[
        (Role::Embedding, "token_embd"),
        (Role::Head, "output"),
        (Role::FinalNorm, "output_norm"),
        (Role::AttentionNorm, "blk.{}.attn_norm"),
        (Role::Query, "blk.{}.attn_q"),
        (Role::Key, "blk.{}.attn_k"),
        (Role::Value, "blk.{}.attn_v"),
        (Role::Output, "blk.{}.attn_output"),
        (Role::QueryNorm, "blk.{}.attn_q_norm"),
        (Role::KeyNorm, "blk.{}.attn_k_norm"),
        (Role::PostAttentionNorm, "blk.{}.post_attention_norm"),
        (Role::MlpNorm, "blk.{}.ffn_norm"),
        (Role::PostMlpNorm, "blk.{}.post_ffw_norm"),
        (Role::Gate, "blk.{}.ffn_gate"),
        (Role::Up, "blk.{}.ffn_up"),
        (Role::Down, "blk.{}.ffn_down"),
    ],
};

/// Where a checkpoint may keep the language model; the first whose embedding is there is used.
const PREFIXES: &[&str] =
    &["model.", "language_model.model.", "model.language_model.", "language_model.", ""];

/// The names of one checkpoint.
pub struct Naming {
    table: NameTable,
    /// None for GGUF, which has no prefixes.
    prefix: Option<&'static str>,
}

impl Naming {
    /// Names in a GGUF file.
    pub fn gguf(table: NameTable) -> Self {
        Self { table, prefix: None }
    }

    /// Names in a Hugging Face checkpoint; `has` tells whether a tensor exists.
    pub fn hugging_face(table: NameTable, has: impl Fn(&str) -> bool) -> Self {
        let mut naming = Self { table, prefix: Some(PREFIXES[0]) };
        for prefix in PREFIXES {
            naming.prefix = Some(prefix);
            if has(&format!("{}.weight", naming.name(Role::Embedding, 0))) {
                return naming;
            }
        }
        naming.prefix = Some(PREFIXES[0]);
        naming
    }

    /// What the names of all layers' tensors begin with.
    pub fn layers(&self) -> String {
        let name = self.name(Role::AttentionNorm, 0);
        name.split_once("0.").map_or(name.as_str(), |(before, _)| before).to_owned()
    }

    /// Name of a tensor without its suffix.
    ///
    /// # Panics
    /// When no table names the role.
    pub fn name(&self, role: Role, layer: usize) -> String {
        let (own, common) = match self.prefix {
            Some(_) => (self.table.hugging_face, LLAMA.hugging_face),
            None => (self.table.gguf, LLAMA.gguf),
        };
        let (_, template) = own
            .iter()
            .chain(common)
            .find(|(named, _)| *named == role)
            .unwrap_or_else(|| panic!("no name for {role:?}"));
        let name = template.replace("{}", &layer.to_string());
        match self.prefix {
            // The head stands beside the model, under whatever the model itself is nested in.
            Some(prefix) if role == Role::Head => {
                let outer = if prefix == "language_model.model." { "language_model." } else { "" };
                format!("{outer}{name}")
            }
            Some(prefix) => format!("{prefix}{name}"),
            None => name,
        }
    }
}
