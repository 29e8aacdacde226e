//! Choice of device and of the type computations run in.

use candle_core::{DType, Device};

/// What `--dtype` can say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DtypeChoice {
    /// The fastest exact choice: f32 on a CPU, the stored type elsewhere.
    #[default]
    Auto,
    /// 32-bit.
    F32,
    /// bfloat16.
    Bf16,
    /// IEEE half precision.
    F16,
}

/// Values of `--dtype`.
pub const DTYPES: &[(&str, DtypeChoice)] = &[
    ("auto", DtypeChoice::Auto),
    ("f32", DtypeChoice::F32),
    ("bf16", DtypeChoice::Bf16),
    ("f16", DtypeChoice::F16),
];

impl DtypeChoice {
    /// The type to compute in on `device`.
    pub fn resolve(self, device: &Device) -> DType {
        match self {
            Self::Auto if !device.is_cpu() => DType::BF16,
            Self::Auto | Self::F32 => DType::F32,
            Self::Bf16 => DType::BF16,
            Self::F16 => DType::F16,
        }
    }
}

/// How messages name a device.
pub fn name(device: &Device) -> &'static str {
    match device {
        Device::Cpu => "CPU",
        Device::Cuda(_) => "CUDA",
        Device::Metal(_) => "Metal",
    }
}

/// Peak resident memory of this process in bytes, where the system tells.
pub fn peak_memory_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}
