//! Mutated configurations and GGUF headers: whatever the bytes, an answer or an error, never a panic.
//!
//! The mutations are drawn from a fixed seed, so a failure is found again. `SPECDEC_FUZZ_SECONDS` makes
//! them go on; the targets under `tests/fuzz` search with coverage instead.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::hostile;

/// Mutations of each kind in an ordinary run.
const ROUNDS: usize = 4000;

/// xorshift64*: fast, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % (limit.max(1) as u64)).unwrap()
    }
}

/// Fragments that mean something to a reader of configurations.
const WORDS: &[&str] = &[
    "0",
    "1",
    "-1",
    "64",
    "18446744073709551615",
    "1e400",
    "NaN",
    "Infinity",
    "null",
    "true",
    "[",
    "]",
    "{",
    "}",
    "\"",
    ",",
    ":",
    "\\u0000",
    "\u{1b}",
    "\"layer_types\":[\"full_attention\"]",
    "\"sliding_window\":8",
    "\"num_hidden_layers\":2",
    "\"kv_lora_rank\":4",
    "\"model_type\":\"mamba2\"",
    "\"text_config\":{",
    "\"is_encoder_decoder\":true",
    "\"num_nextn_predict_layers\":1",
    "\"dflash_config\":{\"target_layer_ids\":[9]}",
    "\"quantization_config\":{}",
];

fn mutated(seeds: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut bytes = seeds[random.below(seeds.len())].clone();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() + 1);
        match random.below(7) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 if at < bytes.len() => bytes[at] = random.next().to_le_bytes()[0],
            2 => bytes.truncate(at),
            3 => {
                let end = (at + random.below(24)).min(bytes.len());
                bytes.drain(at..end);
            }
            4 => {
                let word = WORDS[random.below(WORDS.len())];
                bytes.splice(at..at, word.bytes());
            }
            5 => {
                // A piece of another seed.
                let other = &seeds[random.below(seeds.len())];
                let from = random.below(other.len());
                let to = (from + random.below(64)).min(other.len());
                bytes.splice(at..at, other[from..to].iter().copied());
            }
            _ if at + 8 <= bytes.len() => {
                let big = [0, 1, 31, 1 << 16, 1 << 31, 1 << 40, u64::MAX][random.below(7)];
                bytes[at..at + 8].copy_from_slice(&big.to_le_bytes());
            }
            _ => {}
        }
    }
    bytes
}

fn run(seeds: &[Vec<u8>], check: fn(&[u8])) {
    let longer = std::env::var("SPECDEC_FUZZ_SECONDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .map(Duration::from_secs);
    let start = Instant::now();
    let mut random = Random(0x5eed_5eed_5eed_5eed);
    let mut done = 0;
    while longer.map_or(done < ROUNDS, |time| start.elapsed() < time) {
        let bytes = mutated(seeds, &mut random);
        if std::panic::catch_unwind(|| check(&bytes)).is_err() {
            let path = std::env::temp_dir().join("specdec-hostile-input");
            std::fs::write(&path, &bytes).unwrap();
            panic!("round {done}; the input is in {}", path.display());
        }
        done += 1;
    }
    if longer.is_some() {
        println!("{done} inputs in {:.0} s", start.elapsed().as_secs_f64());
    }
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn configurations() -> Vec<Vec<u8>> {
    let text = std::fs::read_to_string(fixtures().join("configs/cases.jsonl")).unwrap();
    let cases = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let own = cases.filter(|case| case["format"].is_null()).map(|case| match case["config_text"].as_str() {
        Some(text) => text.as_bytes().to_vec(),
        None => case["config"].to_string().into_bytes(),
    });
    let known = specdec::inspect::known::all().map(|known| known.config.to_string().into_bytes());
    own.chain(known).collect()
}

fn headers() -> Vec<Vec<u8>> {
    let files = std::fs::read_dir(fixtures().join("gguf")).unwrap().map(|entry| entry.unwrap().path());
    let mut headers: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|name| name == "gguf")).collect();
    headers.sort();
    // The data behind a header only makes mutations rarer.
    headers
        .iter()
        .map(|path| std::fs::read(path).unwrap())
        .map(|bytes| bytes[..bytes.len().min(6000)].to_vec())
        .collect()
}

#[test]
fn mutated_configurations() {
    run(&configurations(), hostile::inspect);
}

#[test]
fn mutated_headers() {
    run(&headers(), |bytes| {
        hostile::gguf(bytes);
        hostile::inspect(bytes);
    });
}

/// Inputs that the fuzz targets found worth keeping, by target.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus").join(target);
    let files = std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    files.map(|path| std::fs::read(path).unwrap()).collect()
}

#[test]
fn seeds_and_corpus_hold() {
    for bytes in configurations().iter().chain(&headers()).chain(&corpus("inspect")) {
        hostile::inspect(bytes);
    }
    for bytes in headers().iter().chain(&corpus("gguf")) {
        hostile::gguf(bytes);
    }
}
