//! How metadata values are spelled, whatever they are read from.

use super::GgufValue;
use crate::error::{Error, Result};

/// Primitives of the format; what they do not hold is read from them here, once.
pub(super) trait ReadValue {
    /// The next `N` bytes.
    fn array<const N: usize>(&mut self) -> Result<[u8; N]>;

    /// Text behind its length.
    fn text(&mut self) -> Result<String>;

    /// An array inside `depth` others.
    fn list(&mut self, depth: usize) -> Result<GgufValue>;

    /// What is wrong with the file.
    fn malformed(&self, problem: &str) -> Error;

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A value of type `kind`, inside `depth` arrays.
    fn value(&mut self, kind: u32, depth: usize) -> Result<GgufValue> {
        Ok(match kind {
            0 => GgufValue::Unsigned(self.array::<1>()?[0].into()),
            1 => GgufValue::Signed(i8::from_le_bytes(self.array()?).into()),
            2 => GgufValue::Unsigned(u16::from_le_bytes(self.array()?).into()),
            3 => GgufValue::Signed(i16::from_le_bytes(self.array()?).into()),
            4 => GgufValue::Unsigned(self.u32()?.into()),
            5 => GgufValue::Signed(i32::from_le_bytes(self.array()?).into()),
            6 => GgufValue::Float(f32::from_le_bytes(self.array()?).into()),
            7 => GgufValue::Bool(self.array::<1>()?[0] != 0),
            TEXT => GgufValue::String(self.text()?),
            ARRAY => self.list(depth)?,
            10 => GgufValue::Unsigned(self.u64()?),
            11 => GgufValue::Signed(i64::from_le_bytes(self.array()?)),
            12 => GgufValue::Float(f64::from_le_bytes(self.array()?)),
            _ => return Err(self.malformed(&format!("metadata type {kind} is unknown"))),
        })
    }
}

/// The type of text.
pub(super) const TEXT: u32 = 8;
/// The type of arrays.
pub(super) const ARRAY: u32 = 9;

/// Bytes of one value, of the types that have a fixed size.
pub(super) fn fixed_bytes(kind: u32) -> Option<u64> {
    Some(match kind {
        0 | 1 | 7 => 1,
        2 | 3 => 2,
        4..=6 => 4,
        10..=12 => 8,
        _ => return None,
    })
}

/// Bytes that a value takes at least.
pub(super) fn min_bytes(kind: u32) -> u64 {
    fixed_bytes(kind).unwrap_or(if kind == ARRAY { 12 } else { 8 })
}
