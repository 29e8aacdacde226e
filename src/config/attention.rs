//! Heads and widths of each layer's softmax attention.
//!
//! Keys come first, in one order for all classes; a class may have a rule that beats it, and its
//! defaults fill what is absent. An explicit null means "derive", not "take the default".

use serde_json::{Map, Value};

use super::description::{LayerAttention, Mask, Role};
use super::evidence::{Counts, Found, Reader, Zero, count};
use super::families::{Family, Rule};
use super::latent::{self, Widths};
use super::layers::Stack;
use super::masks::Slot;
use crate::error::Result;

const KV_KEY: &str = "num_key_value_heads";
const KV_KEYS: &[&str] = &[
    KV_KEY,
    "num_key_value_heads_per_layer",
    "num_kv_heads",
    "n_head_kv",
    "n_kv_heads",
    "attn_config.kv_n_heads",
    "attn_cfg.num_heads_kv",
    "attn.num_kv_heads",
    "multi_query_group_num",
    "num_attention_groups",
];
const QUERY_KEYS: &[&str] =
    &["num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads", "num_query_heads"];
const DECODER_QUERY_KEYS: &[&str] = &[
    "decoder_attention_heads",
    "decoder_num_attention_heads",
    "num_attention_heads",
    "n_head",
    "n_heads",
    "num_heads",
    "attention_heads",
];
/// Models whose other heads belong to the recurrent mixer keep those of attention apart.
const NESTED_QUERY_KEYS: &[&str] = &["attn_cfg.num_heads", "attn.num_heads"];
const WIDTH_KEYS: &[&str] = &["hidden_size", "n_embd", "d_model", "model_dim", "embedding_dim", "n_embed"];
const HEAD_DIM_KEYS: &[&str] =
    &["head_dim", "attention_head_dim", "kv_channels", "hidden_size_per_head", "d_kv", "attn_cfg.head_dim"];

/// What differs between layers of different masks.
#[derive(Debug, Clone, Default)]
struct Special {
    query: Option<usize>,
    kv: Option<usize>,
    head_dim: Option<usize>,
    v_head_dim: Option<usize>,
}

/// The model's width, if the file or the class says.
pub(super) fn width(reader: &mut Reader<'_>, family: &Family) -> Result<Option<usize>> {
    Ok(match reader.count(WIDTH_KEYS, "model width")? {
        Found::Is(width) => Some(width),
        Found::Absent if family.width > 0 && !reader.config().is_gguf() => {
            reader.assumed(WIDTH_KEYS[0], family.width, "class default: model width");
            Some(family.width)
        }
        Found::Null => return Err(reader.at_key(WIDTH_KEYS[0], "is null, but it is required (missing)")),
        Found::Absent => None,
    })
}

/// The softmax attention of each layer, `None` for layers without one.
pub(super) fn attentions(
    reader: &mut Reader<'_>,
    family: &Family,
    role: Role,
    stack: &Stack,
    slots: &[Slot],
) -> Result<Vec<Option<LayerAttention>>> {
    if slots.iter().all(|slot| slot.mask.is_none() && !slot.cross) {
        return Ok(vec![None; slots.len()]);
    }
    let layers = slots.len();
    let latent = latent::widths(reader, family)?;
    let query = query_heads(reader, family, role, layers)?;
    if let Some(Widths { latent, head_dim, v_head_dim }) = latent {
        let attention = |(layer, slot): (usize, &Slot)| {
            let query_heads = query.at(layer);
            slot.mask.map(|mask| LayerAttention {
                query_heads,
                kv_heads: query_heads,
                head_dim,
                v_head_dim,
                mask,
                latent: Some(latent),
                kv_from: stack.kv_from[layer],
                one_tensor: false,
            })
        };
        return Ok(slots.iter().enumerate().map(attention).collect());
    }
    let (kv, kv_key) = match &stack.group_sizes {
        Some(sizes) => (by_group_size(reader, &query, sizes)?, "block_configs"),
        None => kv_heads(reader, family, &query, layers)?,
    };
    let attends = |layer: &usize| slots[*layer].mask.is_some();
    let head_dim = head_dim(reader, family, (0..layers).filter(attends).map(|layer| query.at(layer)))?;
    let v_head_dim = value_width(reader, family)?.unwrap_or(head_dim);
    let sliding = sliding_special(reader, family)?;
    let full = full_special(reader, family)?;
    let mut attentions = Vec::with_capacity(layers);
    for (layer, slot) in slots.iter().enumerate() {
        let Some(mask) = slot.mask else {
            attentions.push(None);
            continue;
        };
        let special = if let Mask::Sliding { .. } = mask { &sliding } else { &full };
        let query_heads = special.query.unwrap_or_else(|| query.at(layer));
        let kv_heads = special.kv.unwrap_or_else(|| kv.at(layer));
        if query_heads == 0 || kv_heads == 0 {
            return Err(
                reader.at_key(kv_key, format!("gives layer {layer} no heads (zero), but it has attention"))
            );
        }
        if query_heads % kv_heads != 0 && family.rule != Rule::SharedHeads {
            let problem = format!(
                "gives {kv_heads} KV heads, which does not divide the {query_heads} query heads (they must be a multiple)"
            );
            return Err(reader.at_key(kv_key, problem));
        }
        attentions.push(Some(LayerAttention {
            query_heads,
            kv_heads,
            head_dim: special.head_dim.unwrap_or(head_dim),
            v_head_dim: special.v_head_dim.or(special.head_dim).unwrap_or(v_head_dim),
            mask,
            latent: None,
            kv_from: stack.kv_from[layer],
            one_tensor: family.rule == Rule::SharedTensor,
        }));
    }
    Ok(attentions)
}

fn query_heads(reader: &mut Reader<'_>, family: &Family, role: Role, layers: usize) -> Result<Counts> {
    let rule = "query heads";
    if let Rule::HeadsPerExpert(class) = family.rule {
        let kv = reader.count(&[KV_KEY], "KV heads")?.value().unwrap_or(family.kv_heads);
        let experts = reader.count(&["num_experts_per_tok"], "experts per token")?.value().unwrap_or(class);
        reader.ignored("num_attention_heads", "query heads are KV heads x experts per token in this class");
        let heads = kv.checked_mul(experts).ok_or_else(|| reader.at_key(KV_KEY, "is too large"))?;
        return Ok(Counts::One(heads));
    }
    let zero = if reader.config().is_gguf() { Zero::Allowed } else { Zero::Refused };
    let nested = reader.counts(NESTED_QUERY_KEYS, layers, zero, rule)?;
    if let Found::Is((_, counts)) = nested {
        return Ok(counts);
    }
    let keys = if role == Role::EncoderDecoder { DECODER_QUERY_KEYS } else { QUERY_KEYS };
    match reader.counts(keys, layers, zero, rule)? {
        Found::Is((_, counts)) => Ok(counts),
        Found::Null => Err(reader.at_key(keys[0], "is null, but it is required (missing)")),
        Found::Absent if family.heads > 0 && !reader.config().is_gguf() => {
            reader.assumed(keys[0], family.heads, "class default: query heads");
            Ok(Counts::One(family.heads))
        }
        Found::Absent => {
            let key = reader.config().spelling(QUERY_KEYS[0]);
            Err(reader.unsupported(format!("`{key}` is missing: the number of query heads is not known")))
        }
    }
}

fn by_group_size(reader: &Reader<'_>, query: &Counts, sizes: &[usize]) -> Result<Counts> {
    const KEY: &str = "block_configs";
    let each = sizes.iter().enumerate().map(|(layer, &size)| match size {
        0 => Ok(0),
        _ if query.at(layer).is_multiple_of(size) => Ok(query.at(layer) / size),
        _ => Err(reader.at_key(
            KEY,
            format!(
                "has n_heads_in_group {size} at layer {layer}, which does not divide the {} query heads",
                query.at(layer)
            ),
        )),
    });
    Ok(Counts::PerLayer(each.collect::<Result<_>>()?))
}

/// KV heads, with the key that decided.
fn kv_heads(
    reader: &mut Reader<'_>,
    family: &Family,
    query: &Counts,
    layers: usize,
) -> Result<(Counts, &'static str)> {
    let rule = "KV heads";
    let is_gguf = reader.config().is_gguf();
    let zero = if is_gguf { Zero::Allowed } else { Zero::Refused };
    let as_query = || (query.clone(), "num_attention_heads");
    if !is_gguf && let Some(decided) = kv_by_class_rule(reader, family, query, layers)? {
        return Ok(decided);
    }
    let is_null = match reader.counts(KV_KEYS, layers, zero, rule)? {
        Found::Is((key, counts)) => return Ok((counts, key)),
        Found::Null => true,
        Found::Absent => false,
    };
    if !is_gguf && reader.flag("multi_query", "true: one KV head")? == Some(true) {
        return Ok((Counts::One(1), "multi_query"));
    }
    let unnamed = reader.config().identity.is_none();
    if is_null {
        reader.read(KV_KEY, &Value::Null, "null: as many KV heads as query heads");
        return Ok(as_query());
    }
    if family.kv_heads > 0 && !is_gguf {
        reader.assumed(KV_KEY, family.kv_heads, "class default: KV heads");
        return Ok((Counts::One(family.kv_heads), KV_KEY));
    }
    if unnamed {
        let problem =
            "no model_type or architectures, and no num_key_value_heads: the KV heads are not known";
        return Err(reader.unsupported(problem));
    }
    reader.assumed(KV_KEY, "query heads", "absent: as many KV heads as query heads");
    Ok(as_query())
}

fn kv_by_class_rule(
    reader: &mut Reader<'_>,
    family: &Family,
    query: &Counts,
    layers: usize,
) -> Result<Option<(Counts, &'static str)>> {
    let multi_query = "multi_query";
    let one_or_all = |reader: &mut Reader<'_>| -> Result<Counts> {
        let flag = reader.flag(multi_query, "true: one KV head, false: as many as query heads")?;
        if flag.is_none() {
            reader.assumed(multi_query, true, "class default: one KV head");
        }
        Ok(if flag.unwrap_or(true) { Counts::One(1) } else { query.clone() })
    };
    Ok(Some(match family.rule {
        Rule::Falcon(class) => {
            let key = "new_decoder_architecture";
            let grouped = reader.flag(key, "true: grouped KV heads, false: multi_query decides")?;
            if grouped.is_none() {
                reader.assumed(key, class, "class default: whether KV heads are grouped");
            }
            if grouped.unwrap_or(class) {
                reader.ignored(multi_query, "new_decoder_architecture is true");
                let keys = ["num_kv_heads", "n_head_kv", KV_KEY];
                match reader.counts(&keys, layers, Zero::Refused, "KV heads")? {
                    Found::Is((_, counts)) => (counts, keys[0]),
                    Found::Absent | Found::Null => (query.clone(), keys[0]),
                }
            } else {
                for key in ["num_kv_heads", "n_head_kv"] {
                    reader.ignored(key, "new_decoder_architecture is false: multi_query decides");
                }
                (one_or_all(reader)?, multi_query)
            }
        }
        Rule::BigCode => (one_or_all(reader)?, multi_query),
        Rule::AttentionConfig(class) => {
            let key = "attn_config.kv_n_heads";
            match reader.counts(&[key, KV_KEY], layers, Zero::Refused, "KV heads")? {
                Found::Is((_, counts)) => (counts, key),
                Found::Absent | Found::Null => {
                    let kind = reader.look("attn_config.attn_type").and_then(Value::as_str);
                    if kind == Some("multiquery_attention") {
                        (Counts::One(1), "attn_config.attn_type")
                    } else if class > 0 {
                        reader.assumed(key, class, "class default: KV heads");
                        (Counts::One(class), key)
                    } else {
                        reader.assumed(key, "query heads", "absent: as many KV heads as query heads");
                        (query.clone(), key)
                    }
                }
            }
        }
        Rule::ChatGlm => {
            let key = "multi_query_group_num";
            if reader.flag("multi_query_attention", "true: grouped KV heads")? == Some(true) {
                let groups = reader.count(&[key], "KV heads")?.value();
                let missing =
                    || reader.unsupported(format!("`multi_query_attention` is true, but `{key}` is missing"));
                (Counts::One(groups.ok_or_else(missing)?), key)
            } else {
                reader.ignored(key, "multi_query_attention is not true");
                (query.clone(), key)
            }
        }
        Rule::SharedHeads => {
            const CLASS_DEFAULT: usize = 8;
            let key = "n_shared_head";
            reader.ignored(KV_KEY, "n_shared_head decides in this class");
            let share = reader.count_or(key, CLASS_DEFAULT, Zero::Refused, "query heads per KV head")?;
            let each = (0..layers).map(|layer| query.at(layer).div_ceil(share));
            (Counts::PerLayer(each.collect()), key)
        }
        _ => return Ok(None),
    }))
}

/// The width of a query and key head where no layer is special.
fn head_dim(reader: &mut Reader<'_>, family: &Family, heads: impl Iterator<Item = usize>) -> Result<usize> {
    let double = family.rule == Rule::DoubleWidth;
    let keys = if double { &HEAD_DIM_KEYS[1..2] } else { HEAD_DIM_KEYS };
    let found = reader.count(keys, "width of a head")?;
    if let Found::Is(width) = found {
        return Ok(width);
    }
    if double {
        reader.ignored("kv_channels", "attention reads twice the width in this class");
    }
    if found == Found::Absent && family.head_dim > 0 && !reader.config().is_gguf() {
        reader.assumed(HEAD_DIM_KEYS[0], family.head_dim, "class default: width of a head");
        return Ok(family.head_dim);
    }
    let Some(width) = width(reader, family)? else {
        let key = reader.config().spelling(WIDTH_KEYS[0]);
        return Err(reader.unsupported(format!("`{key}` is missing, and so is `head_dim`")));
    };
    let input = if double { width * 2 } else { width };
    let mut head_dim = None;
    for heads in heads {
        let derived = input.checked_div(heads).filter(|derived| derived * heads == input && *derived > 0);
        let Some(derived) = derived else {
            let problem = format!(
                "is {width}, which is not divisible by {heads} query heads (not a multiple of `num_attention_heads`), and there is no `head_dim`"
            );
            return Err(reader.at_key(WIDTH_KEYS[0], problem));
        };
        if head_dim.is_some_and(|known| known != derived) {
            let problem = "query heads differ between layers, and there is no `head_dim`";
            return Err(reader.unsupported(problem));
        }
        head_dim = Some(derived);
    }
    let head_dim = head_dim.unwrap_or(0);
    let rule = if double { "2 x width / query heads" } else { "width / query heads" };
    reader.assumed(HEAD_DIM_KEYS[0], head_dim, rule);
    Ok(head_dim)
}

/// The width of a value head, in the classes where it is one of its own.
fn value_width(reader: &mut Reader<'_>, family: &Family) -> Result<Option<usize>> {
    if family.rule != Rule::ValueWidth && !reader.config().is_gguf() {
        reader.ignored("v_head_dim", "this class has no value width of its own");
        return Ok(None);
    }
    let found = reader.count_or_zero(&["v_head_dim"], Zero::Allowed, "width of a value head")?;
    Ok(match (found, family.name) {
        (Found::Is(width), _) => Some(width).filter(|&width| width > 0),
        (Found::Absent, "mimo_v2_flash") => {
            reader.assumed("v_head_dim", 128, "class default: width of a value head");
            Some(128)
        }
        _ => None,
    })
}

/// What sliding layers have of their own.
fn sliding_special(reader: &mut Reader<'_>, family: &Family) -> Result<Special> {
    if family.rule == Rule::OtherSetting
        && let Some(other) = reader.object("attention_other_setting")?
    {
        let setting = |key: &str| setting(reader, other, key);
        let special = Special {
            query: setting("num_attention_heads")?,
            kv: setting("num_attention_groups")?.or(setting("num_key_value_heads")?),
            head_dim: setting("head_dim")?,
            v_head_dim: None,
        };
        let value = Value::Object(other.clone());
        reader.read("attention_other_setting", &value, "heads of the sliding layers");
        return Ok(special);
    }
    let mut own = |key: &str, rule: &str| reader.count(&[key], rule).map(Found::value);
    Ok(Special {
        query: own("swa_num_attention_heads", "query heads of the sliding layers")?,
        kv: own("swa_num_key_value_heads", "KV heads of the sliding layers")?,
        head_dim: own("swa_head_dim", "width of a head in the sliding layers")?,
        v_head_dim: own("swa_v_head_dim", "width of a value head in the sliding layers")?,
    })
}

fn setting(reader: &Reader<'_>, other: &Map<String, Value>, key: &str) -> Result<Option<usize>> {
    match other.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let at = format!("attention_other_setting.{key}");
            count(value, Zero::Refused).map(Some).map_err(|fault| reader.at_key(&at, fault))
        }
    }
}

/// What full layers have of their own.
fn full_special(reader: &mut Reader<'_>, family: &Family) -> Result<Special> {
    const CLASS_DEFAULT: usize = 512;
    if family.rule != Rule::GlobalHeads || reader.config().is_gguf() {
        return Ok(Special::default());
    }
    let rule = "width of a head in the full layers";
    let key = "global_head_dim";
    let head_dim = match reader.count(&[key], rule)? {
        Found::Is(width) => Some(width),
        Found::Null => None,
        Found::Absent => {
            reader.assumed(key, CLASS_DEFAULT, format!("class default: {rule}"));
            Some(CLASS_DEFAULT)
        }
    };
    let key = "num_global_key_value_heads";
    let kv =
        if reader.flag("attention_k_eq_v", "whether full layers have KV heads of their own")? == Some(true) {
            reader.count(&[key], "KV heads of the full layers")?.value()
        } else {
            reader.ignored(key, "attention_k_eq_v is not true");
            None
        };
    Ok(Special { query: None, kv, head_dim, v_head_dim: None })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::ModelConfig;

    fn heads(text: &str) -> (usize, usize, usize) {
        let config = ModelConfig::from_json(text.as_bytes(), Path::new("config.json")).unwrap();
        let description = config.describe().unwrap();
        let layer = description.attentions().next().unwrap();
        (layer.query_heads, layer.kv_heads, layer.head_dim)
    }

    #[test]
    fn the_same_keys_mean_mha_in_one_class_and_gqa_in_another() {
        let file = |class: &str| {
            format!(
                r#"{{"model_type": "{class}", "hidden_size": 64, "num_attention_heads": 16, "num_hidden_layers": 1}}"#
            )
        };
        assert_eq!(heads(&file("llama")), (16, 16, 4));
        assert_eq!(heads(&file("mistral")), (16, 8, 4));
        let null = file("mistral").replace('}', r#", "num_key_value_heads": null}"#);
        assert_eq!(heads(&null), (16, 16, 4));
    }
}
