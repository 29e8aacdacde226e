//! `specdec generate` on the demo and on tiny checkpoints.

use std::io::Read;
use std::process::Stdio;

use crate::program::{command, fixture, specdec};

const IDS: &str = "5,9,12,30,7,5,9,12";

#[test]
fn the_demo_runs_with_nothing() {
    let run = specdec(&["generate", "-n", "40"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stdout.len() > 60, "{}", run.stdout);
    for expected in
        ["target: demo target: GQA", "drafter: demo drafter: MQA", "acceptance length (tau)", "decode"]
    {
        assert!(run.stderr.contains(expected), "`{expected}` in {}", run.stderr);
    }
    let plain = specdec(&["generate", "-n", "40", "--drafter", "none"]);
    assert_eq!(plain.stdout, run.stdout);
    assert!(!plain.stderr.contains("drafter:"), "a drafter that is not used is not loaded");
}

#[test]
fn quiet_prints_only_the_text() {
    let run = specdec(&["generate", "-q", "-n", "10"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert!(!run.stdout.is_empty());
}

#[test]
fn the_same_seed_gives_the_same_text_with_every_drafter() {
    for temperature in ["0", "0.8"] {
        let base =
            ["generate", "-q", "-n", "60", "--temp", temperature, "--seed", "7", "-p", "One day, a girl"];
        let plain = specdec(&[&base[..], &["--drafter", "none"]].concat());
        assert_eq!(plain.code, 0, "{}", plain.stderr);
        for drafter in ["model", "ngram", "ngram+model"] {
            for k in ["1", "4", "9"] {
                let run = specdec(&[&base[..], &["--drafter", drafter, "-k", k]].concat());
                assert_eq!(
                    run.stdout, plain.stdout,
                    "{drafter} with -k {k} at {temperature}: {}",
                    run.stderr
                );
            }
        }
    }
}

#[test]
fn json_has_the_documented_fields_and_figures_agree() {
    let (target, drafter) = (fixture("pair/target"), fixture("pair/drafter"));
    let run = specdec(&[
        "generate",
        "-m",
        &target,
        "-d",
        &drafter,
        "--prompt-ids",
        IDS,
        "-n",
        "50",
        "--ignore-eos",
        "--format",
        "json",
        "--rounds",
        "-k",
        "3",
    ]);
    let json = run.json();
    assert_eq!(json["schema"], "specdec.generate/1");
    assert_eq!(json["prompt_ids"], serde_json::json!([5, 9, 12, 30, 7, 5, 9, 12]));
    assert_eq!(json["token_ids"].as_array().unwrap().len(), 50);
    assert_eq!(json["finish_reason"], "length");
    assert!(json["text"].is_null(), "without a tokenizer there is no text");
    for (model, path) in [("target", &target), ("drafter", &drafter)] {
        assert_eq!(json[model]["path"], path.as_str());
        for field in ["class", "format", "device"] {
            assert!(json[model][field].as_str().is_some_and(|text| !text.is_empty()), "{model}.{field}");
        }
        assert!(json[model].as_object().unwrap().contains_key("revision"));
    }
    assert_eq!(json["settings"]["drafter"], "model");
    assert_eq!(json["settings"]["num_draft_tokens"], 3);

    let rounds = json["rounds"].as_array().unwrap();
    let sum = |field: &str| rounds.iter().map(|round| round[field].as_u64().unwrap()).sum::<u64>();
    let stats = &json["stats"];
    assert_eq!(stats["rounds"], rounds.len());
    assert_eq!(stats["emitted"], sum("emitted"));
    assert_eq!(stats["accepted"], sum("accepted"));
    let drafted: usize = rounds.iter().map(|round| round["draft"].as_array().unwrap().len()).sum();
    assert_eq!(stats["drafted"].as_u64().unwrap() + stats["discarded"].as_u64().unwrap(), drafted as u64);
    let tau = stats["acceptance_length"].as_f64().unwrap();
    let by_position = stats["acceptance_by_position"].as_array().unwrap();
    let sum: f64 = by_position.iter().map(|rate| rate.as_f64().unwrap()).sum();
    assert!((tau - 1.0 - sum).abs() < 1e-9);
}

#[test]
fn a_model_that_drafts_for_itself_accepts_everything() {
    let target = fixture("pair/target");
    for temperature in ["0", "1.2"] {
        let run = specdec(&[
            "generate",
            "-m",
            &target,
            "-d",
            &target,
            "--prompt-ids",
            IDS,
            "--ignore-eos",
            "--temp",
            temperature,
            "--seed",
            "3",
            "--format",
            "json",
        ]);
        assert_eq!(run.json()["stats"]["acceptance_rate"], 1.0);
    }
}

#[test]
fn without_drafts_rates_are_null() {
    let target = fixture("pair/target");
    let run = specdec(&["generate", "-m", &target, "--prompt-ids", IDS, "--ignore-eos", "--format", "json"]);
    let stats = &run.json()["stats"];
    for field in ["acceptance_rate", "acceptance_length"] {
        assert!(stats[field].is_null(), "{field}");
    }
    assert_eq!(stats["tokens_per_pass"], 1.0);
}

#[test]
fn a_checkpoint_without_tokenizer_prints_ids() {
    let target = fixture("pair/target");
    let run = specdec(&["generate", "-q", "-m", &target, "--prompt-ids", IDS, "--ignore-eos", "-n", "6"]);
    let ids: Vec<u32> = run.stdout.split(' ').map(|id| id.parse().unwrap()).collect();
    assert_eq!(ids.len(), 6, "{}", run.stdout);
}

#[test]
fn every_container_loads() {
    for model in [
        "models/llama_sharded",
        "models/llama_pickle",
        "gguf/llama_f16.gguf",
        "gguf/llama_split-00001-of-00002.gguf",
    ] {
        let run = specdec(&[
            "generate",
            "-m",
            &fixture(model),
            "--prompt-ids",
            "1,2,3",
            "-n",
            "4",
            "--format",
            "json",
        ]);
        assert_eq!(run.code, 0, "{model}: {}", run.stderr);
    }
}

#[test]
fn types_and_quantisation_take_effect() {
    let target = fixture("models/llama_gqa");
    let format = |flags: &[&str]| {
        let base = ["generate", "-m", &target, "--prompt-ids", "1,2,3", "-n", "4", "--format", "json"];
        specdec(&[&base[..], flags].concat()).json()["target"]["format"].as_str().unwrap().to_owned()
    };
    assert_eq!(format(&[]), "safetensors F32");
    assert_eq!(format(&["--dtype", "bf16"]), "safetensors F32 as BF16");
    assert_eq!(format(&["--dtype", "f16"]), "safetensors F32 as F16");
    assert!(format(&["--quant", "q8_0"]).contains("F32 as Q8_0"));
}

#[test]
fn a_seed_nobody_chose_is_reported_and_repeats() {
    let base = ["generate", "-n", "30", "--temp", "1.5", "--format", "json"];
    let first = specdec(&base).json();
    let seed = first["seed"].as_u64().unwrap().to_string();
    let again = specdec(&[&base[..], &["--seed", &seed]].concat()).json();
    assert_eq!(first["token_ids"], again["token_ids"]);
}

#[test]
fn a_reader_that_has_seen_enough_is_not_an_error() {
    for format in ["text", "json"] {
        let mut child = command(&["generate", "-n", "200", "--ignore-eos", "--format", format])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = child.stdout.take().unwrap();
        if format == "text" {
            out.read_exact(&mut [0]).unwrap();
        }
        drop(out);
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{format}: {stderr}");
        assert!(!stderr.contains("error") && !stderr.contains("panicked"), "{format}: {stderr}");
    }
}

#[test]
fn help_says_how_to_start_and_what_codes_mean() {
    let run = specdec(&["generate", "--help"]);
    assert_eq!(run.code, 0);
    for expected in ["Examples:", "--num-draft-tokens", "ngram+model", "Exit codes:", "tau = 1 +"] {
        assert!(run.stdout.contains(expected), "{expected}");
    }
    assert_eq!(specdec(&["--version"]).stdout, format!("specdec {}\n", env!("CARGO_PKG_VERSION")));
}
