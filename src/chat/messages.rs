//! A conversation as the user gives it: messages, tools and documents.
//!
//! Kept as JSON, key order included, because templates read fields of their own families. Invariant:
//! every message has a role, its content is text, typed parts, an object, null or absent, so that a
//! mistake in a file is reported by entry here and not as a failure inside a template. What a role may
//! be is the template's to say.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::error::{Error, Result};

/// Messages, and what a model may use to answer them.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    messages: Vec<Value>,
    tools: Option<Vec<Value>>,
    documents: Option<Vec<Value>>,
}

impl Conversation {
    /// One question, behind a system message where there is one.
    pub fn from_prompt(system: Option<&str>, user: &str) -> Self {
        let mut conversation = Self { messages: Vec::new(), tools: None, documents: None };
        conversation.messages.push(json!({"role": "user", "content": user}));
        if let Some(system) = system {
            conversation.set_system(system);
        }
        conversation
    }

    /// Puts `system` first, in the place of a system message that is there already.
    pub fn set_system(&mut self, system: &str) {
        let message = json!({"role": "system", "content": system});
        match self.messages.first_mut() {
            Some(first) if role(first) == Some("system") => *first = message,
            _ => self.messages.insert(0, message),
        }
    }

    /// Reads a list of messages, or an object with `messages` and maybe `tools` and `documents`. `path`
    /// names the file in messages.
    ///
    /// # Errors
    ///
    /// [`Error::Malformed`], naming the entry.
    pub fn parse(text: &str, path: &Path) -> Result<Self> {
        let malformed = |problem: String| Error::Malformed { path: path.to_owned(), problem };
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let value = serde_json::from_str(text).map_err(|error| malformed(error.to_string()))?;
        Self::from_json(value).map_err(malformed)
    }

    /// [`parse`](Self::parse) for JSON that is read already, such as a line of `--prompts`; the error is
    /// the problem alone.
    pub fn from_json(value: Value) -> Result<Self, String> {
        let (messages, tools, documents) = match value {
            Value::Array(messages) => (messages, None, None),
            Value::Object(mut object) => {
                let messages = match object.shift_remove("messages") {
                    Some(Value::Array(messages)) => messages,
                    Some(other) => return Err(format!("`messages` is {}, not a list", kind(&other))),
                    None => return Err("the object has no `messages`".to_owned()),
                };
                let tools = take_list(&mut object, "tools")?;
                let documents = take_list(&mut object, "documents")?;
                if let Some(key) = object.keys().next() {
                    return Err(format!("`{key}` is not one of messages, tools, documents"));
                }
                (messages, tools, documents)
            }
            other => {
                return Err(format!(
                    "a list of messages or an object with `messages` is needed, not {}",
                    kind(&other)
                ));
            }
        };
        if messages.is_empty() {
            return Err("there are no messages".to_owned());
        }
        for (index, message) in messages.iter().enumerate() {
            check_message(message).map_err(|problem| format!("messages[{index}]: {problem}"))?;
        }
        Ok(Self { messages, tools, documents })
    }

    /// The messages, in order.
    pub fn messages(&self) -> &[Value] {
        &self.messages
    }

    /// The tools the model may call, if the user gave any.
    pub fn tools(&self) -> Option<&[Value]> {
        self.tools.as_deref()
    }

    /// The documents the answer may rest on, if the user gave any.
    pub fn documents(&self) -> Option<&[Value]> {
        self.documents.as_deref()
    }

    /// The role of the last message.
    pub fn last_role(&self) -> Option<&str> {
        self.messages.last().and_then(role)
    }
}

/// Reads `--chat-template-kwargs`: variables for the template.
///
/// # Errors
///
/// [`Error::Usage`] when it is not an object, or names what other flags give.
pub fn parse_template_kwargs(text: &str) -> Result<Map<String, Value>> {
    let usage = |problem: String| Error::Usage { flag: "--chat-template-kwargs".to_owned(), problem };
    let value: Value = serde_json::from_str(text).map_err(|error| usage(format!("not JSON: {error}")))?;
    let Value::Object(variables) = value else {
        return Err(usage(format!("an object is needed, not {}", kind(&value))));
    };
    for (name, instead) in [
        ("messages", "--messages gives them"),
        ("tools", "a --messages object gives them"),
        ("documents", "a --messages object gives them"),
        ("add_generation_prompt", "it follows from the last message's role"),
        ("continue_final_message", "it follows from the last message's role"),
    ] {
        if variables.contains_key(name) {
            return Err(usage(format!("`{name}` cannot be set here; {instead}")));
        }
    }
    Ok(variables)
}

/// Removes a list of objects; an empty list or null is the same as none.
fn take_list(object: &mut Map<String, Value>, key: &str) -> Result<Option<Vec<Value>>, String> {
    match object.shift_remove(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(items)) => {
            if let Some(index) = items.iter().position(|item| !item.is_object()) {
                return Err(format!("{key}[{index}] is {}, not an object", kind(&items[index])));
            }
            Ok((!items.is_empty()).then_some(items))
        }
        Some(other) => Err(format!("`{key}` is {}, not a list", kind(&other))),
    }
}

fn check_message(message: &Value) -> Result<(), String> {
    let Value::Object(fields) = message else {
        return Err(format!("{} instead of an object with `role` and `content`", kind(message)));
    };
    match fields.get("role") {
        Some(Value::String(role)) if !role.is_empty() => {}
        Some(other) => return Err(format!("`role` is {}, not a name", kind(other))),
        None => return Err("`role` is missing".to_owned()),
    }
    let has_calls = match fields.get("tool_calls") {
        None | Some(Value::Null) => false,
        Some(Value::Array(calls)) => match calls.iter().position(|call| !call.is_object()) {
            Some(index) => {
                return Err(format!("tool_calls[{index}] is {}, not an object", kind(&calls[index])));
            }
            None => true,
        },
        Some(other) => return Err(format!("`tool_calls` is {}, not a list", kind(other))),
    };
    match fields.get("content") {
        Some(Value::String(_) | Value::Object(_)) => Ok(()),
        Some(Value::Array(parts)) => check_parts(parts, fields.get("role") == Some(&json!("tool"))),
        // Answers that are only tool calls or only thoughts have no content.
        None | Some(Value::Null)
            if has_calls || ["thinking", "reasoning_content"].iter().any(|key| fields.contains_key(*key)) =>
        {
            Ok(())
        }
        None => Err("`content` is missing".to_owned()),
        Some(other) => Err(format!("`content` is {}, neither text nor a list of parts", kind(other))),
    }
}

/// Parts are objects with a `type`; what a tool returned may be any list.
fn check_parts(parts: &[Value], is_tool: bool) -> Result<(), String> {
    if is_tool {
        return Ok(());
    }
    for (index, part) in parts.iter().enumerate() {
        match part {
            Value::String(_) => {}
            Value::Object(fields) if fields.get("type").is_some_and(Value::is_string) => {
                if fields.get("type") == Some(&json!("text"))
                    && !fields.get("text").is_some_and(Value::is_string)
                {
                    return Err(format!("content[{index}] is of type text but has no `text`"));
                }
            }
            Value::Object(_) => return Err(format!("content[{index}] has no `type`")),
            other => return Err(format!("content[{index}] is {}, not a part", kind(other))),
        }
    }
    Ok(())
}

fn role(message: &Value) -> Option<&str> {
    message.get("role").and_then(Value::as_str)
}

/// What a JSON value is, in words.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_named_by_their_entry() {
        for (text, expected) in [
            ("{", "EOF"),
            ("3", "a list of messages or an object with `messages` is needed, not a number"),
            ("[]", "there are no messages"),
            ("{}", "the object has no `messages`"),
            (r#"{"messages": {}}"#, "`messages` is an object, not a list"),
            (r#"{"messages": [{"role": "user", "content": "x"}], "tool": []}"#, "`tool` is not one of"),
            (r#"{"messages": [{"role": "user", "content": "x"}], "tools": [3]}"#, "tools[0] is a number"),
            (r#"["x"]"#, "messages[0]: a string instead of an object"),
            (r#"[{"content": "x"}]"#, "messages[0]: `role` is missing"),
            (r#"[{"role": 1, "content": "x"}]"#, "messages[0]: `role` is a number"),
            (r#"[{"role": "user", "content": "x"}, {"role": "user"}]"#, "messages[1]: `content` is missing"),
            (r#"[{"role": "user", "content": 5}]"#, "messages[0]: `content` is a number"),
            (r#"[{"role": "user", "content": null}]"#, "messages[0]: `content` is null"),
            (r#"[{"role": "user", "content": [{"text": "x"}]}]"#, "messages[0]: content[0] has no `type`"),
            (r#"[{"role": "user", "content": [{"type": "text"}]}]"#, "content[0] is of type text but has no"),
            (r#"[{"role": "assistant", "tool_calls": {}}]"#, "messages[0]: `tool_calls` is an object"),
        ] {
            let error = Conversation::parse(text, Path::new("chat.json")).unwrap_err().to_string();
            assert!(error.contains("`chat.json`") && error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn what_a_template_may_want_is_kept_in_order() {
        let text = r#"{"messages": [{"role": "user", "z": 1, "a": 2, "content": [{"type": "text", "text": "q"}]},
            {"role": "assistant", "content": null, "tool_calls": [{"id": "1"}]},
            {"role": "tool", "content": {"t": 21}}], "tools": [{"name": "f"}], "documents": []}"#;
        let conversation = Conversation::parse(text, Path::new("chat.json")).unwrap();
        let keys = conversation.messages()[0].as_object().unwrap().keys().collect::<Vec<_>>();
        assert_eq!(keys, ["role", "z", "a", "content"]);
        assert_eq!(conversation.tools().unwrap().len(), 1);
        assert_eq!(conversation.documents(), None);
        assert_eq!(conversation.last_role(), Some("tool"));
    }

    #[test]
    fn a_system_message_goes_first_or_replaces_the_first() {
        let mut conversation = Conversation::from_prompt(Some("a"), "q");
        conversation.set_system("b");
        let expected = json!([{"role": "system", "content": "b"}, {"role": "user", "content": "q"}]);
        assert_eq!(Value::Array(conversation.messages().to_vec()), expected);
    }

    #[test]
    fn kwargs_are_an_object_and_leave_the_conversation_alone() {
        assert_eq!(parse_template_kwargs(r#"{"enable_thinking": false}"#).unwrap().len(), 1);
        for (text, expected) in [
            ("[1]", "an object"),
            ("{", "not JSON"),
            (r#"{"messages": []}"#, "`messages` cannot be set here"),
            (r#"{"add_generation_prompt": true}"#, "`add_generation_prompt` cannot be set here"),
        ] {
            let error = parse_template_kwargs(text).unwrap_err().to_string();
            assert!(error.contains("--chat-template-kwargs") && error.contains(expected), "{error}");
        }
    }
}
