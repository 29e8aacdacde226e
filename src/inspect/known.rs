//! Configurations of well-known models, compiled in.
//!
//! They answer when a model cannot be fetched (gated, offline), and whoever shows them says so. The
//! table keeps the keys the classifier needs, not conclusions, so that one code path reads all models.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::config::ModelConfig;
use crate::error::Result;

/// One line per model.
const TABLE: &str = include_str!("../../assets/models/known.jsonl");

/// A well-known model.
#[derive(Debug, Clone, Deserialize)]
pub struct Known {
    /// `org/name`.
    pub id: String,
    /// When the facts were taken down, `YYYY-MM-DD`.
    pub date: String,
    /// Where they were read.
    pub source: String,
    /// The keys of its `config.json` that matter.
    pub config: Value,
}

impl Known {
    /// Its configuration.
    ///
    /// # Errors
    /// None for a table that its test accepts.
    pub fn model_config(&self) -> Result<ModelConfig> {
        ModelConfig::from_json(self.config.to_string().as_bytes(), Path::new(&self.id))
    }
}

/// Every model of the table, in its order.
///
/// # Panics
/// Never with the table that is compiled in, every line of which a test reads.
pub fn all() -> impl Iterator<Item = Known> {
    TABLE.lines().map(|line| serde_json::from_str(line).expect("a test reads every line of the table"))
}

/// The model called `id`, in any case, with or without the organisation.
pub fn find(id: &str) -> Option<Known> {
    // Lines are looked at before they are parsed: most do not name the model.
    let same = |known: &Known| {
        let name = known.id.rsplit('/').next().unwrap_or_default();
        known.id.eq_ignore_ascii_case(id) || (!id.contains('/') && name.eq_ignore_ascii_case(id))
    };
    all().find(same)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_line_is_a_model_that_can_be_described() {
        let mut ids = BTreeSet::new();
        for known in all() {
            let described = known.model_config().and_then(|config| config.describe());
            assert!(described.is_ok(), "{}: {:?}", known.id, described.err());
            assert!(known.date.len() == 10 && !known.source.is_empty(), "{}", known.id);
            assert!(ids.insert(known.id.to_ascii_lowercase()), "{} is there twice", known.id);
        }
        assert!(ids.len() >= 55, "only {}", ids.len());
    }

    #[test]
    fn a_name_is_found_in_any_case() {
        assert_eq!(find("META-llama/llama-3.1-8b").unwrap().id, "meta-llama/Llama-3.1-8B");
        assert_eq!(find("gpt2").unwrap().id, "openai-community/gpt2");
        assert!(find("nobody/nothing").is_none());
    }
}
