//! What `specdec generate` writes where: formats, events, files, stop strings, interruptions.

use serde_json::Value;

use crate::program::{command, scratch, specdec};

fn events(args: &[&str]) -> Vec<Value> {
    let ran = specdec(&[&["generate", "-q", "--format", "jsonl"], args].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn events_tell_what_the_object_tells() {
    let whole = specdec(&["generate", "-n", "20", "-k", "4", "--format", "json", "--logprobs", "2"]).json();
    let events = events(&["-n", "20", "-k", "4", "--logprobs", "2"]);
    let of = |kind: &str| -> Vec<&Value> { events.iter().filter(|event| event["event"] == kind).collect() };
    assert_eq!((of("start").len(), of("end").len()), (1, 1));
    assert_eq!(events[0]["schema"], "specdec.generate.events/1");
    let ids: Vec<&Value> = of("token").iter().map(|event| &event["token_id"]).collect();
    assert_eq!(ids.into_iter().cloned().collect::<Value>(), whole["token_ids"]);
    let text: String = of("token").iter().map(|event| event["text"].as_str().unwrap()).collect();
    assert_eq!(text, whole["text"]);
    assert_eq!(of("round").len(), whole["stats"]["rounds"]);
    let drafted = of("token").iter().filter(|event| event["source"] == "model").count();
    assert_eq!(drafted, whole["stats"]["accepted"]);
    for (event, logprobs) in of("token").iter().zip(whole["logprobs"].as_array().unwrap()) {
        assert_eq!(event["logprob"], logprobs["logprob"]);
        // Greedy: the token is the likeliest.
        assert_eq!(event["top"][0]["token"], event["token_id"]);
        assert_eq!(event["top"].as_array().unwrap().len(), 2);
    }
    assert_eq!(of("end")[0]["finish_reason"], "length");
}

#[test]
fn scores_are_the_log_probabilities_of_generated_tokens() {
    let args = ["generate", "--drafter", "none", "-n", "12", "--format", "json", "--logprobs", "1"];
    let made = specdec(&args).json();
    let ids: Vec<String> = [&made["prompt_ids"], &made["token_ids"]]
        .iter()
        .flat_map(|ids| ids.as_array().unwrap())
        .map(ToString::to_string)
        .collect();
    let scored = specdec(&["generate", "--score", "--format", "json", "--prompt-ids", &ids.join(",")]).json();
    assert_eq!(scored["schema"], "specdec.score/1");
    let tokens = scored["tokens"].as_array().unwrap();
    let prompt_len = made["prompt_ids"].as_array().unwrap().len();
    for (token, expected) in tokens[prompt_len..].iter().zip(made["logprobs"].as_array().unwrap()) {
        let (found, expected) = (token["logprob"].as_f64().unwrap(), expected["logprob"].as_f64().unwrap());
        assert!((found - expected).abs() < 1e-3, "{found} {expected}");
    }
    let sum: f64 = tokens.iter().filter_map(|token| token["logprob"].as_f64()).sum();
    let perplexity = (-sum / (tokens.len() - 1) as f64).exp();
    assert!((scored["perplexity"].as_f64().unwrap() - perplexity).abs() < 1e-9);
    let text = specdec(&["generate", "--score", "Once upon a time"]);
    assert!(text.code == 0 && text.stdout.contains("\nperplexity "), "{}", text.stdout);
}

#[test]
fn a_stop_string_ends_the_text_before_it() {
    let whole = specdec(&["generate", "-n", "40", "--format", "json"]).json();
    let text = whole["text"].as_str().unwrap();
    // Three letters that no token has to end with.
    for at in [9, 17, 30] {
        let stop = &text[at..at + 3];
        let first = text.find(stop).unwrap();
        for k in ["1", "4", "auto"] {
            let args = ["generate", "-n", "40", "--format", "json", "-k", k, "--stop", "@@", "--stop", stop];
            let cut = specdec(&args).json();
            assert_eq!(cut["text"], text[..first], "{stop:?}");
            assert_eq!((&cut["finish_reason"], &cut["stop_string"]), (&"stop_string".into(), &stop.into()));
            let ids = cut["token_ids"].as_array().unwrap();
            assert_eq!(ids[..], whole["token_ids"].as_array().unwrap()[..ids.len()]);
            assert_eq!(cut["stats"]["emitted"], ids.len());
        }
        let streamed = specdec(&["generate", "-q", "-n", "40", "--stop", stop]);
        assert_eq!(streamed.stdout, text[..first]);
    }
}

#[test]
fn results_and_rounds_go_to_files() {
    let folder = scratch("output_files");
    let (text, trace) = (folder.join("text.txt"), folder.join("rounds.jsonl"));
    std::fs::write(&text, "what was there before, longer than what comes".repeat(9)).unwrap();
    let paths = [text.to_str().unwrap(), trace.to_str().unwrap()];
    // A run that fails leaves the file as it was.
    assert_ne!(specdec(&["generate", "-m", "/no/such/model", "-p", "x", "-o", paths[0]]).code, 0);
    assert!(std::fs::read_to_string(&text).unwrap().starts_with("what was there"));
    let ran = specdec(&["generate", "-q", "-n", "12", "-o", paths[0], "--trace", paths[1]]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""));
    assert_eq!(std::fs::read_to_string(&text).unwrap(), specdec(&["generate", "-q", "-n", "12"]).stdout);
    let rounds = std::fs::read_to_string(&trace).unwrap();
    let emitted: u64 = rounds
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["emitted"].as_u64().unwrap())
        .sum();
    assert_eq!(emitted, 12);
    assert_eq!(specdec(&["generate", "-n", "1", "-o", folder.to_str().unwrap()]).code, 1);
}

#[test]
fn accepted_tokens_are_painted_where_colours_show() {
    let run = |force: Option<&str>, no_color: Option<&str>| {
        let mut command = command(&["generate", "-q", "-n", "20", "-k", "4", "--color-source"]);
        command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
        for (name, value) in [("CLICOLOR_FORCE", force), ("NO_COLOR", no_color)] {
            if let Some(value) = value {
                command.env(name, value);
            }
        }
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    assert!(run(Some("1"), None).contains("\x1b[32m"));
    assert!(!run(None, None).contains('\x1b'), "not in a pipe");
    assert!(!run(Some("1"), Some("1")).contains('\x1b'), "NO_COLOR wins");
}

#[test]
fn speculative_sampling_repeats_with_its_seed_and_draft_length() {
    let run = |seed: &str, k: &str| {
        let args = [
            "generate",
            "-q",
            "-n",
            "40",
            "--temp",
            "1.0",
            "--top-p",
            "0.9",
            "--accept",
            "speculative-sampling",
        ];
        specdec(&[&args[..], &["--seed", seed, "-k", k]].concat()).stdout
    };
    assert_eq!(run("5", "3"), run("5", "3"));
    assert_ne!(run("5", "3"), run("6", "3"));
}

#[test]
fn recommended_sampling_is_what_the_model_says() {
    let model = crate::program::copied("pair/target", "recommended");
    let recommendation =
        r#"{"do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "eos_token_id": 2}"#;
    std::fs::write(model.join("generation_config.json"), recommendation).unwrap();
    let args =
        ["generate", "-m", model.to_str().unwrap(), "-n", "2", "--prompt-ids", "5,6", "--format", "json"];
    let settings = |more: &[&str]| specdec(&[&args[..], more].concat()).json()["settings"].clone();
    let plain = settings(&[]);
    assert_eq!((&plain["temperature"], &plain["top_k"]), (&0.0.into(), &0.into()));
    let recommended = settings(&["--sampling", "recommended", "--top-p", "0.5"]);
    let expected = (&0.6.into(), &20.into(), &0.5.into());
    assert_eq!((&recommended["temperature"], &recommended["top_k"], &recommended["top_p"]), expected);
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_ends_after_its_round_with_figures() {
    use std::io::Read;
    use std::process::Stdio;
    for signal in ["-INT", "-TERM"] {
        let mut child = command(&["generate", "-n", "900", "--ignore-eos", "--format", "jsonl"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let mut first = [0; 4096];
        let len = stdout.read(&mut first).unwrap();
        let killed = std::process::Command::new("kill").args([signal, &child.id().to_string()]).status();
        assert!(killed.unwrap().success());
        let mut rest = String::new();
        stdout.read_to_string(&mut rest).unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(130), "{signal}");
        let all = String::from_utf8_lossy(&first[..len]).into_owned() + &rest;
        let end: Value = serde_json::from_str(all.lines().last().unwrap()).unwrap();
        assert_eq!((&end["event"], &end["finish_reason"]), (&"end".into(), &"interrupted".into()));
        let emitted = end["stats"]["emitted"].as_u64().unwrap();
        assert_eq!(all.lines().filter(|line| line.contains("\"event\":\"token\"")).count() as u64, emitted);
        assert!(emitted < 900);
    }
}

#[test]
fn flags_of_output_without_effect_are_errors() {
    for args in [
        &["--logprobs", "2"][..],
        &["--rounds"],
        &["--rounds", "--format", "jsonl"],
        &["--color-source", "--format", "json"],
        &["--color-source", "--drafter", "ngram", "--format", "jsonl"],
        &["-k", "many"],
        &["-k", "-1"],
        &["--draft-p-min", "1.5"],
        &["--draft-p-min", "0.5", "--drafter", "ngram"],
        &["--top-p", "1.5"],
        &["--min-p", "-0.1"],
        &["--typical-p", "nan"],
        &["--repetition-penalty", "0"],
        &["--frequency-penalty", "inf"],
        &["--logit-bias", "5"],
        &["--logit-bias", "5=nan"],
        &["--score", "--stop", "x"],
        &["--print-prompt", "--score"],
    ] {
        let ran = specdec(&[&["generate", "-n", "2", "-p", "Once upon"], args].concat());
        assert_eq!(ran.code, 2, "{args:?}: {}", ran.stderr);
        assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
    }
}
