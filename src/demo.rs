//! The demo target and drafter that are part of the program, so that it runs with nothing.
//!
//! They are made by the crate in `assets/demo/train`.

use crate::checkpoint::BuiltIn;

macro_rules! demo_files {
    ($name:literal, $folder:literal) => {
        BuiltIn {
            name: $name,
            config: include_bytes!(concat!("../assets/demo/", $folder, "/config.json")),
            generation_config: include_bytes!(concat!("../assets/demo/", $folder, "/generation_config.json")),
            tokenizer: include_bytes!(concat!("../assets/demo/", $folder, "/tokenizer.json")),
            tokenizer_config: include_bytes!(concat!("../assets/demo/", $folder, "/tokenizer_config.json")),
            weights: include_bytes!(concat!("../assets/demo/", $folder, "/model.safetensors")),
        }
    };
}

/// The target: a story teller of under 4 million parameters.
pub const TARGET: BuiltIn = demo_files!("demo target", "target");

/// Its drafter, a tenth of that.
pub const DRAFTER: BuiltIn = demo_files!("demo drafter", "drafter");

/// What the demo continues when no prompt is given.
pub const OPENING: &str = include_str!("../assets/demo/opening.txt");
