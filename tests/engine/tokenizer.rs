//! Text to tokens and back: the reference cases where they are at hand, and small vocabularies that
//! run everywhere.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use specdec::error::{Error, ExitCode};
use specdec::gguf::{GgufHeader, GgufMetadata, GgufValue};
use specdec::tokenizer::{SpecialTokens, Tokenizer};

fn fixtures() -> Option<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/fixtures");
    dir.is_dir().then_some(dir)
}

fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| u32::try_from(id.as_u64().unwrap()).unwrap()).collect()
}

/// Pieces of a stream, the last one from `finish`.
fn streamed(tokenizer: &Tokenizer, ids: &[u32]) -> Vec<String> {
    let mut stream = tokenizer.stream();
    let mut pieces: Vec<String> = ids.iter().map(|&id| stream.push(id)).collect();
    pieces.push(stream.finish());
    assert_eq!(stream.finish(), "", "a second end has nothing left");
    pieces
}

fn assert_stream_equals_decode(tokenizer: &Tokenizer, ids: &[u32]) {
    let whole = tokenizer.decode(ids, SpecialTokens::Skip);
    assert_eq!(streamed(tokenizer, ids).concat(), whole, "{ids:?}");
}

/// `skip` names a text that this tokenizer is known to encode differently.
fn check_cases(tokenizer: &Tokenizer, dir: &Path, skip: Option<&str>) {
    let cases = read_json(&dir.join("cases.json"));
    for case in cases.as_array().unwrap() {
        let text = case["text"].as_str().unwrap();
        if skip.is_some_and(|skip| text.contains(skip)) {
            continue;
        }
        let with_special = ids(&case["ids_with_special"]);
        assert_eq!(tokenizer.encode_plain(text).unwrap(), ids(&case["ids"]), "{text:?}");
        assert_eq!(tokenizer.encode(text).unwrap(), with_special, "{text:?}");
        let decoded = |special| Value::from(tokenizer.decode(&with_special, special));
        assert_eq!(decoded(SpecialTokens::Keep), case["decoded"], "{text:?}");
        assert_eq!(decoded(SpecialTokens::Skip), case["decoded_skip_special"], "{text:?}");
        assert_stream_equals_decode(tokenizer, &with_special);
    }
}

fn check_streams(tokenizer: &Tokenizer, dir: &Path) {
    for case in read_json(&dir.join("streaming.json")).as_array().unwrap() {
        let note = &case["note"];
        let mut shown = String::new();
        let pieces = streamed(tokenizer, &ids(&case["ids"]));
        for (piece, most) in pieces.iter().zip(case["cumulative"].as_array().unwrap()) {
            shown.push_str(piece);
            let most = most.as_str().unwrap();
            assert!(most.starts_with(&shown), "{note}: {shown:?} is not the start of {most:?}");
        }
        assert_eq!(Value::from(pieces.concat()), case["final"], "{note}");
    }
}

#[test]
fn huggingface_files_give_the_reference_ids_and_text() {
    let Some(fixtures) = fixtures() else { return };
    for name in ["bytelevel_gpt2", "bytelevel_llama3", "sentencepiece_bpe"] {
        let dir = fixtures.join("tokenizers").join(name);
        let tokenizer = Tokenizer::from_dir(&dir).unwrap().unwrap();
        check_cases(&tokenizer, &dir, None);
        check_streams(&tokenizer, &dir);
        assert_eq!(
            (tokenizer.vocab_size(), tokenizer.bos_id(), tokenizer.eos_ids()),
            (320, Some(1), &[4][..])
        );
    }
}

#[test]
fn gguf_files_give_the_reference_ids_and_text() {
    let Some(fixtures) = fixtures() else { return };
    let mut num_files = 0;
    for entry in std::fs::read_dir(fixtures.join("gguf")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "gguf") {
            continue;
        }
        num_files += 1;
        let header = GgufHeader::parse(&std::fs::read(&path).unwrap(), &path).unwrap();
        let tokenizer = Tokenizer::from_gguf(&header, &path).unwrap().unwrap();
        let reference = read_json(&path.with_extension("reference.json"));
        let name = reference["tokenizer"].as_str().unwrap();
        let dir = fixtures.join("tokenizers").join(name);
        // GGUF has no step that composes accents.
        check_cases(&tokenizer, &dir, (name == "bytelevel_llama3").then_some("\u{301}"));
        check_streams(&tokenizer, &dir);
        assert!(tokenizer.eos_ids().contains(&4) && tokenizer.bos_id() == Some(1));
        let original = Tokenizer::from_dir(&dir).unwrap().unwrap();
        assert!(original.differences(&tokenizer).is_empty(), "{:?}", original.differences(&tokenizer));
        assert_eq!(original.vocab_size(), tokenizer.vocab_size());
    }
    assert!(num_files > 0);
}

/// Every sequence of up to four tokens of a hostile little alphabet, and long random ones.
#[test]
fn streams_equal_decoding_on_broken_text() {
    let tokenizers = [byte_level_json(true), sentencepiece_json(true), sentencepiece_json(false)];
    for tokenizer in &tokenizers {
        let size = u32::try_from(tokenizer.vocab_size()).unwrap() + 1;
        let mut state = 7u64;
        for round in 0..4000 {
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                u32::try_from(state >> 33).unwrap() % size
            };
            let sequence: Vec<u32> = (0..round % 40).map(|_| next()).collect();
            assert_stream_equals_decode(tokenizer, &sequence);
        }
    }
}

#[test]
fn a_stream_shows_whole_characters_as_soon_as_they_are_certain() {
    let tokenizer = byte_level_json(true);
    // 😀 byte by byte, then a letter, a lone continuation byte, a character cut short.
    let pieces = streamed(&tokenizer, &[3, 4, 5, 6, 0, 6, 0, 3, 4]);
    assert_eq!(pieces, ["", "", "", "😀", "a", "\u{FFFD}", "a", "", "", "\u{FFFD}"]);

    let tokenizer = sentencepiece_json(true);
    // The space at the very beginning goes, later ones stay; bytes wait for the end of their run.
    let pieces = streamed(&tokenizer, &[2, 2, 3, 5, 6, 3, 2, 5]);
    assert_eq!(pieces, ["", " ", "a", "", "", "éa", " ", "", "\u{FFFD}"]);
}

#[test]
fn a_long_text_costs_the_same_per_token_at_its_end() {
    for tokenizer in [byte_level_json(true), sentencepiece_json(true)] {
        let mut stream = tokenizer.stream();
        let started = std::time::Instant::now();
        let len: usize = (0..200_000).map(|_| stream.push(3).len()).sum();
        // Decoding all that was shown for each token would take minutes.
        assert!(started.elapsed().as_secs() < 20);
        assert!(len + stream.finish().len() >= 200_000);
    }
}

#[test]
fn settings_beside_tokenizer_json_are_read() {
    let config = json!({
        "bos_token": { "content": "<s>", "__type": "AddedToken" },
        "eos_token": "</s>",
    });
    let file = byte_level_file(true).to_string();
    let config = config.to_string();
    let tokenizer =
        Tokenizer::from_bytes(file.as_bytes(), Some(config.as_bytes()), Path::new("tokenizer.json")).unwrap();
    assert_eq!((tokenizer.bos_id(), tokenizer.eos_ids()), (Some(8), &[9][..]));
    assert_eq!(tokenizer.vocab_size(), 10);
    assert_eq!((tokenizer.token(7).as_deref(), tokenizer.token(10)), (Some("ab"), None));
    assert!(tokenizer.is_special(8) && !tokenizer.is_special(7));
    assert_eq!(tokenizer.encode("ab</s>a").unwrap(), [8, 7, 9, 0]);
    assert_eq!(tokenizer.encode_plain("ab</s>a").unwrap(), [7, 9, 0]);
    assert_eq!(tokenizer.decode(&[8, 7, 9], SpecialTokens::Keep), "<s>ab</s>");
    assert_eq!(tokenizer.decode(&[8, 7, 9, 77], SpecialTokens::Skip), "ab");
}

#[test]
fn folders_without_a_tokenizer_have_none() {
    assert!(Tokenizer::from_dir(Path::new("there/is/no/such/folder")).unwrap().is_none());
    assert!(Tokenizer::from_gguf(&header([]), Path::new("x.gguf")).unwrap().is_none());
}

#[test]
fn broken_files_are_errors() {
    let whole = byte_level_file(true).to_string();
    let path = Path::new("tokenizer.json");
    for len in 0..whole.len() {
        let error = Tokenizer::from_bytes(&whole.as_bytes()[..len], None, path).unwrap_err();
        assert!(matches!(error, Error::Malformed { .. }), "cut at {len}: {error}");
    }
    let mut long_merge = byte_level_file(true);
    long_merge["model"]["merges"] = json!([["a", "a".repeat(1000)]]);
    let mut unknown_merge = byte_level_file(true);
    unknown_merge["model"]["merges"] = json!(["a q"]);
    let mut no_merge = byte_level_file(true);
    no_merge["model"]["merges"] = json!(["ab"]);
    for file in [long_merge, unknown_merge, no_merge] {
        let error = Tokenizer::from_bytes(file.to_string().as_bytes(), None, path).unwrap_err();
        assert_eq!(error.exit_code(), ExitCode::Failure);
        assert!(error.to_string().contains("merge"), "{error}");
    }
}

#[test]
fn both_spellings_of_merges_mean_the_same() {
    let mut old = byte_level_file(true);
    old["model"]["merges"] = json!(["#version: 0.2", "a b"]);
    let old = Tokenizer::from_bytes(old.to_string().as_bytes(), None, Path::new("tokenizer.json")).unwrap();
    assert_eq!(old.encode_plain("aab").unwrap(), [0, 7]);
    assert_eq!(byte_level_json(true).encode_plain("aab").unwrap(), [0, 7]);
}

#[test]
fn cutting_and_filling_of_training_batches_is_off() {
    let mut file = byte_level_file(false);
    file["truncation"] =
        json!({ "direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0 });
    file["padding"] = json!({ "strategy": { "Fixed": 8 }, "direction": "Right", "pad_to_multiple_of": null,
        "pad_id": 0, "pad_type_id": 0, "pad_token": "a" });
    let file = file.to_string();
    let tokenizer = Tokenizer::from_bytes(file.as_bytes(), None, Path::new("tokenizer.json")).unwrap();
    assert_eq!(tokenizer.encode("aaa").unwrap(), [0, 0, 0]);
}

#[test]
fn other_models_are_read_by_the_library() {
    let file = json!({
        "version": "1.0", "added_tokens": [], "normalizer": null, "post_processor": null, "decoder": null,
        "truncation": { "direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0 },
        "pre_tokenizer": { "type": "Whitespace" },
        "model": { "type": "WordLevel", "vocab": { "one": 0, "two": 1, "?": 2 }, "unk_token": "?" },
    })
    .to_string();
    let tokenizer = Tokenizer::from_bytes(file.as_bytes(), None, Path::new("tokenizer.json")).unwrap();
    assert_eq!(tokenizer.encode("two one six").unwrap(), [1, 0, 2]);
    assert_stream_equals_decode(&tokenizer, &[1, 0, 2]);
    assert_eq!(streamed(&tokenizer, &[1, 0]), ["two", " one", ""]);
}

#[test]
fn byte_level_gguf_follows_its_metadata() {
    let path = Path::new("x.gguf");
    let tokenizer = Tokenizer::from_gguf(&byte_level_header(), path).unwrap().unwrap();
    // `llama-bpe` adds BOS unless told otherwise and takes a piece that is an entry whole.
    assert_eq!(tokenizer.encode("abb").unwrap(), [5, 4]);
    assert_eq!(tokenizer.encode("a  b").unwrap(), [5, 0, 2, 2, 1]);
    assert_eq!(tokenizer.encode("a<|im_end|>b").unwrap(), [5, 0, 6, 1]);
    assert_eq!(tokenizer.encode_plain("aba").unwrap(), [3, 0]);
    assert_eq!((tokenizer.bos_id(), tokenizer.eos_ids()), (Some(5), &[6][..]));
    // The last entry is padding.
    assert_eq!((tokenizer.vocab_size(), tokenizer.token(7)), (7, None));
    assert!(tokenizer.is_special(6), "an end of turn is special whatever its type says");

    let mut header = byte_level_header();
    header.metadata.insert("tokenizer.ggml.add_bos_token".into(), GgufValue::Bool(false));
    header.metadata.insert("tokenizer.ggml.add_eos_token".into(), GgufValue::Bool(true));
    header.metadata.insert("tokenizer.ggml.eos_token_id".into(), GgufValue::Unsigned(5));
    let tokenizer = Tokenizer::from_gguf(&header, path).unwrap().unwrap();
    assert_eq!(tokenizer.encode("b").unwrap(), [1, 5]);
    assert_eq!(tokenizer.eos_ids(), [5, 6]);
}

#[test]
fn sentencepiece_gguf_joins_by_score() {
    let path = Path::new("x.gguf");
    let tokenizer = Tokenizer::from_gguf(&sentencepiece_header(), path).unwrap().unwrap();
    // `bc` (9) has the better score than `ab` (8); of two `aa` (10), the left one is joined.
    assert_eq!(tokenizer.encode_plain("abc").unwrap(), [4, 5, 9]);
    assert_eq!(tokenizer.encode_plain("aaa").unwrap(), [4, 10, 5]);
    // BOS by default; a space before each piece of text; characters without an entry as bytes.
    assert_eq!(tokenizer.encode("ab<t>ab").unwrap(), [1, 4, 8, 3, 4, 8]);
    assert_eq!(tokenizer.encode_plain("é").unwrap(), [4, 11, 12]);
    // No byte token for these: one unknown token for both.
    assert_eq!(tokenizer.encode_plain("ñña").unwrap(), [4, 0, 5]);
    // Control tokens are not text that merges could reach, but are found when spelled out.
    assert_eq!(tokenizer.encode_plain("</s>").unwrap(), [2]);
    assert_eq!(tokenizer.decode(&[1, 4, 8, 3, 4, 11, 12], SpecialTokens::Skip), "ab<t> é");
    assert_eq!((tokenizer.bos_id(), tokenizer.eos_ids()), (Some(1), &[2][..]));
    assert_stream_equals_decode(&tokenizer, &[1, 4, 4, 8, 3, 4, 11, 12, 11, 5]);

    let mut header = sentencepiece_header();
    header.metadata.insert("tokenizer.ggml.add_space_prefix".into(), GgufValue::Bool(false));
    let tokenizer = Tokenizer::from_gguf(&header, path).unwrap().unwrap();
    assert_eq!(tokenizer.encode("ab").unwrap(), [1, 8]);
    assert_eq!(tokenizer.decode(&[4, 8], SpecialTokens::Skip), " ab");
}

#[test]
fn text_does_not_become_a_byte_token() {
    let parts = ["<", "0", "x", "C", "3", ">", "<0", "<0x", "<0xC", "<0xC3"];
    let mut entries = vec![("<unk>", 2), ("<s>", 3), ("</s>", 3)];
    entries.extend(parts.map(|part| (part, 1)));
    entries.push(("<0xC3>", 6));
    let (tokens, types) = vocabulary(&entries);
    let mut header = sentencepiece_header();
    header.metadata.insert("tokenizer.ggml.scores".into(), GgufValue::Array(vec![GgufValue::Float(0.0); 14]));
    header.metadata.insert("tokenizer.ggml.tokens".into(), tokens);
    header.metadata.insert("tokenizer.ggml.token_type".into(), types);
    header.metadata.insert("tokenizer.ggml.add_space_prefix".into(), GgufValue::Bool(false));
    let tokenizer = Tokenizer::from_gguf(&header, Path::new("x.gguf")).unwrap().unwrap();
    // `<0xC3` and `>`: the byte token's spelling in a text is not that byte.
    assert_eq!(tokenizer.encode_plain("<0xC3>").unwrap(), [12, 8]);
}

#[test]
fn hostile_metadata_names_its_key() {
    let texts =
        |texts: &[&str]| GgufValue::Array(texts.iter().map(|&t| GgufValue::String(t.into())).collect());
    let number = GgufValue::Unsigned;
    let changes: Vec<(&str, Option<GgufValue>)> = vec![
        ("tokenizer.ggml.tokens", None),
        ("tokenizer.ggml.tokens", Some(number(3))),
        ("tokenizer.ggml.tokens", Some(GgufValue::Array(vec![number(3)]))),
        ("tokenizer.ggml.tokens", Some(texts(&["a", "b", "Ġ", "ab", "ab", "c", "d", "e"]))),
        ("tokenizer.ggml.token_type", Some(GgufValue::Array(vec![number(1)]))),
        ("tokenizer.ggml.token_type", Some(GgufValue::Array(vec![number(99); 8]))),
        ("tokenizer.ggml.token_type", Some(GgufValue::Bool(true))),
        ("tokenizer.ggml.merges", None),
        ("tokenizer.ggml.merges", Some(texts(&["a q"]))),
        ("tokenizer.ggml.merges", Some(texts(&["b a"]))),
        ("tokenizer.ggml.merges", Some(texts(&["ab"]))),
        ("tokenizer.ggml.merges", Some(texts(&[""]))),
        ("tokenizer.ggml.merges", Some(texts(&["é"]))),
        ("tokenizer.ggml.merges", Some(texts(&["<|im_end|> <|im_end|>"]))),
        ("tokenizer.ggml.bos_token_id", Some(number(7))),
        ("tokenizer.ggml.eos_token_id", Some(number(u64::MAX))),
        ("tokenizer.ggml.eot_token_id", Some(GgufValue::Signed(-1))),
        ("tokenizer.ggml.eom_token_id", Some(GgufValue::Bool(true))),
        ("tokenizer.ggml.add_bos_token", Some(number(1))),
        ("tokenizer.ggml.model", Some(number(1))),
    ];
    let mut cases: Vec<_> = changes.into_iter().map(|change| (byte_level_header(), change)).collect();
    for change in [
        ("tokenizer.ggml.scores", None),
        ("tokenizer.ggml.scores", Some(GgufValue::Array(vec![number(0)]))),
        ("tokenizer.ggml.scores", Some(GgufValue::Array(vec![GgufValue::Bool(true); 13]))),
        ("tokenizer.ggml.unknown_token_id", Some(number(13))),
        ("tokenizer.ggml.tokens", Some(GgufValue::Array(vec![GgufValue::String("x".into()); 13]))),
    ] {
        cases.push((sentencepiece_header(), change));
    }
    for (mut header, (key, value)) in cases {
        match value {
            Some(value) => header.metadata.insert(key.to_owned(), value),
            None => header.metadata.remove(key),
        };
        let error = Tokenizer::from_gguf(&header, Path::new("x.gguf")).unwrap_err();
        assert!(matches!(error, Error::Malformed { .. }), "{key}: {error}");
        assert!(error.to_string().contains(key), "{key}: {error}");
    }
}

#[test]
fn unknown_rules_list_the_known_ones() {
    for (key, known) in [("tokenizer.ggml.model", "gpt2, llama"), ("tokenizer.ggml.pre", "qwen2")] {
        let mut header = byte_level_header();
        header.metadata.insert(key.to_owned(), GgufValue::String("newest".to_owned()));
        let error = Tokenizer::from_gguf(&header, Path::new("x.gguf")).unwrap_err();
        assert_eq!(error.exit_code(), ExitCode::Unsupported);
        let message = error.to_string();
        assert!(message.contains(key) && message.contains("newest") && message.contains(known), "{message}");
    }
    let mut header = byte_level_header();
    header.metadata.remove("tokenizer.ggml.pre");
    assert!(Tokenizer::from_gguf(&header, Path::new("x.gguf")).is_ok(), "no rule is the default rule");
}

#[test]
fn vocabularies_are_compared_by_content() {
    let ours = byte_level_json(true);
    assert_eq!(ours.differences(&ours).num_different, 0);
    let mut file = byte_level_file(true);
    file["model"]["vocab"] =
        json!({ "b": 0, "a": 1, "Ġ": 2, "ð": 3, "Ł": 4, "ĺ": 5, "Ģ": 6, "ab": 7, "more": 40 });
    let theirs =
        Tokenizer::from_bytes(file.to_string().as_bytes(), None, Path::new("tokenizer.json")).unwrap();
    // More entries and holes are no difference; `<s>` moved on to where `</s>` is in ours.
    let difference = ours.differences(&theirs);
    assert_eq!(difference.num_different, 3);
    let example = |id, ours: &str, theirs: &str| (id, ours.to_owned(), theirs.to_owned());
    assert_eq!(difference.examples, [example(0, "a", "b"), example(1, "b", "a"), example(9, "</s>", "<s>")]);
    assert!(!difference.is_empty());
}

/// Bytes of 😀, `a`, `b`, a space and `ab`; `<s>` (8) begins every text where `with_bos`.
fn byte_level_file(with_bos: bool) -> Value {
    let special = |id: u32, content: &str| {
        json!({ "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true })
    };
    let post_processor = json!({
        "type": "TemplateProcessing",
        "single": [{ "SpecialToken": { "id": "<s>", "type_id": 0 } }, { "Sequence": { "id": "A", "type_id": 0 } }],
        "pair": [{ "Sequence": { "id": "A", "type_id": 0 } }, { "Sequence": { "id": "B", "type_id": 1 } }],
        "special_tokens": { "<s>": { "id": "<s>", "ids": [8], "tokens": ["<s>"] } },
    });
    json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null,
        "added_tokens": [special(8, "<s>"), special(9, "</s>")],
        "pre_tokenizer": { "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true },
        "post_processor": if with_bos { post_processor } else { Value::Null },
        "decoder": { "type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true },
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
            "vocab": { "a": 0, "b": 1, "Ġ": 2, "ð": 3, "Ł": 4, "ĺ": 5, "Ģ": 6, "ab": 7 },
            "merges": [["a", "b"]],
        },
    })
}

fn byte_level_json(with_bos: bool) -> Tokenizer {
    let file = byte_level_file(with_bos).to_string();
    Tokenizer::from_bytes(file.as_bytes(), None, Path::new("tokenizer.json")).unwrap()
}

/// `<unk>`, `▁`, `a`, `é` as bytes and a whole `中`; with or without the space before a text.
fn sentencepiece_json(strips_space: bool) -> Tokenizer {
    let mut decoders = vec![
        json!({ "type": "Replace", "pattern": { "String": "▁" }, "content": " " }),
        json!({ "type": "ByteFallback" }),
        json!({ "type": "Fuse" }),
    ];
    if strips_space {
        decoders.push(json!({ "type": "Strip", "content": " ", "start": 1, "stop": 0 }));
    }
    let file = json!({
        "version": "1.0", "added_tokens": [{ "id": 1, "content": "<s>", "single_word": false, "lstrip": false,
            "rstrip": false, "normalized": false, "special": true }],
        "normalizer": { "type": "Replace", "pattern": { "String": " " }, "content": "▁" },
        "pre_tokenizer": null, "post_processor": null,
        "decoder": { "type": "Sequence", "decoders": decoders },
        "model": {
            "type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
            "vocab": { "<unk>": 0, "<s>": 1, "▁": 2, "a": 3, "中": 4, "<0xC3>": 5, "<0xA9>": 6, "▁a": 7 },
            "merges": [["▁", "a"]],
        },
    })
    .to_string();
    Tokenizer::from_bytes(file.as_bytes(), None, Path::new("tokenizer.json")).unwrap()
}

fn header<const N: usize>(metadata: [(&str, GgufValue); N]) -> GgufHeader {
    let metadata: GgufMetadata = metadata.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    GgufHeader { metadata, tensors: std::collections::BTreeMap::new() }
}

fn text(text: &str) -> GgufValue {
    GgufValue::String(text.to_owned())
}

/// (token, type) in order of ids.
fn vocabulary(entries: &[(&str, i64)]) -> (GgufValue, GgufValue) {
    let tokens = entries.iter().map(|entry| text(entry.0)).collect();
    let types = entries.iter().map(|entry| GgufValue::Signed(entry.1)).collect();
    (GgufValue::Array(tokens), GgufValue::Array(types))
}

fn byte_level_header() -> GgufHeader {
    // `abb` is no merge's result: only a piece taken whole becomes it.
    let (tokens, types) = vocabulary(&[
        ("a", 1),
        ("b", 1),
        ("Ġ", 1),
        ("ab", 1),
        ("abb", 1),
        ("<s>", 3),
        ("<|im_end|>", 1),
        ("[PAD7]", 5),
    ]);
    header([
        ("tokenizer.ggml.model", text("gpt2")),
        ("tokenizer.ggml.pre", text("llama-bpe")),
        ("tokenizer.ggml.tokens", tokens),
        ("tokenizer.ggml.token_type", types),
        ("tokenizer.ggml.merges", GgufValue::Array(vec![text("a b")])),
        ("tokenizer.ggml.bos_token_id", GgufValue::Unsigned(5)),
    ])
}

fn sentencepiece_header() -> GgufHeader {
    let (tokens, types) = vocabulary(&[
        ("<unk>", 2),
        ("<s>", 3),
        ("</s>", 3),
        ("<t>", 4),
        ("▁", 1),
        ("a", 1),
        ("b", 1),
        ("c", 1),
        ("ab", 1),
        ("bc", 1),
        ("aa", 1),
        ("<0xC3>", 6),
        ("<0xA9>", 6),
    ]);
    let scores = [0.0, 0.0, 0.0, 0.0, -9.0, -9.0, -9.0, -9.0, -2.0, -1.0, -3.0, 0.0, 0.0];
    header([
        ("tokenizer.ggml.model", text("llama")),
        ("tokenizer.ggml.tokens", tokens),
        ("tokenizer.ggml.token_type", types),
        ("tokenizer.ggml.scores", GgufValue::Array(scores.map(GgufValue::Float).to_vec())),
    ])
}
