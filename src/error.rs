//! The one error type of the library, the exit code each variant maps to, and the advice it carries.
//!
//! A variant says what the user can act on. Context (which file, which tensor, which flag) is added
//! where it is known; printing is left to `cli::ui`.

use std::path::PathBuf;

/// Shorthand used throughout the library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Exit codes of the program, the same for every subcommand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitCode {
    /// Done. A closed pipe counts as done.
    Done = 0,
    /// I/O error, corrupt or malformed file, NaN logits, full disk.
    Failure = 1,
    /// A flag or value that cannot be used.
    Usage = 2,
    /// Not found, gated, offline or no network.
    NotFound = 3,
    /// Cannot be determined, or not supported.
    Unsupported = 4,
    /// Target and drafter do not fit together.
    Incompatible = 5,
    /// Does not fit in memory or context.
    DoesNotFit = 6,
    /// Outputs differ under a gate that forbids it.
    OutputsDiffer = 7,
    /// Another gate was not met.
    GateNotMet = 8,
    /// Interrupted by the user.
    Interrupted = 130,
}

/// Everything that can go wrong, in terms of what the user can do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be opened, read or written.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// What was tried: "open", "read", "write".
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Standard input or output failed.
    #[error("cannot {action}: {source}")]
    Stream {
        /// What was tried, with the stream's name.
        action: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// A path that does not exist, or a folder without a checkpoint.
    #[error("no model at `{}`: {problem}", path.display())]
    ModelNotFound {
        /// What the user named.
        path: PathBuf,
        /// What was looked for and not there.
        problem: String,
    },
    /// A file is damaged or is not what its name says.
    #[error("`{}` is malformed: {problem}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong, naming the key, offset or tensor.
        problem: String,
    },
    /// A configuration asks for something that is not implemented, or does not say enough.
    #[error("`{}`: {problem}", path.display())]
    UnsupportedConfig {
        /// The configuration file.
        path: PathBuf,
        /// The key, its value, and what is supported instead.
        problem: String,
    },
    /// No declaration exists for this architecture.
    #[error("architecture `{name}` in `{}` is not supported; known: {}", path.display(), known.join(", "))]
    UnsupportedArchitecture {
        /// The configuration file.
        path: PathBuf,
        /// `model_type` or `general.architecture`.
        name: String,
        /// Names that would have worked.
        known: Vec<&'static str>,
    },
    /// A tensor type or file format that cannot be computed with.
    #[error("`{}`: tensor `{tensor}` is stored as {format}, which is not supported", path.display())]
    UnsupportedTensor {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Its storage type.
        format: String,
    },
    /// Tensors that the architecture needs are absent or have another shape.
    #[error("`{}` does not hold the tensors its configuration asks for:\n{}", path.display(), listed(problems))]
    TensorMismatch {
        /// The file or folder.
        path: PathBuf,
        /// One line per tensor; the first ten are shown.
        problems: Vec<String>,
    },
    /// Two models whose tokens mean different things.
    #[error("{drafter} cannot draft for {target}: {problem}")]
    VocabularyMismatch {
        /// The target, as the user named it.
        target: String,
        /// The drafter, as the user named it.
        drafter: String,
        /// The sizes, or up to five example ids.
        problem: String,
    },
    /// A drafter asks for something the target cannot give.
    #[error("drafter `{drafter}` cannot run with this target: {problem}")]
    IncompatibleDrafter {
        /// The drafter's table name.
        drafter: &'static str,
        /// What is missing.
        problem: String,
    },
    /// Prompt and continuation exceed the context.
    #[error("{needed} tokens are needed, but the context holds {limit}")]
    ContextTooLong {
        /// Tokens asked for.
        needed: usize,
        /// Tokens the context holds.
        limit: usize,
    },
    /// A model named `org/name` that is not on this machine.
    #[error("`{model}` is not in the local cache: {problem}")]
    NotCached {
        /// As the user named it.
        model: String,
        /// Where was looked, and what was not there.
        problem: String,
    },
    /// How many bytes a model's weights take cannot be found out.
    #[error("`{model}`: the size of its weights is unknown: {problem}")]
    UnknownWeights {
        /// As the user named it.
        model: String,
        /// What is missing.
        problem: String,
    },
    /// A model that does not fit in the memory it was given.
    #[error("`{model}` needs {} for its weights alone, more than the {} given", gib(*needed_bytes), gib(*budget_bytes))]
    OverBudget {
        /// As the user named it.
        model: String,
        /// Bytes of the weights.
        needed_bytes: u64,
        /// Bytes given.
        budget_bytes: u64,
    },
    /// A condition that the user asked for does not hold.
    #[error("`{model}` does not meet --require {gate}: {found}")]
    GateNotMet {
        /// As the user named it.
        model: String,
        /// The condition.
        gate: String,
        /// What holds instead.
        found: String,
    },
    /// A flag or combination of flags that cannot be used.
    #[error("{flag}: {problem}")]
    Usage {
        /// The flag as typed, with its dashes.
        flag: String,
        /// Why it cannot be used.
        problem: String,
    },
    /// A token id outside the vocabulary.
    #[error("token id {id} is outside the vocabulary of {vocab_size} tokens")]
    TokenOutOfRange {
        /// The id.
        id: u32,
        /// Rows of the embedding.
        vocab_size: usize,
    },
    /// The model produced something that is not a number.
    #[error("the model's logits at position {position} are not numbers (NaN)")]
    NanLogits {
        /// Absolute position of the token being chosen.
        position: usize,
    },
    /// A cache was asked to go back further than it keeps rows.
    #[error("the cache cannot go back from {from} to {to} tokens: it keeps {kept}")]
    CannotTruncate {
        /// Committed tokens now.
        from: usize,
        /// Committed tokens asked for.
        to: usize,
        /// What the slot keeps, in words.
        kept: &'static str,
    },
    /// The tokenizer failed on a text or could not be built.
    #[error("tokenizer `{}`: {problem}", path.display())]
    Tokenizer {
        /// The tokenizer's file.
        path: PathBuf,
        /// What it said.
        problem: String,
    },
    /// A chat template that cannot be parsed, fails while it runs, or goes past the limits.
    #[error("the chat template of {origin}{} cannot be used: {problem}", at_line(*line))]
    ChatTemplate {
        /// Where the template comes from: a file or metadata key, in backquotes.
        origin: String,
        /// Line of the template, from 1, where it is known.
        line: Option<usize>,
        /// What the template engine said.
        problem: String,
    },
    /// A chat template that refuses the conversation, through `raise_exception`.
    #[error("the chat template of {origin}{} refuses the conversation: {message}", at_line(*line))]
    ChatRefused {
        /// Where the template comes from: a file or metadata key, in backquotes.
        origin: String,
        /// Line of the template, from 1, where it is known.
        line: Option<usize>,
        /// Exactly the template's message.
        message: String,
    },
    /// A tensor operation failed: a defect of ours or of the backend.
    #[error("{what}: {source}")]
    Tensor {
        /// What was being computed.
        what: String,
        /// candle's message.
        source: candle_core::Error,
    },
}

impl Error {
    /// The exit code that tells a script what kind of failure this is.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => ExitCode::NotFound,
            Self::Io { .. }
            | Self::Stream { .. }
            | Self::Malformed { .. }
            | Self::TensorMismatch { .. }
            | Self::NanLogits { .. }
            | Self::Tokenizer { .. }
            | Self::ChatTemplate { .. }
            | Self::ChatRefused { .. }
            | Self::CannotTruncate { .. }
            | Self::Tensor { .. } => ExitCode::Failure,
            Self::Usage { .. } | Self::TokenOutOfRange { .. } => ExitCode::Usage,
            Self::ModelNotFound { .. } | Self::NotCached { .. } => ExitCode::NotFound,
            Self::UnsupportedConfig { .. }
            | Self::UnsupportedArchitecture { .. }
            | Self::UnsupportedTensor { .. }
            | Self::UnknownWeights { .. } => ExitCode::Unsupported,
            Self::VocabularyMismatch { .. } | Self::IncompatibleDrafter { .. } => ExitCode::Incompatible,
            Self::ContextTooLong { .. } | Self::OverBudget { .. } => ExitCode::DoesNotFit,
            Self::GateNotMet { .. } => ExitCode::GateNotMet,
        }
    }

    /// One sentence of advice, where there is one.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::ModelNotFound { .. } => Some("name a folder with config.json and weights, or a .gguf file"),
            Self::NotCached { .. } => {
                Some("fetch the model's config.json first, or name a local folder, config.json or .gguf file")
            }
            Self::UnknownWeights { .. } => {
                Some("name a folder with the weights (their headers are enough) or a .gguf file")
            }
            Self::VocabularyMismatch { .. } => Some("the two must share a tokenizer"),
            Self::ContextTooLong { .. } => Some("shorten the prompt, or raise -c up to the model's limit"),
            Self::TensorMismatch { .. } => {
                Some("the checkpoint is incomplete, or config.json belongs to another model")
            }
            Self::ChatTemplate { .. } | Self::ChatRefused { .. } => {
                Some("--raw sends the prompt without a template; --chat-template FILE uses another")
            }
            _ => None,
        }
    }

    /// Wraps an I/O error with the file it happened on.
    pub fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }

    /// Wraps candle's error with what was being computed.
    pub fn tensor(what: impl Into<String>) -> impl FnOnce(candle_core::Error) -> Self {
        let what = what.into();
        move |source| Self::Tensor { what, source }
    }
}

impl From<candle_core::Error> for Error {
    fn from(source: candle_core::Error) -> Self {
        Self::Tensor { what: "tensor operation".to_owned(), source }
    }
}

fn at_line(line: Option<usize>) -> String {
    line.map_or_else(String::new, |line| format!(", line {line},"))
}

fn gib(bytes: u64) -> String {
    format!("{:.2} GiB", bytes as f64 / f64::from(1 << 30))
}

fn listed(problems: &[String]) -> String {
    const SHOWN: usize = 10;
    let mut lines: Vec<String> = problems.iter().take(SHOWN).map(|line| format!("  {line}")).collect();
    if problems.len() > SHOWN {
        lines.push(format!("  and {} more", problems.len() - SHOWN));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_problems_are_listed_and_the_rest_counted() {
        let problems = (0..12).map(|i| format!("t{i}")).collect::<Vec<_>>();
        let text = Error::TensorMismatch { path: "m".into(), problems }.to_string();
        assert!(text.contains("  t9\n  and 2 more"), "{text}");
        assert!(!text.contains("t10"));
    }

    #[test]
    fn a_missing_file_is_not_a_damaged_one() {
        let missing = Error::io("open", "x")(std::io::ErrorKind::NotFound.into());
        let broken = Error::io("read", "x")(std::io::ErrorKind::InvalidData.into());
        assert_eq!(missing.exit_code(), ExitCode::NotFound);
        assert_eq!(broken.exit_code(), ExitCode::Failure);
    }
}
