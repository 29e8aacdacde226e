//! `json`: one object for all models; `jsonl`: one object per model and line, the pair on a last line.
//!
//! Models are written one after another, so that only their text is held, not all their fields.

use serde_json::{Value, json};

use super::super::Inspection;
use super::super::pair::Pair;
use super::record::record;
use super::{Page, SCHEMA};

pub(super) fn render(page: &Page<'_>) -> String {
    let models: Vec<String> = page.inspections.models.iter().map(|model| fields(page, model)).collect();
    let head = json!({ "schema": SCHEMA, "version": env!("CARGO_PKG_VERSION") }).to_string();
    let pair = page.inspections.pair.as_ref().map(|pair| format!(",\"pair\":{}", pair_value(pair)));
    // The head is an object of its own, whose closing brace moves behind the models.
    let head = head.trim_end_matches('}');
    format!("{head},\"models\":[{}]{}}}", models.join(","), pair.unwrap_or_default())
}

pub(super) fn render_lines(page: &Page<'_>) -> String {
    let models = page.inspections.models.iter().map(|model| {
        let fields = fields(page, model);
        format!("{{\"schema\":\"{SCHEMA}\",{}", fields.trim_start_matches('{'))
    });
    let pair = page.inspections.pair.as_ref();
    let pair = pair.map(|pair| json!({ "schema": SCHEMA, "pair": pair_value(pair) }).to_string());
    models.chain(pair).collect::<Vec<_>>().join("\n")
}

/// One model as an object that begins with its id.
fn fields(page: &Page<'_>, model: &Inspection) -> String {
    let text = Value::Object(record(model, &page.inspections.options, page.layers)).to_string();
    if text.chars().any(char::is_control) { escaped(&text) } else { text }
}

/// Escapes what JSON lets stand and a terminal obeys: DEL and the C1 controls, which occur in strings only.
fn escaped(text: &str) -> String {
    let mut safe = String::new();
    for c in text.chars() {
        if c.is_control() {
            safe.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            safe.push(c);
        }
    }
    safe
}

fn pair_value(pair: &Pair) -> Value {
    let mut value = super::record::to_value(pair);
    value["sentence"] = pair.sentence().into();
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_are_escaped_and_mean_the_same() {
        let text = Value::from("a\u{7f}\u{9b}1m").to_string();
        let safe = escaped(&text);
        assert!(!safe.chars().any(char::is_control), "{safe:?}");
        assert_eq!(serde_json::from_str::<Value>(&safe).unwrap(), "a\u{7f}\u{9b}1m");
    }
}
