//! What depends on the tokens before a row: biases and penalties on single logits.

use std::borrow::Cow;

use super::{History, SamplingParams};

#[expect(clippy::cast_possible_truncation, reason = "logits are single precision")]
fn single(value: f64) -> f32 {
    value as f32
}

/// The logits (`[vocab]`) of the token that follows `history`, with biases and penalties applied.
/// Ids outside the vocabulary are ignored: a drafter may know fewer than the target emits.
pub(super) fn adjusted<'l>(
    logits: &'l [f32],
    params: &SamplingParams,
    history: History<'_>,
) -> Cow<'l, [f32]> {
    if !params.adjusts() {
        return Cow::Borrowed(logits);
    }
    let mut row = logits.to_vec();
    for &(token, bias) in &params.logit_bias {
        change(&mut row, token, |logit| logit + bias);
    }
    if params.repetition_penalty != 1.0 {
        let penalty = single(params.repetition_penalty);
        for (token, _) in counted(history.emitted.iter().chain(history.path)) {
            change(&mut row, token, |logit| if logit < 0.0 { logit * penalty } else { logit / penalty });
        }
    }
    if params.frequency_penalty != 0.0 || params.presence_penalty != 0.0 {
        let (frequency, presence) = (params.frequency_penalty, params.presence_penalty);
        let text = &history.emitted[history.prompt_len.min(history.emitted.len())..];
        for (token, count) in counted(text.iter().chain(history.path)) {
            let penalty = f64::from(count) * frequency + presence;
            change(&mut row, token, |logit| single(f64::from(logit) - penalty));
        }
    }
    Cow::Owned(row)
}

fn change(row: &mut [f32], token: u32, how: impl Fn(f32) -> f32) {
    if let Some(logit) = row.get_mut(token as usize) {
        *logit = how(*logit);
    }
}

/// Every token once, with how often it occurs.
fn counted<'t>(tokens: impl Iterator<Item = &'t u32>) -> Vec<(u32, u32)> {
    let mut sorted: Vec<u32> = tokens.copied().collect();
    sorted.sort_unstable();
    sorted.chunk_by(|a, b| a == b).map(|run| (run[0], u32::try_from(run.len()).unwrap_or(u32::MAX))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGITS: [f32; 4] = [2.0, -2.0, 1.0, 0.5];

    fn with(params: &SamplingParams) -> Vec<f32> {
        // Prompt 0 3, text 1 1, draft 0.
        let history = History { emitted: &[0, 3, 1, 1], path: &[0], prompt_len: 2 };
        adjusted(&LOGITS, params, history).into_owned()
    }

    #[test]
    fn repetition_counts_prompt_text_and_draft_once() {
        let params = SamplingParams { repetition_penalty: 2.0, ..SamplingParams::default() };
        assert_eq!(with(&params), [1.0, -4.0, 1.0, 0.25]);
    }

    #[test]
    fn frequency_and_presence_count_text_and_draft_only() {
        let params =
            SamplingParams { frequency_penalty: 0.5, presence_penalty: 0.25, ..SamplingParams::default() };
        assert_eq!(with(&params), [1.25, -3.25, 1.0, 0.5]);
    }

    #[test]
    fn biases_come_first_and_unknown_ids_are_ignored() {
        let params = SamplingParams {
            logit_bias: vec![(2, f32::NEG_INFINITY), (0, -4.0), (99, 1.0)],
            repetition_penalty: 2.0,
            ..SamplingParams::default()
        };
        assert_eq!(with(&params), [-4.0, -4.0, f32::NEG_INFINITY, 0.25]);
    }
}
