//! From what a user named to an inspection.
//!
//! A name is a path if something is there, else a model of the Hub, looked up in the local cache and
//! then in the built-in table. Files are opened here and nowhere else; only headers of weights are read.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use super::cached::HubName;
use super::speculation::Speculation;
use super::vocabulary::Vocabulary;
use super::weights::{self, Weights, WeightsSource};
use super::{Inspected, Inspection, Options, Origin, known, parameters, suitable_contexts};
use crate::config::{Description, MAX_BYTES, ModelConfig};
use crate::error::{Error, Result};
use crate::gguf::{GgufPart, GgufSkim, is_gguf, only_gguf};

/// Standard input's name as an argument.
const STDIN: &str = "-";
const CONFIG: &str = "config.json";
const QUANTIZATION: &str = "hf_quant_config.json";
const TOKENIZER: &str = "tokenizer.json";
/// Most parts that a split file is believed to have.
const MAX_PARTS: usize = 1024;

/// How much is read beside the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Headers of weights.
    Headers,
    /// Headers of weights, and vocabularies.
    Vocabularies,
}

/// A configuration with what lies beside it.
struct Found {
    config: ModelConfig,
    origin: Origin,
    revision: Option<String>,
    weights: Option<Weights>,
    /// The file that holds the vocabulary, if there may be one.
    vocabulary: Option<PathBuf>,
}

impl Inspection {
    /// Looks at the model called `name`.
    pub fn new(name: &str, options: &Options, depth: Depth) -> Self {
        match find(name) {
            Ok(found) => Self::of(name, found, options, depth),
            Err(error) => Self::failed(name, error),
        }
    }

    /// Looks at a `config.json` or a GGUF header that is in memory.
    pub fn of_bytes(name: &str, bytes: &[u8], options: &Options) -> Self {
        let mut reader = bytes;
        match read_stream(&mut reader, Path::new(name)) {
            Ok(found) => Self::of(name, found, options, Depth::Headers),
            Err(error) => Self::failed(name, error),
        }
    }

    /// A model of the built-in table.
    pub(super) fn from_table(id: &str, options: &Options) -> Self {
        match table(id).transpose() {
            Some(Ok(found)) => Self::of(id, found, options, Depth::Headers),
            Some(Err(error)) => Self::failed(id, error),
            None => {
                let problem = "the built-in table has no such model".to_owned();
                Self::failed(id, Error::NotCached { model: id.to_owned(), problem })
            }
        }
    }

    fn failed(name: &str, error: Error) -> Self {
        Self { id: name.to_owned(), revision: None, origin: Origin::Nowhere, outcome: Err(error) }
    }

    fn of(name: &str, found: Found, options: &Options, depth: Depth) -> Self {
        let (origin, revision) = (found.origin.clone(), found.revision.clone());
        Self { id: name.to_owned(), revision, origin, outcome: Inspected::new(name, found, options, depth) }
    }
}

impl Inspected {
    fn new(name: &str, found: Found, options: &Options, depth: Depth) -> Result<Self> {
        let description = found.config.describe()?;
        let vocabulary = match (&found.vocabulary, depth) {
            (Some(path), Depth::Vocabularies) => Vocabulary::read(path)?,
            _ => None,
        };
        let speculation = Speculation::new(&found.config, &description, vocabulary.as_ref());
        let weights = match found.weights {
            Some(weights) => Some(weights),
            None => counted(&found.config, &description)?,
        };
        let contexts = match options.contexts.as_slice() {
            [] => suitable_contexts(description.max_context),
            asked => asked.to_vec(),
        };
        let mut inspected =
            Self { description, speculation, weights, contexts, memory: Vec::new(), fits: None, vocabulary };
        for &context in &inspected.contexts {
            let row = inspected.memory_at(context, options)?;
            inspected.memory.push(row);
        }
        // Overflow shows here, before anything is written down.
        inspected.facts()?;
        inspected.fits = options.budget_bytes.map(|budget| inspected.fits_in(name, budget, options));
        Ok(inspected)
    }

    pub(super) fn vocabulary(&self) -> Option<&Vocabulary> {
        self.vocabulary.as_ref()
    }

    fn fits_in(&self, name: &str, budget_bytes: u64, options: &Options) -> Result<super::fits::Fits> {
        let unknown = |problem: String| Error::UnknownWeights { model: name.to_owned(), problem };
        let weights = self.weights.as_ref().ok_or_else(|| {
            unknown(
                "no weights lie beside its configuration, which does not give the size of every matrix"
                    .to_owned(),
            )
        })?;
        let needed_bytes = weights.bytes.ok_or_else(|| unknown(weights.note.clone().unwrap_or_default()))?;
        if needed_bytes > budget_bytes {
            return Err(Error::OverBudget { model: name.to_owned(), needed_bytes, budget_bytes });
        }
        Ok(self.fits(budget_bytes, needed_bytes, &self.contexts, options.kv_type, options.batch))
    }
}

fn find(name: &str) -> Result<Found> {
    if name == STDIN {
        let config = read_stream(&mut std::io::stdin().lock(), Path::new("standard input"))?;
        return Ok(Found { origin: Origin::Stdin, ..config });
    }
    let path = Path::new(name);
    if path.exists() || names_a_file(name) {
        return at_path(path);
    }
    let Some(hub) = HubName::parse(name) else { return at_path(path) };
    let in_cache = hub.find().and_then(|cached| {
        let found = in_folder(&cached.folder)?;
        let path = match found.origin {
            Origin::File { path } => path,
            _ => cached.folder.display().to_string(),
        };
        Ok(Found { origin: Origin::Cache { path }, revision: Some(cached.commit), ..found })
    });
    match in_cache {
        Err(error @ (Error::NotCached { .. } | Error::ModelNotFound { .. })) if hub.revision.is_none() => {
            table(&hub.repository)?.ok_or_else(|| match error {
                Error::NotCached { model, problem } => {
                    let problem = format!("{problem}, and the built-in table does not have it");
                    Error::NotCached { model, problem }
                }
                other => other,
            })
        }
        other => other,
    }
}

/// Whether a name that leads nowhere was meant as a file.
fn names_a_file(name: &str) -> bool {
    let extension = Path::new(name).extension();
    extension.is_some_and(|ext| ext.eq_ignore_ascii_case("json") || ext.eq_ignore_ascii_case("gguf"))
}

fn table(id: &str) -> Result<Option<Found>> {
    let Some(known) = known::find(id) else { return Ok(None) };
    let config = known.model_config()?;
    let origin = Origin::Table { date: known.date, source: known.source };
    Ok(Some(Found { config, origin, revision: None, weights: None, vocabulary: None }))
}

fn at_path(path: &Path) -> Result<Found> {
    let metadata = std::fs::metadata(path).map_err(Error::io("open", path))?;
    if metadata.is_dir() {
        return in_folder(path);
    }
    if metadata.is_file() {
        return from_file(path, metadata.len());
    }
    // A pipe, such as a shell's process substitution.
    let file = File::open(path).map_err(Error::io("open", path))?;
    read_stream(&mut BufReader::new(file), path)
}

fn in_folder(folder: &Path) -> Result<Found> {
    let config = folder.join(CONFIG);
    if config.exists() {
        return from_file(&config, std::fs::metadata(&config).map_err(Error::io("open", &config))?.len());
    }
    let file = only_gguf(folder)?;
    from_file(&file, std::fs::metadata(&file).map_err(Error::io("open", &file))?.len())
}

fn from_file(path: &Path, len: u64) -> Result<Found> {
    let mut reader = BufReader::with_capacity(1 << 16, File::open(path).map_err(Error::io("open", path))?);
    if starts_like_gguf(&mut reader, path)? {
        return from_gguf(&mut reader, path, Some(len));
    }
    let mut config = ModelConfig::from_file(path)?;
    let origin = Origin::File { path: path.display().to_string() };
    // What lies beside a file called otherwise may belong to another model.
    let folder = path.parent().filter(|_| path.file_name().is_some_and(|name| name == CONFIG));
    let Some(folder) = folder else {
        return Ok(Found { config, origin, revision: None, weights: None, vocabulary: None });
    };
    let quantization = folder.join(QUANTIZATION);
    if quantization.is_file() {
        let file = File::open(&quantization).map_err(Error::io("open", &quantization))?;
        config.add_quantization_file(&read_small(file, &quantization)?, &quantization)?;
    }
    let weights = weights::in_folder(folder)?;
    Ok(Found { config, origin, revision: None, weights, vocabulary: Some(folder.join(TOKENIZER)) })
}

/// At most one byte more than a configuration may have, so that too much is noticed.
fn read_small(reader: impl Read, path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(Error::io("read", path))?;
    Ok(bytes)
}

fn starts_like_gguf(reader: &mut impl BufRead, path: &Path) -> Result<bool> {
    // One filling of the buffer holds the first four bytes of any real source.
    Ok(is_gguf(reader.fill_buf().map_err(Error::io("read", path))?))
}

fn read_stream(reader: &mut impl BufRead, path: &Path) -> Result<Found> {
    if starts_like_gguf(reader, path)? {
        return from_gguf(reader, path, None);
    }
    let config = ModelConfig::from_json(&read_small(reader, path)?, path)?;
    let origin = Origin::File { path: path.display().to_string() };
    Ok(Found { config, origin, revision: None, weights: None, vocabulary: None })
}

fn from_gguf(reader: &mut impl BufRead, path: &Path, len: Option<u64>) -> Result<Found> {
    let skim = GgufSkim::read(reader, len, path)?;
    let weights = gguf_weights(&skim, path)?;
    let config = ModelConfig::from_gguf(&skim.into_header(), path)?;
    let origin = Origin::File { path: path.display().to_string() };
    let vocabulary = len.map(|_| path.to_owned());
    Ok(Found { config, origin, revision: None, weights: Some(weights), vocabulary })
}

/// The tensors of a file and of the other parts that lie beside it.
fn gguf_weights(first: &GgufSkim, path: &Path) -> Result<Weights> {
    let mut bytes = first.tensor_bytes;
    let mut parameters = first.num_elements;
    let mut types = first.types.clone();
    let mut unknown = first.unknown_types.clone();
    let parts = first.metadata.get("split.count").and_then(crate::gguf::GgufValue::as_u64).unwrap_or(1);
    let name = GgufPart::of(path);
    let mut missing = 0;
    for number in 2..=usize::try_from(parts).unwrap_or(usize::MAX).min(MAX_PARTS) {
        let part = name.as_ref().map(|name| name.beside(path, number));
        let Some(part) = part.filter(|part| part.is_file()) else {
            missing += 1;
            continue;
        };
        let file = File::open(&part).map_err(Error::io("open", &part))?;
        let len = file.metadata().map_err(Error::io("read", &part))?.len();
        let skim = GgufSkim::read(BufReader::new(file), Some(len), &part)?;
        bytes = bytes.zip(skim.tensor_bytes).and_then(|(sum, more)| sum.checked_add(more));
        parameters = parameters.saturating_add(skim.num_elements);
        for (name, more) in skim.types {
            let sum = types.entry(name).or_default();
            *sum = sum.saturating_add(more);
        }
        unknown.extend(skim.unknown_types);
    }
    let note = if missing > 0 {
        Some(format!("{missing} of its {parts} parts are not here"))
    } else if unknown.is_empty() {
        None
    } else {
        let codes: Vec<String> = unknown.iter().map(u32::to_string).collect();
        Some(format!("tensor types without a known size: {}", codes.join(", ")))
    };
    let mut types: Vec<(String, u64)> = types.into_iter().map(|(name, sum)| (name.to_owned(), sum)).collect();
    types.sort_by_key(|(_, sum)| std::cmp::Reverse(*sum));
    let is_whole = missing == 0 && first.num_tensors > 0;
    Ok(Weights {
        bytes: bytes.filter(|_| is_whole),
        parameters: is_whole.then_some(parameters),
        active_parameters: None,
        source: WeightsSource::GgufHeader,
        types,
        note: note.or_else(|| (!is_whole).then(|| "it holds no tensors".to_owned())),
    })
}

/// The size of weights that are not here, from the configuration.
fn counted(config: &ModelConfig, description: &Description) -> Result<Option<Weights>> {
    let Some(parameters) = parameters::count(config, description)? else { return Ok(None) };
    let bits = parameters::bits_per_parameter(config);
    let (bytes, note) = match bits {
        Ok((bits, note)) => {
            let bytes = u128::from(parameters.total) * u128::from(bits) / 8;
            (u64::try_from(bytes).ok(), note.map(str::to_owned))
        }
        Err(problem) => (None, Some(problem)),
    };
    Ok(Some(Weights {
        bytes,
        parameters: Some(parameters.total),
        active_parameters: parameters.active,
        source: WeightsSource::Configuration,
        types: Vec::new(),
        note,
    }))
}
