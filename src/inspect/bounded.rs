//! A reader of large JSON that refuses long strings and deep nesting, so that neither fills the memory.
//!
//! A streaming parser holds one string and its way down, whatever the file's size; this bounds both. It
//! knows quotes, escapes and brackets and nothing else of JSON, which its reader checks.

use std::io::{Error, ErrorKind, Read, Result};

/// Longest string, in bytes. The longest in use is a table of characters in a tokenizer, below one million.
const MAX_STRING_BYTES: usize = 4 << 20;

/// Deepest nesting. Tokenizers and headers stay below ten.
const MAX_DEPTH: usize = 64;

/// Passes bytes on until a string is too long or an array too deep.
pub(super) struct Bounded<R> {
    reader: R,
    /// Bytes of the string that is open; none outside of strings.
    open: Option<usize>,
    escaped: bool,
    depth: usize,
}

impl<R: Read> Bounded<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader, open: None, escaped: false, depth: 0 }
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let len = self.reader.read(buffer)?;
        for &byte in &buffer[..len] {
            self.open = match (self.open, byte) {
                (None, b'"') => Some(0),
                (None, b'[' | b'{') if self.depth == MAX_DEPTH => {
                    let problem = format!("it is nested deeper than {MAX_DEPTH}");
                    return Err(Error::new(ErrorKind::InvalidData, problem));
                }
                (None, _) => {
                    match byte {
                        b'[' | b'{' => self.depth += 1,
                        b']' | b'}' => self.depth = self.depth.saturating_sub(1),
                        _ => {}
                    }
                    None
                }
                (Some(_), b'"') if !self.escaped => None,
                (Some(len), _) if len == MAX_STRING_BYTES => {
                    let problem = format!("a string is longer than {} MiB", MAX_STRING_BYTES >> 20);
                    return Err(Error::new(ErrorKind::InvalidData, problem));
                }
                (Some(len), _) => Some(len + 1),
            };
            self.escaped = self.open.is_some() && byte == b'\\' && !self.escaped;
        }
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(text: &str) -> bool {
        std::io::copy(&mut Bounded::new(text.as_bytes()), &mut std::io::sink()).is_ok()
    }

    #[test]
    fn nesting_is_bounded_outside_of_strings() {
        assert!(passes(&format!("{}{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH)).repeat(3)));
        assert!(passes(&format!("\"{}\"", "[".repeat(1000))));
        assert!(!passes(&"{\"a\":".repeat(MAX_DEPTH + 1)));
    }

    #[test]
    fn only_long_strings_are_refused() {
        let long = "a".repeat(MAX_STRING_BYTES);
        assert!(passes(&format!("{{\"{long}\": \"{long}\"}}{long}{long}")));
        assert!(!passes(&format!("[\"a{long}\"]")));
        // An escaped quote does not end a string, and an escaped backslash does not escape a quote.
        assert!(!passes(&format!("\"{}", "\\\"".repeat(MAX_STRING_BYTES))));
        assert!(passes(&"\"\\\\\",".repeat(MAX_STRING_BYTES)));
    }
}
