//! Looks at what was learned: continuations of a text, and how often the two models agree.

use anyhow::Result;
use candle_core::{D, Device, Tensor};
use tokenizers::Tokenizer;

use crate::model::Llama;
use crate::random::Random;
use crate::stories;
use crate::tokenizer::{BOS_ID, EOS_ID, decode, encode};
use crate::train::Windows;

/// Continues `prompt` by `num_tokens` tokens; temperature 0 takes the likeliest one.
///
/// After the end of a story a new one begins, marked by a line of its own.
pub fn continuation(
    model: &Llama,
    tokenizer: &Tokenizer,
    prompt: &str,
    num_tokens: usize,
    temperature: f64,
    random: &mut Random,
) -> Result<String> {
    let mut ids = vec![BOS_ID];
    ids.extend(encode(tokenizer, prompt)?);
    for _ in 0..num_tokens {
        let input = Tensor::new(ids.as_slice(), &Device::Cpu)?.unsqueeze(0)?;
        let logits: Vec<f32> = model.forward(&input)?.get(ids.len() - 1)?.to_vec1()?;
        ids.push(choose(&logits, temperature, random));
    }
    let stories: Vec<String> =
        ids.split(|id| *id == EOS_ID).map(|story| decode(tokenizer, story)).collect::<Result<_>>()?;
    Ok(stories.join("\n----\n"))
}

fn choose(logits: &[f32], temperature: f64, random: &mut Random) -> u32 {
    let mut best = 0;
    for (id, logit) in logits.iter().enumerate() {
        if *logit > logits[best] {
            best = id;
        }
    }
    if temperature <= 0.0 {
        return best as u32;
    }
    let weight = |logit: f32| (f64::from(logit - logits[best]) / temperature).exp();
    let mut left = random.uniform() * logits.iter().map(|logit| weight(*logit)).sum::<f64>();
    for (id, logit) in logits.iter().enumerate() {
        left -= weight(*logit);
        if left < 0.0 {
            return id as u32;
        }
    }
    best as u32
}

/// Fraction of positions in held-out stories where both models find the same token likeliest.
pub fn agreement(target: &Llama, drafter: &Llama, tokenizer: &Tokenizer) -> Result<f64> {
    let mut windows = Windows::new(tokenizer, stories::HELD_OUT);
    let (mut same, mut all) = (0usize, 0usize);
    for _ in 0..40 {
        let window = windows.next(512)?;
        let input = Tensor::new(window.as_slice(), &Device::Cpu)?.unsqueeze(0)?;
        let first: Vec<u32> = target.forward(&input)?.argmax(D::Minus1)?.to_vec1()?;
        let second: Vec<u32> = drafter.forward(&input)?.argmax(D::Minus1)?.to_vec1()?;
        same += first.iter().zip(&second).filter(|(a, b)| a == b).count();
        all += first.len();
    }
    Ok(same as f64 / all as f64)
}
