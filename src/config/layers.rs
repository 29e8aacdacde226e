//! Which kind each layer is.
//!
//! Precedence: a list with an entry per layer, a pattern, an interval or index key, the class. The
//! forms that introduce a recurrent mixer are read only in classes that have one, since such keys are
//! copied into drafters whose layers are plain attention.

use serde_json::Value;

use super::description::RecurrentKind;
use super::evidence::{Found, Reader, Zero, count};
use super::families::{Family, Network, Plan, Rule};
use super::window::Windows;
use super::{listed, sharing};
use crate::error::Result;

/// What stands in a layer, before windows are applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Softmax attention, with a window if the class has one for all layers.
    Attention,
    /// Softmax attention over everything.
    Full,
    /// Softmax attention with a window.
    Sliding,
    /// Softmax attention in chunks.
    Chunked,
    /// A window, and the whole past compressed by this ratio.
    Compressed(usize),
    /// A recurrent mixer.
    Recurrent,
    /// A recurrent mixer beside `Attention`.
    Both,
    /// A recurrent mixer beside `Full`.
    BothFull,
    /// Cross-attention.
    Cross,
    /// No mixer.
    Nothing,
}

/// A way of saying which layers are what; `None` if the file does not use it.
pub(super) type Form = fn(&mut Reader<'_>, &Family, usize) -> Result<Option<Stack>>;

/// The kinds of all layers and what was learnt on the way.
#[derive(Debug, Clone)]
pub(super) struct Stack {
    pub kinds: Vec<Kind>,
    /// The per-layer list that said so.
    pub list: Option<&'static str>,
    /// The recurrent mixer the form implies, if the class does not say.
    pub recurrent: Option<RecurrentKind>,
    /// Query heads per KV head in each layer, from `block_configs`.
    pub group_sizes: Option<Vec<usize>>,
    /// The layer whose K/V each layer uses, if not its own.
    pub kv_from: Vec<Option<usize>>,
}

impl Stack {
    fn of(kinds: Vec<Kind>) -> Self {
        Self { kinds, list: None, recurrent: None, group_sizes: None, kv_from: Vec::new() }
    }

    pub(super) fn listed(key: &'static str) -> Self {
        Self { list: Some(key), ..Self::of(Vec::new()) }
    }

    fn by(layers: usize, kind: impl Fn(usize) -> Kind) -> Self {
        Self::of((0..layers).map(kind).collect())
    }

    pub(super) fn recurrent(self, kind: RecurrentKind) -> Self {
        Self { recurrent: Some(kind), ..self }
    }
}

/// The kind of every layer.
pub(super) fn stack<'a>(
    reader: &mut Reader<'a>,
    family: &Family,
    windows: &Windows<'a>,
    layers: usize,
) -> Result<Stack> {
    let mut stack = match kinds(reader, family, windows, layers)? {
        Some(stack) => stack,
        None => by_class(reader, family, layers)?,
    };
    if reader.config().is_gguf() {
        without_heads(reader, family, &mut stack)?;
    }
    stack.recurrent = family.recurrent.or(stack.recurrent).or(reader.config().gguf_recurrent);
    if family.rule == Rule::GlobalHeads
        && let Some(last @ Kind::Sliding) = stack.kinds.last_mut()
    {
        *last = Kind::Full;
        reader.assumed("layer_types", "full_attention", "the last layer of this class is always full");
    }
    if stack.kv_from.is_empty() {
        stack.kv_from = sharing::kv_sources(reader, family, &stack.kinds)?;
    }
    Ok(stack)
}

fn kinds<'a>(
    reader: &mut Reader<'a>,
    family: &Family,
    windows: &Windows<'a>,
    layers: usize,
) -> Result<Option<Stack>> {
    if family.network != Network::Recurrent
        && let Some(stack) = listed::stack(reader, family, layers)?
    {
        return Ok(Some(stack));
    }
    let recurrent_forms: [Form; 7] = [interval, period, indices, one_based, groups, stepped, yoco];
    let sliding_forms: [Form; 3] = [chunked, cross, every_n];
    if let Some(stack) = pattern(reader, family, windows, layers)? {
        return Ok(Some(stack));
    }
    let has_recurrence = family.recurrent.is_some() || family.name.is_empty();
    let recurrent_forms = recurrent_forms.iter().filter(|_| has_recurrence);
    for form in recurrent_forms.chain(&sliding_forms) {
        if let Some(stack) = form(reader, family, layers)? {
            return Ok(Some(stack));
        }
    }
    Ok(None)
}

/// `sliding_window_pattern`: every n-th layer full, a string of L and G, or (GGUF) a flag per layer.
fn pattern<'a>(
    reader: &mut Reader<'a>,
    family: &Family,
    windows: &Windows<'a>,
    layers: usize,
) -> Result<Option<Stack>> {
    let Found::Is((key, value)) = reader.first(&["sliding_window_pattern", "_sliding_window_pattern"]) else {
        return Ok(None);
    };
    let has_plan = !matches!(family.plan, Plan::Uniform | Plan::Stated) || family.name.is_empty();
    if (!has_plan && !reader.config().is_gguf()) || windows.active(reader)?.is_none() {
        reader.ignored(key, "this model has no sliding layers");
        return Ok(None);
    }
    let fault = |fault: String| reader.at_key(key, fault);
    let stack = match value {
        Value::String(letters) => {
            let full: Vec<bool> = letters
                .chars()
                .map(|letter| match letter {
                    'L' => Ok(false),
                    'G' => Ok(true),
                    other => Err(fault(format!("has the unknown letter {other:?}; known are L and G"))),
                })
                .collect::<Result<_>>()?;
            if full.is_empty() {
                return Err(fault("is an empty string".to_owned()));
            }
            let complete = layers - layers % full.len();
            Stack::by(
                layers,
                |i| if i < complete && full[i % full.len()] { Kind::Full } else { Kind::Sliding },
            )
        }
        Value::Array(flags) => {
            reader.check_len(key, flags.len(), layers)?;
            let slides = flags.iter().map(|flag| match flag {
                Value::Bool(true) => Ok(Kind::Sliding),
                Value::Bool(false) => Ok(Kind::Full),
                other => Err(reader.wrong(key, other, "true or false for each layer")),
            });
            Stack::of(slides.collect::<Result<_>>()?)
        }
        _ => {
            let every = count(value, Zero::Refused).map_err(fault)?;
            full_last(layers, every)
        }
    };
    reader.read(key, value, "which layers slide; a tail that completes no group slides");
    Ok(Some(stack))
}

fn full_last(layers: usize, every: usize) -> Stack {
    Stack::by(layers, |i| if (i + 1) % every == 0 { Kind::Full } else { Kind::Sliding })
}

fn full_first(layers: usize, every: usize) -> Stack {
    Stack::by(layers, |i| if i % every == 0 { Kind::Full } else { Kind::Sliding })
}

fn linear_then_full(layers: usize, every: usize) -> Stack {
    Stack::by(layers, |i| if (i + 1) % every == 0 { Kind::Full } else { Kind::Recurrent })
}

fn interval(reader: &mut Reader<'_>, _family: &Family, layers: usize) -> Result<Option<Stack>> {
    let rule = "every n-th layer is full attention, the others are recurrent";
    let every = reader.count(&["full_attention_interval"], rule)?.value();
    Ok(every.map(|every| linear_then_full(layers, every).recurrent(RecurrentKind::GatedDelta)))
}

fn period(reader: &mut Reader<'_>, family: &Family, layers: usize) -> Result<Option<Stack>> {
    let (class_period, class_offset, prefix) = match family.plan {
        Plan::Period(period, offset) => (Some(period), Some(offset), false),
        Plan::Zamba(period, offset) => (Some(period), Some(offset), true),
        _ => (None, None, false),
    };
    let keys = ["attn_layer_period", "attn_layer_offset"];
    let rule = "layers with index % period = offset have attention";
    let period = reader.count(&keys[..1], rule)?.value();
    let offset = reader.count_or_zero(&keys[1..], Zero::Allowed, rule)?.value();
    if period.is_none() && offset.is_none() {
        return Ok(None);
    }
    let missing = |key: &str| reader.unsupported(format!("`{}` is missing", reader.config().spelling(key)));
    let period = period.or(class_period).ok_or_else(|| missing(keys[0]))?;
    let offset = offset.or(class_offset).ok_or_else(|| missing(keys[1]))?;
    if offset >= period {
        return Err(
            reader.at_key(keys[1], format!("is {offset}, but it must be smaller than the period {period}"))
        );
    }
    let stack = if prefix { zamba(layers, period, offset) } else { periodic(layers, period, offset) };
    Ok(Some(stack.recurrent(RecurrentKind::Mamba)))
}

fn periodic(layers: usize, period: usize, offset: usize) -> Stack {
    Stack::by(layers, |i| if i % period == offset { Kind::Full } else { Kind::Recurrent })
}

fn zamba(layers: usize, period: usize, offset: usize) -> Stack {
    Stack::by(layers, |i| match i {
        0 | 1 => Kind::Recurrent,
        2 => Kind::BothFull,
        _ if (i - 3) % period == offset => Kind::BothFull,
        _ => Kind::Recurrent,
    })
}

/// Lists that name only the attention layers, by index from 0.
fn indices(reader: &mut Reader<'_>, family: &Family, layers: usize) -> Result<Option<Stack>> {
    const KEYS: &[(&str, Kind)] = &[
        ("attn_layer_indices", Kind::Full),
        ("full_attn_idxs", Kind::Full),
        ("hybrid_layer_ids", Kind::BothFull),
        ("attn_layer_idx", Kind::Full),
        ("attn.layers", Kind::Attention),
    ];
    if family.plan == Plan::AllBoth {
        return Ok(None);
    }
    for &(key, kind) in KEYS {
        let Some(items) = reader.list(key)? else { continue };
        let named = indexed(reader, key, items, 0, layers)?;
        reader.read(key, &Value::Array(items.to_vec()), "indices from 0 of the layers with attention");
        let implied = if key == "full_attn_idxs" { RecurrentKind::ShortConv } else { RecurrentKind::Mamba };
        let stack = Stack::by(layers, |i| if named[i] { kind } else { Kind::Recurrent });
        return Ok(Some(stack.recurrent(implied)));
    }
    Ok(None)
}

/// Marks the layers that a list names, counting from `first`.
pub(super) fn indexed(
    reader: &Reader<'_>,
    key: &str,
    items: &[Value],
    first: usize,
    layers: usize,
) -> Result<Vec<bool>> {
    let mut named = vec![false; layers];
    for item in items {
        let index = count(item, Zero::Allowed)
            .map_err(|fault| reader.at_key(key, format!("has an entry that {fault}")))?;
        let slot = index.checked_sub(first).and_then(|index| named.get_mut(index));
        let Some(slot) = slot else {
            let last = layers + first - 1;
            return Err(
                reader.at_key(key, format!("names layer {index}, but layers go from {first} to {last}"))
            );
        };
        if std::mem::replace(slot, true) {
            return Err(reader.at_key(key, format!("names layer {index} twice (duplicate)")));
        }
    }
    Ok(named)
}

/// `linear_attn_config` of Kimi Linear, whose lists count from 1.
fn one_based(reader: &mut Reader<'_>, _family: &Family, layers: usize) -> Result<Option<Stack>> {
    const FULL: &str = "linear_attn_config.full_attn_layers";
    const DELTA: &str = "linear_attn_config.kda_layers";
    if reader.object("linear_attn_config")?.is_none() {
        return Ok(None);
    }
    let (full, delta) = (reader.list(FULL)?, reader.list(DELTA)?);
    let rule = "indices from 1 of these layers";
    let mut marks = Vec::new();
    for (key, items) in [(FULL, full), (DELTA, delta)] {
        let Some(items) = items else {
            marks.push(None);
            continue;
        };
        marks.push(Some(indexed(reader, key, items, 1, layers)?));
        reader.read(key, &Value::Array(items.to_vec()), rule);
    }
    let kinds = match marks.as_slice() {
        [None, None] => return Ok(None),
        [Some(full), None] => full.clone(),
        [None, Some(delta)] => delta.iter().map(|delta| !delta).collect(),
        [Some(full), Some(delta)] => {
            if let Some(layer) = full.iter().zip(delta).position(|(full, delta)| full == delta) {
                let problem =
                    format!("and `kda_layers` must name each layer once, but layer {} is not", layer + 1);
                return Err(reader.at_key(FULL, problem));
            }
            full.clone()
        }
        _ => unreachable!("two lists were looked at"),
    };
    let stack = Stack::by(layers, |i| if kinds[i] { Kind::Full } else { Kind::Recurrent });
    Ok(Some(stack.recurrent(RecurrentKind::KimiDelta)))
}

fn groups(reader: &mut Reader<'_>, _family: &Family, layers: usize) -> Result<Option<Stack>> {
    let rule = "the last layer of each group is full, and so is a trailing partial group";
    let size = reader.count(&["layer_group_size"], rule)?.value();
    Ok(size.map(|size| grouped(layers, size).recurrent(RecurrentKind::Lightning)))
}

fn grouped(layers: usize, size: usize) -> Stack {
    let complete = layers - layers % size;
    Stack::by(layers, |i| if i >= complete || (i + 1) % size == 0 { Kind::Full } else { Kind::Recurrent })
}

/// `mamba_step` of PLaMo 2.
fn stepped(reader: &mut Reader<'_>, _family: &Family, layers: usize) -> Result<Option<Stack>> {
    let rule = "layers with index % step = step / 2 have attention";
    let Some(step) = reader.count(&["mamba_step"], rule)?.value() else { return Ok(None) };
    if reader.flag("mamba_enabled", "whether there are Mamba layers")? == Some(false) {
        return Ok(Some(Stack::by(layers, |_| Kind::Attention)));
    }
    let full = match reader.list("full_attention_idx")? {
        Some(items) => indexed(reader, "full_attention_idx", items, 0, layers)?,
        None => vec![false; layers],
    };
    let stack = Stack::by(layers, |i| {
        // A stack shorter than half a step still ends with attention.
        let attends = if layers <= step / 2 { i + 1 == layers } else { i % step == step / 2 };
        match (attends, full[i]) {
            (false, _) => Kind::Recurrent,
            (true, true) => Kind::Full,
            (true, false) => Kind::Attention,
        }
    });
    Ok(Some(stack.recurrent(RecurrentKind::Mamba2)))
}

/// `mb_per_layer` of Phi-4-mini-flash.
fn yoco(reader: &mut Reader<'_>, family: &Family, layers: usize) -> Result<Option<Stack>> {
    let rule = "a Mamba layer every n; the second half shares one full cache";
    let every = reader.count_or_zero(&["mb_per_layer"], Zero::Allowed, rule)?.value();
    match (every, family.plan) {
        (Some(every), _) | (None, Plan::Yoco(every)) => shared_second_half(reader, layers, every).map(Some),
        _ => Ok(None),
    }
}

fn shared_second_half(reader: &Reader<'_>, layers: usize, every: usize) -> Result<Stack> {
    let recurrent = |i: usize| every > 0 && i.is_multiple_of(every);
    let half = layers / 2;
    let owner = (half..layers).find(|&i| !recurrent(i));
    let Some(owner) = owner else {
        return Err(reader.unsupported("`mb_per_layer` leaves no attention layer in the second half"));
    };
    let mut stack = Stack::by(layers, |i| match i {
        _ if recurrent(i) => Kind::Recurrent,
        _ if i < half => Kind::Sliding,
        _ => Kind::Full,
    });
    stack.kv_from = (0..layers).map(|i| (i > owner && !recurrent(i)).then_some(owner)).collect();
    Ok(stack.recurrent(RecurrentKind::Mamba))
}

/// `no_rope_layers` of Llama 4: 1 chunked, 0 full; absent or empty is every fourth full.
fn chunked(reader: &mut Reader<'_>, family: &Family, layers: usize) -> Result<Option<Stack>> {
    const KEY: &str = "no_rope_layers";
    let Plan::Chunked(every) = family.plan else { return Ok(None) };
    let items = reader.list(KEY)?.unwrap_or_default();
    if items.is_empty() {
        let rule = "absent or empty: every n-th layer is full, the others are chunked";
        let key = "no_rope_layer_interval";
        let every = reader.count_or(key, every, Zero::Refused, rule)?;
        return Ok(Some(Stack::by(
            layers,
            |i| if (i + 1) % every == 0 { Kind::Full } else { Kind::Chunked },
        )));
    }
    reader.check_len(KEY, items.len(), layers)?;
    let kinds = items.iter().map(|item| match item.as_u64() {
        Some(1) => Ok(Kind::Chunked),
        Some(0) => Ok(Kind::Full),
        _ => Err(reader.wrong(KEY, item, "0 or 1 for each layer")),
    });
    let stack = Stack::of(kinds.collect::<Result<_>>()?);
    reader.read(KEY, &Value::Array(items.to_vec()), "1 chunked, 0 full");
    Ok(Some(stack))
}

fn cross(reader: &mut Reader<'_>, _family: &Family, layers: usize) -> Result<Option<Stack>> {
    const KEY: &str = "cross_attention_layers";
    let Some(items) = reader.list(KEY)? else { return Ok(None) };
    let named = indexed(reader, KEY, items, 0, layers)?;
    reader.read(KEY, &Value::Array(items.to_vec()), "indices of the cross-attention layers");
    Ok(Some(Stack::by(layers, |i| if named[i] { Kind::Cross } else { Kind::Attention })))
}

fn every_n(reader: &mut Reader<'_>, family: &Family, layers: usize) -> Result<Option<Stack>> {
    let rule = "every n-th layer is full, the others slide";
    let every = reader.count(&["global_attn_every_n_layers"], rule)?.value();
    Ok(every.map(|every| match family.plan {
        Plan::FullLast(_) => full_last(layers, every),
        _ => full_first(layers, every),
    }))
}

/// What the class says when no key does.
fn by_class(reader: &mut Reader<'_>, family: &Family, layers: usize) -> Result<Stack> {
    let at = |indices: &[usize], then: Kind, other: Kind| {
        Stack::by(layers, |i| if indices.contains(&i) { then } else { other })
    };
    let stack = match family.plan {
        Plan::Uniform | Plan::Chunked(_) => Stack::by(layers, |_| Kind::Attention),
        Plan::FullLast(every) => full_last(layers, every),
        Plan::FullFirst(every) => full_first(layers, every),
        Plan::FullFirstAndLast(every) => {
            Stack::by(layers, |i| if i == 0 || (i + 1) % every == 0 { Kind::Full } else { Kind::Sliding })
        }
        Plan::LinearThenFull(every) => linear_then_full(layers, every),
        Plan::FullThenLinear(every) => periodic(layers, every, 0),
        Plan::LinearFirst(every) => {
            Stack::by(layers, |i| if i > 0 && i % every == 0 { Kind::Full } else { Kind::Recurrent })
        }
        Plan::Groups(size) => grouped(layers, size),
        Plan::Period(period, offset) => periodic(layers, period, offset),
        Plan::Zamba(period, offset) => zamba(layers, period, offset),
        Plan::BothAt(indices) => at(indices, Kind::BothFull, Kind::Recurrent),
        Plan::Griffin => Stack::by(layers, |i| if i % 3 == 2 { Kind::Attention } else { Kind::Recurrent }),
        Plan::CrossAt(indices) => at(indices, Kind::Cross, Kind::Attention),
        Plan::Compressed => {
            Stack::by(layers, |i| Kind::Compressed(if i > 1 && i % 2 == 1 { 4 } else { 128 }))
        }
        Plan::Yoco(every) => shared_second_half(reader, layers, every)?,
        Plan::AllRecurrent => Stack::by(layers, |_| Kind::Recurrent),
        Plan::AllBoth => parallel(reader, layers)?,
        Plan::Stated if reader.config().is_gguf() => Stack::by(layers, |_| Kind::Attention),
        Plan::Stated => {
            let problem = "no key says which layers have attention, and this class has no default";
            return Err(reader.unsupported(format!("model type `{}`: {problem}", family.name)));
        }
    };
    if !matches!(family.plan, Plan::Uniform | Plan::Chunked(_)) {
        reader.assumed("layer_types", family.plan.in_words(), "class default: which layers are what");
    }
    Ok(stack)
}

/// Every layer has both mixers; Hymba names the layers whose attention has no window.
fn parallel(reader: &mut Reader<'_>, layers: usize) -> Result<Stack> {
    const KEY: &str = "global_attn_idx";
    let Some(items) = reader.list(KEY)? else { return Ok(Stack::by(layers, |_| Kind::Both)) };
    let global = indexed(reader, KEY, items, 0, layers)?;
    reader.read(KEY, &Value::Array(items.to_vec()), "indices of the layers without a window");
    Ok(Stack::by(layers, |i| if global[i] { Kind::BothFull } else { Kind::Both }))
}

/// GGUF: a head count of 0 means that the block has no attention.
fn without_heads(reader: &mut Reader<'_>, family: &Family, stack: &mut Stack) -> Result<()> {
    let layers = stack.kinds.len();
    let known_mixer = family.recurrent.or(stack.recurrent).or(reader.config().gguf_recurrent).is_some();
    let mut feed_forward = None;
    for key in ["num_attention_heads", "num_key_value_heads"] {
        let Some(Value::Array(items)) = reader.look(key) else { continue };
        reader.check_len(key, items.len(), layers)?;
        for (layer, item) in items.iter().enumerate() {
            if item.as_u64() != Some(0) {
                if matches!(stack.kinds[layer], Kind::Recurrent | Kind::Nothing)
                    && key == "num_key_value_heads"
                {
                    stack.kinds[layer] = Kind::Attention;
                }
                continue;
            }
            // Nemotron-H has one thing per block: what has a feed-forward part is not a mixer.
            let mlp_only = family.rule == Rule::BlocksCount && {
                let widths = *feed_forward.get_or_insert_with(|| reader.look("intermediate_size"));
                widths.and_then(|widths| widths.get(layer)?.as_u64()).is_some_and(|width| width > 0)
            };
            let is_mixer = known_mixer && !mlp_only;
            stack.kinds[layer] = if is_mixer { Kind::Recurrent } else { Kind::Nothing };
        }
    }
    Ok(())
}
