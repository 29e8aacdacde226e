//! One chat template: from a conversation to the text the model reads.
//!
//! Renders the way `transformers`' `apply_chat_template` does, so that a model sees what it was trained
//! on. Invariant: rendering ends, within [`FUEL`] and [`MAX_OUTPUT_BYTES`], whatever the template says,
//! and a failure names the template, its line and the message. Which template a checkpoint wants is
//! decided in `sources`; turning text into tokens is the tokenizer's.

use std::io::{self, Write};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use minijinja::{Environment, ErrorKind, Value as EngineValue};
use serde_json::{Map, Value};

use super::environment::{Clock, Raised, environment, system_clock};
use super::messages::Conversation;
use super::rewrite::rewrite;
use crate::error::{Error, Result};

/// Work one rendering may do beside reading its input: instructions, or 64 bytes of text each. The
/// largest published templates need some ten thousand; all of it takes about a second.
const FUEL: u64 = 4_000_000;
/// Further work for each byte of the conversation.
const FUEL_PER_INPUT_BYTE: u64 = 2;
/// Bytes of the longest prompt.
const MAX_OUTPUT_BYTES: usize = 64 << 20;
/// Bytes of the longest template.
const MAX_TEMPLATE_BYTES: usize = 256 << 10;
/// Longest rendering, for work that fuel does not see, such as comparing a value that holds one list a
/// million times.
const DEADLINE: Duration = Duration::from_secs(10);
/// Stack for the engine, in bytes: room for expressions and values nested as deep as a template of that
/// length can nest them. Only what is used becomes memory.
const STACK_BYTES: usize = 512 << 20;
/// Calls of macros within macros.
const MAX_RECURSION: usize = 100;
/// Name of the one template in its environment.
const NAME: &str = "chat";
/// Follows the text to be continued through the template, as in `transformers`; where it comes out, the
/// prompt ends.
const CONTINUATION_MARK: &str = "CONTINUE_FINAL_MESSAGE_TAG ";

/// How the rendered prompt ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With the header of an answer that the model is to write (`add_generation_prompt`).
    GenerationPrompt,
    /// Right behind the text of the last message, which the model is to go on with
    /// (`continue_final_message`).
    Continuation,
    /// With the last message as the template closes it.
    Closed,
}

impl Ending {
    /// What a generation from `conversation` needs: an assistant's last message is continued, everything
    /// else is answered.
    pub fn for_generation(conversation: &Conversation) -> Self {
        if conversation.last_role() == Some("assistant") {
            Self::Continuation
        } else {
            Self::GenerationPrompt
        }
    }
}

/// A parsed chat template with the special tokens it may print.
#[derive(Clone)]
pub struct ChatTemplate {
    origin: String,
    environment: Arc<Environment<'static>>,
    special_tokens: Map<String, Value>,
}

impl std::fmt::Debug for ChatTemplate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChatTemplate").field("origin", &self.origin).finish_non_exhaustive()
    }
}

impl ChatTemplate {
    /// Parses `text`; `origin` names its file or metadata key in messages, and `special_tokens` are
    /// variables such as `bos_token` (see [`special_tokens`](super::special_tokens)).
    ///
    /// # Errors
    ///
    /// [`Error::ChatTemplate`] when it cannot be parsed.
    pub fn parse(origin: &str, text: &str, special_tokens: Map<String, Value>) -> Result<Self> {
        Self::parse_with_clock(origin, text, special_tokens, system_clock())
    }

    /// [`parse`](Self::parse), with what `strftime_now` takes for now.
    pub fn parse_with_clock(
        origin: &str,
        text: &str,
        special_tokens: Map<String, Value>,
        clock: Clock,
    ) -> Result<Self> {
        let failure = |problem: &str| failure(origin, problem);
        if text.len() > MAX_TEMPLATE_BYTES {
            return Err(failure(&format!("it is longer than {} KiB", MAX_TEMPLATE_BYTES >> 10)));
        }
        let text = rewrite(text).into_owned();
        let parse = move || {
            let mut environment = environment(clock);
            environment.set_recursion_limit(MAX_RECURSION);
            environment.add_template_owned(NAME, text).map(|()| environment)
        };
        let environment = on_own_stack(parse).map_err(|problem| failure(&problem))?;
        let environment = environment.map_err(|error| template_error(origin, &error))?;
        Ok(Self { origin: origin.to_owned(), environment: Arc::new(environment), special_tokens })
    }

    /// Where the template comes from: a file name or metadata key.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The prompt for `conversation`. `variables` go to the template as they are and win over special
    /// tokens (`enable_thinking`, `date_string`, ...).
    ///
    /// # Errors
    ///
    /// [`Error::ChatRefused`] with the template's own message, [`Error::ChatTemplate`] for everything
    /// else that goes wrong while it runs.
    pub fn render(
        &self,
        conversation: &Conversation,
        variables: &Map<String, Value>,
        ending: Ending,
    ) -> Result<String> {
        let mut messages = conversation.messages().to_vec();
        let continued = match ending {
            Ending::Continuation => Some(mark_last_text(&mut messages).ok_or_else(|| self.failure(
                "the conversation ends with an assistant's message without text, so there is nothing to continue",
            ))?),
            Ending::GenerationPrompt | Ending::Closed => None,
        };
        let mut context = self.special_tokens.clone();
        context.extend(variables.iter().map(|(name, value)| (name.clone(), value.clone())));
        let optional = |list: Option<&[Value]>| list.map_or(Value::Null, |list| Value::Array(list.to_vec()));
        context.insert("messages".to_owned(), Value::Array(messages));
        context.insert("tools".to_owned(), optional(conversation.tools()));
        context.insert("documents".to_owned(), optional(conversation.documents()));
        context.insert("add_generation_prompt".to_owned(), (ending == Ending::GenerationPrompt).into());

        let rendered = self.run(Value::Object(context))?;
        match continued {
            None => Ok(rendered),
            Some(text) => end_behind(&rendered, &text).ok_or_else(|| {
                self.failure("the text to be continued does not come out of the template as it went in")
            }),
        }
    }

    fn run(&self, context: Value) -> Result<String> {
        let input_bytes = context.to_string().len() as u64;
        let mut environment = (*self.environment).clone();
        environment.set_fuel(Some(FUEL.saturating_add(FUEL_PER_INPUT_BYTE.saturating_mul(input_bytes))));
        let render = move || {
            let mut output = LimitedOutput { bytes: Vec::new(), limit: MAX_OUTPUT_BYTES };
            let template = environment.get_template(NAME)?;
            template.render_captured_to(engine_value(&context), &mut output)?;
            Ok(output.bytes)
        };
        let rendered = on_own_stack(render).map_err(|problem| self.failure(&problem))?;
        let bytes = rendered.map_err(|error| template_error(&self.origin, &error))?;
        String::from_utf8(bytes).map_err(|error| self.failure(&error.to_string()))
    }

    fn failure(&self, problem: &str) -> Error {
        failure(&self.origin, problem)
    }
}

fn failure(origin: &str, problem: &str) -> Error {
    Error::ChatTemplate { origin: format!("`{origin}`"), line: None, problem: problem.to_owned() }
}

/// Does the engine's work in a thread that a template can neither overflow nor keep from being given up;
/// the error says why there is no result. A thread past the deadline ends when its fuel does.
fn on_own_stack<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    let (sender, receiver) = mpsc::channel();
    thread::Builder::new()
        .name("chat template".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(move || {
            // Nobody listens any more once the deadline has passed.
            let _ = sender.send(work());
        })
        .map_err(|error| format!("there is no thread to run it in: {error}"))?;
    receiver.recv_timeout(DEADLINE).map_err(|error| match error {
        mpsc::RecvTimeoutError::Timeout => format!("it does not end within {} s", DEADLINE.as_secs()),
        mpsc::RecvTimeoutError::Disconnected => "the template engine failed".to_owned(),
    })
}

/// JSON as the engine's value, key order kept; numbers past 64 bits are floats.
fn engine_value(value: &Value) -> EngineValue {
    match value {
        Value::Null => EngineValue::from(()),
        Value::Bool(value) => EngineValue::from(*value),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(value), _) => EngineValue::from(value),
            (None, Some(value)) => EngineValue::from(value),
            (None, None) => EngineValue::from(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => EngineValue::from(text.as_str()),
        Value::Array(items) => EngineValue::from(items.iter().map(engine_value).collect::<Vec<_>>()),
        Value::Object(fields) => {
            EngineValue::from_pairs(fields.iter().map(|(key, value)| (key.as_str(), engine_value(value))))
        }
    }
}

/// Puts the mark behind the text of the last message and returns that text without it. Among typed parts
/// it is the last that has text.
fn mark_last_text(messages: &mut [Value]) -> Option<String> {
    let content = messages.last_mut()?.get_mut("content")?;
    let content = match content {
        Value::Array(parts) => parts.iter_mut().rev().find_map(|part| part.get_mut("text"))?,
        content => content,
    };
    let Value::String(text) = content else { return None };
    let original = text.clone();
    text.push_str(CONTINUATION_MARK);
    Some(original)
}

/// `rendered` up to the mark. A template that trimmed the message also took the mark's space, and then
/// the space before the mark goes too, as the template would have trimmed it.
fn end_behind(rendered: &str, text: &str) -> Option<String> {
    let mark = CONTINUATION_MARK.trim();
    let at =
        rendered.rfind(mark).filter(|_| rendered.contains(text.trim_matches(super::python::is_space)))?;
    let before = &rendered[..at];
    let spacing_kept = rendered[at..].starts_with(CONTINUATION_MARK);
    Some(if spacing_kept { before } else { before.trim_end_matches(super::python::is_space) }.to_owned())
}

/// The engine's error in terms of the template.
fn template_error(origin: &str, error: &minijinja::Error) -> Error {
    // Errors inside macros, blocks and filters carry the first cause at the end of their chain.
    let mut cause = error;
    let mut raised = false;
    while let Some(source) = std::error::Error::source(cause) {
        if source.is::<Raised>() {
            raised = true;
            break;
        }
        let Some(source) = source.downcast_ref::<minijinja::Error>() else { break };
        cause = source;
    }
    let origin = format!("`{origin}`");
    let line = cause.line().or_else(|| error.line());
    let detail = cause.detail().unwrap_or_default();
    if raised {
        return Error::ChatRefused { origin, line, message: detail.to_owned() };
    }
    let problem = match cause.kind() {
        ErrorKind::OutOfFuel => "it does too much work for a prompt, or never ends".to_owned(),
        ErrorKind::WriteFailure => format!("its output is longer than {} MiB", MAX_OUTPUT_BYTES >> 20),
        kind if detail.is_empty() => kind.to_string(),
        kind => format!("{kind}: {detail}"),
    };
    Error::ChatTemplate { origin, line, problem }
}

/// Collects output and fails past a limit.
struct LimitedOutput {
    bytes: Vec<u8>,
    limit: usize,
}

impl Write for LimitedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.limit {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn render(template: &str, conversation: &Conversation, ending: Ending) -> Result<String> {
        ChatTemplate::parse("t.jinja", template, Map::new())?.render(conversation, &Map::new(), ending)
    }

    fn asked() -> Conversation {
        Conversation::from_prompt(None, "hi")
    }

    #[test]
    fn a_refusal_carries_exactly_the_message_and_its_line() {
        let template =
            "{% macro check() %}\n{{ raise_exception('Nope: \"x\"') }}{% endmacro %}\n{{ check() }}";
        match render(template, &asked(), Ending::Closed).unwrap_err() {
            Error::ChatRefused { origin, line, message } => {
                assert_eq!((origin.as_str(), line, message.as_str()), ("`t.jinja`", Some(2), "Nope: \"x\""));
            }
            other => panic!("{other}"),
        }
    }

    #[test]
    fn failures_name_the_line_and_carry_a_hint() {
        for (template, line, part) in [
            ("a\n{% if x %}", 2, "syntax error"),
            ("\n\n{{ missing.key }}", 3, "undefined"),
            ("{{ x | nofilter }}", 1, "nofilter"),
            ("\n{{ messages[0].content.nomethod() }}", 2, "nomethod"),
        ] {
            let error = render(template, &asked(), Ending::Closed).unwrap_err();
            let text = error.to_string();
            assert!(text.contains(&format!("line {line},")) && text.contains(part), "{text}");
            assert!(error.hint().unwrap().contains("--raw"));
        }
    }

    #[test]
    fn an_assistants_last_message_is_continued_where_it_ends() {
        let conversation = |content: Value| {
            let messages =
                json!([{"role": "user", "content": "hi"}, {"role": "assistant", "content": content}]);
            Conversation::from_json(messages).unwrap()
        };
        let as_is =
            "{% for m in messages %}[{{ m.content }}]{% endfor %}{% if add_generation_prompt %}A{% endif %}";
        let trimmed = "{% for m in messages %}[{{ m.content | trim }}]{% endfor %}";
        let parts = "{% for m in messages %}[{{ m.content[0].text }}]{% endfor %}";
        let dropped = "{{ messages[0].content }}";
        let text = conversation(json!("The answer is "));
        assert_eq!(Ending::for_generation(&text), Ending::Continuation);
        assert_eq!(render(as_is, &text, Ending::Continuation).unwrap(), "[hi][The answer is ");
        assert_eq!(render(trimmed, &text, Ending::Continuation).unwrap(), "[hi][The answer is");
        let typed = conversation(json!([{"type": "text", "text": "So"}, {"type": "image"}]));
        assert_eq!(render(parts, &typed, Ending::Continuation).unwrap(), "[][So");
        let error = render(dropped, &text, Ending::Continuation).unwrap_err().to_string();
        assert!(error.contains("does not come out"), "{error}");
        assert_eq!(render(as_is, &asked(), Ending::for_generation(&asked())).unwrap(), "[hi]A");
    }

    #[test]
    fn variables_win_over_special_tokens_but_not_over_the_conversation() {
        let tokens = Map::from_iter([("bos_token".to_owned(), json!("<s>"))]);
        let template =
            ChatTemplate::parse("t", "{{ bos_token }}{{ thinking }}{{ tools is none }}", tokens).unwrap();
        let render = |variables: Value| {
            template.render(&asked(), variables.as_object().unwrap(), Ending::Closed).unwrap()
        };
        assert_eq!(render(json!({})), "<s>True");
        assert_eq!(render(json!({"bos_token": "B", "thinking": false})), "BFalseTrue");
    }

    #[test]
    fn no_template_hangs_overflows_or_eats_memory() {
        // Legal, so it may well render.
        let _ = render(&format!("{{{{ {}1 }}}}", "-".repeat(250_000)), &asked(), Ending::Closed);
        let attributes = format!("{{{{ x{} }}}}", ".a".repeat(100_000));
        let doubling = |with: &str, end: &str| {
            format!(
                "{{% set ns = namespace(x='a') %}}{{% for i in range(90) %}}{{% set ns.x = {with} %}}{{% endfor %}}{end}"
            )
        };
        for template in [
            "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
            "{% macro m(x) %}{{ m(x) }}{{ m(x) }}{% endmacro %}{{ m(1) }}",
            "{{ 'a' * 100000000000 }}",
            "{{ 'a'.center(100000000000) }}",
            "{{ '{:>100000000000}'.format(5) }}",
            "{{ '%100000000000d' | format(5) }}",
            "{{ ('b' * 1000000).join(('a' * 100000) | list) }}",
            "{% set ns = namespace(x=1) %}{% set ns.x = [ns] %}{{ ns ~ '' }}",
            "{% set ns = namespace(x=1) %}{% set ns.x = ns %}{{ ns ~ '' }}",
            "{% for i in range(100000) %}{{ 'aaaaaaaaaa' * 100 }}{% endfor %}",
            &doubling("ns.x ~ ns.x", "{{ ns.x }}"),
            &doubling("ns.x + ns.x", "{{ ns.x }}"),
            &doubling("[ns.x, ns.x]", "{{ ns.x ~ '' }}"),
            &doubling("[ns.x, ns.x]", "{{ ns.x == ns.x }}"),
            &attributes,
        ] {
            let result = render(template, &asked(), Ending::Closed);
            assert!(
                matches!(result, Err(Error::ChatTemplate { .. })),
                "{}",
                &template[..60.min(template.len())]
            );
        }
    }
}
