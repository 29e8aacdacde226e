//! Processed distributions against values that another implementation computed.

use specdec::sampling::{Distribution, History, SamplingParams};

use crate::support::shared;

fn ids(value: &serde_json::Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

fn numbers(value: &serde_json::Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap_or(f64::NEG_INFINITY)).collect()
}

#[test]
fn processors_give_the_reference_probabilities() {
    let Some(folder) = shared("fixtures/processors") else { return };
    let text = std::fs::read_to_string(folder.join("cases.json")).unwrap();
    let file: serde_json::Value = serde_json::from_str(&text).unwrap();
    let cases = file["cases"].as_array().unwrap();
    assert!(cases.len() > 20);
    for (number, case) in cases.iter().enumerate() {
        let given = &case["params"];
        let value = |key: &str| given[key].as_f64();
        let off = SamplingParams::default();
        let known = [
            "temperature",
            "top_k",
            "top_p",
            "min_p",
            "typical_p",
            "repetition_penalty",
            "frequency_penalty",
            "presence_penalty",
        ];
        for key in given.as_object().unwrap().keys() {
            assert!(known.contains(&key.as_str()), "case {number} has {key}");
        }
        let params = SamplingParams {
            temperature: value("temperature").unwrap_or(1.0),
            top_k: given["top_k"].as_u64().unwrap_or(0) as usize,
            top_p: value("top_p").unwrap_or(off.top_p),
            min_p: value("min_p").unwrap_or(off.min_p),
            typical_p: value("typical_p").unwrap_or(off.typical_p),
            repetition_penalty: value("repetition_penalty").unwrap_or(off.repetition_penalty),
            frequency_penalty: value("frequency_penalty").unwrap_or(0.0),
            presence_penalty: value("presence_penalty").unwrap_or(0.0),
            logit_bias: Vec::new(),
        };
        let logits: Vec<f32> = numbers(&case["logits"]).into_iter().map(|logit| logit as f32).collect();
        let (prompt, output) = (ids(&case["prompt_ids"]), ids(&case["output_ids"]));
        let emitted = [prompt.as_slice(), &output].concat();
        let history = History { emitted: &emitted, path: &[], prompt_len: prompt.len() };
        let row = Distribution::new(&logits, &params, history).unwrap();
        let probabilities = row.probabilities();
        for (token, expected) in (0u32..).zip(numbers(&case["probs"])) {
            let found = probabilities.get(token);
            assert!(
                (found - expected).abs() < 1e-6,
                "case {number} {given}, token {token}: {found} {expected}"
            );
        }
    }
}
