//! What goes wrong must say what to do, with the right exit code, and never panic.

use std::fs;

use crate::program::{Ran, copied, fixture, scratch, specdec};

/// Runs `generate` and expects a failure that mentions every word.
fn refused(args: &[&str], code: i32, words: &[&str]) -> Ran {
    let run = specdec(&[&["generate"], args].concat());
    assert_eq!(run.code, code, "{args:?}: {}", run.stderr);
    assert_eq!(run.stdout, "", "{args:?}");
    for word in words {
        assert!(run.stderr.contains(word), "{args:?} should mention `{word}`: {}", run.stderr);
    }
    assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    run
}

#[test]
fn flags_that_cannot_be_used() {
    let pair = fixture("pair/target");
    let gguf = fixture("gguf/llama_f16.gguf");
    let cases: &[(&[&str], &[&str])] = &[
        (&["-k", "0"], &["-k", "--drafter none"]),
        (&["-k", "18446744073709551615"], &["-k", "1024"]),
        (&["--temp", "1e-320"], &["--temp", "0 takes"]),
        (&["-n", "0"], &["-n"]),
        (&["-c", "0"], &["-c"]),
        (&["-c", "99999999"], &["-c", "limit"]),
        (&["--temp", "-1"], &["--temp"]),
        (&["--temp", "nan"], &["--temp"]),
        (&["--temp", "0.5", "--accept", "greedy"], &["--accept", "--temp"]),
        (&["--rounds"], &["--rounds", "json"]),
        (&["--drafter", "ngram", "-d", &pair], &["-d", "ngram"]),
        (&["--drafter", "ngram", "--draft-quant", "q8_0"], &["--draft-quant"]),
        (&["--drafter", "model", "--ngram-min", "2"], &["--ngram-min"]),
        (&["--drafter", "ngram", "--ngram-min", "0"], &["--ngram-min"]),
        (&["--drafter", "ngram", "--ngram-max", "0"], &["--ngram-max"]),
        (&["--drafter", "ngram", "--ngram-min", "5", "--ngram-max", "3"], &["--ngram-max"]),
        (&["-m", &pair, "--prompt-ids", "1", "-k", "3"], &["-k", "drafter"]),
        (&["-m", &pair, "--prompt-ids", "1", "--drafter", "model"], &["--drafter", "-d"]),
        (&["-m", &pair, "--prompt-ids", "1", "--accept", "coupled"], &["--accept"]),
        (&["-m", &pair], &["prompt", "--prompt-ids"]),
        (&["-m", &pair, "-p", "text"], &["tokenizer", "--prompt-ids"]),
        (&["-m", &pair, "--prompt-ids", "1,64"], &["token id 64", "64 tokens"]),
        (&["-m", &gguf, "--prompt-ids", "1", "--dtype", "f32"], &["--dtype", "GGUF"]),
        (&["-m", &gguf, "--prompt-ids", "1", "--quant", "q8_0"], &["--quant", "GGUF"]),
        (&["-p", ""], &["prompt", "empty"]),
        (&["-p", "a", "--prompt-ids", "1"], &["--prompt"]),
        (&["--prompt-ids", "1,x"], &["--prompt-ids"]),
        (&["--no-such-flag"], &["--no-such-flag"]),
        (&["--drafter", "wizard"], &["wizard", "ngram+model"]),
    ];
    for (args, words) in cases {
        refused(args, 2, words);
    }
    // Switching speculation off in a long command is not a mistake.
    let off = ["generate", "-q", "-n", "2", "--drafter", "none", "-d", "nowhere", "-k", "3", "--seed", "1"];
    let run = specdec(&off);
    assert_eq!(run.code, 0, "{}", run.stderr);
}

#[test]
fn models_that_are_not_there() {
    refused(&["-m", "nowhere", "--prompt-ids", "1"], 3, &["nowhere", "no such file"]);
    let empty = scratch("empty_folder");
    refused(&["-m", empty.to_str().unwrap(), "--prompt-ids", "1"], 3, &["config.json"]);
    let bare = copied("pair/target", "no_weights");
    fs::remove_file(bare.join("model.safetensors")).unwrap();
    refused(&["-m", bare.to_str().unwrap(), "--prompt-ids", "1"], 3, &["model.safetensors"]);
    let shards = copied("models/llama_sharded", "missing_shard");
    fs::remove_file(shards.join("model-00002-of-00002.safetensors")).unwrap();
    refused(&["-m", shards.to_str().unwrap(), "--prompt-ids", "1"], 3, &["model-00002-of-00002.safetensors"]);
    let split = scratch("missing_split");
    let part = "llama_split-00001-of-00002.gguf";
    fs::copy(fixture(&format!("gguf/{part}")), split.join(part)).unwrap();
    refused(&["-m", split.join(part).to_str().unwrap(), "--prompt-ids", "1"], 3, &["00002-of-00002"]);
}

#[test]
fn files_that_are_cut_short_or_something_else() {
    let weights = fs::read(fixture("pair/target/model.safetensors")).unwrap();
    let cuts = [0, 4, 8, 100, weights.len() / 2, weights.len() - 1];
    for (number, cut) in cuts.into_iter().enumerate() {
        let folder = copied("pair/target", &format!("cut_{number}"));
        fs::write(folder.join("model.safetensors"), &weights[..cut]).unwrap();
        refused(&["-m", folder.to_str().unwrap(), "--prompt-ids", "1"], 1, &["model.safetensors"]);
    }
    let gguf = fs::read(fixture("gguf/llama_f16.gguf")).unwrap();
    let folder = scratch("cut_gguf");
    for cut in [0, 3, 20, 200, gguf.len() / 2, gguf.len() - 1] {
        let path = folder.join("m.gguf");
        fs::write(&path, &gguf[..cut]).unwrap();
        refused(&["-m", path.to_str().unwrap(), "--prompt-ids", "1"], 1, &["m.gguf"]);
    }
    let pickle = copied("models/llama_pickle", "bad_pickle");
    fs::write(pickle.join("pytorch_model.bin"), b"not a pickle").unwrap();
    refused(&["-m", pickle.to_str().unwrap(), "--prompt-ids", "1"], 1, &["pytorch_model.bin"]);
    let pointer = copied("pair/target", "lfs_pointer");
    fs::write(
        pointer.join("model.safetensors"),
        "version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
    )
    .unwrap();
    refused(&["-m", pointer.to_str().unwrap(), "--prompt-ids", "1"], 1, &["Git LFS pointer"]);
    let text = scratch("text_file").join("notes.txt");
    fs::write(&text, "hello").unwrap();
    refused(&["-m", text.to_str().unwrap(), "--prompt-ids", "1"], 1, &["notes.txt", "GGUF"]);
}

#[test]
fn hostile_headers_allocate_nothing() {
    let folder = copied("pair/target", "hostile_header");
    // A header that claims to be 2^60 bytes long.
    let mut bytes = (1u64 << 60).to_le_bytes().to_vec();
    bytes.extend_from_slice(b"{}");
    fs::write(folder.join("model.safetensors"), bytes).unwrap();
    refused(&["-m", folder.to_str().unwrap(), "--prompt-ids", "1"], 1, &["model.safetensors"]);
}

fn edited_config(name: &str, edits: &[(&str, serde_json::Value)]) -> String {
    let folder = copied("pair/target", name);
    let path = folder.join("config.json");
    let mut config: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    for (key, value) in edits {
        config[*key] = value.clone();
    }
    fs::write(path, config.to_string()).unwrap();
    folder.to_str().unwrap().to_owned()
}

#[test]
fn configurations_that_do_not_fit() {
    use serde_json::json;
    let unknown =
        edited_config("unknown_type", &[("model_type", json!("megatron")), ("architectures", json!(["X"]))]);
    refused(&["-m", &unknown, "--prompt-ids", "1"], 4, &["megatron", "llama", "gemma3_text"]);
    let rope =
        edited_config("unknown_rope", &[("rope_scaling", json!({"rope_type": "spiral", "factor": 2.0}))]);
    refused(&["-m", &rope, "--prompt-ids", "1"], 4, &["spiral", "yarn"]);
    for (key, value) in [("factor", json!(0)), ("factor", json!(-4.0)), ("high_freq_factor", json!(0.5))] {
        let mut scaling = json!({"rope_type": "llama3", "factor": 2.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 32});
        scaling[key] = value;
        let folder = edited_config("rope_numbers", &[("rope_scaling", scaling)]);
        refused(&["-m", &folder, "--prompt-ids", "1"], 4, &[key]);
    }
    let experts = edited_config("experts", &[("num_local_experts", json!(8))]);
    refused(&["-m", &experts, "--prompt-ids", "1"], 4, &["num_local_experts"]);
    let act = edited_config("unknown_act", &[("hidden_act", json!("snake"))]);
    refused(&["-m", &act, "--prompt-ids", "1"], 4, &["snake", "silu"]);
    let scheme =
        edited_config("scheme", &[("quantization_config", json!({"quant_method": "gptq", "bits": 4}))]);
    refused(&["-m", &scheme, "--prompt-ids", "1"], 4, &["gptq"]);
    let wide = edited_config("wide", &[("intermediate_size", json!(8192))]);
    let run = refused(&["-m", &wide, "--prompt-ids", "1"], 1, &["gate_proj", "expected [8192"]);
    assert!(run.stderr.lines().count() < 15, "at most ten tensors are listed: {}", run.stderr);
    let deep = edited_config("deep", &[("num_hidden_layers", json!(60))]);
    refused(&["-m", &deep, "--prompt-ids", "1"], 1, &["is missing", "and "]);
    let huge = edited_config("huge", &[("vocab_size", json!(1u64 << 23))]);
    refused(&["-m", &huge, "--prompt-ids", "1"], 1, &["embed_tokens"]);
}

#[test]
fn weights_of_a_type_that_is_not_a_number_format() {
    let folder = copied("pair/target", "integer_weights");
    let path = folder.join("model.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes
        .windows(7)
        .position(|seven| seven == br#""F32","#)
        .or_else(|| bytes.windows(5).position(|five| five == br#""F32""#));
    let at = at.expect("the fixture has a float tensor");
    bytes[at + 1] = b'I';
    fs::write(path, bytes).unwrap();
    refused(&["-m", folder.to_str().unwrap(), "--prompt-ids", "1"], 4, &["I32"]);
}

#[cfg(unix)]
#[test]
fn pipes_are_not_waited_on() {
    let pipe = scratch("pipe").join("model.gguf");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    refused(&["-m", pipe.to_str().unwrap(), "--prompt-ids", "1"], 1, &["not a regular file"]);
}

#[test]
fn generation_settings_that_are_not_ids() {
    for (number, text) in
        ["[]", r#"{"eos_token_id": -3}"#, r#"{"eos_token_id": [1, "x"]}"#].into_iter().enumerate()
    {
        let folder = copied("pair/target", &format!("generation_config_{number}"));
        fs::write(folder.join("generation_config.json"), text).unwrap();
        refused(&["-m", folder.to_str().unwrap(), "--prompt-ids", "1"], 1, &["generation_config.json"]);
    }
}

#[test]
fn tensors_without_a_use_are_not_ignored() {
    let folder = copied("models/llama_biases", "biases_switched_off");
    let path = folder.join("config.json");
    let config =
        fs::read_to_string(&path).unwrap().replace("\"attention_bias\": true", "\"attention_bias\": false");
    fs::write(path, config).unwrap();
    refused(&["-m", folder.to_str().unwrap(), "--prompt-ids", "1"], 1, &["q_proj.bias", "no use"]);
}

#[test]
fn prompts_that_do_not_fit() {
    let small = edited_config("small_context", &[("max_position_embeddings", serde_json::json!(8))]);
    refused(&["-m", &small, "--prompt-ids", "1,2,3,4,5,6,7,8"], 6, &["9 tokens", "holds 8"]);
    let pair = fixture("pair/target");
    refused(&["-m", &pair, "--prompt-ids", "1,2,3,4", "-c", "4"], 6, &["holds 4"]);
}

#[test]
fn pairs_that_do_not_fit() {
    let target = fixture("pair/target");
    // Another number of tokens, and no tokenizer to tell padding from content.
    let other = format!("{}/assets/demo/target", env!("CARGO_MANIFEST_DIR"));
    refused(&["-m", &target, "-d", &other, "--prompt-ids", "1"], 5, &["64", "tokenizers"]);
    // Two tokenizers that disagree.
    let folder = scratch("other_tokenizer");
    let demo = format!("{}/assets/demo/drafter", env!("CARGO_MANIFEST_DIR"));
    for entry in fs::read_dir(&demo).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, folder.join(path.file_name().unwrap())).unwrap();
    }
    let path = folder.join("tokenizer.json");
    let mut tokenizer: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let vocabulary = tokenizer["model"]["vocab"].as_object_mut().unwrap();
    let mut names: Vec<String> = vocabulary.keys().cloned().collect();
    names.sort_by_key(|name| vocabulary[name].as_u64());
    let (a, b) = (vocabulary[&names[50]].clone(), vocabulary[&names[60]].clone());
    vocabulary.insert(names[50].clone(), b);
    vocabulary.insert(names[60].clone(), a);
    fs::write(path, tokenizer.to_string()).unwrap();
    refused(&["-d", folder.to_str().unwrap()], 5, &["2 token ids", "must share a tokenizer"]);
}
