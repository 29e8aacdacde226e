//! Softmax attention on a CPU whose rows do not depend on their neighbours.
//!
//! Each output row is made by one thread, from its own query and the keys it sees, one key after another.
//! Keys it does not see are skipped, not weighted by zero. So a row of a block has the bits of the same
//! row alone, whatever the block, the window or the number of threads.

use std::sync::Arc;

use candle_core::{CpuStorage, CustomOp3, DType, Layout, Shape, Tensor};
use rayon::prelude::*;

/// Products below this many multiplications are not worth a second thread.
const MIN_PARALLEL_WORK: usize = 1 << 17;
/// Independent sums of a dot product, fixed so that its order is.
const LANES: usize = 16;

/// `softmax(cap(scale * Q K^T)) V` over grouped heads: queries `[query_heads, rows, head_dim]`, keys and
/// values `[kv_heads, keys, width]`, result `[rows, query_heads * value_width]`, all f32.
pub(crate) struct CpuAttention {
    pub(crate) scale: f32,
    pub(crate) softcap: Option<f32>,
    /// `[rows, keys]`: whether a row sees a key; none when every row sees every key.
    pub(crate) seen: Option<Arc<[bool]>>,
}

/// Whether the kernel can take these tensors.
pub(crate) fn suits(tensors: [&Tensor; 3]) -> bool {
    tensors.iter().all(|tensor| {
        let innermost = tensor.layout().stride().last().copied();
        tensor.device().is_cpu() && tensor.dtype() == DType::F32 && innermost == Some(1)
    })
}

/// A strided `[heads, rows, width]` view of f32 data.
struct View<'a> {
    data: &'a [f32],
    head_stride: usize,
    row_stride: usize,
    width: usize,
}

impl<'a> View<'a> {
    fn new(storage: &'a CpuStorage, layout: &Layout) -> candle_core::Result<Self> {
        let (_, _, width) = layout.shape().dims3()?;
        let stride = layout.stride();
        let data = &storage.as_slice::<f32>()?[layout.start_offset()..];
        Ok(Self { data, head_stride: stride[0], row_stride: stride[1], width })
    }

    fn row(&self, head: usize, row: usize) -> &'a [f32] {
        let start = head * self.head_stride + row * self.row_stride;
        &self.data[start..start + self.width]
    }
}

impl CustomOp3 for CpuAttention {
    fn name(&self) -> &'static str {
        "cpu-attention"
    }

    fn cpu_fwd(
        &self,
        queries: &CpuStorage,
        queries_layout: &Layout,
        keys: &CpuStorage,
        keys_layout: &Layout,
        values: &CpuStorage,
        values_layout: &Layout,
    ) -> candle_core::Result<(CpuStorage, Shape)> {
        let (query_heads, rows, _) = queries_layout.shape().dims3()?;
        let (kv_heads, num_keys, _) = keys_layout.shape().dims3()?;
        let queries = View::new(queries, queries_layout)?;
        let keys = View::new(keys, keys_layout)?;
        let values = View::new(values, values_layout)?;
        let group = query_heads / kv_heads;
        let mut output = vec![0f32; rows * query_heads * values.width];
        let one = |scores: &mut Vec<f32>, (index, out): (usize, &mut [f32])| {
            let (row, head) = (index / query_heads, index % query_heads);
            let seen = self.seen.as_ref().map(|seen| &seen[row * num_keys..(row + 1) * num_keys]);
            self.attend(queries.row(head, row), head / group, (&keys, &values), seen, num_keys, scores, out);
        };
        if rows * query_heads * num_keys * keys.width < MIN_PARALLEL_WORK {
            let mut scores = Vec::new();
            output.chunks_mut(values.width).enumerate().for_each(|chunk| one(&mut scores, chunk));
        } else {
            output.par_chunks_mut(values.width).enumerate().for_each_init(Vec::new, one);
        }
        Ok((CpuStorage::F32(output), Shape::from((rows, query_heads * values.width))))
    }
}

impl CpuAttention {
    /// One head of one row; `scores` is scratch.
    #[expect(clippy::too_many_arguments, reason = "the inner loop of one kernel")]
    fn attend(
        &self,
        query: &[f32],
        kv_head: usize,
        (keys, values): (&View<'_>, &View<'_>),
        seen: Option<&[bool]>,
        num_keys: usize,
        scores: &mut Vec<f32>,
        out: &mut [f32],
    ) {
        let sees = |key: usize| seen.is_none_or(|seen| seen[key]);
        scores.clear();
        let mut largest = f32::NEG_INFINITY;
        for key in (0..num_keys).filter(|key| sees(*key)) {
            let mut score = dot(query, keys.row(kv_head, key)) * self.scale;
            if let Some(cap) = self.softcap {
                score = (score / cap).tanh() * cap;
            }
            largest = largest.max(score);
            scores.push(score);
        }
        let mut total = 0f32;
        for (score, key) in scores.iter().zip((0..num_keys).filter(|key| sees(*key))) {
            let weight = (score - largest).exp();
            total += weight;
            for (sum, value) in out.iter_mut().zip(values.row(kv_head, key)) {
                *sum += weight * value;
            }
        }
        for sum in out {
            *sum /= total;
        }
    }
}

/// A dot product in a fixed order.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0f32; LANES];
    let (a_chunks, b_chunks) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest: f32 = a_chunks.remainder().iter().zip(b_chunks.remainder()).map(|(x, y)| x * y).sum();
    for (x, y) in a_chunks.zip(b_chunks) {
        for lane in 0..LANES {
            sums[lane] += x[lane] * y[lane];
        }
    }
    sums.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests {
    use candle_core::{D, Device};

    use super::*;

    const HEADS: (usize, usize) = (6, 2);

    fn random(shape: (usize, usize, usize)) -> Tensor {
        Tensor::randn(0f32, 1f32, shape, &Device::Cpu).unwrap()
    }

    fn run(q: &Tensor, k: &Tensor, v: &Tensor, seen: Option<&[bool]>, softcap: Option<f32>) -> Tensor {
        let op = CpuAttention { scale: 0.3, softcap, seen: seen.map(Arc::from) };
        q.apply_op3_no_bwd(k, v, &op).unwrap()
    }

    /// The same from candle's operations.
    fn reference(q: &Tensor, k: &Tensor, v: &Tensor, seen: &[bool], softcap: Option<f32>) -> Tensor {
        let (heads, rows, _) = q.dims3().unwrap();
        let repeat = |x: &Tensor| {
            let (kv_heads, keys, width) = x.dims3().unwrap();
            let wide =
                x.unsqueeze(1).unwrap().broadcast_as((kv_heads, heads / kv_heads, keys, width)).unwrap();
            wide.reshape((heads, keys, width)).unwrap()
        };
        let mut scores = (q.matmul(&repeat(k).t().unwrap()).unwrap() * 0.3).unwrap();
        if let Some(cap) = softcap {
            let cap = f64::from(cap);
            scores = ((scores / cap).unwrap().tanh().unwrap() * cap).unwrap();
        }
        let mask: Vec<f32> = seen.iter().map(|seen| if *seen { 0.0 } else { f32::NEG_INFINITY }).collect();
        let mask = Tensor::from_vec(mask, (rows, k.dims()[1]), &Device::Cpu).unwrap();
        let weights = candle_nn::ops::softmax(&scores.broadcast_add(&mask).unwrap(), D::Minus1).unwrap();
        let mixed = weights.matmul(&repeat(v)).unwrap();
        mixed.transpose(0, 1).unwrap().reshape((rows, heads * v.dims()[2])).unwrap()
    }

    fn arbitrary_mask(rows: usize, keys: usize) -> Vec<bool> {
        (0..rows * keys).map(|i| i % keys == i / keys || (i * 7919) % 5 < 3).collect()
    }

    #[test]
    fn it_is_attention() {
        for (rows, keys, width, value_width) in [(1, 1, 8, 8), (3, 7, 20, 12), (5, 300, 64, 64)] {
            for softcap in [None, Some(2.0)] {
                let (q, k, v) = (
                    random((HEADS.0, rows, width)),
                    random((HEADS.1, keys, width)),
                    random((HEADS.1, keys, value_width)),
                );
                let seen = arbitrary_mask(rows, keys);
                let found = run(&q, &k, &v, Some(&seen), softcap);
                let difference = (found - reference(&q, &k, &v, &seen, softcap)).unwrap().abs().unwrap();
                let worst = difference.max_all().unwrap().to_scalar::<f32>().unwrap();
                assert!(worst < 1e-5, "{rows} x {keys} x {width}: {worst}");
            }
        }
    }

    #[test]
    fn a_row_has_the_same_bits_whatever_stands_beside_it() {
        // Large enough for several threads; views into a longer buffer, as a cache hands out.
        let (rows, keys) = (9, 400);
        let (q, k, v) = (random((HEADS.0, rows, 24)), random((HEADS.1, 512, 24)), random((HEADS.1, 512, 24)));
        let seen = arbitrary_mask(rows, keys);
        let view = |x: &Tensor| x.narrow(1, 0, keys).unwrap();
        let block: Vec<Vec<f32>> = run(&q, &view(&k), &view(&v), Some(&seen), None).to_vec2().unwrap();
        for row in 0..rows {
            let alone = q.narrow(1, row, 1).unwrap();
            let line = &seen[row * keys..(row + 1) * keys];
            let found: Vec<Vec<f32>> = run(&alone, &view(&k), &view(&v), Some(line), None).to_vec2().unwrap();
            assert_eq!(found[0], block[row], "row {row} with its mask");
            // Only the keys it sees, packed: as if the others had never been there.
            let kept: Vec<u32> = (0..).zip(line).filter(|(_, seen)| **seen).map(|(key, _)| key).collect();
            let kept = Tensor::new(kept, &Device::Cpu).unwrap();
            let packed = |x: &Tensor| x.index_select(&kept, 1).unwrap();
            let found: Vec<Vec<f32>> = run(&alone, &packed(&k), &packed(&v), None, None).to_vec2().unwrap();
            assert_eq!(found[0], block[row], "row {row} with its keys only");
        }
    }
}
