//! The command line: what can be typed, what each command does, and all printing.

pub mod args;
mod generate;
mod inspect_config;
mod interrupt;
mod models;
mod ui;

use clap::Parser;

use crate::error::{Error, ExitCode};
use args::{Cli, Command};

/// Runs the program with the process's arguments.
pub fn run() -> std::process::ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return code(ui::clap_message(&error)),
    };
    let outcome = match cli.command {
        Command::Generate(args) => generate::run(&args),
        Command::InspectConfig(args) => inspect_config::run(&args),
    };
    code(match outcome {
        Ok(code) => code,
        Err(error) if is_closed_pipe(&error) => ExitCode::Done,
        Err(error) => ui::report_error(&error),
    })
}

/// A reader that has seen enough is not an error.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(Error::Stream { source, .. })
        if source.kind() == std::io::ErrorKind::BrokenPipe)
}

fn usage(flag: &str, problem: String) -> anyhow::Error {
    Error::Usage { flag: flag.to_owned(), problem }.into()
}

fn code(code: ExitCode) -> std::process::ExitCode {
    std::process::ExitCode::from(code as u8)
}
