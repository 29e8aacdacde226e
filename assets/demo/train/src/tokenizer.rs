//! The vocabulary both models share: byte-level BPE, so that every UTF-8 text has an encoding and
//! comes back unchanged, with the story words of the training text as whole tokens.

use std::path::Path;

use anyhow::{Result, anyhow, ensure};
use tokenizers::decoders::DecoderWrapper;
use tokenizers::models::bpe::{BPE, BpeTrainerBuilder};
use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::processors::PostProcessorWrapper;
use tokenizers::processors::template::TemplateProcessing;
use tokenizers::{AddedToken, Tokenizer, TokenizerBuilder};

/// Starts every text.
pub const BOS: &str = "<s>";
/// Ends every story.
pub const EOS: &str = "</s>";
/// Special tokens come first in the vocabulary.
pub const BOS_ID: u32 = 0;
pub const EOS_ID: u32 = 1;

/// Trains a vocabulary of `vocab_size` tokens on `stories`: 2 special, 256 bytes, the rest merges.
pub fn train(stories: &[String], vocab_size: usize) -> Result<Tokenizer> {
    let special = [BOS, EOS].map(|token| AddedToken::from(token, true));
    let mut trainer = BpeTrainerBuilder::new()
        .show_progress(false)
        .vocab_size(vocab_size)
        .special_tokens(special.to_vec())
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .build();
    let byte_level = ByteLevel::new(false, true, true);
    let template = TemplateProcessing::builder()
        .try_single(format!("{BOS} $A"))
        .map_err(|error| anyhow!(error))?
        .try_pair(format!("{BOS} $A {BOS}:1 $B:1"))
        .map_err(|error| anyhow!(error))?
        .special_tokens(vec![(BOS, BOS_ID)])
        .build()?;
    let mut tokenizer = TokenizerBuilder::<
        BPE,
        NormalizerWrapper,
        PreTokenizerWrapper,
        PostProcessorWrapper,
        DecoderWrapper,
    >::new()
    .with_model(BPE::default())
    .with_pre_tokenizer(Some(byte_level.into()))
    .with_post_processor(Some(template.into()))
    .with_decoder(Some(byte_level.into()))
    .build()
    .map_err(|error| anyhow!(error))?;
    tokenizer.train(&mut trainer, stories.iter()).map_err(|error| anyhow!(error))?;
    let json = serde_json::to_string(&tokenizer)?;
    let tokenizer: Tokenizer = json.parse().map_err(|error| anyhow!("{error}"))?;
    ensure!(tokenizer.token_to_id(BOS) == Some(BOS_ID));
    ensure!(tokenizer.token_to_id(EOS) == Some(EOS_ID));
    for text in ["Zoë said: \"naïve 東京 🦊\"\r\n\t{x}\u{7f}", "a  b   c"] {
        let ids = encode(&tokenizer, text)?;
        ensure!(decode(&tokenizer, &ids)? == text, "{text:?} changes");
    }
    Ok(tokenizer)
}

/// Writes `tokenizer.json` and `tokenizer_config.json`.
pub fn save(tokenizer: &Tokenizer, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let json = serde_json::to_string(tokenizer)?;
    std::fs::write(folder.join("tokenizer.json"), json)?;
    let config = serde_json::json!({
        "add_bos_token": true,
        "add_eos_token": false,
        "bos_token": BOS,
        "clean_up_tokenization_spaces": false,
        "eos_token": EOS,
        "model_max_length": 1024,
        "tokenizer_class": "PreTrainedTokenizerFast",
    });
    let config = serde_json::to_string_pretty(&config)?;
    std::fs::write(folder.join("tokenizer_config.json"), config + "\n")?;
    Ok(())
}

/// Reads `tokenizer.json` from `folder`.
pub fn load(folder: &Path) -> Result<Tokenizer> {
    Tokenizer::from_file(folder.join("tokenizer.json")).map_err(|error| anyhow!(error))
}

/// Token ids without BOS.
pub fn encode(tokenizer: &Tokenizer, text: &str) -> Result<Vec<u32>> {
    let encoding = tokenizer.encode(text, false).map_err(|error| anyhow!(error))?;
    Ok(encoding.get_ids().to_vec())
}

/// The text of `ids`, special tokens left out.
pub fn decode(tokenizer: &Tokenizer, ids: &[u32]) -> Result<String> {
    tokenizer.decode(ids, true).map_err(|error| anyhow!(error))
}
