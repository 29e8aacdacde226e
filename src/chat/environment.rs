//! The template engine, set up like the one of `transformers`' `apply_chat_template`.
//!
//! Jinja with `trim_blocks` and `lstrip_blocks`, loop controls, generation tags, `raise_exception`,
//! `strftime_now`, and `tojson` as Python's `json.dumps`. Invariant: the same template and variables give
//! the bytes that the engine in Python gives, or an error; no template can read a file, and none runs
//! longer than its fuel. Limits are set by `template`.

use std::sync::Arc;

use jiff::civil::DateTime;
use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State, Value};

use super::strftime::strftime;
use super::{filters, methods, python};

/// Where `strftime_now` gets the time: the local clock, or a fixed one.
pub type Clock = Arc<dyn Fn() -> DateTime + Send + Sync>;

/// Marks an error as the template's own, so that its message can be told from the engine's.
#[derive(Debug, thiserror::Error)]
#[error("raise_exception")]
pub(super) struct Raised;

/// The local time of the system.
pub fn system_clock() -> Clock {
    Arc::new(|| jiff::Zoned::now().datetime())
}

/// An environment without templates and without limits.
pub(super) fn environment(clock: Clock) -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_syntax(
        SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().expect("default delimiters"),
    );
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_unknown_method_callback(methods::call_method);
    environment.set_formatter(|out, state, value| {
        let text = python::str_of(state, value)?;
        out.write_str(&text).map_err(Error::from)
    });
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", move |format: &str| strftime(format, clock()));
    filters::register(&mut environment);
    environment
}

fn raise_exception(state: &State, message: &Value) -> Result<Value, Error> {
    let message = python::str_of(state, message)?;
    Err(Error::new(ErrorKind::InvalidOperation, message).with_source(Raised))
}
