//! The header of a GGUF file: metadata and where each tensor lies.
//!
//! Our own reader, because a header must be readable when a tensor's type is one that candle cannot
//! compute with, and because nothing in the file is believed: every count is checked against the
//! bytes that are left before anything is allocated. Turning tensors into weights is left to
//! `checkpoint::weights`, reading the metadata as a configuration to `config`. [`GgufSkim`] reads the
//! same header from a stream, for those who want to know a model without mapping its file.
//!
//! Format: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>, versions 2 and 3, little-endian.

mod parts;
mod skim;
mod value;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use self::parts::{GgufPart, only_gguf};
pub use self::skim::GgufSkim;
use self::value::{ReadValue, min_bytes};
use crate::error::{Error, Result};

const MAGIC: &[u8; 4] = b"GGUF";
const DEFAULT_ALIGNMENT: u64 = 32;
/// Arrays of arrays are legal; nobody nests them deeper than this.
const MAX_ARRAY_DEPTH: usize = 4;
const MAX_DIMENSIONS: u32 = 8;
/// Elements of all metadata arrays together. Four times the largest vocabulary with its merges, and a
/// bound on what a small file can make this reader hold.
const MAX_ARRAY_ELEMENTS: usize = 1 << 22;

/// One metadata value.
#[derive(Debug, Clone, PartialEq)]
pub enum GgufValue {
    /// Any unsigned integer type.
    Unsigned(u64),
    /// Any signed integer type.
    Signed(i64),
    /// Either float type.
    Float(f64),
    /// A boolean.
    Bool(bool),
    /// UTF-8 text; invalid bytes were replaced.
    String(String),
    /// Elements of one type.
    Array(Vec<GgufValue>),
    /// An array that was passed over by [`GgufSkim`]: how many elements it has.
    Skipped(u64),
}

impl GgufValue {
    /// The value as a count, id or size, when it is a non-negative integer.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Self::Unsigned(value) => Some(*value),
            Self::Signed(value) => u64::try_from(*value).ok(),
            _ => None,
        }
    }

    /// The value as a number of any kind.
    #[expect(clippy::cast_precision_loss, reason = "metadata numbers used as floats are small")]
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Unsigned(value) => Some(*value as f64),
            Self::Signed(value) => Some(*value as f64),
            Self::Float(value) => Some(*value),
            _ => None,
        }
    }

    /// The value as a boolean.
    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(value) = self { Some(*value) } else { None }
    }

    /// The value as text.
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(value) = self { Some(value) } else { None }
    }

    /// The value as an array.
    pub fn as_array(&self) -> Option<&[GgufValue]> {
        if let Self::Array(values) = self { Some(values) } else { None }
    }

    /// How many elements an array has, kept or passed over.
    pub fn array_len(&self) -> Option<u64> {
        match self {
            Self::Array(values) => Some(values.len() as u64),
            Self::Skipped(len) => Some(*len),
            _ => None,
        }
    }
}

/// Metadata keys and values, in the file's spelling.
pub type GgufMetadata = BTreeMap<String, GgufValue>;

/// How a tensor's elements are stored: blocks of `block_len` elements in `block_bytes` bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GgufType {
    /// The number in the file.
    pub code: u32,
    /// ggml's name, such as `Q4_K`.
    pub name: &'static str,
    /// Elements per block.
    pub block_len: u64,
    /// Bytes per block.
    pub block_bytes: u64,
}

/// Every tensor type ggml has assigned a number to, with block sizes from ggml's `type_traits`.
#[rustfmt::skip]
const TYPES: &[(u32, &str, u64, u64)] = &[
    (0, "F32", 1, 4), (1, "F16", 1, 2), (2, "Q4_0", 32, 18), (3, "Q4_1", 32, 20), (6, "Q5_0", 32, 22),
    (7, "Q5_1", 32, 24), (8, "Q8_0", 32, 34), (9, "Q8_1", 32, 36), (10, "Q2_K", 256, 84), (11, "Q3_K", 256, 110),
    (12, "Q4_K", 256, 144), (13, "Q5_K", 256, 176), (14, "Q6_K", 256, 210), (15, "Q8_K", 256, 292),
    (16, "IQ2_XXS", 256, 66), (17, "IQ2_XS", 256, 74), (18, "IQ3_XXS", 256, 98), (19, "IQ1_S", 256, 50),
    (20, "IQ4_NL", 32, 18), (21, "IQ3_S", 256, 110), (22, "IQ2_S", 256, 82), (23, "IQ4_XS", 256, 136),
    (24, "I8", 1, 1), (25, "I16", 1, 2), (26, "I32", 1, 4), (27, "I64", 1, 8), (28, "F64", 1, 8),
    (29, "IQ1_M", 256, 56), (30, "BF16", 1, 2), (34, "TQ1_0", 256, 54), (35, "TQ2_0", 256, 66), (39, "MXFP4", 32, 17),
];

impl GgufType {
    fn from_code(code: u32) -> Option<Self> {
        let &(code, name, block_len, block_bytes) = TYPES.iter().find(|entry| entry.0 == code)?;
        Some(Self { code, name, block_len, block_bytes })
    }
}

/// Where one tensor lies and what it holds.
#[derive(Debug, Clone)]
pub struct GgufTensor {
    /// Storage type.
    pub format: GgufType,
    /// Dimensions, outermost first (the file stores them innermost first).
    pub shape: Vec<usize>,
    /// Bytes from the start of the file.
    pub offset: usize,
    /// Bytes it takes.
    pub len_bytes: usize,
}

/// A parsed header.
#[derive(Debug, Clone)]
pub struct GgufHeader {
    /// Metadata.
    pub metadata: GgufMetadata,
    /// Tensors by name.
    pub tensors: BTreeMap<String, GgufTensor>,
}

/// Whether `bytes` begin like a GGUF file.
pub fn is_gguf(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

impl GgufHeader {
    /// Reads the header at the start of `bytes`, the (mapped) content of the file at `path`.
    ///
    /// # Errors
    /// `Malformed` when a count, offset or string does not fit in the file, `UnsupportedTensor` for a
    /// storage type without a known size.
    pub fn parse(bytes: &[u8], path: &Path) -> Result<Self> {
        let mut cursor = Cursor { bytes, at: 0, path, array_elements_left: MAX_ARRAY_ELEMENTS };
        if cursor.take(4)? != MAGIC {
            return Err(cursor.malformed("it does not begin with `GGUF`"));
        }
        let version = cursor.u32()?;
        if !(2..=3).contains(&version) {
            let swapped = version.swap_bytes();
            let problem = if (2..=3).contains(&swapped) {
                "it is big-endian; only little-endian files can be read".to_owned()
            } else {
                format!("GGUF version {version} is unknown (2 and 3 can be read)")
            };
            return Err(Error::UnsupportedConfig { path: path.to_owned(), problem });
        }
        // The smallest tensor entry takes 24 bytes, the smallest metadata entry 13.
        let num_tensors = cursor.count(24, "tensors")?;
        let num_values = cursor.count(13, "metadata entries")?;

        let mut metadata = GgufMetadata::new();
        for _ in 0..num_values {
            let key = cursor.text()?;
            let kind = cursor.u32()?;
            let value = cursor.value(kind, 0)?;
            if metadata.insert(key.clone(), value).is_some() {
                return Err(cursor.malformed(&format!("metadata key `{key}` occurs twice")));
            }
        }
        let tensors = read_tensors(&mut cursor, num_tensors, &metadata)?;
        Ok(Self { metadata, tensors })
    }

    /// `general.architecture`, such as `llama`.
    pub fn architecture(&self) -> Option<&str> {
        self.metadata.get("general.architecture").and_then(GgufValue::as_str)
    }
}

fn read_tensors(
    cursor: &mut Cursor<'_>,
    num_tensors: usize,
    metadata: &GgufMetadata,
) -> Result<BTreeMap<String, GgufTensor>> {
    struct Entry {
        name: String,
        format: GgufType,
        shape: Vec<usize>,
        offset: u64,
        len_bytes: u64,
    }
    let mut entries = Vec::new();
    for _ in 0..num_tensors {
        let name = cursor.text()?;
        let num_dimensions = cursor.u32()?;
        if num_dimensions > MAX_DIMENSIONS {
            return Err(cursor.malformed(&format!("tensor `{name}` has {num_dimensions} dimensions")));
        }
        let mut shape = Vec::new();
        let mut num_elements = 1u64;
        for _ in 0..num_dimensions {
            let size = cursor.u64()?;
            num_elements = num_elements
                .checked_mul(size)
                .ok_or_else(|| cursor.malformed(&format!("the size of tensor `{name}` overflows")))?;
            shape.push(cursor.to_usize(size)?);
        }
        shape.reverse();
        let code = cursor.u32()?;
        let format = GgufType::from_code(code).ok_or_else(|| Error::UnsupportedTensor {
            path: cursor.path.to_owned(),
            tensor: name.clone(),
            format: format!("ggml type {code}"),
        })?;
        let innermost = shape.last().copied().unwrap_or(1) as u64;
        if !innermost.is_multiple_of(format.block_len) {
            return Err(cursor.malformed(&format!(
                "tensor `{name}` has rows of {innermost} elements, not a multiple of {} for {}",
                format.block_len, format.name
            )));
        }
        let len_bytes = (num_elements / format.block_len)
            .checked_mul(format.block_bytes)
            .ok_or_else(|| cursor.malformed(&format!("the size of tensor `{name}` overflows")))?;
        let offset = cursor.u64()?;
        entries.push(Entry { name, format, shape, offset, len_bytes });
    }

    let alignment = match metadata.get("general.alignment") {
        None => DEFAULT_ALIGNMENT,
        Some(value) => value
            .as_u64()
            .filter(|alignment| alignment.is_power_of_two() && (8..=1 << 20).contains(alignment))
            .ok_or_else(|| cursor.malformed("general.alignment is not a power of two from 8 on"))?,
    };
    let data_start = (cursor.at as u64).next_multiple_of(alignment);
    let file_len = cursor.bytes.len() as u64;
    let mut tensors = BTreeMap::new();
    for Entry { name, format, shape, offset, len_bytes } in entries {
        if !offset.is_multiple_of(alignment) {
            return Err(cursor.malformed(&format!(
                "tensor `{name}` begins at {offset}, not a multiple of the alignment {alignment}"
            )));
        }
        let start = data_start.checked_add(offset);
        let end = start.and_then(|start| start.checked_add(len_bytes));
        let (Some(start), Some(end)) = (start, end) else {
            return Err(cursor.malformed(&format!("the offset of tensor `{name}` overflows")));
        };
        if end > file_len {
            return Err(cursor.malformed(&format!(
                "tensor `{name}` ends at byte {end}, but the file has {file_len}: it is cut short"
            )));
        }
        let tensor = GgufTensor {
            format,
            shape,
            offset: cursor.to_usize(start)?,
            len_bytes: cursor.to_usize(len_bytes)?,
        };
        if tensors.insert(name.clone(), tensor).is_some() {
            return Err(cursor.malformed(&format!("tensor `{name}` occurs twice")));
        }
    }
    Ok(tensors)
}

/// A bounds-checked reader over the mapped file.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    path: &'a Path,
    array_elements_left: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let end = self.at.checked_add(len).filter(|end| *end <= self.bytes.len());
        let Some(end) = end else {
            return Err(self.malformed(&format!("the header is cut short at byte {}", self.bytes.len())));
        };
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn to_usize(&self, value: u64) -> Result<usize> {
        usize::try_from(value).map_err(|_| self.malformed(&format!("{value} does not fit in memory")))
    }

    /// Reads a count of things that take at least `min_bytes` each in the rest of the file.
    fn count(&mut self, min_bytes: u64, what: &str) -> Result<usize> {
        let count = self.u64()?;
        let left = (self.bytes.len() - self.at) as u64;
        if count > left / min_bytes {
            return Err(self.malformed(&format!("it claims {count} {what}, more than {left} bytes can hold")));
        }
        self.to_usize(count)
    }
}

impl ReadValue for Cursor<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        Ok(self.take(N)?.try_into().expect("take returns exactly N bytes"))
    }

    fn text(&mut self) -> Result<String> {
        let len = self.count(1, "bytes of text")?;
        Ok(String::from_utf8_lossy(self.take(len)?).into_owned())
    }

    fn list(&mut self, depth: usize) -> Result<GgufValue> {
        if depth == MAX_ARRAY_DEPTH {
            return Err(self.malformed("metadata arrays are nested too deep"));
        }
        let kind = self.u32()?;
        let len = self.count(min_bytes(kind), "array elements")?;
        self.array_elements_left = self.array_elements_left.checked_sub(len).ok_or_else(|| {
            self.malformed(&format!("its metadata arrays have over {MAX_ARRAY_ELEMENTS} elements"))
        })?;
        Ok(GgufValue::Array((0..len).map(|_| self.value(kind, depth + 1)).collect::<Result<_>>()?))
    }

    fn malformed(&self, problem: &str) -> Error {
        Error::Malformed { path: PathBuf::from(self.path), problem: problem.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(num_tensors: u64, num_values: u64) -> Vec<u8> {
        let mut bytes = b"GGUF".to_vec();
        bytes.extend(3u32.to_le_bytes());
        bytes.extend(num_tensors.to_le_bytes());
        bytes.extend(num_values.to_le_bytes());
        bytes
    }

    fn push_string(bytes: &mut Vec<u8>, text: &str) {
        bytes.extend((text.len() as u64).to_le_bytes());
        bytes.extend(text.as_bytes());
    }

    /// One F32 tensor `t` of shape `[2, 3]` at `offset`, with its data.
    fn small_file(offset: u64) -> Vec<u8> {
        let mut bytes = header(1, 1);
        push_string(&mut bytes, "general.architecture");
        bytes.extend(8u32.to_le_bytes());
        push_string(&mut bytes, "llama");
        push_string(&mut bytes, "t");
        bytes.extend(2u32.to_le_bytes());
        bytes.extend(3u64.to_le_bytes());
        bytes.extend(2u64.to_le_bytes());
        bytes.extend(0u32.to_le_bytes());
        bytes.extend(offset.to_le_bytes());
        bytes.resize(bytes.len().next_multiple_of(32) + 24, 0);
        bytes
    }

    fn parse(bytes: &[u8]) -> Result<GgufHeader> {
        GgufHeader::parse(bytes, Path::new("x.gguf"))
    }

    #[test]
    fn dimensions_are_outermost_first() {
        let parsed = parse(&small_file(0)).unwrap();
        assert_eq!(parsed.architecture(), Some("llama"));
        let tensor = &parsed.tensors["t"];
        assert_eq!((tensor.shape.as_slice(), tensor.len_bytes, tensor.offset % 32), (&[2, 3][..], 24, 0));
    }

    #[test]
    fn every_cut_is_an_error() {
        let whole = small_file(0);
        for len in 0..whole.len() {
            assert!(parse(&whole[..len]).is_err(), "cut at {len}");
        }
    }

    #[test]
    fn data_must_lie_where_its_type_can_be_read() {
        let misplaced = parse(&small_file(4)).unwrap_err().to_string();
        assert!(misplaced.contains("multiple of the alignment"), "{misplaced}");
    }

    #[test]
    fn hostile_counts_allocate_nothing() {
        for (tensors, values) in [(u64::MAX, 0), (0, u64::MAX), (1 << 40, 1 << 40)] {
            let problem = parse(&header(tensors, values)).unwrap_err().to_string();
            assert!(problem.contains("claims"), "{problem}");
        }
        let mut bytes = header(0, 1);
        push_string(&mut bytes, "k");
        bytes.extend(9u32.to_le_bytes());
        bytes.extend(4u32.to_le_bytes());
        bytes.extend((1u64 << 60).to_le_bytes());
        assert!(parse(&bytes).unwrap_err().to_string().contains("array elements"));
    }
}
