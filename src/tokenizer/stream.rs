//! Text that appears while its tokens are still being chosen.
//!
//! A token may end inside a character, so some text has to wait. What a [`TextStream`] has given out
//! never changes: all its pieces together are exactly `Tokenizer::decode` of all ids with special
//! tokens skipped. The work per token does not grow with the text.

use super::Tokenizer;

/// Tokens before the waiting ones that are decoded again with them. Decoders treat the start of a text
/// differently (SentencePiece drops a space there), so the waiting tokens must not look like one.
const CONTEXT_TOKENS: usize = 4;

/// One text, token by token.
pub struct TextStream<'t> {
    tokenizer: &'t Tokenizer,
    held: Held,
}

enum Held {
    /// Byte-level vocabularies: the bytes of an unfinished character, at most three.
    Bytes(Vec<u8>),
    /// All others: the last tokens shown, and those that wait for what follows.
    Tokens { context: Vec<String>, waiting: Vec<String> },
}

impl<'t> TextStream<'t> {
    pub(super) fn new(tokenizer: &'t Tokenizer) -> Self {
        let held = if tokenizer.is_byte_level() {
            Held::Bytes(Vec::new())
        } else {
            Held::Tokens { context: Vec::new(), waiting: Vec::new() }
        };
        Self { tokenizer, held }
    }

    /// Takes the next token and returns the text that has become certain, maybe none.
    pub fn push(&mut self, id: u32) -> String {
        if self.tokenizer.is_special(id) {
            return String::new();
        }
        let Some(token) = self.tokenizer.token(id) else { return String::new() };
        match &mut self.held {
            Held::Bytes(bytes) => {
                append_bytes(&token, bytes);
                take_certain(bytes)
            }
            Held::Tokens { context, waiting } => {
                // A run of `<0xE2>` tokens is decoded as a whole, or as nothing but U+FFFD when any part
                // of it is not UTF-8. So none of it is certain before the run has ended.
                let inside_run = is_byte_token(&token);
                waiting.push(token);
                if inside_run { String::new() } else { show_waiting(self.tokenizer, context, waiting) }
            }
        }
    }

    /// Ends the text and returns what was held back. U+FFFD stands for a character that was begun only.
    pub fn finish(&mut self) -> String {
        match &mut self.held {
            Held::Bytes(bytes) => {
                let rest = String::from_utf8_lossy(bytes).into_owned();
                bytes.clear();
                rest
            }
            Held::Tokens { context, waiting } => show_waiting(self.tokenizer, context, waiting),
        }
    }
}

/// Decodes the waiting tokens behind their context and makes them the context of the next.
fn show_waiting(tokenizer: &Tokenizer, context: &mut Vec<String>, waiting: &mut Vec<String>) -> String {
    if waiting.is_empty() {
        return String::new();
    }
    let before = if context.is_empty() { String::new() } else { tokenizer.join(context) };
    context.append(waiting);
    let mut text = tokenizer.join(context);
    // A decoder that rewrites earlier text when more follows cannot be streamed; the rest is kept right.
    let shared = text.bytes().zip(before.bytes()).take_while(|(ours, theirs)| ours == theirs).count();
    let start = (0..=shared).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    text.drain(..start);
    context.drain(..context.len().saturating_sub(CONTEXT_TOKENS));
    text
}

/// Whether the entry is the spelling of one byte, `<0x00>` to `<0xFF>`.
fn is_byte_token(token: &str) -> bool {
    token
        .strip_prefix("<0x")
        .and_then(|rest| rest.strip_suffix('>'))
        .is_some_and(|digits| digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

/// Takes from `bytes` all that no further byte can change.
fn take_certain(bytes: &mut Vec<u8>) -> String {
    let mut text = String::new();
    let mut at = 0;
    loop {
        match std::str::from_utf8(&bytes[at..]) {
            Ok(rest) => {
                text.push_str(rest);
                bytes.clear();
                return text;
            }
            Err(error) => {
                let valid_end = at + error.valid_up_to();
                text.push_str(&String::from_utf8_lossy(&bytes[at..valid_end]));
                let Some(len) = error.error_len() else {
                    bytes.drain(..valid_end);
                    return text;
                };
                text.push(char::REPLACEMENT_CHARACTER);
                at = valid_end + len;
            }
        }
    }
}

/// Appends the bytes that a byte-level vocabulary entry spells. An entry with a character outside the
/// alphabet is an added token and stands for itself.
fn append_bytes(token: &str, bytes: &mut Vec<u8>) {
    let len = bytes.len();
    for character in token.chars() {
        let Some(byte) = byte_of(character) else {
            bytes.truncate(len);
            bytes.extend_from_slice(token.as_bytes());
            return;
        };
        bytes.push(byte);
    }
}

/// The byte that a character of the byte-level alphabet stands for: visible Latin-1 for itself, and the
/// 68 others from U+0100 on, in order.
fn byte_of(character: char) -> Option<u8> {
    let code = u32::from(character);
    match code {
        0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF => u8::try_from(code).ok(),
        0x100..=0x120 => u8::try_from(code - 0x100).ok(),
        0x121..=0x142 => u8::try_from(code - 0x121 + 0x7F).ok(),
        0x143 => Some(0xAD),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alphabet_has_every_byte_once() {
        let alphabet = tokenizers::pre_tokenizers::byte_level::ByteLevel::alphabet();
        let mut bytes: Vec<u8> = alphabet.iter().filter_map(|&character| byte_of(character)).collect();
        bytes.sort_unstable();
        assert_eq!(bytes, (0..=255).collect::<Vec<u8>>());
        let others = (0..=0x3000).filter_map(char::from_u32).filter(|c| !alphabet.contains(c));
        assert!(others.into_iter().all(|character| byte_of(character).is_none()));
        assert_eq!((byte_of('Ġ'), byte_of('Ċ')), (Some(b' '), Some(b'\n')));
    }

    #[test]
    fn only_an_unfinished_character_is_held() {
        let mut bytes = b"a\xFFb\xE4\xB8".to_vec();
        assert_eq!((take_certain(&mut bytes).as_str(), bytes.as_slice()), ("a\u{FFFD}b", &b"\xE4\xB8"[..]));
        bytes.push(b'c');
        assert_eq!((take_certain(&mut bytes).as_str(), bytes.len()), ("\u{FFFD}c", 0));
    }

    #[test]
    fn byte_tokens_are_told_from_text() {
        assert!(["<0x00>", "<0xfF>"].into_iter().all(is_byte_token));
        assert!(!["<0x0>", "<0x+1>", "0x00", "<0x000>", "<0xG0>"].into_iter().any(is_byte_token));
    }
}
