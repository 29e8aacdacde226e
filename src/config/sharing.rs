//! Layers that use another layer's keys and values.

use serde_json::Value;

use super::evidence::{Found, Reader, Zero};
use super::families::{Family, Rule};
use super::layers::{Kind, indexed};
use crate::error::Result;

/// Which layers reuse another layer's keys and values.
pub(super) fn kv_sources(
    reader: &mut Reader<'_>,
    family: &Family,
    kinds: &[Kind],
) -> Result<Vec<Option<usize>>> {
    let layers = kinds.len();
    let mut kv_from = vec![None; layers];
    let rule = "the last layers reuse the last earlier layer of their kind";
    let key = "num_kv_shared_layers";
    let mut last = reader.count_or_zero(&[key], Zero::Allowed, rule)?;
    if let (Found::Absent, Rule::SharedLayers(class), false) = (last, family.rule, reader.config().is_gguf())
    {
        reader.assumed(key, class, format!("class default: {rule}"));
        last = Found::Is(class);
    }
    if let Some(last) = last.value().filter(|&last| last > 0) {
        let first = layers.checked_sub(last).filter(|&first| first > 0);
        let first =
            first.ok_or_else(|| reader.at_key(key, format!("is {last}, but there are {layers} layers")))?;
        for layer in first..layers {
            let owner = (0..first).rev().find(|&owner| kinds[owner] == kinds[layer]);
            let problem = format!("is {last}, but no earlier layer is of the kind of layer {layer}");
            kv_from[layer] = Some(owner.ok_or_else(|| reader.at_key(key, problem))?);
        }
        return Ok(kv_from);
    }
    let crosses = family.rule == Rule::CrossLayer || family.name.is_empty();
    if crosses && reader.flag("use_cla", "whether neighbouring layers share K/V")? == Some(true) {
        let key = "cla_share_factor";
        let factor = reader.count(&[key], "layers with index % factor = 0 own their K/V")?.value();
        let missing = || reader.unsupported(format!("`use_cla` is true, but `{key}` is missing"));
        let factor = factor.ok_or_else(missing)?;
        for (layer, from) in kv_from.iter_mut().enumerate() {
            *from = Some(layer - layer % factor).filter(|&owner| owner != layer);
        }
    }
    if let Some(groups) = reader.list("kv_reuse_group")? {
        for group in groups {
            let members = group.as_array().map_or(&[][..], Vec::as_slice);
            indexed(reader, "kv_reuse_group", members, 0, layers)?;
            let members: Vec<usize> =
                members.iter().filter_map(|m| usize::try_from(m.as_u64()?).ok()).collect();
            if let Some((&owner, others)) = members.split_first() {
                for &layer in others {
                    kv_from[layer] = Some(owner);
                }
            }
        }
        reader.read(
            "kv_reuse_group",
            &Value::Array(groups.to_vec()),
            "layers that share the first one's K/V",
        );
    }
    Ok(kv_from)
}
