//! `table`: for reading. One model as an account, a few as columns, many as one line each.

use comfy_table::{ContentArrangement, LineStyle, Table, TableStyle};

use super::super::pair::Pair;
use super::super::units::show_bytes;
use super::super::{Inspected, Inspection, Inspections, Options, Origin};
use super::sheet::{self, Row};
use super::{EvidenceShown, LayersShown, Page, memory, text};
use crate::config::{Evidence, EvidenceKind};
use crate::error::Result;

/// A line above, below and under the header.
const STYLE: TableStyle = TableStyle::new()
    .top_border(LineStyle::none().fill('─').junction('─'))
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .bottom_border(LineStyle::none().fill('─').junction('─'));
/// Columns of text that a table takes.
const WIDTH: u16 = 110;
/// Models that stand side by side; more make another table below.
const SIDE_BY_SIDE: usize = 3;
/// More models than these get one line each.
const MOST_COLUMNS: usize = 12;

pub(super) fn render(page: &Page<'_>) -> String {
    let models = sheet::understood(page.inspections);
    let text = match models.as_slice() {
        [] => Ok(String::new()),
        [(inspection, model)] => account(page, inspection, model),
        several if several.len() > MOST_COLUMNS => lines(page.inspections, several),
        several => columns(page, several),
    };
    // Figures were computed once before, when the model was looked at, so they do not fail now.
    text.unwrap_or_else(|error| error.to_string())
}

/// Everything about one model.
fn account(page: &Page<'_>, inspection: &Inspection, model: &Inspected) -> Result<String> {
    let options = &page.inspections.options;
    let mut lines = vec![inspection.id.clone(), model.description.headline()];
    lines.push(format!("design: {}", model.design()));
    if !model.description.text_at.is_empty() {
        lines.push(format!("language model: `{}` of the file", model.description.text_at));
    }
    section(&mut lines, layer_lines(model, page.layers));
    section(&mut lines, memory::lines(model, options, page.bars)?);
    let weights = model.weights.as_ref().map_or_else(|| "size unknown".to_owned(), text::weights);
    section(&mut lines, vec![format!("weights  {weights}")]);
    match &model.fits {
        Some(Ok(fits)) => lines.extend(memory::fits_lines(fits)),
        Some(Err(error)) => lines.push(format!("fits     cannot be told: {error}")),
        None => {}
    }
    section(&mut lines, speculation_lines(model));
    section(&mut lines, evidence_lines(model, page.evidence));
    lines.push(format!("read from {}", text::origin(&inspection.origin, inspection.revision.as_deref())));
    if let Origin::Table { source, .. } = &inspection.origin {
        lines.push(format!("  whose source is {source}"));
    }
    Ok(text::clean(&lines.join("\n")))
}

fn section(lines: &mut Vec<String>, more: Vec<String>) {
    if !more.is_empty() {
        lines.push(String::new());
        lines.extend(more);
    }
}

fn layer_lines(model: &Inspected, shown: LayersShown) -> Vec<String> {
    let layers = &model.description.layers;
    if layers.is_empty() {
        return Vec::new();
    }
    let mut lines = vec!["layers, from 0".to_owned()];
    if shown == LayersShown::Each {
        lines.extend(layers.iter().enumerate().map(|(index, layer)| {
            let from = layer.attention.and_then(|attention| attention.kv_from);
            let from = from.map(|from| format!(" (layer {from})")).unwrap_or_default();
            format!("  {index:>4}  {}{from}", text::layer(layer))
        }));
        return lines;
    }
    let groups = text::layer_groups(model);
    let width = groups.iter().map(|(at, ..)| at.chars().count()).max().unwrap_or(0);
    lines.extend(groups.iter().map(|(at, count, text)| format!("  {at:<width$}  {count:>3} x {text}")));
    lines
}

fn speculation_lines(model: &Inspected) -> Vec<String> {
    let speculation = &model.speculation;
    let mut lines = vec!["speculative decoding".to_owned()];
    lines.push(format!("  a drafter          {}", text::drafter(model)));
    if let Some(drafter) = &speculation.drafter {
        for fact in &drafter.facts {
            lines.push(format!("    {} {}: {}", fact.at, fact.value, fact.meaning));
        }
    }
    lines.push(format!("  drafts for itself  {}", text::own_drafts(speculation)));
    lines.push(format!("  vocabulary         {}", text::vocabulary(speculation)));
    lines.push(format!("  takes drafts back  {}", speculation.rollback.about()));
    lines
}

fn kind(evidence: &Evidence) -> &'static str {
    match evidence.kind {
        EvidenceKind::Read => "read",
        EvidenceKind::Assumed => "assumed",
        EvidenceKind::Ignored => "ignored",
    }
}

fn evidence_lines(model: &Inspected, shown: EvidenceShown) -> Vec<String> {
    let evidence: Vec<&Evidence> = match shown {
        EvidenceShown::Deciding => model.deciding_evidence().collect(),
        EvidenceShown::All => model.description.evidence.iter().collect(),
    };
    let width = |text: fn(&Evidence) -> &str| {
        evidence.iter().map(|one| text(one).chars().count()).filter(|&len| len <= 40).max().unwrap_or(0)
    };
    let (at_width, value_width) = (width(|one| &one.at), width(|one| &one.value).min(24));
    let all = model.description.evidence.len();
    let rest = if evidence.len() < all {
        format!(" ({} of {all} keys; --explain for all)", evidence.len())
    } else {
        String::new()
    };
    let mut lines = Vec::new();
    if !evidence.is_empty() {
        lines.push(format!("evidence{rest}"));
    }
    lines.extend(evidence.iter().map(|one| {
        format!("  {:<7}  {:<at_width$}  {:<value_width$}  {}", kind(one), one.at, one.value, one.rule)
    }));
    let unknown: Vec<&str> = model.not_understood().collect();
    if !unknown.is_empty() {
        lines.push(format!("not understood, and may matter: {}", unknown.join(", ")));
    }
    let irrelevant: Vec<&str> = model.not_relevant().collect();
    match (irrelevant.len(), shown) {
        (0, _) => {}
        (_, EvidenceShown::All) => {
            lines.push(format!("not read, bears on neither attention nor cache: {}", irrelevant.join(", ")));
        }
        (1, _) => lines.push("1 more key bears on neither attention nor cache".to_owned()),
        (count, _) => lines.push(format!("{count} more keys bear on neither attention nor cache")),
    }
    lines
}

/// A few models side by side.
fn columns(page: &Page<'_>, models: &[(&Inspection, &Inspected)]) -> Result<String> {
    let options = &page.inspections.options;
    let rows = sheet::rows(models, options)?;
    let mut parts = Vec::new();
    for (block, chunk) in models.chunks(SIDE_BY_SIDE).enumerate() {
        let start = block * SIDE_BY_SIDE;
        let mut table = plain_table();
        let names = chunk.iter().map(|(inspection, _)| text::clean(&inspection.id));
        table.set_header([String::new(), String::new()].into_iter().chain(names));
        for row in &rows {
            let cells = row.cells[start..start + chunk.len()].iter().cloned();
            table.add_row([mark(row).to_owned(), row.label.clone()].into_iter().chain(cells));
        }
        parts.push(trimmed(&table));
    }
    let mut notes = format!(
        "* the models differ. KV in {} for {}. Needed: windows, latents and sharing applied;\n  \
         reserved: the whole length in every layer; one row where both are equal.",
        text::kv_name(options.kv_type),
        text::sequences(options.batch)
    );
    if page.exercise {
        notes = format!("{notes}\n\n{}", notice(models)?);
    }
    parts.push(notes);
    if let Some(pair) = &page.inspections.pair {
        parts.push(verdict(pair));
    }
    if page.evidence == EvidenceShown::All || page.layers == LayersShown::Each {
        for (inspection, model) in models {
            let mut lines = vec![inspection.id.clone()];
            if page.layers == LayersShown::Each {
                lines.extend(layer_lines(model, page.layers));
            }
            if page.evidence == EvidenceShown::All {
                lines.extend(evidence_lines(model, page.evidence));
            }
            parts.push(lines.join("\n"));
        }
    }
    Ok(text::clean(&parts.join("\n\n")))
}

fn verdict(pair: &Pair) -> String {
    let notes = pair.notes.iter().map(|note| format!("\n  - {note}"));
    let sentence = text::wrapped(&format!("pair: {}", pair.sentence()), WIDTH.into());
    format!("{sentence}{}", notes.collect::<String>())
}

fn mark(row: &Row) -> &'static str {
    if row.differs() { "*" } else { "" }
}

fn plain_table() -> Table {
    let mut table = Table::new();
    table.load_style(STYLE).set_content_arrangement(ContentArrangement::Dynamic).set_width(WIDTH);
    table
}

fn trimmed(table: &Table) -> String {
    table.to_string().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// Many models, one line each.
fn lines(inspections: &Inspections, models: &[(&Inspection, &Inspected)]) -> Result<String> {
    let options = &inspections.options;
    let mut rows = Vec::new();
    for (inspection, model) in models {
        let per_token = model.description.kv_bytes_per_token(options.kv_type)?;
        rows.push([inspection.id.clone(), show_bytes(per_token), model.description.headline()]);
    }
    let name = text::kv_name(options.kv_type);
    let head = ["model".to_owned(), format!("KV per token, {name}"), "attention".to_owned()];
    let width =
        |column: usize| rows.iter().chain([&head]).map(|row| row[column].chars().count()).max().unwrap_or(0);
    let (first, second) = (width(0), width(1));
    let shown = std::iter::once(&head)
        .chain(&rows)
        .map(|[id, bytes, headline]| format!("{id:<first$}  {bytes:>second$}  {headline}"));
    Ok(text::clean(&shown.collect::<Vec<_>>().join("\n")))
}

/// What to notice in the exercise, with the figures of the models themselves.
fn notice(models: &[(&Inspection, &Inspected)]) -> Result<String> {
    let mut parts = Vec::new();
    for (inspection, model) in models {
        let row = model.memory_at(1, &Options::default())?;
        parts.push(format!(
            "{} keeps {} per token instead of {}",
            inspection.id,
            show_bytes(row.needed),
            show_bytes(row.as_mha)
        ));
    }
    let text = format!(
        "Notice: all three compute softmax(QK^T)V in every layer and differ only in what they keep of K and V. \
         Sharing K/V heads (GQA) or caching one latent (MLA) makes attention cheaper inside the Transformer family: \
         {}. Mamba or RWKV replace attention altogether: `specdec inspect-config state-spaces/mamba-130m-hf`.",
        parts.join("; ")
    );
    Ok(text::wrapped(&text, WIDTH.into()))
}
