//! Rule: no file under `crates` is too long.

use super::Breach;
use super::tree::Tree;

const LINES_MAX: usize = 600;

pub(super) fn breaches(tree: &Tree) -> Vec<Breach> {
    let mut found = Vec::new();
    for (path, text) in tree.texts().filter(|(path, _)| path.starts_with("crates/")) {
        let lines = text.lines().count();
        if lines > LINES_MAX {
            let what = format!("{lines} lines, at most {LINES_MAX}: look for the second noun");
            found.push(Breach { path: path.to_owned(), line: LINES_MAX + 1, what });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_a_crate_may_have_600_lines_and_no_more() {
        let (fits, over) = ("x\n".repeat(600), "x\n".repeat(601));
        let tree = Tree::of(&[
            ("crates/a/src/fits.rs", &fits),
            ("crates/a/web/app.js", &over),
            ("Cargo.lock", &over),
        ]);
        let found = breaches(&tree);
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].to_string(),
            "crates/a/web/app.js:601: 601 lines, at most 600: look for the second noun"
        );
    }
}
