//! Random stage, commit, discard and truncate against a plain list of tokens.

use candle_core::{DType, Device, Tensor};
use specdec::cache::{KvCache, Rollback, RowShape, SlotLayout, rollback};

use crate::support::Choices;

const WINDOW: usize = 6;
const MARGIN: usize = 5;

fn shape(heads: usize, width: usize) -> RowShape {
    RowShape { heads, width }
}

/// A whole slot, a windowed one with other widths (as a latent has), one that is empty, and a state.
fn layout() -> Vec<SlotLayout> {
    vec![
        SlotLayout::Rows { keys: shape(2, 3), values: shape(2, 2), window: None },
        SlotLayout::Rows { keys: shape(1, 4), values: shape(1, 1), window: Some(WINDOW) },
        SlotLayout::Empty,
        SlotLayout::State,
    ]
}

/// Rows whose every element names the token, the head and the place.
fn stream(tokens: &[u32], shape: RowShape) -> Tensor {
    let mut values = Vec::new();
    for head in 0..shape.heads {
        for token in tokens {
            values.extend(
                (0..shape.width).map(|place| (*token * 100 + head as u32 * 10) as f32 + place as f32),
            );
        }
    }
    Tensor::from_vec(values, (shape.heads, tokens.len(), shape.width), &Device::Cpu).unwrap()
}

struct Model {
    cache: KvCache,
    tokens: Vec<u32>,
}

impl Model {
    fn new() -> Self {
        let cache = KvCache::new(&layout(), MARGIN, DType::F32, &Device::Cpu);
        Self { cache, tokens: Vec::new() }
    }

    /// Stages a block and checks everything every layer then sees.
    fn stage(&mut self, block: &[u32]) {
        self.cache.stage(block.len());
        let all = [self.tokens.as_slice(), block].concat();
        for (layer, slot) in layout().iter().enumerate() {
            match slot {
                SlotLayout::Rows { keys, values, window } => {
                    let visible =
                        self.cache.append(layer, &stream(block, *keys), &stream(block, *values)).unwrap();
                    let first = visible.first_position;
                    match window {
                        None => assert_eq!(first, 0),
                        Some(window) => assert!(first <= (self.tokens.len() + 1).saturating_sub(*window)),
                    }
                    for (kept, shape) in [(&visible.keys, keys), (&visible.values, values)] {
                        let expected = stream(&all[first..], *shape);
                        assert_eq!(kept.dims(), expected.dims());
                        let difference = (kept.contiguous().unwrap() - expected).unwrap().abs().unwrap();
                        assert_eq!(difference.sum_all().unwrap().to_scalar::<f32>().unwrap(), 0.0);
                    }
                }
                SlotLayout::State => {
                    let state = self.cache.state(layer);
                    let seen: Vec<u32> = state.iter().flat_map(|t| t.to_vec1::<u32>().unwrap()).collect();
                    assert_eq!(seen, self.tokens.last().copied().into_iter().collect::<Vec<_>>());
                    let states =
                        block.iter().map(|token| vec![Tensor::new(&[*token], &Device::Cpu).unwrap()]);
                    self.cache.append_states(layer, states.collect());
                }
                SlotLayout::Empty => {}
            }
        }
    }
}

#[test]
fn random_operations_agree_with_a_list() {
    for seed in 0..40 {
        let mut choices = Choices::new(seed);
        let mut model = Model::new();
        let mut next = 0u32;
        for _ in 0..150 {
            let long = choices.below(12) == 0;
            let len = 1 + choices.below(if long { 90 } else { MARGIN + 1 });
            let block: Vec<u32> = (0..len)
                .map(|_| {
                    next += 1;
                    next % 1000
                })
                .collect();
            model.stage(&block);
            match choices.below(4) {
                0 => model.cache.discard(),
                1 => {
                    let kept = choices.below(len + 1);
                    model.cache.commit(&(0..kept).collect::<Vec<_>>()).unwrap();
                    model.tokens.extend(&block[..kept]);
                }
                _ => {
                    let kept: Vec<usize> = (0..len).filter(|_| choices.below(2) == 0).collect();
                    model.cache.commit(&kept).unwrap();
                    model.tokens.extend(kept.iter().map(|row| block[*row]));
                }
            }
            assert_eq!((model.cache.len(), model.cache.staged()), (model.tokens.len(), 0));
        }
    }
}

#[test]
fn truncate_reaches_back_by_the_margin_and_then_says_no() {
    let mut refused = 0;
    let windowed = [SlotLayout::Rows { keys: shape(1, 1), values: shape(1, 1), window: Some(WINDOW) }];
    for seed in 0..40 {
        let mut choices = Choices::new(seed);
        let mut cache = KvCache::new(&windowed, MARGIN, DType::F32, &Device::Cpu);
        let mut tokens: Vec<u32> = Vec::new();
        let mut next = 0u32;
        for _ in 0..120 {
            // Rounds of a drafter: a few rows, then back by no more than the margin below the longest.
            let len = 1 + choices.below(MARGIN);
            let block: Vec<u32> = (0..len)
                .map(|_| {
                    next += 1;
                    next % 1000
                })
                .collect();
            cache.stage(len);
            let rows = stream(&block, shape(1, 1));
            let visible = cache.append(0, &rows, &rows).unwrap();
            let kept: Vec<f32> = visible.keys.flatten_all().unwrap().to_vec1().unwrap();
            let all = [tokens.as_slice(), &block].concat();
            let expected: Vec<f32> = all[visible.first_position..].iter().map(|t| (t * 100) as f32).collect();
            assert_eq!(kept, expected);
            cache.commit(&(0..len).collect::<Vec<_>>()).unwrap();
            tokens = all;
            let back = choices.below(len + 1);
            cache.truncate(tokens.len() - back).unwrap();
            tokens.truncate(tokens.len() - back);
        }
        if tokens.len() > 4 * (WINDOW + MARGIN) {
            refused += 1;
            let len = cache.len();
            assert!(cache.truncate(1).is_err());
            assert_eq!(cache.len(), len, "a refused truncate changes nothing");
        }
    }
    assert!(refused > 20, "the refusal was tried {refused} times");
}

#[test]
fn a_recurrent_slot_goes_back_only_by_dropping_staged_rows() {
    let mut cache = KvCache::new(&[SlotLayout::State], 0, DType::F32, &Device::Cpu);
    let state = |token: u32| vec![Tensor::new(&[token], &Device::Cpu).unwrap()];
    cache.stage(3);
    cache.append_states(0, vec![state(1), state(2), state(3)]);
    cache.commit(&[0, 1]).unwrap();
    assert_eq!(cache.state(0)[0].to_vec1::<u32>().unwrap(), [2]);
    assert!(cache.truncate(1).is_err());
    cache.truncate(0).unwrap();
    assert!(cache.state(0).is_empty());
}

#[test]
fn layouts_say_how_far_they_go_back() {
    let (all, recurrent) = (layout(), SlotLayout::State);
    assert_eq!(rollback(&all[..1], 3), Rollback::Any);
    assert_eq!(rollback(&all[..3], 3), Rollback::Margin(3));
    assert_eq!(rollback(&all, 3), Rollback::StagedOnly);
    assert_eq!(rollback(&[recurrent, all[1]], 3), Rollback::StagedOnly);
}
