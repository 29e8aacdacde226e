//! The command line: what can be typed, what each command does, and all printing.

pub mod args;
mod generate;
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
    };
    code(match outcome {
        Ok(()) => ExitCode::Done,
        Err(error) if is_closed_pipe(&error) => ExitCode::Done,
        Err(error) => ui::report_error(&error),
    })
}

/// A reader that has seen enough is not an error.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(Error::Stream { source, .. })
        if source.kind() == std::io::ErrorKind::BrokenPipe)
}

fn code(code: ExitCode) -> std::process::ExitCode {
    std::process::ExitCode::from(code as u8)
}
