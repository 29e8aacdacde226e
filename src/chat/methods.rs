//! String, list and dict methods of Python that templates call.
//!
//! `minijinja-contrib` brings most of them; here are those it lacks or does differently. Invariant:
//! a method given here behaves as in Python 3, named arguments and negative counts included, and pays
//! fuel before it makes a string much longer than its input. Everything else goes on to the engine.

use minijinja::value::{Kwargs, ValueKind, from_args};
use minijinja::{Error, ErrorKind, State, Value};
use minijinja_contrib::pycompat;

use super::python::{is_space, str_of};

/// The engine's callback for `value.method(arguments)`.
pub(super) fn call_method(
    state: &mut State,
    value: &Value,
    method: &str,
    arguments: &[Value],
) -> Result<Value, Error> {
    let own = match value.kind() {
        ValueKind::String => string_method(state, value.as_str().unwrap_or_default(), method, arguments)?,
        ValueKind::Seq => list_method(value, method, arguments)?,
        ValueKind::Map => map_method(value, method, arguments)?,
        _ => None,
    };
    match own {
        Some(result) => Ok(result),
        None => pycompat::unknown_method_callback(state, value, method, arguments),
    }
}

/// Side of a string that a method works on.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Left,
    Right,
    Both,
}

fn string_method(
    state: &State,
    text: &str,
    method: &str,
    arguments: &[Value],
) -> Result<Option<Value>, Error> {
    Ok(Some(match method {
        "strip" => strip(text, arguments, Side::Both)?,
        "lstrip" => strip(text, arguments, Side::Left)?,
        "rstrip" => strip(text, arguments, Side::Right)?,
        "split" => split(text, arguments, Side::Left)?,
        "rsplit" => split(text, arguments, Side::Right)?,
        "splitlines" => split_lines(text, arguments)?,
        "startswith" => has_affix(text, arguments, Side::Left)?,
        "endswith" => has_affix(text, arguments, Side::Right)?,
        "join" => join(state, text, arguments)?,
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(arguments)?;
            Value::from(text.strip_prefix(prefix).unwrap_or(text))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(arguments)?;
            Value::from(text.strip_suffix(suffix).unwrap_or(text))
        }
        "partition" => partition(text, arguments, Side::Left)?,
        "rpartition" => partition(text, arguments, Side::Right)?,
        "ljust" => pad(state, text, arguments, Side::Right)?,
        "rjust" => pad(state, text, arguments, Side::Left)?,
        "center" => pad(state, text, arguments, Side::Both)?,
        "zfill" => zero_fill(state, text, arguments)?,
        "find" | "rfind" | "index" | "rindex" => find(text, method, arguments)?,
        "count" => {
            let (part,): (&str,) = from_args(arguments)?;
            Value::from(if part.is_empty() { text.chars().count() + 1 } else { text.matches(part).count() })
        }
        "title" => Value::from(title(text)),
        "istitle" => Value::from(text.chars().any(char::is_alphabetic) && title(text) == text),
        "casefold" => Value::from(text.to_lowercase()),
        "swapcase" => Value::from(text.chars().map(swap_case).collect::<String>()),
        "isdecimal" | "isdigit" => {
            Value::from(!text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || is_other_digit(c)))
        }
        // Its widths are taken as they come by the engine.
        "format" if has_huge_number(text) => {
            return Err(Error::new(ErrorKind::InvalidOperation, "format: a width of five digits or more"));
        }
        "isidentifier" => Value::from(is_identifier(text)),
        _ => return Ok(None),
    }))
}

fn strip(text: &str, arguments: &[Value], side: Side) -> Result<Value, Error> {
    let (characters,): (Option<&str>,) = from_args(arguments)?;
    let dropped = |c: char| characters.map_or_else(|| is_space(c), |characters| characters.contains(c));
    Ok(Value::from(match side {
        Side::Both => text.trim_matches(dropped),
        Side::Left => text.trim_start_matches(dropped),
        Side::Right => text.trim_end_matches(dropped),
    }))
}

/// `split` from the left, `rsplit` from the right.
fn split(text: &str, arguments: &[Value], side: Side) -> Result<Value, Error> {
    let (positional_separator, positional_limit, named): (Option<&str>, Option<i64>, Kwargs) =
        from_args(arguments)?;
    let separator = match positional_separator {
        Some(separator) => Some(separator.to_owned()),
        None => named.get::<Option<String>>("sep")?,
    };
    let limit = match positional_limit {
        Some(limit) => limit,
        None => named.get::<Option<i64>>("maxsplit")?.unwrap_or(-1),
    };
    named.assert_all_used()?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut parts: Vec<&str> = Vec::new();
    match separator.as_deref() {
        Some("") => return Err(Error::new(ErrorKind::InvalidOperation, "empty separator")),
        Some(separator) if side == Side::Left => {
            parts.extend(text.splitn(limit.saturating_add(1), separator));
        }
        Some(separator) => parts.extend(text.rsplitn(limit.saturating_add(1), separator)),
        None => {
            // Runs of white space separate, and the text that a limit leaves over keeps its own.
            let mut rest = text;
            loop {
                rest = if side == Side::Left {
                    rest.trim_start_matches(is_space)
                } else {
                    rest.trim_end_matches(is_space)
                };
                if rest.is_empty() {
                    break;
                }
                let cut = if side == Side::Left { rest.find(is_space) } else { rest.rfind(is_space) };
                let Some(cut) = cut.filter(|_| parts.len() < limit) else {
                    parts.push(rest);
                    break;
                };
                if side == Side::Left {
                    parts.push(&rest[..cut]);
                    rest = &rest[cut..];
                } else {
                    let after = cut + rest[cut..].chars().next().map_or(1, char::len_utf8);
                    parts.push(&rest[after..]);
                    rest = &rest[..after];
                }
            }
        }
    }
    if side == Side::Right {
        parts.reverse();
    }
    Ok(Value::from(parts.into_iter().map(Value::from).collect::<Vec<_>>()))
}

fn split_lines(text: &str, arguments: &[Value]) -> Result<Value, Error> {
    let (positional, named): (Option<bool>, Kwargs) = from_args(arguments)?;
    let keep_ends = match positional {
        Some(keep) => keep,
        None => named.get::<Option<bool>>("keepends")?.unwrap_or(false),
    };
    named.assert_all_used()?;
    let is_end = |c: char| {
        matches!(
            c,
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    };
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(end) = rest.find(is_end) {
        let end_len = if rest[end..].starts_with("\r\n") {
            2
        } else {
            rest[end..].chars().next().map_or(1, char::len_utf8)
        };
        lines.push(Value::from(if keep_ends { &rest[..end + end_len] } else { &rest[..end] }));
        rest = &rest[end + end_len..];
    }
    if !rest.is_empty() {
        lines.push(Value::from(rest));
    }
    Ok(Value::from(lines))
}

/// `startswith` and `endswith`: one affix or a tuple of them, and optional bounds.
fn has_affix(text: &str, arguments: &[Value], side: Side) -> Result<Value, Error> {
    let (affix, start, end): (&Value, Option<i64>, Option<i64>) = from_args(arguments)?;
    let Some(text) = between(text, start, end) else { return Ok(Value::from(false)) };
    let matches = |affix: &Value| match affix.as_str() {
        Some(affix) if side == Side::Left => Ok(text.starts_with(affix)),
        Some(affix) => Ok(text.ends_with(affix)),
        None => Err(Error::new(
            ErrorKind::InvalidOperation,
            format!("a string or a tuple of strings is needed, not {}", affix.kind()),
        )),
    };
    if affix.is_tuple() {
        for affix in affix.try_iter()?.checked() {
            if matches(&affix?)? {
                return Ok(Value::from(true));
            }
        }
        return Ok(Value::from(false));
    }
    Ok(Value::from(matches(affix)?))
}

/// The part of `text` that Python's bounds in characters name; none when the start lies behind the end.
fn between(text: &str, start: Option<i64>, end: Option<i64>) -> Option<&str> {
    if start.is_none() && end.is_none() {
        return Some(text);
    }
    let len = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    let from_front = |index: i64| if index < 0 { (len + index).max(0) } else { index };
    let (start, end) = (from_front(start.unwrap_or(0)), from_front(end.unwrap_or(len)).min(len));
    if start > end {
        return None;
    }
    let byte_at = |index: i64| {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        text.char_indices().nth(index).map_or(text.len(), |(at, _)| at)
    };
    Some(&text[byte_at(start)..byte_at(end)])
}

fn join(state: &State, separator: &str, arguments: &[Value]) -> Result<Value, Error> {
    let (items,): (&Value,) = from_args(arguments)?;
    let mut joined = String::new();
    for (index, item) in items.try_iter()?.checked().enumerate() {
        let item = item?;
        let Some(item) = item.as_str() else {
            let problem = format!("join: item {index} is not a string but {}", str_of(state, &item)?);
            return Err(Error::new(ErrorKind::InvalidOperation, problem));
        };
        if index > 0 {
            joined.push_str(separator);
        }
        joined.push_str(item);
        state.consume_fuel(1 + (separator.len() + item.len()) as u64 / 64)?;
    }
    Ok(Value::from(joined))
}

fn partition(text: &str, arguments: &[Value], side: Side) -> Result<Value, Error> {
    let (separator,): (&str,) = from_args(arguments)?;
    if separator.is_empty() {
        return Err(Error::new(ErrorKind::InvalidOperation, "empty separator"));
    }
    let parts = if side == Side::Left { text.split_once(separator) } else { text.rsplit_once(separator) };
    let parts = match parts {
        Some((before, after)) => [before, separator, after],
        None if side == Side::Left => [text, "", ""],
        None => ["", "", text],
    };
    Ok(Value::from(minijinja::value::Tuple::from(parts.map(Value::from))))
}

/// `ljust`, `rjust` and `center`; `side` is where padding goes.
fn pad(state: &State, text: &str, arguments: &[Value], side: Side) -> Result<Value, Error> {
    let (width, fill): (i64, Option<char>) = from_args(arguments)?;
    let width = usize::try_from(width).unwrap_or(0);
    let missing = width.saturating_sub(text.chars().count());
    state.consume_fuel(missing as u64)?;
    // The odd one goes to the left where the width is odd, as in CPython.
    let left = match side {
        Side::Left => missing,
        Side::Right => 0,
        Side::Both => missing / 2 + (missing & width & 1),
    };
    let fill = |count: usize| std::iter::repeat_n(fill.unwrap_or(' '), count);
    Ok(Value::from(fill(left).chain(text.chars()).chain(fill(missing - left)).collect::<String>()))
}

fn zero_fill(state: &State, text: &str, arguments: &[Value]) -> Result<Value, Error> {
    let (width,): (i64,) = from_args(arguments)?;
    let missing = usize::try_from(width).unwrap_or(0).saturating_sub(text.chars().count());
    state.consume_fuel(missing as u64)?;
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let sign = &text[..text.len() - digits.len()];
    Ok(Value::from(format!("{sign}{}{digits}", "0".repeat(missing))))
}

/// `find`, `rfind`, and `index`, `rindex`, which fail where the others say -1.
fn find(text: &str, method: &str, arguments: &[Value]) -> Result<Value, Error> {
    let (part, start, end): (&str, Option<i64>, Option<i64>) = from_args(arguments)?;
    let found = between(text, start, end).and_then(|window| {
        let at = if method.starts_with('r') { window.rfind(part) } else { window.find(part) }?;
        let before = window.as_ptr().addr() - text.as_ptr().addr() + at;
        Some(text[..before].chars().count())
    });
    match found {
        Some(index) => Ok(Value::from(index)),
        None if method.ends_with("find") => Ok(Value::from(-1)),
        None => Err(Error::new(ErrorKind::InvalidOperation, "substring not found")),
    }
}

/// A capital behind everything that is not a letter, apostrophes included.
fn title(text: &str) -> String {
    let mut inside_word = false;
    let mut titled = String::new();
    for c in text.chars() {
        if inside_word {
            titled.extend(c.to_lowercase());
        } else {
            titled.extend(c.to_uppercase());
        }
        inside_word = c.is_alphabetic();
    }
    titled
}

fn swap_case(c: char) -> char {
    if c.is_uppercase() { c.to_lowercase().next().unwrap_or(c) } else { c.to_uppercase().next().unwrap_or(c) }
}

/// Decimal digits beyond ASCII, which Rust does not tell from other numerals: the common blocks.
fn is_other_digit(c: char) -> bool {
    matches!(c, '\u{660}'..='\u{669}' | '\u{6f0}'..='\u{6f9}' | '\u{966}'..='\u{96f}' | '\u{ff10}'..='\u{ff19}')
}

/// Whether five digits stand in a row.
pub(super) fn has_huge_number(format: &str) -> bool {
    format.as_bytes().windows(5).any(|window| window.iter().all(u8::is_ascii_digit))
}

fn is_identifier(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_alphanumeric() || c == '_')
}

fn list_method(value: &Value, method: &str, arguments: &[Value]) -> Result<Option<Value>, Error> {
    match method {
        "index" => {
            let (wanted,): (&Value,) = from_args(arguments)?;
            for (index, item) in value.try_iter()?.checked().enumerate() {
                if item? == *wanted {
                    return Ok(Some(Value::from(index)));
                }
            }
            Err(Error::new(ErrorKind::InvalidOperation, "the value is not in the list"))
        }
        "copy" => Ok(Some(value.clone())),
        _ => Ok(None),
    }
}

fn map_method(value: &Value, method: &str, arguments: &[Value]) -> Result<Option<Value>, Error> {
    match method {
        "copy" => {
            let () = from_args(arguments)?;
            Ok(Some(value.clone()))
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use minijinja::Environment;

    #[test]
    fn methods_take_pythons_arguments() {
        let mut environment = Environment::new();
        environment.set_unknown_method_callback(super::call_method);
        for (call, expected) in [
            ("'\x1c a '.strip()", "a"),
            ("'xyaxy'.lstrip('yx')", "axy"),
            ("' a  b  c '.split(none, 1)", "['a', 'b  c ']"),
            ("' a  b  c '.rsplit(none, 1)", "[' a  b', 'c']"),
            ("'a,b,c'.split(',', maxsplit=1)", "['a', 'b,c']"),
            ("'a,b,c'.rsplit(',', 1)", "['a,b', 'c']"),
            ("'a\\r\\nb\\n'.splitlines()", "['a', 'b']"),
            ("'abc'.startswith(('x', 'b'), 1)", "True"),
            ("'éab'.find('b')", "2"),
            ("'abcb'.rfind('b', 0, 2)", "1"),
            ("'abcd'.center(7, '*')", "**abcd*"),
            ("'ab'.center(5, '*')", "**ab*"),
            ("'-5'.zfill(4)", "-005"),
            ("'a=b=c'.rpartition('=')", "('a=b', '=', 'c')"),
            ("\"they're\".title()", "They'Re"),
            ("'prefix'.removeprefix('pre')", "fix"),
            ("[3, 1].index(1)", "1"),
        ] {
            let template = format!("{{{{ {call} }}}}");
            assert_eq!(environment.render_str(&template, ()).unwrap(), expected, "{call}");
        }
        for refused in ["'a'.split('')", "'a'.index('b')", "', '.join([1])", "'a'.startswith(['a'])"] {
            assert!(environment.render_str(&format!("{{{{ {refused} }}}}"), ()).is_err(), "{refused}");
        }
    }
}
