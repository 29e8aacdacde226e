//! Who watches a run: sees tokens and rounds as they come, and may end the text.

use std::ops::ControlFlow;

use super::request::FinishReason;
use crate::error::Result;
use crate::sampling::LogProbabilities;
use crate::speculation::{Round, Source};

/// One emitted token.
#[derive(Debug, Clone, PartialEq)]
pub struct Emitted {
    /// Token id.
    pub token: u32,
    /// Who proposed it; none for the target's own.
    pub source: Option<Source>,
    /// What the target's raw logits say of it, where asked for.
    pub logprobs: Option<LogProbabilities>,
}

/// Watches a run. Errors end it at once.
pub trait Observer {
    /// A token was decided. `Break` ends the text with it, also in the middle of an accepted draft: what
    /// follows is neither emitted nor counted, and no cache holds it.
    fn token(&mut self, emitted: &Emitted) -> Result<ControlFlow<FinishReason>>;

    /// A round is over. `Break` ends the text.
    fn round(&mut self, round: &Round) -> Result<ControlFlow<FinishReason>> {
        let _ = round;
        Ok(ControlFlow::Continue(()))
    }

    /// The prompt has been read up to `position`. `Break` ends the run without a token.
    fn prompt_read(&mut self, position: usize) -> Result<ControlFlow<FinishReason>> {
        let _ = position;
        Ok(ControlFlow::Continue(()))
    }
}

/// Lets everything pass.
pub struct Unwatched;

impl Observer for Unwatched {
    fn token(&mut self, _: &Emitted) -> Result<ControlFlow<FinishReason>> {
        Ok(ControlFlow::Continue(()))
    }
}
