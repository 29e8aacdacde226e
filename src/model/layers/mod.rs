//! The parts networks are declared from. Each can run fused, or with operations that have a gradient.

pub mod attention;
pub mod linear;
pub mod mask;
pub mod mlp;
pub mod norm;
pub mod rope;

/// Which implementation of an operation to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ops {
    /// The fastest; some have no gradient.
    #[default]
    Fused,
    /// Only operations with a gradient, for training.
    Differentiable,
}
