//! A tree in one pass gives what each of its paths gives in its own pass, and sequences that share a
//! pass do not see each other.

use candle_core::Tensor;
use specdec::model::{CausalLm, Rotary, Segment, Session, chain};

use crate::support::toy::Toy;
use crate::support::{Choices, fixtures};

const VOCAB: usize = 40;

/// Every model the tree and the segments are tried on, with the tolerance of its hidden states.
fn models() -> Vec<(String, Box<dyn CausalLm>, f32)> {
    let toys = Toy::layouts().into_iter().map(|layout| {
        let name = format!("toy {layout:?}");
        (name, Box::new(Toy::new(21, VOCAB, &layout)) as Box<dyn CausalLm>, 0.0)
    });
    let tiny = ["llama_gqa", "mistral_sliding", "gemma3_text", "qwen2_windows"].map(|name| {
        let model = super::models::load(&fixtures("models").join(name));
        (name.to_owned(), Box::new(model) as Box<dyn CausalLm>, 2e-4)
    });
    toys.chain(tiny).collect()
}

fn rows(hidden: &Tensor) -> Vec<Vec<f32>> {
    hidden.to_vec2().unwrap()
}

fn assert_close(found: &[f32], expected: &[f32], tolerance: f32, case: &str) {
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() <= tolerance * (1.0 + b.abs()), "{case}: {a} against {b}");
    }
}

fn random_tree(choices: &mut Choices, rows: usize) -> Vec<Option<usize>> {
    (0..rows).map(|row| if row == 0 { None } else { Some(choices.below(row)) }).collect()
}

fn path_to(parents: &[Option<usize>], row: usize) -> Vec<usize> {
    let mut path = vec![row];
    while let Some(parent) = parents[path[path.len() - 1]] {
        path.push(parent);
    }
    path.reverse();
    path
}

#[test]
fn a_tree_in_one_pass_is_each_path_alone() {
    for (name, model, tolerance) in models() {
        let mut choices = Choices::new(17);
        for case in 0..6 {
            let committed: Vec<u32> = (0..3 + 7 * case).map(|_| choices.below(VOCAB) as u32).collect();
            let block: Vec<u32> = (0..7).map(|_| choices.below(VOCAB) as u32).collect();
            let parents = random_tree(&mut choices, block.len());
            let mut session = Session::new(model.as_ref(), 100, 8);
            session.extend(&committed, &[]).unwrap();
            let tree = session.stage(&block, &parents, &[]).unwrap();
            let in_tree = rows(&tree.hidden().last);
            drop(tree);
            for (row, found) in in_tree.iter().enumerate() {
                let path = path_to(&parents, row);
                let tokens: Vec<u32> = path.iter().map(|row| block[*row]).collect();
                let alone = session.stage(&tokens, &chain(tokens.len()), &[]).unwrap();
                let alone = rows(&alone.hidden().last);
                assert_close(
                    found,
                    &alone[alone.len() - 1],
                    tolerance,
                    &format!("{name}, row {row} of {parents:?}"),
                );
            }
        }
    }
}

#[test]
fn a_committed_path_leaves_the_cache_as_if_it_had_been_read_alone() {
    for (name, model, tolerance) in models() {
        let mut choices = Choices::new(23);
        for _ in 0..6 {
            let committed: Vec<u32> = (0..9).map(|_| choices.below(VOCAB) as u32).collect();
            let block: Vec<u32> = (0..7).map(|_| choices.below(VOCAB) as u32).collect();
            let parents = random_tree(&mut choices, block.len());
            let path = path_to(&parents, choices.below(block.len()));
            let mut session = Session::new(model.as_ref(), 100, 8);
            session.extend(&committed, &[]).unwrap();
            session.stage(&block, &parents, &[]).unwrap().commit(&path).unwrap();
            let after = rows(&session.extend(&[7, 8, 9], &[]).unwrap().last);

            let kept: Vec<u32> = path.iter().map(|row| block[*row]).collect();
            let mut alone = Session::new(model.as_ref(), 100, 8);
            alone.extend(&[committed, kept].concat(), &[]).unwrap();
            let expected = rows(&alone.extend(&[7, 8, 9], &[]).unwrap().last);
            for (found, expected) in after.iter().zip(&expected) {
                assert_close(found, expected, tolerance, &format!("{name}, {path:?} of {parents:?}"));
            }
        }
    }
}

#[test]
fn sequences_that_share_a_pass_do_not_see_each_other() {
    for (name, model, tolerance) in models() {
        let texts: [&[u32]; 3] = [&[1, 2, 3, 4, 5, 6, 7, 8, 9], &[11, 12], &[21, 22, 23, 24]];
        let rotary: Rotary = model.rotary(50);
        let layout = model.cache_layout();
        let mut caches: Vec<_> = texts
            .iter()
            .map(|_| specdec::cache::KvCache::new(layout, 4, model.cache_dtype(), model.device()))
            .collect();
        // Read different lengths first, then a block of each together.
        for (cache, text) in caches.iter_mut().zip(texts) {
            let tokens = &text[..text.len() / 2];
            let parents = chain(tokens.len());
            let segment = Segment { tokens, parents: &parents, cache: &mut *cache, rotary: &rotary };
            model.forward(&mut [segment], &[]).unwrap();
            cache.commit(&(0..tokens.len()).collect::<Vec<_>>()).unwrap();
        }
        let parents: Vec<_> = texts.iter().map(|text| chain(text.len() - text.len() / 2)).collect();
        let mut segments: Vec<Segment<'_>> = caches
            .iter_mut()
            .zip(texts)
            .zip(&parents)
            .map(|((cache, text), parents)| Segment {
                tokens: &text[text.len() / 2..],
                parents,
                cache,
                rotary: &rotary,
            })
            .collect();
        let together = rows(&model.forward(&mut segments, &[]).unwrap().last);
        let mut row = 0;
        for text in texts {
            let mut alone = Session::new(model.as_ref(), 50, 4);
            alone.extend(&text[..text.len() / 2], &[]).unwrap();
            for expected in rows(&alone.extend(&text[text.len() / 2..], &[]).unwrap().last) {
                assert_close(&together[row], &expected, tolerance, &name);
                row += 1;
            }
        }
    }
}

#[test]
fn a_dropped_block_leaves_no_trace() {
    for (name, model, tolerance) in models() {
        let mut session = Session::new(model.as_ref(), 60, 8);
        let mut clean = Session::new(model.as_ref(), 60, 8);
        for start in [0u32, 10, 20] {
            session.stage(&[30, 31, 32, 33], &chain(4), &[]).unwrap();
            assert!(
                session.stage(&[VOCAB as u32 + 1000], &chain(1), &[]).is_err(),
                "{name}: a bad id is refused"
            );
            let tokens: Vec<u32> = (start..start + 10).collect();
            let found = rows(&session.extend(&tokens, &[]).unwrap().last);
            let expected = rows(&clean.extend(&tokens, &[]).unwrap().last);
            for (found, expected) in found.iter().zip(&expected) {
                assert_close(found, expected, tolerance, &name);
            }
        }
    }
}
