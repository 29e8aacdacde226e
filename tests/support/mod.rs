//! Parts that tests put in: a model without weights, drafters that know or refuse the answer, a clock.

pub(crate) mod drafters;
pub(crate) mod toy;

use std::cell::Cell;
use std::ops::ControlFlow;
use std::path::PathBuf;

use specdec::decode::{self, Clock, Emitted, FinishReason, Generation, Observer, Request, Setup};
use specdec::model::CausalLm;
use specdec::sampling::SamplingParams;
use specdec::speculation::Source;
use specdec::speculation::acceptance::RULES;
use specdec::speculation::drafter::Drafter;
use specdec::speculation::schedule::{FIXED, SchedulerKind};

/// A clock that moves one millisecond whenever it is read.
#[derive(Default)]
pub(crate) struct TickingClock {
    ticks: Cell<u32>,
}

impl Clock for TickingClock {
    fn now_s(&self) -> f64 {
        self.ticks.set(self.ticks.get() + 1);
        f64::from(self.ticks.get()) * 1e-3
    }
}

/// Every source that drafters of the table and of tests have.
const ALL_SOURCES: &[Source] = &[Source("model"), Source("ngram"), Source("test")];

/// Writes down what is emitted.
#[derive(Default)]
pub(crate) struct Streamed(pub(crate) Vec<u32>);

impl Observer for Streamed {
    fn token(&mut self, emitted: &Emitted) -> specdec::error::Result<ControlFlow<FinishReason>> {
        self.0.push(emitted.token);
        Ok(ControlFlow::Continue(()))
    }
}

/// What a test varies.
#[derive(Clone)]
pub(crate) struct Run<'a> {
    pub(crate) target: &'a dyn CausalLm,
    pub(crate) prompt: &'a [u32],
    pub(crate) max_tokens: usize,
    pub(crate) context_len: usize,
    pub(crate) stop_ids: &'a [u32],
    pub(crate) temperature: f64,
    /// Everything but the temperature.
    pub(crate) sampling: SamplingParams,
    pub(crate) seed: u64,
    pub(crate) max_draft: usize,
    pub(crate) rule: &'static str,
    pub(crate) scheduler: &'static SchedulerKind,
}

impl<'a> Run<'a> {
    pub(crate) fn new(target: &'a dyn CausalLm, prompt: &'a [u32]) -> Self {
        Self {
            target,
            prompt,
            max_tokens: 40,
            context_len: usize::MAX,
            stop_ids: &[],
            temperature: 0.0,
            sampling: SamplingParams::default(),
            seed: 0,
            max_draft: 4,
            rule: "coupled",
            scheduler: FIXED,
        }
    }

    pub(crate) fn request(&self) -> Request<'a> {
        Request {
            prompt: self.prompt,
            max_tokens: self.max_tokens,
            context_len: self.context_len,
            stop_ids: self.stop_ids,
            params: SamplingParams { temperature: self.temperature, ..self.sampling.clone() },
            seed: self.seed,
            sequence: 0,
            logprobs: None,
        }
    }

    /// Runs with a drafter and checks what holds for every run.
    pub(crate) fn with(&self, drafter: Box<dyn Drafter + 'a>) -> Generation {
        let clock = TickingClock::default();
        let rule = RULES.iter().find(|rule| rule.name == self.rule).expect("a rule of the table");
        let mut setup = Setup {
            target: self.target,
            drafter,
            rule: (rule.build)(),
            scheduler: (self.scheduler.build)(ALL_SOURCES, self.max_draft),
            clock: &clock,
        };
        let mut streamed = Streamed::default();
        let generation =
            decode::generate(&mut setup, &self.request(), &mut streamed).expect("the run succeeds");
        assert_eq!(streamed.0, generation.tokens, "streamed and returned tokens");
        let emitted: usize = generation.rounds.iter().map(|round| round.emitted).sum();
        assert_eq!(emitted, generation.tokens.len(), "tokens of the rounds");
        for round in &generation.rounds {
            assert!(round.draft.len() <= self.max_draft && round.accepted <= round.draft.len());
            assert!(round.emitted == round.accepted + 1 || round.emitted == round.accepted);
        }
        generation
    }

    /// Runs without a drafter.
    pub(crate) fn plain(&self) -> Generation {
        let kind = specdec::speculation::drafter::PLAIN;
        let parts = specdec::speculation::drafter::DrafterParts {
            target: self.target,
            model: None,
            shared_vocab: 0,
            run_len: 0,
            max_draft: 0,
            ngram: specdec::speculation::drafter::NgramOptions::default(),
            min_confidence: 0.0,
        };
        self.with((kind.build)(parts).expect("plain decoding needs nothing"))
    }
}

/// The reference data that is shared between projects, where it is there.
pub(crate) fn shared(folder: &str) -> Option<PathBuf> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared").join(folder);
    path.is_dir().then_some(path)
}

/// The project's own fixtures.
pub(crate) fn fixtures(folder: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(folder)
}

/// A small generator for tests that need arbitrary choices.
pub(crate) struct Choices(u64);

impl Choices {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(2).wrapping_add(1))
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        usize::try_from(self.0 >> 33).expect("31 bits") % limit
    }
}
