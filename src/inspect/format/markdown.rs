//! `markdown`: a table of the rows that people read, one column per model.

use super::{EvidenceShown, Page, sheet};
use crate::config::EvidenceKind;

pub(super) fn render(page: &Page<'_>) -> String {
    let models = sheet::understood(page.inspections);
    if models.is_empty() {
        return String::new();
    }
    let rows = match sheet::rows(&models, &page.inspections.options) {
        Ok(rows) => rows,
        Err(error) => return error.to_string(),
    };
    let names = models.iter().map(|(inspection, _)| cell(&inspection.id));
    let mut lines = vec![line(std::iter::once(String::new()).chain(names))];
    lines.push(format!("|{}", "---|".repeat(models.len() + 1)));
    for row in &rows {
        let label = if row.differs() { format!("**{}**", row.label) } else { row.label.clone() };
        lines.push(line(std::iter::once(label).chain(row.cells.iter().map(|text| cell(text)))));
    }
    if let Some(pair) = &page.inspections.pair {
        lines.push(format!("\n**Pair:** {}", cell(&pair.sentence())));
        lines.extend(pair.notes.iter().map(|note| format!("- {}", cell(note))));
    }
    for (inspection, model) in &models {
        let evidence: Vec<_> = match page.evidence {
            EvidenceShown::All => model.description.evidence.iter().collect(),
            EvidenceShown::Deciding if models.len() == 1 => model.deciding_evidence().collect(),
            EvidenceShown::Deciding => continue,
        };
        lines.push(format!("\nEvidence for {}:\n", cell(&inspection.id)));
        lines.extend(evidence.iter().map(|one| {
            let kind = match one.kind {
                EvidenceKind::Read => "read",
                EvidenceKind::Assumed => "assumed",
                EvidenceKind::Ignored => "ignored",
            };
            format!("- {kind} `{}` {}: {}", one.at, code(&one.value), cell(&one.rule))
        }));
    }
    lines.join("\n")
}

fn line(cells: impl Iterator<Item = String>) -> String {
    format!("| {} |", cells.collect::<Vec<_>>().join(" | "))
}

/// Text that cannot end its cell or begin markup.
fn cell(text: &str) -> String {
    let mut safe = String::new();
    for c in super::text::clean(text).chars() {
        match c {
            '\n' => safe.push(' '),
            '|' | '*' | '_' | '`' | '<' | '[' | ']' | '\\' => safe.extend(['\\', c]),
            _ => safe.push(c),
        }
    }
    safe
}

fn code(text: &str) -> String {
    format!("`{}`", super::text::clean(text).replace('`', "'").replace('\n', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_stay_cells() {
        assert_eq!(cell("a|b\n*c*"), "a\\|b \\*c\\*");
    }
}
