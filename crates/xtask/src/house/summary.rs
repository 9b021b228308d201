//! Rule: `SUMMARY.md`, the table of contents of the documentation site, lists every page.

use std::collections::BTreeSet;

use super::Breach;
use super::markdown::links;
use super::tree::Tree;

const SUMMARY: &str = "SUMMARY.md";

pub(super) fn breaches(tree: &Tree) -> Vec<Breach> {
    let Some(summary) = tree.text(SUMMARY) else { return Vec::new() };
    let listed: BTreeSet<String> = links(summary).into_iter().map(|link| link.target).collect();
    let pages = tree.texts().map(|(path, _)| path).filter(|path| path.ends_with(".md") && *path != SUMMARY);
    pages
        // Templates of a forge are no pages.
        .filter(|path| !path.starts_with('.') && !listed.contains(*path))
        .map(|path| {
            let what = format!("{SUMMARY} does not list this page, so the site does not have it");
            Breach { path: path.to_owned(), line: 1, what }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_is_not_listed_is_a_breach() {
        let tree = Tree::of(&[
            (SUMMARY, "- [A](docs/a.md)\n"),
            ("docs/a.md", ""),
            ("docs/b.md", ""),
            (".github/pull_request_template.md", ""),
        ]);
        let paths: Vec<String> = breaches(&tree).into_iter().map(|breach| breach.path).collect();
        assert_eq!(paths, ["docs/b.md"]);
    }
}
