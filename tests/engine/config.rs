//! Classification of configurations: every field of every case, and what malformed files are told.
//!
//! The crate's own cases are in `tests/fixtures/configs`; a larger set beside the repository is run
//! when it is there. Both have one JSON object per line: `config` or `config_text` with `expect`, or
//! `bytes_or_text` with the words an error must mention (`|` separates alternatives).

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use specdec::config::{KvType, ModelConfig};
use specdec::error::{ExitCode, Result};
use specdec::gguf::{GgufHeader, GgufValue};

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

/// Every place in `value` that holds something, as JSON pointers.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    let mut inner = |key: String, value: &Value| {
        let at = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
        places(value, &at, found);
        found.push(at);
    };
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| inner(key.clone(), value)),
        // The first entries stand for the rest: lists are long and alike.
        Value::Array(items) => {
            items.iter().take(2).enumerate().for_each(|(index, value)| inner(index.to_string(), value));
        }
        _ => {}
    }
}

#[test]
fn no_value_anywhere_makes_it_panic() {
    let nasty: Vec<Value> = [
        "null",
        "0",
        "1",
        "2",
        "-1",
        "3.5",
        "1e300",
        "18446744073709551615",
        "16777216",
        "true",
        "\"\"",
        "\"M*é\"",
        "[]",
        "[0]",
        "[[]]",
        "[null, 1]",
        "{}",
        "{\"attention\": 1}",
        "[\"full_attention\"]",
    ]
    .iter()
    .map(|text| serde_json::from_str(text).unwrap())
    .collect();
    let mut tried = 0;
    for case in own("cases.jsonl")
        .into_iter()
        .chain(shared("cases.jsonl"))
        .filter(|case| case.get("config").is_some())
    {
        let mut found = Vec::new();
        places(&case["config"], "", &mut found);
        for place in &found {
            for value in &nasty {
                if case["format"] == "gguf-metadata"
                    && (value.is_null() || value.is_object() || value[0].is_null())
                {
                    continue;
                }
                let mut changed = case.clone();
                *changed["config"].pointer_mut(place).unwrap() = value.clone();
                let described = read(&changed).and_then(|config| config.describe());
                if let Ok(description) = described {
                    let _ = description.facts(&[0, 1000, u64::MAX]);
                    assert!(!description.headline().is_empty());
                    if let Ok(facts) = description.facts(&[]) {
                        let facts = serde_json::to_value(facts).unwrap();
                        assert!(columns_add_up(&facts), "{} with {place} = {value}: {facts}", case["id"]);
                    }
                }
                tried += 1;
            }
        }
    }
    assert!(tried > 5000, "only {tried}");
}

#[test]
fn evidence_names_what_was_read_assumed_and_ignored() {
    let text = r#"{"model_type": "qwen2", "text_config": {"model_type": "qwen2", "hidden_size": 1024,
        "num_attention_heads": 32, "num_hidden_layers": 2, "sliding_window": 512, "use_sliding_window": false,
        "hidden_act": "silu"}}"#;
    let description = ModelConfig::from_json(text.as_bytes(), Path::new(NAME)).unwrap().describe().unwrap();
    let shown: Vec<String> = description
        .evidence
        .iter()
        .map(|evidence| format!("{:?} {} {}: {}", evidence.kind, evidence.at, evidence.value, evidence.rule))
        .collect();
    for wanted in [
        "Read text_config.num_attention_heads 32: query heads",
        "Assumed text_config.num_key_value_heads 32: class default: KV heads",
        "Ignored text_config.sliding_window 512: use_sliding_window is false",
    ] {
        assert!(shown.iter().any(|line| line == wanted), "{wanted} is not in\n{}", shown.join("\n"));
    }
    assert_eq!(description.unread, ["text_config.hidden_act"]);
}

#[test]
fn gguf_evidence_keeps_the_names_of_the_file() {
    let metadata = serde_json::json!({
        "general.architecture": "llama", "llama.block_count": 2, "llama.embedding_length": 64,
        "llama.attention.head_count": 4, "llama.rope.freq_base": 10000.0, "llama.rope.scaling.type": "yarn",
        "llama.rope.scaling.factor": 4.0, "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "tokenizer.ggml.eos_token_id": 2, "tokenizer.ggml.eot_token_id": 7, "tokenizer.ggml.tokens": ["a", "b", "c"],
    });
    let config = ModelConfig::from_gguf(&gguf(&metadata), Path::new("model.gguf")).unwrap();
    assert!(config.is_gguf());
    assert_eq!(config.model_type(), "llama");
    assert_eq!(config.get_f64("rope_theta").unwrap(), Some(10000.0));
    assert_eq!(config.get_f64("rms_norm_eps").unwrap(), Some(1e-5));
    let scaling = config.get_object("rope_scaling").unwrap().unwrap();
    assert_eq!((&scaling["rope_type"], &scaling["factor"]), (&"yarn".into(), &4.0.into()));
    assert_eq!(config.eos_token_ids().unwrap(), [2, 7]);
    assert_eq!(config.get_usize("vocab_size").unwrap(), Some(3));
    let description = config.describe().unwrap();
    assert!(description.evidence.iter().any(|evidence| evidence.at == "llama.attention.head_count"));
    assert!(
        config
            .require_usize("intermediate_size")
            .unwrap_err()
            .to_string()
            .contains("llama.feed_forward_length")
    );
}

#[test]
fn memory_has_two_columns_and_a_comparison() {
    let text = r#"{"model_type": "gemma3_text", "num_hidden_layers": 6, "sliding_window": 64, "head_dim": 32,
        "num_attention_heads": 8, "num_key_value_heads": 2, "hidden_size": 256}"#;
    let description = ModelConfig::from_json(text.as_bytes(), Path::new(NAME)).unwrap().describe().unwrap();
    let layer = 2 * 64 * 2;
    assert_eq!(description.kv_bytes_needed(1000, KvType::Bf16).unwrap(), layer * (1000 + 5 * 64));
    assert_eq!(description.kv_bytes_reserved(1000, KvType::Bf16).unwrap(), layer * 6 * 1000);
    assert_eq!(description.kv_bytes_as_mha(1000, KvType::Bf16).unwrap(), 4 * layer * 6 * 1000);
    assert_eq!(description.kv_bytes_per_token(KvType::F32).unwrap(), 2 * layer * 6);
    assert_eq!(description.kv_bytes_per_token(KvType::Q8_0).unwrap(), layer / 2 * 6 * 34 / 32);
    assert!(description.kv_bytes_needed(u64::MAX, KvType::F32).is_err());
}

#[test]
fn headlines() {
    for (id, wanted) in [
        ("tiny-llama", "GQA 2:1 (4 query / 2 KV heads, head_dim 16), 2 layers"),
        ("mistral4-default", "MLA (latent 256 + rope 64), 36 layers"),
        (
            "gemma3-underscore-pattern",
            "GQA 2:1 (8 query / 4 KV heads, head_dim 256), 8 layers (6 sliding 256, 2 full)",
        ),
        ("falcon-h1-bare", "hybrid: 3 full GQA 2:1 + 3 Mamba-2 (3 of 3 layers have both)"),
        ("rwkv7", "RWKV: no attention, 4 layers"),
        ("mlp-speculator", "draft: no attention: draft heads only"),
        ("bart", "encoder-decoder: MHA (4 heads, head_dim 64), 2 layers"),
    ] {
        let cases = own("cases.jsonl");
        let case = cases.iter().find(|case| case["id"] == id).unwrap();
        assert_eq!(read(case).unwrap().describe().unwrap().headline(), wanted);
    }
}

#[test]
fn a_file_is_read_within_its_size() {
    let folder = std::env::temp_dir().join(format!("specdec-config-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(NAME);
    std::fs::write(&path, r#"{"model_type": "llama"}"#).unwrap();
    assert_eq!(ModelConfig::from_file(&path).unwrap().model_type(), "llama");
    std::fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
    let problem = ModelConfig::from_file(&path).unwrap_err().to_string();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(problem.contains("too large"), "{problem}");
    assert_eq!(ModelConfig::from_file(&path).unwrap_err().exit_code(), ExitCode::NotFound);
}

#[test]
fn a_cache_format_in_a_file_of_its_own_counts() {
    let text = r#"{"model_type": "llama", "num_hidden_layers": 1}"#;
    let mut config = ModelConfig::from_json(text.as_bytes(), Path::new(NAME)).unwrap();
    let beside = Path::new("hf_quant_config.json");
    config.add_quantization_file(br#"{"quantization": {"kv_cache_quant_algo": "FP8"}}"#, beside).unwrap();
    let facts = config.describe().unwrap().facts(&[]).unwrap();
    assert_eq!(facts.kv_bytes_per_token_native, Some(facts.kv_bytes_per_token_bf16 / 2));
    assert!(
        config.add_quantization_file(br#"{"quantization": {"kv_cache_quant_algo": "X"}}"#, beside).is_err()
    );
}

#[test]
fn two_thousand_configurations_take_less_than_a_second() {
    let cases = own("cases.jsonl");
    let cases: Vec<&Value> =
        cases.iter().filter(|case| case["format"].is_null() && case["config"].is_object()).collect();
    let texts: Vec<String> = cases.iter().map(|case| case["config"].to_string()).collect();
    let start = std::time::Instant::now();
    for text in texts.iter().cycle().take(2000) {
        let config = ModelConfig::from_json(text.as_bytes(), Path::new(NAME)).unwrap();
        config.describe().unwrap().facts(&[4096, 32768, 131_072]).unwrap();
    }
    let seconds = start.elapsed().as_secs_f64();
    assert!(seconds < 1.0, "{seconds:.2} s");
}
