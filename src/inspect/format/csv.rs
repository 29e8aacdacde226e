//! `csv`: one row per model, one column per field, as RFC 4180 has it.
//!
//! Objects become columns with dotted names. Lists stay JSON in one cell, so that no field is lost.

use serde_json::{Map, Value};

use super::super::Inspection;
use super::Page;
use super::record::record;

pub(super) fn render(page: &Page<'_>) -> String {
    let inspections = page.inspections;
    let row = |model: &Inspection| {
        let mut row = Map::new();
        flatten("", &Value::Object(record(model, &inspections.options, page.layers)), &mut row);
        row
    };
    // Twice over the models, so that only one row is held at a time.
    let mut columns: IndexedNames = Map::new();
    for model in &inspections.models {
        for key in row(model).keys() {
            columns.entry(key.as_str()).or_insert(Value::Null);
        }
    }
    let head = columns.keys().map(|name| cell(name)).collect::<Vec<_>>().join(",");
    let lines = inspections.models.iter().map(|model| {
        let row = row(model);
        let cells = columns.keys().map(|name| row.get(name).map_or_else(String::new, text));
        cells.collect::<Vec<_>>().join(",")
    });
    std::iter::once(head).chain(lines).collect::<Vec<_>>().join("\r\n")
}

/// Names in the order they were first seen.
type IndexedNames = Map<String, Value>;

fn flatten(path: &str, value: &Value, row: &mut Map<String, Value>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                flatten(&path, value, row);
            }
        }
        other => {
            row.insert(path.to_owned(), other.clone());
        }
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => cell(text),
        other => cell(&other.to_string()),
    }
}

fn cell(text: &str) -> String {
    let text = &super::clean(text);
    let is_plain = !text.contains(['"', ',', '\n', '\r']);
    if is_plain { text.to_owned() } else { format!("\"{}\"", text.replace('"', "\"\"")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_become_columns_and_cells_are_quoted() {
        let mut row = Map::new();
        flatten("", &serde_json::json!({"a": {"b": 1, "c": "x,\"y\""}, "d": [1, 2], "e": null}), &mut row);
        assert_eq!(row.keys().collect::<Vec<_>>(), ["a.b", "a.c", "d", "e"]);
        assert_eq!(row.values().map(text).collect::<Vec<_>>(), ["1", "\"x,\"\"y\"\"\"", "\"[1,2]\"", ""]);
    }
}
