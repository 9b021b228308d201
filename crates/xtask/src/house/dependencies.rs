//! Rule: every dependency that a manifest names is named in the sources it is for.
//!
//! A dependency that no source names is built for nothing. A macro or a feature can use a crate without its name in the
//! sources; we have no such case.

use std::collections::BTreeSet;

use toml::{Table, Value};

use super::Breach;
use super::tree::Tree;

const WORKSPACE: &str = "Cargo.toml";

pub(super) fn breaches(tree: &Tree) -> Vec<Breach> {
    let mut found = Vec::new();
    let mut wanted = BTreeSet::new();
    for (path, text) in tree.texts().filter(|(path, _)| path.ends_with("/Cargo.toml")) {
        let Ok(manifest) = text.parse::<Table>() else { continue };
        let folder = path.trim_end_matches("Cargo.toml");
        for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
            for key in keys(&manifest, &[section]) {
                if !is_named(tree, folder, section, &key) {
                    let what = format!("no source uses `{key}` of [{section}]");
                    found.push(Breach { path: path.to_owned(), line: line_of(text, &key), what });
                }
                wanted.insert(key);
            }
        }
    }
    let text = tree.text(WORKSPACE).unwrap_or_default();
    let workspace: Table = text.parse().unwrap_or_default();
    for key in keys(&workspace, &["workspace", "dependencies"]) {
        if !wanted.contains(&key) {
            let what = format!("no crate uses `{key}` of [workspace.dependencies]");
            found.push(Breach { path: WORKSPACE.to_owned(), line: line_of(text, &key), what });
        }
    }
    found
}

fn keys(manifest: &Table, path: &[&str]) -> Vec<String> {
    let mut table = manifest;
    for key in path {
        match table.get(*key).and_then(Value::as_table) {
            Some(inner) => table = inner,
            None => return Vec::new(),
        }
    }
    table.keys().cloned().collect()
}

/// Whether a source that is built with this section names the crate.
fn is_named(tree: &Tree, folder: &str, section: &str, key: &str) -> bool {
    let name = key.replace('-', "_");
    let sources = tree.texts().filter_map(|(path, text)| Some((path.strip_prefix(folder)?, text)));
    sources.filter(|(path, _)| path.ends_with(".rs")).any(|(path, text)| {
        let is_read = match section {
            "dependencies" => path != "build.rs",
            "build-dependencies" => path == "build.rs",
            _ => true,
        };
        is_read && has_word(text, &name)
    })
}

/// Whether the name stands alone, and not as a part of a longer word.
fn has_word(text: &str, name: &str) -> bool {
    let is_inner = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(name)
        .any(|(at, _)| !text[..at].ends_with(is_inner) && !text[at + name.len()..].starts_with(is_inner))
}

fn line_of(text: &str, key: &str) -> usize {
    text.lines().position(|line| line.starts_with(key)).map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(source: &str) -> Vec<String> {
        let tree = Tree::of(&[
            ("Cargo.toml", "[workspace.dependencies]\nserde-json = \"1\"\nold = \"1\"\n"),
            (
                "crates/a/Cargo.toml",
                "[package]\n[dependencies]\nserde-json = \"1\"\n[build-dependencies]\ncc = \"1\"\n",
            ),
            ("crates/a/src/lib.rs", source),
            ("crates/a/build.rs", "use cc::Build;"),
            ("crates/b/src/lib.rs", "use serde_json::Value;"),
        ]);
        breaches(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_crate_that_is_named_is_used() {
        assert_eq!(
            found("use serde_json::Value;"),
            ["Cargo.toml:3: no crate uses `old` of [workspace.dependencies]"]
        );
    }

    #[test]
    fn a_crate_that_only_others_name_is_a_breach() {
        let breach = "crates/a/Cargo.toml:3: no source uses `serde-json` of [dependencies]";
        assert_eq!(found("use my_serde_json::Value;")[0], breach);
        assert_eq!(found("use cc::Build;")[0], breach);
    }
}
