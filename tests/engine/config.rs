//! Classification of configurations: every field of every case, and what malformed files are told.
//!
//! The crate's own cases are in `tests/fixtures/configs`; a larger set beside the repository is run
//! when it is there. Both have one JSON object per line: `config` or `config_text` with `expect`, or
//! `bytes_or_text` with the words an error must mention (`|` separates alternatives).

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use specdec::checkpoint::gguf::{GgufHeader, GgufValue};
use specdec::config::ModelConfig;
use specdec::error::{ExitCode, Result};

const NAME: &str = "config.json";

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().filter(|line| !line.is_empty()).map(|line| serde_json::from_str(line).expect(line)).collect()
}

fn own(file: &str) -> Vec<Value> {
    lines(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/configs").join(file))
}

/// The larger set, empty where it is not there.
fn shared(file: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/configs").join(file);
    if path.exists() { lines(&path) } else { Vec::new() }
}

fn gguf_value(value: &Value) -> GgufValue {
    match value {
        Value::Number(number) if number.is_u64() => GgufValue::Unsigned(number.as_u64().unwrap()),
        Value::Number(number) if number.is_i64() => GgufValue::Signed(number.as_i64().unwrap()),
        Value::Number(number) => GgufValue::Float(number.as_f64().unwrap()),
        Value::Bool(flag) => GgufValue::Bool(*flag),
        Value::String(text) => GgufValue::String(text.clone()),
        Value::Array(items) => GgufValue::Array(items.iter().map(gguf_value).collect()),
        other => panic!("{other} has no GGUF type"),
    }
}

fn gguf(metadata: &Value) -> GgufHeader {
    let entries = metadata.as_object().unwrap().iter();
    GgufHeader {
        metadata: entries.map(|(key, value)| (key.clone(), gguf_value(value))).collect(),
        tensors: BTreeMap::new(),
    }
}

fn read(case: &Value) -> Result<ModelConfig> {
    if case["format"] == "gguf-metadata" {
        return ModelConfig::from_gguf(&gguf(&case["config"]), Path::new("model.gguf"));
    }
    let text = case
        .get("config_text")
        .map_or_else(|| case["config"].to_string(), |t| t.as_str().unwrap().to_owned());
    ModelConfig::from_json(text.as_bytes(), Path::new(NAME))
}

/// full + sliding + chunked + recurrent + none + cross - both = layers x blocks.
fn columns_add_up(facts: &Value) -> bool {
    let get = |key: &str| facts[key].as_u64().unwrap_or(0);
    let blocks = facts["attention_per_layer"].as_u64().unwrap_or(1);
    let columns = [
        "full_layers",
        "sliding_layers",
        "chunked_layers",
        "recurrent_layers",
        "no_attention_layers",
        "cross_layers",
    ];
    columns.iter().map(|key| get(key)).sum::<u64>() - get("hybrid_layers") == get("layers") * blocks
}

/// Everything that is wrong with one case.
fn differences(case: &Value) -> Vec<String> {
    let expect = case["expect"].as_object().unwrap();
    let contexts: Vec<u64> = expect
        .get("kv_bytes_at_bf16")
        .and_then(Value::as_object)
        .map(|at| at.keys().map(|key| key.parse().unwrap()).collect())
        .unwrap_or_default();
    let described = read(case).and_then(|config| config.describe()).and_then(|d| d.facts(&contexts));
    let facts = match described {
        Ok(facts) => serde_json::to_value(facts).unwrap(),
        Err(error) => return vec![error.to_string()],
    };
    let mut wrong: Vec<String> = expect
        .iter()
        .filter(|(key, wanted)| facts.get(*key).unwrap_or(&Value::Null) != *wanted)
        .map(|(key, wanted)| format!("{key}: {} instead of {wanted}", facts.get(key).unwrap_or(&Value::Null)))
        .collect();
    if !columns_add_up(&facts) {
        wrong.push(format!("the columns do not add up: {facts}"));
    }
    wrong
}

fn check_cases(cases: &[Value]) {
    let failures: Vec<String> = cases
        .iter()
        .filter_map(|case| {
            let wrong = differences(case);
            (!wrong.is_empty()).then(|| format!("{}: {}", case["id"], wrong.join("; ")))
        })
        .collect();
    assert!(failures.is_empty(), "{} of {} failed:\n{}", failures.len(), cases.len(), failures.join("\n"));
}

fn bad_bytes(source: &Value) -> Vec<u8> {
    if let Some(text) = source["text"].as_str() {
        return text.as_bytes().to_vec();
    }
    if let Some(hex) = source["hex"].as_str() {
        return (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect();
    }
    let generate = &source["generate"];
    let part = |key: &str| generate[key].as_str().unwrap_or_default();
    let size = |key: &str| usize::try_from(generate[key].as_u64().unwrap()).unwrap();
    let mut text = part("prefix").to_owned();
    match part("kind") {
        "nested_arrays" => {
            let depth = size("depth");
            text += &part("open").repeat(depth);
            text += &part("close").repeat(depth);
        }
        "repeat_array" => {
            let mut separator = "";
            while text.len() < size("total_bytes") {
                text += separator;
                text += part("element");
                separator = part("separator");
            }
        }
        other => panic!("unknown generator {other}"),
    }
    text += part("suffix");
    text.into_bytes()
}

fn check_bad(cases: &[Value]) {
    let mut failures = Vec::new();
    for case in cases {
        let bytes = bad_bytes(&case["bytes_or_text"]);
        let described = if case["format"] == "gguf-metadata" {
            let metadata = serde_json::from_slice(&bytes).unwrap();
            ModelConfig::from_gguf(&gguf(&metadata), Path::new(NAME)).and_then(|config| config.describe())
        } else {
            ModelConfig::from_json(&bytes, Path::new(NAME)).and_then(|config| config.describe())
        };
        let described = described.and_then(|description| description.facts(&[1 << 20]));
        let Err(error) = described else {
            failures.push(format!("{} was read", case["name"]));
            continue;
        };
        let text = error.to_string().to_lowercase();
        for words in case["expect"]["message_mentions"].as_array().unwrap() {
            let words = words.as_str().unwrap().to_lowercase();
            if !words.split('|').any(|word| text.contains(word)) {
                failures.push(format!("{}: `{error}` does not mention {words}", case["name"]));
            }
        }
        let wanted = match case["expect"]["exit"].as_u64() {
            None => vec![ExitCode::Failure, ExitCode::Unsupported],
            Some(1) => vec![ExitCode::Failure],
            Some(_) => vec![ExitCode::Unsupported],
        };
        if !wanted.contains(&error.exit_code()) {
            failures.push(format!("{}: `{error}` exits with {:?}", case["name"], error.exit_code()));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn own_cases() {
    check_cases(&own("cases.jsonl"));
}

#[test]
fn own_malformed_files() {
    check_bad(&own("bad.jsonl"));
}

#[test]
fn shared_cases() {
    check_cases(&shared("cases.jsonl"));
}

#[test]
fn shared_malformed_files() {
    check_bad(&shared("bad.jsonl"));
}
