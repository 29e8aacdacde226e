//! Where prompts come from, and what chat templates make of them.

use std::io::Write;
use std::process::Stdio;

use crate::program::{command, copied, fixture, scratch, specdec};

const TEMPLATE: &str = "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}\n{% endfor %}\
    {% if mood %}({{ mood }}){% endif %}{% if add_generation_prompt %}[assistant]{% endif %}";

/// The ids of a run of one token.
fn prompt_ids(args: &[&str]) -> serde_json::Value {
    specdec(&[&["generate", "-n", "1", "--format", "json"], args].concat()).json()["prompt_ids"].clone()
}

/// Runs with `input` on standard input.
fn piped(args: &[&str], input: &[u8]) -> (i32, String, String) {
    let mut child = command(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let _ = child.stdin.take().expect("it was piped").write_all(input);
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
    (output.status.code().expect("it was not killed"), text(output.stdout), text(output.stderr))
}

#[test]
fn every_source_of_one_text_is_the_same_prompt() {
    let file = scratch("prompt_sources").join("prompt.txt");
    std::fs::write(&file, "Once upon a time").unwrap();
    let expected = prompt_ids(&["Once upon a time"]);
    assert_eq!(prompt_ids(&["-p", "Once upon a time"]), expected);
    assert_eq!(prompt_ids(&["-f", file.to_str().unwrap()]), expected);
    for args in
        [&["generate", "-n", "1", "--format", "json", "-"][..], &["generate", "-n", "1", "--format", "json"]]
    {
        let (code, stdout, stderr) = piped(args, b"Once upon a time");
        assert_eq!(code, 0, "{stderr}");
        let report: serde_json::Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(report["prompt_ids"], expected);
    }
}

#[test]
fn prompts_that_are_no_text_are_errors() {
    let (code, _, stderr) = piped(&["generate"], b"\xff\xfe broken");
    assert_eq!(code, 1);
    assert!(stderr.contains("not UTF-8"), "{stderr}");
    let (code, _, stderr) = piped(&["generate"], b"");
    assert_eq!(code, 2);
    assert!(stderr.contains("it is empty"), "{stderr}");
    assert_eq!(specdec(&["generate", "-f", "/no/such/file"]).code, 3);
    assert_eq!(specdec(&["generate", "-f", env!("CARGO_MANIFEST_DIR")]).code, 1);
}

#[test]
fn a_file_of_prompts_gives_a_line_each_in_order() {
    let file = scratch("prompt_lines").join("prompts.jsonl");
    let long = "word ".repeat(2000);
    let lines = format!(
        "{{\"prompt\": \"Once\", \"id\": \"a\"}}\n\n{{\"prompt\": \"{long}\", \"id\": 2}}\n{{\"prompt\": \"A cat\"}}\n"
    );
    std::fs::write(&file, lines).unwrap();
    let ran = specdec(&["generate", "-q", "-n", "3", "--prompts", file.to_str().unwrap()]);
    assert_eq!(ran.code, 6, "the first failure's code: {}", ran.stderr);
    let found: Vec<serde_json::Value> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(found.len(), 3);
    assert_eq!((&found[0]["id"], &found[1]["id"]), (&"a".into(), &2.into()));
    assert!(found[1]["error"].as_str().unwrap().contains("tokens are needed"));
    assert_eq!(found[2]["token_ids"].as_array().unwrap().len(), 3);
    assert_eq!(found[0]["prompt_ids"], prompt_ids(&["Once"]));

    for (line, problem) in
        [("[]", "not a JSON object"), ("{}", "neither"), ("{\"prompt\": 3}", "not a text"), ("x", "expected")]
    {
        std::fs::write(&file, format!("{{\"prompt\": \"a\"}}\n{line}\n")).unwrap();
        let ran = specdec(&["generate", "--prompts", file.to_str().unwrap()]);
        assert_eq!(ran.code, 1);
        assert!(ran.stderr.contains("line 2") && ran.stderr.contains(problem), "{}", ran.stderr);
    }
}

#[test]
fn instruct_checkpoints_use_their_template() {
    let model = copied("pair/target", "with_template");
    std::fs::write(model.join("chat_template.jinja"), TEMPLATE).unwrap();
    // The tokenizer of the demo, whose texts the small target's vocabulary need not know: only the prompt
    // is looked at.
    for name in ["tokenizer.json", "tokenizer_config.json"] {
        let demo = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/demo/target");
        std::fs::copy(demo.join(name), model.join(name)).unwrap();
    }
    let model = model.to_str().unwrap();
    let print = |args: &[&str]| {
        specdec(&[&["generate", "-m", model, "--print-prompt", "--format", "json"], args].concat()).json()
    };
    let rendered = print(&["Hi"]);
    let bos = rendered["prompt"].as_str().unwrap().split('[').next().unwrap().to_owned();
    assert_eq!(rendered["prompt"], format!("{bos}[user]Hi\n[assistant]"));
    let ids = rendered["prompt_ids"].as_array().unwrap();
    assert!(ids.len() < 2 || ids[0] != ids[1], "never two BOS: {ids:?}");
    assert_eq!(
        print(&["--system", "Be brief.", "Hi"])["prompt"],
        format!("{bos}[system]Be brief.\n[user]Hi\n[assistant]")
    );
    assert_eq!(
        print(&["--chat-template-kwargs", "{\"mood\": \"calm\"}", "Hi"])["prompt"],
        format!("{bos}[user]Hi\n(calm)[assistant]")
    );
    assert_eq!(print(&["--raw", "Hi"])["prompt"], "Hi");

    let folder = scratch("messages");
    let messages = folder.join("messages.json");
    let conversation = r#"[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Well,"}]"#;
    std::fs::write(&messages, conversation).unwrap();
    let continued = print(&["--messages", messages.to_str().unwrap()]);
    assert_eq!(continued["prompt"], format!("{bos}[user]Hi\n[assistant]Well,"), "the answer goes on");

    let other = folder.join("other.jinja");
    std::fs::write(&other, "{{ raise_exception('only cats') }}").unwrap();
    let refused = specdec(&[
        "generate",
        "-m",
        model,
        "--chat-template",
        other.to_str().unwrap(),
        "--print-prompt",
        "Hi",
    ]);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("only cats") && refused.stderr.contains("--raw"), "{}", refused.stderr);
}

#[test]
fn template_flags_without_a_template_are_errors() {
    let model = fixture("pair/target");
    for flags in [&["--system", "x"][..], &["--chat-template-kwargs", "{}"]] {
        let ran = specdec(&[&["generate", "-m", &model, "--print-prompt", "-p", "Hi"], flags].concat());
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert!(ran.stderr.contains(flags[0]), "{}", ran.stderr);
    }
}
