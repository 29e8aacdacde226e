//! The loop: read the prompt, then rounds until something ends the text.
//!
//! Plain decoding is a round with an empty draft. Keeping it one function means that a comparison
//! measures the drafter and nothing else.

mod clock;
mod observer;
mod request;
mod round;
mod score;
mod stop_strings;

use std::ops::ControlFlow;

pub use clock::{Clock, SystemClock};
pub use observer::{Emitted, Observer, Unwatched};
pub use request::{FinishReason, Generation, Request, Setup};
pub use score::{perplexity, score};
pub use stop_strings::{Passed, StopStrings};

use crate::error::{Error, Result};
use crate::model::{PREFILL_CHUNK, Session};
use crate::sampling::Noise;
use crate::speculation::Round;
use crate::speculation::drafter::{DraftContext, ReadRows};
use round::{Run, run_round};

/// Generates from a prompt, handing tokens and rounds to `observer` as they come.
///
/// # Errors
/// `ContextTooLong` when the prompt leaves no room for a token, `Usage` for an empty prompt, `NanLogits`,
/// what the models and `observer` give.
pub fn generate(
    setup: &mut Setup<'_>,
    request: &Request<'_>,
    observer: &mut dyn Observer,
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
            prompt_len: request.prompt.len(),
        },
        needs: setup.drafter.needs(),
        session: Session::new(setup.target, request.run_len(), 0),
        tokens: request.prompt.to_vec(),
    };
    let mut rounds: Vec<Round> = Vec::new();
    let mut time_to_first_token_s = 0.0;
    let mut end = prefill(setup, &mut run, observer)?;
    let finish_reason = loop {
        if let Some(reason) = end {
            break reason;
        }
        let wanted = request.end() - run.tokens.len();
        if wanted == 0 {
            let is_full = request.end() == request.context_len;
            break if is_full { FinishReason::ContextLength } else { FinishReason::Length };
        }
        let (round, reason) = run_round(setup, &mut run, wanted, observer)?;
        setup.scheduler.observe(&round);
        if rounds.is_empty() {
            time_to_first_token_s = setup.clock.now_s() - start_s;
        }
        end = reason.or(observer.round(&round)?.break_value());
        rounds.push(round);
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
fn prefill(
    setup: &mut Setup<'_>,
    run: &mut Run<'_, '_>,
    observer: &mut dyn Observer,
) -> Result<Option<FinishReason>> {
    let anchor_at = run.tokens.len() - 1;
    while anchor_at - run.session.len() > PREFILL_CHUNK {
        let first_position = run.session.len();
        let tokens = &run.tokens[first_position..first_position + PREFILL_CHUNK];
        let hidden = run.session.extend(tokens, &run.needs.taps)?;
        setup.drafter.begin(&run.context, &ReadRows { first_position, tokens, taps: hidden.taps })?;
        if let ControlFlow::Break(reason) = observer.prompt_read(run.session.len())? {
            return Ok(Some(reason));
        }
    }
    Ok(None)
}
