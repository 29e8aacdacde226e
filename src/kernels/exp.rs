//! The exponential function over a row of logits, in single precision.
//!
//! A vocabulary has 152,000 entries and every row that is sampled needs the sum of their weights. The
//! standard library's `exp` is a call per element; this one is a polynomial that compilers turn into
//! vector code on any processor. The relative error stays below 2e-7.

use std::f32::consts::LOG2_E;

/// Below this, `exp` is taken as 0: the smallest normal number is near.
const LOWEST: f32 = -87.3;
/// ln 2 in two parts, so that `x - n ln 2` keeps all its bits (Cody and Waite, 1980).
const LN_2_HIGH: f32 = 0.693_359_4;
const LN_2_LOW: f32 = -2.121_944_4e-4;
/// 1.5 * 2^23: adding it rounds a small number to an integer in the lowest bits.
const ROUNDER: f32 = 12_582_912.0;
/// Elements summed in single precision before the sum goes on in double precision.
const BLOCK: usize = 256;
const LANES: usize = 16;

/// `e^x` for `x <= 0`, and 0 for all `x` below -87.3, minus infinity included.
#[expect(clippy::inline_always, reason = "it must be compiled for the caller's registers")]
#[inline(always)]
fn exp_of_negative(x: f32) -> f32 {
    let clamped = x.max(LOWEST);
    let shifted = clamped * LOG2_E + ROUNDER;
    let n = shifted - ROUNDER;
    let r = (clamped - n * LN_2_HIGH) - n * LN_2_LOW;
    // Taylor's series to the seventh power; |r| is at most ln 2 / 2.
    let p = 1.0 / 5040.0;
    let p = p * r + 1.0 / 720.0;
    let p = p * r + 1.0 / 120.0;
    let p = p * r + 1.0 / 24.0;
    let p = p * r + 1.0 / 6.0;
    let p = p * r + 0.5;
    let p = p * r + 1.0;
    let p = p * r + 1.0;
    // The low bits of `shifted` hold n; as the exponent of a float they make 2^n.
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(0x3f80_0000));
    if x < LOWEST { 0.0 } else { p * power }
}

/// The weight of one logit: `e^((logit - largest) * scale)`.
#[expect(clippy::inline_always, reason = "it must be compiled for the caller's registers")]
#[inline(always)]
pub(crate) fn weight(logit: f32, largest: f32, scale: f32) -> f32 {
    exp_of_negative((logit - largest) * scale)
}

/// The sum of all weights of a row.
pub(crate) fn total_weight(logits: &[f32], largest: f32, scale: f32) -> f64 {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2, and that is all the function asks for.
        #[expect(unsafe_code, reason = "code for a processor that was asked whether it can run it")]
        return unsafe { total_weight_avx2(logits, largest, scale) };
    }
    portable_total_weight(logits, largest, scale)
}

/// The portable sum, compiled for wider registers: the same operations in the same order, the same bits.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn total_weight_avx2(logits: &[f32], largest: f32, scale: f32) -> f64 {
    portable_total_weight(logits, largest, scale)
}

#[expect(clippy::inline_always, reason = "it must be compiled for the caller's registers")]
#[inline(always)]
fn portable_total_weight(logits: &[f32], largest: f32, scale: f32) -> f64 {
    let mut total = 0.0;
    for block in logits.chunks(BLOCK) {
        let mut lanes = [0.0f32; LANES];
        let mut parts = block.chunks_exact(LANES);
        for part in &mut parts {
            for (lane, &logit) in lanes.iter_mut().zip(part) {
                *lane += weight(logit, largest, scale);
            }
        }
        let rest: f32 = parts.remainder().iter().map(|&logit| weight(logit, largest, scale)).sum();
        total += f64::from(lanes.iter().sum::<f32>()) + f64::from(rest);
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_exponential() {
        let mut worst = 0.0f64;
        for i in 0..870_000u32 {
            let x = -(i as f32) * 1e-4;
            let exact = f64::from(x).exp();
            worst = worst.max((f64::from(exp_of_negative(x)) / exact - 1.0).abs());
        }
        assert!(worst < 2e-7, "{worst:e}");
        assert_eq!((exp_of_negative(0.0), exp_of_negative(f32::NEG_INFINITY)), (1.0, 0.0));
    }

    #[test]
    fn sums_are_those_of_double_precision() {
        let logits: Vec<f32> = (0..5003u32).map(|i| ((i * 7919) % 1013) as f32 * 0.02 - 10.0).collect();
        let exact: f64 = logits.iter().map(|&l| ((f64::from(l) - 10.24) * 1.25).exp()).sum();
        let sum = total_weight(&logits, 10.24, 1.25);
        assert!((sum / exact - 1.0).abs() < 3e-7, "{sum} {exact}");
        assert_eq!(sum.to_bits(), portable_total_weight(&logits, 10.24, 1.25).to_bits());
    }
}
