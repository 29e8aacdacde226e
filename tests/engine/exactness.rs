//! Speculative sampling gives the target's distribution: by summation over everything a drafter can draw,
//! and by counting what whole runs emit.

use std::collections::HashMap;
use std::sync::Arc;

use specdec::decode::{self, Setup, Unwatched};
use specdec::error::Result;
use specdec::sampling::{Noise, Probabilities, Purpose, SamplingParams};
use specdec::speculation::acceptance::{RULES, Remainder};
use specdec::speculation::drafter::{DRAFTERS, DraftContext, Drafter, DrafterParts, Needs, NgramOptions};
use specdec::speculation::drafter::{Outcome, ReadRows};
use specdec::speculation::schedule::{Budget, FIXED};
use specdec::speculation::{Draft, DraftNode, Proposal, Source};

use crate::support::toy::{FULL, Toy};
use crate::support::{Choices, Run, TickingClock, shared};

const SOURCE: Source = Source("test");

/// A random distribution over `size` tokens; about a third of them have no probability.
fn random(choices: &mut Choices, size: usize) -> Probabilities {
    let mut weights: Vec<f32> = (0..size).map(|_| choices.below(1000).saturating_sub(300) as f32).collect();
    weights[choices.below(size)] += 1.0;
    // Far from even now and then.
    if choices.below(2) == 0 {
        weights[choices.below(size)] *= 1000.0;
    }
    Probabilities::new(None, weights)
}

fn node(token: u32, proposal: Proposal) -> DraftNode {
    DraftNode { token, parent: None, proposal, source: SOURCE }
}

/// What a rule emits first, when `count` siblings are drawn from `proposals` without replacement: summed
/// over all they can be. `judge` gives the acceptance of a sibling and what is left after its refusal.
fn emitted<R: Clone>(
    size: usize,
    proposal: &Arc<Probabilities>,
    count: usize,
    start: R,
    judge: &dyn Fn(&R, &DraftNode) -> (f64, R),
    rest: &dyn Fn(&R, u32) -> f64,
) -> Vec<f64> {
    let mut out = vec![0.0; size];
    // Siblings drawn so far, what is left of q, what is left of the rule's p, probability of being here.
    let mut open = vec![(count, Some((**proposal).clone()), start, 1.0)];
    while let Some((left, undrawn, state, reach)) = open.pop() {
        let Some(undrawn) = undrawn.filter(|_| left > 0) else {
            for (token, mass) in (0u32..).zip(&mut out) {
                *mass += reach * rest(&state, token);
            }
            continue;
        };
        for (token, q) in undrawn.iter().filter(|(_, q)| *q > 0.0) {
            let (acceptance, refused) = judge(&state, &node(token, Proposal::Sampled(Arc::clone(proposal))));
            out[token as usize] += reach * q * acceptance;
            if acceptance < 1.0 {
                open.push((left - 1, undrawn.without(token), refused, reach * q * (1.0 - acceptance)));
            }
        }
    }
    out
}

/// The rule's own arithmetic.
fn by_rule(remainder: &Remainder, node: &DraftNode) -> (f64, Remainder) {
    let mut refused = remainder.clone();
    refused.refuse(node);
    (remainder.acceptance(node), refused)
}

fn largest_difference(p: &Probabilities, emitted: &[f64]) -> f64 {
    (0u32..).zip(emitted).map(|(token, mass)| (mass - p.get(token)).abs()).fold(0.0, f64::max)
}

#[test]
fn accepted_and_residual_mass_is_the_target_for_chains_and_siblings() {
    let mut choices = Choices::new(1);
    for _ in 0..150 {
        let (p, q) = (random(&mut choices, 5), Arc::new(random(&mut choices, 5)));
        for siblings in 1..=3 {
            let out = emitted(5, &q, siblings, Remainder::new(&p), &by_rule, &|rest, token| rest.get(token));
            let worst = largest_difference(&p, &out);
            assert!(worst < 1e-12, "{siblings} siblings: {worst:e}\np {p:?}\nq {q:?}");
        }
        // The target as its own drafter is never refused.
        let own = Arc::new(p.clone());
        for (token, _) in p.iter().filter(|(_, mass)| *mass > 0.0) {
            let sampled = node(token, Proposal::Sampled(Arc::clone(&own)));
            assert!(Remainder::new(&p).acceptance(&sampled) >= 1.0);
        }
    }
}

#[test]
fn deterministic_siblings_are_point_masses() {
    let mut choices = Choices::new(2);
    for _ in 0..100 {
        let p = random(&mut choices, 6);
        let mut out = vec![0.0; 6];
        let (mut remainder, mut reach) = (Remainder::new(&p), 1.0);
        for token in [4, 1, 3] {
            let point = node(token, Proposal::Point);
            let acceptance = remainder.acceptance(&point);
            out[token as usize] += reach * acceptance;
            reach *= 1.0 - acceptance;
            remainder.refuse(&point);
        }
        for (token, mass) in (0u32..).zip(&mut out) {
            *mass += reach * remainder.get(token);
        }
        assert!(largest_difference(&p, &out) < 1e-12);
    }
}

#[test]
fn broken_rules_are_found() {
    let mut choices = Choices::new(3);
    let mut found = [0; 3];
    for _ in 0..50 {
        let (p, q) = (random(&mut choices, 5), Arc::new(random(&mut choices, 5)));
        let other = random(&mut choices, 5);
        let rest = |state: &Probabilities, token: u32| state.get(token);
        // The residual is skipped: after a refusal p itself is drawn from.
        let no_residual =
            |state: &Probabilities, node: &DraftNode| (Remainder::new(state).acceptance(node), state.clone());
        let swapped = |state: &Remainder, node: &DraftNode| {
            let mut refused = state.clone();
            refused.refuse(node);
            ((q.get(node.token) / state.get(node.token)).min(1.0), refused)
        };
        // The rule is told another q than tokens were drawn from, as when processors differ.
        let other = Arc::new(other);
        let foreign = |state: &Remainder, drawn: &DraftNode| {
            by_rule(state, &node(drawn.token, Proposal::Sampled(Arc::clone(&other))))
        };
        let start = || Remainder::new(&p);
        let outs = [
            emitted(5, &q, 1, p.clone(), &no_residual, &rest),
            emitted(5, &q, 1, start(), &swapped, &|state, token| state.get(token)),
            emitted(5, &q, 1, start(), &foreign, &|state, token| state.get(token)),
        ];
        for (count, out) in found.iter_mut().zip(&outs) {
            *count += usize::from(largest_difference(&p, out) > 1e-3);
        }
    }
    assert!(found.iter().all(|count| *count > 40), "{found:?} of 50 each");
}

/// Draws from its own even distribution, and drops tokens it likes less than a threshold.
struct Biased {
    /// Whether the decision looks at the drawn token (wrong) or at what was known before (right).
    looks_ahead: bool,
}

impl Drafter for Biased {
    fn needs(&self) -> Needs {
        Needs::default()
    }

    fn begin(&mut self, _: &DraftContext<'_>, _: &ReadRows<'_>) -> Result<()> {
        Ok(())
    }

    fn propose(&mut self, context: &DraftContext<'_>, tokens: &[u32], budget: &Budget) -> Result<Draft> {
        let mut draft = Draft::default();
        let mut path = Vec::new();
        for depth in 0..budget.of(SOURCE) {
            // Half of the vocabulary is likely.
            let logits: Vec<f32> = (0..8).map(|token| if token < 4 { 1.0 } else { 0.0 }).collect();
            let known_before = path.len() < 2;
            let (token, proposal) = context.choose(&logits, tokens, &path)?;
            if if self.looks_ahead { token >= 4 } else { !known_before } {
                break;
            }
            draft.push(DraftNode { token, parent: depth.checked_sub(1), proposal, source: SOURCE });
            path.push(token);
        }
        Ok(draft)
    }

    fn observe(&mut self, _: &DraftContext<'_>, _: &Outcome<'_>) -> Result<()> {
        Ok(())
    }
}

/// Two siblings drawn without replacement, and a child of each drawn from another distribution.
struct SampledTree;

impl Drafter for SampledTree {
    fn needs(&self) -> Needs {
        Needs { branching: true, ..Needs::default() }
    }

    fn begin(&mut self, _: &DraftContext<'_>, _: &ReadRows<'_>) -> Result<()> {
        Ok(())
    }

    fn propose(&mut self, context: &DraftContext<'_>, tokens: &[u32], budget: &Budget) -> Result<Draft> {
        let mut draft = Draft::default();
        if budget.of(SOURCE) < 4 {
            return Ok(draft);
        }
        let uniform =
            |path: &[u32], number| context.noise.uniform(Purpose::Draft, tokens.len(), path, number);
        let shared = Arc::new(Probabilities::new(None, vec![9.0, 1.0, 4.0, 1.0, 0.0]));
        let first = shared.draw(uniform(&[], 0));
        let second = shared.without(first).expect("four tokens have weight").draw(uniform(&[], 1));
        for token in [first, second] {
            let proposal = Proposal::Sampled(Arc::clone(&shared));
            draft.push(DraftNode { token, parent: None, proposal, source: SOURCE });
        }
        let even = Arc::new(Probabilities::new(None, vec![1.0; 5]));
        for (parent, before) in [first, second].into_iter().enumerate() {
            let token = even.draw(uniform(&[before], 0));
            let proposal = Proposal::Sampled(Arc::clone(&even));
            draft.push(DraftNode { token, parent: Some(parent), proposal, source: SOURCE });
        }
        Ok(draft)
    }

    fn observe(&mut self, _: &DraftContext<'_>, _: &Outcome<'_>) -> Result<()> {
        Ok(())
    }
}

#[test]
fn runs_with_sampled_siblings_have_the_distribution_of_plain_ones() {
    let target = Toy::new(23, 5, &[FULL]);
    let total = 8000;
    let mut counts = [[0.0f64; 25]; 2];
    for seed in 0..2 * total {
        let is_drafted = seed >= total;
        let run = Run {
            temperature: 1.5,
            seed,
            max_tokens: 6,
            rule: "speculative-sampling",
            ..Run::new(&target, &[1, 2, 3])
        };
        let generation = if is_drafted { run.with(Box::new(SampledTree)) } else { run.plain() };
        let [a, b] = generation.tokens[..2] else { panic!("two tokens") };
        counts[usize::from(is_drafted)][(a * 5 + b) as usize] += 1.0 / total as f64;
    }
    let distance: f64 = counts[0].iter().zip(&counts[1]).map(|(a, b)| (a - b).abs()).sum();
    // 25 cells of 8,000 draws each differ by about 0.03 by chance.
    assert!(distance / 2.0 < 0.045, "{}", distance / 2.0);
}

/// Total variation distance between the first tokens of many runs and plain sampling.
fn bias_of(looks_ahead: bool) -> f64 {
    let target = Toy::new(4, 8, &[FULL]);
    let count = |drafter: &dyn Fn() -> Option<Biased>, first_seed: u64| {
        let mut counts = [0.0; 8];
        for seed in first_seed..first_seed + 6000 {
            let run = Run {
                temperature: 2.0,
                seed,
                max_tokens: 2,
                rule: "speculative-sampling",
                ..Run::new(&target, &[1, 2, 3])
            };
            let tokens = match drafter() {
                Some(drafter) => run.with(Box::new(drafter)).tokens,
                None => run.plain().tokens,
            };
            counts[tokens[0] as usize] += 1.0 / 6000.0;
        }
        counts
    };
    let plain = count(&|| None, 0);
    let drafted = count(&|| Some(Biased { looks_ahead }), 100_000);
    plain.iter().zip(drafted).map(|(a, b): (&f64, f64)| (a - b).abs()).sum::<f64>() / 2.0
}

#[test]
fn length_decisions_that_look_at_the_drawn_token_are_biased_and_others_are_not() {
    let (wrong, right) = (bias_of(true), bias_of(false));
    assert!(wrong > 0.05, "the counter-example shows: {wrong}");
    assert!(right < 0.03, "{right}");
}

#[test]
fn stopping_at_low_confidence_does_not_bias() {
    // The first three tokens of the model drafter with a confidence threshold, against plain sampling.
    let (target, model) = (Toy::new(21, 5, &[FULL]), Toy::new(22, 5, &[FULL]));
    let kind = DRAFTERS.iter().find(|kind| kind.name == "model").unwrap();
    let mut counts: [HashMap<Vec<u32>, f64>; 2] = Default::default();
    let total = 8000;
    for seed in 0..2 * total {
        let run = Run {
            temperature: 1.5,
            seed,
            max_tokens: 3,
            rule: "speculative-sampling",
            ..Run::new(&target, &[1, 2, 3])
        };
        let is_drafted = seed >= total;
        let tokens = if is_drafted {
            let parts = DrafterParts {
                target: &target,
                model: Some(&model),
                shared_vocab: 5,
                run_len: 20,
                max_draft: 3,
                ngram: NgramOptions::default(),
                min_confidence: 0.4,
            };
            run.with((kind.build)(parts).unwrap()).tokens
        } else {
            run.plain().tokens
        };
        *counts[usize::from(is_drafted)].entry(tokens).or_default() += 1.0 / total as f64;
    }
    let [plain, drafted] = counts;
    let keys: std::collections::HashSet<_> = plain.keys().chain(drafted.keys()).collect();
    let get = |of: &HashMap<Vec<u32>, f64>, key: &Vec<u32>| of.get(key).copied().unwrap_or(0.0);
    let distance: f64 = keys.iter().map(|key| (get(&plain, key) - get(&drafted, key)).abs()).sum();
    // 125 cells of 8,000 draws each differ by about 0.07 by chance.
    assert!(distance / 2.0 < 0.1, "{}", distance / 2.0);
}

#[test]
fn uniform_numbers_are_fresh_for_every_decision() {
    let noise = Noise::new(1, 0);
    let base = noise.uniform(Purpose::Draft, 5, &[1, 2], 0);
    assert!((0.0..1.0).contains(&base));
    for other in [
        noise.uniform(Purpose::Acceptance, 5, &[1, 2], 0),
        noise.uniform(Purpose::Draft, 6, &[1, 2], 0),
        noise.uniform(Purpose::Draft, 5, &[2, 1], 0),
        noise.uniform(Purpose::Draft, 5, &[1, 2], 1),
        Noise::new(2, 0).uniform(Purpose::Draft, 5, &[1, 2], 0),
    ] {
        assert!((base - other).abs() > 1e-12);
    }
}

/// One setting of `reference.json`, as parameters.
fn setting(value: &serde_json::Value) -> SamplingParams {
    let number = |key: &str| value[key].as_f64();
    SamplingParams {
        temperature: number("temperature").unwrap_or(1.0),
        top_k: value["top_k"].as_u64().unwrap_or(0) as usize,
        top_p: number("top_p").unwrap_or(1.0),
        min_p: number("min_p").unwrap_or(0.0),
        ..SamplingParams::default()
    }
}

#[test]
fn whole_runs_have_the_exact_distribution_of_the_references() {
    let Some(folder) = shared("fixtures/sampling") else { return };
    let pairs = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    for pair in pairs.filter(|path| path.is_dir()) {
        let text = std::fs::read_to_string(pair.join("reference.json")).unwrap();
        let reference: serde_json::Value = serde_json::from_str(&text).unwrap();
        let tensors =
            candle_core::safetensors::load(pair.join("reference.safetensors"), &candle_core::Device::Cpu)
                .unwrap();
        let prompt: Vec<u32> =
            reference["prompt"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect();
        let target = super::models::load(&pair.join("target"));
        let drafts = ["draft", "draft_close", "target"];
        let models = drafts.map(|name| super::models::load(&pair.join(name)));
        let kind = DRAFTERS.iter().find(|kind| kind.name == "model").unwrap();
        for (turn, (name, value)) in reference["settings"].as_object().unwrap().iter().enumerate() {
            let joint: Vec<f64> = tensors[&format!("{name}.joint")].flatten_all().unwrap().to_vec1().unwrap();
            // Every draft meets every length, over the settings.
            let lengths = [4, 2, 1].into_iter().cycle().skip(turn);
            let cases = drafts.iter().zip(&models).zip(lengths);
            for ((draft, model), max_draft) in cases {
                let total = 1500;
                let mut counts = vec![0.0; joint.len()];
                let (mut drafted, mut accepted) = (0, 0);
                for seed in 0..total {
                    let params = setting(value);
                    let run = Run {
                        temperature: params.temperature,
                        sampling: params,
                        seed,
                        max_tokens: 6,
                        max_draft,
                        rule: "speculative-sampling",
                        ..Run::new(&target, &prompt)
                    };
                    let parts = DrafterParts {
                        target: &target,
                        model: Some(model),
                        shared_vocab: 16,
                        run_len: run.request().run_len(),
                        max_draft,
                        ngram: NgramOptions::default(),
                        min_confidence: 0.0,
                    };
                    let clock = TickingClock::default();
                    let rule = RULES.iter().find(|rule| rule.name == run.rule).unwrap();
                    let mut setup = Setup {
                        target: &target,
                        drafter: (kind.build)(parts).unwrap(),
                        rule: (rule.build)(),
                        scheduler: (FIXED.build)(&[], max_draft),
                        clock: &clock,
                    };
                    let generation = decode::generate(&mut setup, &run.request(), &mut Unwatched).unwrap();
                    let [a, b, c] = generation.tokens[..3] else { panic!("three tokens") };
                    counts[(a as usize * 16 + b as usize) * 16 + c as usize] += 1.0;
                    drafted += generation.rounds.iter().map(|round| round.draft.len()).sum::<usize>();
                    accepted += generation.rounds.iter().map(|round| round.accepted).sum::<usize>();
                }
                let what = format!("{name}, {draft}, k {max_draft}");
                let chi_square = chi_square(&joint, &counts, total as f64, &what);
                assert!(chi_square < 5.0, "{what}: {chi_square} standard deviations");
                assert!(*draft != "target" || accepted == drafted, "{what}: {accepted} of {drafted}");
            }
        }
    }
}

/// Pearson's statistic over cells with an expected count of at least 5, the rest pooled, in standard
/// deviations above its mean.
fn chi_square(joint: &[f64], counts: &[f64], total: f64, what: &str) -> f64 {
    let (mut statistic, mut cells, mut pooled) = (0.0, 0.0, (0.0, 0.0));
    for (p, count) in joint.iter().zip(counts) {
        assert!(*p > 0.0 || *count == 0.0, "{what}: something without probability was drawn");
        let expected = p * total;
        if expected >= 5.0 {
            statistic += (count - expected).powi(2) / expected;
            cells += 1.0;
        } else {
            pooled = (pooled.0 + expected, pooled.1 + count);
        }
    }
    if pooled.0 > 0.0 {
        statistic += (pooled.1 - pooled.0).powi(2) / pooled.0;
        cells += 1.0;
    }
    (statistic - (cells - 1.0)) / (2.0 * (cells - 1.0f64).max(1.0)).sqrt()
}
