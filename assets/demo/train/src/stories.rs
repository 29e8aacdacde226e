//! Simple English stories from a grammar. Story number `n` is always the same text.
//!
//! A schema (a file of `schemas/`) is the course of a story: sentences with choices `[this|that]`
//! and slots `{hero}`. A cast fills the slots once per story, so that names, pronouns and things
//! stay the same from beginning to end; keeping them apart is what a model has to learn.

use std::collections::BTreeMap;

use crate::random::Random;
use crate::words;

/// Numbers from here on are never trained on.
pub const HELD_OUT: u64 = 1 << 40;

const SEED: u64 = 2024;
/// How much likelier each choice is than the next: sentences, then words of a list.
const SENTENCE_RATIO: f64 = 0.72;
const WORD_RATIO: f64 = 0.88;

/// `(course of the story, what the hero does from then on)`.
const SCHEMAS: &[(&str, &str)] = &[
    (include_str!("../schemas/lost.txt"), "[took good care of {his} things|always kept {his} {noun} close]"),
    (
        include_str!("../schemas/rescue.txt"),
        "[helped everyone who was in trouble|never gave up when something was hard]",
    ),
    (
        include_str!("../schemas/newfriend.txt"),
        "[always said hello to those who were alone|was {friend}'s best friend]",
    ),
    (
        include_str!("../schemas/sharing.txt"),
        "[shared everything with {friend}|was always happy to take turns]",
    ),
    (include_str!("../schemas/lostway.txt"), "[listened to {elder}|stayed close to the house]"),
    (include_str!("../schemas/broken.txt"), "[always told the truth|was careful in the house]"),
    (include_str!("../schemas/fear.txt"), "[was a little braver every day|liked to try new things]"),
    (
        include_str!("../schemas/surprise.txt"),
        "[knew that love is the best present|and {friend} baked together every year]",
    ),
    (
        include_str!("../schemas/storm.txt"),
        "[always kept a dry blanket by the door|was not afraid of storms any more]",
    ),
    (
        include_str!("../schemas/treasure.txt"),
        "[looked at every old box with a smile|and {friend} went on an adventure every week]",
    ),
    (include_str!("../schemas/garden.txt"), "[was very patient|took care of every plant in the garden]"),
    (
        include_str!("../schemas/race.txt"),
        "[and {friend} always ran side by side|did {his} best in everything]",
    ),
    (
        include_str!("../schemas/fixing.txt"),
        "[was not too proud to ask for help|and {friend} built many things together]",
    ),
    (
        include_str!("../schemas/moon.txt"),
        "[smiled every time {he} saw the {sky}|shared the light with everyone]",
    ),
];

/// Parts that several schemas have in common; a line `@name` stands for one.
const PARTS: &[(&str, &str)] =
    &[("@opening", include_str!("../schemas/opening.txt")), ("@moral", include_str!("../schemas/moral.txt"))];

/// Verbs that show that words after `?"` or `!"` still belong to the same sentence.
const SPEECH_VERBS: &[&str] =
    &["said", "asked", "cried", "called", "shouted", "thought", "whispered", "wondered", "counted"];

/// Story number `number`: paragraphs of plain sentences, 600 to 2000 bytes.
pub fn story(number: u64) -> String {
    tell(number, Nouns::Known)
}

/// A story whose names and things are mostly invented words, so that what comes later can only be
/// known by looking back. Favourite names can be guessed without looking, and a model that may
/// guess is slow to learn to look.
pub fn strange_story(number: u64) -> String {
    tell(number, Nouns::Invented)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Nouns {
    Known,
    Invented,
}

fn tell(number: u64, nouns: Nouns) -> String {
    let mut random = Random::new(SEED, number);
    let (schema, lesson) = SCHEMAS[random.favouring_first(SCHEMAS.len(), 0.95)];
    let mut cast = Cast::choose(&mut random, lesson);
    if nouns == Nouns::Invented {
        cast.invent(&mut random);
    }
    let mut paragraphs: Vec<String> = vec![String::new()];
    for line in schema.lines() {
        if line.starts_with('#') {
            continue;
        }
        if line.is_empty() {
            paragraphs.push(String::new());
            continue;
        }
        let part = PARTS.iter().find(|(name, _)| *name == line);
        let template = part.map_or(line, |(_, text)| text.trim_end());
        let text = cast.expand(template, &mut random);
        let text = choose_articles(&text);
        if let (false, Some(paragraph)) = (text.is_empty(), paragraphs.last_mut()) {
            if !paragraph.is_empty() {
                paragraph.push(' ');
            }
            paragraph.push_str(&capitalise_sentences(&text));
        }
    }
    paragraphs.join("\n\n")
}

/// Who and what one story is about: the value of every slot, itself possibly a template.
struct Cast(BTreeMap<&'static str, String>);

impl Cast {
    fn choose(random: &mut Random, lesson: &str) -> Self {
        let mut cast = Self(BTreeMap::new());
        let human = random.uniform() < 0.7;
        let (hero, hero_kind) = cast.character(random, human, ["he", "him", "his", "himself"]);
        cast.set("hero", hero);
        cast.set("kind", hero_kind);
        loop {
            let (friend, kind) = cast.character(random, human, ["fhe", "fhim", "fhis", "fhimself"]);
            if friend != hero && (human || kind != hero_kind) {
                cast.set("friend", friend);
                cast.set("fkind", kind);
                break;
            }
        }
        let (elder, call, woman) = *choose(random, words::ELDERS);
        cast.set("elder", format!("{{his}} {elder}"));
        cast.set("mom", call);
        cast.set("ehe", if woman { "she" } else { "he" });
        cast.set("ehim", if woman { "her" } else { "him" });
        cast.set("ehis", if woman { "her" } else { "his" });
        let (name, habit) = *choose(random, words::TRAITS);
        cast.set("trait", name);
        cast.set("habit", habit);
        cast.set("lesson_habit", lesson);
        cast.set("near", *choose(random, words::HOMES));
        let (noun, looks, play) = *choose(random, words::THINGS);
        let look = *choose(random, looks);
        cast.set("noun", noun);
        cast.set("color", look);
        cast.set("thing", format!("{look} {noun}"));
        cast.set("a_thing", format!("a {look} {noun}"));
        cast.set("use", play);
        cast.place(random);
        cast.scenery(random);
        cast
    }

    /// Replaces most names and things by invented words.
    fn invent(&mut self, random: &mut Random) {
        self.set("hero", capitalise(&word(random)));
        self.set("friend", capitalise(&word(random)));
        let elder = word(random);
        self.set("mom", capitalise(&elder));
        self.set("elder", format!("{{his}} {elder}"));
        for (slot, introduced) in [
            ("noun", "a_thing"),
            ("animal", ""),
            ("wise", "a_wise"),
            ("vase", "a_vase"),
            ("lure", "a_lure"),
            ("build", "a_build"),
            ("cake", ""),
            ("tool", ""),
            ("flower", ""),
        ] {
            if random.uniform() < 0.7 {
                let word = word(random);
                if !introduced.is_empty() {
                    self.set(introduced, format!("a {word}"));
                }
                if slot == "noun" {
                    self.set("thing", word.clone());
                }
                self.set(slot, word);
            }
        }
    }

    fn place(&mut self, random: &mut Random) {
        let place = choose(random, words::PLACES);
        self.set("at", place.at);
        self.set("to", format!("to {}", place.name));
        self.set("sight", *choose(random, place.sights));
        let first = random.below(place.spots.len());
        for (step, slot) in ["spot", "spot2", "spot3"].into_iter().enumerate() {
            self.set(slot, place.spots[(first + step) % place.spots.len()]);
        }
    }

    fn scenery(&mut self, random: &mut Random) {
        self.set("animal", *choose(random, words::SMALL_ANIMALS));
        self.set("trap", *choose(random, words::TRAPS));
        self.set("tool", *choose(random, words::TOOLS));
        self.set("treat", *choose(random, words::TREATS));
        let wise = *choose(random, words::WISE_ANIMALS);
        self.set("wise", wise);
        self.set("a_wise", format!("an old {wise}"));
        let named = [
            ("vase", "a_vase", choose(random, words::VASES)),
            ("lure", "a_lure", choose(random, words::LURES)),
            ("build", "a_build", choose(random, words::BUILDS)),
        ];
        for (slot, introduced, (noun, introduction)) in named {
            self.set(slot, *noun);
            self.set(introduced, *introduction);
        }
        self.set("a_clue", *choose(random, words::CLUES));
        self.set("cake", *choose(random, words::CAKES));
        for (slot, list) in ["ing1", "ing2", "ing3"].into_iter().zip(words::INGREDIENTS) {
            self.set(slot, *choose(random, list));
        }
        self.set("flower", *choose(random, words::FLOWERS));
        self.set("contest", *choose(random, words::CONTESTS));
        self.set("paint", *choose(random, words::COLORS));
        self.set("sky", *choose(random, words::SKY));
        let fear = choose(random, words::FEARS);
        self.set("fear", fear.name);
        self.set("fear_why", fear.why);
        self.set("fear_step", fear.step);
        self.set("fear_good", fear.good);
        self.set("a_brave", fear.help);
    }

    /// Chooses `(name, kind)` and sets the four pronoun slots.
    fn character(
        &mut self,
        random: &mut Random,
        human: bool,
        slots: [&'static str; 4],
    ) -> (&'static str, &'static str) {
        let girl = random.uniform() < 0.5;
        let pronouns = if girl { ["she", "her", "her", "herself"] } else { ["he", "him", "his", "himself"] };
        for (slot, pronoun) in slots.into_iter().zip(pronouns) {
            self.set(slot, pronoun);
        }
        let names = match (human, girl) {
            (true, true) => words::GIRLS,
            (true, false) => words::BOYS,
            (false, true) => words::ANIMAL_GIRLS,
            (false, false) => words::ANIMAL_BOYS,
        };
        let kind = match (human, girl) {
            (true, true) => "girl",
            (true, false) => "boy",
            (false, _) => *choose(random, words::ANIMAL_KINDS),
        };
        (*choose(random, names), kind)
    }

    fn set(&mut self, slot: &'static str, value: impl Into<String>) {
        self.0.insert(slot, value.into());
    }

    /// Resolves choices and slots, also those inside the values of slots.
    ///
    /// A slot whose name begins with a capital gives its value with a capital.
    fn expand(&self, template: &str, random: &mut Random) -> String {
        let mut output = String::new();
        let mut rest = template;
        while let Some(start) = rest.find(['[', '{']) {
            output.push_str(&rest[..start]);
            rest = &rest[start..];
            if rest.starts_with('{') {
                let end = rest.find('}').expect("schemas close their slots");
                output.push_str(&self.slot(&rest[1..end], random));
                rest = &rest[end + 1..];
            } else {
                let (choices, after) = split_choices(rest);
                let chosen = choices[random.favouring_first(choices.len(), SENTENCE_RATIO)];
                output.push_str(&self.expand(chosen, random));
                rest = after;
            }
        }
        output.push_str(rest);
        output
    }

    fn slot(&self, name: &str, random: &mut Random) -> String {
        let lower = name.to_lowercase();
        let template = self.0.get(lower.as_str());
        let template = template.unwrap_or_else(|| panic!("no slot is called {name}"));
        let value = self.expand(template, random);
        if name == lower { value } else { capitalise(&value) }
    }
}

/// A word of two or three syllables that is in no list.
fn word(random: &mut Random) -> String {
    let mut word = String::new();
    for _ in 0..2 + random.below(2) {
        word.push(char::from(b"bdfgklmnprstvwz"[random.below(15)]));
        word.push(char::from(b"aeiou"[random.below(5)]));
    }
    word
}

fn choose<'a, T>(random: &mut Random, list: &'a [T]) -> &'a T {
    &list[random.favouring_first(list.len(), WORD_RATIO)]
}

/// Splits `[a|b[c|d]]rest` into its outermost choices and the text behind the bracket.
fn split_choices(text: &str) -> (Vec<&str>, &str) {
    let (mut depth, mut start) = (0, 1);
    let mut choices = Vec::new();
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'[' => depth += 1,
            b']' if depth == 1 => {
                choices.push(&text[start..index]);
                return (choices, &text[index + 1..]);
            }
            b']' => depth -= 1,
            b'|' if depth == 1 => {
                choices.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    panic!("a choice is not closed: {text}")
}

fn capitalise(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().collect::<String>() + letters.as_str())
}

/// Puts single spaces between words, and `an` before a vowel.
fn choose_articles(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut output = String::with_capacity(text.len());
    for (index, word) in words.iter().enumerate() {
        let next = words.get(index + 1).copied().unwrap_or("");
        output.push_str(word);
        if matches!(*word, "a" | "A") && next.starts_with(['a', 'e', 'i', 'o', 'u']) {
            output.push('n');
        }
        output.push(' ');
    }
    output.truncate(output.trim_end().len());
    output
}

/// Gives each sentence its capital: schemas put pronouns and lower-case slots anywhere.
fn capitalise_sentences(text: &str) -> String {
    let words: Vec<&str> = text.split(' ').collect();
    let mut output: Vec<String> = Vec::with_capacity(words.len());
    for (index, word) in words.iter().enumerate() {
        let begins = match index.checked_sub(1).map(|before| words[before]) {
            None => true,
            Some(before) if before.ends_with(['.', '!', '?']) => true,
            Some(before) if before.ends_with(".\"") => true,
            Some(before) if before.ends_with("?\"") || before.ends_with("!\"") => {
                let verb = |word: &&&str| SPEECH_VERBS.contains(&word.trim_end_matches(['.', ',']));
                let near = words[index..].iter().take(3).find(verb);
                near.is_none()
            }
            Some(_) => false,
        };
        output.push(if begins { capitalise(word) } else { (*word).to_owned() });
    }
    output.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stories_are_well_formed() {
        for number in 0..20_000 {
            let story = if number % 4 == 0 { strange_story(number) } else { story(number) };
            assert!(!story.contains(['[', ']', '{', '}', '|', '@']), "{story}");
            assert!(!story.contains("  "), "{story}");
            assert!((500..2600).contains(&story.len()), "{} {story}", story.len());
            for paragraph in story.split("\n\n") {
                assert!(paragraph.matches('"').count() % 2 == 0, "{paragraph}");
                assert!(paragraph.ends_with(['.', '!', '?', '"']), "{paragraph}");
                assert!(!paragraph.starts_with(char::is_lowercase), "{paragraph}");
            }
        }
    }

    #[test]
    fn a_number_always_gives_the_same_story() {
        assert_eq!(story(3), story(3));
        assert_ne!(story(3), story(4));
    }

    #[test]
    fn sentences_begin_with_a_capital() {
        let text = "\"who?\" he asked. he ran. \"no!\" she shouted. \"go.\" he went. \"oh!\" he ran.";
        let expected = "\"who?\" he asked. He ran. \"no!\" she shouted. \"go.\" He went. \"oh!\" He ran.";
        assert_eq!(capitalise_sentences(text), expected);
    }
}
