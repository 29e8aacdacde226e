//! What fits into a given amount of memory beside the weights.
//!
//! Counts weights, cache and recurrent state; activations, fragmentation and the runtime itself come
//! on top and are not guessed. Figures never shrink with context or batch, so they can be searched.

use serde::Serialize;

use super::Inspected;
use crate::config::KvType;

/// Longest context that is searched for where a model states no limit, in tokens.
const UNLIMITED: u64 = 1 << 32;
/// Most sequences that are searched for.
const MAX_BATCH: u64 = 1 << 20;

/// A context length, and whether it was memory that ended it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Longest {
    /// Tokens of each sequence; none when not even one fits.
    pub context: Option<u64>,
    /// What ends it.
    pub limit: Limit,
}

/// What ends a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// The memory.
    Memory,
    /// The model's own limit.
    Model,
    /// Nothing: the cache does not grow, and the model states no limit.
    None,
}

/// The largest batch at one context length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LargestBatch {
    /// Tokens of each sequence.
    pub context: u64,
    /// Sequences, with windows, latents and sharing applied.
    pub needed: u64,
    /// Sequences in an engine that reserves the whole length.
    pub reserved: u64,
}

/// What fits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fits {
    /// Bytes given.
    pub budget_bytes: u64,
    /// Bytes of the weights.
    pub weights_bytes: u64,
    /// Bytes left for caches.
    pub free_bytes: u64,
    /// Sequences that the longest context is for.
    pub batch: u64,
    /// The longest context, with windows, latents and sharing applied.
    pub longest_needed: Longest,
    /// The longest context in an engine that reserves the whole length.
    pub longest_reserved: Longest,
    /// The largest batch at each context length.
    pub largest_batch: Vec<LargestBatch>,
}

impl Inspected {
    /// What fits into `budget_bytes` beside weights of `weights_bytes`, which must not exceed it. A figure
    /// beyond 64 bits does not fit.
    pub(super) fn fits(
        &self,
        budget_bytes: u64,
        weights_bytes: u64,
        contexts: &[u64],
        kv_type: KvType,
        batch: u64,
    ) -> Fits {
        let free_bytes = budget_bytes.saturating_sub(weights_bytes);
        let state = self.state_bytes(kv_type).unwrap_or(0);
        let needed =
            |context| Some(self.description.kv_bytes_needed(context, kv_type).ok()?.saturating_add(state));
        let reserved =
            |context| Some(self.description.kv_bytes_reserved(context, kv_type).ok()?.saturating_add(state));
        let holds = |sequence: Option<u64>, count: u64| {
            sequence.and_then(|bytes| bytes.checked_mul(count)).is_some_and(|bytes| bytes <= free_bytes)
        };
        let own_limit = self.description.max_context.map(|limit| limit as u64).filter(|&limit| limit > 0);
        let longest = |bytes: &dyn Fn(u64) -> Option<u64>| {
            let limit = own_limit.unwrap_or(UNLIMITED);
            match (last(limit, |context| holds(bytes(context), batch)), own_limit) {
                (context, Some(limit)) if context == limit => {
                    Longest { context: Some(limit), limit: Limit::Model }
                }
                (UNLIMITED, None) => Longest { context: None, limit: Limit::None },
                (context, _) => {
                    Longest { context: Some(context).filter(|&tokens| tokens > 0), limit: Limit::Memory }
                }
            }
        };
        let largest_batch = contexts.iter().map(|&context| LargestBatch {
            context,
            needed: last(MAX_BATCH, |count| holds(needed(context), count)),
            reserved: last(MAX_BATCH, |count| holds(reserved(context), count)),
        });
        Fits {
            budget_bytes,
            weights_bytes,
            free_bytes,
            batch,
            longest_needed: longest(&needed),
            longest_reserved: longest(&reserved),
            largest_batch: largest_batch.collect(),
        }
    }
}

/// The largest number in `1..=limit` for which `holds`, which must not become true again; 0 if none.
fn last(limit: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, limit);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if holds(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_that_holds_is_found() {
        for border in [0, 1, 7, 99, 100] {
            assert_eq!(last(100, |n| n <= border), border);
        }
    }
}
