//! Local text generation, plain or speculative: a cheap *drafter* proposes tokens, the *target* checks
//! them in one pass, an *acceptance rule* keeps a prefix. The text stays the target's own.
//!
//! # One round, from prompt to report
//!
//! `checkpoint` opens files, `config` says what they describe, `model::load` builds the network, and a
//! `model::Session` pairs it with its `cache`. `decode::generate` then runs rounds. The last emitted
//! token is the *anchor*: known, but not yet read.
//!
//! ```text
//! committed: The quick brown     anchor: fox     draft: jumps - over - a
//! stage      rows 0..3 = fox jumps over a        logits: jumps  over  the  ...
//! verify     jumps = jumps, over = over, a != the   path: 2 nodes, next: "the" (correction)
//! commit     rows 0,1,2                          committed: The quick brown fox jumps over
//! emit       jumps over the                      anchor: the
//! ```
//!
//! A `speculation::drafter` made the draft, a rule of `speculation::acceptance` judged the rows that
//! `sampling` made into distributions, and each finished round goes to `speculation::schedule`, which
//! sets the length of the next draft. `report` derives every figure from the list of rounds.
//! Plain decoding is this round with an empty draft.
//!
//! # Shapes
//!
//! Written outermost first, in the model's type unless said otherwise: `rows` of a pass, `len` of a
//! cache, `hidden` width of a hidden state, `vocab` rows of the embedding, `heads` and `kv_heads`,
//! `head_dim`.
//!
//! A module uses its own layer and those below:
//!
//! ```text
//! cli, report, inspect -> decode -> speculation -> model, cache, checkpoint
//!     -> sampling, config, tokenizer, device -> gguf, error
//! ```

pub mod cache;
pub mod chat;
pub mod checkpoint;
pub mod cli;
pub mod config;
pub mod decode;
pub mod demo;
pub mod device;
pub mod error;
pub mod gguf;
pub mod inspect;
mod kernels;
pub mod model;
pub mod report;
pub mod sampling;
pub mod speculation;
pub mod tokenizer;
