//! Several models side by side: the same rows for all, with a mark where they differ.

use std::collections::BTreeSet;

use super::super::fits::Fits;
use super::super::units::{short, show_bytes, show_count};
use super::super::{Inspected, Inspection, Inspections, Options, USUAL_CONTEXTS};
use super::{memory, text};
use crate::error::{Error, Result};

/// What stands where a row does not apply to a model.
const NOTHING: &str = "-";

/// Which of the two figures.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Column {
    Needed,
    Reserved,
}

/// One row.
pub(super) struct Row {
    pub label: String,
    /// One for each model that was understood.
    pub cells: Vec<String>,
}

impl Row {
    /// Whether the models differ here.
    pub(super) fn differs(&self) -> bool {
        self.cells.windows(2).any(|pair| pair[0] != pair[1])
    }

    fn says_nothing(&self) -> bool {
        self.cells.iter().all(|cell| cell == NOTHING)
    }
}

/// The models that were understood.
pub(super) fn understood(inspections: &Inspections) -> Vec<(&Inspection, &Inspected)> {
    let models = inspections.models.iter();
    models.filter_map(|inspection| Some((inspection, inspection.outcome.as_ref().ok()?))).collect()
}

/// Adds a row of cells.
type Add<'a> = dyn FnMut(&str, &dyn Fn(&Inspection, &Inspected) -> Result<String>) -> Result<()> + 'a;

/// What fits beside the weights, where that was asked.
fn add_fits(models: &[(&Inspection, &Inspected)], options: &Options, add: &mut Add<'_>) -> Result<()> {
    let Some(budget_bytes) = options.budget_bytes else { return Ok(()) };
    let budget = show_bytes(budget_bytes);
    let cell = |model: &Inspected, text: &dyn Fn(&Fits) -> String| match &model.fits {
        Some(Ok(fits)) => text(fits),
        Some(Err(Error::OverBudget { .. })) => "its weights alone do not fit".to_owned(),
        _ => "weights unknown".to_owned(),
    };
    let sequences = text::sequences(options.batch);
    add(&format!("longest context in {budget}, {sequences}"), &|_, model| {
        Ok(cell(model, &|fits| {
            let (needed, reserved) =
                (memory::longest(fits.longest_needed), memory::longest(fits.longest_reserved));
            if needed == reserved { needed } else { format!("{needed} needed, {reserved} reserved") }
        }))
    })?;
    let contexts: BTreeSet<u64> =
        models.iter().flat_map(|(_, model)| model.contexts.iter().copied()).collect();
    for context in contexts {
        add(&format!("largest batch at {}", show_count(context)), &|_, model| {
            Ok(cell(model, &|fits| match fits.largest_batch.iter().find(|batch| batch.context == context) {
                None => NOTHING.to_owned(),
                Some(batch) if batch.needed == batch.reserved => show_count(batch.needed),
                Some(batch) => {
                    format!("{} needed, {} reserved", show_count(batch.needed), show_count(batch.reserved))
                }
            }))
        })?;
    }
    Ok(())
}

/// All rows for `models`.
pub(super) fn rows(models: &[(&Inspection, &Inspected)], options: &Options) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut add = |label: &str, cell: &dyn Fn(&Inspection, &Inspected) -> Result<String>| -> Result<()> {
        let cells = models.iter().map(|(inspection, model)| Ok(text::clean(&cell(inspection, model)?)));
        let row = Row { label: label.to_owned(), cells: cells.collect::<Result<_>>()? };
        if !row.says_nothing() {
            rows.push(row);
        }
        Ok(())
    };
    let or_nothing = |text: Option<String>| text.unwrap_or_else(|| NOTHING.to_owned());
    add("attention", &|_, model| Ok(model.description.headline()))?;
    add("design", &|_, model| Ok(model.design()))?;
    add("layers", &|_, model| {
        let groups = text::layer_groups(model);
        if groups.len() < 2 {
            return Ok(NOTHING.to_owned());
        }
        let shown = groups.iter().take(4).map(|(_, count, text)| format!("{count} {text}"));
        let more = if groups.len() > 4 { "; ..." } else { "" };
        Ok(shown.collect::<Vec<_>>().join("; ") + more)
    })?;
    let name = text::kv_name(options.kv_type);
    add(&format!("KV per token, {name}"), &|_, model| {
        if !model.has_cache() {
            return Ok(NOTHING.to_owned());
        }
        Ok(show_bytes(model.description.kv_bytes_per_token(options.kv_type)?))
    })?;
    add("per token, were it MHA", &|_, model| {
        if !model.has_cache() {
            return Ok(NOTHING.to_owned());
        }
        Ok(show_bytes(model.memory_at(1, &Options { batch: 1, ..options.clone() })?.as_mha))
    })?;
    let asked = !options.contexts.is_empty();
    let at = |model: &Inspected, context: u64, column: Column| -> Result<String> {
        let limit = model.description.max_context.map(|limit| limit as u64);
        let beyond = limit.is_some_and(|limit| context > limit);
        if !model.has_cache() || (beyond && !asked) {
            return Ok(NOTHING.to_owned());
        }
        let row = model.memory_at(context, options)?;
        let bytes = show_bytes(if column == Column::Reserved { row.reserved } else { row.needed });
        Ok(if beyond { format!("{bytes} (beyond its limit)") } else { bytes })
    };
    let same = |context: &dyn Fn(&Inspected) -> u64| -> Result<bool> {
        let rows = models.iter().map(|(_, model)| model.memory_at(context(model), options));
        rows.into_iter().try_fold(true, |same, row| row.map(|row| same && row.needed == row.reserved))
    };
    let contexts: BTreeSet<u64> = if asked {
        options.contexts.iter().copied().collect()
    } else {
        let longest = models.iter().filter_map(|(_, model)| model.contexts.last().copied()).max();
        USUAL_CONTEXTS
            .iter()
            .copied()
            .filter(|&context| longest.is_none_or(|longest| context <= longest))
            .collect()
    };
    for context in contexts {
        let tokens = show_count(context);
        if same(&|_| context)? {
            add(&format!("KV at {tokens}"), &|_, model| at(model, context, Column::Needed))?;
        } else {
            add(&format!("KV at {tokens}, needed"), &|_, model| at(model, context, Column::Needed))?;
            add(&format!("KV at {tokens}, reserved"), &|_, model| at(model, context, Column::Reserved))?;
        }
    }
    let stated = |model: &Inspected| model.description.max_context.map(|limit| limit as u64);
    add("context limit", &|_, model| Ok(or_nothing(stated(model).map(show_count))))?;
    if !asked {
        let at_limit = |model: &Inspected, column: Column| match stated(model) {
            Some(limit) => at(model, limit, column),
            None => Ok(NOTHING.to_owned()),
        };
        if same(&|model| stated(model).unwrap_or(1))? {
            add("KV at its limit", &|_, model| at_limit(model, Column::Needed))?;
        } else {
            add("KV at its limit, needed", &|_, model| at_limit(model, Column::Needed))?;
            add("KV at its limit, reserved", &|_, model| at_limit(model, Column::Reserved))?;
        }
    }
    add("smaller than MHA", &|_, model| {
        Ok(or_nothing(text::saving(model).map(|saving| format!("{} times", short(saving)))))
    })?;
    add("recurrent state", &|_, model| Ok(or_nothing(text::state(model, options))))?;
    add("weights", &|_, model| Ok(or_nothing(model.weights.as_ref().map(text::weights))))?;
    add_fits(models, options, &mut add)?;
    add("vocabulary", &|_, model| Ok(text::vocabulary(&model.speculation)))?;
    add("a drafter", &|_, model| Ok(text::drafter(model)))?;
    add("drafts for itself", &|_, model| Ok(text::own_drafts(&model.speculation)))?;
    add("takes drafts back", &|_, model| Ok(model.speculation.rollback.about().to_owned()))?;
    add("not understood", &|_, model| {
        let keys: Vec<&str> = model.not_understood().collect();
        Ok(if keys.is_empty() { NOTHING.to_owned() } else { keys.join(", ") })
    })?;
    add("read from", &|inspection, _| Ok(text::origin(&inspection.origin, inspection.revision.as_deref())))?;
    Ok(rows)
}
