//! How many bytes a model's weights take, from headers, file sizes or the configuration.
//!
//! Nothing but headers is read. Where a figure comes from is part of it, and where nothing tells the
//! answer is that it is unknown: a guess would make `--fits` wrong. Counting parameters from a
//! configuration is left to `parameters`.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::bounded::Bounded;
use crate::error::{Error, Result};

/// Longest safetensors header (as the format's own library has it) or index, in bytes. Those of the largest models have 16 million.
const MAX_HEADER_BYTES: u64 = 100_000_000;

/// Where the size of the weights comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WeightsSource {
    /// The headers of safetensors files.
    SafetensorsHeaders,
    /// The header of a GGUF file and of its other parts.
    GgufHeader,
    /// `metadata.total_size` of an index, whose files are not here.
    Index,
    /// The sizes of files of another format.
    FileSizes,
    /// Counted from the configuration.
    Configuration,
}

impl WeightsSource {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::SafetensorsHeaders => "from safetensors headers",
            Self::GgufHeader => "from the GGUF header",
            Self::Index => "from the index of its files",
            Self::FileSizes => "from the sizes of its files",
            Self::Configuration => "counted from the configuration",
        }
    }
}

/// The size of a model's weights.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Weights {
    /// Bytes, where they can be known.
    pub bytes: Option<u64>,
    /// Parameters, where elements are parameters.
    pub parameters: Option<u64>,
    /// Parameters that one token passes through, in a mixture of experts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_parameters: Option<u64>,
    /// Where this comes from.
    pub source: WeightsSource,
    /// Types with the bytes they take, largest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<(String, u64)>,
    /// Why there are no bytes, or what makes them approximate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Sums over the tensors of safetensors headers.
#[derive(Debug, Default)]
struct Totals {
    bytes: u64,
    elements: u64,
    types: Vec<(String, u64)>,
    overflow: bool,
}

impl Totals {
    fn add(&mut self, entry: &Entry) {
        let elements = entry.shape.iter().try_fold(1u64, |product, &size| product.checked_mul(size));
        let bytes = entry.data_offsets.1.checked_sub(entry.data_offsets.0);
        let sums = elements
            .and_then(|elements| self.elements.checked_add(elements))
            .zip(bytes.and_then(|bytes| self.bytes.checked_add(bytes)));
        let Some((elements, total)) = sums else {
            self.overflow = true;
            return;
        };
        (self.elements, self.bytes) = (elements, total);
        let bytes = bytes.unwrap_or_default();
        // The format has fifteen types; a longer list is a hostile file's.
        let has_room = self.types.len() < 64;
        match self.types.iter_mut().find(|(name, _)| *name == entry.dtype) {
            Some((_, sum)) => *sum += bytes,
            None if has_room => self.types.push((entry.dtype.clone(), bytes)),
            None => {}
        }
    }
}

/// One tensor of a safetensors header.
#[derive(Debug, serde::Deserialize)]
struct Entry {
    dtype: String,
    #[serde(deserialize_with = "short_list")]
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

/// A list of dimensions that is not let grow.
fn short_list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u64>, D::Error> {
    struct Dimensions;
    impl<'de> Visitor<'de> for Dimensions {
        type Value = Vec<u64>;
        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("at most 8 dimensions")
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<u64>, A::Error> {
            let mut dimensions = Vec::new();
            while let Some(size) = list.next_element()? {
                if dimensions.len() == 8 {
                    return Err(serde::de::Error::custom("a tensor has more than 8 dimensions"));
                }
                dimensions.push(size);
            }
            Ok(dimensions)
        }
    }
    deserializer.deserialize_seq(Dimensions)
}

impl<'de> Deserialize<'de> for Totals {
    /// Adds tensors up while they are read, so that a header of any length costs one tensor.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Header;
        impl<'de> Visitor<'de> for Header {
            type Value = Totals;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a safetensors header")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Totals, A::Error> {
                let mut totals = Totals::default();
                while let Some(name) = map.next_key::<String>()? {
                    if name == "__metadata__" {
                        map.next_value::<IgnoredAny>()?;
                    } else {
                        totals.add(&map.next_value::<Entry>()?);
                    }
                }
                Ok(totals)
            }
        }
        deserializer.deserialize_map(Header)
    }
}

/// The files that an index names, and the total it states.
#[derive(Debug, Default)]
struct Index {
    files: BTreeSet<String>,
    total_bytes: Option<u64>,
}

/// Most shards that are believed.
const MAX_FILES: usize = 4096;

impl<'de> Deserialize<'de> for Index {
    /// Keeps the names of files, not those of tensors.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Default)]
        struct Files(BTreeSet<String>);
        impl<'de> Deserialize<'de> for Files {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Map;
                impl<'de> Visitor<'de> for Map {
                    type Value = Files;
                    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                        formatter.write_str("file names by tensor")
                    }
                    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Files, A::Error> {
                        let mut files = BTreeSet::new();
                        while map.next_key::<IgnoredAny>()?.is_some() {
                            let file: String = map.next_value()?;
                            if files.len() < MAX_FILES && file.len() < 256 {
                                files.insert(file);
                            }
                        }
                        Ok(Files(files))
                    }
                }
                deserializer.deserialize_map(Map)
            }
        }
        #[derive(Default, serde::Deserialize)]
        #[serde(default)]
        struct Metadata {
            total_size: Option<serde_json::Number>,
        }
        #[derive(Default, serde::Deserialize)]
        #[serde(default)]
        struct Document {
            metadata: Metadata,
            weight_map: Files,
        }
        let document = Document::deserialize(deserializer)?;
        let total_bytes = document.metadata.total_size.and_then(|size| size.as_u64());
        Ok(Self { files: document.weight_map.0, total_bytes })
    }
}

/// Finds the weights of the model in `folder`; none when there is no trace of them.
///
/// # Errors
/// `Malformed` when a header or an index is not what it should be, `Io` when it cannot be read.
pub fn in_folder(folder: &Path) -> Result<Option<Weights>> {
    let index_path = folder.join("model.safetensors.index.json");
    if index_path.is_file() {
        let index = read_index(&index_path)?;
        // A file name is a name, not a way to somewhere else.
        let safe = |file: &String| Path::new(file).file_name().is_some_and(|name| name == file.as_str());
        let paths: Vec<PathBuf> =
            index.files.iter().filter(|file| safe(file)).map(|file| folder.join(file)).collect();
        if !paths.is_empty() && paths.iter().all(|path| path.is_file()) {
            return from_headers(&paths).map(Some);
        }
        return Ok(index.total_bytes.map(|bytes| plain(Some(bytes), WeightsSource::Index)));
    }
    let single = folder.join("model.safetensors");
    if single.is_file() {
        return from_headers(&[single]).map(Some);
    }
    let files = |suffix: &str| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut found: Vec<PathBuf> = entries
            .filter(|path| {
                path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.ends_with(suffix))
            })
            .take(MAX_FILES)
            .collect();
        found.sort();
        found
    };
    let shards: Vec<PathBuf> = files(".safetensors")
        .into_iter()
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("model-")))
        .collect();
    if !shards.is_empty() {
        return from_headers(&shards).map(Some);
    }
    let pickles: Vec<PathBuf> = files(".bin")
        .into_iter()
        .filter(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("pytorch_model"))
        })
        .collect();
    let bytes = pickles.iter().filter_map(|path| std::fs::metadata(path).ok()).map(|data| data.len()).sum();
    Ok((bytes > 0).then(|| plain(Some(bytes), WeightsSource::FileSizes)))
}

fn plain(bytes: Option<u64>, source: WeightsSource) -> Weights {
    Weights { bytes, parameters: None, active_parameters: None, source, types: Vec::new(), note: None }
}

fn read_index(path: &Path) -> Result<Index> {
    let file = File::open(path).map_err(Error::io("open", path))?;
    let malformed = |problem: String| Error::Malformed { path: path.to_owned(), problem };
    let len = file.metadata().map_err(Error::io("read", path))?.len();
    if len > MAX_HEADER_BYTES {
        return Err(malformed(format!("{len} bytes are too large for an index")));
    }
    let reader = BufReader::new(Bounded::new(file.take(MAX_HEADER_BYTES)));
    serde_json::from_reader(reader)
        .map_err(|error| malformed(format!("it is not an index of weights: {error}")))
}

fn from_headers(paths: &[PathBuf]) -> Result<Weights> {
    let mut sum = Totals::default();
    for path in paths {
        let totals = header_totals(path)?;
        let added = sum.bytes.checked_add(totals.bytes).zip(sum.elements.checked_add(totals.elements));
        let Some((bytes, elements)) = added.filter(|_| !totals.overflow) else {
            let problem = "the sizes in its header overflow".to_owned();
            return Err(Error::Malformed { path: path.clone(), problem });
        };
        (sum.bytes, sum.elements) = (bytes, elements);
        for (name, bytes) in totals.types {
            match sum.types.iter_mut().find(|(known, _)| *known == name) {
                Some((_, sum)) => *sum += bytes,
                None => sum.types.push((name, bytes)),
            }
        }
    }
    sum.types.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    // Several parameters are packed into one integer element.
    let packed =
        sum.types.iter().any(|(name, _)| ["I8", "U8", "I16", "U16", "I32", "U32"].contains(&name.as_str()));
    Ok(Weights {
        parameters: (!packed).then_some(sum.elements),
        types: sum.types,
        note: packed.then(|| "some elements are packed, so parameters are not counted".to_owned()),
        ..plain(Some(sum.bytes), WeightsSource::SafetensorsHeaders)
    })
}

fn header_totals(path: &Path) -> Result<Totals> {
    let malformed = |problem: String| Error::Malformed { path: path.to_owned(), problem };
    let mut file = File::open(path).map_err(Error::io("open", path))?;
    let file_len = file.metadata().map_err(Error::io("read", path))?.len();
    let mut len = [0; 8];
    file.read_exact(&mut len).map_err(|_| malformed("it is too short for a safetensors file".to_owned()))?;
    let len = u64::from_le_bytes(len);
    if len > MAX_HEADER_BYTES || len > file_len.saturating_sub(8) {
        return Err(malformed(format!("its header claims {len} bytes of a file of {file_len}")));
    }
    let reader = BufReader::new(Bounded::new(file.take(len)));
    serde_json::from_reader(reader).map_err(|error| malformed(format!("its header cannot be read: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("specdec-weights-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn shard(header: &str) -> Vec<u8> {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        bytes
    }

    #[test]
    fn headers_are_added_up() {
        let folder = scratch("sum");
        let header = r#"{"__metadata__": {"format": "pt"}, "a": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]},
            "b": {"dtype": "F32", "shape": [4], "data_offsets": [12, 28]}}"#;
        std::fs::write(folder.join("model.safetensors"), shard(header)).unwrap();
        let weights = in_folder(&folder).unwrap().unwrap();
        assert_eq!((weights.bytes, weights.parameters), (Some(28), Some(10)));
        assert_eq!(weights.types[0], ("F32".to_owned(), 16));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn an_index_alone_tells_the_total() {
        let folder = scratch("index");
        let index =
            r#"{"metadata": {"total_size": 77}, "weight_map": {"a": "model-00001-of-00002.safetensors"}}"#;
        std::fs::write(folder.join("model.safetensors.index.json"), index).unwrap();
        let weights = in_folder(&folder).unwrap().unwrap();
        assert_eq!((weights.bytes, weights.source), (Some(77), WeightsSource::Index));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn damage_is_an_error_and_absence_is_not() {
        let folder = scratch("bad");
        assert!(in_folder(&folder).unwrap().is_none());
        let path = folder.join("model.safetensors");
        for bytes in [
            b"abc".to_vec(),
            u64::MAX.to_le_bytes().to_vec(),
            shard("{"),
            shard(r#"{"a": {"dtype": "F32", "shape": [18446744073709551615, 2], "data_offsets": [0, 4]}}"#),
            shard(r#"{"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}}"#),
        ] {
            std::fs::write(&path, bytes).unwrap();
            assert!(matches!(in_folder(&folder), Err(Error::Malformed { .. })));
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
