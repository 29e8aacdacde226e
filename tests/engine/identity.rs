//! Speculation changes no token: every drafter, draft length, rule and kind of cache gives what plain
//! decoding gives.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::rc::Rc;

use specdec::cache::SlotLayout;
use specdec::decode::{self, Emitted, FinishReason, Observer, Setup, Unwatched};
use specdec::model::{CausalLm, PREFILL_CHUNK, Tap};
use specdec::sampling::SamplingParams;
use specdec::speculation::acceptance::RULES;
use specdec::speculation::drafter::{DRAFTERS, Drafter, DrafterParts, NgramOptions};
use specdec::speculation::schedule::{AUTO, FIXED};

use crate::support::drafters::{Scripted, Told, Trees, Witness};
use crate::support::toy::{FULL, Toy, rows};
use crate::support::{Choices, Run, TickingClock};

const VOCAB: usize = 13;
const PROMPT: &[u32] = &[3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5];

/// The named drafter of the table, with `model` to draft.
fn from_table<'a>(name: &str, model: &'a dyn CausalLm, run: &Run<'a>) -> Box<dyn Drafter + 'a> {
    let kind = DRAFTERS.iter().find(|kind| kind.name == name).unwrap();
    (kind.build)(DrafterParts {
        target: run.target,
        model: Some(model),
        shared_vocab: VOCAB,
        run_len: run.request().run_len(),
        max_draft: run.max_draft,
        ngram: NgramOptions { min_len: 1, max_len: 4 },
        min_confidence: 0.0,
    })
    .unwrap()
}

#[test]
fn every_drafter_gives_the_tokens_of_plain_decoding() {
    // A drafter's model may be windowed but must be able to go back.
    let drafter_models = [Toy::new(5, VOCAB, &[FULL]), Toy::new(5, VOCAB, &[rows(Some(4))])];
    for layout in Toy::layouts() {
        let target = Toy::new(1, VOCAB, &layout);
        for rule in RULES.iter().filter(|rule| (rule.build)().couples()) {
            assert!((rule.build)().lossless(), "a rule that gives plain decoding's tokens is lossless");
            for temperature in [0.0, 0.7, 3.0] {
                for max_draft in 1..=5 {
                    let run = Run {
                        temperature,
                        max_draft,
                        rule: rule.name,
                        seed: 11,
                        ..Run::new(&target, PROMPT)
                    };
                    if !(rule.suits)(&run.request().params) {
                        continue;
                    }
                    let plain = run.plain();
                    let answer = [PROMPT, &plain.tokens].concat();
                    let mut drafters: Vec<(String, Box<dyn Drafter + '_>)> = vec![
                        ("oracle".into(), Box::new(Scripted::oracle(&answer))),
                        ("adversary".into(), Box::new(Scripted::adversary(&answer, VOCAB as u32))),
                        ("mixed".into(), Box::new(Scripted::mixed(&answer, VOCAB as u32, 3))),
                        (
                            "trees".into(),
                            Box::new(Trees {
                                answer: &answer,
                                vocab_size: VOCAB as u32,
                                choices: Choices::new(4),
                            }),
                        ),
                    ];
                    for kind in DRAFTERS {
                        for model in &drafter_models {
                            drafters.push((kind.name.to_owned(), from_table(kind.name, model, &run)));
                        }
                    }
                    for (name, drafter) in drafters {
                        let generation = run.with(drafter);
                        let case =
                            format!("{name}, {layout:?}, {} at {temperature}, k {max_draft}", rule.name);
                        assert_eq!(generation.tokens, plain.tokens, "{case}");
                        assert_eq!(generation.finish_reason, plain.finish_reason, "{case}");
                        let accepted: usize = generation.rounds.iter().map(|round| round.accepted).sum();
                        let drafted: usize = generation.rounds.iter().map(|round| round.draft.len()).sum();
                        match name.as_str() {
                            "oracle" => assert_eq!(accepted, drafted, "{case}"),
                            "adversary" => assert_eq!((accepted, drafted > 0), (0, true), "{case}"),
                            _ => {}
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn a_model_that_drafts_for_itself_is_always_right() {
    for layout in [vec![FULL], vec![rows(Some(5)), FULL], vec![rows(Some(3))]] {
        let target = Toy::new(2, VOCAB, &layout);
        for (temperature, seed) in [(0.0, 0), (1.0, 5), (2.5, 6)] {
            let run = Run { temperature, seed, ..Run::new(&target, PROMPT) };
            let generation = run.with(from_table("model", &target, &run));
            let drafted: usize = generation.rounds.iter().map(|round| round.draft.len()).sum();
            let accepted: usize = generation.rounds.iter().map(|round| round.accepted).sum();
            assert!(drafted > 20);
            assert_eq!(accepted, drafted, "{layout:?} at {temperature}");
            assert_eq!(generation.tokens, run.plain().tokens);
        }
    }
}

#[test]
fn seeds_matter_and_repeat() {
    let target = Toy::new(3, VOCAB, &[FULL]);
    let with_seed = |seed| Run { temperature: 1.0, seed, ..Run::new(&target, PROMPT) }.plain().tokens;
    assert_eq!(with_seed(1), with_seed(1));
    assert_ne!(with_seed(1), with_seed(2));
}

#[test]
fn two_hundred_seeds_agree_with_plain_decoding() {
    let layout = [rows(Some(4)), FULL, SlotLayout::State];
    let target = Toy::new(6, VOCAB, &layout);
    for seed in 0..200 {
        let run = Run { temperature: 1.3, seed, max_tokens: 20, ..Run::new(&target, PROMPT) };
        let plain = run.plain();
        let answer = [PROMPT, &plain.tokens].concat();
        let trees = Trees { answer: &answer, vocab_size: VOCAB as u32, choices: Choices::new(seed) };
        assert_eq!(run.with(Box::new(trees)).tokens, plain.tokens, "seed {seed}");
    }
}

#[test]
fn coupled_text_is_plain_text_with_every_processor() {
    let target = Toy::new(17, VOCAB, &[FULL, rows(Some(4))]);
    let model = Toy::new(5, VOCAB, &[FULL]);
    let plain = SamplingParams::default;
    let processors = [
        SamplingParams { repetition_penalty: 1.4, ..plain() },
        SamplingParams { frequency_penalty: 0.7, presence_penalty: 0.4, ..plain() },
        SamplingParams { logit_bias: vec![(3, 1.5), (4, f32::NEG_INFINITY)], ..plain() },
        SamplingParams { top_k: 3, ..plain() },
        SamplingParams { top_p: 0.6, ..plain() },
        SamplingParams { min_p: 0.2, ..plain() },
        SamplingParams { typical_p: 0.5, ..plain() },
        SamplingParams { repetition_penalty: 1.2, top_k: 6, top_p: 0.8, min_p: 0.05, ..plain() },
    ];
    for sampling in processors {
        for seed in 0..200 {
            let max_draft = 1 + seed as usize % 5;
            let sampling = sampling.clone();
            let run = Run {
                temperature: 1.1,
                seed,
                max_draft,
                max_tokens: 16,
                sampling,
                ..Run::new(&target, PROMPT)
            };
            let plain = run.plain();
            let answer = [PROMPT, &plain.tokens].concat();
            let trees = Trees { answer: &answer, vocab_size: VOCAB as u32, choices: Choices::new(seed) };
            let mut drafters: Vec<Box<dyn Drafter>> = vec![Box::new(trees)];
            let kind = &DRAFTERS[seed as usize % DRAFTERS.len()];
            drafters.push(from_table(kind.name, &model, &run));
            for drafter in drafters {
                assert_eq!(run.with(drafter).tokens, plain.tokens, "seed {seed}, {:?}", run.sampling);
            }
        }
    }
}

#[test]
fn no_draft_length_changes_the_text() {
    let target = Toy::new(18, VOCAB, &[FULL, rows(Some(5))]);
    let model = Toy::new(5, VOCAB, &[FULL]);
    for (temperature, seed) in [(0.0, 0), (1.0, 5)] {
        let run = Run {
            temperature,
            seed,
            max_tokens: 300,
            max_draft: 8,
            scheduler: AUTO,
            ..Run::new(&target, PROMPT)
        };
        let plain = run.plain();
        for kind in DRAFTERS {
            for min_confidence in [0.0, 0.3] {
                let parts = DrafterParts {
                    target: &target,
                    model: Some(&model),
                    shared_vocab: VOCAB,
                    run_len: run.request().run_len(),
                    max_draft: run.max_draft,
                    ngram: NgramOptions::default(),
                    min_confidence,
                };
                assert_eq!(run.with((kind.build)(parts).unwrap()).tokens, plain.tokens, "{}", kind.name);
            }
        }
    }
}

#[test]
fn a_stop_token_ends_the_text_wherever_it_falls() {
    let target = Toy::new(7, VOCAB, &[FULL, rows(Some(4))]);
    let whole = Run::new(&target, PROMPT).plain().tokens;
    for stop in 0..VOCAB as u32 {
        let stop_ids = [stop];
        let run = Run { stop_ids: &stop_ids, max_draft: 6, ..Run::new(&target, PROMPT) };
        let plain = run.plain();
        let expected_len = whole.iter().position(|token| *token == stop).map_or(whole.len(), |at| at + 1);
        assert_eq!(plain.tokens, whole[..expected_len]);
        // The oracle drafts past the stop: what it drafted behind it is neither emitted nor accepted.
        let answer = [PROMPT, &whole].concat();
        let scripts = [(true, Scripted::oracle(&answer)), (false, Scripted::mixed(&answer, VOCAB as u32, 9))];
        for (is_oracle, drafter) in scripts {
            let generation = run.with(Box::new(drafter));
            assert_eq!(generation.tokens, plain.tokens, "stop {stop}");
            assert_eq!(generation.finish_reason, plain.finish_reason);
            let last = generation.rounds.last().unwrap();
            assert_eq!(last.accepted, last.draft.iter().filter(|token| token.accepted).count());
            if is_oracle {
                assert_eq!(last.drafted().count(), last.accepted, "an oracle stays right up to the stop");
            }
        }
    }
}

/// Ends the text after so many tokens.
struct Until {
    seen: usize,
    limit: usize,
}

impl Observer for Until {
    fn token(&mut self, _: &Emitted) -> specdec::error::Result<ControlFlow<FinishReason>> {
        self.seen += 1;
        let ends = self.seen == self.limit;
        Ok(if ends { ControlFlow::Break(FinishReason::Interrupted) } else { ControlFlow::Continue(()) })
    }
}

#[test]
fn an_observer_can_end_the_text_inside_a_draft() {
    let target = Toy::new(8, VOCAB, &[FULL]);
    let run = Run { max_draft: 6, ..Run::new(&target, PROMPT) };
    let whole = run.plain().tokens;
    let answer = [PROMPT, &whole].concat();
    for limit in 1..15 {
        let clock = TickingClock::default();
        let mut setup = Setup {
            target: &target,
            drafter: Box::new(Scripted::oracle(&answer)),
            rule: (RULES[0].build)(),
            scheduler: (FIXED.build)(&[], 6),
            clock: &clock,
        };
        let mut until = Until { seen: 0, limit };
        let generation = decode::generate(&mut setup, &run.request(), &mut until).unwrap();
        assert_eq!(generation.tokens, whole[..limit]);
        assert_eq!(generation.finish_reason, FinishReason::Interrupted);
    }
}

#[test]
fn length_and_context_are_never_exceeded() {
    let target = Toy::new(9, VOCAB, &[FULL]);
    let whole = Run { max_tokens: 60, ..Run::new(&target, PROMPT) }.plain().tokens;
    let answer = [PROMPT, &whole].concat();
    for max_tokens in 1..20 {
        for context_len in [PROMPT.len() + 1, PROMPT.len() + 7, 1000] {
            let run = Run { max_tokens, context_len, max_draft: 5, ..Run::new(&target, PROMPT) };
            let generation = run.with(Box::new(Scripted::oracle(&answer)));
            let expected = max_tokens.min(context_len - PROMPT.len());
            assert_eq!(generation.tokens, whole[..expected]);
            let reason = if context_len - PROMPT.len() <= max_tokens {
                FinishReason::ContextLength
            } else {
                FinishReason::Length
            };
            assert_eq!(generation.finish_reason, reason, "{max_tokens} in {context_len}");
        }
    }
}

#[test]
fn a_drafter_with_a_full_context_falls_silent() {
    let target = Toy::new(10, VOCAB, &[FULL]);
    let model = Toy::new(5, VOCAB, &[FULL]);
    let run = Run { max_tokens: 60, ..Run::new(&target, PROMPT) };
    let kind = DRAFTERS.iter().find(|kind| kind.name == "model").unwrap();
    let parts = DrafterParts {
        target: &target,
        model: Some(&model),
        shared_vocab: VOCAB,
        run_len: PROMPT.len() + 12,
        max_draft: run.max_draft,
        ngram: NgramOptions::default(),
        min_confidence: 0.0,
    };
    let generation = run.with((kind.build)(parts).unwrap());
    assert_eq!(generation.tokens, run.plain().tokens);
    let (drafting, silent): (Vec<_>, Vec<_>) =
        generation.rounds.iter().partition(|round| !round.draft.is_empty());
    assert!(!drafting.is_empty() && silent.len() > 30, "{} and {}", drafting.len(), silent.len());
}

#[test]
fn ids_that_only_the_drafter_knows_are_never_drafted() {
    let target = Toy::new(11, VOCAB, &[FULL]);
    let model = Toy::new(5, VOCAB + 20, &[FULL]);
    let run = Run { temperature: 2.0, ..Run::new(&target, PROMPT) };
    let generation = run.with(from_table("model", &model, &run));
    assert_eq!(generation.tokens, run.plain().tokens);
    assert!(
        generation.rounds.iter().flat_map(|round| &round.draft).all(|token| (token.token as usize) < VOCAB)
    );
}

#[test]
fn a_drafter_that_lacks_a_token_falls_silent() {
    let target = Toy::new(15, VOCAB, &[FULL]);
    let model = Toy::new(5, VOCAB - 4, &[FULL]);
    let run = Run { temperature: 2.0, ..Run::new(&target, PROMPT) };
    let generation = run.with(from_table("model", &model, &run));
    assert_eq!(generation.tokens, run.plain().tokens);
    assert!(generation.tokens.iter().any(|token| *token as usize >= VOCAB - 4), "the case occurs");
}

#[test]
fn a_model_that_cannot_go_back_does_not_draft() {
    let target = Toy::new(16, VOCAB, &[FULL]);
    let run = Run::new(&target, PROMPT);
    let model = Toy::new(5, VOCAB, &[FULL, SlotLayout::State]);
    for kind in DRAFTERS.iter().filter(|kind| kind.needs_model) {
        let parts = DrafterParts {
            target: &target,
            model: Some(&model),
            shared_vocab: VOCAB,
            run_len: run.request().run_len(),
            max_draft: run.max_draft,
            ngram: NgramOptions::default(),
            min_confidence: 0.0,
        };
        let refused = (kind.build)(parts).err().expect("it is refused before the run");
        assert_eq!(refused.exit_code(), specdec::error::ExitCode::Incompatible);
    }
}

#[test]
fn the_first_token_costs_no_extra_pass() {
    let target = Toy::new(12, VOCAB, &[FULL]);
    let run = Run { max_tokens: 1, ..Run::new(&target, PROMPT) };
    let generation = run.plain();
    assert_eq!(generation.rounds.len(), 1);
    assert_eq!(generation.rounds[0].prompt_rows, PROMPT.len() - 1);
}

#[test]
fn taps_reach_a_drafter_once_in_order_and_whole() {
    let target = Toy::new(13, VOCAB, &[FULL, rows(Some(6))]);
    // Longer than two chunks, so that taps come in `begin` too.
    let prompt: Vec<u32> = (0..2 * PREFILL_CHUNK + 77).map(|i| (i * i % VOCAB) as u32).collect();
    let run = Run { max_tokens: 30, ..Run::new(&target, &prompt) };
    let plain = run.plain();
    let answer = [prompt.as_slice(), &plain.tokens].concat();
    let told = Rc::new(RefCell::new(Told::default()));
    let taps = vec![Tap::Final, Tap::Embedding];
    let script = Scripted::mixed(&answer, VOCAB as u32, 1);
    let generation = run.with(Box::new(Witness { taps: taps.clone(), script, told: told.clone() }));
    assert_eq!(generation.tokens, plain.tokens);

    let told = told.borrow();
    let read = &answer[..answer.len() - 1];
    assert_eq!(told.tokens, read);
    assert_eq!(told.emitted, plain.tokens.len());
    let mut session = specdec::model::Session::new(&target, answer.len(), 0);
    let hidden = session.extend(read, &taps).unwrap();
    for (told, tap) in told.taps.iter().zip(&hidden.taps) {
        assert_eq!(*told, tap.to_vec2::<f32>().unwrap());
    }
}

#[test]
fn bad_requests_are_errors() {
    let target = Toy::new(14, VOCAB, &[FULL]);
    let clock = TickingClock::default();
    let attempt = |run: &Run<'_>| {
        let mut setup = Setup {
            target: &target,
            drafter: from_table("none", &target, run),
            rule: (RULES[0].build)(),
            scheduler: (FIXED.build)(&[], 4),
            clock: &clock,
        };
        decode::generate(&mut setup, &run.request(), &mut Unwatched).unwrap_err().to_string()
    };
    assert!(attempt(&Run::new(&target, &[])).contains("nothing to continue"));
    assert!(
        attempt(&Run { context_len: PROMPT.len(), ..Run::new(&target, PROMPT) })
            .contains("12 tokens are needed")
    );
    assert!(attempt(&Run::new(&target, &[1, 99])).contains("token id 99"));
}
