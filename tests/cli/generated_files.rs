//! Files that are made from others: README's tree, from the first sentence of every source file.

use std::fs;
use std::path::{Path, PathBuf};

const BEGIN: &str = "<!-- tree: begin -->\n```text\n";
const END: &str = "```\n<!-- tree: end -->";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The first sentence of a file's documentation.
fn purpose(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim);
    let paragraph: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
    let paragraph = paragraph.join(" ");
    let sentence = paragraph.split_once(". ").map_or(paragraph.as_str(), |(first, _)| first);
    sentence.trim_end_matches('.').to_owned()
}

fn tree() -> String {
    let mut tree = String::new();
    for folder in ["src", "tests/engine", "tests/cli", "tests/support", "tests/bench"] {
        let mut found = Vec::new();
        sources(&root().join(folder), &mut found);
        for path in found {
            let name = path.strip_prefix(root()).unwrap().to_str().unwrap().replace('\\', "/");
            tree.push_str(&format!("{name:<40} {}\n", purpose(&path)));
        }
    }
    tree
}

/// README before its tree, the tree, and what follows.
fn readme() -> [String; 3] {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let start = readme.find(BEGIN).expect("README has a tree") + BEGIN.len();
    let end = readme.find(END).expect("README's tree ends");
    [&readme[..start], &readme[start..end], &readme[end..]].map(str::to_owned)
}

#[test]
fn the_tree_in_readme_is_what_the_files_say() {
    let [_, current, _] = readme();
    assert!(current == tree(), "run `cargo test --test cli -- --ignored rewrite` and commit the change");
}

#[test]
#[ignore = "rewrites README.md"]
fn rewrite_the_tree_in_readme() {
    let [before, _, after] = readme();
    fs::write(root().join("README.md"), before + &tree() + &after).unwrap();
}

/// The short help of each subcommand, as a person sees it without a terminal.
fn helps() -> Vec<(PathBuf, String)> {
    ["generate", "inspect-config"]
        .iter()
        .map(|name| {
            let path = root().join(format!("tests/cli/snapshots/{name}-help.txt"));
            (path, crate::program::specdec(&[name, "-h"]).stdout)
        })
        .collect()
}

#[test]
fn help_is_what_the_snapshots_say() {
    for (path, help) in helps() {
        let kept = fs::read_to_string(&path).unwrap_or_default();
        assert!(kept == help, "{} differs; rewrite it and commit the change:\n{help}", path.display());
    }
}

#[test]
#[ignore = "rewrites the snapshots of help"]
fn rewrite_the_snapshots_of_help() {
    for (path, help) in helps() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, help).unwrap();
    }
}
