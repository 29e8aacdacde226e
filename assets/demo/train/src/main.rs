//! Makes the demo models from nothing: stories from a grammar, a tokenizer from the stories, a
//! target and a drafter from both. Every step is a subcommand with fixed seeds.

mod fused;
mod model;
mod random;
mod sample;
mod stories;
mod tokenizer;
mod train;
mod words;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::model::{Config, Llama};
use crate::random::Random;
use crate::train::{Phase, Plan};

const USAGE: &str = "usage: demo-train COMMAND

  stories [COUNT]              print stories, 5 by default
  tokenizer                    train the tokenizer, write it to both model folders
  target|drafter learn STEPS   train from random weights at a steady rate
  target|drafter settle STEPS  go on from the saved weights at a falling rate
  target|drafter stretch STEPS go on with long windows at a low rate
  sample MODEL TEMPERATURE TEXT [TOKENS] [SEED]
                               continue TEXT with `target` or `drafter`
  agreement                    how often both models find the same token likeliest

The model folders, `target` and `drafter`, are made in the folder above this crate.";

const VOCAB_SIZE: usize = 1536;
const NUM_TOKENIZER_STORIES: u64 = 5000;
const TARGET_SEED: u64 = 1;
const DRAFTER_SEED: u64 = 2;

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["stories", rest @ ..] => {
            for number in 0..number(rest.first(), 5)? {
                println!("{}\n----", stories::story(number as u64));
            }
        }
        ["tokenizer"] => {
            let stories: Vec<String> = (0..NUM_TOKENIZER_STORIES).map(stories::story).collect();
            let tokenizer = tokenizer::train(&stories, VOCAB_SIZE)?;
            tokenizer::save(&tokenizer, &folder("target"))?;
            tokenizer::save(&tokenizer, &folder("drafter"))?;
            describe(&stories, &tokenizer)?;
        }
        [name @ ("target" | "drafter"), phase @ ("learn" | "settle" | "stretch"), steps] => {
            let (config, seed, peak_rate) = match *name {
                "target" => (Config::target(VOCAB_SIZE), TARGET_SEED, 2e-3),
                _ => (Config::drafter(VOCAB_SIZE), DRAFTER_SEED, 5e-3),
            };
            let (phase, model) = match *phase {
                "learn" => (Phase::Learn, Llama::new(config, seed)?),
                "settle" => (Phase::Settle, Llama::load(&folder(name))?),
                _ => (Phase::Stretch, Llama::load(&folder(name))?),
            };
            println!("{name}: {} parameters", model.num_parameters());
            let plan = Plan { phase, num_steps: number(Some(steps), 0)?, peak_rate };
            let tokenizer = tokenizer::load(&folder(name))?;
            train::train(&model, &tokenizer, &plan, &folder(name))?;
        }
        ["sample", name, temperature, text, rest @ ..] => {
            let model = Llama::load(&folder(name))?;
            let tokenizer = tokenizer::load(&folder(name))?;
            let mut random = Random::new(number(rest.get(1), 1)? as u64, 2);
            let text = sample::continuation(
                &model,
                &tokenizer,
                text,
                number(rest.first(), 256)?,
                temperature.parse().context("TEMPERATURE is a number")?,
                &mut random,
            )?;
            println!("{text}");
        }
        ["agreement"] => {
            let target = Llama::load(&folder("target"))?;
            let drafter = Llama::load(&folder("drafter"))?;
            let tokenizer = tokenizer::load(&folder("target"))?;
            for (name, model) in [("target", &target), ("drafter", &drafter)] {
                println!(
                    "{name}: {} parameters, held-out loss {:.4} nats per token",
                    model.num_parameters(),
                    train::held_out_loss(model, &tokenizer)?
                );
            }
            let agreement = sample::agreement(&target, &drafter, &tokenizer)?;
            println!("agreement: {agreement:.4}");
        }
        _ => bail!("{USAGE}"),
    }
    Ok(())
}

fn number(argument: Option<&&str>, otherwise: usize) -> Result<usize> {
    match argument {
        Some(text) => text.parse().with_context(|| format!("{text} is not a count")),
        None => Ok(otherwise),
    }
}

fn describe(stories: &[String], tokenizer: &tokenizers::Tokenizer) -> Result<()> {
    let mut lengths = Vec::with_capacity(stories.len());
    for story in stories {
        lengths.push(tokenizer::encode(tokenizer, story)?.len());
    }
    lengths.sort_unstable();
    let num_tokens: usize = lengths.iter().sum();
    let num_bytes: usize = stories.iter().map(String::len).sum();
    println!(
        "{} stories, {num_bytes} bytes, {num_tokens} tokens; per story {} to {} tokens, median {}",
        stories.len(),
        lengths.first().copied().unwrap_or(0),
        lengths.last().copied().unwrap_or(0),
        lengths.get(lengths.len() / 2).copied().unwrap_or(0),
    );
    Ok(())
}
