//! Any bytes as a GGUF header: both readers, which must agree.

#![no_main]

#[path = "../../support/hostile.rs"]
#[expect(dead_code, reason = "each target uses one of its checks")]
mod hostile;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile::gguf(bytes));
