//! From bytes to checked JSON.
//!
//! A reader of our own, for three things a general one does not do together: say what a file is when
//! it is not JSON (an LFS pointer, a saved error page, UTF-16), refuse a key that occurs twice, and
//! accept the bare `NaN` and `Infinity` that Python writes. Such a number is kept as a marked string,
//! so that it is refused only where the value is needed. What the keys mean is left to the others.

use std::path::Path;

use serde_json::{Map, Number, Value};

use crate::error::{Error, Result};

/// Largest configuration file that is read, in bytes.
pub const MAX_BYTES: usize = 4 << 20;
/// Deepest nesting of arrays and objects; real files stay below ten.
pub const MAX_DEPTH: usize = 64;
/// Values in all, counting those inside others: what a small file can make a reader hold. Real files stay
/// below ten thousand.
const MAX_VALUES: usize = 100_000;
/// First character of the string that stands for a number JSON cannot express.
const NOT_FINITE: char = '\0';

/// The text of a number JSON cannot express (`NaN`, `-Infinity`, `1e999`), if `value` stands for one.
pub(super) fn not_finite(value: &Value) -> Option<&str> {
    value.as_str()?.strip_prefix(NOT_FINITE)
}

/// Parses `bytes`, the content of the file at `path`, into the object they must hold.
pub(super) fn object(bytes: &[u8], path: &Path) -> Result<Map<String, Value>> {
    let malformed = |problem: String| Error::Malformed { path: path.to_owned(), problem };
    check_size(bytes.len() as u64, path)?;
    if let Some(problem) = not_json(bytes) {
        return Err(malformed(problem.to_owned()));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        malformed(format!("its encoding is not UTF-8: byte {} is invalid", error.valid_up_to()))
    })?;
    let mut parser = Parser { text, at: 0, values_left: MAX_VALUES };
    let value = parser.document().map_err(|fault| {
        let before = &text[..text.floor_char_boundary(fault.at)];
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
        malformed(format!(
            "it is not valid JSON: {} at line {line}, column {column} (byte {})",
            fault.problem, fault.at
        ))
    })?;
    match value {
        Value::Object(map) => Ok(map),
        other => Err(malformed(format!(
            "a configuration is a JSON object (a map of keys), but this is {}",
            kind_of(&other)
        ))),
    }
}

/// Refuses a file that is too large to be a configuration.
pub(super) fn check_size(len_bytes: u64, path: &Path) -> Result<()> {
    if len_bytes > MAX_BYTES as u64 {
        let problem = format!(
            "{len_bytes} bytes are too large for a configuration: the maximum size is {MAX_BYTES} bytes ({} MiB)",
            MAX_BYTES >> 20
        );
        return Err(Error::Malformed { path: path.to_owned(), problem });
    }
    Ok(())
}

/// What a file is instead of JSON, told by how it begins.
fn not_json(bytes: &[u8]) -> Option<&'static str> {
    const UTF16: &str = "its encoding is UTF-16; save it as UTF-8";
    let text = bytes.trim_ascii_start();
    let begins = |prefix: &str| {
        text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
    };
    Some(match bytes {
        _ if text.is_empty() => "it is empty: not valid JSON (unexpected end of file at byte 0)",
        [0xef, 0xbb, 0xbf, ..] => "it begins with a UTF-8 byte order mark (BOM); save it without one",
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => "its encoding is UTF-32; save it as UTF-8",
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [0, _, ..] | [_, 0, ..] => UTF16,
        [0x1f, 0x8b, ..] => "it is compressed with gzip; unpack it first",
        [b'P', b'K', 3 | 5, ..] => "it is a zip archive, not JSON",
        [b'G', b'G', b'U', b'F', ..] => "it is a GGUF file, not JSON",
        _ if begins("version https://git-lfs") => {
            "it is a Git LFS pointer, not the file itself; fetch it with `git lfs pull`"
        }
        _ if begins("<!doctype") || begins("<html") || begins("<head") || begins("<?xml") => {
            "it is an HTML page, not JSON: probably a saved error page of the server"
        }
        _ => return None,
    })
}

/// What a value is, in words for messages.
pub(super) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::String(text) if text.starts_with(NOT_FINITE) => "not a finite number",
        Value::String(_) => "a string",
        Value::Number(_) => "a number",
        Value::Array(_) => "an array (a list)",
        Value::Object(_) => "an object",
    }
}

struct Fault {
    problem: String,
    at: usize,
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    values_left: usize,
}

impl<'a> Parser<'a> {
    fn document(&mut self) -> Result<Value, Fault> {
        let value = self.value(0)?;
        self.skip_space();
        if self.at < self.text.len() {
            return Err(self.fault("trailing data after the end of the JSON value (extra characters)"));
        }
        Ok(value)
    }

    fn fault(&self, problem: impl Into<String>) -> Fault {
        Fault { problem: problem.into(), at: self.at }
    }

    /// A fault at the next character, or at the end of the file if there is none.
    fn unexpected(&self, wanted: &str) -> Fault {
        match self.text[self.at..].chars().next() {
            None => self.fault(format!("unexpected end of file (EOF) where {wanted} belongs")),
            Some(found) => self.fault(format!("unexpected {found:?} where {wanted} belongs")),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn accept(&mut self, word: &str) -> bool {
        let found = self.text[self.at..].starts_with(word);
        if found {
            self.at += word.len();
        }
        found
    }

    fn value(&mut self, depth: usize) -> Result<Value, Fault> {
        self.skip_space();
        if depth > MAX_DEPTH {
            return Err(self.fault(format!(
                "arrays and objects are nested too deep: the nesting depth limit is {MAX_DEPTH}"
            )));
        }
        self.values_left = self.values_left.checked_sub(1).ok_or_else(|| {
            self.fault(format!("too large for a configuration: more than the limit of {MAX_VALUES} values"))
        })?;
        match self.peek() {
            Some(b'{') => self.map(depth).map(Value::Object),
            Some(b'[') => self.array(depth).map(Value::Array),
            Some(b'"') => self.string().map(Value::String),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ if self.accept("true") => Ok(Value::Bool(true)),
            _ if self.accept("false") => Ok(Value::Bool(false)),
            _ if self.accept("null") => Ok(Value::Null),
            _ if self.accept("NaN") => Ok(marked("NaN")),
            _ if self.accept("Infinity") => Ok(marked("Infinity")),
            _ => Err(self.unexpected("a value")),
        }
    }

    fn map(&mut self, depth: usize) -> Result<Map<String, Value>, Fault> {
        let mut map = Map::new();
        self.at += 1;
        self.skip_space();
        if self.accept("}") {
            return Ok(map);
        }
        loop {
            self.skip_space();
            let key_at = self.at;
            if self.peek() != Some(b'"') {
                return Err(self.unexpected("a key in double quotes"));
            }
            let key = self.string()?;
            if map.contains_key(&key) {
                return Err(Fault { problem: format!("duplicate key `{key}`"), at: key_at });
            }
            self.skip_space();
            if !self.accept(":") {
                return Err(self.unexpected("`:`"));
            }
            let value = self.value(depth + 1)?;
            map.insert(key, value);
            self.skip_space();
            if self.accept("}") {
                return Ok(map);
            }
            if !self.accept(",") {
                return Err(self.unexpected("`,` or `}`"));
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Vec<Value>, Fault> {
        let mut values = Vec::new();
        self.at += 1;
        self.skip_space();
        if self.accept("]") {
            return Ok(values);
        }
        loop {
            values.push(self.value(depth + 1)?);
            self.skip_space();
            if self.accept("]") {
                return Ok(values);
            }
            if !self.accept(",") {
                return Err(self.unexpected("`,` or `]`"));
            }
        }
    }

    fn string(&mut self) -> Result<String, Fault> {
        self.at += 1;
        let mut text = String::new();
        loop {
            let rest = &self.text[self.at..];
            let len = rest.find(|c: char| c == '"' || c == '\\' || c < ' ').unwrap_or(rest.len());
            text.push_str(&rest[..len]);
            self.at += len;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => text.push(self.escape()?),
                _ => return Err(self.unexpected("the closing quote of a string")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, Fault> {
        self.at += 1;
        let plain = match self.peek() {
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                let high = self.hex()?;
                if (0xd800..0xdc00).contains(&high) && self.text[self.at..].starts_with("\\u") {
                    let after_high = self.at;
                    self.at += 2;
                    let low = self.hex()?;
                    if (0xdc00..0xe000).contains(&low) {
                        let code = 0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                        return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                    }
                    self.at = after_high;
                }
                return Ok(char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            _ => return Err(self.unexpected("an escape sequence")),
        };
        self.at += 1;
        Ok(plain)
    }

    fn hex(&mut self) -> Result<u32, Fault> {
        let digits = self.text.get(self.at..self.at + 4).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let code = code.ok_or_else(|| self.unexpected("four hexadecimal digits"))?;
        self.at += 4;
        Ok(code)
    }

    fn digits(&mut self) -> Result<(), Fault> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start { Err(self.unexpected("a digit")) } else { Ok(()) }
    }

    fn number(&mut self) -> Result<Value, Fault> {
        let start = self.at;
        self.accept("-");
        if self.accept("Infinity") {
            return Ok(marked("-Infinity"));
        }
        if self.accept("0") {
            if matches!(self.peek(), Some(b'0'..=b'9')) {
                return Err(self.fault("a number with a leading zero"));
            }
        } else {
            self.digits()?;
        }
        let mut whole = true;
        if self.accept(".") {
            whole = false;
            self.digits()?;
        }
        if self.accept("e") || self.accept("E") {
            whole = false;
            let _signed = self.accept("+") || self.accept("-");
            self.digits()?;
        }
        let text: &'a str = &self.text[start..self.at];
        let integer = || {
            let unsigned = text.parse::<u64>().ok().map(Number::from);
            unsigned.or_else(|| text.parse::<i64>().ok().map(Number::from))
        };
        let number = if whole { integer() } else { None };
        let number = number.or_else(|| text.parse::<f64>().ok().and_then(Number::from_f64));
        Ok(number.map_or_else(|| marked(text), Value::Number))
    }
}

fn marked(text: &str) -> Value {
    Value::String(format!("{NOT_FINITE}{text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Map<String, Value>> {
        object(text.as_bytes(), Path::new("config.json"))
    }

    fn problem(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn ordinary_json_reads_as_serde_reads_it() {
        let text = r#" {"a": [1, -2, 3.5, 1e3, 0, -0.0], "b": {"c": "x\n\u00e9\ud83d\ude00/\/"},
            "t": true, "f": false, "n": null, "": {}, "e": [], "big": 18446744073709551615} "#;
        let expected: Value = serde_json::from_str(text).unwrap();
        assert_eq!(Value::Object(parse(text).unwrap()), expected);
    }

    #[test]
    fn python_floats_are_kept_apart() {
        let map = parse(r#"{"a": [NaN, Infinity, -Infinity, 1e999], "b": "NaN"}"#).unwrap();
        let texts: Vec<_> = map["a"].as_array().unwrap().iter().map(|v| not_finite(v).unwrap()).collect();
        assert_eq!(texts, ["NaN", "Infinity", "-Infinity", "1e999"]);
        assert_eq!(not_finite(&map["b"]), None);
    }

    #[test]
    fn faults_say_where() {
        assert!(problem("{\"a\": 1,\n \"b\" 2}").contains("line 2, column 6 (byte 14)"));
        assert!(problem(r#"{"a": 1} x"#).contains("trailing"));
        assert!(problem(r#"{"a": {"b": 1, "b": 2}}"#).contains("duplicate key `b`"));
        assert!(problem(r#"{"a": 01}"#).contains("leading zero"));
        for text in
            [r#"{"a": 1,}"#, r#"{"a": [1,]}"#, "{a: 1}", r#"{"a": "x"#, r#"{"a": .5}"#, r#"{"a": 1.}"#, "nul"]
        {
            assert!(problem(text).contains("JSON"), "{text}");
        }
        assert!(problem("").contains("empty"));
        assert!(problem("7").contains("object"));
    }

    #[test]
    fn nesting_is_limited_not_crashed_into() {
        let deep = |depth| format!("{{\"a\": {}{}}}", "[".repeat(depth), "]".repeat(depth));
        assert!(parse(&deep(MAX_DEPTH)).is_ok());
        assert!(problem(&deep(MAX_DEPTH + 1)).contains("nested too deep"));
        assert!(problem(&format!("{{\"a\": {}", "[".repeat(1_000_000))).contains("nested too deep"));
    }

    #[test]
    fn every_cut_of_a_file_is_an_error() {
        let text = r#"{"a": [1, {"b": "\u00e9", "c": -1.5e-3}], "d": true}"#;
        for len in 0..text.len() {
            assert!(parse(&text[..len]).is_err(), "cut at {len}");
        }
    }

    #[test]
    fn other_files_are_named() {
        for (bytes, word) in [
            (&b"\xef\xbb\xbf{}"[..], "BOM"),
            (b"\xff\xfe{\0}\0", "UTF-16"),
            (b"{\0}\0", "UTF-16"),
            (b"\0{\0}", "UTF-16"),
            (b"\x1f\x8b\x08", "gzip"),
            (b"\n <!doctype HTML>", "HTML"),
            (b"version https://git-lfs.github.com/spec/v1\n", "LFS"),
            (b"{\"a\": \"\xff\"}", "UTF-8"),
        ] {
            let problem = object(bytes, Path::new("x")).unwrap_err().to_string();
            assert!(problem.contains(word), "{problem}");
        }
        let large = vec![b' '; MAX_BYTES + 1];
        assert!(object(&large, Path::new("x")).unwrap_err().to_string().contains("too large"));
    }
}
