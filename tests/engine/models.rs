//! Tiny checkpoints against numbers that another implementation computed: hidden states layer by layer,
//! logits in one pass, in chunks and after rolling back, greedy text plain and speculative.
//!
//! The project's own fixtures run everywhere; the shared ones where their folder is there.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};
use specdec::checkpoint::Checkpoint;
use specdec::model::arch::ARCHITECTURES;
use specdec::model::layers::Ops;
use specdec::model::{CausalLm, Decoder, LoadOptions, Session, Tap, chain};
use specdec::speculation::drafter::{DRAFTERS, DrafterParts, NgramOptions};

use crate::support::{Run, fixtures, shared};

/// What the README of the fixtures allows in float32.
const TOLERANCE: f32 = 2e-3;

pub(crate) fn load_with(path: &Path, ops: Ops) -> Decoder {
    let checkpoint = Checkpoint::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let options = LoadOptions { device: Device::Cpu, dtype: DType::F32, quantize: None, ops };
    specdec::model::load(&checkpoint, &options)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        .model
}

pub(crate) fn load(path: &Path) -> Decoder {
    load_with(path, Ops::Fused)
}

/// The reference numbers of one prompt.
struct Reference {
    name: String,
    tensors: HashMap<String, Tensor>,
    /// Whether weights are multiplied in ggml's 8-bit activations, which costs accuracy.
    is_quantized: bool,
}

impl Reference {
    fn open(path: &Path, name: &str, is_quantized: bool) -> Self {
        let tensors = candle_core::safetensors::load(path, &Device::Cpu).unwrap();
        Self { name: name.to_owned(), tensors, is_quantized }
    }

    fn prompts(&self) -> Vec<String> {
        (0..2)
            .map(|n| format!("prompt{n}"))
            .filter(|p| self.tensors.contains_key(&format!("{p}.logits")))
            .collect()
    }

    fn ids(&self, name: &str) -> Vec<u32> {
        self.tensors[name].to_dtype(DType::U32).unwrap().to_vec1().unwrap()
    }

    fn rows(&self, name: &str) -> Vec<Vec<f32>> {
        self.tensors[name].to_vec2().unwrap()
    }

    /// The prompt, and all tokens that the reference read: prompt and greedy text without its last token.
    fn tokens(&self, prompt: &str) -> (Vec<u32>, Vec<u32>) {
        let ids = self.ids(&format!("{prompt}.input_ids"));
        let greedy = self.ids(&format!("{prompt}.greedy_ids"));
        let all = [ids.as_slice(), &greedy[..greedy.len() - 1]].concat();
        (ids, all)
    }

    fn check(&self, found: &[Vec<f32>], expected: &[Vec<f32>], what: &str) {
        assert_eq!(found.len(), expected.len(), "{}: rows of {what}", self.name);
        let pairs = || found.iter().flatten().zip(expected.iter().flatten());
        let worst = pairs().map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        if self.is_quantized {
            let count = pairs().count() as f32;
            let mean = expected.iter().flatten().sum::<f32>() / count;
            let spread = (expected.iter().flatten().map(|b| (b - mean).powi(2)).sum::<f32>() / count).sqrt();
            let error = (pairs().map(|(a, b)| (a - b).powi(2)).sum::<f32>() / count).sqrt();
            assert!(error < 0.15 * spread, "{}: {what} off by {error} of {spread}", self.name);
        } else {
            assert!(worst < TOLERANCE, "{}: {what} off by {worst}", self.name);
        }
    }
}

fn logits(model: &Decoder, hidden: &Tensor) -> Vec<Vec<f32>> {
    model.logits(hidden).unwrap().to_vec2().unwrap()
}

fn verify(model: &Decoder, reference: &Reference) {
    for prompt in reference.prompts() {
        let (ids, all) = reference.tokens(&prompt);
        let expected = reference.rows(&format!("{prompt}.logits"));
        let run_len = all.len() + 1;

        // One pass, layer by layer.
        let mut session = Session::new(model, run_len, 4);
        let mut taps = vec![Tap::Embedding];
        taps.extend((0..model.cache_layout().len()).map(Tap::Layer));
        let hidden = session.extend(&all, &taps).unwrap();
        for (tap, found) in taps.iter().zip(&hidden.taps) {
            let name = match tap {
                Tap::Layer(layer) => format!("{prompt}.hidden.layer.{layer}"),
                _ => format!("{prompt}.hidden.embed"),
            };
            let Some(rows) = reference.tensors.get(&name) else { continue };
            let rows: Vec<Vec<f32>> = rows.to_vec2().unwrap();
            let found = found.narrow(0, 0, rows.len()).unwrap().to_vec2().unwrap();
            reference.check(&found, &rows, &name);
        }
        reference.check(&logits(model, &hidden.last), &expected, "logits");

        // Through the cache, in chunks.
        for chunk in [1, 3, 7] {
            let mut session = Session::new(model, run_len, 4);
            let mut found = Vec::new();
            for tokens in all.chunks(chunk) {
                found.extend(logits(model, &session.extend(tokens, &[]).unwrap().last));
            }
            reference.check(&found, &expected, &format!("logits in chunks of {chunk}"));
        }

        // Rolling back at every offset: wrong rows are staged and dropped, or committed and taken back.
        let mut session = Session::new(model, run_len + 8, 4);
        let mut found = Vec::new();
        for (index, token) in all.iter().enumerate() {
            let wrong: Vec<u32> = (0..4).map(|i| (token + i + 1) % 60).collect();
            if index % 2 == 0 {
                session.stage(&wrong, &chain(4), &[]).unwrap();
            } else {
                session.extend(&wrong[..=(index % 4)], &[]).unwrap();
                session.truncate(index).unwrap();
            }
            found.extend(logits(model, &session.extend(&[*token], &[]).unwrap().last));
        }
        if !depends_on_length(&reference.name) {
            reference.check(&found, &expected, "logits after rolling back");
        }

        greedy(model, reference, &prompt, &ids);
    }
}

fn depends_on_length(name: &str) -> bool {
    name.contains("dynamic") || name.contains("longrope")
}

/// Greedy text: the reference's, and the same with every drafter of the table drafting for itself.
fn greedy(model: &Decoder, reference: &Reference, prompt: &str, ids: &[u32]) {
    let expected = reference.ids(&format!("{prompt}.greedy_ids"));
    let run = Run { max_tokens: expected.len(), rule: "greedy", ..Run::new(model, ids) };
    let plain = run.plain().tokens;
    let margins: Vec<f32> = match reference.tensors.get(&format!("{prompt}.greedy_margins")) {
        Some(margins) => margins.to_vec1().unwrap(),
        None => vec![1.0; expected.len()],
    };
    let sure = if reference.is_quantized {
        margins.iter().take_while(|m| **m > 0.5).count()
    } else {
        expected.len()
    };
    assert_eq!(plain[..sure], expected[..sure], "{}: greedy text of {prompt}", reference.name);
    for kind in DRAFTERS {
        let parts = DrafterParts {
            target: model,
            model: Some(model),
            shared_vocab: model.vocab_size(),
            run_len: run.request().run_len(),
            max_draft: run.max_draft,
            ngram: NgramOptions::default(),
            min_confidence: 0.0,
        };
        let generation = run.with((kind.build)(parts).unwrap());
        assert_eq!(generation.tokens, plain, "{}: {} on {prompt}", reference.name, kind.name);
        if kind.name == "model" {
            assert!(
                generation.rounds.iter().all(|round| round.accepted == round.draft.len()),
                "{}: a model is always right about itself",
                reference.name
            );
        }
    }
}

/// Folders of checkpoints whose family this version runs.
fn folders(root: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> =
        std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    folders.retain(|folder| folder.join("reference.safetensors").exists());
    folders.retain(|folder| {
        let config = specdec::config::ModelConfig::from_file(&folder.join("config.json")).unwrap();
        let known = ARCHITECTURES.iter().any(|architecture| architecture.model_type == config.model_type());
        known && config.top_level("quantization_config").is_none()
    });
    folders
}

fn verify_folders(root: &Path, at_least: usize) {
    let folders = folders(root);
    assert!(folders.len() >= at_least, "{} checkpoints in {}", folders.len(), root.display());
    for folder in folders {
        let name = folder.file_name().unwrap().to_str().unwrap();
        let reference = Reference::open(&folder.join("reference.safetensors"), name, false);
        verify(&load(&folder), &reference);
    }
}

fn verify_ggufs(root: &Path, at_least: usize) {
    let mut verified = 0;
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "gguf")) {
        let stem = file.file_stem().unwrap().to_str().unwrap();
        let stem = match stem.split_once("-00001-of-") {
            Some((stem, _)) => stem,
            None if stem.contains("-of-") => continue,
            None => stem,
        };
        let is_quantized = !(stem.contains("f16") || stem.contains("f32"));
        let reference =
            Reference::open(&root.join(format!("{stem}.reference.safetensors")), stem, is_quantized);
        verify(&load(file), &reference);
        verified += 1;
    }
    assert!(verified >= at_least, "{verified} GGUF files in {}", root.display());
}

#[test]
fn own_checkpoints_give_the_reference_numbers() {
    verify_folders(&fixtures("models"), 20);
}

#[test]
fn own_gguf_files_give_the_reference_numbers() {
    verify_ggufs(&fixtures("gguf"), 6);
}

#[test]
fn shared_checkpoints_give_the_reference_numbers() {
    if let Some(root) = shared("fixtures/models") {
        verify_folders(&root, 10);
    }
}

#[test]
fn shared_gguf_files_give_the_reference_numbers() {
    if let Some(root) = shared("fixtures/gguf") {
        verify_ggufs(&root, 7);
    }
}

#[test]
fn the_pair_speculates_without_changing_the_text() {
    let (target, drafter) = (load(&fixtures("pair/target")), load(&fixtures("pair/drafter")));
    for (temperature, seed, rule) in [(0.0, 0, "greedy"), (0.8, 1, "coupled"), (1.5, 2, "coupled")] {
        for max_draft in [1, 3, 6] {
            let prompt = [5, 9, 12, 30, 7, 5, 9, 12];
            let run =
                Run { temperature, seed, rule, max_draft, max_tokens: 60, ..Run::new(&target, &prompt) };
            let plain = run.plain();
            for kind in DRAFTERS {
                let parts = DrafterParts {
                    target: &target,
                    model: Some(&drafter),
                    shared_vocab: 64,
                    run_len: run.request().run_len(),
                    max_draft,
                    ngram: NgramOptions::default(),
                    min_confidence: 0.0,
                };
                let generation = run.with((kind.build)(parts).unwrap());
                assert_eq!(generation.tokens, plain.tokens, "{} at {temperature}, k {max_draft}", kind.name);
                let accepted: usize = generation.rounds.iter().map(|round| round.accepted).sum();
                assert!(kind.name != "model" || accepted > 0, "nothing was accepted");
            }
        }
    }
}

#[test]
fn rows_of_quantised_models_have_the_same_bits_in_every_block() {
    for name in ["llama_split-00001-of-00002.gguf", "qwen2_q8_0.gguf", "qwen3_q4_0.gguf", "gemma3_q8_0.gguf"]
    {
        let model = load(&fixtures("gguf").join(name));
        let tokens: Vec<u32> = (0..40).map(|i| (i * i + 3) % 60).collect();
        let read = |rows: usize| {
            let mut session = Session::new(&model, tokens.len(), 0);
            let chunks = tokens.chunks(rows);
            chunks
                .flat_map(|chunk| logits(&model, &session.extend(chunk, &[]).unwrap().last))
                .collect::<Vec<_>>()
        };
        let single = read(1);
        for rows in [2, 3, 5, 8, 17, 40] {
            assert!(read(rows) == single, "{name} in blocks of {rows}");
        }
    }
}

#[test]
fn operations_with_a_gradient_compute_the_same() {
    for name in ["llama_gqa", "gemma3_text", "qwen3"] {
        let folder = fixtures("models").join(name);
        let reference = Reference::open(&folder.join("reference.safetensors"), name, false);
        verify(&load_with(&folder, Ops::Differentiable), &reference);
    }
}

#[test]
fn quantising_at_load_keeps_the_numbers_close() {
    let folder = fixtures("models").join("llama_gqa");
    let checkpoint = Checkpoint::open(&folder).unwrap();
    let (_, q8) = specdec::checkpoint::quant_formats().find(|(name, _)| name == "q8_0").unwrap();
    let options = LoadOptions { device: Device::Cpu, dtype: DType::F32, quantize: Some(q8), ops: Ops::Fused };
    let loaded = specdec::model::load(&checkpoint, &options).unwrap();
    assert!(
        loaded.model.formats().iter().any(|(format, _)| format == "F32 as Q8_0"),
        "{:?}",
        loaded.model.formats()
    );
    let reference = Reference::open(&folder.join("reference.safetensors"), "llama_gqa in q8_0", true);
    verify(&loaded.model, &reference);
}
