//! SentencePiece's byte-pair encoding: of all neighbours that form an entry, the pair whose entry has
//! the highest score is joined first, the leftmost of equals.
//!
//! GGUF gives scores and no merges. Listing every pair that can form an entry would be half a million
//! merges for a vocabulary of 262,144, and would break ties differently.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use tokenizers::{Model, ModelWrapper};

/// What is needed beside the vocabulary itself.
pub(super) struct ScoreMerges {
    /// By id; `None` for entries that text never becomes: control, unknown and byte tokens.
    pub scores: Vec<Option<f32>>,
    /// The token of each byte, for characters that have no entry.
    pub byte_ids: Vec<Option<u32>>,
    /// Stands for what cannot be expressed otherwise.
    pub unknown_id: Option<u32>,
    /// Bytes of the longest entry.
    pub longest: usize,
}

/// A part of the text; joined parts keep the left one's place. `len` is 0 once joined to its left.
struct Part {
    start: usize,
    len: usize,
    previous: Option<usize>,
    next: Option<usize>,
}

/// Two neighbours that form an entry. Outdated once `len` is no longer theirs.
struct Candidate {
    score: f32,
    left: usize,
    right: usize,
    len: usize,
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then_with(|| other.left.cmp(&self.left))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Candidate {}

impl ScoreMerges {
    /// Appends the ids of `text`, in which spaces are already U+2581.
    pub(super) fn encode(&self, text: &str, model: &ModelWrapper, ids: &mut Vec<u32>) {
        let parts = self.join_all(text, model);
        let mut after_unknown = false;
        let mut at = (!parts.is_empty()).then_some(0);
        while let Some(index) = at {
            let part = &parts[index];
            at = part.next;
            let piece = &text[part.start..part.start + part.len];
            let unknown = if let Some((id, _)) = self.entry(piece, model) {
                ids.push(id);
                false
            } else {
                let bytes: Option<Vec<u32>> = piece
                    .bytes()
                    .map(|byte| self.byte_ids.get(usize::from(byte)).copied().flatten())
                    .collect();
                let unknown = bytes.is_none();
                match bytes {
                    Some(bytes) => ids.extend(bytes),
                    // Neighbouring unknown characters are one unknown token.
                    None if !after_unknown => ids.extend(self.unknown_id),
                    None => {}
                }
                unknown
            };
            after_unknown = unknown;
        }
    }

    fn join_all(&self, text: &str, model: &ModelWrapper) -> Vec<Part> {
        let mut parts: Vec<Part> = text
            .char_indices()
            .enumerate()
            .map(|(index, (start, character))| Part {
                start,
                len: character.len_utf8(),
                previous: index.checked_sub(1),
                next: Some(index + 1),
            })
            .collect();
        if let Some(last) = parts.last_mut() {
            last.next = None;
        }
        let mut candidates: BinaryHeap<Candidate> = (1..parts.len())
            .filter_map(|right| self.candidate(text, &parts, right - 1, right, model))
            .collect();

        while let Some(Candidate { left, right, len, .. }) = candidates.pop() {
            let outdated = parts[left].len == 0 || parts[right].len == 0;
            if outdated || parts[left].len + parts[right].len != len {
                continue;
            }
            parts[left].len = len;
            parts[right].len = 0;
            let next = parts[right].next;
            parts[left].next = next;
            if let Some(next) = next {
                parts[next].previous = Some(left);
                candidates.extend(self.candidate(text, &parts, left, next, model));
            }
            if let Some(previous) = parts[left].previous {
                candidates.extend(self.candidate(text, &parts, previous, left, model));
            }
        }
        parts
    }

    fn candidate(
        &self,
        text: &str,
        parts: &[Part],
        left: usize,
        right: usize,
        model: &ModelWrapper,
    ) -> Option<Candidate> {
        let start = parts[left].start;
        let len = parts[left].len + parts[right].len;
        let (_, score) = self.entry(&text[start..start + len], model)?;
        Some(Candidate { score, left, right, len })
    }

    /// The entry spelled `piece`, if text may become it.
    fn entry(&self, piece: &str, model: &ModelWrapper) -> Option<(u32, f32)> {
        if piece.len() > self.longest {
            return None;
        }
        let id = model.token_to_id(piece)?;
        let score = self.scores.get(usize::try_from(id).ok()?).copied().flatten()?;
        Some((id, score))
    }
}
