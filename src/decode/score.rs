//! How likely the target finds a text that is already there.

use crate::error::{Error, Result};
use crate::model::{CausalLm, PREFILL_CHUNK, Session, host_rows};
use crate::sampling::LogProbabilities;

/// Rows whose logits are held at once: a large vocabulary has half a megabyte of them per row.
const LOGIT_ROWS: usize = 64;

/// Log-probabilities of the tokens after the first, each given all before it, with the `num_top` likeliest
/// in its place. One pass over the text, in chunks.
///
/// # Errors
/// `Usage` for a text of fewer than two tokens, `ContextTooLong`, `NanLogits`, and what the model gives.
pub fn score(
    model: &dyn CausalLm,
    tokens: &[u32],
    context_len: usize,
    num_top: usize,
) -> Result<Vec<LogProbabilities>> {
    if tokens.len() < 2 {
        let problem = "a text of one token has nothing to be scored: its first token is given".to_owned();
        return Err(Error::Usage { flag: "--score".to_owned(), problem });
    }
    if tokens.len() > context_len {
        return Err(Error::ContextTooLong { needed: tokens.len(), limit: context_len });
    }
    let mut session = Session::new(model, tokens.len(), 0);
    let mut scores = Vec::with_capacity(tokens.len() - 1);
    // The last token is only foretold, never read.
    for chunk in tokens[..tokens.len() - 1].chunks(PREFILL_CHUNK) {
        let hidden = session.extend(chunk, &[])?;
        for first in (0..chunk.len()).step_by(LOGIT_ROWS) {
            let rows = hidden.last.narrow(0, first, LOGIT_ROWS.min(chunk.len() - first))?;
            let logits = host_rows(&model.logits(&rows)?)?;
            for row in logits.chunks_exact(model.vocab_size()) {
                if row.iter().any(|logit| logit.is_nan()) {
                    return Err(Error::NanLogits { position: scores.len() + 1 });
                }
                scores.push(LogProbabilities::new(row, tokens[scores.len() + 1], num_top));
            }
        }
    }
    Ok(scores)
}

/// Perplexity: `e` to the power of the mean negative log-probability.
pub fn perplexity(scores: &[LogProbabilities]) -> f64 {
    let sum: f64 = scores.iter().map(|score| score.logprob).sum();
    (-sum / scores.len() as f64).exp()
}
