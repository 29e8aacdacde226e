//! Chat templates against what `transformers` renders, byte for byte.
//!
//! The large set is read from the shared fixtures where they are; the cases here are our own and run
//! everywhere. Their expected texts were rendered by `apply_chat_template` of transformers 4.57.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use specdec::chat::{ChatTemplate, Clock, Conversation, Ending};
use specdec::error::Error;

fn clock() -> Clock {
    Arc::new(|| jiff::civil::date(2025, 3, 9).at(14, 5, 6, 0))
}

/// The text, or the message that the template refused with.
fn render(template: &str, case: &Value) -> Result<String, String> {
    let parts = ["messages", "tools", "documents"].map(|key| (key.to_owned(), case[key].clone()));
    let conversation = Conversation::from_json(Value::Object(Map::from_iter(parts)))?;
    let variables = case["variables"].as_object().cloned().unwrap_or_default();
    let ending =
        if case["add_generation_prompt"] == json!(true) { Ending::GenerationPrompt } else { Ending::Closed };
    ChatTemplate::parse_with_clock("case", template, Map::new(), clock())
        .and_then(|template| template.render(&conversation, &variables, ending))
        .map_err(|error| match error {
            Error::ChatRefused { message, .. } => message,
            other => format!("[{other}]"),
        })
}

fn fixtures() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/fixtures/chat");
    folder.is_dir().then_some(folder)
}

#[test]
fn shared_cases_match_byte_for_byte() {
    let Some(folder) = fixtures() else { return };
    let mut num_cases = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let file: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        for case in file["cases"].as_array().into_iter().flatten() {
            let expected = match case["expected"].as_str() {
                Some(text) => Ok(text.to_owned()),
                None => Err(case["error"].as_str().unwrap().to_owned()),
            };
            let rendered = render(file["template"].as_str().unwrap(), case);
            assert_eq!(rendered, expected, "{}: {}", path.display(), case["note"]);
            num_cases += 1;
        }
        for snippet in file["snippets"].as_array().into_iter().flatten() {
            let template = snippet["template"].as_str().unwrap();
            let case = json!({"messages": file["messages"], "add_generation_prompt": true});
            let expected = snippet["expected"].as_str().unwrap();
            assert_eq!(render(template, &case).as_deref(), Ok(expected), "{}: {template}", path.display());
            num_cases += 1;
        }
    }
    assert!(num_cases > 0, "the fixtures hold no cases");
}

#[test]
fn snippets_render_as_in_python() {
    let case = json!({
        "messages": [
            {"role": "user", "content": "  hi é😀 "},
            {"role": "assistant", "content": "<think>\nso\n</think>\n\n4"},
        ],
        "tools": [{"name": "f", "parameters": {"items": {"type": "array"}, "n": 1e-5, "k": null}}],
        "variables": {"bos_token": "<s>", "d": {"b": 1, "a": [1, 2.5, null, true, "x"]}, "f": 1e16},
        "add_generation_prompt": true,
    });
    for (template, expected) in [
        ("{% generation %}{% set x = 1 %}a{% endgeneration %}\n{{ x is defined }}", "aFalse"),
        (
            "{{ d }}|{{ f }}|{{ [f, none] }}|{{ ('a',) }}",
            "{'b': 1, 'a': [1, 2.5, None, True, 'x']}|1e+16|[1e+16, None]|('a',)",
        ),
        (
            "{{ tools | tojson }}",
            r#"[{"name": "f", "parameters": {"items": {"type": "array"}, "n": 1e-05, "k": null}}]"#,
        ),
        (
            "{{ d | tojson(indent=1, separators=(',', ':'), sort_keys=true) }}",
            "{\n \"a\":[\n  1,\n  2.5,\n  null,\n  true,\n  \"x\"\n ],\n \"b\":1\n}",
        ),
        ("{{ messages[0].content | tojson(ensure_ascii=true) }}", r#""  hi \u00e9\ud83d\ude00 ""#),
        ("{{ messages[1].content.split('</think>')[-1].lstrip('\\n') }}", "4"),
        (
            "{% for k, v in tools[0].parameters.items() %}{{ k }}{% if not loop.last %},{% endif %}{% endfor %}",
            "items,n,k",
        ),
        ("{{ missing }}{{ missing ~ 'x' }}{% for a in missing %}{% else %}none{% endfor %}", "xnone"),
        (
            "{{ 'a b  c'.split(none, 1) }}{{ 'x-y-z'.rsplit('-', 1) }}{{ 'q=1'.partition('=') }}",
            "['a', 'b  c']['x-y', 'z']('q', '=', '1')",
        ),
        (
            "{% set ns = namespace(l=[1]) %}{% set ns.l = ns.l + [2] %}{{ ns.l }}{{ ns.l[0] }}{{ ns.l is sequence }}",
            "[1, 2]1True",
        ),
        (
            "{{ strftime_now('%d %b %Y') }}{{ 'x' | default('y', boolean=true) }}{{ 'x' | int(-1) }}",
            "09 Mar 2025x-1",
        ),
        (
            "{% for m in messages %}{% if m.role == 'user' %}{% continue %}{% endif %}{{ loop.index0 }}{% break %}{% endfor %}",
            "1",
        ),
        (
            "{{- bos_token }}\n{%- if add_generation_prompt %}\n    {{- 'A:' }}\n{% endif %}\nend",
            "<s>A:\nend",
        ),
    ] {
        assert_eq!(render(template, &case).as_deref(), Ok(expected), "{template}");
    }
}

#[test]
fn what_jinja_refuses_is_an_error_here_too() {
    let case = json!({"messages": [{"role": "user", "content": "hi"}]});
    for template in [
        "{{ missing.key }}",
        "{{ missing + 'x' }}",
        "{{ 'x' + 1 }}",
        "{{ none + 'x' }}",
        "{{ messages.append(1) }}",
        "{{ missing | tojson }}",
        "{% include 'other' %}",
        "{{ x | no_such_filter }}",
    ] {
        assert!(render(template, &case).unwrap_err().starts_with('['), "{template}");
    }
    assert_eq!(render("{{ raise_exception('No ' ~ 1) }}", &case), Err("No 1".to_owned()));
}
