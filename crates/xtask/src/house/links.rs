//! Rule: a Markdown link to a file of the tree leads to a file of the tree, and its anchor to a heading there.

use super::Breach;
use super::markdown::{Link, anchors, links};
use super::tree::Tree;

pub(super) fn breaches(tree: &Tree) -> Vec<Breach> {
    let mut found = Vec::new();
    for (path, text) in tree.texts().filter(|(path, _)| path.ends_with(".md")) {
        for link in links(text) {
            if let Some(what) = complaint(tree, path, &link) {
                found.push(Breach { path: path.to_owned(), line: link.line, what });
            }
        }
    }
    found
}

fn complaint(tree: &Tree, page: &str, link: &Link) -> Option<String> {
    let target = link.target.as_str();
    if leads_outside(target) {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let Some(file) = resolve(page, file) else { return Some(format!("`{target}` leads out of the tree")) };
    if !tree.has(&file) {
        return Some(format!("`{target}` leads nowhere: there is no {file}"));
    }
    // Anchors of other files, such as lines of a source, are for the renderer to know.
    let page_of_ours = file.ends_with(".md") && !anchor.is_empty();
    if page_of_ours && !tree.text(&file).is_some_and(|text| anchors(text).iter().any(|known| known == anchor))
    {
        return Some(format!("`{target}` leads nowhere: {file} has no heading #{anchor}"));
    }
    None
}

/// `https://…`, `mailto:…`
fn leads_outside(target: &str) -> bool {
    target
        .split_once(':')
        .is_some_and(|(scheme, _)| scheme.chars().all(|c| c.is_ascii_alphanumeric() || c == '+'))
}

/// The path from the root; `None` if it climbs out of the tree.
fn resolve(page: &str, target: &str) -> Option<String> {
    if target.is_empty() {
        return Some(page.to_owned());
    }
    let mut parts: Vec<&str> = Vec::new();
    if !target.starts_with('/') {
        parts.extend(page.split('/'));
        parts.pop();
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(page: &str) -> Vec<String> {
        let tree = Tree::of(&[
            ("docs/guide/start.md", page),
            ("docs/glossary.md", "# Glossary\n## Lease\n"),
            ("spec/tasks.md", ""),
            ("src/a.rs", ""),
        ]);
        breaches(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn links_to_what_is_there_are_fine() {
        let page = "# Start\n[a](../glossary.md) [b](../glossary.md#lease) [c](/spec/tasks.md) [d](../../spec) \
                    [e](#start) [f](https://example.org/x.md) [g](mailto:a@example.org) [h](../../src/a.rs#L3) [i](../guide/)";
        assert_eq!(found(page), Vec::<String>::new());
    }

    #[test]
    fn a_missing_file_is_a_breach_with_its_line() {
        assert_eq!(
            found("one\n[a](glossary.md)"),
            ["docs/guide/start.md:2: `glossary.md` leads nowhere: there is no docs/guide/glossary.md"]
        );
    }

    #[test]
    fn a_missing_heading_is_a_breach() {
        assert_eq!(
            found("[a](../glossary.md#tenure)"),
            [
                "docs/guide/start.md:1: `../glossary.md#tenure` leads nowhere: docs/glossary.md has no heading #tenure"
            ]
        );
        assert_eq!(found("[a](#start)").len(), 1);
    }

    #[test]
    fn a_link_out_of_the_tree_is_a_breach() {
        assert_eq!(
            found("[a](../../../x.md)"),
            ["docs/guide/start.md:1: `../../../x.md` leads out of the tree"]
        );
    }
}
