//! Keep what plain decoding would draw: the arg-max of log-probability plus noise that depends on seed,
//! sequence, position and token only.
//!
//! Each token is an exact sample of its row (Gumbel-max), and the same sample whether the row is alone
//! or in a block; so the text is plain decoding's at any temperature. The price is that a draft is kept
//! less often than by the rule that looks only at distributions.

use super::{AcceptanceRule, DraftChoice, TargetRows, Verdict, walk};
use crate::error::Result;
use crate::sampling::Noise;
use crate::speculation::Draft;

pub(super) struct Coupled;

impl AcceptanceRule for Coupled {
    fn lossless(&self) -> bool {
        true
    }

    fn couples(&self) -> bool {
        true
    }

    fn draft_choice(&self) -> DraftChoice {
        DraftChoice::SharedNoise
    }

    fn verify(&self, draft: &Draft, rows: &mut dyn TargetRows, noise: &Noise) -> Result<Verdict> {
        walk(draft, rows, |row, position| row.choose(noise.at(position)))
    }
}
