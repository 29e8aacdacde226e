//! What proposes tokens.
//!
//! To add a drafter: a file with a `Drafter` and a line in `DRAFTERS`.

mod model;
mod ngram;
mod ngram_model;
mod none;

use std::sync::Arc;

use candle_core::Tensor;

use super::acceptance::DraftChoice;
use super::draft::{Draft, Proposal, Source};
use super::schedule::Budget;
use crate::error::Result;
use crate::model::{CausalLm, Tap};
use crate::sampling::{Distribution, History, Noise, Purpose, SamplingParams};

pub use ngram::NgramOptions;

/// What a drafter asks of the target and the loop. Plain data, fixed for its life.
#[derive(Debug, Clone, Default)]
pub struct Needs {
    /// Hidden states it wants of every row the target keeps, in this order.
    pub taps: Vec<Tap>,
    /// Whether its drafts may branch.
    pub branching: bool,
    /// The most nodes it can propose; none when it takes any budget.
    pub longest_draft: Option<usize>,
}

/// What a drafter may use while proposing and observing.
pub struct DraftContext<'a> {
    /// The target, for its `embed` and `logits`.
    pub target: &'a dyn CausalLm,
    /// The target's sampling parameters, which the drafter applies to its own rows.
    pub params: &'a SamplingParams,
    /// The run's noise.
    pub noise: Noise,
    /// How to choose.
    pub choice: DraftChoice,
    /// Tokens of the prompt.
    pub prompt_len: usize,
}

impl DraftContext<'_> {
    /// Chooses the token that follows `emitted` and `path` from the drafter's own logits (`[vocab]`), and
    /// says how.
    ///
    /// # Errors
    /// `NanLogits`.
    pub fn choose(&self, logits: &[f32], emitted: &[u32], path: &[u32]) -> Result<(u32, Proposal)> {
        let history = History { emitted, path, prompt_len: self.prompt_len };
        let row = Distribution::new(logits, self.params, history)?;
        Ok(match self.choice {
            DraftChoice::Sampled if !self.params.is_greedy() => {
                let probabilities = row.probabilities();
                let uniform = self.noise.uniform(Purpose::Draft, emitted.len(), path, 0);
                (probabilities.draw(uniform), Proposal::Sampled(Arc::new(probabilities)))
            }
            DraftChoice::MostLikely | DraftChoice::Sampled => (row.argmax(), Proposal::Point),
            // Given the noise there is nothing left to draw.
            DraftChoice::SharedNoise => (row.choose(self.noise.at(history.next_position())), Proposal::Point),
        })
    }
}

/// Rows the target has read and kept.
pub struct ReadRows<'a> {
    /// Absolute position of the first.
    pub first_position: usize,
    /// Their tokens.
    pub tokens: &'a [u32],
    /// One `[rows, hidden]` per tap of `Needs`.
    pub taps: Vec<Tensor>,
}

/// What became of a round.
pub struct Outcome<'a> {
    /// The rows kept: the unread end of the prompt (first round only), the anchor, accepted tokens.
    pub rows: ReadRows<'a>,
    /// All tokens so far, the new anchor last.
    pub tokens: &'a [u32],
    /// How many of them this round emitted.
    pub num_emitted: usize,
    /// Nodes of the draft that were accepted.
    pub accepted: &'a [usize],
}

/// Proposes tokens.
///
/// Called in this order: `begin` for every chunk of the prompt that is read before the first round,
/// then, round by round, `propose` (skipped when the budget is 0) and `observe`.
pub trait Drafter {
    /// What it asks for.
    fn needs(&self) -> Needs;

    /// The target has read rows of the prompt.
    fn begin(&mut self, context: &DraftContext<'_>, rows: &ReadRows<'_>) -> Result<()>;

    /// Proposes nodes, possibly none, to follow `tokens`, the last of which is the anchor. Each source
    /// keeps to its own budget; some source has a budget of at least 1.
    ///
    /// Whether and how far to propose may depend on anything but the tokens proposed from there on: a
    /// sampled token that is dropped for its own sake biases the output.
    fn propose(&mut self, context: &DraftContext<'_>, tokens: &[u32], budget: &Budget) -> Result<Draft>;

    /// Learns what became of the round; goes back to a state that holds only emitted tokens.
    fn observe(&mut self, context: &DraftContext<'_>, outcome: &Outcome<'_>) -> Result<()>;

    /// Bytes of caches it holds.
    fn cache_bytes(&self) -> usize {
        0
    }
}

/// What a drafter is built from.
#[derive(Clone, Copy)]
pub struct DrafterParts<'m> {
    /// The model it drafts for, whose embedding and head it may borrow.
    pub target: &'m dyn CausalLm,
    /// The drafter's own model, where it has one.
    pub model: Option<&'m dyn CausalLm>,
    /// Ids both models know, as a count from 0.
    pub shared_vocab: usize,
    /// The most tokens the drafter's model may hold.
    pub run_len: usize,
    /// The longest draft a scheduler will ask for.
    pub max_draft: usize,
    /// Settings of prompt lookup.
    pub ngram: NgramOptions,
    /// A model that drafts stops before a token when its likeliest one is less probable than this.
    pub min_confidence: f64,
}

/// A drafter a user can name.
pub struct DrafterKind {
    /// Value of `--drafter`.
    pub name: &'static str,
    /// One line of help.
    pub about: &'static str,
    /// Who proposes; none for plain decoding.
    pub sources: &'static [Source],
    /// Whether it runs a model of its own.
    pub needs_model: bool,
    /// Whether the settings of prompt lookup have an effect.
    pub uses_ngram: bool,
    /// Makes it.
    pub build: for<'m> fn(DrafterParts<'m>) -> Result<Box<dyn Drafter + 'm>>,
}

impl DrafterKind {
    /// Whether it proposes anything.
    pub fn drafts(&self) -> bool {
        !self.sources.is_empty()
    }
}

/// What `--drafter` means when it is not given and there is no model that drafts.
pub const PLAIN: &DrafterKind = &DRAFTERS[0];

/// What `--drafter` means when it is not given and there is a model that drafts.
pub const WITH_MODEL: &DrafterKind = &DRAFTERS[1];

/// Every drafter a user can name, in the order help shows them.
pub const DRAFTERS: &[DrafterKind] = &[
    DrafterKind {
        name: "none",
        about: "plain decoding",
        sources: &[],
        needs_model: false,
        uses_ngram: false,
        build: |_| Ok(Box::new(none::NoDrafter)),
    },
    DrafterKind {
        name: "model",
        about: "a smaller model with the same vocabulary",
        sources: &[model::SOURCE],
        needs_model: true,
        uses_ngram: false,
        build: model::build,
    },
    DrafterKind {
        name: "ngram",
        about: "repeat what followed the same tokens before",
        sources: &[ngram::SOURCE],
        needs_model: false,
        uses_ngram: true,
        build: |parts| Ok(Box::new(ngram::Ngram::new(parts.ngram))),
    },
    DrafterKind {
        name: "ngram+model",
        about: "ngram where it finds something, else the model",
        sources: &[ngram::SOURCE, model::SOURCE],
        needs_model: true,
        uses_ngram: true,
        build: ngram_model::build,
    },
];
