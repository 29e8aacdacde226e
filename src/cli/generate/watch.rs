//! What happens while a run goes on: text goes out, stop strings end it, rounds are traced.

use std::ops::ControlFlow;

use crate::cli::interrupt::interrupted;
use crate::cli::ui::{Output, Paint};
use crate::decode::{Emitted, FinishReason, Observer, StopStrings};
use crate::error::Result;
use crate::report::jsonl;
use crate::sampling::LogProbabilities;
use crate::speculation::{Round, Source};
use crate::tokenizer::{TextStream, Tokenizer};

/// What is written while the text grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Live {
    /// Nothing: the report has it all.
    Nothing,
    /// The text, token by token.
    Text,
    /// Events, one JSON object per line.
    Events,
}

pub(super) struct Watch<'w> {
    stream: Option<TextStream<'w>>,
    stops: StopStrings,
    live: Live,
    output: &'w mut Output,
    paint: Paint,
    /// Gets one line per round.
    trace: Option<&'w mut Output>,
    num_rounds: usize,
    num_tokens: usize,
    /// All text that was let out.
    pub(super) text: String,
    /// The stop string that ended it.
    pub(super) stop_string: Option<String>,
    /// Log-probabilities of each token, where asked for.
    pub(super) logprobs: Vec<LogProbabilities>,
}

impl<'w> Watch<'w> {
    pub(super) fn new(
        tokenizer: Option<&'w Tokenizer>,
        stops: &[String],
        live: Live,
        output: &'w mut Output,
        trace: Option<&'w mut Output>,
        paint: Paint,
    ) -> Self {
        Self {
            stream: tokenizer.map(Tokenizer::stream),
            stops: StopStrings::new(stops),
            live,
            output,
            paint,
            trace,
            num_rounds: 0,
            num_tokens: 0,
            text: String::new(),
            stop_string: None,
            logprobs: Vec::new(),
        }
    }

    /// Lets out what was held back for characters or stop strings that did not come.
    pub(super) fn finish(&mut self) -> Result<()> {
        if self.stop_string.is_some() {
            return Ok(());
        }
        let rest = self.stream.as_mut().map(TextStream::finish).unwrap_or_default();
        let passed = self.stops.push(&rest);
        let held = if passed.stop.is_some() { String::new() } else { self.stops.finish() };
        self.stop_string = passed.stop;
        let rest = passed.text + &held;
        if self.live == Live::Events && !rest.is_empty() {
            self.output.write(&jsonl::rest(&rest))?;
        }
        self.show(&rest, None)
    }

    fn show(&mut self, text: &str, source: Option<Source>) -> Result<()> {
        self.text.push_str(text);
        if self.live == Live::Text && !text.is_empty() {
            let painted = self.paint.by_source(text, source);
            self.output.write(&painted)?;
        }
        Ok(())
    }

    fn interrupted_flow() -> ControlFlow<FinishReason> {
        if interrupted() { ControlFlow::Break(FinishReason::Interrupted) } else { ControlFlow::Continue(()) }
    }
}

impl Observer for Watch<'_> {
    fn token(&mut self, emitted: &Emitted) -> Result<ControlFlow<FinishReason>> {
        let separator = if self.num_tokens == 0 { "" } else { " " };
        self.num_tokens += 1;
        let piece = match &mut self.stream {
            Some(stream) => stream.push(emitted.token),
            None => format!("{separator}{}", emitted.token),
        };
        let passed = self.stops.push(&piece);
        self.show(&passed.text, emitted.source)?;
        if self.live == Live::Events {
            self.output.write(&jsonl::token(self.num_tokens - 1, emitted, &passed.text))?;
        }
        self.logprobs.extend(emitted.logprobs.clone());
        if passed.stop.is_some() {
            self.stop_string = passed.stop;
            return Ok(ControlFlow::Break(FinishReason::StopString));
        }
        Ok(ControlFlow::Continue(()))
    }

    fn round(&mut self, round: &Round) -> Result<ControlFlow<FinishReason>> {
        if self.live == Live::Events {
            self.output.write(&jsonl::round(self.num_rounds, round))?;
        }
        if let Some(trace) = &mut self.trace {
            trace.write(&jsonl::round(self.num_rounds, round))?;
        }
        self.num_rounds += 1;
        Ok(Self::interrupted_flow())
    }

    fn prompt_read(&mut self, _: usize) -> Result<ControlFlow<FinishReason>> {
        Ok(Self::interrupted_flow())
    }
}
