//! Time from a row of logits to a token, for a vocabulary of 152,000.
//!
//! `cargo bench --bench sampling` prints medians per row.
#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]
#![expect(clippy::cast_possible_truncation, reason = "made-up logits may be rounded")]

use std::time::Instant;

use specdec::sampling::{Distribution, History, Noise, Purpose, SamplingParams};

const VOCAB: usize = 152_000;
const ROWS: usize = 8;
const REPEATS: usize = 15;

/// Logits of a model that is sure of a few tokens, as most rows are (`peak` 12), or of none (`peak` 0).
fn row(seed: usize, peak: f32) -> Vec<f32> {
    let noise = Noise::new(seed as u64, 1);
    let uniform = |token: usize, number| noise.uniform(Purpose::Draft, token, &[], number) as f32;
    // The sum of four uniform numbers is near enough to a normal one.
    let normal = |token| (0..4).map(|number| uniform(token, number)).sum::<f32>() * 1.7 - 3.4;
    (0..VOCAB).map(|token| normal(token) * 2.5 + if token % 9_973 == seed { peak } else { 0.0 }).collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let off = SamplingParams { temperature: 0.8, ..SamplingParams::default() };
    let cases = [
        ("temperature 0.8", off.clone()),
        ("temperature 0.8, top-p 0.95", SamplingParams { top_p: 0.95, ..off.clone() }),
        ("temperature 0.8, top-k 40, top-p 0.95", SamplingParams { top_k: 40, top_p: 0.95, ..off.clone() }),
        ("temperature 0.8, min-p 0.05", SamplingParams { min_p: 0.05, ..off }),
    ];
    for (kind, peak) in [("peaked", 12.0), ("flat", 0.0)] {
        let rows: Vec<Vec<f32>> = (0..ROWS).map(|seed| row(seed, peak)).collect();
        for (name, params) in &cases {
            let history = History { emitted: &[1, 2, 3], path: &[], prompt_len: 3 };
            let (mut coupled, mut drawn, mut sum) = (Vec::new(), Vec::new(), 0u64);
            for repeat in 0..REPEATS {
                let start = Instant::now();
                for row in &rows {
                    let row = Distribution::new(row, params, history).expect("logits are numbers");
                    sum += u64::from(row.choose(Noise::new(repeat as u64, 0).at(3)));
                }
                coupled.push(start.elapsed().as_secs_f64() / ROWS as f64);
                let start = Instant::now();
                for row in &rows {
                    let row = Distribution::new(row, params, history).expect("logits are numbers");
                    sum += u64::from(row.probabilities().draw(0.5));
                }
                drawn.push(start.elapsed().as_secs_f64() / ROWS as f64);
            }
            println!(
                "{kind}, {name}: coupled {:.3} ms, drawn {:.3} ms per row ({sum})",
                median(coupled) * 1e3,
                median(drawn) * 1e3
            );
        }
    }
}
