//! The tree for the rules: the files of the project, with their text.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use ignore::WalkBuilder;

/// A file beyond this is data, whatever it contains; no rule reads it.
const TEXT_BYTES_MAX: u64 = 4 * 1024 * 1024;

pub(super) struct Tree {
    /// By path from the root, with `/` between the parts. `None`: not text.
    files: BTreeMap<String, Option<String>>,
}

impl Tree {
    /// Reads everything that the ignore files do not exclude.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let mut files = BTreeMap::new();
        let mut walk = WalkBuilder::new(root);
        // Hidden folders belong to the project too (.ci, .cargo). A developer's own git settings must not matter.
        walk.hidden(false).git_global(false).git_exclude(false).parents(false).require_git(false);
        walk.filter_entry(|entry| entry.file_name() != ".git");
        for entry in walk.build() {
            let entry = entry.context("cannot walk the tree")?;
            if !entry.file_type().is_some_and(|kind| kind.is_file()) {
                continue;
            }
            let path = entry.path().strip_prefix(root).context("a file outside of the tree")?;
            let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
            files.insert(parts.join("/"), text(entry.path()));
        }
        Ok(Self { files })
    }

    /// The text files, by path.
    pub(super) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)))
    }

    /// The Rust sources of all crates, without their tests, benches and examples.
    pub(super) fn sources(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts().filter(|(path, _)| is_source(path))
    }

    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.as_deref()
    }

    /// Whether a file or folder of this name is part of the tree.
    pub(super) fn has(&self, path: &str) -> bool {
        if path.is_empty() || self.files.contains_key(path) {
            return true;
        }
        let folder = format!("{path}/");
        self.files.range(folder.clone()..).next().is_some_and(|(next, _)| next.starts_with(&folder))
    }

    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), Some((*text).to_owned())));
        Self { files: files.collect() }
    }
}

/// `crates/<crate>/src/….rs`
fn is_source(path: &str) -> bool {
    let mut parts = path.split('/');
    parts.next() == Some("crates") && parts.nth(1) == Some("src") && path.ends_with(".rs")
}

/// `None` for what is no text, too large, or gone since the folder was listed.
fn text(path: &Path) -> Option<String> {
    if fs::metadata(path).ok()?.len() > TEXT_BYTES_MAX {
        return None;
    }
    String::from_utf8(fs::read(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_part_of_the_tree_when_a_file_lies_in_it() {
        let tree = Tree::of(&[("docs/guide/start.md", ""), ("docs-old.md", "")]);
        assert!(tree.has("docs"));
        assert!(tree.has("docs/guide"));
        assert!(tree.has("docs/guide/start.md"));
        assert!(!tree.has("docs/gui"));
        assert!(!tree.has("doc"));
    }

    #[test]
    fn only_what_lies_in_a_crates_src_is_a_source() {
        assert!(is_source("crates/engine/src/lib.rs"));
        assert!(is_source("crates/engine/src/commands/submit.rs"));
        assert!(!is_source("crates/engine/tests/src/x.rs"));
        assert!(!is_source("crates/engine/src/notes.md"));
        assert!(!is_source("sdk/engine/src/lib.rs"));
    }

    #[test]
    fn the_tree_of_this_project_holds_its_hidden_folders_and_not_what_git_ignores() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        let tree = Tree::read(root).unwrap();
        assert!(tree.has("crates/xtask/src/house/tree.rs"));
        assert!(tree.has(".cargo/config.toml"));
        assert!(!tree.has(".git"));
        assert!(!tree.has("target"));
    }
}
