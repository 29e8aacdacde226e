//! What most families share: a pre-norm decoder read from the usual keys, and rotary settings.

use serde_json::{Map, Value};

use crate::config::{Description, Mask, ModelConfig};
use crate::error::{Error, Result};
use crate::model::decoder::{Biases, DecoderSpec, LayerSpec, NormPlacement};
use crate::model::layers::attention::AttentionShape;
use crate::model::layers::mlp::{ACTIVATIONS, Activation};
use crate::model::layers::rope::{RopeId, RopeLayout, RopeScaling, RopeSpec};

/// A pre-norm decoder without biases, with one rotation: what a family starts from.
pub(super) fn pre_norm(config: &ModelConfig, description: &Description) -> Result<DecoderSpec> {
    for key in ["num_experts", "num_local_experts", "n_routed_experts"] {
        if let Some(count) = config.get_usize(key)?.filter(|count| *count > 0) {
            return Err(unsupported(
                config,
                format!("`{key}` {count}: mixtures of experts are not supported"),
            ));
        }
    }
    let hidden_size = config.require_usize("hidden_size")?;
    let intermediate_size = config.require_usize("intermediate_size")?;
    // GGUF files need not say; the table of embeddings does.
    let vocab_size = match config.get_usize("vocab_size")? {
        None if config.is_gguf() => 0,
        None => config.require_usize("vocab_size")?,
        Some(size) => size,
    };
    let activation = activation(config, "hidden_act", "silu")?;
    let mut layers = Vec::with_capacity(description.layers.len());
    for (index, layer) in description.layers.iter().enumerate() {
        let attention = layer.attention.as_ref().filter(|attention| {
            let is_alone = layer.recurrent.is_none() && !layer.cross;
            is_alone && attention.latent.is_none() && attention.owns_kv() && !attention.one_tensor
        });
        let attention = attention
            .ok_or_else(|| unsupported(config, format!("layer {index} is not plain softmax attention")))?;
        let window = match attention.mask {
            Mask::Full => None,
            Mask::Sliding { window } => Some(window),
            other => {
                return Err(unsupported(config, format!("layer {index} has {} attention", other.kind())));
            }
        };
        let shape = AttentionShape {
            query_heads: attention.query_heads,
            kv_heads: attention.kv_heads,
            head_dim: attention.head_dim,
            value_head_dim: attention.v_head_dim,
        };
        layers.push(LayerSpec {
            attention: shape,
            window,
            rope: Some(RopeId(0)),
            scale: (shape.head_dim as f64).sqrt().recip(),
            softcap: None,
            biases: Biases::default(),
            head_norms: false,
            norms: NormPlacement::Before,
            intermediate_size,
            activation,
        });
    }
    let head_dim = layers.first().map_or(0, |layer| layer.attention.head_dim);
    Ok(DecoderSpec {
        hidden_size,
        vocab_size,
        layers,
        ropes: vec![rope(config, head_dim, RopeSource::ONLY)?],
        norm_eps: positive(config, "rms_norm_eps", 1e-6)?,
        norm_offset: 0.0,
        embedding_scale: None,
        logit_softcap: None,
        tied: config.get_bool("tie_word_embeddings")?.unwrap_or(false),
    })
}

/// Reads a number above 0 from `key`.
pub(super) fn positive(config: &ModelConfig, key: &str, default: f64) -> Result<f64> {
    let number = config.get_f64(key)?.unwrap_or(default);
    if number > 0.0 {
        Ok(number)
    } else {
        Err(unsupported(config, format!("`{key}` is {number}, not above 0")))
    }
}

/// Reads an activation's name from `key`.
pub(super) fn activation(config: &ModelConfig, key: &str, default: &str) -> Result<Activation> {
    let name = config.get_str(key)?.unwrap_or(default);
    let known = ACTIVATIONS.iter().find(|(known, _)| *known == name);
    known.map(|(_, activation)| *activation).ok_or_else(|| {
        let names: Vec<&str> = ACTIVATIONS.iter().map(|(known, _)| *known).collect();
        unsupported(config, format!("`{key}` {name} is not supported; known: {}", names.join(", ")))
    })
}

/// Rotates neighbouring elements, for files whose query and key rows were reordered for that.
pub(super) fn interleave(spec: &mut DecoderSpec) {
    for rope in &mut spec.ropes {
        rope.layout = RopeLayout::Interleaved;
    }
}

/// Where a rotation's settings are in a configuration.
#[derive(Debug, Clone, Copy)]
pub(super) struct RopeSource {
    /// Key of `rope_parameters` where that has one entry per kind of layer.
    pub layer_type: &'static str,
    /// Key of the base where there is no `rope_parameters`.
    pub theta_key: &'static str,
    /// The family's base when nothing is said.
    pub default_theta: f64,
}

impl RopeSource {
    /// A model with one rotation.
    pub(super) const ONLY: Self =
        Self { layer_type: "full_attention", theta_key: "rope_theta", default_theta: 10_000.0 };
}

/// Reads one rotation over heads of `head_dim`.
///
/// transformers 5 writes `rope_parameters`, flat or per kind of layer; before that there were
/// `rope_theta` and `rope_scaling`, which apply to the full layers only.
pub(super) fn rope(config: &ModelConfig, head_dim: usize, source: RopeSource) -> Result<RopeSpec> {
    let (section, theta) = match config.get_object("rope_parameters")? {
        Some(parameters) => {
            let nested = parameters.values().any(Value::is_object);
            let section = if nested {
                parameters.get(source.layer_type).and_then(Value::as_object)
            } else {
                Some(parameters)
            };
            (section, section.and_then(|section| section.get("rope_theta")).and_then(Value::as_f64))
        }
        None if source.theta_key == "rope_theta" => (config.get_object("rope_scaling")?, None),
        None => (None, None),
    };
    let theta = match theta {
        Some(theta) => theta,
        None => config.get_f64(source.theta_key)?.unwrap_or(source.default_theta),
    };
    if !(theta.is_finite() && theta > 0.0) {
        return Err(unsupported(config, format!("`{}` {theta} is not a positive number", source.theta_key)));
    }
    let dim = match config.get_usize("rotary_dim")?.filter(|_| config.is_gguf()) {
        Some(dim) if dim <= head_dim => dim,
        Some(dim) => {
            return Err(unsupported(config, format!("{dim} of {head_dim} elements of a head are rotated")));
        }
        None => {
            let fraction = config.get_f64("partial_rotary_factor")?.unwrap_or(1.0);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a head")]
            {
                (head_dim as f64 * fraction.clamp(0.0, 1.0)) as usize
            }
        }
    };
    if dim % 2 == 1 || dim == 0 {
        return Err(unsupported(
            config,
            format!("{dim} elements of a head are rotated; a positive even number can be"),
        ));
    }
    let scaling = match section {
        Some(section) => scaling(&Section { config, values: section }, dim)?,
        None => RopeScaling::None,
    };
    Ok(RopeSpec { dim, theta, layout: RopeLayout::HalfSplit, scaling })
}

/// A rotary section with the configuration it came from, for messages.
struct Section<'c> {
    config: &'c ModelConfig,
    values: &'c Map<String, Value>,
}

impl Section<'_> {
    fn number(&self, key: &str) -> Result<Option<f64>> {
        match self.values.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => {
                let number = value.as_f64().filter(|number| number.is_finite());
                number.map(Some).ok_or_else(|| self.error(format!("rope `{key}` {value} is not a number")))
            }
        }
    }

    fn positive(&self, key: &str) -> Result<Option<f64>> {
        match self.number(key)? {
            Some(number) if number <= 0.0 => {
                Err(self.error(format!("rope `{key}` is {number}, not above 0")))
            }
            number => Ok(number),
        }
    }

    fn require(&self, key: &str) -> Result<f64> {
        self.positive(key)?.ok_or_else(|| self.error(format!("the rope scaling lacks `{key}`")))
    }

    fn list(&self, key: &str, len: usize) -> Result<Vec<f64>> {
        let values = self.values.get(key).and_then(Value::as_array);
        let numbers: Option<Vec<f64>> = values.and_then(|values| values.iter().map(Value::as_f64).collect());
        match numbers {
            Some(numbers) if numbers.iter().any(|number| *number <= 0.0) => {
                Err(self.error(format!("rope `{key}` holds a number that is not above 0")))
            }
            Some(numbers) if numbers.len() == len => Ok(numbers),
            Some(numbers) => {
                Err(self.error(format!("rope `{key}` has {} entries, expected {len}", numbers.len())))
            }
            None => Err(self.error(format!("rope `{key}` is not a list of numbers"))),
        }
    }

    /// The trained context: the section's own, the configuration's, or the whole context.
    fn trained_len(&self) -> Result<usize> {
        const KEY: &str = "original_max_position_embeddings";
        if let Some(len) = self.number(KEY)? {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "checked to be a length"
            )]
            return if len >= 1.0 {
                Ok(len as usize)
            } else {
                Err(self.error(format!("rope `{KEY}` is {len}")))
            };
        }
        match self.config.get_usize(KEY)? {
            Some(len) if len >= 2 => Ok(len),
            Some(len) => Err(self.error(format!("`{KEY}` is {len}"))),
            None => self.context(),
        }
    }

    fn trained_len_beside(&self, beside: Option<usize>) -> Result<usize> {
        match beside {
            Some(len) if len >= 2 => Ok(len),
            Some(len) => Err(self.error(format!("`original_max_position_embeddings` is {len}"))),
            None => self.trained_len(),
        }
    }

    fn context(&self) -> Result<usize> {
        let context = self.config.max_context()?;
        context.ok_or_else(|| self.error("the rope scaling needs `max_position_embeddings`".to_owned()))
    }

    fn error(&self, problem: String) -> Error {
        unsupported(self.config, problem)
    }
}

fn scaling(section: &Section<'_>, dim: usize) -> Result<RopeScaling> {
    let kind = ["rope_type", "type"].iter().find_map(|key| section.values.get(*key)).and_then(Value::as_str);
    Ok(match kind.unwrap_or("default") {
        "default" | "mrope" | "none" => RopeScaling::None,
        "linear" => RopeScaling::Linear { factor: section.require("factor")? },
        "dynamic" => {
            RopeScaling::Dynamic { factor: section.require("factor")?, trained_len: section.context()? }
        }
        "llama3" => llama3(section)?,
        "yarn" => yarn(section)?,
        "longrope" | "su" => long_rope(section, dim)?,
        other => {
            let problem = format!(
                "rope type `{other}` is not supported; known: default, linear, dynamic, llama3, yarn, longrope"
            );
            return Err(section.error(problem));
        }
    })
}

fn llama3(section: &Section<'_>) -> Result<RopeScaling> {
    let (low, high) = (section.require("low_freq_factor")?, section.require("high_freq_factor")?);
    if low >= high {
        return Err(
            section.error(format!("rope `low_freq_factor` {low} is not below `high_freq_factor` {high}"))
        );
    }
    Ok(RopeScaling::Llama3 {
        factor: section.require("factor")?,
        low_freq_factor: low,
        high_freq_factor: high,
        trained_len: section.trained_len()?,
    })
}

/// YaRN; the default attention factor is the paper's `0.1 ln(factor) + 1`, or the ratio of two such
/// terms where `mscale` and `mscale_all_dim` are given (DeepSeek).
fn yarn(section: &Section<'_>) -> Result<RopeScaling> {
    let factor = section.require("factor")?;
    let trained_len = section.trained_len()?;
    let term = |factor: f64, mscale: f64| if factor <= 1.0 { 1.0 } else { 0.1 * mscale * factor.ln() + 1.0 };
    let attention_factor = match section.positive("attention_factor")? {
        // In GGUF it comes on top of the paper's term.
        Some(given) if section.config.is_gguf() => given * term(factor, 1.0),
        Some(given) => given,
        None => match (section.number("mscale")?, section.number("mscale_all_dim")?) {
            (Some(mscale), Some(all)) if mscale != 0.0 && all != 0.0 => {
                term(factor, mscale) / term(factor, all)
            }
            _ => term(factor, 1.0),
        },
    };
    Ok(RopeScaling::Yarn {
        factor,
        beta_fast: section.positive("beta_fast")?.unwrap_or(32.0),
        beta_slow: section.positive("beta_slow")?.unwrap_or(1.0),
        trained_len,
        attention_factor,
        truncate: section.values.get("truncate").and_then(Value::as_bool).unwrap_or(true),
    })
}

/// LongRoPE; the default attention factor is the paper's `sqrt(1 + ln(factor) / ln(trained length))`.
fn long_rope(section: &Section<'_>, dim: usize) -> Result<RopeScaling> {
    // A trained length beside `max_position_embeddings` (Phi-3) gives the factor as their ratio.
    let beside = section.config.get_usize("original_max_position_embeddings")?;
    let trained_len = section.trained_len_beside(beside)?;
    let factor = match (beside, section.positive("factor")?) {
        (None, Some(factor)) => factor,
        _ => section.context()? as f64 / trained_len as f64,
    };
    let attention_factor = match section.positive("attention_factor")? {
        Some(given) => given,
        None if factor <= 1.0 => 1.0,
        None => (1.0 + factor.ln() / (trained_len as f64).ln()).sqrt(),
    };
    Ok(RopeScaling::LongRope {
        short: section.list("short_factor", dim / 2)?,
        long: section.list("long_factor", dim / 2)?,
        trained_len,
        attention_factor,
    })
}

fn unsupported(config: &ModelConfig, problem: String) -> Error {
    Error::UnsupportedConfig { path: config.path().to_owned(), problem }
}
