//! Runs the library: what every part promises, on a model without weights and on tiny checkpoints.

#[path = "../support/mod.rs"]
mod support;

mod cache;
mod config;
mod identity;
mod models;
mod real_model;
mod tokenizer;
mod tree;
