//! From `org/name@revision` to a folder on this machine.
//!
//! The one place that knows where models of the Hub lie. It looks into the cache that Hugging Face's
//! libraries share and downloads nothing; whoever downloads fills that cache and asks again. Layout:
//! `models--org--name/refs/<revision>` names a commit, `snapshots/<commit>/` holds its files
//! (<https://huggingface.co/docs/huggingface_hub/guides/manage-cache>).

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// A branch that every repository has.
const DEFAULT_REVISION: &str = "main";

/// A model's name on the Hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubName {
    /// `org/name`, or `name` for the oldest models.
    pub repository: String,
    /// Branch, tag or commit; none for the default branch.
    pub revision: Option<String>,
}

/// Where a model's files lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedModel {
    /// The folder with `config.json`.
    pub folder: PathBuf,
    /// The commit it is of.
    pub commit: String,
}

impl HubName {
    /// Reads `org/name[@revision]`; none when `text` cannot be such a name.
    pub fn parse(text: &str) -> Option<Self> {
        let (repository, revision) = match text.split_once('@') {
            Some((repository, revision)) => (repository, Some(revision)),
            None => (text, None),
        };
        let mut parts = repository.split('/');
        let is_part = |part: &str| {
            let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            !part.is_empty() && part.len() <= 96 && part.chars().all(allowed) && !part.starts_with('.')
        };
        let fits = parts.clone().count() <= 2 && parts.all(is_part);
        // A revision may be a branch with slashes, but never a way out of the folder.
        let names_revision = revision.is_none_or(|revision| revision.split('/').all(is_part));
        (fits && names_revision)
            .then(|| Self { repository: repository.to_owned(), revision: revision.map(str::to_owned) })
    }

    /// Finds the model in the local cache.
    ///
    /// # Errors
    /// `NotCached` when it, or this revision of it, is not there.
    pub fn find(&self) -> Result<CachedModel> {
        let roots =
            cache_roots(|name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from));
        self.find_in(&roots)
    }

    fn find_in(&self, roots: &[PathBuf]) -> Result<CachedModel> {
        let folder = format!("models--{}", self.repository.replace('/', "--"));
        let revision = self.revision.as_deref().unwrap_or(DEFAULT_REVISION);
        let mut known_otherwise = false;
        for root in roots {
            let model = root.join(&folder);
            known_otherwise |= model.is_dir();
            let commit = commit(&model, revision);
            let snapshot = model.join("snapshots").join(&commit);
            if snapshot.is_dir() {
                return Ok(CachedModel { folder: snapshot, commit });
            }
        }
        let problem = match (known_otherwise, roots.first()) {
            (true, _) => format!("it has no revision `{revision}`"),
            (false, Some(root)) => format!("nothing of it lies in `{}`", root.display()),
            (false, None) => "this machine has no cache folder".to_owned(),
        };
        Err(Error::NotCached { model: self.repository.clone(), problem })
    }
}

/// The commit that `revision` stands for.
fn commit(model: &Path, revision: &str) -> String {
    let named = fs::read_to_string(model.join("refs").join(revision)).unwrap_or_default();
    let named = named.trim();
    let is_commit = !named.is_empty() && named.chars().all(|c| c.is_ascii_hexdigit());
    if is_commit { named.to_owned() } else { revision.to_owned() }
}

/// Where caches may be, in the order of Hugging Face's libraries.
fn cache_roots(variable: impl Fn(&str) -> Option<PathBuf>) -> Vec<PathBuf> {
    if let Some(cache) = variable("HF_HUB_CACHE").or_else(|| variable("HUGGINGFACE_HUB_CACHE")) {
        return vec![cache];
    }
    if let Some(home) = variable("HF_HOME") {
        return vec![home.join("hub")];
    }
    let cache = variable("XDG_CACHE_HOME").or_else(|| {
        let home = variable("HOME").or_else(|| variable("USERPROFILE"))?;
        Some(home.join(".cache"))
    });
    cache.map(|cache| cache.join("huggingface").join("hub")).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_from_paths() {
        let name = HubName::parse("Qwen/Qwen3-8B@refs/pr/3").unwrap();
        assert_eq!(
            (name.repository.as_str(), name.revision.as_deref()),
            ("Qwen/Qwen3-8B", Some("refs/pr/3"))
        );
        assert!(HubName::parse("gpt2").is_some());
        for path in
            ["./model", "/tmp/model", "a/b/c", "../x", "a/..", "a//b", "", "a/b@../../x", "a b/c", "a/b@"]
        {
            assert_eq!(HubName::parse(path), None, "{path}");
        }
    }

    #[test]
    fn the_cache_is_where_the_variables_say() {
        let roots = |set: &'static [(&str, &str)]| {
            cache_roots(|name| {
                set.iter().find(|(key, _)| *key == name).map(|(_, value)| PathBuf::from(value))
            })
        };
        assert_eq!(roots(&[("HF_HUB_CACHE", "/c"), ("HF_HOME", "/h")]), [PathBuf::from("/c")]);
        assert_eq!(roots(&[("HF_HOME", "/h"), ("HOME", "/u")]), [Path::new("/h").join("hub")]);
        assert_eq!(roots(&[("HOME", "/u")]), [Path::new("/u").join(".cache/huggingface/hub")]);
        assert!(roots(&[]).is_empty());
    }

    #[test]
    fn a_revision_leads_to_its_commit() {
        let root = std::env::temp_dir().join(format!("specdec-hub-{}", std::process::id()));
        let model = root.join("models--org--name");
        fs::create_dir_all(model.join("refs")).unwrap();
        fs::create_dir_all(model.join("snapshots/abc123")).unwrap();
        fs::write(model.join("refs/main"), "abc123\n").unwrap();
        let find = |text: &str| HubName::parse(text).unwrap().find_in(std::slice::from_ref(&root));
        assert_eq!(find("org/name").unwrap().commit, "abc123");
        assert!(find("org/name@abc123").unwrap().folder.ends_with("snapshots/abc123"));
        let missing = find("org/name@v2").unwrap_err();
        let other = find("org/other").unwrap_err();
        fs::remove_dir_all(&root).unwrap();
        assert!(missing.to_string().contains("no revision `v2`"), "{missing}");
        assert!(other.to_string().contains("nothing of it"), "{other}");
        assert_eq!(other.exit_code(), crate::error::ExitCode::NotFound);
    }
}
