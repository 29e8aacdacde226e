//! Which chat template a checkpoint has, from files and metadata that were read already.
//!
//! Places and precedence are those of `transformers`, and of llama.cpp for GGUF metadata. Invariant:
//! nothing is read or parsed as a template here before one is chosen, so a broken template that is not
//! used does no harm. Reading the files is left to the caller.

use serde_json::{Map, Value};

use super::messages::Conversation;
use super::special_tokens::special_tokens;
use super::template::ChatTemplate;
use crate::error::{Error, Result};

/// File names beside `config.json` that a caller reads for [`TemplateFiles`].
pub const TEMPLATE_FILE: &str = "chat_template.jinja";
/// Folder of further templates, each named after its file without `.jinja`.
pub const ADDITIONAL_TEMPLATES_FOLDER: &str = "additional_chat_templates";
/// Where processors of several modalities keep their template.
pub const PROCESSOR_TEMPLATE_FILE: &str = "chat_template.json";
/// GGUF metadata key of the default template; further ones follow behind a dot.
pub const GGUF_TEMPLATE_KEY: &str = "tokenizer.chat_template";

const DEFAULT: &str = "default";
const TOOL_USE: &str = "tool_use";

/// What a checkpoint's folder says about chat templates; every field may be absent.
#[derive(Debug, Clone, Default)]
pub struct TemplateFiles<'a> {
    /// Text of [`TEMPLATE_FILE`].
    pub template: Option<&'a str>,
    /// Names (without `.jinja`) and texts from [`ADDITIONAL_TEMPLATES_FOLDER`].
    pub additional: &'a [(String, String)],
    /// `tokenizer_config.json`.
    pub tokenizer_config: Option<&'a Value>,
    /// `special_tokens_map.json`.
    pub special_tokens_map: Option<&'a Value>,
    /// [`PROCESSOR_TEMPLATE_FILE`].
    pub processor: Option<&'a Value>,
}

/// The templates of one checkpoint by name, not parsed yet, and its special tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct TemplateSet {
    templates: Vec<NamedTemplate>,
    special_tokens: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq)]
struct NamedTemplate {
    name: String,
    origin: String,
    text: String,
}

impl TemplateSet {
    /// The templates of a folder: `.jinja` files before `tokenizer_config.json` before
    /// `chat_template.json`. A place that has any template hides those behind it.
    pub fn from_files(files: &TemplateFiles) -> Self {
        let mut templates = Vec::new();
        if let Some(text) = files.template {
            templates.push(NamedTemplate::new(DEFAULT, TEMPLATE_FILE, text));
        }
        for (name, text) in files.additional {
            let origin = format!("{ADDITIONAL_TEMPLATES_FOLDER}/{name}.jinja");
            templates.push(NamedTemplate::new(name, &origin, text));
        }
        for (value, origin) in
            [(files.tokenizer_config, "tokenizer_config.json"), (files.processor, PROCESSOR_TEMPLATE_FILE)]
        {
            if templates.is_empty() {
                templates = stated(value.and_then(|value| value.get("chat_template")), origin);
            }
        }
        Self { templates, special_tokens: special_tokens(files.tokenizer_config, files.special_tokens_map) }
    }

    /// The templates among a GGUF file's metadata strings; other keys are passed over.
    pub fn from_gguf<'a>(
        strings: impl IntoIterator<Item = (&'a str, &'a str)>,
        special_tokens: Map<String, Value>,
    ) -> Self {
        let named = |(key, text): (&str, &str)| {
            let name = match key.strip_prefix(GGUF_TEMPLATE_KEY)? {
                "" => DEFAULT,
                rest => rest.strip_prefix('.')?,
            };
            Some(NamedTemplate::new(name, key, text))
        };
        Self { templates: strings.into_iter().filter_map(named).collect(), special_tokens }
    }

    /// Whether the checkpoint has no template, as base models have none.
    pub fn is_empty(&self) -> bool {
        self.templates.is_empty()
    }

    /// Names of the templates, in the checkpoint's order.
    pub fn names(&self) -> Vec<&str> {
        self.templates.iter().map(|template| template.name.as_str()).collect()
    }

    /// Variables that any template used with this checkpoint gets.
    pub fn special_tokens(&self) -> &Map<String, Value> {
        &self.special_tokens
    }

    /// The template for `conversation`: `tool_use` where it has tools and there is such a template, else
    /// `default`. None when the checkpoint has no template.
    ///
    /// # Errors
    ///
    /// [`Error::ChatTemplate`] when there are templates but neither of those, or it cannot be parsed.
    pub fn choose(&self, conversation: &Conversation) -> Result<Option<ChatTemplate>> {
        let Some(any) = self.templates.first() else { return Ok(None) };
        let for_tools = conversation.tools().and_then(|_| self.find(TOOL_USE));
        match for_tools.or_else(|| self.find(DEFAULT)) {
            Some(template) => self.parse(template).map(Some),
            None => Err(Error::ChatTemplate {
                origin: format!("`{}`", any.origin),
                line: None,
                problem: format!(
                    "none of the checkpoint's templates is the default; there are {}",
                    self.names().join(", ")
                ),
            }),
        }
    }

    /// The template called `name`, or none.
    ///
    /// # Errors
    ///
    /// [`Error::ChatTemplate`] when it cannot be parsed.
    pub fn named(&self, name: &str) -> Result<Option<ChatTemplate>> {
        self.find(name).map(|template| self.parse(template)).transpose()
    }

    /// A template from elsewhere (`--chat-template FILE`) with this checkpoint's special tokens.
    ///
    /// # Errors
    ///
    /// [`Error::ChatTemplate`] when it cannot be parsed.
    pub fn foreign(&self, origin: &str, text: &str) -> Result<ChatTemplate> {
        ChatTemplate::parse(origin, text, self.special_tokens.clone())
    }

    /// The last of a name wins, as in the Python dict that `transformers` makes of a list.
    fn find(&self, name: &str) -> Option<&NamedTemplate> {
        self.templates.iter().rev().find(|template| template.name == name)
    }

    fn parse(&self, template: &NamedTemplate) -> Result<ChatTemplate> {
        ChatTemplate::parse(&template.origin, &template.text, self.special_tokens.clone())
    }
}

impl NamedTemplate {
    fn new(name: &str, origin: &str, text: &str) -> Self {
        Self { name: name.to_owned(), origin: origin.to_owned(), text: text.to_owned() }
    }
}

/// The `chat_template` of a JSON file: text, a list of `{name, template}`, or names to texts.
fn stated(value: Option<&Value>, origin: &str) -> Vec<NamedTemplate> {
    match value {
        Some(Value::String(text)) => vec![NamedTemplate::new(DEFAULT, origin, text)],
        Some(Value::Array(items)) => items
            .iter()
            .filter_map(|item| {
                let text_at = |key: &str| item.get(key).and_then(Value::as_str);
                Some(NamedTemplate::new(text_at("name")?, origin, text_at("template")?))
            })
            .collect(),
        Some(Value::Object(named)) => named
            .iter()
            .filter_map(|(name, text)| Some(NamedTemplate::new(name, origin, text.as_str()?)))
            .collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rendered(set: &TemplateSet, conversation: &Conversation) -> String {
        let template = set.choose(conversation).unwrap().expect("a template");
        template.render(conversation, &Map::new(), super::super::Ending::Closed).unwrap()
    }

    fn with_tools() -> Conversation {
        let value = json!({"messages": [{"role": "user", "content": "x"}], "tools": [{"name": "t"}]});
        Conversation::from_json(value).unwrap()
    }

    #[test]
    fn tools_take_the_template_made_for_them() {
        let config = json!({"bos_token": "<s>", "chat_template": [
            {"name": "default", "template": "{{ bos_token }}plain"}, {"name": "tool_use", "template": "tools"}
        ]});
        let set = TemplateSet::from_files(&TemplateFiles {
            tokenizer_config: Some(&config),
            ..TemplateFiles::default()
        });
        assert_eq!(set.names(), ["default", "tool_use"]);
        assert_eq!(rendered(&set, &Conversation::from_prompt(None, "x")), "<s>plain");
        assert_eq!(rendered(&set, &with_tools()), "tools");
    }

    #[test]
    fn jinja_files_hide_the_configuration_and_that_hides_the_processor() {
        let config = json!({"chat_template": "config"});
        let processor = json!({"chat_template": "processor"});
        let question = Conversation::from_prompt(None, "x");
        let additional = [("tool_use".to_owned(), "file for tools".to_owned())];
        let mut files = TemplateFiles { processor: Some(&processor), ..TemplateFiles::default() };
        assert_eq!(rendered(&TemplateSet::from_files(&files), &question), "processor");
        files.tokenizer_config = Some(&config);
        assert_eq!(rendered(&TemplateSet::from_files(&files), &question), "config");
        files.template = Some("file");
        files.additional = &additional;
        assert_eq!(rendered(&TemplateSet::from_files(&files), &question), "file");
        assert_eq!(rendered(&TemplateSet::from_files(&files), &with_tools()), "file for tools");
        files.template = None;
        let error = TemplateSet::from_files(&files).choose(&question).unwrap_err().to_string();
        assert!(
            error.contains("none of the checkpoint's templates is the default; there are tool_use"),
            "{error}"
        );
    }

    #[test]
    fn gguf_names_stand_behind_the_key() {
        let strings = [
            ("tokenizer.chat_template", "{{ eos_token }}"),
            ("tokenizer.chat_template.tool_use", "tools"),
            ("tokenizer.chat_templates", "not one"),
            ("general.name", "x"),
        ];
        let tokens = Map::from_iter([("eos_token".to_owned(), json!("</s>"))]);
        let set = TemplateSet::from_gguf(strings, tokens);
        assert_eq!(set.names(), ["default", "tool_use"]);
        assert_eq!(rendered(&set, &Conversation::from_prompt(None, "x")), "</s>");
        assert_eq!(rendered(&set, &with_tools()), "tools");
        assert!(TemplateSet::from_gguf([("general.name", "x")], Map::new()).is_empty());
    }

    #[test]
    fn a_broken_template_hurts_only_when_it_is_chosen() {
        let config = json!({"chat_template": {"default": "fine", "tool_use": "{% if"}});
        let set = TemplateSet::from_files(&TemplateFiles {
            tokenizer_config: Some(&config),
            ..TemplateFiles::default()
        });
        assert_eq!(rendered(&set, &Conversation::from_prompt(None, "x")), "fine");
        let error = set.choose(&with_tools()).unwrap_err();
        assert!(matches!(error, Error::ChatTemplate { line: Some(1), .. }), "{error}");
    }
}
