//! Rule: every file and every function that the architecture page or a decision in force names exists.

use super::Breach;
use super::tree::Tree;

const PAGE: &str = "ARCHITECTURE.md";
const DECISIONS: &str = "docs/decisions/";
const IN_FORCE: &str = "Status: accepted";
/// Folders whose paths are checked.
const FOLDERS: [&str; 6] = ["crates/", "sdk/", "docs/", "spec/", "fuzz/", "packaging/"];

pub(super) fn breaches(tree: &Tree) -> Vec<Breach> {
    let is_checked =
        |path: &str, text: &str| path == PAGE || (path.starts_with(DECISIONS) && text.contains(IN_FORCE));
    let pages = tree.texts().filter(|(path, text)| is_checked(path, text));
    pages.flat_map(|(path, text)| breaches_of(tree, path, text)).collect()
}

fn breaches_of(tree: &Tree, path: &str, text: &str) -> Vec<Breach> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        // Code stands between the first and the second backtick, the third and the fourth, and so on.
        for name in line.split('`').skip(1).step_by(2) {
            let what = if is_path(name) && !tree.has(name.trim_end_matches('/')) {
                format!("there is no `{name}`")
            } else if let Some((type_name, function)) = method(name)
                && !has_method(tree, type_name, function)
            {
                format!("`{type_name}` has no function `{function}`")
            } else {
                continue;
            };
            found.push(Breach { path: path.to_owned(), line: index + 1, what });
        }
    }
    found
}

/// A path without wildcards.
fn is_path(name: &str) -> bool {
    FOLDERS.iter().any(|folder| name.starts_with(folder)) && !name.contains('*')
}

/// The two halves of `Type::function`.
fn method(name: &str) -> Option<(&str, &str)> {
    let (type_name, function) = name.split_once("::")?;
    let is_type = type_name.starts_with(|c: char| c.is_ascii_uppercase());
    let is_function = function.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    (is_type && is_function && !function.is_empty()).then_some((type_name, function))
}

/// Whether a source file has both an `impl` of the type and the function.
fn has_method(tree: &Tree, type_name: &str, function: &str) -> bool {
    let defines = |text: &str| {
        let declaration = format!("fn {function}");
        text.match_indices(&declaration).any(|(at, _)| {
            text[at + declaration.len()..].starts_with(|c: char| !c.is_alphanumeric() && c != '_')
        })
    };
    let implements = |text: &str| {
        let words =
            |line: &str| line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == type_name);
        text.lines().any(|line| line.starts_with("impl") && words(line))
    };
    tree.sources().any(|(_, text)| implements(text) && defines(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: (&str, &str) =
        ("crates/a/src/core.rs", "impl Core {\n    pub fn take(&self) {}\n    fn taken(&self) {}\n}\n");

    fn what(page: &str) -> Vec<String> {
        let tree = Tree::of(&[(PAGE, page), SOURCE]);
        breaches(&tree).into_iter().map(|breach| format!("{}: {}", breach.line, breach.what)).collect()
    }

    #[test]
    fn what_is_there_may_be_named() {
        let page = "`crates/a/src/core.rs`: `Core::take`, in `crates/a/src/` of `crates/*`; `cargo test`, `Why::NoWorker`";
        assert_eq!(what(page), [""; 0]);
    }

    #[test]
    fn decisions_in_force_are_checked_and_others_are_not() {
        let page = |status: &str| format!("Status: {status}\n`crates/gone.rs`");
        let (accepted, superseded) = (page("accepted"), page("superseded by 0002"));
        let tree =
            Tree::of(&[("docs/decisions/0001-a.md", &accepted), ("docs/decisions/0003-b.md", &superseded)]);
        let paths: Vec<String> = breaches(&tree).into_iter().map(|breach| breach.path).collect();
        assert_eq!(paths, ["docs/decisions/0001-a.md"]);
    }

    #[test]
    fn a_file_or_function_that_is_gone_is_found() {
        assert_eq!(what("x\n`crates/a/src/gone.rs`"), ["2: there is no `crates/a/src/gone.rs`"]);
        assert_eq!(what("`Core::tak`"), ["1: `Core` has no function `tak`"]);
        assert_eq!(what("`Other::take`"), ["1: `Other` has no function `take`"]);
    }
}
