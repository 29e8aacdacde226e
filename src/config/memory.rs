//! What a cache costs, in bytes, from a model's layers alone.
//!
//! Two figures, never mixed: *needed* applies windows, latents and sharing; *reserved* is what an
//! engine allocates that keeps pages for the whole length in every layer. Everything is checked: a
//! product that does not fit is an error, so no figure is ever a wrapped one.

use serde_json::{Map, Value};

use super::description::{Description, LayerAttention, Mask, Role};
use crate::error::{Error, Result};

/// How a cached number is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KvType {
    /// 4 bytes.
    F32,
    /// 2 bytes.
    F16,
    /// 2 bytes.
    Bf16,
    /// 1 byte.
    Fp8,
    /// Blocks of 32 elements in 34 bytes.
    Q8_0,
    /// Blocks of 32 elements in 18 bytes.
    Q4_0,
}

impl KvType {
    /// Every type with the name a user types.
    pub const ALL: &'static [(&'static str, Self)] = &[
        ("bf16", Self::Bf16),
        ("f16", Self::F16),
        ("f32", Self::F32),
        ("q8_0", Self::Q8_0),
        ("q4_0", Self::Q4_0),
        ("fp8", Self::Fp8),
    ];

    /// Bits per 32 elements.
    fn bits_per_32(self) -> u128 {
        match self {
            Self::F32 => 32 * 32,
            Self::F16 | Self::Bf16 => 32 * 16,
            Self::Fp8 => 32 * 8,
            Self::Q8_0 => 34 * 8,
            Self::Q4_0 => 18 * 8,
        }
    }
}

/// The byte figures of the machine-readable report.
pub(super) struct ByteFacts {
    pub per_token: u64,
    pub growth: u64,
    pub at: Map<String, Value>,
    pub native: Option<u64>,
    pub cross: Option<u64>,
}

/// Cached elements per token in a layer that stores its own.
fn elements(layer: &LayerAttention) -> Option<u128> {
    let width = match layer.latent {
        Some(latent) => latent.rank.checked_add(latent.rope_dim)?,
        None if layer.one_tensor => layer.kv_heads.checked_mul(layer.head_dim)?,
        None => layer.kv_heads.checked_mul(layer.head_dim.checked_add(layer.v_head_dim)?)?,
    };
    u128::try_from(width).ok()
}

/// Rows a layer must keep at a context length.
fn rows_needed(mask: Mask, context: u64) -> u64 {
    let window = |tokens: usize| context.min(tokens as u64);
    match mask {
        Mask::Full => context,
        Mask::Sliding { window: tokens } | Mask::Chunked { size: tokens } => window(tokens),
        Mask::Compressed { window: tokens, ratio } => {
            window(tokens).saturating_add(context / (ratio.max(1) as u64))
        }
    }
}

fn bytes(elements: u128, bits_per_32: u128) -> Option<u64> {
    u64::try_from(elements.checked_mul(bits_per_32)?.div_ceil(32 * 8)).ok()
}

impl Description {
    /// The layers' attention with what each stores, those that store nothing left out.
    fn stored(&self) -> impl Iterator<Item = &LayerAttention> {
        let caches = self.role != Role::Encoder;
        self.attentions().filter(move |layer| caches && layer.owns_kv())
    }

    /// Sums `rows(layer)` x elements over the layers that store something.
    fn sum(&self, rows: impl Fn(&LayerAttention) -> u64) -> Option<u128> {
        let total = self.stored().try_fold(0u128, |total, layer| {
            total.checked_add(elements(layer)?.checked_mul(u128::from(rows(layer)))?)
        })?;
        total.checked_mul(self.attention_per_layer as u128)
    }

    fn in_bytes(&self, total: Option<u128>, bits_per_32: u128) -> Result<u64> {
        total.and_then(|total| bytes(total, bits_per_32)).ok_or_else(|| Error::UnsupportedConfig {
            path: self.model_type.clone().into(),
            problem:
                "the size of its cache overflows 64 bits: heads, widths, layers or context are too large"
                    .to_owned(),
        })
    }

    /// Bytes that one token adds in all layers while no window is full.
    ///
    /// # Errors
    /// `UnsupportedConfig` when the figure does not fit in 64 bits.
    pub fn kv_bytes_per_token(&self, kv_type: KvType) -> Result<u64> {
        self.in_bytes(self.sum(|_| 1), kv_type.bits_per_32())
    }

    /// Bytes that one token adds once every window is full.
    ///
    /// # Errors
    /// `UnsupportedConfig` when the figure does not fit in 64 bits.
    pub fn kv_growth_per_token(&self, kv_type: KvType) -> Result<u64> {
        let total = self.stored().try_fold(0u128, |total, layer| {
            let grown = match layer.mask {
                Mask::Full => elements(layer)?,
                Mask::Sliding { .. } | Mask::Chunked { .. } => 0,
                Mask::Compressed { ratio, .. } => elements(layer)? / (ratio.max(1) as u128),
            };
            total.checked_add(grown)
        });
        let total = total.and_then(|total| total.checked_mul(self.attention_per_layer as u128));
        self.in_bytes(total, kv_type.bits_per_32())
    }

    /// Bytes needed for one sequence of `context` tokens: windows, latents and sharing applied.
    ///
    /// # Errors
    /// `UnsupportedConfig` when the figure does not fit in 64 bits.
    pub fn kv_bytes_needed(&self, context: u64, kv_type: KvType) -> Result<u64> {
        self.in_bytes(self.sum(|layer| rows_needed(layer.mask, context)), kv_type.bits_per_32())
    }

    /// Bytes an engine reserves that keeps the whole length in every layer, windows or not.
    ///
    /// # Errors
    /// `UnsupportedConfig` when the figure does not fit in 64 bits.
    pub fn kv_bytes_reserved(&self, context: u64, kv_type: KvType) -> Result<u64> {
        self.in_bytes(self.sum(|layer| rows_needed(layer.mask, context).max(context)), kv_type.bits_per_32())
    }

    /// Bytes the same model would need with a full K and V head for every query head.
    ///
    /// # Errors
    /// `UnsupportedConfig` when the figure does not fit in 64 bits.
    pub fn kv_bytes_as_mha(&self, context: u64, kv_type: KvType) -> Result<u64> {
        let caches = self.role != Role::Encoder;
        let total = self.attentions().filter(|_| caches).try_fold(0u128, |total, layer| {
            let width = (layer.head_dim as u128).checked_add(layer.v_head_dim as u128)?;
            let row = (layer.query_heads as u128).checked_mul(width)?;
            total.checked_add(row.checked_mul(u128::from(context))?)
        });
        let total = total.and_then(|total| total.checked_mul(self.attention_per_layer as u128));
        self.in_bytes(total, kv_type.bits_per_32())
    }

    /// Bits per cache element with the declared dtype or cache format, if they say.
    fn native_bits(&self) -> Option<u64> {
        self.kv_cache_bits.or_else(|| {
            let dtype = self.dtype.as_deref()?;
            match dtype.strip_prefix("torch.").unwrap_or(dtype) {
                "float32" | "float" | "fp32" => Some(32),
                "float64" | "double" => Some(64),
                "bfloat16" | "float16" | "half" | "bf16" | "fp16" => Some(16),
                _ => None,
            }
        })
    }

    pub(super) fn byte_facts(&self, contexts: &[u64]) -> Result<ByteFacts> {
        let per_token = self.kv_bytes_per_token(KvType::Bf16)?;
        let mut at = Map::new();
        for &context in contexts {
            at.insert(context.to_string(), self.kv_bytes_needed(context, KvType::Bf16)?.into());
        }
        let native = match self.native_bits() {
            Some(bits) => Some(self.in_bytes(self.sum(|_| 1), u128::from(bits) * 32)?),
            None => None,
        };
        let cross = if self.role == Role::EncoderDecoder {
            Some(self.in_bytes(self.sum(|_| 1), KvType::Bf16.bits_per_32())?)
        } else {
            None
        };
        let growth = self.kv_growth_per_token(KvType::Bf16)?;
        Ok(ByteFacts { per_token, growth, at, native: native.filter(|&bytes| bytes != per_token), cross })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(mask: Mask) -> LayerAttention {
        LayerAttention {
            query_heads: 4,
            kv_heads: 2,
            head_dim: 16,
            v_head_dim: 16,
            mask,
            latent: None,
            kv_from: None,
            one_tensor: false,
        }
    }

    #[test]
    fn rows_stop_growing_at_the_window() {
        let sliding = Mask::Sliding { window: 8 };
        assert_eq!([3, 8, 100].map(|context| rows_needed(sliding, context)), [3, 8, 8]);
        let compressed = Mask::Compressed { window: 8, ratio: 4 };
        assert_eq!([3, 8, 100].map(|context| rows_needed(compressed, context)), [3, 10, 33]);
    }

    #[test]
    fn block_types_count_whole_blocks() {
        assert_eq!(elements(&layer(Mask::Full)), Some(64));
        assert_eq!(bytes(64, KvType::Q8_0.bits_per_32()), Some(68));
        assert_eq!(bytes(64, KvType::Q4_0.bits_per_32()), Some(36));
        assert_eq!(bytes(64, KvType::Bf16.bits_per_32()), Some(128));
        assert_eq!(bytes(u128::MAX / 2, KvType::F32.bits_per_32()), None);
        assert_eq!(bytes(u128::from(u64::MAX), KvType::F32.bits_per_32()), None);
    }
}
