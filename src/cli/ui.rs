//! All printing. Results go to standard output; everything else to standard error.

use std::io::{IsTerminal, Write};

use crate::error::{Error, ExitCode, Result};

/// Whether messages that are not errors are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verbosity {
    /// Only errors.
    Quiet,
    /// What happened, too.
    Normal,
}

/// Writes to standard output and lets it out at once.
///
/// # Errors
/// `Stream`; a closed pipe is told apart by its kind.
pub(super) fn result(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|source| Error::Stream { action: "write to standard output", source })
}

/// Ends a streamed text on a terminal, where the next message would stand on its last line.
pub(super) fn end_of_text() {
    if std::io::stdout().is_terminal() {
        // Nothing to do about a terminal that cannot be written to.
        let _ = result("\n");
    }
}

/// A message on standard error. Failing to write it is not a failure of the run.
pub(super) fn note(verbosity: Verbosity, text: &str) {
    if verbosity == Verbosity::Normal {
        let _ = writeln!(std::io::stderr().lock(), "{text}");
    }
}

/// Prints an error with its advice and returns its exit code.
pub(super) fn report_error(error: &anyhow::Error) -> ExitCode {
    let mut lines = format!("error: {error}\n");
    let known = error.downcast_ref::<Error>();
    if let Some(hint) = known.and_then(Error::hint) {
        lines.push_str(&format!("hint: {hint}\n"));
    }
    let _ = std::io::stderr().lock().write_all(lines.as_bytes());
    known.map_or(ExitCode::Failure, Error::exit_code)
}

/// Prints what clap has to say: help and version on standard output, mistakes on standard error.
pub(super) fn clap_message(error: &clap::Error) -> ExitCode {
    let printed = error.print();
    match printed {
        Err(source) if !error.use_stderr() && source.kind() != std::io::ErrorKind::BrokenPipe => {
            report_error(&Error::Stream { action: "write to standard output", source }.into())
        }
        _ if error.use_stderr() => ExitCode::Usage,
        _ => ExitCode::Done,
    }
}
