//! The loop: read the prompt, then rounds until something ends the text.
//!
//! Plain decoding is a round with an empty draft. Keeping it one function means that a comparison
//! measures the drafter and nothing else.

mod clock;
mod request;
mod round;

use std::ops::ControlFlow;

pub use clock::{Clock, SystemClock};
pub use request::{FinishReason, Generation, Request, Setup};

use crate::error::{Error, Result};
use crate::model::{PREFILL_CHUNK, Session};
use crate::sampling::Noise;
use crate::speculation::Round;
use crate::speculation::drafter::{DraftContext, ReadRows};
use round::{Run, run_round};

/// One emitted token, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Emitted {
    /// Token id.
    pub token: u32,
    /// Who proposed it; none for the target's own.
    pub source: Option<crate::speculation::Source>,
}

/// Generates from a prompt, handing each token to `sink` as it is decided.
///
/// `sink` may end the text after any token, also in the middle of an accepted draft; what follows is
/// neither emitted nor counted, and no cache holds it.
///
/// # Errors
/// `ContextTooLong` when the prompt leaves no room for a token, `Usage` for an empty prompt, `NanLogits`,
/// what the models and `sink` give.
pub fn generate(
    setup: &mut Setup<'_>,
    request: &Request<'_>,
    sink: &mut dyn FnMut(Emitted) -> Result<ControlFlow<FinishReason>>,
) -> Result<Generation> {
    if request.prompt.is_empty() {
        let problem = "there is nothing to continue".to_owned();
        return Err(Error::Usage { flag: "prompt".to_owned(), problem });
    }
    if request.prompt.len() >= request.context_len {
        return Err(Error::ContextTooLong { needed: request.prompt.len() + 1, limit: request.context_len });
    }
    let start_s = setup.clock.now_s();
    let mut run = Run {
        request,
        context: DraftContext {
            target: setup.target,
            params: &request.params,
            noise: Noise::new(request.seed, request.sequence),
            choice: setup.rule.draft_choice(),
        },
        needs: setup.drafter.needs(),
        session: Session::new(setup.target, request.run_len(), 0),
        tokens: request.prompt.to_vec(),
    };
    prefill(setup, &mut run)?;
    let mut rounds: Vec<Round> = Vec::new();
    let mut time_to_first_token_s = 0.0;
    let finish_reason = loop {
        let wanted = request.end() - run.tokens.len();
        if wanted == 0 {
            let is_full = request.end() == request.context_len;
            break if is_full { FinishReason::ContextLength } else { FinishReason::Length };
        }
        let mut budget = if wanted > 1 { setup.scheduler.next().min(wanted - 1) } else { 0 };
        if let Some(longest) = run.needs.longest_draft {
            budget = budget.min(longest);
        }
        let (round, end) = run_round(setup, &mut run, budget, sink)?;
        setup.scheduler.observe(&round);
        if rounds.is_empty() {
            time_to_first_token_s = setup.clock.now_s() - start_s;
        }
        rounds.push(round);
        if let Some(reason) = end {
            break reason;
        }
    };
    Ok(Generation {
        tokens: run.tokens.split_off(request.prompt.len()),
        finish_reason,
        rounds,
        prompt_len: request.prompt.len(),
        time_to_first_token_s,
        total_s: setup.clock.now_s() - start_s,
        target_cache_bytes: run.session.cache_bytes(),
        drafter_cache_bytes: setup.drafter.cache_bytes(),
    })
}

/// Reads the prompt in chunks, as long as more than one chunk is left before the anchor; the rest goes
/// into the first block.
fn prefill(setup: &mut Setup<'_>, run: &mut Run<'_, '_>) -> Result<()> {
    let anchor_at = run.tokens.len() - 1;
    while anchor_at - run.session.len() > PREFILL_CHUNK {
        let first_position = run.session.len();
        let tokens = &run.tokens[first_position..first_position + PREFILL_CHUNK];
        let hidden = run.session.extend(tokens, &run.needs.taps)?;
        setup.drafter.begin(&run.context, &ReadRows { first_position, tokens, taps: hidden.taps })?;
    }
    Ok(())
}
