//! `tokenizer.json` and the files beside it.
//!
//! The `tokenizers` crate would read the file too, but goes through three copies of the vocabulary and
//! trusts its merges. So byte-pair models, which nearly all language models have, are read here
//! straight into the crate's types; the others go the crate's way.

use std::fmt;
use std::path::Path;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny, SeqAccess, Visitor};
use serde_json::Value;
use tokenizers::models::bpe::{BpeBuilder, Vocab};
use tokenizers::{AddedToken, DecoderWrapper, NormalizerWrapper, PostProcessorWrapper, PreTokenizerWrapper};

use super::{Merging, Tokenizer, bpe};
use crate::error::{Error, Result};

pub(super) fn from_dir(dir: &Path) -> Result<Option<Tokenizer>> {
    let path = dir.join("tokenizer.json");
    let Some(tokenizer_json) = read_if_there(&path)? else { return Ok(None) };
    let config = read_settings(&dir.join("tokenizer_config.json"))?;
    let map = read_settings(&dir.join("special_tokens_map.json"))?;
    build(&tokenizer_json, &[config, map], &path).map(Some)
}

pub(super) fn from_bytes(
    tokenizer_json: &[u8],
    tokenizer_config: Option<&[u8]>,
    path: &Path,
) -> Result<Tokenizer> {
    let config = tokenizer_config.map_or(Ok(Value::Null), |bytes| parse(bytes, path))?;
    build(tokenizer_json, &[config], path)
}

fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("read", path)(error)),
    }
}

fn read_settings(path: &Path) -> Result<Value> {
    read_if_there(path)?.map_or(Ok(Value::Null), |bytes| parse(&bytes, path))
}

fn parse<T: DeserializeOwned>(bytes: &[u8], path: &Path) -> Result<T> {
    serde_json::from_slice(bytes)
        .map_err(|error| Error::Malformed { path: path.to_owned(), problem: error.to_string() })
}

/// `settings` are the files beside it, the first to name something wins.
fn build(tokenizer_json: &[u8], settings: &[Value], path: &Path) -> Result<Tokenizer> {
    let (mut inner, highest_model_id) = read_tokenizer(tokenizer_json, path)?;
    // Meant for training in batches; a prompt is neither cut nor filled.
    inner
        .with_truncation(None)
        .map_err(|problem| Error::Tokenizer { path: path.to_owned(), problem: problem.to_string() })?
        .with_padding(None);
    let token_id = |key: &str| {
        settings.iter().find_map(|file| token_text(&file[key])).and_then(|token| inner.token_to_id(token))
    };
    let bos_id = token_id("bos_token");
    let eos_ids = token_id("eos_token").into_iter().collect();
    let added_ids = inner.get_added_vocabulary().get_vocab().values().copied();
    let highest_id = added_ids.chain(highest_model_id).max();
    let vocab_size = highest_id.map_or(Ok(0), |id| usize::try_from(id).map(|id| id.saturating_add(1)));
    Ok(Tokenizer {
        vocab_size: vocab_size.unwrap_or(usize::MAX),
        inner,
        path: path.to_owned(),
        merging: Merging::Library,
        before: None,
        after: None,
        bos_id,
        eos_ids,
    })
}

/// A token is spelled as text or as an object with its rules.
fn token_text(value: &Value) -> Option<&str> {
    value.as_str().or_else(|| value["content"].as_str())
}

/// The tokenizer and the highest id of its model, whose vocabulary the crate would copy to tell it.
fn read_tokenizer(bytes: &[u8], path: &Path) -> Result<(tokenizers::Tokenizer, Option<u32>)> {
    // The first look also finds broken JSON, on which the crate's own reader may panic.
    let look: Look = parse(bytes, path)?;
    let is_bpe = match look.model.kind.as_deref() {
        Some(kind) => kind == "BPE",
        None => look.model.merges.is_some(),
    };
    let refused = |problem| Error::Tokenizer { path: path.to_owned(), problem };
    if is_bpe {
        let file: BpeFile = parse(bytes, path)?;
        let highest_id = file.model.vocab.values().copied().max();
        return Ok((file.build().map_err(refused)?, highest_id));
    }
    let tokenizer =
        tokenizers::Tokenizer::from_bytes(bytes).map_err(|problem| refused(problem.to_string()))?;
    let highest_id = tokenizer.get_vocab(false).into_values().max();
    Ok((tokenizer, highest_id))
}

#[derive(Deserialize)]
struct Look {
    model: ModelLook,
}

#[derive(Deserialize)]
struct ModelLook {
    #[serde(rename = "type")]
    kind: Option<String>,
    merges: Option<IgnoredAny>,
}

/// A whole `tokenizer.json` with a byte-pair model.
#[derive(Deserialize)]
struct BpeFile {
    #[serde(default)]
    added_tokens: Vec<AddedToken>,
    normalizer: Option<NormalizerWrapper>,
    pre_tokenizer: Option<PreTokenizerWrapper>,
    post_processor: Option<PostProcessorWrapper>,
    decoder: Option<DecoderWrapper>,
    model: BpeModel,
}

/// `dropout` is left out: it makes encoding random and is meant for training.
#[derive(Deserialize)]
struct BpeModel {
    unk_token: Option<String>,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
    fuse_unk: Option<bool>,
    byte_fallback: Option<bool>,
    ignore_merges: Option<bool>,
    vocab: Vocab,
    merges: Vec<Merge>,
}

impl BpeFile {
    fn build(self) -> Result<tokenizers::Tokenizer, String> {
        let model = self.model;
        let mut builder = BpeBuilder::new()
            .fuse_unk(model.fuse_unk.unwrap_or(false))
            .byte_fallback(model.byte_fallback.unwrap_or(false))
            .ignore_merges(model.ignore_merges.unwrap_or(false));
        if let Some(token) = model.unk_token {
            builder = builder.unk_token(token);
        }
        if let Some(suffix) = model.end_of_word_suffix {
            builder = builder.end_of_word_suffix(suffix);
        }
        let merges =
            model.merges.into_iter().filter(|merge| !merge.is_header()).map(|merge| merge.0).collect();
        let bpe = bpe::build(builder, model.vocab, merges, model.continuing_subword_prefix)?;

        let mut tokenizer = tokenizers::Tokenizer::new(bpe);
        // Before the added tokens, which are stored as the normalizer leaves them.
        tokenizer.with_normalizer(self.normalizer).map_err(|problem| problem.to_string())?;
        tokenizer.with_pre_tokenizer(self.pre_tokenizer);
        tokenizer.with_post_processor(self.post_processor);
        tokenizer.with_decoder(self.decoder);
        tokenizer.add_tokens(self.added_tokens).map_err(|problem| problem.to_string())?;
        Ok(tokenizer)
    }
}

/// Two entries that become one, written `["a", "b"]` or, in older files, `"a b"`.
struct Merge((String, String));

impl Merge {
    /// Older files may begin with the first line of `merges.txt`.
    fn is_header(&self) -> bool {
        self.0.0.starts_with("#version") && self.0.1.starts_with("0.")
    }
}

impl<'de> Deserialize<'de> for Merge {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(MergeVisitor)
    }
}

struct MergeVisitor;

impl<'de> Visitor<'de> for MergeVisitor {
    type Value = Merge;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a merge: two tokens in a list, or in one text with a space between")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> std::result::Result<Merge, E> {
        match text.split_once(' ') {
            Some((left, right)) if !right.contains(' ') => Ok(Merge((left.to_owned(), right.to_owned()))),
            _ => Err(E::custom(format!("merge `{text}` is not two tokens"))),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> std::result::Result<Merge, A::Error> {
        match (list.next_element()?, list.next_element()?, list.next_element::<IgnoredAny>()?) {
            (Some(left), Some(right), None) => Ok(Merge((left, right))),
            _ => Err(serde::de::Error::custom("a merge is not two tokens")),
        }
    }
}
