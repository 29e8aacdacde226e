//! What a model's configuration means, for a person who wants to run it.
//!
//! One [`Inspection`] per model named: classification and evidence from `config`, and beside them what it
//! costs, whether it drafts or can be drafted for, and what fits into memory. Files are found by
//! `source`; several models are judged together by `pair`; `format` writes it all down. Nothing here
//! reads weights or needs a network, and a model that cannot be determined has no figures at all.

mod bounded;
pub mod cached;
pub mod fits;
pub mod format;
mod keys;
pub mod known;
pub mod pair;
mod parameters;
pub mod plot;
mod source;
pub mod speculation;
pub mod units;
pub mod vocabulary;
pub mod weights;

use serde::Serialize;

use self::fits::Fits;
use self::pair::Pair;
use self::speculation::Speculation;
use self::vocabulary::Vocabulary;
use self::weights::Weights;
use crate::config::{
    Attention, Description, Evidence, Facts, KvType, LayerDescription, Mixer, ModelFamily, Role,
};
use crate::error::{Error, Result};

pub use self::source::Depth;

/// Context lengths shown beside a model's own limit, in tokens.
const USUAL_CONTEXTS: &[u64] = &[4096, 32_768, 131_072];

/// What is asked about every model.
#[derive(Debug, Clone)]
pub struct Options {
    /// Context lengths in tokens; empty for those that suit the model.
    pub contexts: Vec<u64>,
    /// How cached numbers are stored.
    pub kv_type: KvType,
    /// Sequences that are held at once.
    pub batch: u64,
    /// Memory that weights and caches must fit in, in bytes.
    pub budget_bytes: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self { contexts: Vec::new(), kv_type: KvType::Bf16, batch: 1, budget_bytes: None }
    }
}

/// Where a configuration came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Origin {
    /// A file or folder.
    File {
        /// The file that was read.
        path: String,
    },
    /// Standard input.
    Stdin,
    /// The local cache of models.
    Cache {
        /// The file that was read.
        path: String,
    },
    /// The built-in table of well-known models.
    Table {
        /// When its facts were taken down.
        date: String,
        /// Where they were read.
        source: String,
    },
    /// Nothing was found.
    Nowhere,
}

/// What was found out about one model named.
#[derive(Debug)]
pub struct Inspection {
    /// As the user named it.
    pub id: String,
    /// Commit, where it is known.
    pub revision: Option<String>,
    /// Where the configuration came from.
    pub origin: Origin,
    /// What it says, or why that cannot be told.
    pub outcome: Result<Inspected>,
}

/// A model that was understood.
#[derive(Debug)]
pub struct Inspected {
    /// Layer by layer, with evidence.
    pub description: Description,
    /// Drafting.
    pub speculation: Speculation,
    /// Size of the weights, where something tells.
    pub weights: Option<Weights>,
    /// Context lengths that figures are given for.
    pub contexts: Vec<u64>,
    /// Cache at each of them.
    pub memory: Vec<MemoryRow>,
    /// What fits, or why that cannot be told; none when it was not asked.
    pub fits: Option<Result<Fits>>,
    vocabulary: Option<Vocabulary>,
}

/// Bytes of the cache at one context length, for the batch asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct MemoryRow {
    /// Tokens of each sequence.
    pub context: u64,
    /// With windows, latents and sharing applied.
    pub needed: u64,
    /// In an engine that keeps pages for the whole length in every layer.
    pub reserved: u64,
    /// Had every query head its own K and V head.
    pub as_mha: u64,
}

/// Everything that was asked about.
#[derive(Debug)]
pub struct Inspections {
    /// One for each model named, in order.
    pub models: Vec<Inspection>,
    /// The verdict on exactly two.
    pub pair: Option<Pair>,
    /// What was asked.
    pub options: Options,
}

impl Inspections {
    /// Looks at every model named; a name that fails does not keep the others from being looked at.
    pub fn new(names: &[String], options: Options, depth: Depth) -> Self {
        let models: Vec<Inspection> =
            names.iter().map(|name| Inspection::new(name, &options, depth)).collect();
        let pair = match models.as_slice() {
            [one, other] => Pair::judge(one, other),
            _ => None,
        };
        Self { models, pair, options }
    }

    /// The models of the exercise, from the built-in table.
    pub fn exercise(options: Options) -> Self {
        let models = EXERCISE.iter().map(|id| Inspection::from_table(id, &options)).collect();
        Self { models, pair: None, options }
    }
}

/// Models of three families whose caches differ for three reasons.
const EXERCISE: [&str; 3] = ["meta-llama/Llama-3.1-8B", "Qwen/Qwen3-8B", "deepseek-ai/DeepSeek-V3"];

impl Inspected {
    /// The figures that machine formats carry.
    ///
    /// # Errors
    /// `UnsupportedConfig` when a figure does not fit in 64 bits.
    pub fn facts(&self) -> Result<Facts> {
        self.description.facts(&self.contexts)
    }

    /// Whether there is anything that grows with the context.
    pub fn has_cache(&self) -> bool {
        self.description.role != Role::Encoder && self.description.attentions().next().is_some()
    }

    /// Approximate bytes of constant state per sequence; 0 without recurrent layers, none when a
    /// recurrent layer does not say its size. States are not quantised: 4 bytes for f32, else 2.
    pub fn state_bytes(&self, kv_type: KvType) -> Option<u64> {
        let width = if kv_type == KvType::F32 { 4 } else { 2 };
        self.description.state_elements()?.checked_mul(width)
    }

    /// What kind of design this is, in plain words.
    pub fn design(&self) -> String {
        let description = &self.description;
        let mixers = |wanted: fn(&Mixer) -> bool| {
            description.layers.iter().map(LayerDescription::mixer).filter(wanted).count()
        };
        let softmax = mixers(|mixer| !matches!(mixer, Mixer::Recurrent(_) | Mixer::None));
        let names = recurrent_names(description);
        match description.family() {
            ModelFamily::Transformer
                if description.attention() == Attention::Mha && softmax == description.layers.len() =>
            {
                "softmax attention, one K/V head per query head (the Transformer's own form)".to_owned()
            }
            ModelFamily::Transformer => {
                "softmax attention (a refinement inside the Transformer family)".to_owned()
            }
            ModelFamily::Hybrid => {
                let recurrent = mixers(|mixer| matches!(mixer, Mixer::Recurrent(_) | Mixer::Both(_)));
                format!(
                    "hybrid: softmax attention in {softmax} of {} layers, recurrent ({names}) in {recurrent}",
                    description.layers.len()
                )
            }
            ModelFamily::Ssm => format!("no attention: recurrent ({names}, a state-space model)"),
            ModelFamily::LinearRnn => format!("no attention: recurrent ({names})"),
            ModelFamily::None => "no attention: draft heads only, nothing mixes tokens".to_owned(),
        }
    }

    /// Evidence that belongs to the short account.
    pub fn deciding_evidence(&self) -> impl Iterator<Item = &Evidence> {
        self.description.evidence.iter().filter(|evidence| keys::decides(evidence))
    }

    /// Keys that no rule read and that may matter.
    pub fn not_understood(&self) -> impl Iterator<Item = &str> {
        self.description.unread.iter().map(String::as_str).filter(|key| !keys::is_irrelevant(key))
    }

    /// Keys that no rule read since they bear on neither attention nor cache.
    pub fn not_relevant(&self) -> impl Iterator<Item = &str> {
        self.description.unread.iter().map(String::as_str).filter(|key| keys::is_irrelevant(key))
    }

    /// Cache figures at `context` tokens, for `batch` sequences.
    ///
    /// # Errors
    /// `UnsupportedConfig` when a figure does not fit in 64 bits.
    pub fn memory_at(&self, context: u64, options: &Options) -> Result<MemoryRow> {
        let description = &self.description;
        let times = |bytes: u64| {
            bytes.checked_mul(options.batch).ok_or_else(|| Error::UnsupportedConfig {
                path: description.model_type.clone().into(),
                problem: format!("the cache of {} sequences overflows 64 bits", options.batch),
            })
        };
        Ok(MemoryRow {
            context,
            needed: times(description.kv_bytes_needed(context, options.kv_type)?)?,
            reserved: times(description.kv_bytes_reserved(context, options.kv_type)?)?,
            as_mha: times(description.kv_bytes_as_mha(context, options.kv_type)?)?,
        })
    }
}

/// The recurrent mixers of a model, each once.
fn recurrent_names(description: &Description) -> String {
    let mut names: Vec<&str> = Vec::new();
    for kind in description.layers.iter().filter_map(|layer| layer.recurrent).map(|layer| layer.kind.name()) {
        if !names.contains(&kind) {
            names.push(kind);
        }
    }
    names.join(", ")
}

/// Context lengths that suit a model: usual ones below its limit, and the limit.
fn suitable_contexts(limit: Option<usize>) -> Vec<u64> {
    match limit.map(|limit| limit as u64).filter(|&limit| limit > 0) {
        None => USUAL_CONTEXTS.to_vec(),
        Some(limit) => {
            let below = USUAL_CONTEXTS.iter().copied().filter(|&context| context < limit);
            below.chain([limit]).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_end_at_the_models_limit() {
        assert_eq!(suitable_contexts(Some(40_960)), [4096, 32_768, 40_960]);
        assert_eq!(suitable_contexts(Some(2048)), [2048]);
        assert_eq!(suitable_contexts(None), USUAL_CONTEXTS);
    }
}
