//! Keep what is the target's arg-max: plain decoding at temperature 0.

use super::{AcceptanceRule, DraftChoice, TargetRows, Verdict, walk};
use crate::error::Result;
use crate::sampling::Noise;
use crate::speculation::Draft;

pub(super) struct Greedy;

impl AcceptanceRule for Greedy {
    fn lossless(&self) -> bool {
        true
    }

    fn couples(&self) -> bool {
        true
    }

    fn draft_choice(&self) -> DraftChoice {
        DraftChoice::MostLikely
    }

    fn verify(&self, draft: &Draft, rows: &mut dyn TargetRows, _: &Noise) -> Result<Verdict> {
        walk(draft, rows, |row, _| row.argmax())
    }
}
