//! Runs the library: what every part promises, on a model without weights and on tiny checkpoints.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::float_cmp,
    clippy::print_stdout,
    reason = "tests count small things, compare exact values and say what they found"
)]

#[path = "../support/hostile.rs"]
mod hostile;
#[path = "../support/mod.rs"]
mod support;

mod cache;
mod chat;
mod config;
mod exactness;
mod hostile_input;
mod identity;
mod inspect;
mod models;
mod real_model;
mod sampling;
mod schedule;
mod tokenizer;
mod tree;
