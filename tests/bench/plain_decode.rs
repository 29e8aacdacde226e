//! Plain decoding beside candle-transformers' own model of the same GGUF file, in turn in one process.
//!
//! `cargo bench --bench plain_decode -- MODEL.gguf [TOKENS]` prints both medians and their ratio.
#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use std::fs::File;
use std::path::Path;
use std::time::Instant;

use candle_core::quantized::gguf_file::Content;
use candle_core::{DType, Device, Tensor};
use candle_transformers::models::{quantized_llama, quantized_qwen2};
use specdec::checkpoint::Checkpoint;
use specdec::decode::{self, Request, Setup, SystemClock};
use specdec::model::layers::Ops;
use specdec::model::{Decoder, LoadOptions};
use specdec::sampling::SamplingParams;
use specdec::speculation::acceptance::RULES;
use specdec::speculation::drafter::{DRAFTERS, DrafterParts, NgramOptions};
use specdec::speculation::schedule::FIXED;

const PROMPT: &[u32] = &[504, 2986, 282, 4649, 314, 260, 1212, 282];
const REPEATS: usize = 7;

enum Peer {
    Llama(quantized_llama::ModelWeights),
    Qwen2(quantized_qwen2::ModelWeights),
}

impl Peer {
    fn open(path: &Path) -> Self {
        let mut file = File::open(path).expect("the model opens");
        let content = Content::read(&mut file).expect("candle reads the header");
        let architecture = content.metadata["general.architecture"].to_string().expect("it is text").clone();
        match architecture.as_str() {
            "llama" => Self::Llama(
                quantized_llama::ModelWeights::from_gguf(content, &mut file, &Device::Cpu).expect("it loads"),
            ),
            "qwen2" => Self::Qwen2(
                quantized_qwen2::ModelWeights::from_gguf(content, &mut file, &Device::Cpu).expect("it loads"),
            ),
            other => panic!("no peer for {other}"),
        }
    }

    fn forward(&mut self, tokens: &[u32], position: usize) -> Tensor {
        let input = Tensor::new(tokens, &Device::Cpu).and_then(|t| t.unsqueeze(0)).expect("ids fit");
        match self {
            Self::Llama(model) => model.forward(&input, position),
            Self::Qwen2(model) => model.forward(&input, position),
        }
        .expect("the peer runs")
    }

    /// Seconds per token after the first.
    fn run(&mut self, num_tokens: usize) -> (Vec<u32>, f64) {
        let mut tokens = Vec::new();
        let mut logits = self.forward(PROMPT, 0);
        let start = Instant::now();
        loop {
            let token = logits
                .flatten_all()
                .and_then(|l| l.argmax(0))
                .and_then(|t| t.to_scalar::<u32>())
                .expect("ids");
            tokens.push(token);
            if tokens.len() == num_tokens {
                return (tokens, start.elapsed().as_secs_f64() / (num_tokens - 1) as f64);
            }
            logits = self.forward(&[token], PROMPT.len() + tokens.len() - 1);
        }
    }
}

fn ours(model: &Decoder, num_tokens: usize) -> (Vec<u32>, f64) {
    let clock = SystemClock::default();
    let parts = DrafterParts {
        target: model,
        model: None,
        shared_vocab: 0,
        run_len: 0,
        max_draft: 0,
        ngram: NgramOptions::default(),
        min_confidence: 0.0,
    };
    let mut setup = Setup {
        target: model,
        drafter: (DRAFTERS[0].build)(parts).expect("plain decoding needs nothing"),
        rule: (RULES[0].build)(),
        scheduler: (FIXED.build)(&[], 0),
        clock: &clock,
    };
    let request = Request {
        prompt: PROMPT,
        max_tokens: num_tokens,
        context_len: usize::MAX,
        stop_ids: &[],
        params: SamplingParams::default(),
        seed: 0,
        sequence: 0,
        logprobs: None,
    };
    let run = decode::generate(&mut setup, &request, &mut decode::Unwatched).expect("it runs");
    let seconds: f64 = run.rounds.iter().skip(1).map(specdec::speculation::Round::total_s).sum();
    (run.tokens, seconds / (num_tokens - 1) as f64)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    let Some(path) = args.next() else {
        println!("usage: cargo bench --bench plain_decode -- MODEL.gguf [TOKENS]");
        return;
    };
    let num_tokens: usize = args.next().map_or(64, |text| text.parse().expect("a number of tokens"));
    let path = Path::new(&path);
    let checkpoint = Checkpoint::open(path).expect("specdec opens it");
    let options = LoadOptions { device: Device::Cpu, dtype: DType::F32, quantize: None, ops: Ops::Fused };
    let model = specdec::model::load(&checkpoint, &options).expect("specdec loads it").model;
    let mut peer = Peer::open(path);
    let (mut our_times, mut peer_times) = (Vec::new(), Vec::new());
    let mut agree = 0;
    for repeat in 0..=REPEATS {
        let (our_tokens, our_s) = ours(&model, num_tokens);
        let (peer_tokens, peer_s) = peer.run(num_tokens);
        if repeat > 0 {
            our_times.push(our_s);
            peer_times.push(peer_s);
        }
        agree = our_tokens.iter().zip(&peer_tokens).take_while(|(a, b)| a == b).count();
    }
    let (ours, peers) = (median(our_times), median(peer_times));
    println!("specdec              {:8.2} ms per token, {:7.1} tokens/s", ours * 1e3, 1.0 / ours);
    println!("candle-transformers  {:8.2} ms per token, {:7.1} tokens/s", peers * 1e3, 1.0 / peers);
    println!("ratio of speeds      {:8.3}, first {agree} of {num_tokens} tokens agree", peers / ours);
}
