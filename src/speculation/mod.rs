//! Proposing tokens cheaply and deciding which to keep.
//!
//! A drafter makes a `Draft`, an acceptance rule judges it against the target's rows, a scheduler says
//! how long the next one may be. Rules know no models, caches or text.

pub mod acceptance;
pub mod draft;
pub mod drafter;
pub mod pairing;
mod round;
pub mod schedule;

pub use draft::{Draft, DraftNode, Proposal, Source};
pub use round::{DraftedToken, Round};
