//! What the names in `tokenizer.ggml.pre` mean: how text is cut before byte-level merging.
//!
//! A GGUF file names its rule instead of spelling it. The names are those of llama.cpp, the patterns
//! those of the families' own `tokenizer.json`. Each pattern cuts what the one before left, and what a
//! pattern does not match stays as a piece of its own.

use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::tokenizer::SplitDelimiterBehavior;

/// A rule and the names it goes by.
pub(super) struct PreTokenizer {
    /// Values of `tokenizer.ggml.pre`.
    pub names: &'static [&'static str],
    splits: &'static [&'static str],
    /// A piece that is an entry is taken whole, even where merges would not lead there.
    pub ignore_merges: bool,
    /// Whether BOS is added where the file does not say.
    pub adds_bos: bool,
}

/// English endings after an apostrophe, in any case.
macro_rules! endings {
    () => {
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
    };
}
/// Everything that is neither letter nor number, and white space, as most families after GPT-2 cut it.
macro_rules! symbols_and_space {
    () => {
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    };
}
/// As `symbols_and_space`, with slashes kept at the end of a run of symbols.
macro_rules! symbols_slash_and_space {
    () => {
        r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    };
}
/// Words in which a capital begins a new piece; `$tail` follows each.
macro_rules! cased_words {
    ($tail:expr) => {
        concat!(
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
            $tail,
            r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
            $tail
        )
    };
}

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const LLAMA3: &str = concat!(endings!(), r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}", symbols_and_space!());
const QWEN2: &str = concat!(endings!(), r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}", symbols_and_space!());
const QWEN35: &str = concat!(
    endings!(),
    r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}",
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
const SEED_CODER: &str =
    concat!(endings!(), r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+");
const BAILING: &str = concat!(
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
);
const EXAONE_MOE: &str = concat!(
    endings!(),
    r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"
);
const TEKKEN: &str = concat!(cased_words!(""), r"|\p{N}", symbols_slash_and_space!());
const GPT4O: &str =
    concat!(cased_words!("(?i:'s|'t|'re|'ve|'m|'ll|'d)?"), r"|\p{N}{1,3}", symbols_slash_and_space!());
const KIMI: &str = concat!(
    r"\p{Han}+",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+",
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*",
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}{1,3}",
    symbols_and_space!()
);
/// DeepSeek-V3 keeps a letter run with the ASCII symbol before it, and marks with letters.
const DEEPSEEK3: &str = concat!(
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"##,
    r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
const CJK_AND_KANA: &str = "[一-龥぀-ゟ゠-ヿ]+";
/// As in DeepSeek's files: from the Samaritan letters to the first ideograph, too.
const CJK_AND_MORE: &str = r"[一-龥\x{0800}-一가-\x{D7FF}]+";
/// Letters that have a case, as Unicode 10 knew them: without Georgian.
const CASED_LETTERS: &str = r"\s?[\p{Lu}\p{Ll}\p{Lt}&&[^\x{10D0}-\x{10FF}]]+";
const WIDE_PUNCTUATION: &str = r"\s?[!-/:-~！-／：-～‘-‟\x{3000}-。]+";
const BLOOM: &str = r" ?[^(\s|.,!?…。，、।۔،)]+";
const DIGIT: &str = r"\p{N}";

/// Every name that a file can use.
pub(super) const PRE_TOKENIZERS: &[PreTokenizer] = &[
    PreTokenizer {
        names: &["default"],
        splits: &[r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"],
        ignore_merges: false,
        adds_bos: false,
    },
    PreTokenizer {
        names: &["llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"],
        splits: &[LLAMA3],
        ignore_merges: true,
        adds_bos: true,
    },
    cut(&["dbrx", "smaug-bpe", "chatglm-bpe", "glm4"], &[LLAMA3]),
    PreTokenizer {
        names: &["minicpm5"],
        splits: &[
            r"\p{N}{1,3}",
            concat!(endings!(), r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+", symbols_and_space!()),
        ],
        ignore_merges: true,
        adds_bos: false,
    },
    cut(
        &[
            "qwen2",
            "deepseek-r1-qwen",
            "stablelm2",
            "megrez",
            "hunyuan",
            "solar-open",
            "grok-2",
            "kormo",
            "f2llmv2",
        ],
        &[QWEN2],
    ),
    cut(&["qwen35"], &[QWEN35]),
    cut(&["seed-coder"], &[SEED_CODER]),
    cut(&["bailingmoe", "bailingmoe2", "llada-moe"], &[BAILING]),
    cut(&["exaone-moe"], &[EXAONE_MOE]),
    cut(
        &[
            "gpt-2",
            "phi-2",
            "mpt",
            "olmo",
            "jais",
            "trillion",
            "granite-docling",
            "gigachat",
            "a.x-4.0",
            "mellum",
            "exaone4",
            "modern-bert",
        ],
        &[GPT2],
    ),
    cut(
        &["smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"],
        &[DIGIT, GPT2],
    ),
    cut(&["deepseek-llm"], &["[\r\n]", CASED_LETTERS, WIDE_PUNCTUATION, r"\s+$", CJK_AND_MORE, r"\p{N}+"]),
    cut(&["deepseek-coder"], &["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", CJK_AND_MORE, DIGIT]),
    cut(&["deepseek-v3", "hunyuan-dense", "joyai-llm"], &[r"\p{N}{1,3}", CJK_AND_KANA, DEEPSEEK3]),
    cut(&["falcon"], &[r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"]),
    cut(&["poro-chat", "bloom", "gpt3-finnish"], &[BLOOM]),
    cut(&["viking"], &[BLOOM, DIGIT]),
    PreTokenizer { names: &["tekken"], splits: &[TEKKEN], ignore_merges: true, adds_bos: true },
    cut(&["gpt-4o", "llama4", "kanana2", "minimax-m2"], &[GPT4O]),
    cut(&["tiny_aya", "cohere2moe"], &[r"\d{1,3}(?=(?:\d{3})*\b)", GPT4O]),
    cut(&["kimi-k2"], &[KIMI]),
];

/// A rule that only cuts.
const fn cut(names: &'static [&'static str], splits: &'static [&'static str]) -> PreTokenizer {
    PreTokenizer { names, splits, ignore_merges: false, adds_bos: false }
}

impl PreTokenizer {
    /// The rule of that name.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        PRE_TOKENIZERS.iter().find(|rule| rule.names.contains(&name))
    }

    /// The cuts, then the spelling of bytes as characters.
    ///
    /// # Errors
    /// When a pattern of the table is not one: a mistake in this file.
    pub(super) fn build(&self) -> tokenizers::Result<Sequence> {
        let mut steps: Vec<PreTokenizerWrapper> = Vec::new();
        for pattern in self.splits {
            let pattern = SplitPattern::Regex((*pattern).to_owned());
            steps.push(Split::new(pattern, SplitDelimiterBehavior::Isolated, false)?.into());
        }
        steps.push(ByteLevel::new(false, true, false).into());
        Ok(Sequence::new(steps))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokenizers::{OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer as _};

    fn pieces(name: &str, text: &str) -> Vec<String> {
        let mut text = PreTokenizedString::from(text);
        PreTokenizer::named(name).unwrap().build().unwrap().pre_tokenize(&mut text).unwrap();
        let splits = text.get_splits(OffsetReferential::Original, OffsetType::Byte);
        splits.into_iter().map(|(piece, _, _)| piece.replace('Ġ', "_").replace('Ċ', "/")).collect()
    }

    #[test]
    fn names_are_unique_and_patterns_compile() {
        let mut names: Vec<&str> = PRE_TOKENIZERS.iter().flat_map(|rule| rule.names).copied().collect();
        names.sort_unstable();
        let num_names = names.len();
        names.dedup();
        assert_eq!(names.len(), num_names);
        assert!(PRE_TOKENIZERS.iter().all(|rule| rule.build().is_ok()));
    }

    #[test]
    fn numbers_tell_the_families_apart() {
        let text = "It's 12345\n  x";
        assert_eq!(pieces("gpt-2", text), ["It", "'s", "_12345", "/_", "_x"]);
        assert_eq!(pieces("smollm", text), ["It", "'s", "_", "1", "2", "3", "4", "5", "/_", "_x"]);
        assert_eq!(pieces("llama-bpe", text), ["It", "'s", "_", "123", "45", "/", "_", "_x"]);
        assert_eq!(pieces("qwen2", text), ["It", "'s", "_", "1", "2", "3", "4", "5", "/", "_", "_x"]);
        assert_eq!(pieces("deepseek-v3", text), ["It", "'s", "_", "123", "45", "/", "_", "_x"]);
        assert_eq!(pieces("default", text), ["It", "'", "s", "_", "123", "45", "/_", "_x"]);
    }

    #[test]
    fn capitals_begin_a_piece_where_the_family_says_so() {
        assert_eq!(pieces("tekken", "camelCase's 12"), ["camel", "Case", "'s", "_", "1", "2"]);
        assert_eq!(pieces("gpt-4o", "camelCase's 1234"), ["camel", "Case's", "_", "123", "4"]);
        assert_eq!(pieces("llama-bpe", "camelCase's"), ["camelCase", "'s"]);
    }
}
