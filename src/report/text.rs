//! The table a person reads after the text.

use comfy_table::{Cell, CellAlignment, Table, presets};

use super::{Report, Summary};

pub(super) fn render(report: &Report<'_>) -> String {
    let summary = report.summary();
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let mut row = |name: &str, value: String| {
        table.add_row(vec![Cell::new(name), Cell::new(value).set_alignment(CellAlignment::Left)]);
    };
    row("tokens", format!("{} ({})", summary.emitted, reason(report)));
    row("rounds", rounds(&summary));
    if summary.drafted > 0 {
        row("drafted / accepted", drafted(&summary));
        row("acceptance length (tau)", optional(summary.acceptance_length, 2));
        row("accepted by position", by_position(&summary));
        if summary.sources.len() > 1 {
            let each = |s: &super::SourceSummary| format!("{} {} of {}", s.source, s.accepted, s.drafted);
            row("accepted by source", summary.sources.iter().map(each).collect::<Vec<_>>().join(", "));
        }
    }
    if summary.parked_rounds > 0 {
        let (rounds, share) = (summary.parked_rounds, optional(summary.parked_share, 2));
        row("drafting paused", format!("in {rounds} rounds, {share} of the time"));
    }
    row("time to first token", seconds(summary.time_to_first_token_s));
    row(
        "prefill",
        format!("{} tokens, {} tokens/s", summary.prompt_tokens, optional(summary.prefill_tokens_per_s, 1)),
    );
    row("decode", format!("{} tokens/s", optional(summary.decode_tokens_per_s, 1)));
    if let Some([draft, verify, other]) = summary.time_shares() {
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let shares =
            format!("drafting {}, verifying {}, other {}", percent(draft), percent(verify), percent(other));
        row("time in rounds", shares);
    }
    row("seed", report.seed.to_string());
    if let Some(bytes) = report.peak_memory_bytes {
        let caches = report.generation.target_cache_bytes + report.generation.drafter_cache_bytes;
        row("peak memory", format!("{} (caches {})", size(bytes), size(caches as u64)));
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim().to_owned()).collect();
    lines.join("\n")
}

fn reason(report: &Report<'_>) -> &'static str {
    use crate::decode::FinishReason::{ContextLength, Interrupted, Length, Stop, StopString};
    match report.finish_reason() {
        Stop => "end of sequence",
        StopString => "a stop string",
        Length => "as many as asked for",
        ContextLength => "context is full",
        Interrupted => "interrupted",
    }
}

fn rounds(summary: &Summary) -> String {
    let per_pass = optional(summary.tokens_per_pass, 2);
    if summary.draft_rounds == 0 {
        return format!("{} ({per_pass} tokens per pass)", summary.rounds);
    }
    format!("{}, {} with a draft ({per_pass} tokens per pass)", summary.rounds, summary.draft_rounds)
}

fn drafted(summary: &Summary) -> String {
    let rate = summary.acceptance_rate.map_or("-".to_owned(), |rate| format!("{:.1} %", rate * 100.0));
    format!("{} / {} ({rate})", summary.drafted, summary.accepted)
}

fn by_position(summary: &Summary) -> String {
    const SHOWN: usize = 8;
    let rates = &summary.acceptance_by_position;
    let mut shown: Vec<String> = rates.iter().take(SHOWN).map(|rate| format!("{rate:.2}")).collect();
    if rates.len() > SHOWN {
        shown.push(format!("... ({} positions)", rates.len()));
    }
    shown.join(" ")
}

fn optional(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
}

fn seconds(value: f64) -> String {
    if value < 1.0 { format!("{:.1} ms", value * 1e3) } else { format!("{value:.2} s") }
}

/// Bytes in the unit that leaves a small number.
#[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["B", "KiB", "MiB", "GiB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}
