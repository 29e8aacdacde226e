//! Any bytes as a configuration or a GGUF header, through everything `inspect-config` does with them.

#![no_main]

#[path = "../../support/hostile.rs"]
#[expect(dead_code, reason = "each target uses one of its checks")]
mod hostile;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile::inspect(bytes));
