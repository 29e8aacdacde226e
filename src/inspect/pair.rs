//! Whether one of two models can draft for the other.
//!
//! A verdict says why. What cannot be told from the files is `undetermined`, never a guess: vocabularies
//! are compared by content where both are at hand, by size otherwise, and a configuration alone never
//! shows that a drafter was trained for just this target.

use serde::Serialize;

use super::speculation::{Drafter, Rollback, method_name};
use super::units::{short, show_count};
use super::{Inspected, Inspection};
use crate::config::Role;

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It can.
    Can,
    /// It cannot.
    Cannot,
    /// The files do not tell.
    Undetermined,
}

/// The verdict on two models.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pair {
    /// The model that would be drafted for.
    pub target: String,
    /// The model that would draft.
    pub drafter: String,
    /// The answer.
    pub verdict: Verdict,
    /// Why.
    pub because: Vec<String>,
    /// What else to know.
    pub notes: Vec<String>,
}

/// Rows of an embedding are padded to at most this many more than there are tokens.
const USUAL_PADDING: u64 = 1024;

/// One of the two, with its name.
#[derive(Clone, Copy)]
struct Side<'a> {
    name: &'a str,
    model: &'a Inspected,
}

impl<'a> Side<'a> {
    fn of(inspection: &'a Inspection) -> Option<Self> {
        Some(Self { name: &inspection.id, model: inspection.outcome.as_ref().ok()? })
    }

    fn drafter(&self) -> Option<&Drafter> {
        self.model.speculation.drafter.as_ref()
    }

    /// Work per token, to tell the smaller of two: parameters used, else width squared times depth.
    fn work(&self) -> u128 {
        let weights = self.model.weights.as_ref();
        let used = weights.and_then(|weights| weights.active_parameters.or(weights.parameters));
        used.map_or_else(|| self.shape_work(), u128::from)
    }

    fn shape_work(&self) -> u128 {
        let description = &self.model.description;
        let width = description.hidden_size.unwrap_or(0) as u128;
        12 * width * width * description.layers.len() as u128
    }

    fn counts_parameters(&self) -> bool {
        self.model.weights.as_ref().is_some_and(|weights| weights.parameters.is_some())
    }
}

impl Pair {
    /// The one sentence of the verdict.
    pub fn sentence(&self) -> String {
        let Self { target, drafter, because, .. } = self;
        let reasons = because.join("; ");
        match self.verdict {
            Verdict::Can => format!("{drafter} can draft for {target}: {reasons}"),
            Verdict::Cannot => format!("{drafter} cannot draft for {target}, because {reasons}"),
            Verdict::Undetermined => {
                format!("whether {drafter} can draft for {target} is undetermined: {reasons}")
            }
        }
    }

    /// Judges two models; none unless both were understood.
    pub(super) fn judge(one: &Inspection, other: &Inspection) -> Option<Self> {
        let one = Side::of(one)?;
        let other = Side::of(other)?;
        let (target, drafter) = in_order(one, other);
        let (verdict, because) = decide(target, drafter);
        let notes = if verdict == Verdict::Cannot { Vec::new() } else { notes(target, drafter) };
        Some(Self {
            target: target.name.to_owned(),
            drafter: drafter.name.to_owned(),
            verdict,
            because,
            notes,
        })
    }
}

/// The target first: a drafter drafts, else the smaller model does.
fn in_order<'a>(one: Side<'a>, other: Side<'a>) -> (Side<'a>, Side<'a>) {
    let one_drafts = match (one.drafter().is_some(), other.drafter().is_some()) {
        (true, false) => true,
        (false, true) => false,
        _ if one.counts_parameters() && other.counts_parameters() => one.work() < other.work(),
        _ => one.shape_work() < other.shape_work(),
    };
    if one_drafts { (other, one) } else { (one, other) }
}

fn decide(target: Side<'_>, drafter: Side<'_>) -> (Verdict, Vec<String>) {
    let cannot = |reason: String| (Verdict::Cannot, vec![reason]);
    for side in [target, drafter] {
        match side.model.description.role {
            Role::Encoder => return cannot(format!("{} is an encoder and generates nothing", side.name)),
            Role::EncoderDecoder => {
                return cannot(format!(
                    "{} generates from an encoder's output, not from a prompt alone",
                    side.name
                ));
            }
            Role::Decoder | Role::Draft => {}
        }
    }
    if target.drafter().is_some() {
        return cannot("both are drafters, and a drafter needs a whole model as its target".to_owned());
    }
    match drafter.drafter() {
        Some(head) => decide_head(target, drafter, head),
        None => decide_model(target, drafter),
    }
}

/// A drafter that reads the target's hidden states must have its shape.
fn decide_head(target: Side<'_>, drafter: Side<'_>, head: &Drafter) -> (Verdict, Vec<String>) {
    let description = &target.model.description;
    let mut wrong = Vec::new();
    let mut right = Vec::new();
    let mut compare = |what: &str, wants: Option<u64>, has: Option<u64>| match (wants, has) {
        (Some(wants), Some(has)) if wants == has => right.push(format!("{what} {has}")),
        (Some(wants), Some(has)) => wrong.push(format!(
            "it was made for a target with {what} {}, and this one has {}",
            show_count(wants),
            show_count(has)
        )),
        _ => {}
    };
    let layers = description.layers.len() as u64;
    compare("width", head.target.hidden_size, description.hidden_size.map(|size| size as u64));
    compare("number of layers", head.target.layers, Some(layers));
    compare("vocabulary", drafter.model.speculation.vocab_size, target.model.speculation.vocab_size);
    if let Some(tap) = head.target.deepest_tap.filter(|&tap| tap >= layers) {
        wrong.push(format!("it reads layer {tap} (from 0), and this target has {layers} layers"));
    }
    if !wrong.is_empty() {
        return (Verdict::Cannot, wrong);
    }
    let method = method_name(head.method);
    if right.is_empty() {
        return (
            Verdict::Undetermined,
            vec![format!("its configuration ({method}) says nothing about its target")],
        );
    }
    (
        Verdict::Can,
        vec![format!("it is made for a target of this shape ({method}; equal {})", right.join(", "))],
    )
}

/// A whole model drafts in tokens, so only the vocabularies must agree.
fn decide_model(target: Side<'_>, drafter: Side<'_>) -> (Verdict, Vec<String>) {
    if let (Some(ours), Some(theirs)) = (target.model.vocabulary(), drafter.model.vocabulary()) {
        let Ok(difference) = ours.difference(theirs) else {
            return (Verdict::Undetermined, vec!["their tokenizers could not be read twice".to_owned()]);
        };
        if difference.num_different > 0 {
            let examples: Vec<String> = difference
                .examples
                .iter()
                .map(|(id, ours, theirs)| {
                    format!("{id} is `{}` and `{}`", ours.escape_debug(), theirs.escape_debug())
                })
                .collect();
            let count = show_count(difference.num_different as u64);
            return (
                Verdict::Cannot,
                vec![format!("{count} token ids mean different tokens: {}", examples.join("; "))],
            );
        }
        let shared = show_count(difference.num_shared as u64);
        return (Verdict::Can, vec![format!("the {shared} token ids that both have mean the same")]);
    }
    match (target.model.speculation.vocab_size, drafter.model.speculation.vocab_size) {
        (Some(ours), Some(theirs)) if ours == theirs => {
            let size = show_count(ours);
            (
                Verdict::Can,
                vec![format!("both have {size} token ids (by size only: no tokenizers here to compare)")],
            )
        }
        (Some(ours), Some(theirs)) if ours.abs_diff(theirs) <= USUAL_PADDING => {
            let sizes = format!(
                "{} and {} token ids may differ by padding only",
                show_count(ours),
                show_count(theirs)
            );
            (Verdict::Undetermined, vec![format!("{sizes}, and there are no tokenizers here to compare")])
        }
        (Some(ours), Some(theirs)) => {
            let sizes = format!("it has {} token ids, the target {}", show_count(theirs), show_count(ours));
            (Verdict::Cannot, vec![sizes])
        }
        _ => (
            Verdict::Undetermined,
            vec!["neither tokenizers nor the sizes of both vocabularies are known".to_owned()],
        ),
    }
}

fn notes(target: Side<'_>, drafter: Side<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    match drafter.drafter() {
        Some(head) => match &head.target.model {
            Some(named) if !same_model(named, target.name) => {
                notes.push(format!("it was trained for {named}; for any other target acceptance drops"));
            }
            Some(_) => notes.push("its configuration names this target".to_owned()),
            None => notes
                .push("a configuration does not show whether it was trained for this very target".to_owned()),
        },
        None => notes.extend(cost_note(target, drafter)),
    }
    for (side, role) in [(target, "target"), (drafter, "drafter")] {
        match side.model.speculation.rollback {
            Rollback::Snapshots => {
                notes.push(format!("the {role} is recurrent: rejected drafts need snapshots of its state"));
            }
            Rollback::TruncateWithMargin => {
                notes.push(format!("the {role} has windows: they must keep a draft's length of rows more"));
            }
            Rollback::Truncate | Rollback::NoCache => {}
        }
    }
    let limits = (target.model.description.max_context, drafter.model.description.max_context);
    if let (Some(ours), Some(theirs)) = limits
        && theirs < ours
    {
        let tokens = show_count(theirs as u64);
        notes.push(format!("beyond {tokens} tokens, the drafter's own limit, the target goes on alone"));
    }
    if let Some(layers) = target.model.speculation.mtp_layers {
        notes.push(format!("the target drafts for itself too: {layers} built-in MTP layer(s)"));
    }
    notes
}

fn cost_note(target: Side<'_>, drafter: Side<'_>) -> Option<String> {
    let counted = target.counts_parameters() && drafter.counts_parameters();
    let (ours, theirs, what) = if counted {
        (target.work(), drafter.work(), "parameters per token")
    } else {
        (target.shape_work(), drafter.shape_work(), "work per token, judged by width and depth")
    };
    if ours == 0 || theirs == 0 {
        return None;
    }
    let share = theirs as f64 / ours as f64 * 100.0;
    Some(if share >= 99.5 {
        "they cost the same per token, so drafting would save nothing".to_owned()
    } else {
        format!("the drafter has {} % of the target's {what}", short(share))
    })
}

/// Whether two names mean the same model, by the last part of each.
fn same_model(one: &str, other: &str) -> bool {
    let last = |name: &str| {
        let name = name.split('@').next().unwrap_or_default().trim_end_matches(['/', '\\']);
        name.rsplit(['/', '\\']).next().unwrap_or_default().to_ascii_lowercase()
    };
    last(one) == last(other)
}

#[cfg(test)]
mod tests {
    use super::super::{Depth, Inspections, Options};
    use super::*;

    fn judge(one: &str, other: &str) -> Pair {
        let names = [one, other].map(str::to_owned);
        Inspections::new(&names, Options::default(), Depth::Headers).pair.unwrap()
    }

    #[test]
    fn the_smaller_model_drafts_in_either_order() {
        for (one, other) in [("Qwen/Qwen3-0.6B", "Qwen/Qwen3-32B"), ("Qwen/Qwen3-32B", "Qwen/Qwen3-0.6B")] {
            let pair = judge(one, other);
            assert_eq!((pair.drafter.as_str(), pair.verdict), ("Qwen/Qwen3-0.6B", Verdict::Can));
            assert!(pair.sentence().contains("151,936"), "{}", pair.sentence());
        }
    }

    #[test]
    fn padding_is_not_taken_for_agreement() {
        let pair = judge("Qwen/Qwen2.5-0.5B-Instruct", "Qwen/Qwen2.5-72B-Instruct");
        assert_eq!(pair.verdict, Verdict::Undetermined, "{pair:?}");
        assert_eq!(judge("Qwen/Qwen3-0.6B", "meta-llama/Llama-3.1-8B").verdict, Verdict::Cannot);
    }

    #[test]
    fn a_head_needs_its_targets_shape() {
        let fits = judge("z-lab/Qwen3-8B-DFlash-b16", "Qwen/Qwen3-8B");
        assert_eq!(fits.verdict, Verdict::Can, "{fits:?}");
        let other = judge("z-lab/Qwen3-8B-DFlash-b16", "Qwen/Qwen3-32B");
        assert_eq!(other.verdict, Verdict::Cannot, "{other:?}");
        assert!(other.sentence().contains("width 4,096"), "{}", other.sentence());
        assert_eq!(judge("openai/whisper-tiny", "Qwen/Qwen3-8B").verdict, Verdict::Cannot);
    }
}
