//! Rule: every source file begins with a `//!` line that says what it is for.

use super::Breach;
use super::tree::Tree;

pub(super) fn breaches(tree: &Tree) -> Vec<Breach> {
    let silent = |text: &str| !text.lines().next().is_some_and(|first| first.starts_with("//! "));
    let breach = |path: &str| Breach {
        path: path.to_owned(),
        line: 1,
        what: "begin with a `//!` line that says what this file is for".to_owned(),
    };
    tree.sources().filter(|(_, text)| silent(text)).map(|(path, _)| breach(path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_says_nothing_first_is_a_breach() {
        let tree = Tree::of(&[
            ("crates/a/src/good.rs", "//! Good.\nfn a() {}\n"),
            ("crates/a/src/late.rs", "use a;\n//! Late.\n"),
            ("crates/a/src/mute.rs", "//!\n"),
            ("crates/a/src/void.rs", ""),
            ("crates/a/tests/free.rs", "fn a() {}\n"),
        ]);
        let found: Vec<String> = breaches(&tree).into_iter().map(|breach| breach.path).collect();
        assert_eq!(found, ["crates/a/src/late.rs", "crates/a/src/mute.rs", "crates/a/src/void.rs"]);
    }
}
