//! Prompt lookup: what followed the last few tokens when they stood there before.
//!
//! The longest match wins; among equal ones the latest. After Saxena, "Prompt Lookup Decoding" (2023).

use super::{DraftContext, Drafter, Needs, Outcome, ReadRows};
use crate::error::Result;
use crate::speculation::schedule::Budget;
use crate::speculation::{Draft, Source};

pub(super) const SOURCE: Source = Source("ngram");

/// How long a match must and may be, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NgramOptions {
    /// Shorter matches are not used; at least 1.
    pub min_len: usize,
    /// A match is not looked at beyond this; at least `min_len`.
    pub max_len: usize,
}

impl Default for NgramOptions {
    fn default() -> Self {
        Self { min_len: 2, max_len: 8 }
    }
}

pub(super) struct Ngram {
    options: NgramOptions,
}

impl Ngram {
    pub(super) fn new(options: NgramOptions) -> Self {
        Self { options }
    }

    /// The tokens that followed the best earlier match of the end of `tokens`, at most `budget`.
    pub(super) fn look_up<'t>(&self, tokens: &'t [u32], budget: usize) -> &'t [u32] {
        let Some((&last, _)) = tokens.split_last() else { return &[] };
        let (mut best_len, mut best_end) = (self.options.min_len - 1, None);
        // `end` is where the continuation would start.
        for end in (1..tokens.len()).rev() {
            if tokens[end - 1] != last {
                continue;
            }
            let (earlier, latest) = (tokens[..end].iter().rev(), tokens.iter().rev());
            let len = earlier.zip(latest).take(self.options.max_len).take_while(|(a, b)| a == b).count();
            if len > best_len {
                (best_len, best_end) = (len, Some(end));
                if len == self.options.max_len {
                    break;
                }
            }
        }
        best_end.map_or(&[], |end| &tokens[end..tokens.len().min(end + budget)])
    }
}

impl Drafter for Ngram {
    fn needs(&self) -> Needs {
        Needs::default()
    }

    fn begin(&mut self, _: &DraftContext<'_>, _: &ReadRows<'_>) -> Result<()> {
        Ok(())
    }

    fn propose(&mut self, _: &DraftContext<'_>, tokens: &[u32], budget: &Budget) -> Result<Draft> {
        Ok(Draft::chain(self.look_up(tokens, budget.of(SOURCE)), SOURCE))
    }

    fn observe(&mut self, _: &DraftContext<'_>, _: &Outcome<'_>) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look_up(min_len: usize, max_len: usize, tokens: &[u32], budget: usize) -> Vec<u32> {
        Ngram::new(NgramOptions { min_len, max_len }).look_up(tokens, budget).to_vec()
    }

    #[test]
    fn the_longest_match_wins_then_the_latest() {
        // `2 3` stood before 4 and before 5; `1 2 3` only before 4.
        let tokens = [1, 2, 3, 4, 9, 2, 3, 5, 1, 2, 3];
        assert_eq!(look_up(2, 8, &tokens, 2), [4, 9]);
        assert_eq!(look_up(2, 2, &tokens, 2), [5, 1]);
    }

    #[test]
    fn short_matches_and_ends_are_respected() {
        assert_eq!(look_up(2, 8, &[7, 1, 2, 7], 3), [] as [u32; 0]);
        assert_eq!(look_up(1, 8, &[7, 1, 2, 7], 9), [1, 2, 7]);
        assert_eq!(look_up(1, 8, &[7, 7], 4), [7]);
        assert_eq!(look_up(1, 8, &[], 4), [] as [u32; 0]);
        assert_eq!(look_up(1, 8, &[1, 2, 3], 4), [] as [u32; 0]);
    }
}
