//! What must hold for any bytes at all: no panic, no figure without an understanding, no broken output.
//!
//! Shared by the fuzz targets, which run for hours, and by the tests, which mutate for seconds.

use std::path::Path;

use specdec::config::KvType;
use specdec::error::ExitCode;
use specdec::gguf::{GgufHeader, GgufSkim};
use specdec::inspect::format::{Bars, EvidenceShown, FORMATS, LayersShown, Page};
use specdec::inspect::{Inspection, Inspections, Options, plot};

/// A configuration or a GGUF header through everything `inspect-config` does with it.
pub(crate) fn inspect(bytes: &[u8]) {
    let first = bytes.first().copied().unwrap_or(0);
    let options = Options {
        contexts: if first % 2 == 0 { Vec::new() } else { vec![1, 4096, 1 << 40] },
        kv_type: KvType::ALL[usize::from(first) % KvType::ALL.len()].1,
        batch: u64::from(first) + 1,
        budget_bytes: (first % 3 == 0).then_some(24 << 30),
    };
    let inspection = Inspection::of_bytes("input", bytes, &options);
    let understood = inspection.outcome.is_ok();
    if let Err(error) = &inspection.outcome {
        assert!(!error.to_string().is_empty());
        assert!(matches!(error.exit_code(), ExitCode::Failure | ExitCode::Unsupported), "{error:?}");
    }
    let inspections = Inspections { models: vec![inspection], pair: None, options };
    for layers in [LayersShown::Grouped, LayersShown::Each] {
        let page = Page {
            inspections: &inspections,
            evidence: EvidenceShown::All,
            layers,
            bars: Bars::Drawn,
            exercise: false,
        };
        for format in FORMATS {
            let text = (format.render)(&page);
            let is_text = !text.chars().any(|c| c.is_control() && !"\r\n".contains(c));
            assert!(is_text, "{}: {text:?}", format.name);
            match format.name {
                "json" => check_record(&serde_json::from_str(&text).expect("it is JSON"), understood),
                "table" => assert_eq!(text.is_empty(), !understood, "{text}"),
                _ => {}
            }
        }
    }
    let picture = plot::svg(&inspections);
    assert!(picture.is_err() || picture.is_ok_and(|svg| !svg.contains("NaN") && !svg.contains("inf")));
}

/// A model has figures or an error, never both.
fn check_record(document: &serde_json::Value, understood: bool) {
    let model = &document["models"][0];
    assert_eq!(model.get("error").is_none(), understood, "{model}");
    assert_eq!(model.get("attention").is_some(), understood, "{model}");
    if !understood {
        return;
    }
    let get = |key: &str| model[key].as_u64().unwrap_or(0);
    let columns = ["full", "sliding", "chunked", "recurrent", "no_attention", "cross"]
        .map(|kind| get(&format!("{kind}_layers")));
    let blocks = model["attention_per_layer"].as_u64().unwrap_or(1);
    assert_eq!(columns.iter().sum::<u64>() - get("hybrid_layers"), get("layers") * blocks, "{model}");
    for (context, needed) in model["kv_bytes_needed"].as_object().expect("it is an object") {
        let reserved = &model["kv_bytes_reserved"][context];
        assert!(needed.as_u64() <= reserved.as_u64(), "{context}: {needed} > {reserved}");
    }
}

/// Both readers of GGUF headers, which must agree on what both accept.
pub(crate) fn gguf(bytes: &[u8]) {
    let path = Path::new("input.gguf");
    let whole = GgufHeader::parse(bytes, path);
    let skim = GgufSkim::read(bytes, Some(bytes.len() as u64), path);
    if let (Ok(whole), Ok(skim)) = (whole, skim) {
        assert!(whole.metadata.keys().eq(skim.metadata.keys()));
        assert_eq!(whole.tensors.len() as u64, skim.num_tensors);
        let bytes: u64 = whole.tensors.values().map(|tensor| tensor.len_bytes as u64).sum();
        assert_eq!(skim.tensor_bytes, Some(bytes));
    }
}
