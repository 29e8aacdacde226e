//! What a configuration says about speculative decoding: is it a drafter, and for whom; does it draft
//! for itself; can its cache be taken back.
//!
//! Facts only. Whether two models fit together is `pair`'s judgement.

use serde::Serialize;
use serde_json::Value;

use super::vocabulary::Vocabulary;
use crate::config::{Description, DraftKind, Mask, ModelConfig, ModelFamily, Role};

/// How rejected draft tokens leave a model's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rollback {
    /// Rows are cut off.
    Truncate,
    /// Rows are cut off, if windows keep as many rows more as a draft is long.
    TruncateWithMargin,
    /// A recurrent state is copied before a draft is read, and put back.
    Snapshots,
    /// There is no cache.
    NoCache,
}

impl Rollback {
    /// In words.
    pub fn about(self) -> &'static str {
        match self {
            Self::Truncate => "yes: rejected rows are cut off",
            Self::TruncateWithMargin => {
                "yes, with a margin: windows must keep as many rows more as a draft is long"
            }
            Self::Snapshots => "by snapshots: a recurrent state cannot be cut, only copied and put back",
            Self::NoCache => "nothing to take back: it has no cache",
        }
    }
}

/// One key that tells what a drafter was made for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TargetFact {
    /// Path of the key in the file.
    pub at: String,
    /// Its value.
    pub value: Value,
    /// What it says about the target.
    pub meaning: &'static str,
}

/// What a drafter needs of its target, where its configuration says so.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TargetNeeds {
    /// Name of the target.
    pub model: Option<String>,
    /// Decoder layers of the target.
    pub layers: Option<u64>,
    /// The deepest layer it reads, counted from 0.
    pub deepest_tap: Option<u64>,
    /// Width of the target.
    pub hidden_size: Option<u64>,
}

/// A checkpoint that drafts for another model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Drafter {
    /// The method.
    pub method: DraftKind,
    /// What is known of its target.
    pub target: TargetNeeds,
    /// The keys that say so.
    pub facts: Vec<TargetFact>,
}

/// Everything about speculation in one model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Speculation {
    /// Set if the checkpoint is a drafter.
    pub drafter: Option<Drafter>,
    /// Layers inside the checkpoint that draft for it.
    pub mtp_layers: Option<usize>,
    /// Another method built into the checkpoint.
    pub built_in: Option<&'static str>,
    /// Rows of the embedding.
    pub vocab_size: Option<u64>,
    /// Ids of the tokenizer, where it is at hand.
    pub tokenizer_tokens: Option<u64>,
    /// Equal for equal vocabularies.
    pub tokenizer_fingerprint: Option<String>,
    /// Rows of the embedding beyond the tokenizer's ids.
    pub padding_rows: Option<u64>,
    /// How drafts are taken back.
    pub rollback: Rollback,
}

/// Keys that describe a drafter's target. A dot leads into an object.
const TARGET_KEYS: &[(&str, &str)] = &[
    ("speculators_config.verifier.name_or_path", "the target"),
    ("base_model_name_or_path", "the target"),
    ("target_model_name_or_path", "the target"),
    ("target_model", "the target"),
    ("speculators_config.verifier.architectures", "class of the target"),
    ("target_model_type", "class of the target"),
    ("num_target_layers", "decoder layers of the target"),
    ("target_hidden_size", "width of the target"),
    ("dflash_config.target_layer_ids", "target layers whose output it reads"),
    ("target_layer_ids", "target layers whose output it reads"),
    ("aux_hidden_state_layer_ids", "target layers whose input it reads"),
    ("eagle_aux_hidden_state_layer_ids", "target layers whose input it reads"),
    ("eagle_config.eagle_aux_hidden_state_layer_ids", "target layers whose input it reads"),
    ("draft_vocab_size", "target tokens it can propose"),
    ("block_size", "tokens of one draft block"),
    ("dflash_config.block_size", "tokens of one draft block"),
    ("medusa_num_heads", "heads, each guessing one token further"),
];

/// Methods that come inside a target's own checkpoint, by a key that only those have.
const BUILT_IN: &[(&str, &str)] = &[("dspark_block_size", "DSpark")];

impl Speculation {
    pub(super) fn new(
        config: &ModelConfig,
        description: &Description,
        vocabulary: Option<&Vocabulary>,
    ) -> Self {
        let vocab_size = size(config, "vocab_size");
        let tokenizer_tokens = vocabulary.map(Vocabulary::num_tokens);
        let padding = vocab_size.zip(tokenizer_tokens).map(|(rows, tokens)| rows.saturating_sub(tokens));
        let built_in = BUILT_IN.iter().find(|(key, _)| lookup(config, key).is_some());
        Self {
            drafter: description.draft.map(|method| drafter(config, description, method)),
            mtp_layers: description.mtp_layers,
            built_in: built_in.map(|&(_, name)| name).filter(|_| description.draft.is_none()),
            vocab_size,
            tokenizer_tokens,
            tokenizer_fingerprint: vocabulary.map(Vocabulary::fingerprint),
            padding_rows: padding,
            rollback: rollback(description),
        }
    }
}

fn rollback(description: &Description) -> Rollback {
    if description.role == Role::Encoder || description.family() == ModelFamily::None {
        Rollback::NoCache
    } else if description.layers.iter().any(|layer| layer.recurrent.is_some()) {
        Rollback::Snapshots
    } else if description.attentions().any(|layer| layer.mask != Mask::Full) {
        Rollback::TruncateWithMargin
    } else {
        Rollback::Truncate
    }
}

/// A key of the language model's part, else one beside it.
fn lookup<'a>(config: &'a ModelConfig, path: &str) -> Option<&'a Value> {
    let mut names = path.split('.');
    let first = names.next()?;
    let start = config.text().get(first).or_else(|| config.top_level(first));
    names.try_fold(start?, |value, name| value.get(name)).filter(|value| !value.is_null())
}

fn size(config: &ModelConfig, key: &str) -> Option<u64> {
    lookup(config, key)?.as_u64()
}

fn drafter(config: &ModelConfig, description: &Description, method: DraftKind) -> Drafter {
    let mut target = TargetNeeds::default();
    let mut facts = Vec::new();
    for &(at, meaning) in TARGET_KEYS {
        let Some(value) = lookup(config, at) else { continue };
        let ids = || value.as_array().into_iter().flatten().filter_map(Value::as_u64).max();
        match meaning {
            "the target" => {
                let Some(name) = value.as_str().filter(|name| !name.is_empty()) else { continue };
                target.model.get_or_insert_with(|| name.to_owned());
            }
            "decoder layers of the target" => target.layers = value.as_u64(),
            "width of the target" => target.hidden_size = value.as_u64(),
            "target layers whose output it reads" => target.deepest_tap = target.deepest_tap.max(ids()),
            // The input of layer i is the output of layer i - 1.
            "target layers whose input it reads" => {
                target.deepest_tap = target.deepest_tap.max(ids().map(|id| id.saturating_sub(1)));
            }
            _ => {}
        }
        let is_short = value.as_array().is_none_or(|items| items.len() <= 64) && !value.is_object();
        if is_short {
            facts.push(TargetFact { at: at.to_owned(), value: value.clone(), meaning });
        }
    }
    // These read the target's hidden states or feed its head, so they are as wide as it is.
    let shares_width = !matches!(method, DraftKind::Other | DraftKind::MlpSpeculator);
    if target.hidden_size.is_none() && shares_width {
        target.hidden_size =
            description.hidden_size.map(|size| size as u64).or_else(|| size(config, "hidden_size"));
    }
    Drafter { method, target, facts }
}

/// The name of a drafting method as its authors write it.
pub fn method_name(method: DraftKind) -> &'static str {
    match method {
        DraftKind::Eagle => "EAGLE-1/2",
        DraftKind::Eagle3 => "EAGLE-3",
        DraftKind::Dflash => "DFlash",
        DraftKind::Dspark => "DSpark",
        DraftKind::Domino => "Domino",
        DraftKind::Medusa => "Medusa",
        DraftKind::MlpSpeculator => "MLP speculator",
        DraftKind::Mtp => "MTP",
        DraftKind::Other => "a drafter of another kind",
    }
}

#[cfg(test)]
mod tests {
    use super::super::known;
    use super::*;

    fn speculation(id: &str) -> Speculation {
        let config = known::find(id).unwrap().model_config().unwrap();
        Speculation::new(&config, &config.describe().unwrap(), None)
    }

    #[test]
    fn a_cache_is_taken_back_as_its_layers_allow() {
        for (id, wanted) in [
            ("Qwen/Qwen3-8B", Rollback::Truncate),
            ("deepseek-ai/DeepSeek-V3", Rollback::Truncate),
            ("google/gemma-3-27b-it", Rollback::TruncateWithMargin),
            ("meta-llama/Llama-4-Scout-17B-16E-Instruct", Rollback::TruncateWithMargin),
            ("Qwen/Qwen3-Next-80B-A3B-Instruct", Rollback::Snapshots),
            ("google/recurrentgemma-2b", Rollback::Snapshots),
            ("RWKV/rwkv-6-world-1b6", Rollback::Snapshots),
            ("FasterDecoding/medusa-vicuna-7b-v1.3", Rollback::NoCache),
        ] {
            assert_eq!(speculation(id).rollback, wanted, "{id}");
        }
    }

    #[test]
    fn a_drafter_says_what_it_was_made_for() {
        let medusa = speculation("FasterDecoding/medusa-vicuna-7b-v1.3").drafter.unwrap();
        assert_eq!(medusa.target.model.as_deref(), Some("lmsys/vicuna-7b-v1.3"));
        let dflash = speculation("z-lab/Qwen3-8B-DFlash-b16").drafter.unwrap();
        assert_eq!((dflash.method, dflash.target.hidden_size), (DraftKind::Dflash, Some(4096)));
        assert_eq!(dflash.target.layers, Some(36));
        assert!(speculation("Qwen/Qwen3-8B").drafter.is_none());
        assert_eq!(speculation("deepseek-ai/DeepSeek-V3").mtp_layers, Some(1));
    }

    #[test]
    fn inputs_of_a_layer_are_outputs_of_the_one_before() {
        let read = |text: &str| {
            let config =
                ModelConfig::from_json(text.as_bytes(), std::path::Path::new("config.json")).unwrap();
            Speculation::new(&config, &config.describe().unwrap(), None).drafter.unwrap().target.deepest_tap
        };
        let shape =
            r#""model_type": "llama", "num_hidden_layers": 1, "architectures": ["LlamaForCausalLMEagle3"]"#;
        assert_eq!(read(&format!("{{{shape}, \"eagle_aux_hidden_state_layer_ids\": [1, 3, 6]}}")), Some(5));
        assert_eq!(read(&format!("{{{shape}, \"target_layer_ids\": [1, 3, 6]}}")), Some(6));
        assert_eq!(read(&format!("{{{shape}}}")), None);
    }
}
