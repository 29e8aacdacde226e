//! Three operations with hand-written gradients: causal softmax, RMS norm, gated SiLU.
//!
//! Composed from candle's elementwise operations they are correct but walk over memory a dozen
//! times, and cost more than the matrix products on a CPU. Here each is one pass forward and one
//! pass back. All inputs are contiguous f32; anything else is an error.

use candle_core::{CpuStorage, CustomOp1, CustomOp2, CustomOp3, Error, Layout, Result, Shape, Tensor};

fn rows<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    let (start, end) = layout
        .contiguous_offsets()
        .ok_or_else(|| Error::Msg("fused operations need contiguous tensors".into()))?;
    Ok(&storage.as_slice::<f32>()?[start..end])
}

fn last_dim(layout: &Layout) -> usize {
    layout.dims().last().copied().unwrap_or(1)
}

const LANES: usize = 8;

/// Sum over `len` items in eight interleaved parts: one running sum would wait for each addition.
fn sum(len: usize, item: impl Fn(usize) -> f32) -> f32 {
    let mut parts = [0f32; LANES];
    let whole = len / LANES * LANES;
    for start in (0..whole).step_by(LANES) {
        for (lane, part) in parts.iter_mut().enumerate() {
            *part += item(start + lane);
        }
    }
    let rest: f32 = (whole..len).map(item).sum();
    parts.iter().sum::<f32>() + rest
}

fn dot(left: &[f32], right: &[f32]) -> f32 {
    let len = left.len();
    let right = &right[..len];
    sum(len, |index| left[index] * right[index])
}

fn largest(row: &[f32]) -> f32 {
    let larger = |a: f32, b: f32| if a > b { a } else { b };
    let mut parts = [f32::NEG_INFINITY; LANES];
    let chunks = row.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (part, value) in parts.iter_mut().zip(chunk) {
            *part = larger(*part, *value);
        }
    }
    parts.iter().chain(rest).copied().fold(f32::NEG_INFINITY, larger)
}

/// e^x for x <= 0 to about 1e-6, without a table or a branch, so that loops over it vectorise.
///
/// 2^(n + f) with |f| <= 1/2: n goes into the exponent's bits, f into a polynomial.
fn exp(x: f32) -> f32 {
    // Adding and subtracting 1.5 * 2^23 rounds to an integer, which the low bits then hold.
    const ROUND: f32 = 12_582_912.0;
    let scaled = x.max(-80.0) * std::f32::consts::LOG2_E;
    let rounded = scaled + ROUND;
    let f = (scaled - (rounded - ROUND)) * std::f32::consts::LN_2;
    let series = 1.0 + f * (1.0 + f * (0.5 + f * (1.0 / 6.0 + f * (1.0 / 24.0 + f / 120.0))));
    f32::from_bits(series.to_bits().wrapping_add(rounded.to_bits() << 23))
}

/// Softmax over the last dimension of attention scores, where row `r` sees columns `0..=r % len`.
///
/// The input is `[.., rows, len]`; with grouped queries the rows of one key head are its query
/// heads one after another, so `rows` is a multiple of `len`.
pub struct CausalSoftmax {
    /// Multiplies the scores first; 1 / sqrt(head_dim).
    pub scale: f32,
}

struct CausalSoftmaxGradient {
    scale: f32,
}

impl CustomOp1 for CausalSoftmax {
    fn name(&self) -> &'static str {
        "causal-softmax"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let len = last_dim(layout);
        let scores = rows(storage, layout)?;
        let mut output = vec![0f32; scores.len()];
        for (index, (input, output)) in scores.chunks_exact(len).zip(output.chunks_exact_mut(len)).enumerate()
        {
            let seen = index % len + 1;
            let (input, output) = (&input[..seen], &mut output[..seen]);
            let max = largest(input);
            for (input, output) in input.iter().zip(output.iter_mut()) {
                *output = exp((input - max) * self.scale);
            }
            let inverse = 1.0 / sum(seen, |index| output[index]);
            output.iter_mut().for_each(|output| *output *= inverse);
        }
        Ok((CpuStorage::F32(output), layout.shape().clone()))
    }

    fn bwd(&self, _: &Tensor, result: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        let op = CausalSoftmaxGradient { scale: self.scale };
        Ok(Some(result.apply_op2_no_bwd(&gradient.contiguous()?, &op)?))
    }
}

impl CustomOp2 for CausalSoftmaxGradient {
    fn name(&self) -> &'static str {
        "causal-softmax-gradient"
    }

    fn cpu_fwd(
        &self,
        result: &CpuStorage,
        layout: &Layout,
        gradient: &CpuStorage,
        gradient_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let len = last_dim(layout);
        let result = rows(result, layout)?;
        let gradient = rows(gradient, gradient_layout)?;
        let mut output = vec![0f32; result.len()];
        for (index, ((p, g), output)) in result
            .chunks_exact(len)
            .zip(gradient.chunks_exact(len))
            .zip(output.chunks_exact_mut(len))
            .enumerate()
        {
            let seen = index % len + 1;
            let dot = dot(&p[..seen], g);
            for ((p, g), output) in p[..seen].iter().zip(&g[..seen]).zip(output) {
                *output = p * (g - dot) * self.scale;
            }
        }
        Ok((CpuStorage::F32(output), layout.shape().clone()))
    }
}

/// `x * weight / sqrt(mean(x^2) + epsilon)` over the last dimension; arguments `x`, `weight`.
pub struct RmsNorm {
    pub epsilon: f32,
}

struct RmsNormGradient {
    epsilon: f32,
}

fn inverse_rms(row: &[f32], epsilon: f32) -> f32 {
    let squares = dot(row, row);
    1.0 / (squares / row.len() as f32 + epsilon).sqrt()
}

impl CustomOp2 for RmsNorm {
    fn name(&self) -> &'static str {
        "rms-norm"
    }

    fn cpu_fwd(
        &self,
        storage: &CpuStorage,
        layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let width = last_dim(layout);
        let weight = rows(weight, weight_layout)?;
        let input = rows(storage, layout)?;
        let mut output = vec![0f32; input.len()];
        for (input, output) in input.chunks_exact(width).zip(output.chunks_exact_mut(width)) {
            let inverse = inverse_rms(input, self.epsilon);
            for ((x, weight), output) in input.iter().zip(weight).zip(output) {
                *output = x * inverse * weight;
            }
        }
        Ok((CpuStorage::F32(output), layout.shape().clone()))
    }

    fn bwd(
        &self,
        x: &Tensor,
        weight: &Tensor,
        _: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let op = RmsNormGradient { epsilon: self.epsilon };
        let width = weight.elem_count();
        let both = x.apply_op3_no_bwd(weight, &gradient.contiguous()?, &op)?;
        let num_rows = x.elem_count() / width;
        let x_gradient = both.narrow(0, 0, num_rows)?.reshape(x.shape())?;
        let weight_gradient = both.narrow(0, num_rows, 1)?.reshape(weight.shape())?;
        Ok((Some(x_gradient), Some(weight_gradient)))
    }
}

impl CustomOp3 for RmsNormGradient {
    fn name(&self) -> &'static str {
        "rms-norm-gradient"
    }

    /// `[rows + 1, width]`: the gradient of `x`, then one row with the gradient of the weight.
    fn cpu_fwd(
        &self,
        storage: &CpuStorage,
        layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
        gradient: &CpuStorage,
        gradient_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let width = last_dim(layout);
        let input = rows(storage, layout)?;
        let weight = rows(weight, weight_layout)?;
        let gradient = rows(gradient, gradient_layout)?;
        let num_rows = input.len() / width;
        let mut output = vec![0f32; input.len() + width];
        let (x_gradient, weight_gradient) = output.split_at_mut(input.len());
        for ((x, g), output) in input
            .chunks_exact(width)
            .zip(gradient.chunks_exact(width))
            .zip(x_gradient.chunks_exact_mut(width))
        {
            let inverse = inverse_rms(x, self.epsilon);
            let dot = sum(width, |index| x[index] * g[index] * weight[index]);
            let shrink = dot * inverse * inverse / width as f32;
            for (((x, g), weight), output) in x.iter().zip(g).zip(weight).zip(output) {
                *output = inverse * (g * weight - x * shrink);
            }
            for ((x, g), sum) in x.iter().zip(g).zip(weight_gradient.iter_mut()) {
                *sum += x * g * inverse;
            }
        }
        Ok((CpuStorage::F32(output), (num_rows + 1, width).into()))
    }
}

/// `silu(gate) * up`; arguments `gate`, `up`.
pub struct GatedSilu;

struct GatedSiluGradient;

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

impl CustomOp2 for GatedSilu {
    fn name(&self) -> &'static str {
        "gated-silu"
    }

    fn cpu_fwd(
        &self,
        gate: &CpuStorage,
        layout: &Layout,
        up: &CpuStorage,
        up_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let output = rows(gate, layout)?
            .iter()
            .zip(rows(up, up_layout)?)
            .map(|(gate, up)| gate * sigmoid(*gate) * up)
            .collect();
        Ok((CpuStorage::F32(output), layout.shape().clone()))
    }

    fn bwd(
        &self,
        gate: &Tensor,
        up: &Tensor,
        _: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let both = gate.apply_op3_no_bwd(up, &gradient.contiguous()?, &GatedSiluGradient)?;
        let gate_gradient = both.get(0)?;
        let up_gradient = both.get(1)?;
        Ok((Some(gate_gradient), Some(up_gradient)))
    }
}

impl CustomOp3 for GatedSiluGradient {
    fn name(&self) -> &'static str {
        "gated-silu-gradient"
    }

    /// `[2, ..]`: the gradient of the gate, then that of `up`.
    fn cpu_fwd(
        &self,
        gate: &CpuStorage,
        layout: &Layout,
        up: &CpuStorage,
        up_layout: &Layout,
        gradient: &CpuStorage,
        gradient_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let gate = rows(gate, layout)?;
        let up = rows(up, up_layout)?;
        let gradient = rows(gradient, gradient_layout)?;
        let mut output = vec![0f32; 2 * gate.len()];
        let (gate_gradient, up_gradient) = output.split_at_mut(gate.len());
        for ((((gate, up), g), gate_output), up_output) in
            gate.iter().zip(up).zip(gradient).zip(gate_gradient).zip(up_gradient)
        {
            let sigmoid = sigmoid(*gate);
            *gate_output = g * up * sigmoid * (1.0 + gate * (1.0 - sigmoid));
            *up_output = g * gate * sigmoid;
        }
        let mut dims = vec![2];
        dims.extend_from_slice(layout.dims());
        Ok((CpuStorage::F32(output), dims.into()))
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Tensor, Var};

    use super::*;
    use crate::random::Random;

    fn tensor(shape: &[usize], stream: u64) -> Var {
        let mut random = Random::new(3, stream);
        let len = shape.iter().product();
        let values: Vec<f32> = (0..len).map(|_| random.normal() as f32).collect();
        Var::from_tensor(&Tensor::from_vec(values, shape, &Device::Cpu).unwrap()).unwrap()
    }

    /// The same value and gradients as candle's own operations give.
    fn same(vars: &[&Var], fused: &Tensor, plain: &Tensor) {
        let weights = tensor(fused.dims(), 9);
        let gradients = |output: &Tensor| {
            let total = (output * weights.as_tensor()).unwrap().sum_all().unwrap();
            total.backward().unwrap()
        };
        let close = |a: &Tensor, b: &Tensor| {
            let difference = (a - b).unwrap().abs().unwrap().flatten_all().unwrap();
            let largest = difference.max(0).unwrap().to_scalar::<f32>().unwrap();
            assert!(largest < 1e-4, "{largest}");
        };
        close(fused, plain);
        let (fused, plain) = (gradients(fused), gradients(plain));
        for var in vars {
            close(fused.get(var).unwrap(), plain.get(var).unwrap());
        }
    }

    #[test]
    fn causal_softmax_is_a_masked_softmax() {
        let scores = tensor(&[2, 26, 13], 1);
        let fused = scores.apply_op1(CausalSoftmax { scale: 0.5 }).unwrap();
        let mask: Vec<f32> =
            (0..26 * 13).map(|index| if index % 13 > index / 13 % 13 { -1e9 } else { 0.0 }).collect();
        let mask = Tensor::from_vec(mask, (26, 13), &Device::Cpu).unwrap();
        let masked = (scores.as_tensor() * 0.5).unwrap().broadcast_add(&mask).unwrap();
        let plain = candle_nn::ops::softmax(&masked, candle_core::D::Minus1).unwrap();
        same(&[&scores], &fused, &plain);
    }

    #[test]
    fn rms_norm_is_candles() {
        let (x, weight) = (tensor(&[5, 19], 1), tensor(&[19], 2));
        let fused = x.apply_op2(&weight, RmsNorm { epsilon: 1e-5 }).unwrap();
        let plain = candle_nn::ops::rms_norm_slow(&x, &weight, 1e-5).unwrap();
        same(&[&x, &weight], &fused, &plain);
    }

    #[test]
    fn gated_silu_is_a_product() {
        let (gate, up) = (tensor(&[5, 19], 1), tensor(&[5, 19], 2));
        let fused = gate.apply_op2(&up, GatedSilu).unwrap();
        let plain = (gate.silu().unwrap() * up.as_tensor()).unwrap();
        same(&[&gate, &up], &fused, &plain);
    }
}
