//! The prompt's text on its way to the tokenizer, and whether special tokens are put around it.
//!
//! Invariant: never two BOS. Rendered text is complete: its special tokens stand in it as text and become
//! single ids, and encoding adds none, which is what `apply_chat_template` of `transformers` does and what
//! models were trained on. llama.cpp differs in one case: where the tokenizer asks for a BOS and the
//! template prints none, it adds one. Here the template has the last word, and
//! [`PromptText::lacks_bos`] lets the caller say so. Encoding itself is the tokenizer's.

/// Text to be encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PromptText {
    /// As the user typed it (`--raw`, or a model without a template).
    Raw(String),
    /// What a chat template made of a conversation.
    Rendered(String),
}

impl PromptText {
    /// The text itself.
    pub fn text(&self) -> &str {
        match self {
            Self::Raw(text) | Self::Rendered(text) => text,
        }
    }

    /// Whether encoding adds the tokenizer's special tokens. `bos` is the text of the token that the
    /// tokenizer would put first, if it would put one: raw text that begins with it already gets none.
    pub fn adds_special_tokens(&self, bos: Option<&str>) -> bool {
        matches!(self, Self::Raw(_)) && !self.begins_with(bos)
    }

    /// Whether the tokenizer would put a BOS first for raw text, but a template printed none. Worth a
    /// line to the user: some conversions lost it, and a few models (Gemma) talk nonsense without it.
    pub fn lacks_bos(&self, bos: Option<&str>) -> bool {
        matches!(self, Self::Rendered(_)) && bos.is_some_and(|bos| !bos.is_empty()) && !self.begins_with(bos)
    }

    fn begins_with(&self, bos: Option<&str>) -> bool {
        bos.is_some_and(|bos| !bos.is_empty() && self.text().starts_with(bos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_tokens_are_added_to_raw_text_that_has_no_bos() {
        let raw = |text: &str| PromptText::Raw(text.to_owned());
        let rendered = |text: &str| PromptText::Rendered(text.to_owned());
        for (text, bos, adds, lacks) in [
            (raw("Hi"), Some("<s>"), true, false),
            (raw("<s>Hi"), Some("<s>"), false, false),
            (raw("<s>Hi"), None, true, false),
            (raw("Hi"), Some(""), true, false),
            (rendered("<s>Hi"), Some("<s>"), false, false),
            (rendered("Hi"), Some("<s>"), false, true),
            (rendered("Hi"), None, false, false),
        ] {
            assert_eq!(text.adds_special_tokens(bos), adds, "{text:?} {bos:?}");
            assert_eq!(text.lacks_bos(bos), lacks, "{text:?} {bos:?}");
        }
    }
}
