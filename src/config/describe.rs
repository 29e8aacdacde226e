//! The classifier: what the model is for, then its layers, then their heads.

use serde_json::Value;

use super::description::{Description, DraftKind, LayerDescription, LayerRecurrence, Mask, Mixer, Role};
use super::evidence::{Reader, Zero};
use super::families::{Family, Network, Rule};
use super::window::Windows;
use super::{CONTEXT_KEYS, ModelConfig, attention, depth, latent, layers, locate, masks, recurrence};
use crate::error::Result;

/// Beginnings of keys that only models with a recurrent mixer have.
const RECURRENT_MARKS: &[&str] = &[
    "mamba_",
    "ssm_",
    "linear_num_",
    "linear_attn",
    "lru_",
    "wkv",
    "rwkv",
    "time_mix",
    "conv_L_cache",
    "state_size",
];

/// Lists with an entry per layer.
const LISTS: &[&str] =
    &["layer_types", "layers_block_type", "hybrid_override_pattern", "hybrid_layer_pattern"];
/// Keys that say the same thing and are not read beside such a list.
const LESS_THAN_LISTS: &[&str] = &[
    "full_attention_interval",
    "sliding_window_pattern",
    "_sliding_window_pattern",
    "attn_layer_indices",
    "attn_layer_period",
    "attn_layer_offset",
    "no_rope_layers",
    "hybrid_layer_ids",
];

pub(super) fn describe(config: &ModelConfig) -> Result<Description> {
    let family = config.family;
    let mut reader = Reader::new(config);
    for key in ["model_type", "architectures"] {
        if let Some(value) = reader.look(key) {
            reader.read(key, value, "which class the model is");
        }
    }
    let draft = draft_kind(config);
    let role = role(&mut reader, family, draft)?;
    if config.identity.is_none() && config.text().is_empty() {
        return Err(
            reader.unsupported("it is empty: no model_type, no architectures, no num_attention_heads")
        );
    }
    reader.count(&["vocab_size"], "tokens of the vocabulary")?;
    let parts = if family.network == Network::HeadsOnly {
        Parts::default()
    } else {
        parts(&mut reader, family, role)?
    };
    let indexer_key_dim = latent::indexer(&mut reader, family)?.filter(|_| !parts.layers.is_empty());
    let mtp_keys = ["num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules", "num_mtp_layers"];
    let mtp_rule = "built-in MTP layers, not part of the stack";
    let mtp_layers =
        reader.count_or_zero(&mtp_keys, Zero::Allowed, mtp_rule)?.value().filter(|&count| count > 0);
    let kv_cache_bits = kv_cache_bits(&mut reader)?;
    if let Some(key) = CONTEXT_KEYS.iter().find(|key| reader.look(key).is_some_and(|value| !value.is_null()))
        && let Some(value) = reader.look(key)
    {
        reader.read(key, value, "longest context in tokens");
    }
    for key in ["dtype", "torch_dtype"] {
        if let Some(value) = reader.look(key) {
            reader.read(key, value, "declared type of the weights");
        }
    }
    let slides =
        parts.layers.iter().filter_map(|layer| layer.attention).any(|layer| layer.mask != Mask::Full);
    for key in ["sliding_window", "max_window_layers"] {
        if !reader.is_recorded(key) {
            reader.ignored(key, if slides { "a list says which layers slide" } else { "no layer slides" });
        }
    }
    if LISTS.iter().any(|list| reader.is_recorded(list)) {
        for key in LESS_THAN_LISTS {
            if !reader.is_recorded(key) {
                reader.ignored(key, "a list with an entry per layer decides");
            }
        }
    }
    if family.network == Network::Recurrent {
        for key in ["num_attention_heads", "num_key_value_heads", "num_heads", "attention_hidden_size"] {
            reader.ignored(key, "this class has no softmax attention, whatever its heads are called");
        }
    }
    let (evidence, unread) = reader.finish();
    Ok(Description {
        model_type: config.model_type().to_owned(),
        role,
        draft,
        layers: parts.layers,
        attention_per_layer: if family.rule == Rule::TwoBlocks { 2 } else { 1 },
        encoder_layers: parts.encoder_layers,
        hidden_size: parts.hidden_size,
        max_context: config.max_context()?,
        indexer_key_dim,
        mtp_layers,
        dtype: config.dtype().map(str::to_owned),
        kv_cache_bits,
        text_at: config.text_at().to_owned(),
        evidence,
        unread,
    })
}

#[derive(Default)]
struct Parts {
    layers: Vec<LayerDescription>,
    encoder_layers: Option<usize>,
    hidden_size: Option<usize>,
}

fn parts(reader: &mut Reader<'_>, family: &Family, role: Role) -> Result<Parts> {
    require_identity(reader, family)?;
    let num_layers = depth::num_layers(reader, family, role)?;
    let windows = Windows::read(reader, family)?;
    let stack = layers::stack(reader, family, &windows, num_layers)?;
    let slots = masks::slots(reader, family, &windows, &stack)?;
    if family.name.is_empty() && slots.iter().all(|slot| !slot.recurrent) {
        refuse_recurrent_marks(reader)?;
    }
    let attentions = attention::attentions(reader, family, role, &stack, &slots)?;
    let hidden_size = attention::width(reader, family)?;
    let recurrent = match stack.recurrent.filter(|_| slots.iter().any(|slot| slot.recurrent)) {
        Some(kind) => {
            let state_elements = recurrence::state_elements(reader, kind, hidden_size);
            Some(LayerRecurrence { kind, state_elements })
        }
        None => None,
    };
    let described = slots.iter().zip(attentions).map(|(slot, attention)| LayerDescription {
        attention,
        recurrent: recurrent.filter(|_| slot.recurrent),
        cross: slot.cross,
    });
    let layers: Vec<LayerDescription> = described.collect();
    if layers.iter().all(|layer| layer.mixer() == Mixer::None) {
        return Err(reader.unsupported("no layer mixes tokens: neither attention nor a recurrence was found"));
    }
    let encoder_layers =
        if role == Role::EncoderDecoder { encoder_layers(reader, num_layers)? } else { None };
    Ok(Parts { layers, encoder_layers, hidden_size })
}

/// Refuses a file that neither names a model nor says what attention it has.
fn require_identity(reader: &mut Reader<'_>, family: &Family) -> Result<()> {
    let named = reader.config().identity.is_some() || !family.name.is_empty();
    let heads = ["num_attention_heads", "n_head", "n_heads", "num_heads"];
    if named || heads.iter().any(|key| reader.look(key).is_some()) {
        return Ok(());
    }
    Err(reader
        .unsupported("no model_type, no architectures and no num_attention_heads: nothing tells what it is"))
}

/// Refuses to read an unknown model by its keys alone when some of them speak of a recurrent mixer.
fn refuse_recurrent_marks(reader: &Reader<'_>) -> Result<()> {
    let config = reader.config();
    let is_mark = |key: &&String| RECURRENT_MARKS.iter().any(|mark| key.starts_with(mark));
    match config.text().keys().find(is_mark) {
        None => Ok(()),
        Some(key) => Err(reader.unsupported(format!(
            "model type `{}` is not known, and `{}` suggests a recurrent mixer: which layers have it cannot be determined",
            config.model_type(),
            config.spelling(key)
        ))),
    }
}

/// What the model is for.
fn role(reader: &mut Reader<'_>, family: &Family, draft: Option<DraftKind>) -> Result<Role> {
    let config = reader.config();
    if draft.is_some() {
        return Ok(Role::Draft);
    }
    let seq2seq = reader.flag("is_encoder_decoder", "whether there is an encoder")?;
    let wrapper = config.top_level("model_type").and_then(Value::as_str).unwrap_or_default();
    let outer = config.top_level("is_encoder_decoder") == Some(&Value::Bool(true));
    let encoder_class = config.architectures().iter().any(|name| name.ends_with("EncoderModel"));
    if encoder_class && family.network != Network::Decoder {
        return Ok(Role::Encoder);
    }
    if seq2seq == Some(true) || outer || wrapper.ends_with("encoder-decoder") {
        return Ok(Role::EncoderDecoder);
    }
    if family.network == Network::EncoderDecoder && seq2seq.is_none() {
        return Ok(Role::EncoderDecoder);
    }
    let key = "use_bidirectional_attention";
    let bidirectional = match reader.look(key) {
        Some(value @ Value::Bool(flag)) => {
            reader.read(key, value, "true: an encoder without a cache");
            *flag
        }
        Some(value @ Value::String(which)) => {
            reader.read(key, value, "all: an encoder without a cache");
            which == "all"
        }
        _ => false,
    };
    let is_decoder = reader.flag("is_decoder", "whether a bidirectional class is used as a decoder")?;
    let causal = reader.flag("is_causal", "whether attention is causal")?;
    let masked =
        family.name.is_empty() && config.architectures().iter().any(|name| name.ends_with("ForMaskedLM"));
    let encoder = family.network == Network::Encoder && is_decoder != Some(true);
    let not_causal = causal == Some(false) && (config.is_gguf() || is_decoder == Some(false));
    Ok(if bidirectional || masked || encoder || not_causal { Role::Encoder } else { Role::Decoder })
}

/// The drafting method a checkpoint was made for, told by its names and its own keys.
fn draft_kind(config: &ModelConfig) -> Option<DraftKind> {
    const MARKS: &[(&str, DraftKind)] = &[
        ("eagle3", DraftKind::Eagle3),
        ("eagle", DraftKind::Eagle),
        ("dspark", DraftKind::Dspark),
        ("domino", DraftKind::Domino),
        ("dflash", DraftKind::Dflash),
        ("medusa", DraftKind::Medusa),
        ("mlp_speculator", DraftKind::MlpSpeculator),
        ("mlpspeculator", DraftKind::MlpSpeculator),
        ("mtpdraft", DraftKind::Mtp),
        ("draftmodel", DraftKind::Other),
    ];
    // A family of vision models is called Eagle as well.
    let is_wrapper =
        |name: &str| ["conditionalgeneration", "chat", "vl"].iter().any(|part| name.contains(part));
    let by_name = |name: &str| {
        let name = name.to_ascii_lowercase();
        if name.ends_with("mtp") || name.ends_with("mtpmodel") {
            return Some(DraftKind::Mtp);
        }
        MARKS.iter().find(|(mark, _)| name.contains(mark) && !is_wrapper(&name)).map(|&(_, kind)| kind)
    };
    let text = |key: &str| config.top_level(key).and_then(Value::as_str);
    let names = config.architectures().into_iter().map(std::borrow::Cow::into_owned);
    let outer = locate::architectures(config.root()).map(str::to_owned);
    let projector = config.top_level("dflash_config").and_then(|part| part.get("projector_type")?.as_str());
    if let Some(kind) = projector.and_then(by_name) {
        return Some(kind);
    }
    let model_type = text("model_type").filter(|name| !name.starts_with("eagle_"));
    let declared = [model_type, text("speculators_model_type")].into_iter().flatten().map(str::to_owned);
    if let Some(kind) = names.chain(outer).chain(declared).find_map(|name| by_name(&name)) {
        return Some(kind);
    }
    let has = |key: &str| config.top_level(key).is_some_and(|value| !value.is_null());
    let assistant = config.model_type().ends_with("_assistant") || config.model_type().ends_with("_mtp");
    match config.family.network {
        Network::HeadsOnly => Some(DraftKind::Medusa),
        _ if has("dflash_config") => Some(DraftKind::Dflash),
        _ if has("speculators_model_type") || assistant => Some(DraftKind::Other),
        _ => None,
    }
}

fn encoder_layers(reader: &mut Reader<'_>, num_layers: usize) -> Result<Option<usize>> {
    let keys = ["encoder_layers", "encoder_num_hidden_layers", "num_layers"];
    if let Some(layers) = reader.count(&keys, "encoder layers")?.value() {
        return Ok(Some(layers));
    }
    let beside = reader.config().top_level("encoder").and_then(|encoder| encoder.get("num_hidden_layers"));
    if let Some(layers) = beside.and_then(Value::as_u64).and_then(|layers| usize::try_from(layers).ok()) {
        return Ok(Some(layers));
    }
    if reader.config().is_gguf() || !reader.config().text_at().is_empty() {
        return Ok(None);
    }
    reader.assumed(keys[0], num_layers, "as many as decoder layers");
    Ok(Some(num_layers))
}

/// Bits per cache element that a declared cache format gives. The format of weights says nothing.
fn kv_cache_bits(reader: &mut Reader<'_>) -> Result<Option<u64>> {
    let config = reader.config();
    if config.kv_cache_bits.is_some() {
        return Ok(config.kv_cache_bits);
    }
    let key = "quantization_config";
    let inner = reader.look(key).filter(|value| !value.is_null());
    let scheme = inner.or_else(|| config.top_level(key)).and_then(|part| part.get("kv_cache_scheme"));
    let Some(scheme) = scheme.filter(|scheme| !scheme.is_null()) else { return Ok(None) };
    let bits = scheme.get("num_bits").and_then(Value::as_u64);
    let Some(bits) = bits.filter(|bits| (1..=64).contains(bits)) else {
        let problem = format!("{} says no usable `num_bits`", super::evidence::shown(scheme));
        return Err(reader.malformed(format!("`quantization_config.kv_cache_scheme` {problem}")));
    };
    reader.read("quantization_config.kv_cache_scheme", scheme, "bits per cache element");
    Ok(Some(bits))
}
