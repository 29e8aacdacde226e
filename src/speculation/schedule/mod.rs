//! How many tokens the next round may draft.
//!
//! To add a scheduler: a file with a `Scheduler` and a line in `SCHEDULERS`.

mod fixed;

use crate::speculation::Round;

/// Chooses draft lengths, seeing what earlier rounds cost and gained.
pub trait Scheduler {
    /// Draft budget of the coming round; 0 for a plain step.
    fn next(&mut self) -> usize;

    /// A finished round, with its counts and seconds.
    fn observe(&mut self, round: &Round);
}

/// A scheduler a user can choose.
pub struct SchedulerKind {
    /// Its name.
    pub name: &'static str,
    /// Makes it with a ceiling of `max_draft` tokens.
    pub build: fn(max_draft: usize) -> Box<dyn Scheduler>,
}

/// Every scheduler.
pub const SCHEDULERS: &[SchedulerKind] =
    &[SchedulerKind { name: "fixed", build: |max_draft| Box::new(fixed::Fixed { max_draft }) }];
