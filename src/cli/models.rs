//! Models with what reports say about them.

use std::path::Path;

use anyhow::Result;
use candle_core::Device;

use super::usage;
use crate::checkpoint::{Checkpoint, WeightFiles, quant_formats};
use crate::device::{self, DTYPES};
use crate::model::layers::Ops;
use crate::model::{CausalLm, LoadOptions, Loaded, load};
use crate::report::ModelReport;
use crate::speculation::pairing;
use crate::tokenizer::Tokenizer;

/// A loaded model with what reports say about it.
pub(super) struct Model {
    pub(super) loaded: Loaded,
    pub(super) report: ModelReport,
    tokenizer_vocab: Option<usize>,
}

impl Model {
    /// Loads a checkpoint; `flags` is what the names of its flags begin with.
    pub(super) fn load(
        checkpoint: &Checkpoint,
        flags: &str,
        dtype: Option<&str>,
        quant: Option<&str>,
    ) -> Result<Self> {
        if matches!(checkpoint.files, WeightFiles::Gguf(_)) {
            for (flag, given) in [("dtype", dtype), ("quant", quant)] {
                if given.is_some() {
                    let problem =
                        "cannot be used with a GGUF file, which says how its weights are stored".to_owned();
                    return Err(usage(&format!("--{flags}{flag}"), problem));
                }
            }
        }
        let device = Device::Cpu;
        let choice = DTYPES
            .iter()
            .find(|(name, _)| Some(*name) == dtype)
            .map_or_else(Default::default, |found| found.1);
        let quantize = quant_formats().find(|(name, _)| Some(name.as_str()) == quant).map(|found| found.1);
        let options =
            LoadOptions { dtype: choice.resolve(&device), device: device.clone(), quantize, ops: Ops::Fused };
        let loaded = load(checkpoint, &options)?;
        let report = ModelReport {
            class: loaded.description.headline(),
            path: checkpoint.path.display().to_string(),
            revision: None,
            format: format_line(&checkpoint.files, loaded.model.formats()),
            device: device::name(&device).to_owned(),
        };
        let tokenizer_vocab = checkpoint.tokenizer.as_ref().map(Tokenizer::vocab_size);
        Ok(Self { loaded, report, tokenizer_vocab })
    }

    pub(super) fn vocabulary(&self) -> pairing::Vocabulary<'_> {
        pairing::Vocabulary {
            name: Path::new(&self.report.path),
            rows: self.loaded.model.vocab_size(),
            tokens: self.tokenizer_vocab,
        }
    }

    pub(super) fn line(&self) -> String {
        let ModelReport { class, path, format, device, .. } = &self.report;
        format!("{path}: {class}; {format}; {device}")
    }
}

/// Container and storage types, with shares where there are several: `GGUF Q4_K 83 %, Q6_K 17 %`.
#[expect(clippy::cast_precision_loss, reason = "a share shown in whole percents")]
fn format_line(files: &WeightFiles, formats: &[(String, usize)]) -> String {
    let total: usize = formats.iter().map(|(_, count)| count).sum();
    let shares: Vec<String> = match formats {
        [(only, _)] => vec![only.clone()],
        several => several
            .iter()
            .map(|(format, count)| format!("{format} {:.0} %", *count as f64 / total as f64 * 100.0))
            .collect(),
    };
    format!("{} {}", files.container(), shares.join(", "))
}
