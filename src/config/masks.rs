//! From layer kinds to masks: windows and chunks applied.

use super::description::Mask;
use super::evidence::{Found, Reader, tokens};
use super::families::{Family, Plan};
use super::layers::{Kind, Stack};
use super::window::Windows;
use crate::error::Result;

/// One layer with its mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot {
    pub mask: Option<Mask>,
    pub recurrent: bool,
    pub cross: bool,
}

/// Applies windows and chunks.
pub(super) fn slots<'a>(
    reader: &mut Reader<'a>,
    family: &Family,
    windows: &Windows<'a>,
    stack: &Stack,
) -> Result<Vec<Slot>> {
    let has = |wanted: &[Kind]| stack.kinds.iter().any(|kind| wanted.contains(kind));
    let undecided = has(&[Kind::Attention, Kind::Both]);
    let compressed = stack.kinds.iter().any(|kind| matches!(kind, Kind::Compressed(_)));
    let sliding = match stack.list {
        Some(list) if has(&[Kind::Sliding]) || compressed => windows.of_list(list, reader)?,
        _ if has(&[Kind::Sliding]) || compressed || undecided => windows.active(reader)?,
        _ => None,
    };
    if compressed && sliding.is_none() {
        return Err(reader.unsupported("compressed attention needs `sliding_window`, which is missing"));
    }
    let mut everywhere = sliding.filter(|_| undecided);
    let context = reader.config().max_context()?;
    if let (Some(window), Some(context)) = (everywhere, context)
        && window >= context
        && !has(&[Kind::Recurrent])
    {
        reader.assumed(
            "sliding_window",
            "none",
            format!("a window of {window} never binds in a context of {context}"),
        );
        everywhere = None;
    }
    let chunk = if has(&[Kind::Chunked]) { chunk_size(reader, family)? } else { None };
    let slide = |window: Option<usize>| window.map_or(Mask::Full, |window| Mask::Sliding { window });
    let slot = |(layer, &kind): (usize, &Kind)| {
        let late = everywhere.filter(|_| layer >= windows.first_layer);
        let mask = match kind {
            Kind::Attention | Kind::Both => Some(slide(late)),
            Kind::Full | Kind::BothFull => Some(Mask::Full),
            Kind::Sliding => Some(slide(sliding)),
            Kind::Chunked => Some(chunk.map_or(Mask::Full, |size| Mask::Chunked { size })),
            Kind::Compressed(ratio) => sliding.map(|window| Mask::Compressed { window, ratio }),
            Kind::Recurrent | Kind::Cross | Kind::Nothing => None,
        };
        let recurrent = matches!(kind, Kind::Recurrent | Kind::Both | Kind::BothFull);
        Slot { mask, recurrent, cross: kind == Kind::Cross }
    };
    Ok(stack.kinds.iter().enumerate().map(slot).collect())
}

fn chunk_size(reader: &mut Reader<'_>, family: &Family) -> Result<Option<usize>> {
    const KEY: &str = "attention_chunk_size";
    const CLASS_DEFAULT: usize = 8192;
    Ok(match reader.first(&[KEY]) {
        Found::Is((key, value)) => {
            let size = tokens(value).map_err(|fault| reader.at_key(key, fault))?;
            reader.read(key, value, "chunk size in tokens");
            Some(size)
        }
        Found::Null => None,
        Found::Absent if matches!(family.plan, Plan::Chunked(_)) => {
            reader.assumed(KEY, CLASS_DEFAULT, "class default: chunk size in tokens");
            Some(CLASS_DEFAULT)
        }
        Found::Absent => {
            return Err(reader.unsupported(format!("`{}` is missing", reader.config().spelling(KEY))));
        }
    })
}
