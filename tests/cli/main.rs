//! Runs the program: exit codes, what stands on which stream, and what bad input says.

#[path = "../support/program.rs"]
mod program;

mod bad_input;
mod generate;
mod generated_files;
mod inspect_config;
mod output;
mod prompts;
