//! How many tokens the next round may draft.
//!
//! To add a scheduler: a file with a `Scheduler` and a line in `SCHEDULERS`.

mod auto;
mod budget;
mod costs;
mod fixed;

pub use budget::Budget;

use super::Source;
use crate::speculation::Round;

/// Chooses draft lengths, seeing what earlier rounds cost and gained.
pub trait Scheduler {
    /// Draft budget of the coming round; 0 everywhere for a plain step.
    fn next(&mut self) -> Budget;

    /// A finished round, with its counts and seconds.
    fn observe(&mut self, round: &Round);

    /// Sources that may not draft for now, because drafting costs more than it gains.
    fn parked(&self) -> Vec<Source> {
        Vec::new()
    }
}

/// A scheduler a user can choose.
pub struct SchedulerKind {
    /// Its name.
    pub name: &'static str,
    /// Makes it for a drafter's sources with a ceiling of `max_draft` tokens.
    pub build: fn(sources: &'static [Source], max_draft: usize) -> Box<dyn Scheduler>,
}

/// The same length in every round.
pub const FIXED: &SchedulerKind = &SCHEDULERS[0];

/// The length that pays best by what was measured.
pub const AUTO: &SchedulerKind = &SCHEDULERS[1];

/// Every scheduler.
pub const SCHEDULERS: &[SchedulerKind] = &[
    SchedulerKind { name: "fixed", build: |_, max_draft| Box::new(fixed::Fixed { max_draft }) },
    SchedulerKind { name: "auto", build: |sources, max_draft| Box::new(auto::Auto::new(sources, max_draft)) },
];
