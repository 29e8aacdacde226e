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
pub use round::{DraftedToken, Round};

use crate::error::{Error, Result};
use crate::model::{PREFILL_CHUNK, Session};
use crate::sampling::Noise;
use crate::speculation::drafter::{DraftContext, ReadRows};

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
    let needs = setup.drafter.needs();
    let context = DraftContext {
        target: setup.target,
        params: &request.params,
        noise: Noise::new(request.seed, request.sequence),
        choice: setup.rule.draft_choice(),
    };
    let mut session = Session::new(setup.target, request.run_len(), 0)?;
    let anchor_at = request.prompt.len() - 1;
    while anchor_at - session.len() > PREFILL_CHUNK {
        let first_position = session.len();
        let tokens = &request.prompt[first_position..first_position + PREFILL_CHUNK];
        let hidden = session.extend(tokens, &needs.taps)?;
        setup.drafter.begin(&context, &ReadRows { first_position, tokens, taps: hidden.taps })?;
    }

    let mut tokens = request.prompt.to_vec();
    let mut rounds: Vec<Round> = Vec::new();
    let mut prefill_s = 0.0;
    let finish_reason = loop {
        let wanted = request.end() - tokens.len();
        if wanted == 0 {
            break if request.end() == request.context_len {
                FinishReason::ContextLength
            } else {
                FinishReason::Length
            };
        }
        let mut budget = if wanted > 1 { setup.scheduler.next().min(wanted - 1) } else { 0 };
        if let Some(longest) = needs.longest_draft {
            budget = budget.min(longest);
        }
        let (round, end) = round::run(setup, &context, &mut session, &mut tokens, request, budget, sink)?;
        setup.scheduler.observe(&round);
        if rounds.is_empty() {
            prefill_s = setup.clock.now_s() - start_s;
        }
        rounds.push(round);
        if let Some(reason) = end {
            break reason;
        }
    };
    tokens.drain(..request.prompt.len());
    Ok(Generation {
        tokens,
        finish_reason,
        rounds,
        prompt_len: request.prompt.len(),
        time_to_first_token_s: prefill_s,
        total_s: setup.clock.now_s() - start_s,
        target_cache_bytes: session.cache_bytes(),
        drafter_cache_bytes: setup.drafter.cache_bytes(),
    })
}
