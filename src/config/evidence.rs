//! Reading keys and remembering what was read.
//!
//! One [`Reader`] per description. It knows which value is absent, which is null and which is of the
//! wrong type, and records every key it decided with; what a key means is left to its callers.

use std::collections::BTreeSet;
use std::fmt::Display;

use serde::Serialize;
use serde_json::{Map, Value};

use super::{ModelConfig, parse};
use crate::error::{Error, Result};

/// Largest number of layers that is believed.
pub(super) const MAX_LAYERS: usize = 1 << 14;
/// Largest head count or width that is believed.
const MAX_SIZE: u64 = 1 << 24;
/// Largest window or context that is believed, in tokens.
const MAX_TOKENS: u64 = 1 << 48;

/// What was done with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EvidenceKind {
    /// Read from the file.
    Read,
    /// Not in the file: the class default or a rule was used.
    Assumed,
    /// In the file, and not used.
    Ignored,
}

/// One key that decided something, or would have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// What was done.
    pub kind: EvidenceKind,
    /// Path of the key in the file, such as `text_config.head_dim`.
    pub at: String,
    /// The value, shortened.
    pub value: String,
    /// What it means, or why it was not used.
    pub rule: String,
}

/// A key that may be absent or null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found<T> {
    Absent,
    Null,
    Is(T),
}

impl<T> Found<T> {
    pub(super) fn value(self) -> Option<T> {
        match self {
            Self::Is(value) => Some(value),
            Self::Absent | Self::Null => None,
        }
    }
}

/// One number for all layers, or one for each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Counts {
    One(usize),
    PerLayer(Vec<usize>),
}

impl Counts {
    pub(super) fn at(&self, layer: usize) -> usize {
        match self {
            Self::One(count) => *count,
            Self::PerLayer(counts) => counts.get(layer).copied().unwrap_or(0),
        }
    }
}

/// Whether a count may be 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Zero {
    Refused,
    Allowed,
}

/// Shows a value in at most about 60 characters.
pub(super) fn shown(value: &Value) -> String {
    let text = parse::not_finite(value).map_or_else(|| value.to_string(), str::to_owned);
    if text.chars().count() <= 60 {
        return text;
    }
    let start: String = text.chars().take(48).collect();
    match value {
        Value::Array(items) => format!("{start}... ({} entries)", items.len()),
        _ => format!("{start}..."),
    }
}

/// Why `value` cannot be a count up to `limit`, in words that follow the key's name.
fn count_fault(value: &Value, limit: u64) -> String {
    let text = shown(value);
    match value {
        Value::Null => "is null, but it is required (missing)".to_owned(),
        Value::Number(number) if number.as_i64().is_some_and(|n| n < 0) => {
            format!("is {text}: negative, but it must be a positive integer")
        }
        Value::Number(number) if number.as_f64().is_some_and(|n| n.fract() != 0.0) => {
            format!("is {text}: a fraction, but it must be a positive integer number")
        }
        Value::Number(number) if number.is_f64() && number.as_f64().is_some_and(|n| n.abs() < 9e15) => {
            format!("is {text}: a floating-point number, but it must be a positive integer")
        }
        Value::Number(_) => format!("is {text}: too large (huge; the limit is {limit}, more would overflow)"),
        _ => format!("is {text}: {}, but it must be a positive integer number", parse::kind_of(value)),
    }
}

/// Reads a head count or width.
pub(super) fn count(value: &Value, zero: Zero) -> Result<usize, String> {
    limited(value, zero, MAX_SIZE)
}

/// Reads a number of tokens.
pub(super) fn tokens(value: &Value) -> Result<usize, String> {
    limited(value, Zero::Refused, MAX_TOKENS)
}

fn limited(value: &Value, zero: Zero, limit: u64) -> Result<usize, String> {
    match value.as_u64() {
        Some(0) if zero == Zero::Refused => Err("is 0 (zero), but it must be a positive integer".to_owned()),
        Some(number) if number <= limit => usize::try_from(number).map_err(|_| count_fault(value, limit)),
        _ => Err(count_fault(value, limit)),
    }
}

/// Reads keys of the language model's part and remembers them.
pub(super) struct Reader<'a> {
    config: &'a ModelConfig,
    evidence: Vec<Evidence>,
    seen: BTreeSet<&'a str>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(config: &'a ModelConfig) -> Self {
        Self { config, evidence: Vec::new(), seen: BTreeSet::new() }
    }

    pub(super) fn config(&self) -> &'a ModelConfig {
        self.config
    }

    pub(super) fn malformed(&self, problem: impl Into<String>) -> Error {
        Error::Malformed { path: self.config.path.clone(), problem: problem.into() }
    }

    pub(super) fn unsupported(&self, problem: impl Into<String>) -> Error {
        Error::UnsupportedConfig { path: self.config.path.clone(), problem: problem.into() }
    }

    /// An error about one key, naming it as the file spells it.
    pub(super) fn at_key(&self, key: &str, problem: impl AsRef<str>) -> Error {
        self.malformed(format!("`{}` {}", self.config.spelling(key), problem.as_ref()))
    }

    fn record(&mut self, kind: EvidenceKind, key: &str, value: String, rule: impl Into<String>) {
        let at = self.config.spelling(key);
        let evidence = Evidence { kind, at, value, rule: rule.into() };
        if !self.evidence.contains(&evidence) {
            self.evidence.push(evidence);
        }
    }

    pub(super) fn read(&mut self, key: &str, value: &Value, rule: impl Into<String>) {
        self.record(EvidenceKind::Read, key, shown(value), rule);
    }

    pub(super) fn assumed(&mut self, key: &str, value: impl Display, rule: impl Into<String>) {
        self.record(EvidenceKind::Assumed, key, format!("{value}"), rule);
    }

    /// Whether something was recorded about `key`.
    pub(super) fn is_recorded(&self, key: &str) -> bool {
        let at = self.config.spelling(key);
        self.evidence.iter().any(|evidence| evidence.at == at)
    }

    /// Records a key that is in the file and not used.
    pub(super) fn ignored(&mut self, key: &str, why: impl Into<String>) {
        if let Some(value) = self.look(key).filter(|value| !value.is_null()) {
            self.record(EvidenceKind::Ignored, key, shown(value), why);
        }
    }

    /// The value under `key` (a dot leads into an object), null included. Not recorded yet.
    pub(super) fn look(&mut self, key: &str) -> Option<&'a Value> {
        let (first, rest) = key.split_once('.').map_or((key, None), |(first, rest)| (first, Some(rest)));
        let (first, mut value) = self.config.text().get_key_value(first)?;
        self.seen.insert(first);
        for name in rest.into_iter().flat_map(|rest| rest.split('.')) {
            value = value.as_object()?.get(name)?;
        }
        Some(value)
    }

    /// The first of `keys` that is present and not null; `Null` when only nulls were found.
    pub(super) fn first<'k>(&mut self, keys: &[&'k str]) -> Found<(&'k str, &'a Value)> {
        let mut found = Found::Absent;
        for &key in keys {
            match self.look(key) {
                Some(Value::Null) => found = Found::Null,
                Some(value) => return Found::Is((key, value)),
                None => {}
            }
        }
        found
    }

    /// A count under one of `keys`.
    pub(super) fn count(&mut self, keys: &[&str], rule: &str) -> Result<Found<usize>> {
        self.count_or_zero(keys, Zero::Refused, rule)
    }

    /// A count under `key`, else the class default.
    pub(super) fn count_or(&mut self, key: &str, class: usize, zero: Zero, rule: &str) -> Result<usize> {
        if let Some(count) = self.count_or_zero(&[key], zero, rule)?.value() {
            return Ok(count);
        }
        self.assumed(key, class, format!("class default: {rule}"));
        Ok(class)
    }

    /// A count under one of `keys` that may be 0.
    pub(super) fn count_or_zero(&mut self, keys: &[&str], zero: Zero, rule: &str) -> Result<Found<usize>> {
        Ok(match self.first(keys) {
            Found::Absent => Found::Absent,
            Found::Null => Found::Null,
            Found::Is((key, value)) => {
                let number = count(value, zero).map_err(|fault| self.at_key(key, fault))?;
                self.read(key, value, rule);
                Found::Is(number)
            }
        })
    }

    /// A count, or a list with one for each of `layers`. With the key it was found under.
    pub(super) fn counts<'k>(
        &mut self,
        keys: &[&'k str],
        layers: usize,
        zero: Zero,
        rule: &str,
    ) -> Result<Found<(&'k str, Counts)>> {
        Ok(match self.first(keys) {
            Found::Absent => Found::Absent,
            Found::Null => Found::Null,
            Found::Is((key, value)) => {
                let counts = match value {
                    Value::Array(items) => {
                        self.check_len(key, items.len(), layers)?;
                        let each = items.iter().enumerate().map(|(layer, item)| {
                            count(item, zero).map_err(|fault| self.at_key(key, format!("[{layer}] {fault}")))
                        });
                        Counts::PerLayer(each.collect::<Result<_>>()?)
                    }
                    _ => Counts::One(count(value, Zero::Refused).map_err(|fault| self.at_key(key, fault))?),
                };
                self.read(key, value, rule);
                Found::Is((key, counts))
            }
        })
    }

    /// A list under `key`; null and absent are both `None`.
    pub(super) fn list(&mut self, key: &str) -> Result<Option<&'a [Value]>> {
        match self.look(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Array(items)) => Ok(Some(items)),
            Some(other) => Err(self.wrong(key, other, "a list")),
        }
    }

    /// A boolean under `key`; null and absent are both `None`.
    pub(super) fn flag(&mut self, key: &str, rule: &str) -> Result<Option<bool>> {
        match self.look(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value @ Value::Bool(flag)) => {
                self.read(key, value, rule);
                Ok(Some(*flag))
            }
            Some(other) => Err(self.wrong(key, other, "true or false")),
        }
    }

    /// An object under `key`; null and absent are both `None`.
    pub(super) fn object(&mut self, key: &str) -> Result<Option<&'a Map<String, Value>>> {
        match self.look(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Object(map)) => Ok(Some(map)),
            Some(other) => Err(self.wrong(key, other, "an object")),
        }
    }

    pub(super) fn wrong(&self, key: &str, value: &Value, wanted: &str) -> Error {
        self.at_key(key, format!("is {}: {}, but it must be {wanted}", shown(value), parse::kind_of(value)))
    }

    /// Refuses a per-layer list of the wrong length.
    pub(super) fn check_len(&self, key: &str, len: usize, layers: usize) -> Result<()> {
        if len == layers {
            return Ok(());
        }
        Err(self.at_key(
            key,
            format!(
                "has {len} entries, but there are {layers} layers (the length of a per-layer list must match)"
            ),
        ))
    }

    /// Everything recorded, and the keys no rule looked at.
    pub(super) fn finish(self) -> (Vec<Evidence>, Vec<String>) {
        // A null says nothing that a reader could have missed.
        let keys = self.config.text().iter().filter(|(_, value)| !value.is_null()).map(|(key, _)| key);
        let unread =
            keys.filter(|key| !self.seen.contains(key.as_str())).map(|key| self.config.spelling(key));
        (self.evidence, unread.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_positive_integers() {
        let problem = |text: &str| count(&serde_json::from_str(text).unwrap(), Zero::Refused).unwrap_err();
        for (text, word) in [
            ("0", "zero"),
            ("-3", "negative"),
            ("2.5", "fraction"),
            ("32.0", "floating-point"),
            ("1e30", "too large"),
            ("18446744073709551615", "too large"),
            ("\"32\"", "string"),
            ("true", "boolean"),
            ("null", "null"),
            ("[1]", "list"),
        ] {
            assert!(problem(text).contains(word), "{text}: {}", problem(text));
        }
        assert_eq!(count(&Value::from(32), Zero::Refused), Ok(32));
        assert_eq!(count(&Value::from(0), Zero::Allowed), Ok(0));
    }
}
