//! Gemma 3, text: norms around both halves of a layer and over each head, windows on most layers with a
//! rotation of their own, scaled embeddings, a tied head.

use super::common::{self, RopeSource};
use super::names::{NameTable, Role};
use crate::config::{Description, ModelConfig};
use crate::error::Result;
use crate::model::decoder::{DecoderSpec, NormPlacement};
use crate::model::layers::rope::RopeId;

pub(super) const NAMES: NameTable = NameTable {
    hugging_face: &[
        (Role::PostAttentionNorm, "layers.{}.post_attention_layernorm"),
        (Role::MlpNorm, "layers.{}.pre_feedforward_layernorm"),
        (Role::PostMlpNorm, "layers.{}.post_feedforward_layernorm"),
    ],
    gguf: &[],
};

pub(super) fn declare(config: &ModelConfig, description: &Description) -> Result<DecoderSpec> {
    let mut spec = common::pre_norm(config, description)?;
    let head_dim = spec.layers.first().map_or(0, |layer| layer.attention.head_dim);
    let full = RopeSource { layer_type: "full_attention", theta_key: "rope_theta", default_theta: 1e6 };
    let sliding =
        RopeSource { layer_type: "sliding_attention", theta_key: "rope_local_base_freq", default_theta: 1e4 };
    spec.ropes = vec![common::rope(config, head_dim, full)?, common::rope(config, head_dim, sliding)?];
    spec.embedding_scale = Some((spec.hidden_size as f64).sqrt());
    // Checkpoints store w - 1; GGUF files have the 1 added.
    spec.norm_offset = if config.is_gguf() { 0.0 } else { 1.0 };
    spec.tied = config.get_bool("tie_word_embeddings")?.unwrap_or(true);
    spec.logit_softcap = config.get_f64("final_logit_softcapping")?;
    let softcap = config.get_f64("attn_logit_softcapping")?;
    let default_scalar = if config.is_gguf() { head_dim as f64 } else { 256.0 };
    let scalar = common::positive(config, "query_pre_attn_scalar", default_scalar)?;
    let bias = config.get_bool("attention_bias")?.unwrap_or(false);
    let activation = common::activation(config, "hidden_activation", "gelu_pytorch_tanh")?;
    for layer in &mut spec.layers {
        layer.rope = Some(RopeId(usize::from(layer.window.is_some())));
        layer.scale = scalar.sqrt().recip();
        layer.softcap = softcap;
        layer.head_norms = true;
        layer.norms = NormPlacement::Around;
        layer.biases.qkv = bias;
        layer.biases.output = bias;
        layer.activation = activation;
    }
    Ok(spec)
}
