//! The network that is trained: a Llama decoder under Hugging Face's names for weights and
//! settings, so that what is saved is an ordinary checkpoint. No cache: whole sequences only.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use candle_core::{DType, Device, Tensor, Var};
use serde::{Deserialize, Serialize};

use crate::fused::{CausalSoftmax, GatedSilu, RmsNorm};
use crate::random::Random;

/// The keys of `config.json`, in the order they are written.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Config {
    pub architectures: Vec<String>,
    pub attention_bias: bool,
    pub bos_token_id: u32,
    pub eos_token_id: u32,
    pub head_dim: usize,
    pub hidden_act: String,
    pub hidden_size: usize,
    pub initializer_range: f64,
    pub intermediate_size: usize,
    pub max_position_embeddings: usize,
    pub mlp_bias: bool,
    pub model_type: String,
    pub num_attention_heads: usize,
    pub num_hidden_layers: usize,
    pub num_key_value_heads: usize,
    pub rms_norm_eps: f32,
    pub rope_theta: f64,
    pub tie_word_embeddings: bool,
    pub torch_dtype: String,
    pub vocab_size: usize,
}

impl Config {
    fn base(vocab_size: usize) -> Self {
        Self {
            architectures: vec!["LlamaForCausalLM".into()],
            attention_bias: false,
            bos_token_id: crate::tokenizer::BOS_ID,
            eos_token_id: crate::tokenizer::EOS_ID,
            head_dim: 32,
            hidden_act: "silu".into(),
            hidden_size: 256,
            initializer_range: 0.02,
            intermediate_size: 640,
            max_position_embeddings: 1024,
            mlp_bias: false,
            model_type: "llama".into(),
            num_attention_heads: 8,
            num_hidden_layers: 5,
            num_key_value_heads: 2,
            rms_norm_eps: 1e-5,
            rope_theta: 10_000.0,
            tie_word_embeddings: true,
            torch_dtype: "bfloat16".into(),
            vocab_size,
        }
    }

    /// The model whose output counts: grouped queries, 3.7 million parameters.
    pub fn target(vocab_size: usize) -> Self {
        Self::base(vocab_size)
    }

    /// The model that guesses: one key head, less than a tenth of the target's parameters.
    pub fn drafter(vocab_size: usize) -> Self {
        Self {
            hidden_size: 96,
            intermediate_size: 256,
            num_attention_heads: 3,
            num_hidden_layers: 2,
            num_key_value_heads: 1,
            ..Self::base(vocab_size)
        }
    }

    /// Every weight's name and shape, in a fixed order.
    fn weights(&self) -> Vec<(String, Vec<usize>)> {
        let hidden = self.hidden_size;
        let query = self.num_attention_heads * self.head_dim;
        let key = self.num_key_value_heads * self.head_dim;
        let mut weights = vec![("model.embed_tokens.weight".to_owned(), vec![self.vocab_size, hidden])];
        for layer in 0..self.num_hidden_layers {
            for (name, shape) in [
                ("input_layernorm", vec![hidden]),
                ("self_attn.q_proj", vec![query, hidden]),
                ("self_attn.k_proj", vec![key, hidden]),
                ("self_attn.v_proj", vec![key, hidden]),
                ("self_attn.o_proj", vec![hidden, query]),
                ("post_attention_layernorm", vec![hidden]),
                ("mlp.gate_proj", vec![self.intermediate_size, hidden]),
                ("mlp.up_proj", vec![self.intermediate_size, hidden]),
                ("mlp.down_proj", vec![hidden, self.intermediate_size]),
            ] {
                weights.push((format!("model.layers.{layer}.{name}.weight"), shape));
            }
        }
        weights.push(("model.norm.weight".to_owned(), vec![hidden]));
        weights
    }
}

/// The weights, in f32, and the rotation tables.
pub struct Llama {
    pub config: Config,
    weights: BTreeMap<String, Var>,
    /// `[max_position_embeddings, head_dim / 2]` each.
    cosines: Tensor,
    sines: Tensor,
}

impl Llama {
    /// Random weights; the two projections that write to the residual stream start smaller.
    pub fn new(config: Config, seed: u64) -> Result<Self> {
        let mut random = Random::new(seed, 1);
        let residual = 1.0 / (2.0 * config.num_hidden_layers as f64).sqrt();
        let mut weights = BTreeMap::new();
        for (name, shape) in config.weights() {
            let len: usize = shape.iter().product();
            let values: Vec<f32> = if shape.len() == 1 {
                vec![1.0; len]
            } else {
                let fan_in = shape[1] as f64;
                let mut deviation = 0.8 / fan_in.sqrt();
                if name.contains("embed_tokens") {
                    deviation = config.initializer_range;
                } else if name.contains("o_proj") || name.contains("down_proj") {
                    deviation *= residual;
                }
                (0..len).map(|_| (random.normal() * deviation) as f32).collect()
            };
            weights.insert(name, Var::from_tensor(&Tensor::from_vec(values, shape, &Device::Cpu)?)?);
        }
        Self::assemble(config, weights)
    }

    /// Reads `config.json` and `model.safetensors` from `folder`.
    pub fn load(folder: &Path) -> Result<Self> {
        let path = folder.join("config.json");
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let config: Config = serde_json::from_str(&text)?;
        let path = folder.join("model.safetensors");
        let stored = candle_core::safetensors::load(&path, &Device::Cpu)
            .with_context(|| format!("reading {}", path.display()))?;
        let mut weights = BTreeMap::new();
        for (name, shape) in config.weights() {
            let tensor = stored.get(&name).with_context(|| format!("{name} is missing"))?;
            ensure!(tensor.dims() == shape, "{name} has an unexpected shape");
            weights.insert(name, Var::from_tensor(&tensor.to_dtype(DType::F32)?)?);
        }
        Self::assemble(config, weights)
    }

    fn assemble(config: Config, weights: BTreeMap<String, Var>) -> Result<Self> {
        let half = config.head_dim / 2;
        let positions = config.max_position_embeddings;
        let angles: Vec<f64> = (0..positions * half)
            .map(|index| {
                let (position, pair) = (index / half, index % half);
                let exponent = 2.0 * pair as f64 / config.head_dim as f64;
                position as f64 / config.rope_theta.powf(exponent)
            })
            .collect();
        let table = |function: fn(f64) -> f64| {
            let values: Vec<f32> = angles.iter().map(|angle| function(*angle) as f32).collect();
            Tensor::from_vec(values, (positions, half), &Device::Cpu)
        };
        let (cosines, sines) = (table(f64::cos)?, table(f64::sin)?);
        Ok(Self { config, weights, cosines, sines })
    }

    /// Writes `config.json`, `generation_config.json` and `model.safetensors` (BF16).
    ///
    /// The weights go to a temporary name first, so an interrupted run leaves a usable file.
    pub fn save(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder)?;
        let config = serde_json::to_string_pretty(&self.config)?;
        std::fs::write(folder.join("config.json"), config + "\n")?;
        let generation = serde_json::json!({
            "bos_token_id": self.config.bos_token_id,
            "eos_token_id": self.config.eos_token_id,
            "do_sample": true,
            "temperature": 0.8,
        });
        let generation = serde_json::to_string_pretty(&generation)?;
        std::fs::write(folder.join("generation_config.json"), generation + "\n")?;
        let mut tensors = HashMap::new();
        for (name, weight) in &self.weights {
            tensors.insert(name.clone(), weight.to_dtype(DType::BF16)?);
        }
        let partial = folder.join("model.safetensors.partial");
        candle_core::safetensors::save(&tensors, &partial)?;
        std::fs::rename(&partial, folder.join("model.safetensors"))?;
        Ok(())
    }

    /// The trainable weights by name; matrices have two dimensions, norms one.
    pub fn weights(&self) -> impl Iterator<Item = (&str, &Var)> {
        self.weights.iter().map(|(name, var)| (name.as_str(), var))
    }

    /// Number of scalars in all weights.
    pub fn num_parameters(&self) -> usize {
        self.weights.values().map(|var| var.elem_count()).sum()
    }

    fn weight(&self, name: &str) -> Result<&Tensor> {
        let var = self.weights.get(name).with_context(|| name.to_owned())?;
        Ok(var.as_tensor())
    }

    fn linear(&self, input: &Tensor, name: &str) -> Result<Tensor> {
        Ok(input.matmul(&self.weight(name)?.t()?)?)
    }

    fn norm(&self, input: &Tensor, name: &str) -> Result<Tensor> {
        let epsilon = self.config.rms_norm_eps;
        Ok(input.apply_op2(self.weight(name)?, RmsNorm { epsilon })?)
    }

    /// Logits `[batch * len, vocab]` for token ids `[batch, len]`; each row starts at position 0.
    pub fn forward(&self, ids: &Tensor) -> Result<Tensor> {
        let (batch, len) = ids.dims2()?;
        let embeddings = self.weight("model.embed_tokens.weight")?;
        let mut hidden = embeddings.index_select(&ids.flatten_all()?, 0)?;
        for layer in 0..self.config.num_hidden_layers {
            let name = |part: &str| format!("model.layers.{layer}.{part}.weight");
            let input = self.norm(&hidden, &name("input_layernorm"))?;
            let query = self.linear(&input, &name("self_attn.q_proj"))?;
            let key = self.linear(&input, &name("self_attn.k_proj"))?;
            let value = self.linear(&input, &name("self_attn.v_proj"))?;
            let mixed = self.attention(&query, &key, &value, (batch, len))?;
            hidden = (hidden + self.linear(&mixed, &name("self_attn.o_proj"))?)?;
            let input = self.norm(&hidden, &name("post_attention_layernorm"))?;
            let gate = self.linear(&input, &name("mlp.gate_proj"))?;
            let up = self.linear(&input, &name("mlp.up_proj"))?;
            let inner = gate.apply_op2(&up, GatedSilu)?;
            hidden = (hidden + self.linear(&inner, &name("mlp.down_proj"))?)?;
        }
        let hidden = self.norm(&hidden, "model.norm.weight")?;
        Ok(hidden.matmul(&embeddings.t()?)?)
    }

    /// Rows `[batch * len, heads * head_dim]` in and out.
    fn attention(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        (batch, len): (usize, usize),
    ) -> Result<Tensor> {
        let head_dim = self.config.head_dim;
        let key_heads = self.config.num_key_value_heads;
        let query_heads = self.config.num_attention_heads;
        let heads = |rows: &Tensor, count: usize| -> Result<Tensor> {
            let rows = rows.reshape((batch, len, count, head_dim))?;
            Ok(rows.transpose(1, 2)?.contiguous()?)
        };
        // The query heads of one key head lie side by side, so they fold into its rows.
        let folded = (batch * key_heads, query_heads / key_heads * len, head_dim);
        let query = self.rotate(&heads(query, query_heads)?)?.reshape(folded)?;
        let shape = (batch * key_heads, len, head_dim);
        let key = self.rotate(&heads(key, key_heads)?)?.reshape(shape)?;
        let value = heads(value, key_heads)?.reshape(shape)?;
        let scale = 1.0 / (head_dim as f32).sqrt();
        let weights = query.matmul(&key.t()?)?.apply_op1(CausalSoftmax { scale })?;
        let mixed = weights.matmul(&value)?.reshape((batch, query_heads, len, head_dim))?.transpose(1, 2)?;
        Ok(mixed.reshape((batch * len, query_heads * head_dim))?)
    }

    /// Rotates `[batch, heads, len, head_dim]`; dimension `i` is paired with `i + head_dim / 2`.
    fn rotate(&self, input: &Tensor) -> Result<Tensor> {
        let (_, _, len, head_dim) = input.dims4()?;
        let half = head_dim / 2;
        let cosines = self.cosines.narrow(0, 0, len)?;
        let sines = self.sines.narrow(0, 0, len)?;
        let first = input.narrow(3, 0, half)?;
        let second = input.narrow(3, half, half)?;
        let rotated_first = (first.broadcast_mul(&cosines)? - second.broadcast_mul(&sines)?)?;
        let rotated_second = (second.broadcast_mul(&cosines)? + first.broadcast_mul(&sines)?)?;
        Ok(Tensor::cat(&[rotated_first, rotated_second], 3)?)
    }
}
