//! A GGUF header from a stream, in constant memory.
//!
//! Reading stops where the tensors' data begins, so a file of any size costs its header only, and
//! standard input will do. Long arrays (vocabularies, merges) are passed over and tensors are added
//! up, not listed: what a hostile file can make this hold is bounded by the constants below. A tensor
//! type that nobody has assigned yet is counted, not refused.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, ErrorKind};
use std::path::Path;

use super::value::{ARRAY, ReadValue, TEXT, fixed_bytes, min_bytes};
use super::{GgufHeader, GgufMetadata, GgufType, GgufValue, MAGIC, MAX_ARRAY_DEPTH, MAX_DIMENSIONS};
use crate::error::{Error, Result};

/// Longest array that is kept; no model has more layers.
const MAX_KEPT_LEN: u64 = 1 << 14;
/// Elements of all kept arrays together.
const MAX_KEPT_ELEMENTS: u64 = 1 << 18;
/// Text of all kept keys and values together, in bytes. The longest is a chat template.
const MAX_KEPT_BYTES: u64 = 8 << 20;
/// Entries of the metadata; real files have about fifty.
const MAX_ENTRIES: u64 = 1 << 14;
/// Longest header, in bytes. Four times the largest vocabulary with its merges.
const MAX_HEADER_BYTES: u64 = 128 << 20;
/// Longest token that is shown to `on_token`, in bytes.
const MAX_TOKEN_BYTES: u64 = 1 << 16;
/// The array that `on_token` is shown.
const TOKENS: &str = "tokenizer.ggml.tokens";

/// What the header of one file says.
#[derive(Debug, Clone)]
pub struct GgufSkim {
    /// Metadata; long arrays are [`GgufValue::Skipped`].
    pub metadata: GgufMetadata,
    /// Tensors in this file.
    pub num_tensors: u64,
    /// Elements of all tensors.
    pub num_elements: u64,
    /// Bytes of all tensors; none when a type is unknown and the file's length is too.
    pub tensor_bytes: Option<u64>,
    /// Names of the tensors' types with the bytes they take, known types only.
    pub types: BTreeMap<&'static str, u64>,
    /// Numbers of types without a known size.
    pub unknown_types: BTreeSet<u32>,
}

impl GgufSkim {
    /// Reads a header from `reader`. `file_len` in bytes, where it is known, bounds what is believed.
    ///
    /// # Errors
    /// `Malformed` when the header contradicts itself or is cut short, `UnsupportedConfig` for
    /// another version of the format, `Io` when reading fails.
    pub fn read(reader: impl BufRead, file_len: Option<u64>, path: &Path) -> Result<Self> {
        Self::read_with(reader, file_len, path, &mut |_, _| {})
    }

    /// As [`Self::read`], and shows every token of the vocabulary with its id to `on_token`.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_with(
        reader: impl BufRead,
        file_len: Option<u64>,
        path: &Path,
        on_token: &mut dyn FnMut(u32, &[u8]),
    ) -> Result<Self> {
        let mut cursor = Cursor {
            reader,
            at: 0,
            file_len,
            path,
            elements_left: MAX_KEPT_ELEMENTS,
            bytes_left: MAX_KEPT_BYTES,
        };
        if &cursor.array::<4>()? != MAGIC {
            return Err(cursor.malformed("it does not begin with `GGUF`"));
        }
        let version = cursor.u32()?;
        if !(2..=3).contains(&version) {
            let problem = format!("GGUF version {version} is unknown (2 and 3, little-endian, can be read)");
            return Err(Error::UnsupportedConfig { path: path.to_owned(), problem });
        }
        // The smallest tensor entry takes 24 bytes, the smallest metadata entry 13.
        let num_tensors = cursor.count(24, "tensors")?;
        let num_entries = cursor.count(13, "metadata entries")?;
        if num_entries > MAX_ENTRIES {
            let problem = format!("it has {num_entries} metadata entries; the limit is {MAX_ENTRIES}");
            return Err(cursor.malformed(&problem));
        }
        let mut metadata = GgufMetadata::new();
        for _ in 0..num_entries {
            let key = cursor.text()?;
            let kind = cursor.u32()?;
            let value =
                if key == TOKENS && kind == 9 { cursor.tokens(on_token)? } else { cursor.value(kind, 0)? };
            if metadata.insert(key.clone(), value).is_some() {
                return Err(cursor.malformed(&format!("metadata key `{key}` occurs twice")));
            }
        }
        let mut skim = Self {
            metadata,
            num_tensors,
            num_elements: 0,
            tensor_bytes: Some(0),
            types: BTreeMap::new(),
            unknown_types: BTreeSet::new(),
        };
        for _ in 0..num_tensors {
            skim.add_tensor(&mut cursor)?;
        }
        if !skim.unknown_types.is_empty() {
            // The data follows the header, so the file's length bounds it where a type's size does not.
            skim.tensor_bytes = file_len.map(|len| len.saturating_sub(cursor.at));
        }
        Ok(skim)
    }

    /// The metadata as a header without tensors, which is all that a configuration is made of.
    pub fn into_header(self) -> GgufHeader {
        GgufHeader { metadata: self.metadata, tensors: BTreeMap::new() }
    }

    fn add_tensor(&mut self, cursor: &mut Cursor<'_, impl BufRead>) -> Result<()> {
        cursor.skip_text()?;
        let num_dimensions = cursor.u32()?;
        if num_dimensions > MAX_DIMENSIONS {
            return Err(cursor.malformed(&format!("a tensor has {num_dimensions} dimensions")));
        }
        let overflow = "the size of a tensor overflows";
        let mut elements = 1u64;
        for _ in 0..num_dimensions {
            let size = cursor.u64()?;
            elements = elements.checked_mul(size).ok_or_else(|| cursor.malformed(overflow))?;
        }
        let code = cursor.u32()?;
        let _offset = cursor.u64()?;
        let sum = self.num_elements.checked_add(elements);
        self.num_elements = sum.ok_or_else(|| cursor.malformed(overflow))?;
        let Some(format) = GgufType::from_code(code) else {
            self.unknown_types.insert(code);
            return Ok(());
        };
        let bytes = (elements / format.block_len).checked_mul(format.block_bytes);
        let total = bytes.zip(self.tensor_bytes).and_then(|(bytes, total)| total.checked_add(bytes));
        self.tensor_bytes = Some(total.ok_or_else(|| cursor.malformed(overflow))?);
        // Cannot overflow: it is part of the total above.
        *self.types.entry(format.name).or_default() += bytes.unwrap_or_default();
        Ok(())
    }
}

/// A bounds-checked reader over a stream.
struct Cursor<'a, R> {
    reader: R,
    at: u64,
    file_len: Option<u64>,
    path: &'a Path,
    elements_left: u64,
    bytes_left: u64,
}

impl<R: BufRead> Cursor<'_, R> {
    fn failed(&self, source: std::io::Error) -> Error {
        if source.kind() == ErrorKind::UnexpectedEof {
            return self.malformed(&format!("the header is cut short behind byte {}", self.at));
        }
        Error::io("read", self.path)(source)
    }

    /// Accounts for `len` more bytes of header.
    fn advance(&mut self, len: u64) -> Result<()> {
        let end = self.at.checked_add(len).filter(|&end| end <= MAX_HEADER_BYTES);
        self.at = end.ok_or_else(|| {
            self.malformed(&format!("its header takes more than {} MiB", MAX_HEADER_BYTES >> 20))
        })?;
        Ok(())
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Result<()> {
        self.reader.read_exact(buffer).map_err(|source| self.failed(source))?;
        self.advance(buffer.len() as u64)
    }

    fn skip(&mut self, len: u64) -> Result<()> {
        self.advance(len)?;
        let mut left = len;
        while left > 0 {
            let available = match self.reader.fill_buf() {
                Ok(bytes) => bytes.len(),
                Err(source) if source.kind() == ErrorKind::Interrupted => continue,
                Err(source) => return Err(self.failed(source)),
            };
            if available == 0 {
                return Err(self.failed(ErrorKind::UnexpectedEof.into()));
            }
            let taken = usize::try_from(left).unwrap_or(usize::MAX).min(available);
            self.reader.consume(taken);
            left -= taken as u64;
        }
        Ok(())
    }

    /// Reads a count of things that take at least `min_bytes` each in the rest of the file.
    fn count(&mut self, min_bytes: u64, what: &str) -> Result<u64> {
        let count = self.u64()?;
        let left = self.file_len.unwrap_or(MAX_HEADER_BYTES).saturating_sub(self.at);
        if count > left / min_bytes {
            return Err(self.malformed(&format!("it claims {count} {what}, more than {left} bytes can hold")));
        }
        Ok(count)
    }

    fn skip_text(&mut self) -> Result<()> {
        let len = self.count(1, "bytes of text")?;
        self.skip(len)
    }

    /// Type of an array's elements, and how many there are.
    fn list_start(&mut self) -> Result<(u32, u64)> {
        let kind = self.u32()?;
        Ok((kind, self.count(min_bytes(kind), "array elements")?))
    }

    fn tokens(&mut self, on_token: &mut dyn FnMut(u32, &[u8])) -> Result<GgufValue> {
        let (kind, len) = self.list_start()?;
        if kind != TEXT {
            return Err(self.malformed(&format!("`{TOKENS}` is not a list of text")));
        }
        let mut token = Vec::new();
        for id in 0..len {
            let token_len = self.count(1, "bytes of text")?;
            if token_len > MAX_TOKEN_BYTES {
                return Err(self.malformed(&format!("token {id} takes {token_len} bytes")));
            }
            token.resize(usize::try_from(token_len).expect("bounded by MAX_TOKEN_BYTES"), 0);
            self.fill(&mut token)?;
            if let Ok(id) = u32::try_from(id) {
                on_token(id, &token);
            }
        }
        Ok(GgufValue::Skipped(len))
    }
}

impl<R: BufRead> ReadValue for Cursor<'_, R> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn text(&mut self) -> Result<String> {
        let len = self.count(1, "bytes of text")?;
        self.bytes_left = self.bytes_left.checked_sub(len).ok_or_else(|| {
            self.malformed(&format!("its metadata has over {} MiB of text", MAX_KEPT_BYTES >> 20))
        })?;
        let mut bytes = vec![0; usize::try_from(len).expect("bounded by MAX_KEPT_BYTES")];
        self.fill(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn list(&mut self, depth: usize) -> Result<GgufValue> {
        if depth == MAX_ARRAY_DEPTH {
            return Err(self.malformed("metadata arrays are nested too deep"));
        }
        let (kind, len) = self.list_start()?;
        // Lists of text say nothing about layers.
        let keeps = len <= MAX_KEPT_LEN && len <= self.elements_left && kind != TEXT;
        if keeps {
            self.elements_left -= len;
            let values = (0..len).map(|_| self.value(kind, depth + 1)).collect::<Result<_>>()?;
            return Ok(GgufValue::Array(values));
        }
        match fixed_bytes(kind) {
            Some(size) => self.skip(len * size)?,
            None if kind == TEXT => (0..len).try_for_each(|_| self.skip_text())?,
            None if kind == ARRAY => {
                for _ in 0..len {
                    self.list(depth + 1)?;
                }
            }
            None => return Err(self.malformed(&format!("metadata type {kind} is unknown"))),
        }
        Ok(GgufValue::Skipped(len))
    }

    fn malformed(&self, problem: &str) -> Error {
        Error::Malformed { path: self.path.to_owned(), problem: problem.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &mut Vec<u8>, text: &str) {
        bytes.extend((text.len() as u64).to_le_bytes());
        bytes.extend(text.as_bytes());
    }

    /// A header with a vocabulary of `tokens` and one tensor of type `code`, without its data.
    fn header(tokens: &[&str], code: u32) -> Vec<u8> {
        let mut bytes = b"GGUF".to_vec();
        bytes.extend(3u32.to_le_bytes());
        bytes.extend(1u64.to_le_bytes());
        bytes.extend(2u64.to_le_bytes());
        text(&mut bytes, "general.architecture");
        bytes.extend(8u32.to_le_bytes());
        text(&mut bytes, "llama");
        text(&mut bytes, TOKENS);
        bytes.extend(9u32.to_le_bytes());
        bytes.extend(8u32.to_le_bytes());
        bytes.extend((tokens.len() as u64).to_le_bytes());
        for token in tokens {
            text(&mut bytes, token);
        }
        text(&mut bytes, "t");
        bytes.extend(2u32.to_le_bytes());
        bytes.extend(256u64.to_le_bytes());
        bytes.extend(3u64.to_le_bytes());
        bytes.extend(code.to_le_bytes());
        bytes.extend(0u64.to_le_bytes());
        bytes
    }

    fn skim(bytes: &[u8], len: Option<u64>) -> Result<GgufSkim> {
        GgufSkim::read(bytes, len, Path::new("x.gguf"))
    }

    #[test]
    fn a_vocabulary_is_counted_and_shown_but_not_kept() {
        let mut seen = Vec::new();
        let bytes = header(&["a", "bc"], 23);
        let mut on_token = |id, token: &[u8]| seen.push((id, token.to_vec()));
        let skim = GgufSkim::read_with(bytes.as_slice(), None, Path::new("x.gguf"), &mut on_token).unwrap();
        assert_eq!(skim.metadata[TOKENS], GgufValue::Skipped(2));
        assert_eq!(seen, [(0, b"a".to_vec()), (1, b"bc".to_vec())]);
        // IQ4_XS: three blocks of 256 elements in 136 bytes.
        assert_eq!((skim.num_elements, skim.tensor_bytes), (768, Some(408)));
        assert_eq!(skim.types["IQ4_XS"], 408);
    }

    #[test]
    fn long_lists_are_passed_over_and_short_ones_kept() {
        for (len, kept) in [(3u64, true), (MAX_KEPT_LEN + 1, false)] {
            let mut bytes = b"GGUF".to_vec();
            bytes.extend(3u32.to_le_bytes());
            bytes.extend(0u64.to_le_bytes());
            bytes.extend(2u64.to_le_bytes());
            text(&mut bytes, "list");
            bytes.extend(9u32.to_le_bytes());
            bytes.extend(2u32.to_le_bytes());
            bytes.extend(len.to_le_bytes());
            bytes.extend((0..len).flat_map(|_| 7u16.to_le_bytes()));
            text(&mut bytes, "behind");
            bytes.extend(7u32.to_le_bytes());
            bytes.push(1);
            let skim = skim(&bytes, Some(bytes.len() as u64)).unwrap();
            assert_eq!(skim.metadata["list"].array_len(), Some(len));
            assert_eq!(skim.metadata["list"].as_array().is_some(), kept);
            assert_eq!(skim.metadata["behind"], GgufValue::Bool(true));
        }
    }

    #[test]
    fn an_unknown_type_is_counted_by_the_length_of_the_file() {
        let bytes = header(&[], 999);
        let unknown = skim(&bytes, None).unwrap();
        assert_eq!((unknown.tensor_bytes, unknown.unknown_types.contains(&999)), (None, true));
        assert_eq!(skim(&bytes, Some(bytes.len() as u64 + 500)).unwrap().tensor_bytes, Some(500));
    }

    #[test]
    fn every_cut_is_an_error() {
        let whole = header(&["a"], 0);
        for len in 0..whole.len() {
            assert!(skim(&whole[..len], None).is_err(), "cut at {len}");
        }
    }

    #[test]
    fn claims_are_checked_before_anything_is_allocated() {
        let mut bytes = b"GGUF".to_vec();
        bytes.extend(3u32.to_le_bytes());
        bytes.extend(0u64.to_le_bytes());
        bytes.extend(1u64.to_le_bytes());
        bytes.extend((1u64 << 50).to_le_bytes());
        for len in [None, Some(1 << 40)] {
            let problem = skim(&bytes, len).unwrap_err().to_string();
            assert!(problem.contains("claims") || problem.contains("MiB"), "{problem}");
        }
    }
}
