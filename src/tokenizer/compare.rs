//! Whether two tokenizers mean the same by an id.

use std::collections::HashMap;

use super::Tokenizer;

/// How many differing ids are named.
const NUM_EXAMPLES: usize = 5;

/// What two vocabularies do not share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VocabularyDifference {
    /// Ids that both have and that mean different tokens.
    pub num_different: usize,
    /// The lowest of them, at most five: id, our token, theirs.
    pub examples: Vec<(u32, String, String)>,
}

impl VocabularyDifference {
    pub(super) fn between(ours: &Tokenizer, theirs: &Tokenizer) -> Self {
        let theirs = by_id(theirs);
        let mut different: Vec<(u32, String, String)> = by_id(ours)
            .into_iter()
            .filter_map(|(id, token)| {
                let other = theirs.get(&id)?;
                (spelling(&token) != spelling(other)).then(|| (id, token, other.clone()))
            })
            .collect();
        different.sort_unstable_by_key(|entry| entry.0);
        let num_different = different.len();
        different.truncate(NUM_EXAMPLES);
        Self { num_different, examples: different }
    }

    /// Whether every id that both have means the same.
    pub fn is_empty(&self) -> bool {
        self.num_different == 0
    }
}

fn by_id(tokenizer: &Tokenizer) -> HashMap<u32, String> {
    let size = u32::try_from(tokenizer.vocab_size()).unwrap_or(u32::MAX);
    let vocabulary = tokenizer.inner.get_vocab(true);
    vocabulary.into_iter().map(|(token, id)| (id, token)).filter(|(id, _)| *id < size).collect()
}

/// GGUF writes the spaces of added tokens as they are where `tokenizer.json` has U+2581.
fn spelling(token: &str) -> String {
    token.replace('▁', " ")
}
