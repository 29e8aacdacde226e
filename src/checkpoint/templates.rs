//! The chat templates of a checkpoint, from its folder or its GGUF metadata.

use std::path::Path;

use serde_json::Value;

use super::{read_json, read_small};
use crate::chat::{
    ADDITIONAL_TEMPLATES_FOLDER, PROCESSOR_TEMPLATE_FILE, TEMPLATE_FILE, TemplateFiles, TemplateSet,
    special_tokens_of_gguf,
};
use crate::error::{Error, Result};
use crate::gguf::{GgufHeader, GgufValue};
use crate::tokenizer::Tokenizer;

/// Reads the files of `folder` that may hold templates.
pub(super) fn of_folder(folder: &Path) -> Result<TemplateSet> {
    let json = |name: &str| -> Result<Option<Value>> {
        let path = folder.join(name);
        if path.exists() { read_json(&path).map(Some) } else { Ok(None) }
    };
    let template = folder.join(TEMPLATE_FILE);
    let template = if template.exists() { Some(read_text(&template)?) } else { None };
    let (config, map) = (json("tokenizer_config.json")?, json("special_tokens_map.json")?);
    let processor = json(PROCESSOR_TEMPLATE_FILE)?;
    Ok(TemplateSet::from_files(&TemplateFiles {
        template: template.as_deref(),
        additional: &additional(&folder.join(ADDITIONAL_TEMPLATES_FOLDER))?,
        tokenizer_config: config.as_ref(),
        special_tokens_map: map.as_ref(),
        processor: processor.as_ref(),
    }))
}

/// Names and texts of the further templates, by name.
fn additional(folder: &Path) -> Result<Vec<(String, String)>> {
    let mut templates = Vec::new();
    if folder.is_dir() {
        for entry in std::fs::read_dir(folder).map_err(Error::io("read", folder))? {
            let path = entry.map_err(Error::io("read", folder))?.path();
            let name = path.file_stem().and_then(|name| name.to_str()).map(str::to_owned);
            if let (Some(name), true) = (name, path.extension().is_some_and(|end| end == "jinja")) {
                templates.push((name, read_text(&path)?));
            }
        }
    }
    templates.sort();
    Ok(templates)
}

fn read_text(path: &Path) -> Result<String> {
    let problem = |_| Error::Malformed { path: path.to_owned(), problem: "it is not UTF-8".to_owned() };
    String::from_utf8(read_small(path)?).map_err(problem)
}

/// The templates among a GGUF file's metadata.
pub(super) fn of_gguf(header: &GgufHeader, tokenizer: Option<&Tokenizer>) -> TemplateSet {
    let token = |key: &str| {
        let id = header.metadata.get(key).and_then(GgufValue::as_u64)?;
        tokenizer?.token(u32::try_from(id).ok()?)
    };
    let strings = header.metadata.iter().filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)));
    TemplateSet::from_gguf(strings, special_tokens_of_gguf(token))
}
