//! One interface over all weight files, which decides what a weight becomes.
//!
//! Dense weights take the compute type, ggml blocks stay as they are, and a dense weight of a linear
//! layer can be quantised on the way in. A tensor that is missing or has another shape is noted and
//! stood in for, so that one error can list all of them.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{DType, Device, Tensor};

use super::files::{Stored, WeightFiles};
use crate::error::{Error, Result};

/// A weight matrix `[out, in]`.
#[derive(Clone)]
pub enum Weight {
    /// As a tensor of the compute type.
    Dense(Tensor),
    /// In ggml blocks along `in`.
    Quantized(Arc<QTensor>),
}

impl Weight {
    /// Name of the storage type, such as `F32` or `Q4_K`.
    pub fn format(&self) -> String {
        match self {
            Self::Dense(tensor) => tensor.dtype().as_str().to_uppercase(),
            Self::Quantized(tensor) => super::files::quant_name(tensor.dtype()).to_owned(),
        }
    }

    /// Number of weights.
    pub fn num_elements(&self) -> usize {
        match self {
            Self::Dense(tensor) => tensor.elem_count(),
            Self::Quantized(tensor) => tensor.shape().elem_count(),
        }
    }

    /// Rows of the matrix.
    pub fn rows(&self) -> usize {
        match self {
            Self::Dense(tensor) => tensor.dims()[0],
            Self::Quantized(tensor) => tensor.shape().dims()[0],
        }
    }
}

/// What a matrix is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatrixUse {
    /// A product; may be quantised at load.
    Product,
    /// Rows looked up by id; stays as stored.
    Lookup,
}

/// The weights of one checkpoint while a network is built from them.
pub struct Weights<'f> {
    files: &'f WeightFiles,
    path: PathBuf,
    device: Device,
    dtype: DType,
    quantize: Option<GgmlDType>,
    problems: RefCell<Vec<String>>,
    used: RefCell<BTreeSet<String>>,
}

impl<'f> Weights<'f> {
    /// Weights from `files` (named `path` in messages) on `device`; dense ones become `dtype`, products
    /// are quantised to `quantize` where that is given and they are dense.
    pub fn new(
        files: &'f WeightFiles,
        path: &Path,
        device: &Device,
        dtype: DType,
        quantize: Option<GgmlDType>,
    ) -> Self {
        Self {
            files,
            path: path.to_owned(),
            device: device.clone(),
            dtype,
            quantize,
            problems: RefCell::default(),
            used: RefCell::default(),
        }
    }

    /// Where the weights go.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The compute type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// What a matrix is stored as and, where that differs, computed in: `Q4_K`, `BF16 as F32`.
    pub fn format(&self, name: &str, weight: &Weight) -> String {
        let (stored, computed) = (self.files.stored_type(name).unwrap_or_default(), weight.format());
        if stored == computed { computed } else { format!("{stored} as {computed}") }
    }

    /// Shape of a tensor, if it is there.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.files.shape(name)
    }

    /// A tensor of this exact shape in the compute type.
    pub fn tensor(&self, name: &str, shape: &[usize]) -> Result<Tensor> {
        match self.load(name, shape)? {
            Some(Stored::Dense(tensor)) => Ok(tensor.to_dtype(self.dtype)?),
            Some(Stored::Quantized(tensor)) => Ok(tensor.dequantize(&self.device)?.to_dtype(self.dtype)?),
            None => self.stand_in(shape),
        }
    }

    /// A tensor that need not be there, in f64 on the host.
    pub fn host_values(&self, name: &str) -> Result<Option<Vec<f64>>> {
        if self.files.shape(name).is_none() {
            return Ok(None);
        }
        self.used.borrow_mut().insert(name.to_owned());
        let tensor = match self.files.load(name, &Device::Cpu)? {
            Stored::Dense(tensor) => tensor,
            Stored::Quantized(tensor) => tensor.dequantize(&Device::Cpu)?,
        };
        Ok(Some(tensor.to_dtype(DType::F64)?.flatten_all()?.to_vec1()?))
    }

    /// A matrix `[out, in]`.
    pub fn matrix(&self, name: &str, shape: [usize; 2], matrix_use: MatrixUse) -> Result<Weight> {
        match self.load(name, &shape)? {
            Some(Stored::Quantized(tensor)) => Ok(Weight::Quantized(Arc::new(tensor))),
            Some(Stored::Dense(tensor)) => {
                let matrix = Weight::Dense(tensor.to_dtype(self.dtype)?);
                if matrix_use == MatrixUse::Product { self.as_product(name, &matrix) } else { Ok(matrix) }
            }
            None => Ok(Weight::Dense(self.stand_in(&shape)?)),
        }
    }

    /// The same matrix for products: quantised now if that was asked for and it is dense.
    pub fn as_product(&self, name: &str, matrix: &Weight) -> Result<Weight> {
        let (Some(format), Weight::Dense(tensor)) = (self.quantize, matrix) else {
            return Ok(matrix.clone());
        };
        let width = tensor.dim(1)?;
        // Blocks of 256 do not divide every width; such matrices keep the next wider format.
        let format =
            [format, GgmlDType::Q8_0].into_iter().find(|format| width.is_multiple_of(format.block_size()));
        let Some(format) = format else { return Ok(matrix.clone()) };
        let quantized = QTensor::quantize(&tensor.to_dtype(DType::F32)?, format)
            .map_err(Error::tensor(format!("quantising `{name}`")))?;
        Ok(Weight::Quantized(Arc::new(quantized)))
    }

    fn load(&self, name: &str, shape: &[usize]) -> Result<Option<Stored>> {
        self.used.borrow_mut().insert(name.to_owned());
        let problem = match self.files.shape(name) {
            None => format!("`{name}` {shape:?} is missing"),
            Some(found) if found != shape => format!("`{name}` is {found:?}, expected {shape:?}"),
            Some(_) => return self.files.load(name, &self.device).map(Some),
        };
        self.problems.borrow_mut().push(problem);
        Ok(None)
    }

    /// Zeros of any shape that take no memory.
    fn stand_in(&self, shape: &[usize]) -> Result<Tensor> {
        Ok(Tensor::zeros((), self.dtype, &self.device)?.broadcast_as(shape)?)
    }

    /// Ends the building of a network whose layers' tensors begin with `layers`.
    ///
    /// # Errors
    /// `TensorMismatch` listing every tensor that was missing or had another shape, and every tensor of a
    /// layer that was not read: a network without it would not be the one that was trained.
    pub fn finish(self, layers: &str) -> Result<()> {
        let used = self.used.into_inner();
        let mut problems = self.problems.into_inner();
        // GGUF keeps rotary divisors beside the layers.
        let matters = |name: &&str| name.starts_with(layers) || name.starts_with("rope_");
        for name in self.files.names().into_iter().filter(matters) {
            // Frequencies that old checkpoints stored beside what they are computed from.
            if !used.contains(name) && !name.ends_with("rotary_emb.inv_freq") {
                problems.push(format!("`{name}` is there, but the configuration has no use for it"));
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(Error::TensorMismatch { path: self.path, problems }) }
    }
}
