//! Whether two models mean the same by a token id.
//!
//! Compared by content where both have tokenizers, whatever padding their embeddings carry; by the
//! number of rows otherwise.

use std::path::Path;

use crate::checkpoint::Checkpoint;
use crate::error::{Error, Result};

/// What is known of a model's vocabulary.
#[derive(Debug, Clone, Copy)]
pub struct Vocabulary<'a> {
    /// Model, as the user named it.
    pub name: &'a Path,
    /// Rows of the embedding.
    pub rows: usize,
    /// Ids of the tokenizer, without padding.
    pub tokens: Option<usize>,
}

/// Compares the tokenizers of two checkpoints, where both have one.
///
/// # Errors
/// `VocabularyMismatch` with up to five ids that mean different tokens.
pub fn check_tokenizers(target: &Checkpoint, drafter: &Checkpoint) -> Result<()> {
    let (Some(ours), Some(theirs)) = (&target.tokenizer, &drafter.tokenizer) else { return Ok(()) };
    let difference = ours.differences(theirs);
    if difference.is_empty() {
        return Ok(());
    }
    let examples: Vec<String> = difference
        .examples
        .iter()
        .map(|(id, ours, theirs)| format!("{id} is `{ours}` and `{theirs}`"))
        .collect();
    let problem =
        format!("{} token ids mean different tokens: {}", difference.num_different, examples.join("; "));
    Err(mismatch(&target.path, &drafter.path, problem))
}

/// Ids from 0 that both models know: all that may be drafted.
///
/// # Errors
/// `VocabularyMismatch` when there is no tokenizer to compare and the embeddings differ in rows.
pub fn shared_vocab(target: &Vocabulary<'_>, drafter: &Vocabulary<'_>) -> Result<usize> {
    match (target.tokens, drafter.tokens) {
        (Some(ours), Some(theirs)) => Ok(ours.min(theirs).min(target.rows).min(drafter.rows)),
        _ if target.rows == drafter.rows => Ok(target.rows),
        _ => {
            let problem = format!(
                "it has {} tokens, the target {}, and there are no tokenizers to compare",
                drafter.rows, target.rows
            );
            Err(mismatch(target.name, drafter.name, problem))
        }
    }
}

fn mismatch(target: &Path, drafter: &Path, problem: String) -> Error {
    let name = |path: &Path| format!("`{}`", path.display());
    Error::VocabularyMismatch { target: name(target), drafter: name(drafter), problem }
}
