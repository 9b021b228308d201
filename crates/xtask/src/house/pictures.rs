//! Rule: the pictures are drawn from the texts beside them, and the picture of the crates shows all of them.

use std::collections::BTreeSet;

use super::Breach;
use super::tree::Tree;
use crate::pictures::{FOLDER, draw};

const CRATES: &str = "docs/pictures/crates.txt";

pub(super) fn breaches(tree: &Tree) -> Vec<Breach> {
    let mut found = Vec::new();
    let sources = tree.texts().filter(|(path, _)| path.starts_with(FOLDER) && path.ends_with(".txt"));
    for (path, text) in sources {
        let drawing = path.replace(".txt", ".svg");
        let what = match draw(text) {
            Err(error) => format!("cannot be drawn: {error:#}"),
            Ok(drawn) if tree.text(&drawing) != Some(&drawn) => {
                format!("{drawing} is out of date; run `cargo xtask pictures`")
            }
            Ok(_) => continue,
        };
        found.push(Breach { path: path.to_owned(), line: 1, what });
    }
    found.extend(tree.text(CRATES).into_iter().flat_map(|text| missing_crates(tree, text)));
    found
}

fn missing_crates(tree: &Tree, text: &str) -> Vec<Breach> {
    let drawn: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("box ")?.split('|').next()?.split_whitespace().last())
        .collect();
    let folders =
        tree.texts().filter_map(|(path, _)| path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml"));
    folders
        .filter(|folder| !drawn.contains(folder))
        .map(|folder| {
            let what =
                format!("crates/{folder} is not in the picture: add a box, then run `cargo xtask pictures`");
            Breach { path: CRATES.to_owned(), line: 1, what }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, drawing: &str) -> Vec<String> {
        let tree = Tree::of(&[
            (CRATES, text),
            ("docs/pictures/crates.svg", drawing),
            ("crates/engine/Cargo.toml", ""),
        ]);
        breaches(&tree).into_iter().map(|breach| breach.what).collect()
    }

    #[test]
    fn a_drawing_that_is_up_to_date_is_fine() {
        let text = "boxes t\nbox 0 0 1 engine | decides\n";
        assert_eq!(found(text, &draw(text).unwrap()), [""; 0]);
    }

    #[test]
    fn an_old_drawing_or_a_missing_crate_is_a_breach() {
        let text = "boxes t\nbox 0 0 1 motor | decides\n";
        let said = found(text, "<svg/>");
        assert!(said[0].contains("crates.svg is out of date"), "{said:?}");
        assert!(said[1].contains("crates/engine is not in the picture"), "{said:?}");
    }
}
