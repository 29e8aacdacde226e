//! All printing. Results go to standard output; everything else to standard error.

use std::fs::File;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, ExitCode, Result};
use crate::inspect::format::clean;
use crate::speculation::Source;

/// Whether messages that are not errors are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verbosity {
    /// Only errors.
    Quiet,
    /// What happened, too.
    Normal,
}

/// Where results go: standard output, or the file of `-o`.
pub(super) struct Output {
    file: Option<OutputFile>,
}

struct OutputFile {
    path: PathBuf,
    file: File,
    has_begun: bool,
}

impl Output {
    /// Opens `path` for writing, standard output without one. What the file holds stays there until the
    /// first result comes.
    ///
    /// # Errors
    /// `Io` when the file cannot be written.
    pub(super) fn open(path: Option<&Path>) -> Result<Self> {
        let file = path.map(|path| {
            let file = File::options().write(true).create(true).truncate(false).open(path);
            let file = file.map_err(Error::io("create", path))?;
            Ok::<_, Error>(OutputFile { path: path.to_owned(), file, has_begun: false })
        });
        Ok(Self { file: file.transpose()? })
    }

    /// Writes and lets it out at once.
    ///
    /// # Errors
    /// `Stream` or `Io`; a closed pipe is told apart by its kind.
    pub(super) fn write(&mut self, text: &str) -> Result<()> {
        match &mut self.file {
            Some(OutputFile { path, file, has_begun }) => {
                // A device or pipe has no length to set.
                if !*has_begun && file.metadata().is_ok_and(|data| data.is_file()) {
                    file.set_len(0).map_err(Error::io("write", path.as_path()))?;
                }
                *has_begun = true;
                file.write_all(text.as_bytes()).map_err(Error::io("write", path.as_path()))
            }
            None => result(text),
        }
    }

    /// Ends the results: a file that got none is empty, not what it was before.
    ///
    /// # Errors
    /// As for `write`.
    pub(super) fn finish(&mut self) -> Result<()> {
        if self.file.is_some() { self.write("") } else { Ok(()) }
    }

    /// Ends a streamed text on a terminal, where the next message would stand on its last line.
    pub(super) fn end_of_text(&mut self) {
        if self.is_terminal() {
            // Nothing to do about a terminal that cannot be written to.
            let _ = result("\n");
        }
    }

    fn is_terminal(&self) -> bool {
        self.file.is_none() && std::io::stdout().is_terminal()
    }
}

/// Whether and how text shows who proposed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Paint {
    /// As it is.
    Plain,
    /// In colours.
    Colours,
}

impl Paint {
    /// Colours where they were asked for and the output shows them: on a terminal, unless `NO_COLOR` or a
    /// dumb terminal says no, or anywhere with `CLICOLOR_FORCE`.
    pub(super) fn new(wanted: bool, output: &Output) -> Self {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0");
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let shows = is_set("CLICOLOR_FORCE") || (output.is_terminal() && !is_dumb);
        if wanted && shows && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) {
            Self::Colours
        } else {
            Self::Plain
        }
    }

    /// `text` in the colour of its source: green from a model, cyan from n-grams, its own for none.
    pub(super) fn by_source(self, text: &str, source: Option<Source>) -> String {
        match (self, source) {
            (Self::Colours, Some(Source("ngram"))) => format!("\x1b[36m{text}\x1b[0m"),
            (Self::Colours, Some(_)) => format!("\x1b[32m{text}\x1b[0m"),
            _ => text.to_owned(),
        }
    }
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

/// A message on standard error. Failing to write it is not a failure of the run.
pub(super) fn note(verbosity: Verbosity, text: &str) {
    if verbosity == Verbosity::Normal {
        let _ = writeln!(std::io::stderr().lock(), "{text}");
    }
}

/// Prints an error with its advice and returns its exit code.
pub(super) fn report_error(error: &anyhow::Error) -> ExitCode {
    // Names and values from files are part of messages.
    let mut lines = format!("error: {}\n", clean(&error.to_string()));
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
