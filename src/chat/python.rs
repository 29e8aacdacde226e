//! How Python prints values, for templates that were written for an engine in Python.
//!
//! `{{ value }}`, `|string` and `|join` print what `str` gives, and containers hold what `repr` gives:
//! `True`, `None`, `[1, 'a']`, `1e-05`. Invariant: text grows only by what was paid for in fuel.
//! Arithmetic, comparison and lookups are the engine's, methods are in `methods`.

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, State, Value};

/// Nesting past which a value is refused.
const MAX_DEPTH: usize = 200;

/// `str(value)`.
pub(super) fn str_of(state: &State, value: &Value) -> Result<String, Error> {
    match value.kind() {
        ValueKind::String => Ok(value.as_str().unwrap_or_default().to_owned()),
        ValueKind::Undefined => Ok(String::new()),
        _ => {
            let mut text = String::new();
            repr(state, value, 0, &mut text)?;
            Ok(text)
        }
    }
}

fn repr(state: &State, value: &Value, depth: usize, text: &mut String) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(Error::new(ErrorKind::InvalidOperation, "the value is nested too deeply to be printed"));
    }
    let before = text.len();
    match value.kind() {
        ValueKind::String => string_repr(value.as_str().unwrap_or_default(), text),
        ValueKind::Number if !value.is_integer() => match f64::try_from(value.clone()) {
            Ok(float) => text.push_str(&float_repr(float)),
            Err(_) => text.push_str(&value.to_string()),
        },
        ValueKind::Undefined => text.push_str("Undefined"),
        // The engine's `+` gives a lazy list.
        ValueKind::Seq | ValueKind::Iterable => {
            let (open, close) = if value.is_tuple() { ('(', ')') } else { ('[', ']') };
            text.push(open);
            let mut count = 0;
            for item in value.try_iter()?.checked() {
                if count > 0 {
                    text.push_str(", ");
                }
                count += 1;
                repr(state, &item?, depth + 1, text)?;
            }
            if value.is_tuple() && count == 1 {
                text.push(',');
            }
            text.push(close);
        }
        // A namespace, loop or macro has its own form, which no template prints.
        ValueKind::Map if value.as_object().is_some() => {
            text.push('{');
            for (index, key) in value.try_iter()?.checked().enumerate() {
                let key = key?;
                if index > 0 {
                    text.push_str(", ");
                }
                repr(state, &key, depth + 1, text)?;
                text.push_str(": ");
                repr(state, &value.get_item(&key)?, depth + 1, text)?;
            }
            text.push('}');
        }
        _ => text.push_str(&value.to_string()),
    }
    // Values that repeat a long string cost what is written, not what is stored.
    if !matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable | ValueKind::Map) {
        state.consume_fuel((text.len() - before) as u64 / 64)?;
    }
    state.consume_fuel(1)
}

/// `repr` of a string: single quotes unless only those would need escaping.
fn string_repr(value: &str, text: &mut String) {
    let quote = if value.contains('\'') && !value.contains('"') { '"' } else { '\'' };
    text.push(quote);
    for c in value.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            c if c == quote => text.extend(['\\', c]),
            c if is_printable(c) => text.push(c),
            c if u32::from(c) <= 0xff => text.push_str(&format!("\\x{:02x}", u32::from(c))),
            c if u32::from(c) <= 0xffff => text.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => text.push_str(&format!("\\U{:08x}", u32::from(c))),
        }
    }
    text.push(quote);
}

/// Python's `str.isprintable` for one character, but for unassigned ones: no control, format or private
/// character, and no separator except the space.
fn is_printable(c: char) -> bool {
    let hidden = matches!(c,
        '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{180e}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{e000}'..='\u{f8ff}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}' | '\u{f0000}'..);
    c == ' ' || !(c.is_control() || c.is_whitespace() || hidden)
}

/// Python's `str.isspace` for one character: Rust's white space and the four separators of ASCII.
pub(super) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// `repr` of a float: the shortest digits that read back the same, with an exponent below 1e-4 and from
/// 1e16 on.
pub(super) fn float_repr(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        format!("{value:?}")
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{digits}e{sign}{:02}", exponent.abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_as_in_python() {
        for (value, expected) in [
            (1.0, "1.0"),
            (-0.0, "-0.0"),
            (0.1, "0.1"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e300, "1.5e+300"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.25e-7, "1.25e-07"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(float_repr(value), expected);
        }
    }

    #[test]
    fn strings_choose_their_quotes_and_escape_what_cannot_be_seen() {
        for (value, expected) in [
            ("a", "'a'"),
            ("it's", "\"it's\""),
            ("it's \"x\"", "'it\\'s \"x\"'"),
            ("\n\u{1}\u{a0}\u{200b}\u{e0001}é😀", "'\\n\\x01\\xa0\\u200b\\U000e0001é😀'"),
        ] {
            let mut text = String::new();
            string_repr(value, &mut text);
            assert_eq!(text, expected);
        }
    }
}
