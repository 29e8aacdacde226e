//! From an opened checkpoint to a network.

use candle_core::quantized::GgmlDType;
use candle_core::{DType, Device};

use super::arch::{
    self,
    names::{Naming, Role},
};
use super::decoder::{Biases, Decoder};
use super::layers::Ops;
use super::layers::rope::{RopeScaling, RopeSpec};
use crate::checkpoint::{Checkpoint, WeightFiles, Weights};
use crate::config::Description;
use crate::error::{Error, Result};

/// Choices made when weights become a network.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// Where the network runs.
    pub device: Device,
    /// Type of dense weights, activations and cache.
    pub dtype: DType,
    /// Quantise dense products to this on the way in.
    pub quantize: Option<GgmlDType>,
    /// Which implementation of operations to run.
    pub ops: Ops,
}

/// A network and what its configuration says about it.
pub struct Loaded {
    /// The network.
    pub model: Decoder,
    /// Its attention, layer by layer.
    pub description: Description,
    /// The longest sequence its positions are made for, in tokens; none when it does not say.
    pub max_context: Option<usize>,
}

/// Builds the network of a checkpoint.
///
/// # Errors
/// `UnsupportedArchitecture`, `UnsupportedConfig`, `UnsupportedTensor`, `TensorMismatch`, or a file error.
pub fn load(checkpoint: &Checkpoint, options: &LoadOptions) -> Result<Loaded> {
    let config = &checkpoint.config;
    let architecture = arch::find(config)?;
    refuse_quantization_scheme(checkpoint)?;
    let description = config.describe()?;
    let mut spec = (architecture.declare)(config, &description)?;
    let weights =
        Weights::new(&checkpoint.files, &checkpoint.path, &options.device, options.dtype, options.quantize);
    let naming = match &checkpoint.files {
        WeightFiles::Gguf(_) => {
            // GGUF has no tie flag, need not name the size of its vocabulary, and may carry rotary
            // divisors as a tensor.
            spec.tied = weights.shape("output.weight").is_none();
            if let Some([rows, _]) = weights.shape("token_embd.weight") {
                spec.vocab_size = *rows;
            }
            if let Some(divisors) = weights.host_values("rope_freqs.weight")? {
                for rope in &mut spec.ropes {
                    if divisors.len() != rope.dim / 2 || divisors.iter().any(|divisor| *divisor <= 0.0) {
                        let problem =
                            format!("`rope_freqs.weight` is not {} positive divisors", rope.dim / 2);
                        return Err(Error::Malformed { path: checkpoint.path.clone(), problem });
                    }
                    rope.scaling = RopeScaling::Divisors(divisors.clone());
                }
            }
            let naming = Naming::gguf(architecture.names);
            // Nor has it flags for biases.
            for (index, layer) in spec.layers.iter_mut().enumerate() {
                let has = |role| weights.shape(&format!("{}.bias", naming.name(role, index))).is_some();
                layer.biases =
                    Biases { qkv: has(Role::Query), output: has(Role::Output), mlp: has(Role::Gate) };
            }
            naming
        }
        WeightFiles::Safetensors(_) | WeightFiles::Pickle(_) => {
            Naming::hugging_face(architecture.names, |name| weights.shape(name).is_some())
        }
    };
    let model = Decoder::new(&spec, &weights, &naming, options.ops)?;
    weights.finish(&naming.layers())?;
    let max_context = config.max_context()?.map(|context| stretched(context, &spec.ropes));
    Ok(Loaded { model, description, max_context })
}

/// The context after a scaling whose configuration states the length before it.
fn stretched(context: usize, ropes: &[RopeSpec]) -> usize {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a context times a small factor"
    )]
    let times = |len: usize, factor: f64| (len as f64 * factor.max(1.0)) as usize;
    let reach = ropes.iter().map(|rope| match rope.scaling {
        RopeScaling::Dynamic { factor, trained_len } | RopeScaling::Yarn { factor, trained_len, .. } => {
            times(trained_len, factor)
        }
        _ => context,
    });
    reach.fold(context, usize::max)
}

/// Schemes such as GPTQ or FP8 change what the stored numbers mean; running past one would be wrong.
fn refuse_quantization_scheme(checkpoint: &Checkpoint) -> Result<()> {
    let Some(scheme) = checkpoint.config.top_level("quantization_config") else { return Ok(()) };
    if scheme.is_null() {
        return Ok(());
    }
    let method = scheme.get("quant_method").and_then(serde_json::Value::as_str).unwrap_or("unnamed");
    let problem =
        format!("weights are quantised with `{method}` (quantization_config), which is not supported");
    Err(Error::UnsupportedConfig { path: checkpoint.config.path().to_owned(), problem })
}
