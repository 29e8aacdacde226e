//! Inspections from the library: their cost, and large files that are read by their headers only.

use std::io::{Seek, SeekFrom, Write};
use std::time::Instant;

use specdec::inspect::format::{Bars, EvidenceShown, FORMATS, LayersShown, Page};
use specdec::inspect::{Depth, Inspection, Inspections, Options, known};

/// Times are for an unoptimised build on a busy machine; README has those of a release build.
const SLACK: f64 = 4.0;

#[test]
fn a_thousand_configurations_take_about_a_second() {
    let known: Vec<_> = known::all().collect();
    let texts: Vec<(String, String)> =
        known.iter().cycle().take(1000).map(|known| (known.id.clone(), known.config.to_string())).collect();
    let start = Instant::now();
    let options = Options::default();
    let models = texts.iter().map(|(id, text)| Inspection::of_bytes(id, text.as_bytes(), &options)).collect();
    let inspections = Inspections { models, pair: None, options };
    let page = Page {
        inspections: &inspections,
        evidence: EvidenceShown::Deciding,
        layers: LayersShown::Grouped,
        bars: Bars::Left,
        exercise: false,
    };
    let len: usize = FORMATS
        .iter()
        .filter(|format| format.name == "json")
        .map(|format| (format.render)(&page).len())
        .sum();
    let seconds = start.elapsed().as_secs_f64();
    assert!(inspections.models.iter().all(|model| model.outcome.is_ok()));
    assert!(len > 1_000_000 && seconds < SLACK, "{len} bytes in {seconds:.2} s");
}

fn text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.as_bytes());
}

fn number(bytes: &mut Vec<u8>, key: &str, value: u32) {
    text(bytes, key);
    bytes.extend(4u32.to_le_bytes());
    bytes.extend(value.to_le_bytes());
}

/// The header of a model with a large vocabulary and a tensor of a type that nobody has assigned.
fn large_header() -> Vec<u8> {
    const TOKENS: u32 = 200_000;
    let mut bytes = b"GGUF".to_vec();
    bytes.extend(3u32.to_le_bytes());
    bytes.extend(1u64.to_le_bytes());
    bytes.extend(7u64.to_le_bytes());
    text(&mut bytes, "general.architecture");
    bytes.extend(8u32.to_le_bytes());
    text(&mut bytes, "llama");
    number(&mut bytes, "llama.block_count", 32);
    number(&mut bytes, "llama.embedding_length", 4096);
    number(&mut bytes, "llama.context_length", 8192);
    number(&mut bytes, "llama.attention.head_count", 32);
    number(&mut bytes, "llama.attention.head_count_kv", 8);
    text(&mut bytes, "tokenizer.ggml.tokens");
    bytes.extend(9u32.to_le_bytes());
    bytes.extend(8u32.to_le_bytes());
    bytes.extend(u64::from(TOKENS).to_le_bytes());
    (0..TOKENS).for_each(|id| text(&mut bytes, &format!("token {id}")));
    text(&mut bytes, "blk.0.attn_q.weight");
    bytes.extend(1u32.to_le_bytes());
    bytes.extend(4096u64.to_le_bytes());
    bytes.extend(4095u32.to_le_bytes());
    bytes.extend(0u64.to_le_bytes());
    bytes
}

#[test]
fn a_gibibyte_is_known_by_its_header() {
    let path = std::env::temp_dir().join(format!("specdec-large-{}.gguf", std::process::id()));
    let mut file = std::fs::File::create(&path).unwrap();
    let header = large_header();
    file.write_all(&header).unwrap();
    // A hole, so that it takes no room on the disk.
    file.seek(SeekFrom::Start((1 << 30) - 1)).unwrap();
    file.write_all(&[0]).unwrap();
    drop(file);
    let start = Instant::now();
    let name = path.to_str().unwrap().to_owned();
    let inspections = Inspections::new(&[name], Options::default(), Depth::Headers);
    let seconds = start.elapsed().as_secs_f64();
    std::fs::remove_file(&path).unwrap();
    let model = inspections.models[0].outcome.as_ref().unwrap();
    assert_eq!(model.description.headline(), "GQA 4:1 (32 query / 8 KV heads, head_dim 128), 32 layers");
    assert_eq!(model.speculation.vocab_size, Some(200_000));
    let weights = model.weights.as_ref().unwrap();
    assert_eq!(weights.bytes, Some((1 << 30) - header.len() as u64));
    assert!(weights.note.as_ref().unwrap().contains("4095"), "{weights:?}");
    assert!(seconds < 0.1 * SLACK, "{seconds:.3} s");
}
