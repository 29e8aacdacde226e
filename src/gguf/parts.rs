//! Which files a GGUF model is made of: one, or parts called `stem-00001-of-00003.gguf`.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Most files that are named when it is not clear which is meant.
const MOST_NAMED: usize = 20;

/// The name of a part, taken apart. Numbers have five digits, as llama.cpp's splitter writes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GgufPart {
    stem: String,
    /// From 1.
    pub number: usize,
    /// Parts there are.
    pub count: usize,
}

impl GgufPart {
    /// Reads the name of `path`; none when it is not that of a part.
    pub fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.strip_suffix(".gguf")?;
        let (rest, count) = name.rsplit_once("-of-")?;
        let (stem, number) = rest.rsplit_once('-')?;
        let digits = |text: &str| if text.len() == 5 { text.parse().ok() } else { None };
        Some(Self { stem: stem.to_owned(), number: digits(number)?, count: digits(count)? })
    }

    /// The path of part `number` beside `path`, which is one of the parts.
    pub fn beside(&self, path: &Path, number: usize) -> PathBuf {
        path.with_file_name(format!("{}-{number:05}-of-{:05}.gguf", self.stem, self.count))
    }
}

/// The one GGUF file of a folder without config.json, or the first part of its one split file.
///
/// # Errors
/// `ModelNotFound` when there is none or more than one, `Io` when the folder cannot be read.
pub fn only_gguf(folder: &Path) -> Result<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(Error::io("read", folder))? {
        let path = entry.map_err(Error::io("read", folder))?.path();
        let is_first = GgufPart::of(&path).is_none_or(|part| part.number == 1);
        if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf")) && is_first {
            found.push(path);
        }
    }
    found.sort();
    let problem = match found.as_slice() {
        [only] => return Ok(only.clone()),
        [] => "it has neither config.json nor a .gguf file".to_owned(),
        several => {
            let names = several.iter().filter_map(|path| path.file_name()?.to_str());
            let names: Vec<_> = names.take(MOST_NAMED).collect();
            format!("it holds several GGUF files, name one: {}", names.join(", "))
        }
    };
    Err(Error::ModelNotFound { path: folder.to_owned(), problem })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_told_by_their_names() {
        let path = Path::new("x/model-00001-of-00003.gguf");
        let part = GgufPart::of(path).unwrap();
        assert_eq!((part.number, part.count), (1, 3));
        assert_eq!(part.beside(path, 2), Path::new("x/model-00002-of-00003.gguf"));
        for other in ["model.gguf", "a-1-of-3.gguf", "a-00001-of-00003.bin", "a-0000x-of-00003.gguf"] {
            assert_eq!(GgufPart::of(Path::new(other)), None, "{other}");
        }
    }
}
