//! The one decoder network: residual blocks of attention and a feed-forward layer.
//!
//! An architecture in `arch` says which parts a layer has and what its tensors are called; this file
//! builds and runs them. Rows of all segments go through linear layers together; attention goes
//! segment by segment, each over its own cache.

use candle_core::{DType, Device, Tensor};

use super::arch::names::{Naming, Role};
use super::layers::Ops;
use super::layers::attention::{Attention, AttentionShape};
use super::layers::linear::{Embedding, Linear};
use super::layers::mask::{BlockPositions, Mask};
use super::layers::mlp::{Activation, GatedMlp};
use super::layers::norm::RmsNorm;
use super::layers::rope::{RopeId, RopeSpec, Rotary, RowRotations};
use super::{CausalLm, Hidden, Segment, Tap, depths};
use crate::cache::{RowShape, SlotLayout};
use crate::checkpoint::{MatrixUse, Weight, Weights};
use crate::error::{Error, Result};

/// Everything that tells one decoder from another, before any tensor is read.
#[derive(Debug, Clone)]
pub struct DecoderSpec {
    /// Width of a hidden state.
    pub hidden_size: usize,
    /// Ids with an embedding.
    pub vocab_size: usize,
    /// Layers from the bottom.
    pub layers: Vec<LayerSpec>,
    /// Rotations that layers refer to.
    pub ropes: Vec<RopeSpec>,
    /// Added to every variance.
    pub norm_eps: f64,
    /// Added to every stored norm weight.
    pub norm_offset: f64,
    /// Multiplies embeddings.
    pub embedding_scale: Option<f64>,
    /// `cap * tanh(logit / cap)` on the logits.
    pub logit_softcap: Option<f64>,
    /// Whether the head is the embedding.
    pub tied: bool,
}

/// One layer.
#[derive(Debug, Clone)]
pub struct LayerSpec {
    /// Heads.
    pub attention: AttentionShape,
    /// Positions a query sees; all when none.
    pub window: Option<usize>,
    /// None for layers without rotary positions.
    pub rope: Option<RopeId>,
    /// Multiplies scores.
    pub scale: f64,
    /// `cap * tanh(score / cap)` on the scores.
    pub softcap: Option<f64>,
    /// Which projections have biases.
    pub biases: Biases,
    /// Whether each query and key head is normalised.
    pub head_norms: bool,
    /// Where the norms are.
    pub norms: NormPlacement,
    /// Width of the feed-forward layer.
    pub intermediate_size: usize,
    /// Its gate.
    pub activation: Activation,
}

/// Which projections of a layer have biases.
#[derive(Debug, Clone, Copy, Default)]
pub struct Biases {
    /// Queries, keys and values.
    pub qkv: bool,
    /// The output of attention.
    pub output: bool,
    /// The feed-forward layer.
    pub mlp: bool,
}

/// Where a layer normalises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NormPlacement {
    /// Before attention and before the feed-forward layer.
    Before,
    /// Before and after each.
    Around,
}

struct Layer {
    attention_norm: RmsNorm,
    attention: Attention,
    post_attention_norm: Option<RmsNorm>,
    mlp_norm: RmsNorm,
    mlp: GatedMlp,
    post_mlp_norm: Option<RmsNorm>,
    window: Option<usize>,
}

/// A decoder with its weights.
pub struct Decoder {
    embedding: Embedding,
    layers: Vec<Layer>,
    norm: RmsNorm,
    head: Linear,
    logit_softcap: Option<f64>,
    ropes: Vec<RopeSpec>,
    cache_layout: Vec<SlotLayout>,
    dtype: DType,
    device: Device,
    formats: Vec<(String, usize)>,
}

/// Builds layers from weights and counts what they are stored as.
struct Builder<'a, 'f> {
    weights: &'a Weights<'f>,
    naming: &'a Naming,
    spec: &'a DecoderSpec,
    ops: Ops,
    formats: Vec<(String, usize)>,
}

impl Builder<'_, '_> {
    fn norm(&self, role: Role, layer: usize, width: usize) -> Result<RmsNorm> {
        let name = format!("{}.weight", self.naming.name(role, layer));
        let mut weight = self.weights.tensor(&name, &[width])?;
        if self.spec.norm_offset != 0.0 {
            weight = (weight + self.spec.norm_offset)?;
        }
        Ok(RmsNorm::new(weight.contiguous()?, self.spec.norm_eps, self.ops))
    }

    fn linear(&mut self, role: Role, layer: usize, shape: [usize; 2], has_bias: bool) -> Result<Linear> {
        let name = self.naming.name(role, layer);
        let weight_name = format!("{name}.weight");
        let weight = self.weights.matrix(&weight_name, shape, MatrixUse::Product)?;
        self.count(&weight_name, &weight);
        let bias =
            if has_bias { Some(self.weights.tensor(&format!("{name}.bias"), &[shape[0]])?) } else { None };
        Linear::new(weight, bias)
    }

    fn count(&mut self, name: &str, weight: &Weight) {
        let (format, elements) = (self.weights.format(name, weight), weight.num_elements());
        match self.formats.iter_mut().find(|(known, _)| *known == format) {
            Some((_, count)) => *count += elements,
            None => self.formats.push((format, elements)),
        }
    }

    fn layer(&mut self, index: usize, layer: &LayerSpec) -> Result<Layer> {
        let hidden = self.spec.hidden_size;
        let shape = layer.attention;
        let head_norms = if layer.head_norms {
            Some((
                self.norm(Role::QueryNorm, index, shape.head_dim)?,
                self.norm(Role::KeyNorm, index, shape.head_dim)?,
            ))
        } else {
            None
        };
        let (query, kv) = (shape.query_heads, shape.kv_heads);
        let attention = Attention {
            shape,
            query: self.linear(Role::Query, index, [query * shape.head_dim, hidden], layer.biases.qkv)?,
            key: self.linear(Role::Key, index, [kv * shape.head_dim, hidden], layer.biases.qkv)?,
            value: self.linear(Role::Value, index, [kv * shape.value_head_dim, hidden], layer.biases.qkv)?,
            output: self.linear(
                Role::Output,
                index,
                [hidden, query * shape.value_head_dim],
                layer.biases.output,
            )?,
            head_norms,
            rope: layer.rope,
            scale: layer.scale,
            softcap: layer.softcap,
            ops: self.ops,
        };
        let inner = layer.intermediate_size;
        let mlp = GatedMlp {
            gate: self.linear(Role::Gate, index, [inner, hidden], layer.biases.mlp)?,
            up: self.linear(Role::Up, index, [inner, hidden], layer.biases.mlp)?,
            down: self.linear(Role::Down, index, [hidden, inner], layer.biases.mlp)?,
            activation: layer.activation,
        };
        let after = |role| match layer.norms {
            NormPlacement::Around => self.norm(role, index, hidden).map(Some),
            NormPlacement::Before => Ok(None),
        };
        Ok(Layer {
            attention_norm: self.norm(Role::AttentionNorm, index, hidden)?,
            attention,
            post_attention_norm: after(Role::PostAttentionNorm)?,
            mlp_norm: self.norm(Role::MlpNorm, index, hidden)?,
            mlp,
            post_mlp_norm: after(Role::PostMlpNorm)?,
            window: layer.window,
        })
    }
}

impl Decoder {
    /// Builds the network `spec` describes from `weights`.
    ///
    /// # Errors
    /// Whatever reading a tensor gives. Missing and mis-shaped tensors are noted in `weights` and stood
    /// in for: call `Weights::finish` before using the network.
    pub fn new(spec: &DecoderSpec, weights: &Weights<'_>, naming: &Naming, ops: Ops) -> Result<Self> {
        let mut builder = Builder { weights, naming, spec, ops, formats: Vec::new() };
        let embedding_name = format!("{}.weight", naming.name(Role::Embedding, 0));
        let table_shape = [spec.vocab_size, spec.hidden_size];
        let table = weights.matrix(&embedding_name, table_shape, MatrixUse::Lookup)?;
        let layers = (spec.layers.iter().enumerate())
            .map(|(index, layer)| builder.layer(index, layer))
            .collect::<Result<Vec<_>>>()?;
        let head = if spec.tied {
            let shared = weights.as_product(&embedding_name, &table)?;
            builder.count(&embedding_name, &shared);
            Linear::new(shared, None)?
        } else {
            builder.linear(Role::Head, 0, table_shape, false)?
        };
        let norm = builder.norm(Role::FinalNorm, 0, spec.hidden_size)?;
        let cache_layout = spec.layers.iter().map(|layer| {
            let shape = layer.attention;
            let row = |width| RowShape { heads: shape.kv_heads, width };
            SlotLayout::Rows {
                keys: row(shape.head_dim),
                values: row(shape.value_head_dim),
                window: layer.window,
            }
        });
        Ok(Self {
            embedding: Embedding::new(table, spec.embedding_scale),
            layers,
            norm,
            head,
            logit_softcap: spec.logit_softcap,
            ropes: spec.ropes.clone(),
            cache_layout: cache_layout.collect(),
            dtype: weights.dtype(),
            device: weights.device().clone(),
            formats: builder.formats,
        })
    }

    /// Storage types of the products and how many weights each holds, in order of appearance.
    pub fn formats(&self) -> &[(String, usize)] {
        &self.formats
    }

    fn run_layer(
        &self,
        index: usize,
        x: &Tensor,
        segments: &mut [Segment<'_>],
        pass: &Pass,
        masks: &mut Masks,
    ) -> Result<Tensor> {
        let layer = &self.layers[index];
        let projected = layer.attention.project(&layer.attention_norm.forward(x)?, &pass.rotations)?;
        let mut mixed = Vec::with_capacity(segments.len());
        for (number, segment) in segments.iter_mut().enumerate() {
            let (start, rows) = pass.spans[number];
            let keys = projected.keys.narrow(1, start, rows)?;
            let values = projected.values.narrow(1, start, rows)?;
            let visible = segment.cache.append(index, &keys, &values)?;
            let mask = masks.get(number, visible.first_position, layer.window, || {
                let positions = &pass.positions[number];
                let committed = segment.cache.len();
                let block = BlockPositions { committed, parents: segment.parents, positions };
                block.mask(visible.first_position, layer.window)
            });
            let queries = projected.queries.narrow(1, start, rows)?;
            mixed.push(layer.attention.attend(&queries, &visible, mask.as_ref())?);
        }
        let mixed = if mixed.len() == 1 { mixed.remove(0) } else { Tensor::cat(&mixed, 0)? };
        let mut attended = layer.attention.output(&mixed)?;
        if let Some(norm) = &layer.post_attention_norm {
            attended = norm.forward(&attended)?;
        }
        let x = (x + attended)?;
        let mut fed = layer.mlp.forward(&layer.mlp_norm.forward(&x)?)?;
        if let Some(norm) = &layer.post_mlp_norm {
            fed = norm.forward(&fed)?;
        }
        Ok((x + fed)?)
    }
}

/// What all layers of one pass share.
struct Pass {
    /// First row and number of rows of each segment.
    spans: Vec<(usize, usize)>,
    /// Absolute positions of each segment's rows.
    positions: Vec<Vec<usize>>,
    rotations: RowRotations,
}

impl Pass {
    fn new(segments: &[Segment<'_>]) -> Result<Self> {
        let (mut spans, mut start) = (Vec::new(), 0);
        let mut positions = Vec::new();
        for segment in segments {
            assert_eq!(segment.tokens.len(), segment.parents.len(), "one parent entry per token");
            spans.push((start, segment.tokens.len()));
            start += segment.tokens.len();
            let committed = segment.cache.len();
            positions.push(depths(segment.parents).iter().map(|depth| committed + depth).collect::<Vec<_>>());
        }
        let parts: Vec<(&Rotary, &[usize])> = segments
            .iter()
            .zip(&positions)
            .map(|(segment, rows)| (segment.rotary, rows.as_slice()))
            .collect();
        let rotations = RowRotations::new(&parts)?;
        Ok(Self { spans, positions, rotations })
    }
}

/// Masks of one pass; layers that see alike share one.
#[derive(Default)]
struct Masks {
    made: Vec<(MaskKey, Option<Mask>)>,
}

/// Segment, first position and window: what a mask depends on within a pass.
type MaskKey = (usize, usize, Option<usize>);

impl Masks {
    fn get(
        &mut self,
        segment: usize,
        first_position: usize,
        window: Option<usize>,
        make: impl FnOnce() -> Option<Mask>,
    ) -> Option<Mask> {
        let key = (segment, first_position, window);
        if let Some((_, mask)) = self.made.iter().find(|(known, _)| *known == key) {
            return mask.clone();
        }
        let mask = make();
        self.made.push((key, mask.clone()));
        mask
    }
}

impl CausalLm for Decoder {
    fn vocab_size(&self) -> usize {
        self.embedding.vocab_size()
    }

    fn cache_layout(&self) -> &[SlotLayout] {
        &self.cache_layout
    }

    fn cache_dtype(&self) -> DType {
        self.dtype
    }

    fn device(&self) -> &Device {
        &self.device
    }

    fn rotary(&self, run_len: usize) -> Rotary {
        Rotary::new(&self.ropes, run_len, self.dtype, &self.device)
    }

    fn forward(&self, segments: &mut [Segment<'_>], taps: &[Tap]) -> Result<Hidden> {
        let tokens: Vec<u32> = segments.iter().flat_map(|segment| segment.tokens).copied().collect();
        let mut x = self.embed(&tokens)?;
        let pass = Pass::new(segments)?;
        for (segment, (_, rows)) in segments.iter_mut().zip(&pass.spans) {
            segment.cache.stage(*rows);
        }
        let mut tapped: Vec<Option<Tensor>> = vec![None; taps.len()];
        let mut offer = |here: Tap, state: &Tensor| {
            for (slot, _) in tapped.iter_mut().zip(taps).filter(|(_, tap)| **tap == here) {
                *slot = Some(state.clone());
            }
        };
        offer(Tap::Embedding, &x);
        let mut masks = Masks::default();
        for index in 0..self.layers.len() {
            x = self.run_layer(index, &x, segments, &pass, &mut masks)?;
            offer(Tap::Layer(index), &x);
        }
        let last = self.norm.forward(&x)?;
        offer(Tap::Final, &last);
        let taps =
            tapped.into_iter().map(|tap| tap.expect("a drafter taps only layers that exist")).collect();
        Ok(Hidden { last, taps })
    }

    fn logits(&self, hidden: &Tensor) -> Result<Tensor> {
        let logits = self.head.forward(hidden)?.to_dtype(DType::F32)?;
        Ok(match self.logit_softcap {
            Some(cap) => ((logits / cap)?.tanh()? * cap)?,
            None => logits,
        })
    }

    fn embed(&self, tokens: &[u32]) -> Result<Tensor> {
        let vocab_size = self.vocab_size();
        if let Some(id) = tokens.iter().copied().find(|id| *id as usize >= vocab_size) {
            return Err(Error::TokenOutOfRange { id, vocab_size });
        }
        Ok(self.embedding.forward(tokens, &self.device)?.to_dtype(self.dtype)?)
    }
}
