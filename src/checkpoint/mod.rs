//! A model on disk: its configuration, weights, tokenizer and end-of-sequence ids.
//!
//! A checkpoint is a Hugging Face folder (safetensors or pickle, whole or in shards) or a GGUF file
//! (whole or split). Opening one maps files and reads headers; weights are read by `Weights`.

mod files;
mod templates;
mod weights;

use std::path::{Path, PathBuf};

use serde_json::Value;

pub use files::{
    FileBytes, Gguf, Pickle, Safetensors, Stored, WeightFiles, map, quant_formats, quant_name, require_file,
};
pub use weights::{MatrixUse, Weight, Weights};

use crate::chat::{TemplateFiles, TemplateSet};
use crate::config::ModelConfig;
use crate::error::{Error, Result};
use crate::gguf::{self, GgufHeader, GgufPart, only_gguf};
use crate::tokenizer::Tokenizer;

/// The largest JSON file or template beside a checkpoint that is read, in bytes.
const MAX_TEXT_BYTES: u64 = 64 << 20;

/// A model's files, opened.
pub struct Checkpoint {
    /// As the user named it.
    pub path: PathBuf,
    /// Its configuration.
    pub config: ModelConfig,
    /// Its weights.
    pub files: WeightFiles,
    /// Its tokenizer, where there is one.
    pub tokenizer: Option<Tokenizer>,
    /// Ids that end a sequence: those of the generation configuration, the configuration and the
    /// tokenizer together.
    pub eos_ids: Vec<u32>,
    /// `generation_config.json`, where there is one: a JSON object.
    pub generation_config: Option<Value>,
    /// Its chat templates; none for a base model.
    pub templates: TemplateSet,
}

/// The files of a checkpoint that is part of the program.
pub struct BuiltIn {
    /// Name shown in messages.
    pub name: &'static str,
    /// `config.json`.
    pub config: &'static [u8],
    /// `generation_config.json`.
    pub generation_config: &'static [u8],
    /// `tokenizer.json`.
    pub tokenizer: &'static [u8],
    /// `tokenizer_config.json`.
    pub tokenizer_config: &'static [u8],
    /// `model.safetensors`.
    pub weights: &'static [u8],
}

impl Checkpoint {
    /// Opens the folder or GGUF file at `path`.
    ///
    /// # Errors
    /// `ModelNotFound` when there is nothing to open, `Malformed` for damaged files, and whatever the
    /// configuration's checks say.
    pub fn open(path: &Path) -> Result<Self> {
        let kind = std::fs::metadata(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Error::ModelNotFound {
                path: path.to_owned(),
                problem: "there is no such file or folder".to_owned(),
            },
            _ => Error::Io { action: "open", path: path.to_owned(), source: error },
        })?;
        if !kind.is_dir() {
            return Self::open_gguf(path, path);
        }
        if path.join("config.json").exists() {
            return Self::open_folder(path);
        }
        Self::open_gguf(path, &only_gguf(path)?)
    }

    fn open_folder(folder: &Path) -> Result<Self> {
        // Whatever is read as a whole must be a file.
        for name in ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"] {
            if folder.join(name).exists() {
                require_file(&folder.join(name))?;
            }
        }
        let config = ModelConfig::from_file(&folder.join("config.json"))?;
        let files = folder_weights(folder)?;
        let tokenizer = Tokenizer::from_dir(folder)?;
        let generation = folder.join("generation_config.json");
        let mut eos_ids = Vec::new();
        let mut generation_config = None;
        if generation.exists() {
            let value = read_json(&generation)?;
            eos_ids = generation_eos(&value, &generation)?;
            generation_config = Some(value);
        }
        eos_ids.extend(config.eos_token_ids()?);
        let checkpoint = Self::assemble(folder, config, files, tokenizer, eos_ids);
        Ok(Self { generation_config, templates: templates::of_folder(folder)?, ..checkpoint })
    }

    fn open_gguf(named: &Path, path: &Path) -> Result<Self> {
        let mut parts = Vec::new();
        for part in gguf_parts(path)? {
            let bytes = map(&part)?;
            if !gguf::is_gguf(&bytes) {
                let problem = "it is not a GGUF file, and a folder was not named".to_owned();
                return Err(Error::Malformed { path: part, problem });
            }
            let header = GgufHeader::parse(&bytes, &part)?;
            parts.push((part, bytes, header));
        }
        let (first_path, _, first) = &parts[0];
        let config = ModelConfig::from_gguf(first, first_path)?;
        let tokenizer = Tokenizer::from_gguf(first, first_path)?;
        let eos_ids = config.eos_token_ids()?;
        let templates = templates::of_gguf(first, tokenizer.as_ref());
        let files = WeightFiles::Gguf(Gguf::new(parts)?);
        Ok(Self { templates, ..Self::assemble(named, config, files, tokenizer, eos_ids) })
    }

    /// Opens a checkpoint that is part of the program.
    pub fn built_in(files: &BuiltIn) -> Result<Self> {
        let path = Path::new(files.name);
        let config = ModelConfig::from_json(files.config, path)?;
        let tokenizer = Tokenizer::from_bytes(files.tokenizer, Some(files.tokenizer_config), path)?;
        let generation_config = parse_json(files.generation_config, path)?;
        let mut eos_ids = generation_eos(&generation_config, path)?;
        eos_ids.extend(config.eos_token_ids()?);
        let shards = vec![(path.to_owned(), FileBytes::Static(files.weights))];
        let weights = WeightFiles::Safetensors(Safetensors::new(shards)?);
        let checkpoint = Self::assemble(path, config, weights, Some(tokenizer), eos_ids);
        Ok(Self { generation_config: Some(generation_config), ..checkpoint })
    }

    fn assemble(
        path: &Path,
        config: ModelConfig,
        files: WeightFiles,
        tokenizer: Option<Tokenizer>,
        mut eos_ids: Vec<u32>,
    ) -> Self {
        if let Some(tokenizer) = &tokenizer {
            eos_ids.extend(tokenizer.eos_ids());
        }
        eos_ids.sort_unstable();
        eos_ids.dedup();
        Self {
            path: path.to_owned(),
            config,
            files,
            tokenizer,
            eos_ids,
            generation_config: None,
            templates: TemplateSet::from_files(&TemplateFiles::default()),
        }
    }
}

/// The weight files of a Hugging Face folder: safetensors before pickles, an index before a single file.
fn folder_weights(folder: &Path) -> Result<WeightFiles> {
    for (single, index) in [
        ("model.safetensors", "model.safetensors.index.json"),
        ("pytorch_model.bin", "pytorch_model.bin.index.json"),
    ] {
        let paths = if folder.join(index).exists() {
            shards(folder, &folder.join(index))?
        } else if folder.join(single).exists() {
            vec![folder.join(single)]
        } else {
            continue;
        };
        for path in &paths {
            refuse_pointer(path)?;
        }
        if single == "pytorch_model.bin" {
            return Ok(WeightFiles::Pickle(Pickle::new(&paths)?));
        }
        let mapped = paths.into_iter().map(|path| map(&path).map(|bytes| (path, bytes)));
        return Ok(WeightFiles::Safetensors(Safetensors::new(mapped.collect::<Result<_>>()?)?));
    }
    let problem =
        "it has config.json but neither model.safetensors nor pytorch_model.bin, whole or in shards";
    Err(Error::ModelNotFound { path: folder.to_owned(), problem: problem.to_owned() })
}

/// The shard files an index names, each once.
fn shards(folder: &Path, index: &Path) -> Result<Vec<PathBuf>> {
    let malformed = |problem: String| Error::Malformed { path: index.to_owned(), problem };
    let value = read_json(index)?;
    let map = value.get("weight_map").and_then(Value::as_object);
    let map = map.ok_or_else(|| malformed("it has no `weight_map`".to_owned()))?;
    let mut names = Vec::new();
    for (tensor, file) in map {
        // A name, not a path: an index must not reach outside its folder.
        let name = file.as_str().filter(|name| Path::new(name).file_name() == Some(name.as_ref()));
        let name =
            name.ok_or_else(|| malformed(format!("`{tensor}` is mapped to {file}, not a file name")))?;
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.sort_unstable();
    for name in &names {
        if !folder.join(name).exists() {
            let problem = format!("`{}` names the shard `{name}`, which is not there", index.display());
            return Err(Error::ModelNotFound { path: folder.to_owned(), problem });
        }
    }
    Ok(names.into_iter().map(|name| folder.join(name)).collect())
}

/// A Git LFS pointer in place of weights is a common accident and deserves its own message.
fn refuse_pointer(path: &Path) -> Result<()> {
    let bytes = map(path)?;
    if bytes.starts_with(b"version https://git-lfs") {
        let problem = "it is a Git LFS pointer, not the weights; run `git lfs pull`".to_owned();
        return Err(Error::Malformed { path: path.to_owned(), problem });
    }
    Ok(())
}

/// All parts of the file at `path`, in order.
fn gguf_parts(path: &Path) -> Result<Vec<PathBuf>> {
    let Some(name) = GgufPart::of(path) else { return Ok(vec![path.to_owned()]) };
    let parts: Vec<PathBuf> = (1..=name.count).map(|number| name.beside(path, number)).collect();
    if let Some(missing) = parts.iter().find(|part| !part.exists()) {
        let problem = format!("part `{}` is not there", missing.display());
        return Err(Error::ModelNotFound { path: path.to_owned(), problem });
    }
    if parts.is_empty() {
        return Ok(vec![path.to_owned()]);
    }
    Ok(parts)
}

fn read_json(path: &Path) -> Result<Value> {
    parse_json(&read_small(path)?, path)
}

/// Reads a whole file that describes a checkpoint.
fn read_small(path: &Path) -> Result<Vec<u8>> {
    require_file(path)?;
    let len = std::fs::metadata(path).map_err(Error::io("open", path))?.len();
    if len > MAX_TEXT_BYTES {
        let problem = format!("it has {len} bytes; JSON or a template here has at most {MAX_TEXT_BYTES}");
        return Err(Error::Malformed { path: path.to_owned(), problem });
    }
    std::fs::read(path).map_err(Error::io("read", path))
}

fn parse_json(bytes: &[u8], path: &Path) -> Result<Value> {
    serde_json::from_slice(bytes).map_err(|error| Error::Malformed {
        path: path.to_owned(),
        problem: format!("it is not JSON: {error}"),
    })
}

fn generation_eos(value: &Value, path: &Path) -> Result<Vec<u32>> {
    let malformed = |problem: String| Error::Malformed { path: path.to_owned(), problem };
    let object = value.as_object().ok_or_else(|| malformed("it is not a JSON object".to_owned()))?;
    let ids = match object.get("eos_token_id") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(ids)) => ids.as_slice(),
        Some(id) => std::slice::from_ref(id),
    };
    ids.iter()
        .map(|id| {
            let number = id.as_u64().and_then(|id| u32::try_from(id).ok());
            number.ok_or_else(|| malformed(format!("`eos_token_id` {id} is not a token id")))
        })
        .collect()
}
