//! What a tokenizer's ids mean, in sixteen bytes per token.
//!
//! Enough to compare two vocabularies and to name a few differences, without building a tokenizer and
//! without holding its file: entries are hashed while they are read, and a second reading spells those
//! that are asked for. The rule is that of `tokenizer::compare`: ids that both have must be spelled alike.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de::DeserializeSeed};

use super::bounded::Bounded;
use crate::error::{Error, Result};
use crate::gguf::GgufSkim;

/// Largest `tokenizer.json` that is read, in bytes. The largest in use have 35 million.
const MAX_FILE_BYTES: u64 = 128 << 20;
/// Most tokens that are believed.
const MAX_TOKENS: usize = 1 << 20;
/// How many differing ids are named.
const NUM_EXAMPLES: usize = 5;

/// What every id stands for.
#[derive(Debug, Clone)]
pub struct Vocabulary {
    path: PathBuf,
    /// Id and hash of its spelling, by id.
    entries: Vec<(u32, u64)>,
}

/// What two vocabularies do not share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Ids that both have and that mean different tokens.
    pub num_different: usize,
    /// Ids that both have.
    pub num_shared: usize,
    /// The lowest differing ones: id, our token, theirs.
    pub examples: Vec<(u32, String, String)>,
}

/// Receives id and spelling of one token after another.
type OnToken<'a> = &'a mut dyn FnMut(u32, &[u8]);

/// GGUF writes the spaces of added tokens as they are where `tokenizer.json` has U+2581.
fn hash(token: &[u8]) -> u64 {
    fnv(String::from_utf8_lossy(token).replace('\u{2581}', " ").bytes())
}

/// FNV-1a: the same on every machine and in every version, as a fingerprint must be.
fn fnv(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

impl Vocabulary {
    /// Reads the vocabulary of a `tokenizer.json` or a GGUF file; none when the file is not there or a
    /// GGUF file has no vocabulary.
    ///
    /// # Errors
    /// `Malformed` when it is not what its name says, `Io` when it cannot be read.
    pub fn read(path: &Path) -> Result<Option<Self>> {
        if !path.is_file() {
            return Ok(None);
        }
        let mut entries = Vec::new();
        read_tokens(path, &mut |id, token| {
            if entries.len() < MAX_TOKENS {
                entries.push((id, hash(token)));
            }
        })?;
        if entries.is_empty() {
            return Ok(None);
        }
        entries.sort_unstable();
        entries.dedup_by_key(|entry| entry.0);
        Ok(Some(Self { path: path.to_owned(), entries }))
    }

    /// Highest id + 1, added tokens included, padding of the embedding not.
    pub fn num_tokens(&self) -> u64 {
        self.entries.last().map_or(0, |&(id, _)| u64::from(id) + 1)
    }

    /// A short text that equal vocabularies share.
    pub fn fingerprint(&self) -> String {
        let bytes =
            self.entries.iter().flat_map(|(id, hash)| id.to_le_bytes().into_iter().chain(hash.to_le_bytes()));
        let sum = fnv(bytes);
        format!("{sum:016x}")
    }

    /// Compares the spelling of the ids that both have.
    ///
    /// # Errors
    /// As [`Self::read`], when the files have changed meanwhile.
    pub fn difference(&self, other: &Self) -> Result<Difference> {
        let theirs: BTreeMap<u32, u64> = other.entries.iter().copied().collect();
        let mut num_shared = 0;
        let mut different = Vec::new();
        let mut num_different = 0;
        for (id, ours) in &self.entries {
            let Some(theirs) = theirs.get(id) else { continue };
            num_shared += 1;
            if ours != theirs {
                num_different += 1;
                if different.len() < NUM_EXAMPLES {
                    different.push(*id);
                }
            }
        }
        let (ours, theirs) = (self.spell(&different)?, other.spell(&different)?);
        let spelling = |of: &BTreeMap<u32, String>, id: u32| of.get(&id).cloned().unwrap_or_default();
        let examples = different.iter().map(|&id| (id, spelling(&ours, id), spelling(&theirs, id))).collect();
        Ok(Difference { num_different, num_shared, examples })
    }

    fn spell(&self, ids: &[u32]) -> Result<BTreeMap<u32, String>> {
        let mut spelled = BTreeMap::new();
        if !ids.is_empty() {
            read_tokens(&self.path, &mut |id, token| {
                if ids.contains(&id) {
                    spelled.insert(id, String::from_utf8_lossy(token).into_owned());
                }
            })?;
        }
        Ok(spelled)
    }
}

fn read_tokens(path: &Path, on_token: OnToken<'_>) -> Result<()> {
    let mut file = File::open(path).map_err(Error::io("open", path))?;
    let len = file.metadata().map_err(Error::io("read", path))?.len();
    let malformed = |problem: String| Error::Malformed { path: path.to_owned(), problem };
    if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf")) {
        GgufSkim::read_with(BufReader::new(&mut file), Some(len), path, on_token)?;
        return Ok(());
    }
    if len > MAX_FILE_BYTES {
        return Err(malformed(format!("{len} bytes are too large for a tokenizer")));
    }
    let reader = BufReader::with_capacity(1 << 16, Bounded::new(file.take(MAX_FILE_BYTES)));
    let mut deserializer = serde_json::Deserializer::from_reader(reader);
    Document(on_token)
        .deserialize(&mut deserializer)
        .map_err(|error| malformed(format!("it is not a tokenizer: {error}")))
}

/// The parts of `tokenizer.json` that name tokens.
struct Document<'a>(OnToken<'a>);

/// `model`, which holds the vocabulary.
struct Model<'a>(OnToken<'a>);

/// A map from token to id, or a list whose entries begin with the token.
struct Tokens<'a>(OnToken<'a>);

/// One token that was added beside the vocabulary.
#[derive(Deserialize)]
struct Added {
    id: u32,
    content: String,
}

/// The list of tokens beside the vocabulary.
struct AddedTokens<'a>(OnToken<'a>);

impl<'de> DeserializeSeed<'de> for AddedTokens<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for AddedTokens<'_> {
    type Value = ();
    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of tokens, or null")
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(Added { id, content }) = list.next_element()? {
            (self.0)(id, content.as_bytes());
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Document<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Document<'_> {
    type Value = ();
    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        // Added tokens may repeat or rename an entry of the vocabulary, and they win.
        let on_token = self.0;
        let mut hidden = BTreeSet::new();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "added_tokens" => map.next_value_seed(AddedTokens(&mut |id, token| {
                    if hidden.len() < MAX_TOKENS {
                        on_token(id, token);
                        hidden.insert(id);
                    }
                }))?,
                "model" => map.next_value_seed(Model(&mut |id, token| {
                    if !hidden.contains(&id) {
                        on_token(id, token);
                    }
                }))?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Model<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Model<'_> {
    type Value = ();
    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a tokenizer's model")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let on_token = self.0;
        while let Some(key) = map.next_key::<String>()? {
            if key == "vocab" {
                map.next_value_seed(Tokens(&mut *on_token))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Tokens<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tokens<'_> {
    type Value = ();
    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("tokens with ids, or a list of tokens with scores")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some((token, id)) = map.next_entry::<String, u32>()? {
            (self.0)(id, token.as_bytes());
        }
        Ok(())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let mut id = 0u32;
        while let Some((token, _score)) = list.next_element::<(String, IgnoredAny)>()? {
            (self.0)(id, token.as_bytes());
            id = id.saturating_add(1);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vocabulary(name: &str, text: &str) -> Vocabulary {
        let path =
            std::env::temp_dir().join(format!("specdec-vocabulary-{name}-{}.json", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Vocabulary::read(&path).unwrap().unwrap()
    }

    #[test]
    fn shared_ids_are_compared_by_spelling() {
        let ours = vocabulary(
            "ours",
            r#"{"version": "1.0", "added_tokens": [{"id": 3, "content": "<s>", "special": true}],
                "model": {"type": "BPE", "vocab": {"a": 0, "\u2581b": 1, "c": 2, "x": 3}, "merges": [["a", "c"]]}}"#,
        );
        let theirs = vocabulary("theirs", r#"{"model": {"vocab": [["a", 0.0], [" b", -1.5], ["d", -2]]}}"#);
        assert_eq!((ours.num_tokens(), theirs.num_tokens()), (4, 3));
        let difference = ours.difference(&theirs).unwrap();
        assert_eq!((difference.num_shared, difference.num_different), (3, 1));
        assert_eq!(difference.examples, [(2, "c".to_owned(), "d".to_owned())]);
        assert_ne!(ours.fingerprint(), theirs.fingerprint());
        for path in [&ours.path, &theirs.path] {
            std::fs::remove_file(path).unwrap();
        }
    }

    #[test]
    fn an_added_token_beats_the_vocabulary() {
        let one = vocabulary(
            "one",
            r#"{"added_tokens": [{"id": 0, "content": "A"}], "model": {"vocab": {"B": 0}}}"#,
        );
        let two = vocabulary("two", r#"{"model": {"vocab": {"A": 0}}}"#);
        assert_eq!(one.difference(&two).unwrap().num_different, 0);
        assert_eq!(one.fingerprint(), two.fingerprint());
        for path in [&one.path, &two.path] {
            std::fs::remove_file(path).unwrap();
        }
    }
}
