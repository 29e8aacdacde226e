//! Next-token training: two workers share the weights, each takes half of a step's windows, and
//! one AdamW update follows from the sum of their gradients.
//!
//! Run it with `RAYON_NUM_THREADS=1`: two workers with a core each beat two cores inside one
//! matrix product, because everything between the products runs in parallel as well.

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, anyhow};
use candle_core::backprop::GradStore;
use candle_core::{Device, Tensor, Var};
use candle_nn::{AdamW, Optimizer, ParamsAdamW};
use tokenizers::Tokenizer;

use crate::model::Llama;
use crate::stories;
use crate::tokenizer::{BOS_ID, EOS_ID, encode};

const NUM_WORKERS: usize = 2;
const BETWEEN_REPORTS: usize = 20;
const BETWEEN_CHECKPOINTS: usize = 100;

/// Training has three parts, so that the first can be as long as patience allows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// A steady learning rate, from random weights.
    Learn,
    /// A falling learning rate, from saved weights; the last eighth sees long windows.
    Settle,
    /// A falling rate, from saved weights, with long windows; the first half are strange stories.
    Stretch,
}

/// How long and how fast to train.
pub struct Plan {
    pub phase: Phase,
    /// Number of updates.
    pub num_steps: usize,
    /// Learning rate after the warm-up; the last part uses 0.75 of it.
    pub peak_rate: f64,
}

/// Windows per worker and tokens per window.
const SHORT: (usize, usize) = (2, 384);
const LONG: (usize, usize) = (1, 1024);
const LARGEST_GRADIENT: f64 = 1.0;

/// Cuts an endless row of stories into windows.
pub struct Windows<'a> {
    tokenizer: &'a Tokenizer,
    next_story: u64,
    story: fn(u64) -> String,
}

impl<'a> Windows<'a> {
    /// Begins with story number `first_story`.
    pub fn new(tokenizer: &'a Tokenizer, first_story: u64) -> Self {
        Self { tokenizer, next_story: first_story, story: stories::story }
    }

    /// `len` tokens: BOS, a story, EOS, BOS, the next story, ... The last one is cut short.
    ///
    /// Each window starts with a story, as every prompt does.
    pub fn next(&mut self, len: usize) -> Result<Vec<u32>> {
        let mut window = Vec::with_capacity(len);
        while window.len() < len {
            window.push(BOS_ID);
            window.extend(encode(self.tokenizer, &(self.story)(self.next_story))?);
            window.push(EOS_ID);
            self.next_story += 1;
        }
        window.truncate(len);
        Ok(window)
    }

    /// `(inputs, labels)`: `[count, len]` and, one token later, `[count * len]`.
    fn batch(&mut self, count: usize, len: usize) -> Result<(Tensor, Tensor)> {
        let mut inputs = Vec::with_capacity(count * len);
        let mut labels = Vec::with_capacity(count * len);
        for _ in 0..count {
            let window = self.next(len + 1)?;
            inputs.extend_from_slice(&window[..len]);
            labels.extend_from_slice(&window[1..]);
        }
        Ok((
            Tensor::from_vec(inputs, (count, len), &Device::Cpu)?,
            Tensor::from_vec(labels, count * len, &Device::Cpu)?,
        ))
    }
}

/// Mean negative log likelihood per token, in nats.
fn loss(model: &Llama, inputs: &Tensor, labels: &Tensor) -> Result<Tensor> {
    let logits = model.forward(inputs)?;
    Ok(candle_nn::loss::cross_entropy(&logits, labels)?)
}

/// Loss in nats per token on held-out stories.
pub fn held_out_loss(model: &Llama, tokenizer: &Tokenizer) -> Result<f32> {
    let mut windows = Windows::new(tokenizer, stories::HELD_OUT);
    let mut total = 0.0;
    const NUM_BATCHES: usize = 8;
    for _ in 0..NUM_BATCHES {
        let (inputs, labels) = windows.batch(4, SHORT.1)?;
        total += loss(model, &inputs, &labels)?.to_scalar::<f32>()?;
    }
    Ok(total / NUM_BATCHES as f32)
}

impl Plan {
    fn rate(&self, step: usize) -> f64 {
        let num_warm_up_steps = match self.phase {
            Phase::Learn => 100.0,
            Phase::Settle | Phase::Stretch => 20.0,
        };
        let warm_up = ((step + 1) as f64 / num_warm_up_steps).min(1.0);
        let progress = step as f64 / self.num_steps as f64;
        let fall = match self.phase {
            Phase::Learn => 1.0,
            Phase::Settle | Phase::Stretch => 0.5 * (1.0 + (std::f64::consts::PI * progress).cos()),
        };
        let height = match self.phase {
            Phase::Learn | Phase::Settle => 1.0,
            Phase::Stretch => 0.75,
        };
        self.peak_rate * height * warm_up * (0.01 + 0.99 * fall)
    }

    fn shape(&self, step: usize) -> (usize, usize) {
        let late = 8 * step >= 7 * self.num_steps;
        match self.phase {
            Phase::Settle if late => LONG,
            Phase::Stretch => LONG,
            Phase::Learn | Phase::Settle => SHORT,
        }
    }

    fn story(&self, step: usize) -> fn(u64) -> String {
        if self.phase == Phase::Stretch && 2 * step < self.num_steps {
            stories::strange_story
        } else {
            stories::story
        }
    }

    /// The phases see different stories.
    fn first_story(&self) -> u64 {
        match self.phase {
            Phase::Learn => 0,
            Phase::Settle => 1 << 32,
            Phase::Stretch => 3 << 32,
        }
    }
}

/// Averages over the workers and limits the length of the whole gradient.
fn settle(gradients: &mut GradStore, vars: &[Var]) -> Result<()> {
    let mut squares = 0f64;
    for var in vars {
        if let Some(gradient) = gradients.get(var) {
            squares += f64::from(gradient.sqr()?.sum_all()?.to_scalar::<f32>()?);
        }
    }
    let share = 1.0 / NUM_WORKERS as f64;
    let length = squares.sqrt() * share;
    let scale = share * (LARGEST_GRADIENT / length).min(1.0);
    for var in vars {
        if let Some(gradient) = gradients.get(var) {
            let gradient = (gradient * scale)?;
            gradients.insert(var, gradient);
        }
    }
    Ok(())
}

/// Trains `model` in place and keeps its latest state in `folder`.
pub fn train(model: &Llama, tokenizer: &Tokenizer, plan: &Plan, folder: &Path) -> Result<()> {
    let vars: Vec<Var> = model.weights().map(|(_, var)| var.clone()).collect();
    let params = ParamsAdamW { lr: 0.0, beta1: 0.9, beta2: 0.99, eps: 1e-8, weight_decay: 0.05 };
    let mut optimizer = AdamW::new(vars.clone(), params)?;
    let mut windows = Windows::new(tokenizer, plan.first_story());
    let start = Instant::now();
    let (mut recent_loss, mut num_tokens) = (0f64, 0usize);
    for step in 0..plan.num_steps {
        let (count, len) = plan.shape(step);
        windows.story = plan.story(step);
        let batches = (0..NUM_WORKERS).map(|_| windows.batch(count, len)).collect::<Result<Vec<_>>>()?;
        let results = std::thread::scope(|scope| {
            let workers: Vec<_> = batches
                .iter()
                .map(|(inputs, labels)| {
                    scope.spawn(move || -> Result<(f32, GradStore)> {
                        let loss = loss(model, inputs, labels)?;
                        Ok((loss.to_scalar::<f32>()?, loss.backward()?))
                    })
                })
                .collect();
            workers
                .into_iter()
                .map(|worker| worker.join().map_err(|_| anyhow!("a worker panicked"))?)
                .collect::<Result<Vec<_>>>()
        })?;
        let mut gradients: Option<GradStore> = None;
        for (loss, part) in results {
            recent_loss += f64::from(loss) / NUM_WORKERS as f64;
            match &mut gradients {
                Some(sum) => sum.extend(part)?,
                None => gradients = Some(part),
            }
        }
        if let Some(mut gradients) = gradients {
            settle(&mut gradients, &vars)?;
            optimizer.set_learning_rate(plan.rate(step));
            optimizer.step(&gradients)?;
        }
        num_tokens += NUM_WORKERS * count * len;
        let done = step + 1;
        if done % BETWEEN_REPORTS == 0 {
            let seconds = start.elapsed().as_secs_f64();
            println!(
                "step {done:5}  loss {:.4}  rate {:.2e}  {num_tokens} tokens  {seconds:.0} s  {:.0} tokens/s",
                recent_loss / BETWEEN_REPORTS as f64,
                plan.rate(step),
                num_tokens as f64 / seconds,
            );
            recent_loss = 0.0;
        }
        if done % BETWEEN_CHECKPOINTS == 0 || done == plan.num_steps {
            model.save(folder)?;
        }
    }
    println!(
        "held-out loss {:.4} nats per token after {:.0} s",
        held_out_loss(model, tokenizer)?,
        start.elapsed().as_secs_f64()
    );
    Ok(())
}
