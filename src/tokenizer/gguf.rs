//! The tokenizer that a GGUF file carries as metadata, read as llama.cpp reads it.
//!
//! Two kinds exist here, by `tokenizer.ggml.model`: `gpt2` is byte-level BPE with merges, `llama` is
//! SentencePiece BPE with scores. Nothing in the metadata is believed: every array is checked against
//! the others before it is used, and an error names its key.

use std::path::Path;

use tokenizers::decoders::byte_fallback::ByteFallback;
use tokenizers::decoders::byte_level::ByteLevel;
use tokenizers::decoders::fuse::Fuse;
use tokenizers::decoders::sequence::Sequence as DecoderSequence;
use tokenizers::decoders::strip::Strip;
use tokenizers::models::bpe::{BpeBuilder, Merges, Vocab};
use tokenizers::normalizers::{Prepend, Replace, Sequence as NormalizerSequence};
use tokenizers::{AddedToken, DecoderWrapper, NormalizerWrapper};

use super::pretokenizer::{PRE_TOKENIZERS, PreTokenizer};
use super::score_merges::ScoreMerges;
use super::{Merging, Tokenizer, bpe};
use crate::error::{Error, Result};
use crate::gguf::{GgufHeader, GgufMetadata, GgufValue};

const MODEL: &str = "tokenizer.ggml.model";
const PRE: &str = "tokenizer.ggml.pre";
const TOKENS: &str = "tokenizer.ggml.tokens";
const TYPES: &str = "tokenizer.ggml.token_type";
const SCORES: &str = "tokenizer.ggml.scores";
const MERGES: &str = "tokenizer.ggml.merges";
const BOS_ID: &str = "tokenizer.ggml.bos_token_id";
const EOS_ID: &str = "tokenizer.ggml.eos_token_id";
const EOT_ID: &str = "tokenizer.ggml.eot_token_id";
const EOM_ID: &str = "tokenizer.ggml.eom_token_id";
const UNKNOWN_ID: &str = "tokenizer.ggml.unknown_token_id";
const ADD_BOS: &str = "tokenizer.ggml.add_bos_token";
const ADD_EOS: &str = "tokenizer.ggml.add_eos_token";
const ADD_SPACE_PREFIX: &str = "tokenizer.ggml.add_space_prefix";

/// Tokens known to end a turn, for the many files that do not say which does.
const END_OF_TURN: &[&str] = &[
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "<｜end▁of▁sentence｜>",
    "<end_of_utterance>",
];
/// Like [`END_OF_TURN`], for a turn that waits for a tool.
const END_OF_MESSAGE: &[&str] = &["<|eom_id|>"];
/// Ids that SentencePiece uses unless told otherwise.
const SENTENCEPIECE_BOS: u32 = 1;
const SENTENCEPIECE_EOS: u32 = 2;
const SENTENCEPIECE_UNKNOWN: u32 = 0;

/// What an entry is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Normal,
    Unknown,
    Control,
    UserDefined,
    Unused,
    Byte,
}

pub(super) fn from_gguf(header: &GgufHeader, path: &Path) -> Result<Option<Tokenizer>> {
    let metadata = Metadata { values: &header.metadata, path };
    let Some(model) = metadata.text(MODEL)? else { return Ok(None) };
    match model {
        "gpt2" => byte_level(&metadata).map(Some),
        "llama" => sentencepiece(&metadata).map(Some),
        // How a file says that it carries no tokenizer.
        "none" | "no_vocab" => Ok(None),
        other => Err(Error::UnsupportedConfig {
            path: path.to_owned(),
            problem: format!("{MODEL} `{other}` is not supported; known: gpt2, llama"),
        }),
    }
}

fn byte_level(metadata: &Metadata<'_>) -> Result<Tokenizer> {
    let rule = metadata.text(PRE)?.filter(|name| !name.is_empty()).unwrap_or("default");
    let rule = PreTokenizer::named(rule).ok_or_else(|| {
        let known: Vec<&str> = PRE_TOKENIZERS.iter().flat_map(|rule| rule.names).copied().collect();
        Error::UnsupportedConfig {
            path: metadata.path.to_owned(),
            problem: format!("{PRE} `{rule}` is not known; known: {}", known.join(", ")),
        }
    })?;
    let vocabulary = Vocabulary::read(metadata)?;
    let mut merges = Merges::new();
    for merge in metadata.texts(MERGES)?.ok_or_else(|| metadata.missing(MERGES))? {
        // A space inside the first token can only be its first byte.
        let space = merge.bytes().skip(1).position(|byte| byte == b' ').map(|at| at + 1);
        let Some((left, right)) = space.map(|at| (&merge[..at], &merge[at + 1..])) else {
            return Err(metadata.malformed(MERGES, &format!("`{merge}` is not two tokens")));
        };
        merges.push((left.to_owned(), right.to_owned()));
    }
    let builder = BpeBuilder::new().ignore_merges(rule.ignore_merges);
    let model = bpe::build(builder, vocabulary.ids(metadata)?, merges, None)
        .map_err(|problem| metadata.malformed(MERGES, &problem))?;

    let mut inner = tokenizers::Tokenizer::new(model);
    inner.with_pre_tokenizer(Some(rule.build().map_err(|problem| metadata.defect(&problem.to_string()))?));
    inner.with_decoder(Some(ByteLevel::default()));
    let defaults = Defaults { bos: None, eos: None, adds_bos: rule.adds_bos };
    finish(metadata, inner, &vocabulary, Merging::Library, &defaults)
}

fn sentencepiece(metadata: &Metadata<'_>) -> Result<Tokenizer> {
    let vocabulary = Vocabulary::read(metadata)?;
    let scores = metadata.array(SCORES)?.ok_or_else(|| metadata.missing(SCORES))?;
    if scores.len() != vocabulary.num_listed {
        return Err(metadata.wrong_length(SCORES, scores.len(), vocabulary.num_listed));
    }
    let mut merges = ScoreMerges {
        scores: Vec::with_capacity(vocabulary.tokens.len()),
        byte_ids: vec![None; 256],
        unknown_id: metadata.id(UNKNOWN_ID, &vocabulary)?.or(vocabulary.own(SENTENCEPIECE_UNKNOWN)),
        longest: vocabulary.tokens.iter().map(String::len).max().unwrap_or(0),
    };
    for ((token, kind), score) in vocabulary.tokens.iter().zip(&vocabulary.kinds).zip(scores) {
        let score = score.as_f64().ok_or_else(|| metadata.malformed(SCORES, "it holds no numbers"))?;
        #[expect(clippy::cast_possible_truncation, reason = "scores are f32 in the file")]
        let score = score as f32;
        let is_text = matches!(kind, Kind::Normal | Kind::UserDefined | Kind::Unused);
        if *kind == Kind::Byte {
            let digits = token.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
            let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).ok_or_else(|| {
                metadata.malformed(TOKENS, &format!("`{token}` has the type of a byte, but names none"))
            })?;
            merges.byte_ids[usize::from(byte)] = u32::try_from(merges.scores.len()).ok();
        }
        merges.scores.push(is_text.then_some(score));
    }

    let model = bpe::build(BpeBuilder::new(), vocabulary.ids(metadata)?, Merges::new(), None)
        .map_err(|problem| metadata.malformed(TOKENS, &problem))?;
    let mut inner = tokenizers::Tokenizer::new(model);
    let add_space_prefix = metadata.flag(ADD_SPACE_PREFIX)?.unwrap_or(true);
    let replace = |from: &str, to: &str| {
        Replace::new(from, to).map_err(|problem| metadata.defect(&problem.to_string()))
    };
    let mut normalizers: Vec<NormalizerWrapper> = Vec::new();
    let mut decoders: Vec<DecoderWrapper> =
        vec![replace("▁", " ")?.into(), ByteFallback::new().into(), Fuse::new().into()];
    if add_space_prefix {
        normalizers.push(Prepend::new("▁".to_owned()).into());
        decoders.push(Strip::new(' ', 1, 0).into());
    }
    normalizers.push(replace(" ", "▁")?.into());
    inner
        .with_normalizer(Some(NormalizerSequence::new(normalizers)))
        .map_err(|problem| metadata.defect(&problem.to_string()))?;
    inner.with_decoder(Some(DecoderSequence::new(decoders)));
    let defaults = Defaults {
        bos: vocabulary.own(SENTENCEPIECE_BOS),
        eos: vocabulary.own(SENTENCEPIECE_EOS),
        adds_bos: true,
    };
    finish(metadata, inner, &vocabulary, Merging::ByScore(merges), &defaults)
}

/// What holds where the file does not say.
struct Defaults {
    bos: Option<u32>,
    eos: Option<u32>,
    adds_bos: bool,
}

/// Adds what both kinds have: special tokens, ids with a meaning, the template.
fn finish(
    metadata: &Metadata<'_>,
    mut inner: tokenizers::Tokenizer,
    vocabulary: &Vocabulary,
    merging: Merging,
    defaults: &Defaults,
) -> Result<Tokenizer> {
    let bos_id = metadata.id(BOS_ID, vocabulary)?.or(defaults.bos);
    let eos_id = metadata.id(EOS_ID, vocabulary)?.or(defaults.eos);
    let turn_ends = match metadata.id(EOT_ID, vocabulary)? {
        Some(id) => vec![id],
        None => ends_by_name(&inner, END_OF_TURN),
    };
    let message_ends = match metadata.id(EOM_ID, vocabulary)? {
        Some(id) => vec![id],
        None => ends_by_name(&inner, END_OF_MESSAGE),
    };
    let mut eos_ids = Vec::new();
    for id in eos_id.into_iter().chain(turn_ends).chain(message_ends) {
        if !eos_ids.contains(&id) {
            eos_ids.push(id);
        }
    }

    let name = metadata.text("general.name")?.unwrap_or_default().to_lowercase();
    let is_phi3 = name.contains("phi-3") || name.contains("phi3");
    let mut added = Vec::new();
    for (id, (token, kind)) in (0u32..).zip(vocabulary.tokens.iter().zip(&vocabulary.kinds)) {
        // An end of turn that the file calls ordinary text is a mistake of its converter.
        let special = matches!(kind, Kind::Control | Kind::Unknown) || eos_ids.contains(&id);
        if special || *kind == Kind::UserDefined {
            // Phi-3's tokens swallow the space behind them, which GGUF has no field for.
            let rstrip = is_phi3 && !matches!(token.as_str(), "<unk>" | "<s>" | "<|endoftext|>");
            added.push(AddedToken::from(token.as_str(), special).normalized(false).rstrip(rstrip));
        }
    }
    inner.add_tokens(added).map_err(|problem| metadata.malformed(TOKENS, &problem.to_string()))?;

    let adds_begin = metadata.flag(ADD_BOS)?.unwrap_or(defaults.adds_bos);
    let adds_end = metadata.flag(ADD_EOS)?.unwrap_or(false);
    Ok(Tokenizer {
        inner,
        path: metadata.path.to_owned(),
        merging,
        before: bos_id.filter(|_| adds_begin),
        after: eos_id.filter(|_| adds_end),
        bos_id,
        eos_ids,
        vocab_size: vocabulary.tokens.len(),
    })
}

/// The tokens of `names` that are there.
fn ends_by_name(inner: &tokenizers::Tokenizer, names: &[&str]) -> Vec<u32> {
    // Where turns end with <|return|> and <|call|>, <|end|> only ends a part of one.
    let in_parts = ["<|return|>", "<|call|>"].iter().all(|name| inner.token_to_id(name).is_some());
    names
        .iter()
        .filter(|name| !(in_parts && **name == "<|end|>"))
        .filter_map(|name| inner.token_to_id(name))
        .collect()
}

/// Entries and what they are for, without the padding at the end.
struct Vocabulary {
    tokens: Vec<String>,
    kinds: Vec<Kind>,
    /// Entries in the file, padding included.
    num_listed: usize,
}

impl Vocabulary {
    fn read(metadata: &Metadata<'_>) -> Result<Self> {
        let listed = metadata.texts(TOKENS)?.ok_or_else(|| metadata.missing(TOKENS))?;
        let num_listed = listed.len();
        if u32::try_from(num_listed).is_err() {
            return Err(metadata.malformed(TOKENS, "it has more entries than there are ids"));
        }
        let mut kinds = vec![Kind::Normal; num_listed];
        if let Some(types) = metadata.array(TYPES)? {
            if types.len() != num_listed {
                return Err(metadata.wrong_length(TYPES, types.len(), num_listed));
            }
            for (kind, code) in kinds.iter_mut().zip(types) {
                *kind = match code.as_u64() {
                    Some(0 | 1) => Kind::Normal,
                    Some(2) => Kind::Unknown,
                    Some(3) => Kind::Control,
                    Some(4) => Kind::UserDefined,
                    Some(5) => Kind::Unused,
                    Some(6) => Kind::Byte,
                    _ => return Err(metadata.malformed(TYPES, &format!("{code:?} is no token type"))),
                };
            }
        }
        // Converters fill the vocabulary up to the rows of the embedding with `[PAD7]` for id 7.
        let is_padding = |id: usize| listed[id] == format!("[PAD{id}]");
        let size = (0..num_listed).rev().find(|&id| !is_padding(id)).map_or(0, |last| last + 1);
        kinds.truncate(size);
        let tokens = listed[..size]
            .iter()
            .enumerate()
            .map(|(id, token)| if token.is_empty() { format!("[EMPTY_{id}]") } else { (*token).to_owned() })
            .collect();
        Ok(Self { tokens, kinds, num_listed })
    }

    fn ids(&self, metadata: &Metadata<'_>) -> Result<Vocab> {
        let mut vocab = Vocab::default();
        vocab.reserve(self.tokens.len());
        for (id, token) in (0u32..).zip(&self.tokens) {
            if let Some(other) = vocab.insert(token.clone(), id) {
                return Err(metadata.malformed(TOKENS, &format!("`{token}` has the ids {other} and {id}")));
            }
        }
        Ok(vocab)
    }

    /// `id`, if the vocabulary has it.
    fn own(&self, id: u32) -> Option<u32> {
        usize::try_from(id).is_ok_and(|id| id < self.tokens.len()).then_some(id)
    }
}

/// The metadata with errors that name the key.
struct Metadata<'a> {
    values: &'a GgufMetadata,
    path: &'a Path,
}

impl<'a> Metadata<'a> {
    fn malformed(&self, key: &str, problem: &str) -> Error {
        Error::Malformed { path: self.path.to_owned(), problem: format!("{key}: {problem}") }
    }

    fn missing(&self, key: &str) -> Error {
        self.malformed(key, "the key is missing")
    }

    fn wrong_length(&self, key: &str, len: usize, num_tokens: usize) -> Error {
        self.malformed(key, &format!("it has {len} entries for {num_tokens} tokens"))
    }

    /// Our own table or construction was refused.
    fn defect(&self, problem: &str) -> Error {
        Error::Tokenizer { path: self.path.to_owned(), problem: problem.to_owned() }
    }

    fn read<T>(
        &self,
        key: &str,
        expected: &str,
        read: impl Fn(&'a GgufValue) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(value) = self.values.get(key) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| self.malformed(key, &format!("it is not {expected}")))
    }

    fn text(&self, key: &str) -> Result<Option<&'a str>> {
        self.read(key, "text", GgufValue::as_str)
    }

    fn flag(&self, key: &str) -> Result<Option<bool>> {
        self.read(key, "true or false", GgufValue::as_bool)
    }

    fn array(&self, key: &str) -> Result<Option<&'a [GgufValue]>> {
        self.read(key, "an array", GgufValue::as_array)
    }

    fn texts(&self, key: &str) -> Result<Option<Vec<&'a str>>> {
        self.read(key, "an array of text", |value| value.as_array()?.iter().map(GgufValue::as_str).collect())
    }

    fn id(&self, key: &str, vocabulary: &Vocabulary) -> Result<Option<u32>> {
        let Some(value) = self.read(key, "a token id", GgufValue::as_u64)? else { return Ok(None) };
        let id = u32::try_from(value).ok().and_then(|id| vocabulary.own(id));
        let size = vocabulary.tokens.len();
        let id = id.ok_or_else(|| {
            self.malformed(key, &format!("{value} is outside the vocabulary of {size} tokens"))
        })?;
        Ok(Some(id))
    }
}
