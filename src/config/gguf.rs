//! GGUF metadata under the names of `config.json`.
//!
//! One table says which key is which. Values keep their type; only what the two formats count
//! differently is computed here: built-in MTP layers are part of `block_count`, a latent's head width
//! is stored as a sum, and rotary scaling is spread over several keys. Class defaults of
//! transformers do not apply to GGUF files, which state what differs from the common rule.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Number, Value};

use super::description::RecurrentKind;
use super::families::Family;
use crate::error::{Error, Result};
use crate::gguf::{GgufHeader, GgufValue};

/// A configuration made from metadata.
pub(super) struct Translated {
    pub root: Map<String, Value>,
    /// The metadata key behind each key of `root`.
    pub keys: BTreeMap<String, String>,
    pub model_type: String,
    pub family: Option<&'static Family>,
    /// The recurrent mixer that the keys speak of.
    pub recurrent: Option<RecurrentKind>,
}

/// Groups of keys that only files with such a mixer have.
const RECURRENT_KEYS: &[(&str, RecurrentKind)] = &[
    ("kda.", RecurrentKind::KimiDelta),
    ("shortconv.", RecurrentKind::ShortConv),
    ("wkv.", RecurrentKind::Rwkv),
    ("ssm.", RecurrentKind::Mamba),
];

/// Metadata keys (after the architecture's name) and what `config.json` calls them.
#[rustfmt::skip]
const KEYS: &[(&str, &str)] = &[
    ("vocab_size", "vocab_size"),
    ("context_length", "max_position_embeddings"),
    ("embedding_length", "hidden_size"),
    ("block_count", "num_hidden_layers"),
    ("decoder_block_count", "num_decoder_layers"),
    ("nextn_predict_layers", "num_nextn_predict_layers"),
    ("feed_forward_length", "intermediate_size"),
    ("expert_count", "num_experts"),
    ("expert_used_count", "num_experts_per_tok"),
    ("expert_shared_count", "n_shared_experts"),
    ("expert_feed_forward_length", "moe_intermediate_size"),
    ("expert_shared_feed_forward_length", "shared_expert_intermediate_size"),
    ("expert_group_count", "n_group"),
    ("expert_group_used_count", "topk_group"),
    ("expert_weights_norm", "norm_topk_prob"),
    ("expert_weights_scale", "routed_scaling_factor"),
    ("leading_dense_block_count", "first_k_dense_replace"),
    ("use_parallel_residual", "use_parallel_residual"),
    ("attn_logit_softcapping", "attn_logit_softcapping"),
    ("final_logit_softcapping", "final_logit_softcapping"),
    ("embedding_scale", "embedding_multiplier"),
    ("residual_scale", "residual_multiplier"),
    ("logit_scale", "logit_scale"),
    ("full_attention_interval", "full_attention_interval"),
    ("attention.head_count", "num_attention_heads"),
    ("attention.head_count_kv", "num_key_value_heads"),
    ("attention.key_length", "head_dim"),
    ("attention.value_length", "v_head_dim"),
    ("attention.key_length_swa", "swa_head_dim"),
    ("attention.value_length_swa", "swa_v_head_dim"),
    ("attention.layer_norm_rms_epsilon", "rms_norm_eps"),
    ("attention.layer_norm_epsilon", "layer_norm_eps"),
    ("attention.causal", "is_causal"),
    ("attention.q_lora_rank", "q_lora_rank"),
    ("attention.kv_lora_rank", "kv_lora_rank"),
    ("attention.sliding_window", "sliding_window"),
    ("attention.sliding_window_pattern", "sliding_window_pattern"),
    ("attention.shared_kv_layers", "num_kv_shared_layers"),
    ("attention.scale", "attention_multiplier"),
    ("attention.clamp_kqv", "clip_qkv"),
    ("attention.max_alibi_bias", "alibi_bias_max"),
    ("attention.indexer.head_count", "index_n_heads"),
    ("attention.indexer.key_length", "index_head_dim"),
    ("attention.indexer.top_k", "index_topk"),
    ("rope.dimension_count", "rotary_dim"),
    ("rope.freq_base", "rope_theta"),
    ("rope.freq_base_swa", "rope_local_base_freq"),
    ("ssm.conv_kernel", "conv_kernel"),
    ("ssm.state_size", "state_size"),
    ("ssm.time_step_rank", "time_step_rank"),
    ("ssm.group_count", "n_groups"),
    ("shortconv.l_cache", "conv_L_cache"),
    ("wkv.head_size", "head_size"),
];

/// Rotary scaling, one key each, and the names inside `rope_scaling`.
const SCALING: &[(&str, &str)] = &[
    ("type", "rope_type"),
    ("factor", "factor"),
    ("original_context_length", "original_max_position_embeddings"),
    ("attn_factor", "attention_factor"),
    ("yarn_attn_factor", "attention_factor"),
    ("yarn_beta_fast", "beta_fast"),
    ("yarn_beta_slow", "beta_slow"),
    ("yarn_ext_factor", "extrapolation_factor"),
    ("yarn_log_multiplier", "mscale_all_dim"),
    ("alpha", "alpha"),
];

/// Architecture names that are not the class's own name with other dashes.
#[rustfmt::skip]
const ARCHITECTURES: &[(&str, &str)] = &[
    ("command-r", "cohere"), ("deepseek2", "deepseek_v3"), ("deepseek2-ocr", "deepseek"), ("gemma-embedding", "gemma3_text"),
    ("glm-dsa", "glm_moe_dsa"), ("granitehybrid", "granitemoehybrid"), ("hunyuan-dense", "hunyuan_v1_dense"),
    ("jina-bert-v2", "bert"), ("jina-bert-v3", "bert"), ("mimo2", "mimo_v2"), ("mistral3", "ministral3"),
    ("modern-bert", "modernbert"), ("nemotron_h_moe", "nemotron_h"), ("neo-bert", "bert"), ("nomic-bert-moe", "nomic_bert"),
    ("phi2", "phi"), ("qwen35", "qwen3_5_text"), ("qwen35moe", "qwen3_5_moe_text"), ("rwkv6qwen2", "rwkv6"),
    ("arwkv7", "rwkv7"), ("starcoder", "gpt_bigcode"), ("step35", "step3p5"), ("t5encoder", "t5"),
    ("paddleocr", "paddleocr_vl_text"), ("jais2", "jais2"),
];

pub(super) fn translate(header: &GgufHeader, path: &Path) -> Result<Translated> {
    let unsupported =
        |problem: &str| Error::UnsupportedConfig { path: path.to_owned(), problem: problem.to_owned() };
    let malformed = |problem: String| Error::Malformed { path: path.to_owned(), problem };
    let architecture = match header.metadata.get("general.architecture") {
        None => {
            return Err(unsupported("`general.architecture` is missing: nothing tells what the model is"));
        }
        Some(value) => value.as_str().filter(|name| !name.is_empty()).ok_or_else(|| {
            malformed("`general.architecture` must be a string that names the architecture".to_owned())
        })?,
    };
    let renamed = ARCHITECTURES.iter().find(|(name, _)| *name == architecture).map(|&(_, family)| family);
    let family = Family::find(renamed.unwrap_or(architecture));
    let prefix = format!("{architecture}.");
    let mut root = Map::new();
    let mut keys = BTreeMap::new();
    for (key, value) in &header.metadata {
        let Some(suffix) = key.strip_prefix(&prefix) else { continue };
        let name = KEYS.iter().find(|(known, _)| *known == suffix).map_or(key.as_str(), |&(_, name)| name);
        root.insert(name.to_owned(), json(value));
        keys.insert(name.to_owned(), key.clone());
    }
    for (_, name) in KEYS {
        // So that a message about a missing key speaks of the file's own name for it.
        if !keys.contains_key(*name)
            && let Some((suffix, _)) = KEYS.iter().find(|(_, known)| known == name)
        {
            keys.insert((*name).to_owned(), format!("{prefix}{suffix}"));
        }
    }
    let mut built = Built { root, keys, header, prefix: &prefix };
    built.layers().map_err(&malformed)?;
    built.latent().map_err(&malformed)?;
    built.rotary_scaling();
    built.tokenizer();
    let Built { mut root, keys, .. } = built;
    if architecture == "t5encoder" {
        root.insert("is_causal".to_owned(), Value::Bool(false));
        root.insert("is_encoder_decoder".to_owned(), Value::Bool(false));
    }
    let model_type = family.map_or(architecture, |family| family.name).to_owned();
    let has = |group: &str| {
        header.metadata.keys().any(|key| key.strip_prefix(&prefix).is_some_and(|k| k.starts_with(group)))
    };
    let recurrent = RECURRENT_KEYS.iter().find(|(group, _)| has(group)).map(|&(_, kind)| kind);
    Ok(Translated { root, keys, model_type, family, recurrent })
}

struct Built<'a> {
    root: Map<String, Value>,
    keys: BTreeMap<String, String>,
    header: &'a GgufHeader,
    prefix: &'a str,
}

impl Built<'_> {
    fn size(&self, suffix: &str) -> Result<Option<u64>, String> {
        let key = format!("{}{suffix}", self.prefix);
        match self.header.metadata.get(&key) {
            None => Ok(None),
            Some(value) => {
                let size = value.as_u64().filter(|&size| size <= 1 << 32);
                size.map(Some).ok_or_else(|| format!("`{key}` is {}: not a usable integer", json(value)))
            }
        }
    }

    fn set(&mut self, name: &str, value: Value, suffix: &str) {
        self.root.insert(name.to_owned(), value);
        self.keys.insert(name.to_owned(), format!("{}{suffix}", self.prefix));
    }

    /// `block_count` includes the built-in MTP layers, `num_hidden_layers` does not.
    fn layers(&mut self) -> Result<(), String> {
        let (Some(blocks), Some(mtp)) = (self.size("block_count")?, self.size("nextn_predict_layers")?)
        else {
            return Ok(());
        };
        let layers = blocks.checked_sub(mtp).filter(|&layers| layers > 0 || mtp == 0);
        let prefix = self.prefix;
        let layers = layers.ok_or_else(|| {
            format!("`{prefix}nextn_predict_layers` is {mtp}, but `{prefix}block_count` is {blocks}")
        })?;
        // Lists have an entry for each block, so those of the MTP layers go as well.
        for value in self.root.values_mut() {
            if let Value::Array(items) = value
                && items.len() as u64 == blocks
            {
                items.truncate(usize::try_from(layers).unwrap_or(usize::MAX));
            }
        }
        self.set("num_hidden_layers", layers.into(), "block_count");
        Ok(())
    }

    /// The widths of a latent's heads: stored apart in new files, as expanded heads in old ones.
    fn latent(&mut self) -> Result<(), String> {
        let Some(rank) = self.size("attention.kv_lora_rank")?.filter(|&rank| rank > 0) else { return Ok(()) };
        let key_length = self.size("attention.key_length")?;
        let value_length = self.size("attention.value_length")?;
        let mut rope = self.size("rope.dimension_count")?;
        let (head, value, suffix) = match self.size("attention.key_length_mla")? {
            Some(head) => {
                // key_length is the whole latent here, so it gives the rotary part if nothing else does.
                rope = rope.or_else(|| key_length?.checked_sub(rank));
                (Some(head), self.size("attention.value_length_mla")?, "attention.key_length_mla")
            }
            None => (key_length, value_length, "attention.key_length"),
        };
        for stale in ["head_dim", "v_head_dim"] {
            self.root.remove(stale);
        }
        if let Some(rope) = rope {
            self.set("qk_rope_head_dim", rope.into(), "rope.dimension_count");
        }
        if let (Some(head), Some(rope)) = (head, rope) {
            let prefix = self.prefix;
            let nope = head.checked_sub(rope);
            let nope = nope.ok_or_else(|| {
                format!("`{prefix}{suffix}` is {head}, less than the rotary width {rope} (`{prefix}rope.dimension_count`)")
            })?;
            self.set("qk_nope_head_dim", nope.into(), suffix);
        }
        if let Some(value) = value {
            self.set("v_head_dim", value.into(), "attention.value_length_mla");
        }
        for (name, suffix) in [
            ("qk_rope_head_dim", "rope.dimension_count"),
            ("qk_nope_head_dim", "attention.key_length_mla"),
            ("v_head_dim", "attention.value_length_mla"),
        ] {
            self.keys.entry(name.to_owned()).or_insert_with(|| format!("{}{suffix}", self.prefix));
        }
        Ok(())
    }

    fn rotary_scaling(&mut self) {
        let mut scaling = Map::new();
        for (suffix, name) in SCALING {
            let key = format!("{}rope.scaling.{suffix}", self.prefix);
            if let Some(value) = self.header.metadata.get(&key) {
                scaling.insert((*name).to_owned(), json(value));
                self.root.remove(&key);
            }
        }
        if !scaling.is_empty() {
            self.set("rope_scaling", Value::Object(scaling), "rope.scaling");
        }
    }

    /// What the tokenizer's part of the metadata says about the model.
    fn tokenizer(&mut self) {
        let metadata = &self.header.metadata;
        let mut ends = Vec::new();
        for key in
            ["tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"]
        {
            if let Some(value) = metadata.get(key).map(json)
                && !ends.contains(&value)
            {
                ends.push(value);
            }
        }
        let first = metadata.get("tokenizer.ggml.bos_token_id").map(json);
        let tokens = metadata.get("tokenizer.ggml.tokens").and_then(GgufValue::array_len);
        let mut add = |name: &str, value: Value, key: &str| {
            self.root.insert(name.to_owned(), value);
            self.keys.insert(name.to_owned(), key.to_owned());
        };
        if !ends.is_empty() {
            add("eos_token_id", Value::Array(ends), "tokenizer.ggml.eos_token_id");
        }
        if let Some(first) = first {
            add("bos_token_id", first, "tokenizer.ggml.bos_token_id");
        }
        if let Some(tokens) = tokens {
            add("vocab_size", tokens.into(), "tokenizer.ggml.tokens");
        }
    }
}

fn json(value: &GgufValue) -> Value {
    match value {
        GgufValue::Unsigned(number) => Value::from(*number),
        GgufValue::Signed(number) => Value::from(*number),
        GgufValue::Float(number) => Number::from_f64(*number).map_or(Value::Null, Value::Number),
        GgufValue::Bool(flag) => Value::Bool(*flag),
        GgufValue::String(text) => Value::String(text.clone()),
        GgufValue::Array(items) => Value::Array(items.iter().map(json).collect()),
        // Longer than any list of layers, so a text that no reader of a number or list accepts.
        GgufValue::Skipped(len) => Value::String(format!("an array of {len} elements")),
    }
}
