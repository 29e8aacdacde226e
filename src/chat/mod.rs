//! Chat: from messages to the text that a model was trained to answer.
//!
//! `sources` finds the checkpoint's template, `template` renders it as `transformers` would, `messages`
//! reads what the user wrote, `prompt` says how the result is encoded. Invariant: the bytes are those of
//! `apply_chat_template`, or there is an error that names the template and the line. No file is opened
//! here; tokens are the tokenizer's.

mod bounds;
mod environment;
mod filters;
mod json;
mod messages;
mod methods;
mod prompt;
mod python;
mod rewrite;
mod sources;
mod special_tokens;
mod strftime;
mod template;

pub use environment::{Clock, system_clock};
pub use messages::{Conversation, parse_template_kwargs};
pub use prompt::PromptText;
pub use sources::{
    ADDITIONAL_TEMPLATES_FOLDER, GGUF_TEMPLATE_KEY, PROCESSOR_TEMPLATE_FILE, TEMPLATE_FILE, TemplateFiles,
    TemplateSet,
};
pub use special_tokens::{GGUF_TOKEN_IDS, special_tokens, special_tokens_of_gguf};
pub use template::{ChatTemplate, Ending};
