//! What can be typed. Only declarations; checks that need more than one value are in the commands.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};

use super::inspect_config::{GATES, PAIR_GATE};
use crate::checkpoint::quant_formats;
use crate::config::KvType;
use crate::device::DTYPES;
use crate::inspect::format as inspect;
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
  specdec generate -m MODEL --drafter ngram -f FILE       repeated text drafts
  specdec generate -m MODEL --system \"Be brief.\" \"Hi\"   an instruct model answers, by its template
  specdec generate -m MODEL --prompt-ids 1,2,3 --format json";

const INSPECT_EXAMPLES: &str = "\
Examples:
  specdec inspect-config                                   three families side by side
  specdec inspect-config meta-llama/Llama-3.1-8B           one model, with evidence
  specdec inspect-config ./folder model.gguf               local models, only headers are read
  specdec inspect-config M --ctx 8k,128k --kv-type q8_0 --batch 4 --fits 24GiB
  specdec inspect-config TARGET DRAFTER                    can one draft for the other?
  specdec inspect-config M --get attention                 one value, for scripts
  specdec inspect-config M --require gqa                   exits with 8 when it is not";

/// Flags that say how a text is made, which has no meaning for one that is there.
const NOT_WITH_SCORE: [&str; 33] = [
    "print_prompt",
    "prompts",
    "messages",
    "system",
    "raw",
    "chat_template",
    "chat_template_kwargs",
    "draft_model",
    "draft_dtype",
    "draft_quant",
    "drafter",
    "num_draft_tokens",
    "draft_p_min",
    "accept",
    "ngram_min",
    "ngram_max",
    "temperature",
    "sampling",
    "top_k",
    "top_p",
    "min_p",
    "typical_p",
    "repetition_penalty",
    "frequency_penalty",
    "presence_penalty",
    "logit_bias",
    "seed",
    "max_tokens",
    "stop",
    "ignore_eos",
    "rounds",
    "trace",
    "color_source",
];

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

    /// Say which attention a model has, what its cache costs, and whether it can draft
    InspectConfig(Box<InspectConfigArgs>),
}

/// Arguments of `specdec generate`.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_long_help = format!("{FIGURES}\n\n{EXIT_CODES}"))]
pub struct GenerateArgs {
    /// Prompt
    #[command(flatten)]
    pub prompt: PromptArgs,

    /// Models
    #[command(flatten)]
    pub models: ModelArgs,

    /// Speculation
    #[command(flatten)]
    pub speculation: SpeculationArgs,

    /// Sampling, length and stopping
    #[command(flatten)]
    pub sampling: SamplingArgs,

    /// Output
    #[command(flatten)]
    pub output: OutputArgs,
}

/// What to continue or answer.
#[derive(Debug, Args)]
#[command(next_help_heading = "Prompt")]
pub struct PromptArgs {
    /// The prompt; `-` reads standard input, as does leaving it out in a pipe; the demo has an opening
    #[arg(value_name = "PROMPT", group = "source")]
    pub text: Option<String>,

    /// The prompt
    #[arg(short = 'p', long = "prompt", value_name = "TEXT", allow_hyphen_values = true, group = "source")]
    pub prompt: Option<String>,

    /// Read the prompt from a file
    #[arg(short = 'f', long, value_name = "FILE", group = "source")]
    pub prompt_file: Option<PathBuf>,

    /// Token ids as the prompt, for checkpoints without a tokenizer
    #[arg(long, value_name = "IDS", value_delimiter = ',', group = "source")]
    pub prompt_ids: Option<Vec<u32>>,

    /// Answer a conversation: JSON with a list of messages, or an object with messages and tools
    #[arg(long, value_name = "FILE", group = "source")]
    pub messages: Option<PathBuf>,

    /// Run every line of a JSONL file, each with prompt or messages; prints one JSON line each
    #[arg(long, value_name = "FILE", group = "source")]
    pub prompts: Option<PathBuf>,

    /// Continue the text as it is, without the model's chat template
    #[arg(long, conflicts_with_all = ["system", "messages", "chat_template", "chat_template_kwargs"])]
    pub raw: bool,

    /// The system message before the prompt
    #[arg(long, value_name = "TEXT", conflicts_with = "messages")]
    pub system: Option<String>,

    /// Use another chat template than the model's own
    #[arg(long, value_name = "FILE")]
    pub chat_template: Option<PathBuf>,

    /// Further variables of the chat template, such as {"enable_thinking": false}
    #[arg(long, value_name = "JSON")]
    pub chat_template_kwargs: Option<String>,

    /// Print the rendered prompt and its ids, and load no weights
    #[arg(long)]
    pub print_prompt: bool,

    /// Print how likely the target finds the text, token by token, instead of continuing it
    #[arg(long, conflicts_with_all = NOT_WITH_SCORE)]
    pub score: bool,
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

    /// Draft length in tokens; auto takes what pays best by what is measured, 0 included [default: auto]
    #[arg(short = 'k', long, value_name = "N|auto", allow_negative_numbers = true)]
    pub num_draft_tokens: Option<String>,

    /// Stop drafting before a token when the drafter's likeliest one is less probable than this
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub draft_p_min: Option<f64>,

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
#[command(next_help_heading = "Sampling and stopping")]
pub struct SamplingArgs {
    /// Temperature; 0 takes the most likely token
    #[arg(long = "temp", allow_negative_numbers = true, visible_alias = "temperature", value_name = "T")]
    pub temperature: Option<f64>,

    /// Where sampling values come from that are not given: recommended takes generation_config.json's
    #[arg(long, value_name = "FROM", value_parser = ["plain", "recommended"])]
    pub sampling: Option<String>,

    /// Keep the N most likely tokens; 0 is off
    #[arg(long, value_name = "N")]
    pub top_k: Option<usize>,

    /// Keep the fewest most likely tokens with this probability together; 1 is off
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub top_p: Option<f64>,

    /// Keep tokens with at least this fraction of the largest probability; 0 is off
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub min_p: Option<f64>,

    /// Keep the tokens of most typical surprise with this probability together; 1 is off
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub typical_p: Option<f64>,

    /// Divide positive and multiply negative logits of tokens of prompt and text; 1 is off
    #[arg(long, value_name = "X", alias = "repeat-penalty", allow_negative_numbers = true)]
    pub repetition_penalty: Option<f64>,

    /// Take this from a token's logit for every time it is in the text
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub frequency_penalty: Option<f64>,

    /// Take this from the logit of every token that is in the text
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub presence_penalty: Option<f64>,

    /// Add to the logit of one token, several times if need be; -inf forbids it
    #[arg(long, value_name = "ID=BIAS")]
    pub logit_bias: Vec<String>,

    /// Seed of all noise; chosen and reported when not given
    #[arg(long, value_name = "SEED")]
    pub seed: Option<u64>,

    /// The most tokens to generate
    #[arg(short = 'n', long, value_name = "N", default_value_t = 256)]
    pub max_tokens: usize,

    /// The most tokens of prompt and text together; up to the model's limit, which is the default
    #[arg(short = 'c', long, value_name = "N")]
    pub ctx_size: Option<usize>,

    /// End the text before this string, several times if need be
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub stop: Vec<String>,

    /// Go on after end-of-sequence tokens, for measuring
    #[arg(long)]
    pub ignore_eos: bool,
}

/// What is printed.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// What to print [default: text; json with --prompts]
    #[arg(long, value_name = "FORMAT", value_parser = format_values())]
    pub format: Option<String>,

    /// Write to a file what would go to standard output
    #[arg(short = 'o', long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Add the target's log-probability of every token, and of the N likeliest, to JSON
    #[arg(long, value_name = "N")]
    pub logprobs: Option<usize>,

    /// Paint accepted draft tokens on a terminal, by who proposed them
    #[arg(long)]
    pub color_source: bool,

    /// Write one JSON line per round to a file
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,

    /// Add every round to the JSON object
    #[arg(long)]
    pub rounds: bool,

    /// Print nothing but the text, and errors
    #[arg(short = 'q', long)]
    pub quiet: bool,
}

/// Arguments of `specdec inspect-config`.
#[derive(Debug, Args)]
#[command(before_help = INSPECT_EXAMPLES, after_help = EXIT_CODES)]
pub struct InspectConfigArgs {
    /// Models: org/name or org/name@revision, folders, config.json or .gguf files, - for standard input; an exercise without one
    #[arg(value_name = "MODEL")]
    pub models: Vec<String>,

    /// Context lengths to show the cache at, in tokens; usual ones up to the model's limit without it
    #[arg(long, value_name = "TOKENS", value_delimiter = ',')]
    pub ctx: Vec<String>,

    /// How cached numbers are stored
    #[arg(long, value_name = "TYPE", default_value = KvType::ALL[0].0, value_parser = kv_type_values())]
    pub kv_type: String,

    /// Sequences held at once
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub batch: u64,

    /// Say which context and batch fit into this much memory beside the weights
    #[arg(long, value_name = "SIZE")]
    pub fits: Option<String>,

    /// One line for every layer
    #[arg(long)]
    pub layers: bool,

    /// All evidence, not only what decided
    #[arg(long)]
    pub explain: bool,

    /// Draw cache against context, as an SVG
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,

    /// How to report
    #[arg(long, value_name = "FORMAT", default_value = inspect::FORMATS[0].name, value_parser = inspect_format_values())]
    pub format: String,

    /// Print one value per model, such as attention or kv_bytes_needed.131072
    #[arg(long, value_name = "KEY", conflicts_with = "format")]
    pub get: Option<String>,

    /// Exit with 8 unless every model is this; pair: unless one can draft for the other
    #[arg(long, value_name = "WHAT", value_parser = gate_values())]
    pub require: Option<String>,
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

fn kv_type_values() -> impl TypedValueParser<Value = String> {
    PossibleValuesParser::new(KvType::ALL.iter().map(|(name, _)| *name))
}

fn inspect_format_values() -> impl TypedValueParser<Value = String> {
    described(inspect::FORMATS.iter().map(|format| (format.name, format.about)))
}

fn gate_values() -> impl TypedValueParser<Value = String> {
    PossibleValuesParser::new(GATES.iter().map(|(name, _)| *name).chain([PAIR_GATE]))
}
