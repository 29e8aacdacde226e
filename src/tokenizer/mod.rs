//! Text to tokens and back.
//!
//! One type, whatever a checkpoint brings: `tokenizer.json` (`json`) or the vocabulary inside a GGUF
//! file (`gguf`). Both become the `tokenizers` crate's types in memory, so special tokens are found
//! and text is decoded by the same code. The one thing done here instead is SentencePiece's merging by
//! score (`score_merges`), which the crate only has as a list of merges.

mod bpe;
mod compare;
mod gguf;
mod json;
mod pretokenizer;
mod score_merges;
mod stream;

use std::fmt;
use std::path::{Path, PathBuf};

use tokenizers::{Decoder, DecoderWrapper, OffsetReferential, OffsetType};

pub use compare::VocabularyDifference;
pub use stream::TextStream;

use crate::error::{Error, Result};
use crate::gguf::GgufHeader;
use score_merges::ScoreMerges;

/// Whether special tokens appear in decoded text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecialTokens {
    /// Leave them out.
    Skip,
    /// Write them as they are spelled in the vocabulary.
    Keep,
}

/// How the pieces between special tokens become ids.
enum Merging {
    /// By the model that the `tokenizers` crate holds.
    Library,
    /// By the scores of a SentencePiece vocabulary.
    ByScore(ScoreMerges),
}

/// A vocabulary with its rules: what a checkpoint's text is made of.
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    path: PathBuf,
    merging: Merging,
    /// Added before and after every text by `encode`. A `tokenizer.json` says it in its
    /// post-processor instead, which `inner` applies.
    before: Option<u32>,
    after: Option<u32>,
    bos_id: Option<u32>,
    eos_ids: Vec<u32>,
    vocab_size: usize,
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Tokenizer")
            .field("path", &self.path)
            .field("vocab_size", &self.vocab_size)
            .finish_non_exhaustive()
    }
}

impl Tokenizer {
    /// Reads `tokenizer.json` in a model's folder, with `tokenizer_config.json` and
    /// `special_tokens_map.json` where they lie beside it. `None` when there is no `tokenizer.json`.
    ///
    /// # Errors
    /// `Io` when a file is there but cannot be read, otherwise those of [`Tokenizer::from_bytes`].
    pub fn from_dir(dir: &Path) -> Result<Option<Self>> {
        json::from_dir(dir)
    }

    /// Reads the contents of `tokenizer.json` and `tokenizer_config.json`. `path` is for messages.
    ///
    /// # Errors
    /// `Malformed` for broken JSON, `Tokenizer` for rules that contradict each other or are unknown.
    pub fn from_bytes(tokenizer_json: &[u8], tokenizer_config: Option<&[u8]>, path: &Path) -> Result<Self> {
        json::from_bytes(tokenizer_json, tokenizer_config, path)
    }

    /// Builds the tokenizer that a GGUF file carries. `None` when it has no `tokenizer.ggml.model`.
    ///
    /// # Errors
    /// `Malformed` naming the metadata key that is missing or wrong, `UnsupportedConfig` for a
    /// tokenizer model or pre-tokenizer that is not known.
    pub fn from_gguf(header: &GgufHeader, path: &Path) -> Result<Option<Self>> {
        gguf::from_gguf(header, path)
    }

    /// The ids of `text` with what the tokenizer itself adds around a text, such as BOS. Special tokens
    /// spelled out in the text become their ids.
    ///
    /// # Errors
    /// `Tokenizer` when the text cannot be expressed in the vocabulary.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let mut ids: Vec<u32> = self.before.into_iter().collect();
        self.encode_into(text, true, &mut ids)?;
        ids.extend(self.after);
        Ok(ids)
    }

    /// The ids of `text` with nothing added. Special tokens spelled out in the text become their ids.
    ///
    /// # Errors
    /// As for [`Tokenizer::encode`].
    pub fn encode_plain(&self, text: &str) -> Result<Vec<u32>> {
        let mut ids = Vec::new();
        self.encode_into(text, false, &mut ids)?;
        Ok(ids)
    }

    fn encode_into(&self, text: &str, post_process: bool, ids: &mut Vec<u32>) -> Result<()> {
        match &self.merging {
            Merging::Library => {
                let encoding = self.inner.encode_fast(text, post_process).map_err(|problem| {
                    Error::Tokenizer { path: self.path.clone(), problem: problem.to_string() }
                })?;
                ids.extend_from_slice(encoding.get_ids());
            }
            Merging::ByScore(merges) => {
                let pieces = self
                    .inner
                    .get_added_vocabulary()
                    .extract_and_normalize(self.inner.get_normalizer(), text);
                for (piece, _, added) in pieces.get_splits(OffsetReferential::Original, OffsetType::None) {
                    match added {
                        Some(tokens) => ids.extend(tokens.iter().map(|token| token.id)),
                        None => merges.encode(piece, self.inner.get_model(), ids),
                    }
                }
            }
        }
        Ok(())
    }

    /// The text of `ids`. Ids outside the vocabulary say nothing; bytes that are not UTF-8 become
    /// U+FFFD.
    pub fn decode(&self, ids: &[u32], special: SpecialTokens) -> String {
        let tokens: Vec<String> = ids
            .iter()
            .filter(|&&id| special == SpecialTokens::Keep || !self.is_special(id))
            .filter_map(|&id| self.token(id))
            .collect();
        self.join(&tokens)
    }

    /// The text of vocabulary entries that follow each other from the start of a text.
    fn join(&self, tokens: &[String]) -> String {
        match self.inner.get_decoder() {
            // No decoder of the crate fails on tokens of its own vocabulary; were one to, the entries
            // themselves are the best that can be shown.
            Some(decoder) => decoder.decode(tokens.to_vec()).unwrap_or_else(|_| tokens.concat()),
            None => tokens.join(" "),
        }
    }

    /// Begins a text of which one token after another becomes known. Special tokens are skipped.
    pub fn stream(&self) -> TextStream<'_> {
        TextStream::new(self)
    }

    /// The token that begins a sequence, whether or not `encode` adds it.
    pub fn bos_id(&self) -> Option<u32> {
        self.bos_id
    }

    /// The tokens that end a text or a turn, as the tokenizer's own files name them.
    pub fn eos_ids(&self) -> &[u32] {
        &self.eos_ids
    }

    /// Highest token id + 1, added tokens included, padding of the embedding not.
    pub fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    /// The vocabulary entry as stored: byte-level and SentencePiece spellings are not decoded.
    pub fn token(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    /// Whether `id` steers the model and is no text, such as BOS or the end of a turn.
    pub fn is_special(&self, id: u32) -> bool {
        let added = self.inner.get_added_vocabulary();
        added
            .get_added_tokens_decoder()
            .get(&id)
            .is_some_and(|token| token.special || added.is_special_token(&token.content))
    }

    /// Compares the contents of two vocabularies, id by id, where both have one. A different size or a
    /// hole is no difference: checkpoints of one family pad their vocabularies differently.
    pub fn differences(&self, other: &Tokenizer) -> VocabularyDifference {
        VocabularyDifference::between(self, other)
    }

    /// Whether tokens are bytes spelled in the byte-level alphabet, joined by nothing else.
    fn is_byte_level(&self) -> bool {
        fn byte_level(decoder: &DecoderWrapper) -> bool {
            match decoder {
                DecoderWrapper::ByteLevel(_) => true,
                DecoderWrapper::Sequence(sequence) => match sequence.get_decoders() {
                    [first, rest @ ..] => {
                        byte_level(first) && rest.iter().all(|next| matches!(next, DecoderWrapper::Fuse(_)))
                    }
                    [] => false,
                },
                _ => false,
            }
        }
        self.inner.get_decoder().is_some_and(byte_level)
    }
}
