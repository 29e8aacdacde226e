//! `specdec inspect-config` as a shell sees it: what stands on which stream, and with which exit code.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use crate::program::{Ran, command, fixture, scratch, specdec};

fn inspect(args: &[&str]) -> Ran {
    // Nobody's cache may answer instead of the built-in table.
    let all = [&["inspect-config"], args].concat();
    let output = command(&all).env("HF_HUB_CACHE", "/nonexistent").output().expect("the program starts");
    Ran {
        code: output.status.code().expect("it was not killed"),
        stdout: String::from_utf8(output.stdout).expect("standard output is UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("standard error is UTF-8"),
    }
}

fn written(folder: &Path, name: &str, content: impl AsRef<[u8]>) -> String {
    let path = folder.join(name);
    std::fs::write(&path, content).expect("the folder is writable");
    path.to_str().expect("the path is UTF-8").to_owned()
}

fn model(ran: &Ran, index: usize) -> Value {
    ran.json()["models"][index].clone()
}

/// Cases of one kind beside the repository, empty where they are not there.
fn shared(file: &str) -> Vec<Value> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/configs").join(file);
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("a case is JSON")).collect()
}

#[test]
fn one_model_is_an_account() {
    let ran = inspect(&["meta-llama/Llama-3.1-8B", "--ctx", "4k,128k"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let wanted = "\
meta-llama/Llama-3.1-8B
GQA 4:1 (32 query / 8 KV heads, head_dim 128), 32 layers
design: softmax attention (a refinement inside the Transformer family)

layers, from 0
  0-31   32 x full, GQA, 32 query / 8 KV heads, head_dim 128

KV cache in bf16, one sequence
  per token  32 layers x 8 KV heads x (128 + 128) x 2 bytes = 128 KiB
  context   needed  reserved  as MHA
    4,096  512 MiB   512 MiB   2 GiB
  131,072   16 GiB    16 GiB  64 GiB
  4 times smaller than with a K/V head for every query head (MHA)

weights  8.03 B parameters, 14.96 GiB (counted from the configuration)

speculative decoding
  a drafter          no: a model of its own
  drafts for itself  none
  vocabulary         128,256 rows
  takes drafts back  yes: rejected rows are cut off
";
    assert!(ran.stdout.starts_with(wanted), "{}", ran.stdout);
    assert!(
        ran.stdout.contains("assumed  head_dim             128      width / query heads"),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains("not the model itself"), "{}", ran.stdout);
}

#[test]
fn designs_without_attention_are_told_apart() {
    for (id, wanted) in [
        ("state-spaces/mamba-130m-hf", "design: no attention: recurrent (Mamba, a state-space model)"),
        ("RWKV/rwkv-6-world-1b6", "design: no attention: recurrent (RWKV)"),
        (
            "Qwen/Qwen3-Next-80B-A3B-Instruct",
            "softmax attention in 12 of 48 layers, recurrent (gated DeltaNet) in 36",
        ),
        ("deepseek-ai/DeepSeek-V3", "design: softmax attention (a refinement inside the Transformer family)"),
    ] {
        let ran = inspect(&[id]);
        assert!(ran.stdout.contains(wanted), "{}", ran.stdout);
    }
}

#[test]
fn the_exercise_needs_no_argument() {
    let ran = inspect(&[]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for word in ["Llama-3.1-8B", "Qwen3-8B", "DeepSeek-V3", "Notice:", "128 KiB", "144 KiB", "68.62 KiB"] {
        assert!(ran.stdout.contains(word), "{word} is not in\n{}", ran.stdout);
    }
}

#[test]
fn evidence_says_what_was_ignored_and_not_understood() {
    let folder = scratch("inspect-evidence");
    let path = written(
        &folder,
        "config.json",
        r#"{"model_type": "qwen2", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "hidden_act": "silu",
            "num_key_value_heads": 2, "sliding_window": 32768, "use_sliding_window": false, "attention_sink_size": 4}"#,
    );
    let short = inspect(&[&path]).stdout;
    assert!(
        short.contains("ignored  sliding_window") && short.contains("use_sliding_window is false"),
        "{short}"
    );
    assert!(short.contains("not understood, and may matter: attention_sink_size"), "{short}");
    assert!(!short.contains("model width"), "{short}");
    let all = inspect(&[&path, "--explain"]).stdout;
    assert!(all.contains("model width") && all.contains("hidden_act"), "{all}");
}

#[test]
fn needed_and_reserved_differ_where_windows_are() {
    let ran = inspect(&[
        "google/gemma-3-27b-it",
        "--ctx",
        "32k",
        "--format",
        "json",
        "--kv-type",
        "q8_0",
        "--batch",
        "2",
    ]);
    let model = model(&ran, 0);
    let row = 16_u64 * 256 * 34 / 32;
    assert_eq!(model["kv_bytes_needed"]["32768"], 2 * row * (10 * 32_768 + 52 * 1024));
    assert_eq!(model["kv_bytes_reserved"]["32768"], 2 * row * 62 * 32_768);
    // This field is bf16 and one sequence whatever was asked.
    assert_eq!(model["kv_bytes_at_bf16"]["32768"], 16_u64 * 256 * 2 * (10 * 32_768 + 52 * 1024));
}

#[test]
fn layers_are_listed_one_by_one() {
    let ran = inspect(&["google/gemma-3-1b-it", "--layers"]);
    assert!(ran.stdout.contains("\n     5  full, MQA"), "{}", ran.stdout);
    assert!(ran.stdout.contains("\n     4  sliding window 512, MQA"), "{}", ran.stdout);
    let list =
        model(&inspect(&["google/gemma-3-1b-it", "--layers", "--format", "json"]), 0)["layer_list"].clone();
    assert_eq!((list.as_array().map(Vec::len), &list[5]["mask"]), (Some(26), &"full".into()));
}

#[test]
fn a_shell_gets_single_values_and_gates() {
    let value = inspect(&["gpt2", "Qwen/Qwen3-8B", "--get", "attention"]);
    assert_eq!((value.code, value.stdout.as_str()), (0, "MHA\nGQA\n"));
    assert_eq!(inspect(&["gpt2", "--get", "latent_dim"]).stdout, "null\n");
    assert_eq!(inspect(&["Qwen/Qwen3-8B", "--ctx", "1", "--get", "kv_bytes_needed.1"]).stdout, "147456\n");
    let unknown = inspect(&["gpt2", "--get", "atention"]);
    assert_eq!((unknown.code, unknown.stdout.as_str()), (2, ""));
    assert_eq!(inspect(&["Qwen/Qwen3-8B", "--require", "gqa"]).code, 0);
    let gate = inspect(&["Qwen/Qwen3-8B", "gpt2", "--require", "gqa", "--get", "layers"]);
    assert_eq!((gate.code, gate.stdout.as_str()), (8, "36\n12\n"));
    assert!(gate.stderr.contains("`gpt2` does not meet --require gqa: MHA"), "{}", gate.stderr);
}

#[test]
fn one_bad_model_does_not_hide_the_others() {
    let folder = scratch("inspect-several");
    let broken = written(&folder, "broken.json", "{\"model_type\": ");
    let unknown = written(&folder, "unknown.json", "{\"model_type\": \"never_heard_of\"}");
    for (args, code) in
        [([broken.as_str(), "gpt2", unknown.as_str()], 1), ([unknown.as_str(), "gpt2", broken.as_str()], 4)]
    {
        let ran = inspect(&args);
        assert_eq!(ran.code, code, "{}", ran.stderr);
        assert!(ran.stdout.starts_with("gpt2\nMHA"), "{}", ran.stdout);
        assert_eq!(ran.stderr.matches("error: ").count(), 2, "{}", ran.stderr);
    }
    let ran = inspect(&[&broken, "gpt2", "--format", "json"]);
    let document: Value = serde_json::from_str(&ran.stdout).expect("it is JSON whatever failed");
    assert_eq!((ran.code, &document["schema"]), (1, &"specdec.inspect-config/1".into()));
    assert_eq!(document["models"][0]["error"]["exit_code"], 1);
    assert!(document["models"][0].get("layers").is_none() && document["models"][1].get("error").is_none());
}

#[test]
fn what_is_not_here_says_where_it_was_looked_for() {
    let ran = inspect(&["nobody/nothing"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (3, ""));
    assert!(ran.stderr.contains("not in the local cache") && ran.stderr.contains("hint: "), "{}", ran.stderr);
    assert_eq!(inspect(&["gpt2@v2"]).code, 3, "the table knows no revisions");
    assert_eq!(inspect(&["./nothing"]).code, 3);
    assert_eq!(inspect(&["missing.gguf"]).code, 3);
}

#[test]
fn the_cache_of_the_hub_answers_first() {
    let cache = scratch("inspect-cache");
    let model = cache.join("models--openai-community--gpt2");
    std::fs::create_dir_all(model.join("snapshots/0123abc")).unwrap();
    std::fs::create_dir_all(model.join("refs")).unwrap();
    std::fs::write(model.join("refs/main"), "0123abc").unwrap();
    written(&model.join("snapshots/0123abc"), "config.json", r#"{"model_type": "gpt2", "n_layer": 3}"#);
    let run = |name: &str| {
        let mut command = command(&["inspect-config", name, "--format", "json"]);
        let output = command.env("HF_HUB_CACHE", &cache).output().unwrap();
        serde_json::from_slice::<Value>(&output.stdout).unwrap()["models"][0].clone()
    };
    for name in ["openai-community/gpt2", "openai-community/gpt2@0123abc", "openai-community/gpt2@main"] {
        let found = run(name);
        assert_eq!((&found["layers"], &found["revision"]), (&3.into(), &"0123abc".into()), "{name}: {found}");
        assert_eq!(found["origin"]["kind"], "cache");
    }
}

#[test]
fn standard_input_may_be_either_format() {
    let gguf = std::fs::read(fixture("gguf/llama_f16.gguf")).unwrap();
    let json = br#"{"model_type": "mistral", "num_hidden_layers": 2}"#.to_vec();
    for (input, wanted) in [(gguf, "GQA 2:1"), (json, "GQA 4:1")] {
        let mut command = command(&["inspect-config", "-", "--get", "headline"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // The program stops reading where the header ends.
        let _ = child.stdin.take().unwrap().write_all(&input);
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && text.starts_with(wanted), "{text}");
    }
    assert_eq!(inspect(&["-", "-"]).code, 2);
}

#[test]
fn weights_are_counted_where_they_lie() {
    let folder = model(&inspect(&[&fixture("models/llama_gqa"), "--format", "json"]), 0);
    assert_eq!(folder["weights"]["source"], "safetensors-headers");
    let counted = written(
        &scratch("inspect-counted"),
        "config.json",
        std::fs::read(fixture("models/llama_gqa/config.json")).unwrap(),
    );
    let counted = model(&inspect(&[&counted, "--format", "json"]), 0);
    assert_eq!(counted["weights"]["source"], "configuration");
    assert_eq!(folder["weights"]["parameters"], counted["weights"]["parameters"]);
    let gguf = model(&inspect(&[&fixture("gguf/qwen2_q8_0.gguf"), "--format", "json"]), 0);
    assert_eq!(gguf["weights"]["source"], "gguf-header");
    let parts = model(&inspect(&[&fixture("gguf/llama_split-00001-of-00002.gguf"), "--format", "json"]), 0);
    assert!(parts["weights"]["bytes"].as_u64() > Some(0), "{parts}");
}

#[test]
fn what_fits_is_said_and_what_does_not_fails() {
    let ran = inspect(&["meta-llama/Llama-3.1-8B", "--fits", "24GiB", "--ctx", "8k", "--format", "json"]);
    let fits = &model(&ran, 0)["fits"];
    // 24 GiB - 2 x 8,030,261,248 bytes of weights, at 128 KiB per token.
    let free = (24_u64 << 30) - 2 * 8_030_261_248;
    assert_eq!(fits["free_bytes"], free);
    assert_eq!(fits["longest_needed"]["context"], free / (128 << 10));
    assert_eq!(fits["longest_needed"]["limit"], "memory");
    assert_eq!(fits["largest_batch"][0]["needed"], free / (8192 * (128 << 10)));
    let over = inspect(&["meta-llama/Llama-3.3-70B-Instruct", "--fits", "24GiB"]);
    assert_eq!(over.code, 6, "{}", over.stderr);
    let unknown = inspect(&["state-spaces/mamba-130m-hf", "--fits", "24GiB"]);
    assert_eq!(unknown.code, 4);
    assert!(unknown.stderr.contains("size of its weights is unknown"), "{}", unknown.stderr);
}

#[test]
fn two_models_get_a_verdict() {
    let (target, drafter) = (fixture("pair/target"), fixture("pair/drafter"));
    let ran = inspect(&[&drafter, &target, "--format", "json"]);
    let pair = &ran.json()["pair"];
    assert_eq!((&pair["verdict"], &pair["target"]), (&"can".into(), &target.into()), "{pair}");
    let other = inspect(&["Qwen/Qwen3-0.6B", "meta-llama/Llama-3.1-8B"]);
    assert!(other.stdout.contains("cannot draft for meta-llama/Llama-3.1-8B, because"), "{}", other.stdout);
    assert_eq!(inspect(&["Qwen/Qwen3-0.6B", "meta-llama/Llama-3.1-8B", "--require", "pair"]).code, 8);
}

#[test]
fn vocabularies_are_compared_by_content() {
    let folder = scratch("inspect-vocabularies");
    let config = r#"{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": LAYERS,
        "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": ROWS}"#;
    let made = |name: &str, layers: &str, rows: &str, vocabulary: &str| {
        let folder = folder.join(name);
        std::fs::create_dir_all(&folder).unwrap();
        written(&folder, "config.json", config.replace("LAYERS", layers).replace("ROWS", rows));
        written(
            &folder,
            "tokenizer.json",
            format!(r#"{{"model": {{"type": "BPE", "vocab": {vocabulary}}}}}"#),
        );
        folder.to_str().unwrap().to_owned()
    };
    let target = made("target", "8", "16", r#"{"a": 0, "b": 1, "c": 2}"#);
    let padded = made("padded", "2", "8", r#"{"a": 0, "b": 1, "c": 2}"#);
    let foreign = made("foreign", "2", "16", r#"{"a": 0, "c": 1, "b": 2}"#);
    let fits = inspect(&[&target, &padded]).stdout;
    assert!(
        fits.contains("can draft for") && fits.contains("the 3 token ids that both have mean the same"),
        "{fits}"
    );
    assert!(fits.contains("3 tokens + 13 of padding"), "{fits}");
    let refused = inspect(&[&target, &foreign]).stdout;
    let refused = refused.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        refused.contains("2 token ids mean different tokens: 1 is `b` and `c`; 2 is `c` and `b`"),
        "{refused}"
    );
}

#[test]
fn machine_formats_lose_nothing() {
    let lines = inspect(&["gpt2", "tiiuae/falcon-7b", "--format", "jsonl"]).stdout;
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["attention"], &lines[1]["attention"]), (&"MHA".into(), &"MQA".into()));
    assert_eq!(lines[2]["pair"]["verdict"], "undetermined");
    let csv = inspect(&["gpt2", "tiiuae/falcon-7b", "--format", "csv"]).stdout;
    let rows: Vec<&str> = csv.split("\r\n").collect();
    assert!(rows[0].starts_with("id,revision,") && rows[1].starts_with("gpt2,"), "{csv}");
    let markdown = inspect(&["gpt2", "tiiuae/falcon-7b", "--format", "markdown"]).stdout;
    assert!(markdown.contains("| **attention** | MHA (12 heads, head\\_dim 64), 12 layers |"), "{markdown}");
}

#[test]
fn a_picture_is_written_where_it_was_asked_for() {
    let path = scratch("inspect-plot").join("kv.svg");
    let ran =
        inspect(&["gpt2", "google/gemma-3-27b-it", "--plot", path.to_str().unwrap(), "--get", "layers"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "12\n62\n"));
    let svg = std::fs::read_to_string(path).unwrap();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && svg.contains("gemma-3-27b-it"), "{svg}");
    assert_eq!(inspect(&["gpt2", "--plot", "/nonexistent/kv.svg"]).code, 3);
}

#[test]
fn flags_that_cannot_be_used_are_refused() {
    for args in [
        ["gpt2", "--ctx", "4q"],
        ["gpt2", "--fits", "24"],
        ["gpt2", "--batch", "0"],
        ["gpt2", "--kv-type", "q3"],
        ["gpt2", "--require", "pair"],
        ["gpt2", "--format", "yaml"],
    ] {
        let ran = inspect(&args);
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{args:?}");
    }
}

#[test]
fn no_name_can_steer_a_terminal() {
    let folder = scratch("inspect-escapes");
    let path = written(
        &folder,
        "config.json",
        "{\"model_type\": \"x\\u001b[2J\", \"num_hidden_layers\": \"\\u001b[31m\"}",
    );
    for args in
        [vec![path.as_str()], vec![path.as_str(), "--format", "csv"], vec![path.as_str(), "--format", "json"]]
    {
        let ran = inspect(&args);
        assert!(
            !ran.stdout.contains('\u{1b}') && !ran.stderr.contains('\u{1b}'),
            "{}{}",
            ran.stdout,
            ran.stderr
        );
    }
}

#[test]
fn shared_cases_through_the_program() {
    let folder = scratch("inspect-shared");
    for (index, case) in shared("cases.jsonl").iter().filter(|case| case["format"].is_null()).enumerate() {
        let text = case["config_text"].as_str().map_or_else(|| case["config"].to_string(), str::to_owned);
        let path = written(&folder, &format!("{index}.json"), text);
        let expect = case["expect"].as_object().unwrap();
        let contexts = expect.get("kv_bytes_at_bf16").and_then(Value::as_object);
        let contexts: Vec<&str> =
            contexts.map(|at| at.keys().map(String::as_str).collect()).unwrap_or_default();
        let contexts = contexts.join(",");
        let mut args = vec![path.as_str(), "--format", "json"];
        if !contexts.is_empty() {
            args.extend(["--ctx", &contexts]);
        }
        let model = model(&inspect(&args), 0);
        for (key, wanted) in expect {
            assert_eq!(model.get(key).unwrap_or(&Value::Null), wanted, "{}: {key}", case["id"]);
        }
    }
}

#[test]
fn a_closed_pipe_is_quiet() {
    let mut child = command(&["inspect-config", "--format", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert_eq!(specdec(&["inspect-config", "-h"]).code, 0);
}
