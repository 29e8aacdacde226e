//! The `tojson` filter of chat templates: Python's `json.dumps`, byte for byte.
//!
//! Models were trained on what `transformers` wrote, whose filter is `json.dumps` with its arguments in
//! the order of [`DumpArguments`] and `ensure_ascii` off: `", "` and `": "` between items, keys in their
//! own order, nothing escaped for HTML, floats as Python prints them. Invariant: output is bounded by
//! [`MAX_DEPTH`] and the fuel of the render. What can be made a template value is left to the engine.

use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};

use super::python::float_repr;

/// Nesting past which a value is refused; Python stops near 1000.
const MAX_DEPTH: usize = 200;

/// `json.dumps`' arguments, positional in this order or by name.
struct DumpArguments {
    ensure_ascii: bool,
    indent: Option<String>,
    item_separator: String,
    key_separator: String,
    sort_keys: bool,
}

impl DumpArguments {
    fn new(positional: &[Value], named: &Kwargs) -> Result<Self, Error> {
        const NAMES: [&str; 4] = ["ensure_ascii", "indent", "separators", "sort_keys"];
        if positional.len() > NAMES.len() {
            return Err(ErrorKind::TooManyArguments.into());
        }
        let mut values: [Value; 4] = Default::default();
        for (index, name) in NAMES.iter().enumerate() {
            values[index] = match positional.get(index) {
                Some(value) => value.clone(),
                None => named.get::<Option<Value>>(name)?.unwrap_or_default(),
            };
        }
        named.assert_all_used()?;
        let [ensure_ascii, indent, separators, sort_keys] = values;

        let indent = if let Some(text) = indent.as_str() {
            Some(text.to_owned())
        } else if indent.is_none() || indent.is_undefined() {
            None
        } else {
            let width = i64::try_from(indent)?;
            Some(" ".repeat(usize::try_from(width.clamp(0, 64)).unwrap_or(0)))
        };
        let default_item = if indent.is_some() { "," } else { ", " };
        let (item_separator, key_separator) = if separators.is_none() || separators.is_undefined() {
            (default_item.to_owned(), ": ".to_owned())
        } else {
            let pair = separators.try_iter()?.map(|text| text.to_string()).collect::<Vec<_>>();
            let [item, key] = <[String; 2]>::try_from(pair)
                .map_err(|_| invalid("separators must be a pair: between items, and behind a key"))?;
            (item, key)
        };
        Ok(Self {
            ensure_ascii: ensure_ascii.is_true(),
            indent,
            item_separator,
            key_separator,
            sort_keys: sort_keys.is_true(),
        })
    }
}

/// The filter: `value|tojson(ensure_ascii=False, indent=None, separators=None, sort_keys=False)`.
#[expect(clippy::needless_pass_by_value, reason = "the engine gives owned arguments")]
pub(super) fn tojson(
    state: &State,
    value: &Value,
    positional: Rest<Value>,
    named: Kwargs,
) -> Result<String, Error> {
    let arguments = DumpArguments::new(&positional, &named)?;
    let mut dump = Dump { state, arguments, text: String::new(), charged: 0 };
    dump.value(value, 0)?;
    Ok(dump.text)
}

struct Dump<'a> {
    state: &'a State<'a, 'a>,
    arguments: DumpArguments,
    text: String,
    charged: usize,
}

impl Dump<'_> {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        self.charge()?;
        if depth > MAX_DEPTH {
            return Err(invalid("tojson: the value is nested too deeply"));
        }
        match value.kind() {
            ValueKind::None => self.text.push_str("null"),
            ValueKind::Bool => self.text.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => self.text.push_str(&number(value)),
            ValueKind::String => self.string(value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => self.sequence(value, depth)?,
            ValueKind::Map => self.map(value, depth)?,
            kind => return Err(invalid(format!("tojson: an {kind} value has no JSON form"))),
        }
        Ok(())
    }

    /// Text that repeats values (a list of one long string many times) costs what it writes.
    fn charge(&mut self) -> Result<(), Error> {
        const BYTES_PER_FUEL: usize = 64;
        let fuel = (self.text.len() - self.charged) / BYTES_PER_FUEL;
        self.charged += fuel * BYTES_PER_FUEL;
        self.state.consume_fuel(1 + fuel as u64)
    }

    fn sequence(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        let mut empty = true;
        self.text.push('[');
        for item in value.try_iter()?.checked() {
            self.start_item(empty, depth + 1);
            empty = false;
            self.value(&item?, depth + 1)?;
        }
        self.close(']', empty, depth);
        Ok(())
    }

    fn map(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        let mut keys = value.try_iter()?.checked().collect::<Result<Vec<_>, _>>()?;
        if self.arguments.sort_keys {
            keys.sort();
        }
        let empty = keys.is_empty();
        self.text.push('{');
        for (index, key) in keys.iter().enumerate() {
            self.start_item(index == 0, depth + 1);
            match key.kind() {
                ValueKind::String => self.string(key.as_str().unwrap_or_default()),
                ValueKind::Number | ValueKind::Bool | ValueKind::None => {
                    self.text.push('"');
                    self.value(key, depth + 1)?;
                    self.text.push('"');
                }
                kind => return Err(invalid(format!("tojson: a {kind} cannot be a key"))),
            }
            self.text.push_str(&self.arguments.key_separator);
            self.value(&value.get_item(key)?, depth + 1)?;
        }
        self.close('}', empty, depth);
        Ok(())
    }

    fn start_item(&mut self, first: bool, depth: usize) {
        if !first {
            self.text.push_str(&self.arguments.item_separator);
        }
        self.new_line(depth);
    }

    fn close(&mut self, bracket: char, empty: bool, depth: usize) {
        if !empty {
            self.new_line(depth);
        }
        self.text.push(bracket);
    }

    fn new_line(&mut self, depth: usize) {
        if let Some(indent) = &self.arguments.indent {
            self.text.push('\n');
            for _ in 0..depth {
                self.text.push_str(indent);
            }
        }
    }

    fn string(&mut self, text: &str) {
        self.text.push('"');
        for c in text.chars() {
            match c {
                '"' => self.text.push_str("\\\""),
                '\\' => self.text.push_str("\\\\"),
                '\n' => self.text.push_str("\\n"),
                '\r' => self.text.push_str("\\r"),
                '\t' => self.text.push_str("\\t"),
                '\u{8}' => self.text.push_str("\\b"),
                '\u{c}' => self.text.push_str("\\f"),
                c if c < ' ' || (self.arguments.ensure_ascii && !(' '..='~').contains(&c)) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        self.text.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                c => self.text.push(c),
            }
        }
        self.text.push('"');
    }
}

/// A number as `json.dumps` writes it, infinities and NaN included.
fn number(value: &Value) -> String {
    if value.is_integer() {
        return value.to_string();
    }
    match f64::try_from(value.clone()) {
        Ok(float) if float.is_nan() => "NaN".to_owned(),
        Ok(float) if float.is_infinite() => if float > 0.0 { "Infinity" } else { "-Infinity" }.to_owned(),
        Ok(float) => float_repr(float),
        Err(_) => value.to_string(),
    }
}

fn invalid(problem: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, problem)
}

#[cfg(test)]
mod tests {
    use minijinja::Environment;

    #[test]
    fn arguments_are_those_of_json_dumps() {
        let mut environment = Environment::new();
        environment.add_filter("tojson", super::tojson);
        for (call, expected) in [
            ("tojson", "{\"b\": [1, 1e-05, true], \"a\": \"é\\\"\\n\\u0001<'>\"}"),
            ("tojson(true)", "{\"b\": [1, 1e-05, true], \"a\": \"\\u00e9\\\"\\n\\u0001<'>\"}"),
            (
                "tojson(indent=1, sort_keys=true)",
                "{\n \"a\": \"é\\\"\\n\\u0001<'>\",\n \"b\": [\n  1,\n  1e-05,\n  true\n ]\n}",
            ),
            ("tojson(separators=(',', ':'))", "{\"b\":[1,1e-05,true],\"a\":\"é\\\"\\n\\u0001<'>\"}"),
        ] {
            let template = format!("{{{{ {{'b': [1, 0.00001, true], 'a': \"é\\\"\\n\\x01<'>\"}}|{call} }}}}");
            assert_eq!(environment.render_str(&template, ()).unwrap(), expected, "{call}");
        }
        for refused in ["missing|tojson", "1|tojson(unknown=1)", "1|tojson(separators=[','])"] {
            assert!(environment.render_str(&format!("{{{{ {refused} }}}}"), ()).is_err(), "{refused}");
        }
    }
}
