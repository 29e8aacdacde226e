//! The account of one model's cache: formula, two columns, bars, what fits.

use super::super::fits::{Fits, Limit, Longest};
use super::super::units::{short, show_bytes, show_count};
use super::super::{Inspected, Options};
use super::{Bars, text};
use crate::config::Role;
use crate::error::Result;

/// Cells of the longest bar.
const BAR_LEN: usize = 24;

/// Lines about the cache, without indentation; the first one is a heading.
pub(super) fn lines(model: &Inspected, options: &Options, bars: Bars) -> Result<Vec<String>> {
    if model.description.role == Role::Encoder {
        return Ok(vec!["no cache: an encoder reads its text at once".to_owned()]);
    }
    let mut lines = Vec::new();
    if model.has_cache() {
        let name = text::kv_name(options.kv_type);
        lines.push(format!("KV cache in {name}, {}", text::sequences(options.batch)));
        lines.push(format!("  per token  {}", text::per_token(model, options)?));
        let growth = model.description.kv_growth_per_token(options.kv_type)?;
        if growth != model.description.kv_bytes_per_token(options.kv_type)? {
            lines.push(format!("             {} once every window is full", show_bytes(growth)));
        }
        lines.extend(table(model, bars));
        if let Some(saving) = text::saving(model) {
            lines.push(format!(
                "  {} times smaller than with a K/V head for every query head (MHA)",
                short(saving)
            ));
        }
        if let Some(bytes) = model.facts()?.cross_kv_bytes_per_source_token_bf16 {
            lines.push(format!(
                "  cross-attention keeps {} more per token of the encoder (bf16)",
                show_bytes(bytes)
            ));
        }
        if let Some(width) = model.description.indexer_key_dim {
            lines.push(format!(
                "  its sparse indexer keeps {width} more numbers per token and layer, not counted here"
            ));
        }
    } else {
        lines.push("no KV cache".to_owned());
    }
    if let Some(state) = text::state(model, options) {
        lines.push(format!("  recurrent state  {state}"));
    }
    Ok(lines)
}

fn table(model: &Inspected, bars: Bars) -> Vec<String> {
    let limit = model.description.max_context.map(|limit| limit as u64);
    let mut rows = vec![["context", "needed", "reserved", "as MHA", ""].map(str::to_owned)];
    let most = model.memory.iter().map(|row| row.needed).max().unwrap_or(0);
    for row in &model.memory {
        let beyond = limit.is_some_and(|limit| row.context > limit);
        let bar = match bars {
            Bars::Drawn => bar(row.needed, most),
            Bars::Left => String::new(),
        };
        let note = if beyond { " (beyond its limit)" } else { "" };
        rows.push([
            show_count(row.context),
            show_bytes(row.needed),
            show_bytes(row.reserved),
            show_bytes(row.as_mha),
            format!("{bar}{note}"),
        ]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths = [0, 1, 2, 3].map(width);
    rows.iter()
        .map(|row| {
            let cells = (0..4).map(|column| format!("{:>width$}", row[column], width = widths[column]));
            format!("  {}  {}", cells.collect::<Vec<_>>().join("  "), row[4]).trim_end().to_owned()
        })
        .collect()
}

/// A bar in eighths of a cell, at least one eighth long.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a short bar")]
fn bar(value: u64, most: u64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    if most == 0 {
        return String::new();
    }
    let eighths = ((value as f64 / most as f64) * (BAR_LEN * 8) as f64).round().max(1.0) as usize;
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

/// Lines about what fits, without indentation.
pub(super) fn fits_lines(fits: &Fits) -> Vec<String> {
    let mut lines = vec![format!(
        "in {}: {} of weights leave {} for caches (activations and the runtime come on top)",
        show_bytes(fits.budget_bytes),
        show_bytes(fits.weights_bytes),
        show_bytes(fits.free_bytes)
    )];
    let sequences = text::sequences(fits.batch);
    lines.push(format!(
        "  longest context, {sequences}  {} needed, {} reserved",
        longest(fits.longest_needed),
        longest(fits.longest_reserved)
    ));
    for batch in &fits.largest_batch {
        lines.push(format!(
            "  largest batch at {:>9}  {} needed, {} reserved",
            show_count(batch.context),
            show_count(batch.needed),
            show_count(batch.reserved)
        ));
    }
    lines
}

pub(super) fn longest(longest: Longest) -> String {
    match (longest.context, longest.limit) {
        (Some(tokens), Limit::Model) => format!("{} (the model's limit)", show_count(tokens)),
        (Some(tokens), _) => format!("{} tokens", show_count(tokens)),
        (None, Limit::None) => "any length".to_owned(),
        (None, _) => "none".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_have_their_share() {
        assert_eq!(bar(4, 4), "█".repeat(BAR_LEN));
        assert_eq!(bar(2, 4), "█".repeat(BAR_LEN / 2));
        assert_eq!(bar(0, 4), "▏");
        assert_eq!(bar(0, 0), "");
    }
}
