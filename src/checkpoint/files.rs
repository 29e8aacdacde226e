//! Weight files of each format: which tensors they hold, and the bytes of one.
//!
//! Files are mapped, not read: a tensor's bytes are touched when it is loaded. Headers are checked
//! before anything is allocated; a file that is cut short is an error here, not a crash later.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use candle_core::pickle::PthTensors;
use candle_core::quantized::{GgmlDType, QStorage, QTensor};
use candle_core::{DType, Device, Tensor};
use memmap2::Mmap;
use safetensors::SafeTensors;

use crate::error::{Error, Result};
use crate::gguf::{GgufHeader, GgufTensor};

/// Bytes of a file: mapped, or part of the program.
pub enum FileBytes {
    /// A mapped file.
    Mapped(Mmap),
    /// Compiled in.
    Static(&'static [u8]),
}

impl std::ops::Deref for FileBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(mapped) => mapped,
            Self::Static(bytes) => bytes,
        }
    }
}

/// Refuses what is not a regular file: a pipe would be waited on for ever.
///
/// # Errors
/// `Io` when there is nothing at `path`, `Malformed` when it is not a file.
pub fn require_file(path: &Path) -> Result<()> {
    let kind = std::fs::metadata(path).map_err(Error::io("open", path))?;
    if kind.is_file() {
        return Ok(());
    }
    Err(Error::Malformed { path: path.to_owned(), problem: "it is not a regular file".to_owned() })
}

/// Maps the file at `path`.
pub fn map(path: &Path) -> Result<FileBytes> {
    require_file(path)?;
    let file = File::open(path).map_err(Error::io("open", path))?;
    #[expect(unsafe_code, reason = "mapping a file is the one way not to hold a checkpoint twice")]
    // SAFETY: the map is private to this process and never written. A file that another process cuts
    // short while it is mapped can end this one; every loader that maps files accepts that.
    let mapped = unsafe { Mmap::map(&file) }.map_err(Error::io("map", path))?;
    Ok(FileBytes::Mapped(mapped))
}

/// One tensor as it is stored.
pub enum Stored {
    /// A plain tensor in its stored type.
    Dense(Tensor),
    /// ggml blocks.
    Quantized(QTensor),
}

/// Weight files of one checkpoint.
pub enum WeightFiles {
    /// One or more safetensors files.
    Safetensors(Safetensors),
    /// PyTorch state dictionaries.
    Pickle(Pickle),
    /// One GGUF file or its splits.
    Gguf(Gguf),
}

impl WeightFiles {
    /// Shape of a tensor, outermost dimension first; none when it is not there.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        match self {
            Self::Safetensors(files) => files.tensors.get(name).map(|tensor| tensor.shape.as_slice()),
            Self::Pickle(files) => {
                files.find(name).map(|(_, tensors)| tensors.tensor_infos()[name].layout.shape().dims())
            }
            Self::Gguf(files) => files.tensors.get(name).map(|(_, tensor)| tensor.shape.as_slice()),
        }
    }

    /// Name of the type a tensor is stored in; none when it is not there.
    pub fn stored_type(&self, name: &str) -> Option<String> {
        match self {
            Self::Safetensors(files) => files.tensors.get(name).map(|tensor| format!("{:?}", tensor.dtype)),
            Self::Pickle(files) => files
                .find(name)
                .map(|(_, tensors)| tensors.tensor_infos()[name].dtype.as_str().to_uppercase()),
            Self::Gguf(files) => files.tensors.get(name).map(|(_, tensor)| tensor.format.name.to_owned()),
        }
    }

    /// All tensor names.
    pub fn names(&self) -> Vec<&str> {
        match self {
            Self::Safetensors(files) => files.tensors.keys().map(String::as_str).collect(),
            Self::Pickle(files) => {
                let infos = files.shards.iter().flat_map(|(_, tensors)| tensors.tensor_infos().keys());
                let mut names: Vec<_> = infos.map(String::as_str).collect();
                names.sort_unstable();
                names
            }
            Self::Gguf(files) => files.tensors.keys().map(String::as_str).collect(),
        }
    }

    /// Loads a tensor that `shape` knows.
    pub fn load(&self, name: &str, device: &Device) -> Result<Stored> {
        match self {
            Self::Safetensors(files) => files.load(name, device).map(Stored::Dense),
            Self::Pickle(files) => files.load(name, device).map(Stored::Dense),
            Self::Gguf(files) => files.load(name, device),
        }
    }

    /// Name of the container format.
    pub fn container(&self) -> &'static str {
        match self {
            Self::Safetensors(_) => "safetensors",
            Self::Pickle(_) => "pytorch",
            Self::Gguf(_) => "GGUF",
        }
    }
}

/// PyTorch state dictionaries, read with candle's restricted reader, which builds tensors and nothing else.
pub struct Pickle {
    shards: Vec<(PathBuf, PthTensors)>,
}

impl Pickle {
    /// Opens all shards.
    pub fn new(paths: &[PathBuf]) -> Result<Self> {
        let shards = paths.iter().map(|path| {
            require_file(path)?;
            let tensors = PthTensors::new(path, None).map_err(|error| Error::Malformed {
                path: path.clone(),
                problem: format!("it is not a PyTorch state dictionary: {error}"),
            })?;
            Ok((path.clone(), tensors))
        });
        Ok(Self { shards: shards.collect::<Result<_>>()? })
    }

    fn find(&self, name: &str) -> Option<&(PathBuf, PthTensors)> {
        self.shards.iter().find(|(_, tensors)| tensors.tensor_infos().contains_key(name))
    }

    fn load(&self, name: &str, device: &Device) -> Result<Tensor> {
        let (path, tensors) = self.find(name).expect("only tensors with a shape are loaded");
        let damaged = |problem: String| Error::Malformed { path: path.clone(), problem };
        let tensor = tensors
            .get(name)
            .map_err(|error| damaged(format!("tensor `{name}`: {error}")))?
            .ok_or_else(|| damaged(format!("tensor `{name}` has no data")))?;
        Ok(tensor.to_device(device)?)
    }
}

struct SafetensorsEntry {
    shard: usize,
    dtype: safetensors::Dtype,
    shape: Vec<usize>,
    /// Bytes from the start of the file.
    start: usize,
    end: usize,
}

/// Mapped safetensors files and an index over all of them.
pub struct Safetensors {
    shards: Vec<(PathBuf, FileBytes)>,
    tensors: BTreeMap<String, SafetensorsEntry>,
}

impl Safetensors {
    /// Indexes the tensors of `shards`; each comes with the path used in messages.
    pub fn new(shards: Vec<(PathBuf, FileBytes)>) -> Result<Self> {
        let mut tensors = BTreeMap::new();
        for (shard, (path, bytes)) in shards.iter().enumerate() {
            let (header_len, metadata) =
                SafeTensors::read_metadata(bytes).map_err(|error| Error::Malformed {
                    path: path.clone(),
                    problem: format!("its safetensors header cannot be read: {error}"),
                })?;
            // The header is preceded by its length in 8 bytes.
            let data = header_len + 8;
            for (name, info) in metadata.tensors() {
                let (start, end) = info.data_offsets;
                let entry = SafetensorsEntry {
                    shard,
                    dtype: info.dtype,
                    shape: info.shape.clone(),
                    start: data + start,
                    end: data + end,
                };
                if tensors.contains_key(&name) {
                    let problem = format!("tensor `{name}` occurs in an earlier shard too");
                    return Err(Error::Malformed { path: path.clone(), problem });
                }
                tensors.insert(name, entry);
            }
        }
        Ok(Self { shards, tensors })
    }

    fn load(&self, name: &str, device: &Device) -> Result<Tensor> {
        let entry = &self.tensors[name];
        let (path, bytes) = &self.shards[entry.shard];
        let dtype = match entry.dtype {
            safetensors::Dtype::F32 => DType::F32,
            safetensors::Dtype::F16 => DType::F16,
            safetensors::Dtype::BF16 => DType::BF16,
            safetensors::Dtype::F64 => DType::F64,
            other => {
                return Err(Error::UnsupportedTensor {
                    path: path.clone(),
                    tensor: name.to_owned(),
                    format: format!("{other:?}"),
                });
            }
        };
        let data = &bytes[entry.start..entry.end];
        Tensor::from_raw_buffer(data, dtype, &entry.shape, device)
            .map_err(Error::tensor(format!("loading `{name}`")))
    }
}

/// Mapped GGUF files and an index over all of them.
pub struct Gguf {
    parts: Vec<(PathBuf, FileBytes)>,
    tensors: BTreeMap<String, (usize, GgufTensor)>,
}

impl Gguf {
    /// Indexes the tensors of all parts.
    ///
    /// # Errors
    /// `Malformed` when two parts hold the same tensor.
    pub fn new(parts: Vec<(PathBuf, FileBytes, GgufHeader)>) -> Result<Self> {
        let mut tensors = BTreeMap::new();
        let mut kept = Vec::new();
        for (part, (path, bytes, header)) in parts.into_iter().enumerate() {
            for (name, tensor) in header.tensors {
                if tensors.contains_key(&name) {
                    let problem = format!("tensor `{name}` occurs in an earlier part too");
                    return Err(Error::Malformed { path, problem });
                }
                tensors.insert(name, (part, tensor));
            }
            kept.push((path, bytes));
        }
        Ok(Self { parts: kept, tensors })
    }

    fn load(&self, name: &str, device: &Device) -> Result<Stored> {
        let (part, tensor) = &self.tensors[name];
        let (path, bytes) = &self.parts[*part];
        let dtype = computable(tensor.format.code).ok_or_else(|| Error::UnsupportedTensor {
            path: path.clone(),
            tensor: name.to_owned(),
            format: tensor.format.name.to_owned(),
        })?;
        let data = &bytes[tensor.offset..tensor.offset + tensor.len_bytes];
        let plain = match dtype {
            GgmlDType::F32 => Some(DType::F32),
            GgmlDType::F16 => Some(DType::F16),
            GgmlDType::BF16 => Some(DType::BF16),
            _ => None,
        };
        let context = || format!("loading `{name}`");
        if let Some(plain) = plain {
            let loaded = Tensor::from_raw_buffer(data, plain, &tensor.shape, device);
            return loaded.map(Stored::Dense).map_err(Error::tensor(context()));
        }
        let storage = QStorage::from_data(data.into(), device, dtype).map_err(Error::tensor(context()))?;
        let loaded = QTensor::new(storage, tensor.shape.as_slice()).map_err(Error::tensor(context()))?;
        Ok(Stored::Quantized(loaded))
    }
}

/// ggml types candle computes with, by their number in a file, with their names.
const QUANT_TYPES: &[(u32, GgmlDType, &str)] = &[
    (0, GgmlDType::F32, "F32"),
    (1, GgmlDType::F16, "F16"),
    (30, GgmlDType::BF16, "BF16"),
    (2, GgmlDType::Q4_0, "Q4_0"),
    (3, GgmlDType::Q4_1, "Q4_1"),
    (6, GgmlDType::Q5_0, "Q5_0"),
    (7, GgmlDType::Q5_1, "Q5_1"),
    (8, GgmlDType::Q8_0, "Q8_0"),
    (10, GgmlDType::Q2K, "Q2_K"),
    (11, GgmlDType::Q3K, "Q3_K"),
    (12, GgmlDType::Q4K, "Q4_K"),
    (13, GgmlDType::Q5K, "Q5_K"),
    (14, GgmlDType::Q6K, "Q6_K"),
];

fn computable(code: u32) -> Option<GgmlDType> {
    QUANT_TYPES.iter().find(|entry| entry.0 == code).map(|entry| entry.1)
}

/// ggml's name of a type.
pub fn quant_name(dtype: GgmlDType) -> &'static str {
    QUANT_TYPES.iter().find(|entry| entry.1 == dtype).map_or("quantised", |entry| entry.2)
}

/// Block formats that weights can be quantised to at load, by ggml's names in lower case.
pub fn quant_formats() -> impl Iterator<Item = (String, GgmlDType)> {
    QUANT_TYPES.iter().filter(|entry| entry.1.block_size() > 1).map(|entry| (entry.2.to_lowercase(), entry.1))
}
