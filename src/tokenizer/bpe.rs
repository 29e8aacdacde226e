//! The one place where a byte-pair model is built from a vocabulary and merges that nobody checked.
//!
//! The `tokenizers` crate takes merges on trust: a pair longer than the longest entry makes it slice
//! out of bounds. So they are looked at first.

use tokenizers::models::bpe::{BPE, BpeBuilder, Merges, Vocab};

/// Builds the model. `builder` carries all settings but the vocabulary, the merges and `word_prefix`
/// (written before every piece of a word but the first).
///
/// # Errors
/// Says which merge names an entry that is not there.
pub(super) fn build(
    mut builder: BpeBuilder,
    vocab: Vocab,
    merges: Merges,
    word_prefix: Option<String>,
) -> Result<BPE, String> {
    let prefix = word_prefix.as_deref().unwrap_or("");
    let longest = vocab.keys().map(String::len).max().unwrap_or(0);
    for (left, right) in &merges {
        let joined_len = right.strip_prefix(prefix).map(|right| left.len() + right.len());
        if joined_len.is_none_or(|len| len > longest) {
            return Err(format!("merge `{left} {right}` makes a token that is not in the vocabulary"));
        }
    }
    if let Some(prefix) = word_prefix {
        builder = builder.continuing_subword_prefix(prefix);
    }
    builder.vocab_and_merges(vocab, merges).build().map_err(|problem| format!("in the merges: {problem}"))
}
