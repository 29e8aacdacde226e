//! A real checkpoint, named by `SPECDEC_REAL_MODEL`: speculative runs give plain decoding's ids, or part
//! from them at a tie within what a block's logits differ from one-row logits on this machine.

use std::path::PathBuf;

use specdec::checkpoint::Checkpoint;
use specdec::model::{CausalLm, Decoder, Session};
use specdec::sampling::{Distribution, History, Noise, SamplingParams, cutoff_gap};
use specdec::speculation::drafter::{DRAFTERS, DrafterParts, NgramOptions};

use crate::support::Run;

/// Rows of the passes that are compared with one-row passes; kernels change with the number of rows.
const BLOCKS: [usize; 7] = [2, 3, 4, 5, 8, 16, 24];
const PROMPTS: [&str; 3] = [
    "The capital of France is",
    "def fibonacci(n):\n    if n < 2:\n        return n\n",
    "Write the list again. List: apples, pears, plums, cherries, grapes. Again: apples, pears,",
];

/// Logits of every position of `tokens` (`[tokens, vocab]`), read in blocks of `rows`.
fn logits(model: &Decoder, tokens: &[u32], rows: usize) -> Vec<Vec<f32>> {
    let mut session = Session::new(model, tokens.len(), 0);
    let chunks = tokens.chunks(rows);
    chunks
        .flat_map(|chunk| {
            let hidden = session.extend(chunk, &[]).unwrap();
            model.logits(&hidden.last).unwrap().to_vec2::<f32>().unwrap()
        })
        .collect()
}

/// Explains the first difference as a tie, or panics.
fn explain(model: &Decoder, run: &Run<'_>, plain: &[u32], other: &[u32], what: &str) {
    let at =
        plain.iter().zip(other).position(|(a, b)| a != b).expect("one text is not the other's beginning");
    let tokens = [run.prompt, &plain[..at]].concat();
    let single = logits(model, &tokens, 1);
    let band = BLOCKS.iter().map(|rows| {
        let block = logits(model, &tokens, *rows);
        let differences =
            single.iter().flatten().zip(block.iter().flatten()).map(|(a, b)| f64::from((a - b).abs()));
        let largest = differences.fold(0.0, f64::max);
        println!("passes of {rows} rows: logits differ from one-row passes by up to {largest:.2e}");
        largest
    });
    let band = band.fold(0.0, f64::max);
    let params = run.request().params;
    let last = single.last().unwrap();
    let history = History { emitted: &tokens, path: &[], prompt_len: run.prompt.len() };
    let row = Distribution::new(last, &params, history).unwrap();
    let noise = Noise::new(run.seed, 0).at(tokens.len());
    let score = |token| {
        if params.is_greedy() {
            f64::from(single.last().unwrap()[token as usize])
        } else {
            row.perturbed(token, noise)
        }
    };
    // Where a filter keeps only one of the two, its cut must be near; else their scores must be.
    let gap = if row.keeps(plain[at]) && row.keeps(other[at]) {
        (score(plain[at]) - score(other[at])).abs()
    } else {
        cutoff_gap(last, &params, history)
    };
    let allowed = 2.0 * band * if params.is_greedy() { 1.0 } else { run.temperature.recip() };
    println!(
        "{what}: token {at} differs ({} and {}): gap {gap:.2e}, band {allowed:.2e}",
        plain[at], other[at]
    );
    assert!(gap <= allowed, "{what}: not a tie");
}

#[test]
#[ignore = "needs a real checkpoint in SPECDEC_REAL_MODEL"]
fn real_model_gives_the_same_text_with_every_drafter() {
    let path =
        PathBuf::from(std::env::var("SPECDEC_REAL_MODEL").expect("SPECDEC_REAL_MODEL names a checkpoint"));
    let checkpoint = Checkpoint::open(&path).unwrap();
    let tokenizer = checkpoint.tokenizer.as_ref().expect("the file carries its tokenizer");
    let model = super::models::load(&path);
    let mut identical = 0;
    for text in PROMPTS {
        let prompt = tokenizer.encode(text).unwrap();
        for (temperature, top_p, rule) in [(0.0, 1.0, "greedy"), (0.8, 1.0, "coupled"), (0.8, 0.9, "coupled")]
        {
            let run = Run {
                temperature,
                sampling: SamplingParams { top_p, ..SamplingParams::default() },
                rule,
                seed: 1,
                max_tokens: 48,
                stop_ids: &checkpoint.eos_ids,
                ..Run::new(&model, &prompt)
            };
            let plain = run.plain().tokens;
            println!(
                "{text:?} at {temperature}: {:?}",
                tokenizer.decode(&plain, specdec::tokenizer::SpecialTokens::Keep)
            );
            for kind in DRAFTERS.iter().filter(|kind| kind.name != "none") {
                let parts = DrafterParts {
                    target: &model,
                    model: Some(&model),
                    shared_vocab: model.vocab_size(),
                    run_len: run.request().run_len(),
                    max_draft: run.max_draft,
                    ngram: NgramOptions::default(),
                    min_confidence: 0.0,
                };
                let generation = run.with((kind.build)(parts).unwrap());
                let what = format!("{} at {temperature}", kind.name);
                if generation.tokens == plain {
                    identical += 1;
                } else {
                    explain(&model, &run, &plain, &generation.tokens, &what);
                }
                let accepted: usize = generation.rounds.iter().map(|round| round.accepted).sum();
                assert!(kind.name != "model" || accepted > 20, "{what}: a model mostly agrees with itself");
            }
        }
    }
    println!("{identical} of {} speculative runs are identical to plain decoding", PROMPTS.len() * 3 * 3);
    assert!(identical > 0, "not one run is identical");
}
