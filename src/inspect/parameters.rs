//! Parameters counted from a configuration, for the classes whose matrices are known.
//!
//! Matrices are counted exactly; norms and biases, below a thousandth of the whole, by class. A class
//! that is not in the table, or a size that is missing, gives no figure.

use crate::config::{Description, LayerAttention, Mixer, ModelConfig};
use crate::error::Result;

/// The feed-forward part of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mlp {
    /// Gate, up and down matrices.
    Gated,
    /// Up and down matrices.
    Plain,
}

/// What a class's sizes do not say.
#[derive(Debug, Clone, Copy)]
struct Shape {
    name: &'static str,
    mlp: Mlp,
    /// Whether the embedding is the head where `tie_word_embeddings` is absent.
    tied: bool,
    /// Norm vectors per layer.
    norms: u64,
    /// Whether q, k and v have biases.
    qkv_bias: bool,
    /// Whether positions are embedded with a table.
    position_table: bool,
}

const fn gated(name: &'static str) -> Shape {
    Shape { name, mlp: Mlp::Gated, tied: false, norms: 2, qkv_bias: false, position_table: false }
}

const fn plain(name: &'static str) -> Shape {
    Shape { mlp: Mlp::Plain, ..gated(name) }
}

/// Classes whose every matrix is attention, feed-forward, router or embedding.
const SHAPES: &[Shape] = &[
    gated("llama"),
    gated("mistral"),
    gated("mixtral"),
    gated("ministral"),
    gated("ministral3"),
    Shape { qkv_bias: true, ..gated("qwen2") },
    Shape { qkv_bias: true, ..gated("qwen2_moe") },
    gated("qwen3"),
    gated("qwen3_moe"),
    Shape { tied: true, ..gated("gemma") },
    Shape { tied: true, norms: 4, ..gated("gemma2") },
    Shape { tied: true, norms: 4, ..gated("gemma3_text") },
    gated("phi3"),
    gated("granite"),
    Shape { tied: true, norms: 1, ..gated("cohere") },
    Shape { tied: true, norms: 1, ..gated("cohere2") },
    gated("olmo"),
    gated("olmo2"),
    gated("olmo3"),
    gated("smollm3"),
    gated("internlm2"),
    gated("internlm3"),
    gated("seed_oss"),
    gated("helium"),
    gated("exaone4"),
    gated("deepseek"),
    gated("deepseek_v2"),
    gated("deepseek_v3"),
    gated("kimi_k2"),
    gated("minicpm3"),
    Shape { position_table: true, tied: true, ..plain("gpt2") },
    plain("gpt_neox"),
    Shape { tied: true, qkv_bias: true, ..plain("starcoder2") },
];

/// Parameters of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parameters {
    pub total: u64,
    /// Those one token passes through, where experts make it fewer.
    pub active: Option<u64>,
}

/// Counts; none when the class or a size is not known.
///
/// # Errors
/// `Malformed` when a size has the wrong type.
pub(super) fn count(config: &ModelConfig, description: &Description) -> Result<Option<Parameters>> {
    let Some(shape) = SHAPES.iter().find(|shape| shape.name == description.model_type) else {
        return Ok(None);
    };
    let sizes = Sizes::read(config, description, shape)?;
    Ok(sizes.and_then(|sizes| sizes.sum(description, shape)))
}

/// Sizes that no layer description holds.
struct Sizes {
    hidden: u64,
    vocab: u64,
    intermediate: u64,
    tied: bool,
    positions: u64,
    query_rank: Option<u64>,
    experts: Option<Experts>,
}

/// A mixture of experts.
struct Experts {
    count: u64,
    per_token: u64,
    intermediate: u64,
    /// Width of the experts every token passes through.
    shared_intermediate: u64,
    first_dense: u64,
    every: u64,
    dense_layers: Vec<u64>,
}

impl Sizes {
    fn read(config: &ModelConfig, description: &Description, shape: &Shape) -> Result<Option<Self>> {
        let get = |keys: &[&str]| -> Result<Option<u64>> {
            for key in keys {
                if let Some(size) = config.get_usize(key)? {
                    return Ok(u64::try_from(size).ok());
                }
            }
            Ok(None)
        };
        let Some(hidden) = description.hidden_size.map(|size| size as u64) else { return Ok(None) };
        let Some(vocab) = get(&["vocab_size"])? else { return Ok(None) };
        let four_times =
            || if shape.mlp == Mlp::Plain && shape.position_table { hidden.checked_mul(4) } else { None };
        let intermediate = get(&["intermediate_size", "n_inner"])?.or_else(four_times);
        let Some(intermediate) = intermediate else { return Ok(None) };
        let experts = match get(&["num_experts", "n_routed_experts", "num_local_experts"])? {
            None | Some(0) => None,
            Some(count) => {
                let Some(per_token) = get(&["num_experts_per_tok"])? else { return Ok(None) };
                let own = get(&["moe_intermediate_size"])?;
                let width = own.unwrap_or(intermediate);
                let shared = match get(&["shared_expert_intermediate_size"])? {
                    Some(width) => Some(width),
                    None => get(&["n_shared_experts"])?.unwrap_or(0).checked_mul(width),
                };
                let Some(shared_intermediate) = shared else { return Ok(None) };
                let listed = config.get_array("mlp_only_layers")?.unwrap_or_default();
                Some(Experts {
                    count,
                    per_token,
                    intermediate: width,
                    shared_intermediate,
                    first_dense: get(&["first_k_dense_replace"])?.unwrap_or(0),
                    every: get(&["decoder_sparse_step", "moe_layer_freq"])?.unwrap_or(1).max(1),
                    dense_layers: listed.iter().filter_map(serde_json::Value::as_u64).collect(),
                })
            }
        };
        Ok(Some(Self {
            hidden,
            vocab,
            intermediate,
            tied: config.get_bool("tie_word_embeddings")?.unwrap_or(shape.tied),
            positions: if shape.position_table { description.max_context.unwrap_or(0) as u64 } else { 0 },
            query_rank: get(&["q_lora_rank"])?.filter(|&rank| rank > 0),
            experts,
        }))
    }

    fn sum(&self, description: &Description, shape: &Shape) -> Option<Parameters> {
        let matrices = if shape.mlp == Mlp::Gated { 3 } else { 2 };
        let mlp = |width: u64| self.hidden.checked_mul(width)?.checked_mul(matrices);
        let embedding = self.vocab.checked_add(self.positions)?.checked_mul(self.hidden)?;
        let head = if self.tied { 0 } else { self.vocab.checked_mul(self.hidden)? };
        let mut total = embedding.checked_add(head)?.checked_add(self.hidden)?;
        let mut active = total;
        for (index, layer) in (0u64..).zip(&description.layers) {
            let attention = match (layer.mixer(), layer.attention) {
                (Mixer::Attention | Mixer::Latent, Some(attention)) => self.attention(&attention, shape)?,
                _ => return None,
            };
            let norms = shape.norms.checked_mul(self.hidden)?;
            let common = attention.checked_add(norms)?;
            let (all, used) = match &self.experts {
                Some(experts) if experts.stands_in(index) => {
                    let router = experts.count.checked_mul(self.hidden)?;
                    let shared = mlp(experts.shared_intermediate)?.checked_add(router)?;
                    let one = mlp(experts.intermediate)?;
                    let sum = |count: u64| one.checked_mul(count)?.checked_add(shared);
                    (sum(experts.count)?, sum(experts.per_token.min(experts.count))?)
                }
                _ => {
                    let dense = mlp(self.intermediate)?;
                    (dense, dense)
                }
            };
            total = total.checked_add(common)?.checked_add(all)?;
            active = active.checked_add(common)?.checked_add(used)?;
        }
        Some(Parameters { total, active: self.experts.is_some().then_some(active) })
    }

    fn attention(&self, layer: &LayerAttention, shape: &Shape) -> Option<u64> {
        let hidden = self.hidden;
        let [heads, kv_heads, head_dim, v_dim] =
            [layer.query_heads, layer.kv_heads, layer.head_dim, layer.v_head_dim].map(|size| size as u64);
        let queries = heads.checked_mul(head_dim)?;
        let values = heads.checked_mul(v_dim)?;
        if let Some(latent) = layer.latent {
            let (rank, rope) = (latent.rank as u64, latent.rope_dim as u64);
            let query = match self.query_rank {
                Some(low) => hidden.checked_add(queries)?.checked_add(1)?.checked_mul(low)?,
                None => hidden.checked_mul(queries)?,
            };
            let down = hidden.checked_mul(rank.checked_add(rope)?)?.checked_add(rank)?;
            let per_head = head_dim.checked_sub(rope)?.checked_add(v_dim)?;
            let up = rank.checked_mul(heads.checked_mul(per_head)?)?;
            return query.checked_add(down)?.checked_add(up)?.checked_add(values.checked_mul(hidden)?);
        }
        let keys_values = kv_heads.checked_mul(head_dim.checked_add(v_dim)?)?;
        let widths = queries.checked_add(keys_values)?;
        let bias = if shape.qkv_bias { widths } else { 0 };
        hidden.checked_mul(widths.checked_add(values)?)?.checked_add(bias)
    }
}

impl Experts {
    fn stands_in(&self, layer: u64) -> bool {
        layer >= self.first_dense
            && (layer + 1).is_multiple_of(self.every)
            && !self.dense_layers.contains(&layer)
    }
}

/// Bits of one parameter, and what makes that approximate; an error text when it cannot be told.
pub(super) fn bits_per_parameter(config: &ModelConfig) -> Result<(u64, Option<&'static str>), String> {
    let quantization =
        config.text().get("quantization_config").or_else(|| config.top_level("quantization_config"));
    if let Some(quantization) = quantization.filter(|value| !value.is_null()) {
        let method =
            quantization.get("quant_method").and_then(serde_json::Value::as_str).unwrap_or("unknown");
        return match quantization.get("bits").and_then(serde_json::Value::as_u64) {
            Some(bits @ 1..=16) => Ok((bits, Some("quantised: scales and unquantised matrices come on top"))),
            _ if method.contains("fp8") => Ok((8, Some("fp8: scales and unquantised matrices come on top"))),
            _ => Err(format!("it is quantised with `{method}`, whose size the configuration does not tell")),
        };
    }
    let dtype = config.dtype().ok_or("the configuration declares no dtype")?;
    match dtype.strip_prefix("torch.").unwrap_or(dtype) {
        "bfloat16" | "float16" | "half" => Ok((16, None)),
        "float32" | "float" => Ok((32, None)),
        other => Err(format!("the size of dtype `{other}` is not known")),
    }
}

#[cfg(test)]
mod tests {
    use crate::inspect::known;

    /// Published parameter counts, from the index files and model cards of these checkpoints.
    #[test]
    fn counts_agree_with_published_ones() {
        for (id, published) in [
            ("meta-llama/Llama-3.1-8B", 8_030_261_248_u64),
            ("meta-llama/Llama-3.2-1B", 1_235_814_400),
            ("meta-llama/Llama-3.3-70B-Instruct", 70_553_706_496),
            ("Qwen/Qwen2.5-0.5B-Instruct", 494_032_768),
            ("Qwen/Qwen2.5-7B-Instruct", 7_615_616_512),
            ("Qwen/Qwen3-0.6B", 596_049_920),
            ("Qwen/Qwen3-8B", 8_190_735_360),
            ("Qwen/Qwen3-30B-A3B", 30_532_122_624),
            ("mistralai/Mistral-7B-v0.1", 7_241_732_096),
            ("mistralai/Mixtral-8x7B-v0.1", 46_702_792_704),
            ("microsoft/Phi-3-mini-4k-instruct", 3_821_079_552),
            ("google/gemma-2-9b", 9_241_705_984),
            ("google/gemma-3-1b-it", 999_885_952),
            ("deepseek-ai/DeepSeek-V3", 671_026_419_200),
            ("deepseek-ai/DeepSeek-V2-Lite", 15_706_484_224),
            ("openai-community/gpt2", 124_439_808),
        ] {
            let config = known::find(id).unwrap().model_config().unwrap();
            let description = config.describe().unwrap();
            let counted =
                super::count(&config, &description).unwrap().unwrap_or_else(|| panic!("{id}")).total;
            let off = counted.abs_diff(published) as f64 / published as f64;
            assert!(off < 2e-3, "{id}: {counted} instead of {published}");
        }
    }

    #[test]
    fn a_token_passes_through_few_experts() {
        let config = known::find("Qwen/Qwen3-30B-A3B").unwrap().model_config().unwrap();
        let active = super::count(&config, &config.describe().unwrap()).unwrap().unwrap().active.unwrap();
        assert!((3_300_000_000..3_400_000_000).contains(&active), "{active}");
    }

    #[test]
    fn what_is_not_in_the_table_has_no_count() {
        let config = known::find("state-spaces/mamba-130m-hf").unwrap().model_config().unwrap();
        assert_eq!(super::count(&config, &config.describe().unwrap()).unwrap(), None);
    }
}
