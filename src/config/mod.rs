//! What a checkpoint's configuration says about itself.
//!
//! [`ModelConfig`] is a `config.json`, or GGUF metadata under the same names, with the language
//! model's part found and its keys read by type. [`ModelConfig::describe`] classifies: which layers
//! have which attention, and what their cache costs. Nothing here knows tensors, and nothing guesses:
//! what the file and the model's class do not say is an error.

mod attention;
mod depth;
mod describe;
mod description;
mod evidence;
mod facts;
mod families;
mod gguf;
mod headline;
mod latent;
mod layers;
mod listed;
mod locate;
mod masks;
mod memory;
mod parse;
mod plan_text;
mod recurrence;
mod sharing;
mod window;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

pub use self::description::{
    Attention, Description, DraftKind, Latent, LayerAttention, LayerDescription, LayerRecurrence, Mask,
    Mixer, ModelFamily, RecurrentKind, Role,
};
pub use self::evidence::{Evidence, EvidenceKind};
pub use self::facts::{Facts, Group, ReadingRule};
pub use self::memory::KvType;
pub use self::parse::{MAX_BYTES, MAX_DEPTH};

use self::families::Family;
use crate::error::{Error, Result};
use crate::gguf::GgufHeader;

/// Keys that hold the longest context, in order of precedence.
pub(crate) const CONTEXT_KEYS: &[&str] = &[
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "max_sequence_length",
    "context_length",
    "max_target_positions",
    "max_context_length",
];

/// A configuration in memory.
#[derive(Debug, Clone)]
pub struct ModelConfig {
    path: PathBuf,
    root: Map<String, Value>,
    /// Names of the objects that lead to the language model's part.
    part: Vec<&'static str>,
    text_at: String,
    model_type: String,
    /// What the model type was taken from; `None` if the file names no model.
    identity: Option<&'static str>,
    family: &'static Family,
    /// For GGUF: the metadata key behind each key.
    gguf_keys: Option<BTreeMap<String, String>>,
    /// For GGUF: the recurrent mixer that its keys speak of.
    gguf_recurrent: Option<RecurrentKind>,
    /// Bits per cache element declared in a file beside this one.
    kv_cache_bits: Option<u64>,
}

impl ModelConfig {
    /// Reads a `config.json` that is in memory; `path` is where it was found, for messages.
    ///
    /// # Errors
    /// `Malformed` when it is not a JSON object, too large, or nested too deep, when a key occurs
    /// twice, or when the part that should hold the language model is not an object.
    pub fn from_json(bytes: &[u8], path: &Path) -> Result<Self> {
        Self::from_root(parse::object(bytes, path)?, path)
    }

    /// Reads the file at `path`, whose size is checked before it is read.
    ///
    /// # Errors
    /// `Io` when it cannot be read, else as [`Self::from_json`].
    pub fn from_file(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(Error::io("open", path))?;
        let metadata = file.metadata().map_err(Error::io("read", path))?;
        parse::check_size(metadata.len(), path)?;
        let mut bytes = Vec::new();
        // One byte more than allowed, so that a pipe or a growing file is noticed as well.
        file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(Error::io("read", path))?;
        Self::from_json(&bytes, path)
    }

    /// Translates GGUF metadata into the names of `config.json`, so that an architecture reads one
    /// vocabulary. Messages and evidence keep the names of the file.
    ///
    /// # Errors
    /// `UnsupportedConfig` when the file names no architecture, `Malformed` when a value has the
    /// wrong type.
    pub fn from_gguf(header: &GgufHeader, path: &Path) -> Result<Self> {
        let translated = gguf::translate(header, path)?;
        let family = translated.family.unwrap_or(Family::UNKNOWN);
        Ok(Self {
            path: path.to_owned(),
            root: translated.root,
            part: Vec::new(),
            text_at: String::new(),
            model_type: translated.model_type,
            identity: Some("general.architecture"),
            family,
            gguf_keys: Some(translated.keys),
            gguf_recurrent: translated.recurrent,
            kv_cache_bits: None,
        })
    }

    fn from_root(root: Map<String, Value>, path: &Path) -> Result<Self> {
        let part = locate::text_part(&root, path)?;
        locate::check_names(&root, &part, path)?;
        let identity = locate::identity(&root, locate::walk(&root, &part));
        Ok(Self {
            path: path.to_owned(),
            text_at: part.join("."),
            part,
            model_type: identity.model_type,
            identity: identity.found_in,
            family: identity.family.unwrap_or(Family::UNKNOWN),
            root,
            gguf_keys: None,
            gguf_recurrent: None,
            kv_cache_bits: None,
        })
    }

    /// Adds what an `hf_quant_config.json` beside the configuration says about the cache.
    ///
    /// # Errors
    /// `Malformed` when `bytes` are not a JSON object, `UnsupportedConfig` for an unknown format.
    pub fn add_quantization_file(&mut self, bytes: &[u8], path: &Path) -> Result<()> {
        let root = parse::object(bytes, path)?;
        let algorithm = root.get("quantization").and_then(|part| part.get("kv_cache_quant_algo"));
        self.kv_cache_bits = match algorithm.and_then(Value::as_str) {
            None => return Ok(()),
            Some("FP8" | "INT8") => Some(8),
            Some("NVFP4" | "FP4" | "INT4") => Some(4),
            Some(other) => {
                let problem =
                    format!("`quantization.kv_cache_quant_algo` is \"{other}\"; known are FP8, INT8, NVFP4");
                return Err(Error::UnsupportedConfig { path: path.to_owned(), problem });
            }
        };
        Ok(())
    }

    /// Where the configuration was found.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// `model_type` of the language model, else the class its `architectures` or its wrapper imply.
    /// Empty if the file names no model.
    pub fn model_type(&self) -> &str {
        &self.model_type
    }

    /// Whether the keys were translated from GGUF metadata.
    pub fn is_gguf(&self) -> bool {
        self.gguf_keys.is_some()
    }

    /// Where in the file the language model is, such as `text_config`; empty at the top.
    pub fn text_at(&self) -> &str {
        &self.text_at
    }

    /// The keys of the language model's part.
    pub fn text(&self) -> &Map<String, Value> {
        locate::walk(&self.root, &self.part)
    }

    fn root(&self) -> &Map<String, Value> {
        &self.root
    }

    /// A key beside the language model's part, null included.
    pub fn top_level(&self, key: &str) -> Option<&Value> {
        self.root.get(key)
    }

    /// A key as the file spells it, with the path of the language model's part.
    fn spelling(&self, key: &str) -> String {
        match &self.gguf_keys {
            Some(keys) => keys.get(key).cloned().unwrap_or_else(|| key.to_owned()),
            None if self.text_at.is_empty() => key.to_owned(),
            None => format!("{}.{key}", self.text_at),
        }
    }

    fn value(&self, key: &str) -> Option<&Value> {
        self.text().get(key).filter(|value| !value.is_null())
    }

    fn malformed(&self, key: &str, problem: &str) -> Error {
        let problem = format!("`{}` {problem}", self.spelling(key));
        Error::Malformed { path: self.path.clone(), problem }
    }

    fn typed<'a, T>(
        &'a self,
        key: &str,
        wanted: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let fault = || {
            let found = parse::kind_of(value);
            self.malformed(key, &format!("is {}: {found}, but it must be {wanted}", evidence::shown(value)))
        };
        read(value).map(Some).ok_or_else(fault)
    }

    /// A count or size. Absent and null are `None`.
    ///
    /// # Errors
    /// `Malformed` when it is not a non-negative integer.
    pub fn get_usize(&self, key: &str) -> Result<Option<usize>> {
        let read = |value: &Value| value.as_u64().and_then(|number| usize::try_from(number).ok());
        self.typed(key, "a non-negative integer", read)
    }

    /// A number. Absent and null are `None`.
    ///
    /// # Errors
    /// `Malformed` when it is not a finite number.
    pub fn get_f64(&self, key: &str) -> Result<Option<f64>> {
        self.typed(key, "a finite number", Value::as_f64)
    }

    /// A flag. Absent and null are `None`.
    ///
    /// # Errors
    /// `Malformed` when it is neither true nor false.
    pub fn get_bool(&self, key: &str) -> Result<Option<bool>> {
        self.typed(key, "true or false", Value::as_bool)
    }

    /// A text. Absent and null are `None`.
    ///
    /// # Errors
    /// `Malformed` when it is not a string.
    pub fn get_str(&self, key: &str) -> Result<Option<&str>> {
        let read = |value| if parse::not_finite(value).is_some() { None } else { value.as_str() };
        self.typed(key, "a string", read)
    }

    /// An object. Absent and null are `None`.
    ///
    /// # Errors
    /// `Malformed` when it is not an object.
    pub fn get_object(&self, key: &str) -> Result<Option<&Map<String, Value>>> {
        self.typed(key, "an object", Value::as_object)
    }

    /// A list. Absent and null are `None`.
    ///
    /// # Errors
    /// `Malformed` when it is not a list.
    pub fn get_array(&self, key: &str) -> Result<Option<&[Value]>> {
        self.typed(key, "a list", |value| value.as_array().map(Vec::as_slice))
    }

    /// A count or size that must be there.
    ///
    /// # Errors
    /// `UnsupportedConfig` when it is absent or null, `Malformed` when it is not a non-negative integer.
    pub fn require_usize(&self, key: &str) -> Result<usize> {
        self.get_usize(key)?.ok_or_else(|| Error::UnsupportedConfig {
            path: self.path.clone(),
            problem: format!("`{}` is missing", self.spelling(key)),
        })
    }

    /// The ids that end a text: a number or a list, in the language model's part and at the top.
    ///
    /// # Errors
    /// `Malformed` when one of them is not a token id.
    pub fn eos_token_ids(&self) -> Result<Vec<u32>> {
        const KEY: &str = "eos_token_id";
        let mut ids = Vec::new();
        let places = [self.text().get(KEY), self.root.get(KEY)];
        for value in places.into_iter().flatten().filter(|value| !value.is_null()) {
            let items = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
            for item in items {
                let id = item.as_u64().and_then(|id| u32::try_from(id).ok());
                let id = id.ok_or_else(|| {
                    self.malformed(KEY, &format!("holds {}, which is not a token id", evidence::shown(item)))
                })?;
                if !ids.contains(&id) {
                    ids.push(id);
                }
            }
        }
        Ok(ids)
    }

    /// The longest context in tokens.
    ///
    /// # Errors
    /// `Malformed` when the key that says it is not a non-negative integer.
    pub fn max_context(&self) -> Result<Option<usize>> {
        for key in CONTEXT_KEYS {
            if let Some(tokens) = self.get_usize(key)? {
                return Ok(Some(tokens));
            }
        }
        Ok(None)
    }

    /// The declared dtype: `dtype`, else `torch_dtype`, in the language model's part, then at the top.
    pub fn dtype(&self) -> Option<&str> {
        let places =
            [self.text(), &self.root].into_iter().flat_map(|map| [map.get("dtype"), map.get("torch_dtype")]);
        places.flatten().find_map(Value::as_str)
    }

    /// `architectures` of the language model's part, else of the file.
    pub fn architectures(&self) -> Vec<Cow<'_, str>> {
        let names =
            |map: &'_ Map<String, Value>| locate::architectures(map).map(str::to_owned).collect::<Vec<_>>();
        let inner = names(self.text());
        let names = if inner.is_empty() { names(&self.root) } else { inner };
        names.into_iter().map(Cow::Owned).collect()
    }

    /// Classifies: every layer's mixer, heads, mask and cache.
    ///
    /// # Errors
    /// `Malformed` when a value contradicts another or cannot be what its key says;
    /// `UnsupportedConfig` when the file does not say enough or uses a layout that is not known.
    pub fn describe(&self) -> Result<Description> {
        describe::describe(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> ModelConfig {
        ModelConfig::from_json(text.as_bytes(), Path::new("config.json")).unwrap()
    }

    #[test]
    fn getters_know_absent_null_and_wrong() {
        let config = config(
            r#"{"model_type": "llama", "a": 3, "b": null, "c": "3", "d": 2.5, "e": true, "f": NaN,
                "text_config": {"a": 4, "b": null, "c": "3", "d": 2.5, "e": true, "f": NaN, "g": [1], "h": {}}}"#,
        );
        assert_eq!(config.text_at(), "text_config");
        assert_eq!(config.get_usize("a").unwrap(), Some(4));
        assert_eq!(config.top_level("a"), Some(&Value::from(3)));
        assert_eq!(config.get_usize("b").unwrap(), None);
        assert_eq!(config.get_usize("z").unwrap(), None);
        assert_eq!(config.get_f64("a").unwrap(), Some(4.0));
        assert_eq!(config.get_bool("e").unwrap(), Some(true));
        assert_eq!(config.get_str("c").unwrap(), Some("3"));
        assert_eq!(config.get_array("g").unwrap().map(<[_]>::len), Some(1));
        assert!(config.get_object("h").unwrap().is_some());
        let problem = config.get_usize("c").unwrap_err().to_string();
        assert!(problem.contains("`text_config.c` is \"3\": a string"), "{problem}");
        assert!(config.get_f64("f").unwrap_err().to_string().contains("NaN: not a finite number"));
        assert!(config.get_str("f").is_err());
        assert!(config.require_usize("z").unwrap_err().to_string().contains("`text_config.z` is missing"));
    }

    #[test]
    fn end_ids_are_a_number_or_a_list_in_both_places() {
        let config = config(r#"{"eos_token_id": [2, 7], "text_config": {"eos_token_id": 7}}"#);
        assert_eq!(config.eos_token_ids().unwrap(), [7, 2]);
    }

    #[test]
    fn the_dtype_of_the_language_model_comes_first() {
        let config = config(r#"{"dtype": "float32", "text_config": {"torch_dtype": "bfloat16"}}"#);
        assert_eq!(config.dtype(), Some("bfloat16"));
    }
}
