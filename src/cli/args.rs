//! What can be typed. Only declarations; checks that need more than one value are in the commands.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};

use crate::checkpoint::quant_formats;
use crate::device::DTYPES;
use crate::report::FORMATS;
use crate::speculation::acceptance::RULES;
use crate::speculation::drafter::DRAFTERS;

const EXIT_CODES: &str = "\
Exit codes:
  0    done (also when the reader of a pipe has seen enough)
  1    failure: I/O, corrupt or malformed file, NaN logits, full disk
  2    usage
  3    not found, gated, offline, network
  4    cannot be determined, or not supported
  5    target and drafter do not fit together
  6    does not fit in memory or context
  7    outputs differ under a gate
  8    another gate was not met
  130  interrupted";

const FIGURES: &str = "\
Figures:
  round               one pass of the target while decoding
  acceptance rate     draft tokens accepted / drafted; what a stop cut off does not count
  acceptance length   tau = 1 + accepted / rounds with a draft
  tokens per pass     tokens emitted / rounds
  by position         rounds that accepted position k / rounds with a draft; tau = 1 + their sum
  time to first token from the end of loading to the end of the first round
  decode tokens/s     tokens after the first round per second of the rounds after it";

const EXAMPLES: &str = "\
Examples:
  specdec generate                                        the built-in demo, no files needed
  specdec generate -m MODEL \"Once upon a time\"            a folder or a .gguf file, plain
  specdec generate -m MODEL -d SMALLER -k 6 \"...\"         a smaller model drafts
  specdec generate -m MODEL --drafter ngram -p \"...\"      repeated text drafts
  specdec generate -m MODEL --prompt-ids 1,2,3 --format json";

/// Local text generation with speculative decoding, and figures that say what it did.
#[derive(Debug, Parser)]
#[command(name = "specdec", version, after_help = EXIT_CODES, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Generate text, plain or with a drafter, and say what speculation did
    Generate(Box<GenerateArgs>),
}

/// Arguments of `specdec generate`.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_long_help = format!("{FIGURES}\n\n{EXIT_CODES}"))]
pub struct GenerateArgs {
    /// Text to continue; without one the demo uses its own opening
    #[arg(value_name = "PROMPT", conflicts_with_all = ["prompt_option", "prompt_ids"])]
    pub prompt: Option<String>,

    /// Text to continue
    #[arg(
        short = 'p',
        long = "prompt",
        value_name = "TEXT",
        allow_hyphen_values = true,
        conflicts_with = "prompt_ids"
    )]
    pub prompt_option: Option<String>,

    /// Token ids to continue, for checkpoints without a tokenizer
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    pub prompt_ids: Option<Vec<u32>>,

    /// Models
    #[command(flatten)]
    pub models: ModelArgs,

    /// Speculation
    #[command(flatten)]
    pub speculation: SpeculationArgs,

    /// Sampling and length
    #[command(flatten)]
    pub sampling: SamplingArgs,

    /// Output
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Which models, and in what form.
#[derive(Debug, Args)]
#[command(next_help_heading = "Models")]
pub struct ModelArgs {
    /// Target: a Hugging Face folder or a .gguf file; the built-in demo without one
    #[arg(short = 'm', long, value_name = "PATH")]
    pub model: Option<PathBuf>,

    /// A smaller model with the same vocabulary that drafts
    #[arg(short = 'd', long, value_name = "PATH")]
    pub draft_model: Option<PathBuf>,

    /// Type of dense weights, activations and cache; auto is f32 on a CPU
    #[arg(long, value_name = "TYPE", value_parser = dtype_values())]
    pub dtype: Option<String>,

    /// Quantise the target's dense weights at load
    #[arg(long, value_name = "FORMAT", value_parser = quant_values())]
    pub quant: Option<String>,

    /// As --dtype, for the drafter's model
    #[arg(long, value_name = "TYPE", value_parser = dtype_values())]
    pub draft_dtype: Option<String>,

    /// As --quant, for the drafter's model
    #[arg(long, value_name = "FORMAT", value_parser = quant_values())]
    pub draft_quant: Option<String>,
}

/// Who drafts, how much, and what is kept.
#[derive(Debug, Args)]
#[command(next_help_heading = "Speculation")]
pub struct SpeculationArgs {
    /// What proposes tokens; model when -d is given or in the demo, else none
    #[arg(long, value_name = "KIND", value_parser = drafter_values())]
    pub drafter: Option<String>,

    /// Longest draft, in tokens [default: 4]
    #[arg(short = 'k', long, value_name = "N")]
    pub num_draft_tokens: Option<usize>,

    /// Which draft tokens are kept; greedy at temperature 0, else coupled
    #[arg(long, value_name = "RULE", value_parser = rule_values())]
    pub accept: Option<String>,

    /// Shortest match ngram uses, in tokens [default: 2]
    #[arg(long, value_name = "N")]
    pub ngram_min: Option<usize>,

    /// Longest match ngram looks at, in tokens [default: 8]
    #[arg(long, value_name = "N")]
    pub ngram_max: Option<usize>,
}

/// How tokens are chosen and when to end.
#[derive(Debug, Args)]
#[command(next_help_heading = "Sampling and length")]
pub struct SamplingArgs {
    /// Temperature; 0 takes the most likely token
    #[arg(
        long = "temp",
        allow_negative_numbers = true,
        visible_alias = "temperature",
        value_name = "T",
        default_value_t = 0.0
    )]
    pub temperature: f64,

    /// Seed of all noise; chosen and reported when not given
    #[arg(long, value_name = "SEED")]
    pub seed: Option<u64>,

    /// The most tokens to generate
    #[arg(short = 'n', long, value_name = "N", default_value_t = 256)]
    pub max_tokens: usize,

    /// The most tokens of prompt and text together; up to the model's limit, which is the default
    #[arg(short = 'c', long, value_name = "N")]
    pub ctx_size: Option<usize>,

    /// Go on after end-of-sequence tokens, for measuring
    #[arg(long)]
    pub ignore_eos: bool,
}

/// What is printed.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// How to report
    #[arg(long, value_name = "FORMAT", default_value = FORMATS[0].name, value_parser = format_values())]
    pub format: String,

    /// Add every round to the JSON object
    #[arg(long)]
    pub rounds: bool,

    /// Print nothing but the text, and errors
    #[arg(short = 'q', long)]
    pub quiet: bool,
}

fn described<'a>(entries: impl Iterator<Item = (&'a str, &'a str)>) -> impl TypedValueParser<Value = String> {
    let values = entries.map(|(name, about)| PossibleValue::new(name.to_owned()).help(about.to_owned()));
    PossibleValuesParser::new(values.collect::<Vec<_>>())
}

fn drafter_values() -> impl TypedValueParser<Value = String> {
    described(DRAFTERS.iter().map(|kind| (kind.name, kind.about)))
}

fn rule_values() -> impl TypedValueParser<Value = String> {
    described(RULES.iter().map(|kind| (kind.name, kind.about)))
}

fn format_values() -> impl TypedValueParser<Value = String> {
    described(FORMATS.iter().map(|format| (format.name, format.about)))
}

fn dtype_values() -> impl TypedValueParser<Value = String> {
    PossibleValuesParser::new(DTYPES.iter().map(|(name, _)| *name))
}

fn quant_values() -> impl TypedValueParser<Value = String> {
    PossibleValuesParser::new(quant_formats().map(|(name, _)| name).collect::<Vec<_>>())
}
