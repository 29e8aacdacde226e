//! Template variables that hold special tokens: `bos_token`, `eos_token` and their kin.
//!
//! Invariant: a variable is there exactly when the checkpoint names the token and its text is not empty,
//! as in `transformers`; a template may ask `if bos_token is defined`. Tokens that only a tokenizer class
//! in Python knows by default are not here. Whether text gets a BOS when encoded is for `prompt`.

use serde_json::{Map, Value};

/// The variables of `transformers`, in its order.
const NAMES: [&str; 8] = [
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
    "additional_special_tokens",
];

/// GGUF metadata keys that hold a token id, and the variable each gives. `seperator` is the format's
/// spelling.
pub const GGUF_TOKEN_IDS: [(&str, &str); 8] = [
    ("tokenizer.ggml.bos_token_id", "bos_token"),
    ("tokenizer.ggml.eos_token_id", "eos_token"),
    ("tokenizer.ggml.unknown_token_id", "unk_token"),
    ("tokenizer.ggml.seperator_token_id", "sep_token"),
    ("tokenizer.ggml.separator_token_id", "sep_token"),
    ("tokenizer.ggml.padding_token_id", "pad_token"),
    ("tokenizer.ggml.cls_token_id", "cls_token"),
    ("tokenizer.ggml.mask_token_id", "mask_token"),
];

/// The variables from `tokenizer_config.json` and `special_tokens_map.json`, as parsed.
///
/// The map counts, and wins, only where the configuration has no `added_tokens_decoder`: files that have
/// it say everything themselves.
pub fn special_tokens(
    tokenizer_config: Option<&Value>,
    special_tokens_map: Option<&Value>,
) -> Map<String, Value> {
    let is_legacy = tokenizer_config.is_none_or(|config| config.get("added_tokens_decoder").is_none());
    let map = special_tokens_map.filter(|_| is_legacy);
    let mut tokens = Map::new();
    for name in NAMES {
        let stated = |source: Option<&Value>| source?.get(name).and_then(token_value);
        if let Some(value) = stated(map).or_else(|| stated(tokenizer_config)) {
            tokens.insert(name.to_owned(), value);
        }
    }
    let extra = tokenizer_config.and_then(|config| config.get("extra_special_tokens"));
    if let Some(Value::Object(extra)) = extra {
        tokens.extend(extra.iter().filter_map(|(name, value)| Some((name.clone(), token_value(value)?))));
    }
    tokens
}

/// The variables of a GGUF file; `text_of` gives the text of the token whose id stands under a metadata
/// key, if the file has that key.
pub fn special_tokens_of_gguf(text_of: impl Fn(&str) -> Option<String>) -> Map<String, Value> {
    let stated = GGUF_TOKEN_IDS.iter().filter_map(|(key, name)| {
        text_of(key).filter(|text| !text.is_empty()).map(|text| ((*name).to_owned(), Value::String(text)))
    });
    stated.collect()
}

/// A token's text, or the texts of a list: each is a string or an `AddedToken` object.
fn token_value(value: &Value) -> Option<Value> {
    match value {
        Value::String(text) => (!text.is_empty()).then(|| Value::String(text.clone())),
        Value::Object(token) => {
            token.get("content").filter(|content| content.is_string()).and_then(token_value)
        }
        Value::Array(tokens) => {
            let texts = tokens.iter().filter_map(token_value).collect::<Vec<_>>();
            (!texts.is_empty()).then_some(Value::Array(texts))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tokens_are_strings_or_objects_and_empty_ones_are_not_there() {
        let config = json!({
            "bos_token": {"content": "<s>", "lstrip": false}, "eos_token": "</s>", "pad_token": null,
            "unk_token": "", "additional_special_tokens": ["<a>", {"content": "<b>"}],
            "extra_special_tokens": {"image_token": "<img>"}, "model_max_length": 5
        });
        let expected = json!({
            "bos_token": "<s>", "eos_token": "</s>", "additional_special_tokens": ["<a>", "<b>"],
            "image_token": "<img>"
        });
        assert_eq!(Value::Object(special_tokens(Some(&config), None)), expected);
    }

    #[test]
    fn the_map_counts_only_beside_a_configuration_of_the_old_kind() {
        let map = json!({"eos_token": "<map>"});
        let old = json!({"eos_token": "<config>", "bos_token": "<s>"});
        let new = json!({"eos_token": "<config>", "added_tokens_decoder": {}});
        assert_eq!(special_tokens(Some(&old), Some(&map))["eos_token"], "<map>");
        assert_eq!(special_tokens(Some(&old), Some(&map))["bos_token"], "<s>");
        assert_eq!(special_tokens(Some(&new), Some(&map))["eos_token"], "<config>");
        assert_eq!(special_tokens(None, Some(&map))["eos_token"], "<map>");
    }

    #[test]
    fn gguf_ids_give_the_same_variables() {
        let tokens = special_tokens_of_gguf(|key| match key {
            "tokenizer.ggml.eos_token_id" => Some("<|im_end|>".to_owned()),
            "tokenizer.ggml.unknown_token_id" => Some(String::new()),
            _ => None,
        });
        assert_eq!(Value::Object(tokens), json!({"eos_token": "<|im_end|>"}));
    }
}
