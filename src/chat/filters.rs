//! Filters, tests and functions of Jinja that the engine lacks or does differently.
//!
//! Invariant: those given here take the arguments of the original, by position or by name, and give its
//! result, floats printed as Python prints them. `tojson` is in `json`; filters that no chat template
//! has a use for (`urlize`, `filesizeformat`, `xmlattr`, `wordwrap`, `random`) are unknown, as an error.

#![expect(clippy::needless_pass_by_value, reason = "the engine gives owned arguments")]

use minijinja::functions;
use minijinja::value::{Kwargs, Rest, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, Value};
use minijinja_contrib::globals;

use super::bounds::bounded;
use super::json::tojson;
use super::python::str_of;
use super::rewrite::BOUNDED;

/// Adds them all to `environment`.
pub(super) fn register(environment: &mut Environment) {
    environment.add_filter(BOUNDED, bounded);
    environment.add_filter("tojson", tojson);
    environment.add_filter("string", |state: &State, value: &Value| str_of(state, value));
    environment.add_filter("join", join);
    environment.add_filter("default", default);
    environment.add_filter("d", default);
    environment.add_filter("int", int);
    environment.add_filter("float", float);
    environment.add_filter("indent", indent);
    environment.add_filter("wordcount", |text: &str| text.split_whitespace().count());
    environment.add_filter("center", center);
    environment.add_test("sequence", is_sequence);
    environment
        .add_test("iterable", |value: &Value| is_sequence(value) || value.kind() == ValueKind::Iterable);
    environment.add_test("callable", is_callable);
    environment.add_function("dict", dict);
    environment.add_function("namespace", namespace);
    environment.add_function("cycler", |items: Rest<Value>| globals::cycler(items.0));
    environment.add_function("joiner", globals::joiner);
    environment.remove_global("debug");
}

/// An argument given by position or, failing that, by name.
fn argument(positional: Option<&Value>, named: &Kwargs, name: &str) -> Result<Option<Value>, Error> {
    match positional {
        Some(value) => Ok(Some(value.clone())),
        None => named.get::<Option<Value>>(name),
    }
}

fn join(state: &mut State, items: &Value, positional: Rest<Value>, named: Kwargs) -> Result<String, Error> {
    let separator = argument(positional.first(), &named, "d")?.unwrap_or_default();
    let separator = str_of(state, &separator)?;
    let attribute = argument(positional.get(1), &named, "attribute")?;
    named.assert_all_used()?;
    let items = match attribute.filter(|attribute| !attribute.is_none()) {
        Some(attribute) => {
            let attribute = Kwargs::from_iter([("attribute", attribute)]);
            state.apply_filter("map", &[items.clone(), Value::from(attribute)])?
        }
        None => items.clone(),
    };
    let mut joined = String::new();
    for (index, item) in items.try_iter()?.checked().enumerate() {
        if index > 0 {
            joined.push_str(&separator);
        }
        let item = str_of(state, &item?)?;
        joined.push_str(&item);
        state.consume_fuel(1 + (separator.len() + item.len()) as u64 / 64)?;
    }
    Ok(joined)
}

fn default(value: &Value, positional: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    let other = argument(positional.first(), &named, "default_value")?.unwrap_or_else(|| Value::from(""));
    let falsy_too = argument(positional.get(1), &named, "boolean")?.is_some_and(|value| value.is_true());
    named.assert_all_used()?;
    Ok(if value.is_undefined() || (falsy_too && !value.is_true()) { other } else { value.clone() })
}

/// `int(value)`, `default` where that fails; text may be in another `base`.
fn int(value: &Value, positional: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    let default = argument(positional.first(), &named, "default")?.unwrap_or_else(|| Value::from(0));
    let base = argument(positional.get(1), &named, "base")?.unwrap_or_else(|| Value::from(10));
    named.assert_all_used()?;
    if value.is_integer() {
        return Ok(value.clone());
    }
    if let Some(text) = value.as_str() {
        let base = u32::try_from(base)?;
        if !(2..=36).contains(&base) {
            return Err(Error::new(ErrorKind::InvalidOperation, "int: the base must be 2 to 36"));
        }
        if let Some(number) = parse_int(text, base) {
            return Ok(Value::from(number));
        }
    }
    Ok(to_float(value).filter(|float| float.is_finite()).map_or(default, truncated))
}

/// A float without its fraction, as an integer as far as 128 bits go.
#[expect(clippy::cast_possible_truncation, reason = "casts of floats saturate")]
fn truncated(float: f64) -> Value {
    let whole = float.trunc() as i128;
    i64::try_from(whole).map_or_else(|_| Value::from(whole), Value::from)
}

fn parse_int(text: &str, base: u32) -> Option<i128> {
    let text = text.trim();
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let prefix = match base {
        16 => "0x",
        8 => "0o",
        2 => "0b",
        _ => "",
    };
    let bare = digits.get(..prefix.len()).filter(|start| start.eq_ignore_ascii_case(prefix));
    let bare = bare.map_or(digits, |prefix| &digits[prefix.len()..]);
    if bare.starts_with(['-', '+', '_']) || bare.ends_with('_') || bare.contains("__") {
        return None;
    }
    let number = i128::from_str_radix(&bare.replace('_', ""), base).ok()?;
    Some(if text.starts_with('-') { -number } else { number })
}

fn float(value: &Value, positional: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    let default = argument(positional.first(), &named, "default")?.unwrap_or_else(|| Value::from(0.0));
    named.assert_all_used()?;
    Ok(to_float(value).map_or(default, Value::from))
}

/// `float(value)`, if Python gives one.
fn to_float(value: &Value) -> Option<f64> {
    match value.kind() {
        ValueKind::Bool => Some(f64::from(u8::from(value.is_true()))),
        ValueKind::Number => f64::try_from(value.clone()).ok(),
        ValueKind::String => value.as_str()?.trim().replace('_', "").parse().ok(),
        _ => None,
    }
}

/// Puts `width` spaces, or the text given as `width`, before every line but the first and empty ones.
fn indent(state: &State, text: &str, positional: Rest<Value>, named: Kwargs) -> Result<String, Error> {
    let width = argument(positional.first(), &named, "width")?.unwrap_or_else(|| Value::from(4));
    let first = argument(positional.get(1), &named, "first")?.is_some_and(|value| value.is_true());
    let blank = argument(positional.get(2), &named, "blank")?.is_some_and(|value| value.is_true());
    named.assert_all_used()?;
    let prefix = match width.as_str() {
        Some(prefix) => prefix.to_owned(),
        None => " ".repeat(usize::try_from(i64::try_from(width)?.clamp(0, 1024)).unwrap_or(0)),
    };
    let mut indented = String::new();
    for (index, line) in text.split('\n').enumerate() {
        if index > 0 {
            indented.push('\n');
        }
        if if index == 0 { first } else { blank || !line.is_empty() } {
            state.consume_fuel(1 + prefix.len() as u64 / 64)?;
            indented.push_str(&prefix);
        }
        indented.push_str(line);
    }
    Ok(indented)
}

fn center(state: &mut State, text: &Value, width: Option<i64>) -> Result<Value, Error> {
    text.call_method(state, "center", &[Value::from(width.unwrap_or(80))])
}

/// What has a length and can be indexed: text, dicts and the engine's lazy lists too.
fn is_sequence(value: &Value) -> bool {
    if value.kind() == ValueKind::Iterable {
        return value.len().is_some();
    }
    matches!(value.kind(), ValueKind::Seq | ValueKind::Map | ValueKind::String | ValueKind::Undefined)
}

/// Functions and macros. Undefined is callable in Jinja, as its class is; so are methods, which are not
/// values here and come as undefined.
fn is_callable(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Plain | ValueKind::Undefined)
}

/// `dict(pairs or mapping, **more)`.
fn dict(from: Option<Value>, named: Kwargs) -> Result<Value, Error> {
    let mut pairs = Vec::new();
    if let Some(from) = from {
        for item in from.try_iter()?.checked() {
            let item = item?;
            pairs.push(match from.kind() {
                ValueKind::Map => (item.clone(), from.get_item(&item)?),
                _ => (item.get_item_by_index(0)?, item.get_item_by_index(1)?),
            });
        }
    }
    for name in named.args() {
        pairs.push((Value::from(name), named.peek::<Value>(name)?));
    }
    Ok(Value::from_pairs(pairs))
}

fn namespace(from: Option<Value>, named: Kwargs) -> Result<Value, Error> {
    functions::namespace(Some(ValueOrKwargs::from(dict(from, named)?)))
}
