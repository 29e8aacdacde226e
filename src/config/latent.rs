//! Multi-head latent attention: whether a file has it, and its widths.
//!
//! The rank decides, not the name: a positive `kv_lora_rank` is MLA unless `use_mla` says no.
//! `num_key_value_heads` and `head_dim` of such files mean nothing for the cache and are not read.

use super::description::Latent;
use super::evidence::{Found, Reader, Zero};
use super::families::Family;
use crate::error::Result;

/// The widths of a latent layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Widths {
    pub latent: Latent,
    /// Width of a query and key head, rotary part included.
    pub head_dim: usize,
    /// Width of a value head.
    pub v_head_dim: usize,
}

/// The widths, or `None` if the attention is of the ordinary kind.
pub(super) fn widths(reader: &mut Reader<'_>, family: &Family) -> Result<Option<Widths>> {
    let class = family.latent.filter(|_| !reader.config().is_gguf());
    if reader.flag("use_mla", "whether the attention is latent")? == Some(false) {
        for key in ["kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim"] {
            reader.ignored(key, "use_mla is false: ordinary heads");
        }
        return Ok(None);
    }
    let rank_key = "kv_lora_rank";
    let rank = reader.count_or_zero(
        &[rank_key],
        Zero::Allowed,
        "width of the compressed latent: MLA if positive",
    )?;
    let rank = match (rank, class) {
        (Found::Is(0) | Found::Null, _) | (Found::Absent, None) => return Ok(None),
        (Found::Is(rank), _) => rank,
        (Found::Absent, Some([rank, ..])) => {
            reader.assumed(rank_key, rank, "class default: width of the compressed latent");
            rank
        }
    };
    let mut width = |key: &str, class: Option<usize>, rule: &str| -> Result<usize> {
        match (reader.count_or_zero(&[key], Zero::Allowed, rule)?, class) {
            (Found::Is(width), _) => Ok(width),
            (Found::Null, _) => Ok(0),
            (Found::Absent, Some(width)) => {
                reader.assumed(key, width, format!("class default: {rule}"));
                Ok(width)
            }
            (Found::Absent, None) => {
                let (rank, key) = (reader.config().spelling(rank_key), reader.config().spelling(key));
                Err(reader.unsupported(format!("`{rank}` says MLA, but `{key}` is missing")))
            }
        }
    };
    let rope_dim = width("qk_rope_head_dim", class.map(|[_, rope, ..]| rope), "rotary width of a head")?;
    let nope_dim = width(
        "qk_nope_head_dim",
        class.map(|[_, _, nope, _]| nope),
        "width of a head without the rotary part",
    )?;
    let v_head_dim = width("v_head_dim", class.map(|[.., value]| value), "width of a value head")?;
    let head_dim = rope_dim + nope_dim;
    if head_dim == 0 || v_head_dim == 0 {
        reader.ignored(rank_key, "head widths of 0: ordinary heads");
        return Ok(None);
    }
    reader.ignored("head_dim", "MLA: the head widths are those of the qk_ and v_ keys");
    reader.ignored("num_key_value_heads", "MLA: one latent is cached, whatever the number of heads");
    Ok(Some(Widths { latent: Latent { rank, rope_dim }, head_dim, v_head_dim }))
}

/// Width of a sparse indexer's keys, if there is one.
pub(super) fn indexer(reader: &mut Reader<'_>, family: &Family) -> Result<Option<usize>> {
    const KEYS: &[&str] = &["index_head_dim", "sparse_attention_config.sparse_index_dim", "sparse_index_dim"];
    let rule = "width of the sparse indexer's keys";
    Ok(match reader.count_or_zero(KEYS, Zero::Allowed, rule)? {
        Found::Is(width) => Some(width).filter(|&width| width > 0),
        Found::Absent if family.indexer > 0 && !reader.config().is_gguf() => {
            reader.assumed(KEYS[0], family.indexer, format!("class default: {rule}"));
            Some(family.indexer)
        }
        Found::Absent | Found::Null => None,
    })
}
