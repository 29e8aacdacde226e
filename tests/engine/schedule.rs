//! The automatic draft length, on machines and drafters whose costs and acceptance are made up.

use specdec::speculation::schedule::{AUTO, Scheduler};
use specdec::speculation::{DraftedToken, Round, Source};

use crate::support::Choices;

const MODEL: Source = Source("model");
const NGRAM: Source = Source("ngram");

/// A machine and a text.
struct World {
    /// Seconds of a pass over so many rows, in passes of one row.
    pass: fn(usize) -> f64,
    /// Seconds of one draft step, in passes of one row.
    step_s: f64,
    /// Seconds the drafter needs per token it has not read.
    catch_up_s: f64,
    /// Probability that a token is accepted, given that it was reached, by number of tokens emitted.
    acceptance: fn(usize) -> f64,
    /// Of how many rounds the source finds something, in percent.
    finds: usize,
    /// Disturbance of times, in percent.
    noise: usize,
}

const STEEP: World = World {
    pass: |rows| 1.0 + 0.5 * (rows as f64 - 1.0),
    step_s: 0.4,
    catch_up_s: 0.0,
    acceptance: |_| 0.0,
    finds: 100,
    noise: 10,
};

/// Seconds that `num_tokens` take, and tokens emitted with a draft, with a fixed length or the scheduler.
fn run(world: &World, source: Source, num_tokens: usize, fixed: Option<usize>, seed: u64) -> f64 {
    let sources: &'static [Source] = if source == MODEL { &[MODEL] } else { &[NGRAM] };
    let mut scheduler: Box<dyn Scheduler> = (AUTO.build)(sources, 16);
    let mut choices = Choices::new(seed);
    let (mut emitted, mut elapsed_s, mut unread) = (0, 0.0, 0usize);
    let mut is_first = true;
    while emitted < num_tokens {
        let budget = fixed.unwrap_or_else(|| scheduler.next().of(source)).min(num_tokens - emitted);
        let drafted = if choices.below(100) < world.finds { budget } else { 0 };
        let mut accepted = 0;
        while accepted < drafted
            && (choices.below(10_000) as f64) < (world.acceptance)(emitted + accepted) * 10_000.0
        {
            accepted += 1;
        }
        let mut disturbed =
            |seconds: f64| seconds * (1.0 + choices.below(world.noise * 2 + 1) as f64 / 100.0);
        let draft_s =
            if drafted > 0 { drafted as f64 * world.step_s + unread as f64 * world.catch_up_s } else { 0.0 };
        let round = Round {
            anchor_position: emitted,
            prompt_rows: 0,
            budget,
            parked: Vec::new(),
            draft: (1..=drafted)
                .map(|depth| DraftedToken {
                    token: 0,
                    depth,
                    source,
                    accepted: depth <= accepted,
                    discarded: false,
                })
                .collect(),
            accepted,
            corrected: accepted < drafted,
            emitted: accepted + 1,
            draft_s: disturbed(draft_s),
            verify_s: disturbed((world.pass)(1 + drafted)),
            other_s: 0.0,
        };
        unread = if drafted > 0 { 0 } else { unread + 1 };
        emitted += round.emitted;
        if !is_first {
            elapsed_s += round.total_s();
        }
        is_first = false;
        scheduler.observe(&round);
    }
    elapsed_s
}

/// Time with the scheduler against the best of plain steps and all fixed lengths, averaged over seeds.
fn against_best(world: &World, source: Source, num_tokens: usize) -> f64 {
    let mean = |fixed| (0..8).map(|seed| run(world, source, num_tokens, fixed, seed)).sum::<f64>() / 8.0;
    let best = (0..=16).map(|k| mean(Some(k))).fold(f64::INFINITY, f64::min);
    mean(None) / best
}

#[test]
fn an_adversary_costs_less_than_three_percent() {
    for step_s in [0.0, 0.1, 0.4, 1.0] {
        for catch_up_s in [0.0, 0.05] {
            let world = World { step_s, catch_up_s, ..STEEP };
            let ratio = against_best(&world, MODEL, 1000);
            assert!(ratio < 1.03, "step {step_s}, catching up {catch_up_s}: {ratio}");
        }
    }
}

#[test]
fn lookup_on_prose_costs_less_than_two_percent() {
    for (finds, acceptance) in [(5, (|_| 0.1) as fn(usize) -> f64), (20, |_| 0.2)] {
        let world = World { step_s: 0.0, finds, acceptance, ..STEEP };
        let ratio = against_best(&world, NGRAM, 400);
        assert!(ratio < 1.02, "finds {finds} %: {ratio}");
    }
}

#[test]
fn a_good_drafter_on_a_flat_machine_drafts_long() {
    let flat = World { pass: |rows| 1.0 + 0.02 * (rows as f64 - 1.0), step_s: 0.1, ..STEEP };
    for acceptance in [(|_| 0.9) as fn(usize) -> f64, |_| 0.7, |_| 0.5] {
        let ratio = against_best(&World { acceptance, ..flat }, MODEL, 600);
        assert!(ratio < 1.06, "{ratio}");
    }
    let ratio = against_best(&World { acceptance: |_| 1.0, step_s: 0.0, ..flat }, NGRAM, 600);
    assert!(ratio < 1.25, "the first rounds are short, the others as long as can be: {ratio}");
}

#[test]
fn a_parked_source_comes_back_when_the_text_changes() {
    // Nothing is accepted at first, everything later.
    let world = World {
        pass: |rows| 1.0 + 0.1 * (rows as f64 - 1.0),
        step_s: 0.05,
        acceptance: |emitted| if emitted < 400 { 0.0 } else { 0.95 },
        ..STEEP
    };
    let plain = run(&world, MODEL, 1600, Some(0), 1);
    let auto = run(&world, MODEL, 1600, None, 1);
    assert!(auto < 0.7 * plain, "{auto} against {plain}");
}

#[test]
fn nothing_is_parked_before_it_was_tried() {
    let mut scheduler = (AUTO.build)(&[MODEL], 16);
    assert!(scheduler.parked().is_empty());
    assert!(scheduler.next().of(MODEL) > 0);
}
