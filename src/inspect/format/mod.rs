//! How inspections are written down.
//!
//! To add a format: a file with a function from [`Page`] to text, and a line in [`FORMATS`]. Rows that
//! people read are made once, in `sheet`; fields that programs read once, in `record`.

mod csv;
mod json;
mod markdown;
mod memory;
pub(super) mod record;
mod sheet;
mod table;
mod text;

pub use self::record::{Lookup, lookup};
pub use self::text::clean;

use super::Inspections;

/// The schema of the machine-readable formats.
pub const SCHEMA: &str = "specdec.inspect-config/1";

/// What is to be written.
#[derive(Debug, Clone, Copy)]
pub struct Page<'a> {
    /// The models.
    pub inspections: &'a Inspections,
    /// How much of the evidence.
    pub evidence: EvidenceShown,
    /// Whether layers are shown one by one.
    pub layers: LayersShown,
    /// Whether bars are drawn.
    pub bars: Bars,
    /// Whether this is the exercise.
    pub exercise: bool,
}

/// How much of the evidence people see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvidenceShown {
    /// What decided.
    Deciding,
    /// Everything.
    All,
}

/// How layers are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayersShown {
    /// Those that are alike together.
    Grouped,
    /// One line each.
    Each,
}

/// Whether bars are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bars {
    /// On a terminal.
    Drawn,
    /// Elsewhere.
    Left,
}

/// A format of `specdec inspect-config`.
pub struct Format {
    /// Value of `--format`.
    pub name: &'static str,
    /// One line of help.
    pub about: &'static str,
    /// Whether programs read it: it carries all evidence, and models that failed.
    pub for_programs: bool,
    /// Writes the page, without a line break at its end.
    pub render: fn(&Page<'_>) -> String,
}

/// Every format, in the order help shows them.
pub const FORMATS: &[Format] = &[
    Format { name: "table", about: "for reading", for_programs: false, render: table::render },
    Format { name: "json", about: "one JSON object", for_programs: true, render: json::render },
    Format {
        name: "jsonl",
        about: "one JSON object per model and line",
        for_programs: true,
        render: json::render_lines,
    },
    Format { name: "csv", about: "one row per model", for_programs: true, render: csv::render },
    Format { name: "markdown", about: "for documents", for_programs: false, render: markdown::render },
];
