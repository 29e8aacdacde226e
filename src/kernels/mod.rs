//! Hand-written numerics, each with the measurement that asked for it.
//!
//! On a CPU a row's result must not depend on the rows beside it, or a verify pass and one-row passes part
//! at near-ties: with candle's matrix products in attention, 13 of 18 speculative runs of a Q4_1 model
//! differed from plain decoding, although its quantised products and norms are exact by row.

mod attention;
mod exp;

pub(crate) use attention::{CpuAttention, suits};
pub(crate) use exp::{total_weight, weight};
