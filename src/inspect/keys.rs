//! Which evidence decides, and which keys say nothing about attention or cache.
//!
//! Every model file has dozens of keys for training, text and numerics. Naming those that are known not
//! to matter keeps the list of keys that were *not understood* short enough to be read.

use crate::config::{CONTEXT_KEYS, Evidence, EvidenceKind};

/// Keys read for completeness, beside those of the longest context: they tell no attention from another.
const BACKGROUND: &[&str] = &[
    "architectures",
    "vocab_size",
    "dtype",
    "torch_dtype",
    "is_encoder_decoder",
    "is_decoder",
    "is_causal",
    "hidden_size",
    "n_embd",
    "d_model",
    "model_dim",
    "embedding_dim",
    "n_embed",
    "tokenizer.ggml.tokens",
    "embedding_length",
];

/// Beginnings of keys that bear on neither attention nor cache.
const IRRELEVANT_PREFIXES: &[&str] = &[
    "_",
    "act_",
    "attn_pdrop",
    "attn_dropout",
    "aux_loss",
    "bad_words",
    "begin_",
    "bos_",
    "chunk_size_",
    "classifier_",
    "decoder_start",
    "diversity_",
    "do_sample",
    "dropout",
    "early_stopping",
    "embd_",
    "encoder_no_repeat",
    "eos_",
    "exponential_decay",
    "ffn_",
    "final_",
    "finetuning_",
    "forced_",
    "id2",
    "image_token",
    "audio_",
    "initializer_",
    "label2",
    "layer_norm",
    "length_penalty",
    "lm_head_",
    "logits_",
    "mlp_",
    "moe_",
    "norm_",
    "no_repeat",
    "num_beam",
    "num_return",
    "output_",
    "pad_",
    "prefix",
    "problem_type",
    "pruned_",
    "remove_invalid",
    "repetition_",
    "resid_",
    "return_dict",
    "rms_norm",
    "rope_",
    "rotary_",
    "router_",
    "routed_",
    "sep_token",
    "shared_expert",
    "suppress_",
    "summary_",
    "task_specific",
    "temperature",
    "tf_legacy",
    "tie_",
    "tokenizer_",
    "top_",
    "topk_",
    "torchscript",
    "transformers_",
    "typical_",
    "use_bfloat16",
    "video_",
    "vision_",
    "expert_",
    "n_routed",
    "n_shared",
    "num_expert",
    "mtp_",
    "pooler_",
    "encoder_ffn",
    "num_local_experts",
    "quant",
    "scoring_",
    "mrope",
    "yarn",
    "partial_rotary",
];

/// Keys that bear on neither, by their whole name.
const IRRELEVANT: &[&str] = &[
    "activation_function",
    "alibi",
    "attention_bias",
    "attention_method",
    "bf16",
    "fp16",
    "fp32",
    "index_n_heads",
    "index_topk",
    "qk_head_dim",
    "num_mem_blocks",
    "directionality",
    "encoder_attention_heads",
    "max_source_positions",
    "rescale_every",
    "model_version",
    "mla_use_nope",
    "num_gqa_groups",
    "d_intermediate",
    "attention_dropout",
    "attention_multiplier",
    "attention_out_bias",
    "attn_implementation",
    "attn_logit_softcapping",
    "auto_map",
    "bias",
    "clip_qkv",
    "cross_attention_hidden_size",
    "decoder_sparse_step",
    "embedding_multiplier",
    "eos",
    "ep_size",
    "experts_per_token",
    "first_k_dense_replace",
    "full_attention_idx",
    "hidden_act",
    "hidden_activation",
    "hidden_dropout",
    "intermediate_size",
    "logit_scale",
    "max_length",
    "min_length",
    "n_group",
    "n_inner",
    "parallel_attn",
    "pretraining_tp",
    "q_lora_rank",
    "qk_norm",
    "query_pre_attn_scalar",
    "residual_multiplier",
    "scale_attn_weights",
    "sliding_window_size",
    "swiglu_limit",
    "unk_token_id",
    "use_cache",
    "use_qk_norm",
    "use_parallel_residual",
    "use_mrope",
    "vocab_size_per_layer_input",
    "mscale",
    "theta",
    "expand_ratio",
    "residual_in_fp32",
    "rms_norm",
    "use_conv_bias",
    "use_bias",
    "time_step_rank",
    "time_step_scale",
    "time_step_min",
    "time_step_max",
    "time_step_floor",
    "time_step_limit",
    "intermediate_sizes",
    "n_ctx",
    // GGUF's own names for the same things.
    "feed_forward_length",
    "freq_base",
    "dimension_count",
    "dimension_sections",
    "layer_norm_rms_epsilon",
    "layer_norm_epsilon",
    "leading_dense_block_count",
    "used_count",
    "group_count",
];

/// Keys that `speculation` reads, or that only say how a drafter is built.
const DRAFTING: &[&str] = &[
    "draft_vocab_size",
    "num_target_layers",
    "target_layer_ids",
    "target_hidden_size",
    "target_model_type",
    "eagle_aux_hidden_state_layer_ids",
    "aux_hidden_state_layer_ids",
    "dflash_config",
    "eagle_config",
    "block_size",
    "mask_token_id",
    "base_model_name_or_path",
];
/// Beginnings of such keys.
const DRAFTING_PREFIXES: &[&str] = &["speculators_", "medusa_", "markov_", "confidence_", "dspark_"];

/// The last name of a path.
fn name(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

/// Whether `evidence` belongs to the short account of how a model was classified.
pub(super) fn decides(evidence: &Evidence) -> bool {
    let is_background = |key: &str| BACKGROUND.contains(&key) || CONTEXT_KEYS.contains(&key);
    evidence.kind != EvidenceKind::Read || !(is_background(name(&evidence.at)) || is_background(&evidence.at))
}

/// Whether a key that no rule read is known to bear on neither attention nor cache.
pub(super) fn is_irrelevant(path: &str) -> bool {
    let name = name(path);
    let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    IRRELEVANT.contains(&name)
        || DRAFTING.contains(&name)
        || begins(IRRELEVANT_PREFIXES)
        || begins(DRAFTING_PREFIXES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence(kind: EvidenceKind, at: &str) -> Evidence {
        Evidence { kind, at: at.to_owned(), value: String::new(), rule: String::new() }
    }

    #[test]
    fn heads_decide_and_a_vocabulary_does_not() {
        assert!(decides(&evidence(EvidenceKind::Read, "text_config.num_key_value_heads")));
        assert!(!decides(&evidence(EvidenceKind::Read, "text_config.vocab_size")));
        assert!(decides(&evidence(EvidenceKind::Assumed, "hidden_size")));
        assert!(decides(&evidence(EvidenceKind::Ignored, "sliding_window")));
    }

    #[test]
    fn unknown_keys_stay_unknown() {
        assert!(is_irrelevant("text_config.hidden_act") && is_irrelevant("llama.rope.freq_base"));
        for key in ["attention_sink_size", "kv_lora_rank_2", "window_layers", "latent_attention", "mamba_foo"]
        {
            assert!(!is_irrelevant(key), "{key}");
        }
    }
}
