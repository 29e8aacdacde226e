//! Where in a file the language model is described, and which class it belongs to.
//!
//! Numbers of a vision tower, an audio encoder or a projector are never read: a wrapper's part for
//! the language model is found by name, or the top level is read.

use std::path::Path;

use serde_json::{Map, Value};

use super::families::Family;
use super::parse;
use crate::error::{Error, Result};

/// Parts that hold the language model, in order of precedence.
const PARTS: &[&str] = &["text_config", "language_config", "llm_config"];
/// Parts that hold it if the level above has no layers of its own.
const LAST_RESORT: &[&str] = &["text_model_config", "decoder", "transformer_layer_config", "model"];
/// Keys that show that a level describes a network itself.
const OWN_LAYERS: &[&str] =
    &["num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_attention_heads", "n_head"];
/// Wrappers of wrappers exist; nobody nests them deeper.
const MAX_WRAPPERS: usize = 4;

/// Follows `part` down from `root`, as far as it leads through objects.
pub(super) fn walk<'a>(root: &'a Map<String, Value>, part: &[&str]) -> &'a Map<String, Value> {
    part.iter().fold(root, |map, name| map.get(*name).and_then(Value::as_object).unwrap_or(map))
}

/// The names that lead to the language model's part.
pub(super) fn text_part(root: &Map<String, Value>, path: &Path) -> Result<Vec<&'static str>> {
    let mut part = Vec::new();
    let mut map = root;
    while part.len() < MAX_WRAPPERS {
        let named = PARTS.iter().find(|name| map.contains_key(**name)).copied();
        let own = OWN_LAYERS.iter().any(|key| map.contains_key(*key));
        let last = || LAST_RESORT.iter().find(|name| map.get(**name).is_some_and(Value::is_object)).copied();
        let next = if map.contains_key("thinker_config") {
            Some("thinker_config")
        } else if own {
            named
        } else {
            named.or_else(last)
        };
        let Some(name) = next else { break };
        part.push(name);
        map = match map.get(name) {
            Some(Value::Object(inner)) => inner,
            other => {
                let found = other.map_or("absent", parse::kind_of);
                let problem = format!("`{}` is {found}, but it must be an object", part.join("."));
                return Err(Error::Malformed { path: path.to_owned(), problem });
            }
        };
    }
    Ok(part)
}

/// Which class a language model belongs to.
pub(super) struct Identity {
    /// The name, empty if there is none.
    pub model_type: String,
    /// The class, if it is known.
    pub family: Option<&'static Family>,
    /// The key that told.
    pub found_in: Option<&'static str>,
}

/// Refuses names of the wrong type: a model must not be taken for an unnamed one.
pub(super) fn check_names(root: &Map<String, Value>, part: &[&str], path: &Path) -> Result<()> {
    for map in [root, walk(root, part)] {
        let fault = |key: &str, value: &Value, wanted: &str| {
            let problem = format!("`{key}` is {value}: {}, but it must be {wanted}", parse::kind_of(value));
            Err(Error::Malformed { path: path.to_owned(), problem })
        };
        match map.get("model_type") {
            None | Some(Value::Null | Value::String(_)) => {}
            Some(value) => return fault("model_type", value, "a string"),
        }
        match map.get("architectures") {
            None | Some(Value::Null) => {}
            Some(Value::Array(names)) if names.iter().all(Value::is_string) => {}
            Some(value) => return fault("architectures", value, "a list of strings"),
        }
    }
    Ok(())
}

/// The strings under `architectures`.
pub(super) fn architectures(map: &Map<String, Value>) -> impl Iterator<Item = &str> {
    map.get("architectures").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// Finds the class: the part's own `model_type`, its `architectures`, then those of the wrapper.
pub(super) fn identity(root: &Map<String, Value>, text: &Map<String, Value>) -> Identity {
    let model_type = |map: &Map<String, Value>| {
        map.get("model_type").and_then(Value::as_str).filter(|name| !name.is_empty()).map(str::to_owned)
    };
    let nested = !std::ptr::eq(root, text);
    let levels = if nested { vec![text, root] } else { vec![text] };
    for (depth, map) in levels.into_iter().enumerate() {
        let declared = model_type(map);
        let by_architecture = architectures(map).find_map(Family::of_architecture);
        if let Some(name) = declared {
            let family = Family::find(&name).or(by_architecture);
            // A wrapper's own name says which class it wraps, and is not the name of that class.
            let model_type = match family {
                Some(family) if depth > 0 => family.name.to_owned(),
                _ => name,
            };
            return Identity { model_type, family, found_in: Some("model_type") };
        }
        if let Some(family) = by_architecture {
            let model_type = family.name.to_owned();
            return Identity { model_type, family: Some(family), found_in: Some("architectures") };
        }
        if let Some(name) = architectures(map).next().filter(|_| depth > 0 || !nested) {
            return Identity { model_type: name.to_owned(), family: None, found_in: Some("architectures") };
        }
    }
    let native = |keys: &[&str]| keys.iter().all(|key| text.contains_key(*key));
    let implied = if native(&["ssm_cfg", "d_model", "n_layer"]) {
        Some(("mamba_ssm", "ssm_cfg"))
    } else if native(&["medusa_num_heads"]) {
        Some(("medusa", "medusa_num_heads"))
    } else {
        None
    };
    match implied {
        Some((name, key)) => {
            Identity { model_type: name.to_owned(), family: Family::find(name), found_in: Some(key) }
        }
        None => Identity { model_type: String::new(), family: None, found_in: None },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(text: &str) -> Map<String, Value> {
        serde_json::from_str(text).unwrap()
    }

    fn part(text: &str) -> String {
        text_part(&map(text), Path::new("x")).map_or_else(|error| error.to_string(), |part| part.join("."))
    }

    #[test]
    fn the_named_part_wins_over_the_top() {
        assert_eq!(
            part(r#"{"num_hidden_layers": 3, "text_config": {}, "vision_config": {}}"#),
            "text_config"
        );
        assert_eq!(
            part(r#"{"thinker_config": {"text_config": {}}, "talker_config": {"text_config": {}}}"#),
            "thinker_config.text_config"
        );
        assert_eq!(part(r#"{"language_config": {}}"#), "language_config");
        assert_eq!(part(r#"{"llm_config": {}}"#), "llm_config");
        assert_eq!(part(r#"{"text_config": {"text_config": {}}}"#), "text_config.text_config");
        assert_eq!(part(r#"{"num_hidden_layers": 3, "vision_config": {}, "decoder": {}}"#), "");
        assert_eq!(part(r#"{"encoder": {}, "decoder": {}}"#), "decoder");
    }

    #[test]
    fn a_part_that_is_not_an_object_is_an_error() {
        for value in ["null", "[]", "3", "\"x\""] {
            let problem = part(&format!(r#"{{"num_hidden_layers": 3, "text_config": {value}}}"#));
            assert!(problem.contains("`text_config`") && problem.contains("object"), "{problem}");
        }
    }

    #[test]
    fn the_name_nearest_to_the_language_model_counts() {
        let name = |text: &str, at: &str| {
            let root = map(text);
            let identity = identity(&root, root.get(at).and_then(Value::as_object).unwrap_or(&root));
            (identity.model_type, identity.family.map(|family| family.name))
        };
        assert_eq!(
            name(r#"{"model_type": "llava", "text_config": {"model_type": "mistral"}}"#, "text_config"),
            ("mistral".to_owned(), Some("mistral"))
        );
        assert_eq!(
            name(r#"{"model_type": "gemma3", "text_config": {}}"#, "text_config"),
            ("gemma3_text".to_owned(), Some("gemma3_text"))
        );
        assert_eq!(
            name(r#"{"model_type": "kimi_k2", "architectures": ["DeepseekV3ForCausalLM"]}"#, ""),
            ("kimi_k2".to_owned(), Some("kimi_k2"))
        );
        assert_eq!(
            name(r#"{"architectures": ["Qwen3ForCausalLM"]}"#, ""),
            ("qwen3".to_owned(), Some("qwen3"))
        );
        assert_eq!(name(r#"{"ssm_cfg": {}, "d_model": 1, "n_layer": 1}"#, "").0, "mamba_ssm");
        assert_eq!(name("{}", "").0, "");
    }
}
