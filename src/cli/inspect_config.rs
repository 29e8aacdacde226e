//! `specdec inspect-config`: look at every model named, then write down what was found.

use std::io::IsTerminal;

use anyhow::Result;

use super::args::InspectConfigArgs;
use super::ui;
use crate::config::{Attention, KvType, ModelFamily};
use crate::error::{Error, ExitCode};
use crate::inspect::format::{Bars, EvidenceShown, FORMATS, Format, LayersShown, Lookup, Page, lookup};
use crate::inspect::pair::Verdict;
use crate::inspect::{Depth, Inspected, Inspection, Inspections, Options, plot, units};

/// Vocabularies are read for at most so many models: they cost more than everything else together.
const MOST_VOCABULARIES: usize = 2;

/// What `--require` can ask of every model, with the test it stands for.
type Gate = fn(&Inspected) -> bool;
/// Values of `--require`, in the order help shows them.
pub(super) const GATES: &[(&str, Gate)] = &[
    ("mha", |model| model.description.attention() == Attention::Mha),
    ("gqa", |model| model.description.attention() == Attention::Gqa),
    ("mqa", |model| model.description.attention() == Attention::Mqa),
    ("mla", |model| model.description.attention() == Attention::Mla),
    ("softmax", |model| model.description.attention() != Attention::None),
    ("transformer", |model| model.description.family() == ModelFamily::Transformer),
    ("hybrid", |model| model.description.family() == ModelFamily::Hybrid),
    ("recurrent", |model| matches!(model.description.family(), ModelFamily::Ssm | ModelFamily::LinearRnn)),
    ("drafter", |model| model.speculation.drafter.is_some()),
];
/// The value of `--require` that asks about two models together.
pub(super) const PAIR_GATE: &str = "pair";

/// Runs the command. What fails is reported once everything else is printed; the first failure decides the
/// exit code.
pub(super) fn run(args: &InspectConfigArgs) -> Result<ExitCode> {
    let options = options(args)?;
    let format = FORMATS.iter().find(|format| format.name == args.format);
    let format = format.expect("clap admits only names of the table");
    check_combination(args, format)?;
    let depth = if args.models.len() <= MOST_VOCABULARIES { Depth::Vocabularies } else { Depth::Headers };
    let exercise = args.models.is_empty();
    let inspections = if exercise {
        Inspections::exercise(options)
    } else {
        Inspections::new(&args.models, options, depth)
    };
    let layers = if args.layers { LayersShown::Each } else { LayersShown::Grouped };
    if let Some(path) = &args.get {
        print_values(&inspections, path, layers)?;
    } else {
        let page = Page {
            inspections: &inspections,
            evidence: if args.explain { EvidenceShown::All } else { EvidenceShown::Deciding },
            layers,
            bars: if std::io::stdout().is_terminal() { Bars::Drawn } else { Bars::Left },
            exercise,
        };
        print_page(&page, format)?;
    }
    if let Some(path) = &args.plot {
        let picture = plot::svg(&inspections)?;
        std::fs::write(path, picture).map_err(Error::io("write", path))?;
    }
    let unmet = args.require.as_deref().and_then(|gate| unmet(&inspections, gate));
    Ok(finish(inspections, unmet))
}

fn options(args: &InspectConfigArgs) -> Result<Options> {
    let usage = |flag: &str, problem: String| Error::Usage { flag: flag.to_owned(), problem };
    let mut contexts = args
        .ctx
        .iter()
        .map(|text| units::tokens(text).map_err(|problem| usage("--ctx", problem)))
        .collect::<Result<Vec<u64>, Error>>()?;
    contexts.sort_unstable();
    contexts.dedup();
    let budget_bytes =
        args.fits.as_deref().map(|text| units::bytes(text).map_err(|problem| usage("--fits", problem)));
    let kv_type = KvType::ALL.iter().find(|(name, _)| *name == args.kv_type);
    if args.batch == 0 {
        return Err(usage("--batch", "at least one sequence is held".to_owned()).into());
    }
    Ok(Options {
        contexts,
        kv_type: kv_type.expect("clap admits only names of the table").1,
        batch: args.batch,
        budget_bytes: budget_bytes.transpose()?,
    })
}

fn check_combination(args: &InspectConfigArgs, format: &Format) -> Result<(), Error> {
    let usage =
        |flag: &str, problem: &str| Error::Usage { flag: flag.to_owned(), problem: problem.to_owned() };
    if args.models.iter().filter(|name| *name == "-").count() > 1 {
        return Err(usage("-", "standard input can be read once only"));
    }
    if args.require.as_deref() == Some(PAIR_GATE) && args.models.len() != 2 {
        return Err(usage("--require", "pair needs exactly two models"));
    }
    if args.explain && format.for_programs {
        return Err(usage("--explain", "machine formats carry all evidence anyway"));
    }
    Ok(())
}

/// Prints one value per model, `null` where it does not apply.
fn print_values(inspections: &Inspections, path: &str, layers: LayersShown) -> Result<(), Error> {
    let mut text = String::new();
    for model in inspections.models.iter().filter(|model| model.outcome.is_ok()) {
        match lookup(model, &inspections.options, layers, path) {
            Lookup::Value(value) => text += &format!("{value}\n"),
            Lookup::Absent => text += "null\n",
            Lookup::Unknown(known) => {
                let problem = format!("there is no `{path}`; there are {}", known.join(", "));
                return Err(Error::Usage { flag: "--get".to_owned(), problem });
            }
        }
    }
    if text.is_empty() { Ok(()) } else { ui::result(&text) }
}

fn print_page(page: &Page<'_>, format: &Format) -> Result<(), Error> {
    let text = (format.render)(page);
    if text.is_empty() { Ok(()) } else { ui::result(&format!("{text}\n")) }
}

/// The first model that does not meet the gate.
fn unmet(inspections: &Inspections, name: &str) -> Option<Error> {
    let not_met = |model: &str, found: String| Error::GateNotMet {
        model: model.to_owned(),
        gate: name.to_owned(),
        found,
    };
    if name == PAIR_GATE {
        let pair = inspections.pair.as_ref()?;
        return (pair.verdict != Verdict::Can).then(|| not_met(&pair.drafter, pair.sentence()));
    }
    let gate = GATES.iter().find(|(known, _)| *known == name)?.1;
    let understood = |inspection: &'_ Inspection| inspection.outcome.as_ref().is_ok_and(|model| !gate(model));
    let failed = inspections.models.iter().find(|inspection| understood(inspection))?;
    let headline = failed.outcome.as_ref().ok()?.description.headline();
    Some(not_met(&failed.id, headline))
}

/// Reports every failure on standard error and returns the exit code of the first.
fn finish(inspections: Inspections, unmet: Option<Error>) -> ExitCode {
    let failures = inspections.models.into_iter().filter_map(|inspection| match inspection.outcome {
        Err(error) | Ok(Inspected { fits: Some(Err(error)), .. }) => Some(error),
        Ok(_) => None,
    });
    let codes: Vec<ExitCode> =
        failures.chain(unmet).map(|error| ui::report_error(&anyhow::Error::new(error))).collect();
    codes.first().copied().unwrap_or(ExitCode::Done)
}
