//! `--score`: how likely the target finds a text.

use anyhow::Result;
use serde_json::json;

use super::plan::Plan;
use crate::cli::args::GenerateArgs;
use crate::cli::models::Model;
use crate::cli::ui::Output;
use crate::decode::{perplexity, score};
use crate::sampling::LogProbabilities;
use crate::tokenizer::Tokenizer;

/// Scores `ids` and prints a line per token, or one JSON object.
pub(super) fn run(
    args: &GenerateArgs,
    plan: &Plan,
    target: &Model,
    tokenizer: Option<&Tokenizer>,
    ids: &[u32],
    context_len: usize,
    output: &mut Output,
) -> Result<()> {
    let scores = score(&target.loaded.model, ids, context_len, args.output.logprobs.unwrap_or(0))?;
    let perplexity = perplexity(&scores);
    let sum: f64 = scores.iter().map(|score| score.logprob).sum();
    let token = |id: u32| tokenizer.and_then(|tokenizer| tokenizer.token(id));
    if plan.format.replaces_text {
        let tokens = ids.iter().enumerate().map(|(index, id)| {
            let score = index.checked_sub(1).map(|before| &scores[before]);
            json!({
                "token_id": id,
                "token": token(*id),
                "logprob": score.map(|score| score.logprob),
                "top": score.map(|score| &score.top),
            })
        });
        let document = json!({
            "schema": "specdec.score/1",
            "target": target.report,
            "tokens": tokens.collect::<Vec<_>>(),
            "logprob_sum": sum,
            "perplexity": perplexity,
        });
        return Ok(output.write(&format!("{document}\n"))?);
    }
    let mut lines = String::new();
    for (index, id) in ids.iter().enumerate() {
        let spelled = token(*id).unwrap_or_default();
        let before = index.checked_sub(1).map(|before| &scores[before]);
        let logprob = before.map_or("-".to_owned(), |score| format!("{:.4}", score.logprob));
        lines.push_str(&format!("{index}\t{id}\t{logprob}\t{spelled:?}{}\n", top(before, token)));
    }
    let scored = scores.len();
    lines.push_str(&format!("perplexity {perplexity:.4} over {scored} tokens, log-probability {sum:.4}\n"));
    Ok(output.write(&lines)?)
}

/// The likeliest tokens of a place, where asked for.
fn top(score: Option<&LogProbabilities>, token: impl Fn(u32) -> Option<String>) -> String {
    let ranked = score.into_iter().flat_map(|score| &score.top);
    let shown = ranked.map(|r| format!("\t{:?} {:.4}", token(r.token).unwrap_or_default(), r.logprob));
    shown.collect::<Vec<_>>().concat()
}
