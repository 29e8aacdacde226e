//! Where prompts come from, and how they become token ids.

use std::io::Read;
use std::path::Path;

use anyhow::Result;
use serde_json::{Map, Value};

use crate::chat::{self, ChatTemplate, Conversation, Ending, PromptText};
use crate::checkpoint::Checkpoint;
use crate::cli::args::PromptArgs;
use crate::cli::usage;
use crate::demo;
use crate::error::Error;

/// The largest prompt file that is read, in bytes.
const MAX_PROMPT_BYTES: u64 = 256 << 20;

/// What the user wants continued or answered.
pub(super) enum Source {
    /// Token ids.
    Ids(Vec<u32>),
    /// A text.
    Text(String),
    /// A conversation.
    Conversation(Conversation),
}

/// One prompt.
pub(super) struct Prompt {
    /// `id` of its line in a file of prompts.
    pub(super) id: Option<Value>,
    pub(super) source: Source,
}

/// A prompt as the model reads it.
pub(super) struct Encoded {
    pub(super) ids: Vec<u32>,
    /// The text they stand for, where the prompt was one.
    pub(super) text: Option<String>,
    /// Whether a template left out the token that the tokenizer puts first.
    pub(super) lacks_bos: bool,
}

/// Reads the prompts that were asked for; more than one only with `--prompts`.
pub(super) fn read(args: &PromptArgs, is_demo: bool) -> Result<Vec<Prompt>> {
    if let Some(path) = &args.prompts {
        return read_lines(path);
    }
    let source = if let Some(ids) = &args.prompt_ids {
        Source::Ids(ids.clone())
    } else if let Some(path) = &args.messages {
        Source::Conversation(Conversation::parse(&read_text(path)?, path)?)
    } else {
        Source::Text(text(args, is_demo)?)
    };
    match &source {
        Source::Ids(ids) if ids.is_empty() => Err(usage("--prompt-ids", "there are none".to_owned())),
        Source::Text(text) if text.is_empty() => Err(usage("prompt", "it is empty".to_owned())),
        _ => Ok(vec![Prompt { id: None, source }]),
    }
}

fn text(args: &PromptArgs, is_demo: bool) -> Result<String> {
    if let Some(path) = &args.prompt_file {
        return read_text(path);
    }
    match args.prompt.as_ref().or(args.text.as_ref()).map(String::as_str) {
        Some("-") => read_stdin(),
        Some(text) => Ok(text.to_owned()),
        None if stdin_has_text() => read_stdin(),
        None if is_demo => Ok(demo::OPENING.trim_end().to_owned()),
        None => {
            Err(usage("prompt", "none was given; use -p TEXT, -f FILE, a pipe or --prompt-ids".to_owned()))
        }
    }
}

/// Whether somebody pipes or redirects a text into the program. A terminal would have to be waited for,
/// and a device such as /dev/null says nothing.
fn stdin_has_text() -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        std::fs::metadata("/dev/stdin").is_ok_and(|data| data.file_type().is_fifo() || data.is_file())
    }
    #[cfg(not(unix))]
    {
        use std::io::IsTerminal;
        !std::io::stdin().is_terminal()
    }
}

fn read_stdin() -> Result<String> {
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(MAX_PROMPT_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|source| Error::Stream { action: "read standard input", source })?;
    checked(bytes, Path::new("standard input"))
}

fn read_text(path: &Path) -> Result<String> {
    let file = std::fs::File::open(path).map_err(Error::io("open", path))?;
    let mut bytes = Vec::new();
    file.take(MAX_PROMPT_BYTES + 1).read_to_end(&mut bytes).map_err(Error::io("read", path))?;
    checked(bytes, path)
}

fn checked(bytes: Vec<u8>, path: &Path) -> Result<String> {
    let malformed = |problem: String| Error::Malformed { path: path.to_owned(), problem };
    if bytes.len() as u64 > MAX_PROMPT_BYTES {
        return Err(malformed(format!("it is longer than {MAX_PROMPT_BYTES} bytes")).into());
    }
    let text = String::from_utf8(bytes)
        .map_err(|error| malformed(format!("it is not UTF-8: {}", error.utf8_error())))?;
    Ok(text)
}

/// A prompt per line: `{"prompt": "..."}` or `{"messages": [...]}`, maybe with an `id`.
fn read_lines(path: &Path) -> Result<Vec<Prompt>> {
    let malformed = |number: usize, problem: String| Error::Malformed {
        path: path.to_owned(),
        problem: format!("line {number}: {problem}"),
    };
    let text = read_text(path)?;
    let mut prompts = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() {
            continue;
        }
        let value: Value =
            serde_json::from_str(line).map_err(|error| malformed(number, error.to_string()))?;
        prompts.push(prompt_of(value).map_err(|problem| malformed(number, problem))?);
    }
    if prompts.is_empty() {
        return Err(usage("--prompts", format!("`{}` holds no prompt", path.display())));
    }
    Ok(prompts)
}

fn prompt_of(value: Value) -> Result<Prompt, String> {
    let Value::Object(mut object) = value else { return Err("it is not a JSON object".to_owned()) };
    let id = object.shift_remove("id");
    // Categories belong to comparisons, which read the same files.
    object.shift_remove("category");
    let source = match object.get("prompt") {
        Some(Value::String(text)) if text.is_empty() => return Err("the prompt is empty".to_owned()),
        Some(Value::String(text)) if object.len() == 1 => Source::Text(text.clone()),
        Some(Value::String(_)) => return Err("there is more beside `prompt`".to_owned()),
        Some(_) => return Err("`prompt` is not a text".to_owned()),
        None if object.contains_key("messages") => {
            Source::Conversation(Conversation::from_json(Value::Object(object))?)
        }
        None => return Err("it has neither `prompt` nor `messages`".to_owned()),
    };
    Ok(Prompt { id, source })
}

/// Turns prompts into ids for one target.
pub(super) struct Encoder<'c> {
    target: &'c Checkpoint,
    /// `--chat-template`.
    foreign: Option<ChatTemplate>,
    variables: Map<String, Value>,
    system: Option<&'c str>,
    is_raw: bool,
    is_raw_by_flag: bool,
}

impl<'c> Encoder<'c> {
    pub(super) fn new(args: &'c PromptArgs, target: &'c Checkpoint) -> Result<Self> {
        let foreign = match &args.chat_template {
            Some(path) => Some(target.templates.foreign(&path.display().to_string(), &read_text(path)?)?),
            None => None,
        };
        let variables = args.chat_template_kwargs.as_deref().map(chat::parse_template_kwargs).transpose()?;
        let has_template = foreign.is_some() || !target.templates.is_empty();
        let takes_text = args.prompt_ids.is_none() && !args.score;
        let given = [
            ("--system", args.system.is_some()),
            ("--messages", args.messages.is_some()),
            ("--chat-template-kwargs", variables.is_some()),
            ("--chat-template", args.chat_template.is_some()),
        ];
        if let Some((flag, _)) = given.iter().find(|(_, given)| *given) {
            if !takes_text {
                let problem = "has no effect on token ids or a text to be scored".to_owned();
                return Err(usage(flag, problem));
            }
            if !has_template {
                let problem = format!("needs a chat template, and `{}` has none", target.path.display());
                return Err(usage(flag, problem));
            }
        }
        Ok(Self {
            target,
            foreign,
            variables: variables.unwrap_or_default(),
            system: args.system.as_deref(),
            is_raw_by_flag: args.raw,
            is_raw: args.raw || !takes_text || !has_template,
        })
    }

    /// Whether texts go through a chat template.
    pub(super) fn uses_template(&self) -> bool {
        !self.is_raw
    }

    pub(super) fn encode(&self, source: &Source) -> Result<Encoded> {
        let text = match source {
            Source::Ids(ids) => return Ok(Encoded { ids: ids.clone(), text: None, lacks_bos: false }),
            Source::Text(text) if self.is_raw => PromptText::Raw(text.clone()),
            Source::Text(text) => self.render(&Conversation::from_prompt(self.system, text))?,
            Source::Conversation(_) if self.is_raw_by_flag => {
                return Err(usage("--raw", "messages are no text without a chat template".to_owned()));
            }
            Source::Conversation(conversation) => {
                let mut conversation = conversation.clone();
                if let Some(system) = self.system {
                    conversation.set_system(system);
                }
                self.render(&conversation)?
            }
        };
        let Some(tokenizer) = &self.target.tokenizer else {
            let problem = format!("`{}` has no tokenizer; use --prompt-ids", self.target.path.display());
            return Err(usage("prompt", problem));
        };
        let bos = tokenizer.bos_id().and_then(|id| tokenizer.token(id));
        let ids = if text.adds_special_tokens(bos.as_deref()) {
            tokenizer.encode(text.text())?
        } else {
            tokenizer.encode_plain(text.text())?
        };
        if ids.is_empty() {
            return Err(usage("prompt", "it has no tokens".to_owned()));
        }
        let adds_bos = || tokenizer.encode("").is_ok_and(|ids| ids.first().copied() == tokenizer.bos_id());
        let lacks_bos = text.lacks_bos(bos.as_deref()) && adds_bos();
        Ok(Encoded { ids, text: Some(text.text().to_owned()), lacks_bos })
    }

    fn render(&self, conversation: &Conversation) -> Result<PromptText> {
        let template = match &self.foreign {
            Some(template) => Some(template.clone()),
            None => self.target.templates.choose(conversation)?,
        };
        let Some(template) = template else {
            let problem =
                format!("messages need a chat template, and `{}` has none", self.target.path.display());
            return Err(usage("--prompts", problem));
        };
        let ending = Ending::for_generation(conversation);
        Ok(PromptText::Rendered(template.render(conversation, &self.variables, ending)?))
    }
}
