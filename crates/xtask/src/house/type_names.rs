//! Rule: a type name belongs to one crate, unless the glossary lists it as shared.
//!
//! The rule covers types that a library crate shares between its files (`pub`, `pub(crate)`, `pub(super)`). Names
//! that are private to a file are as local as variables, and no crate depends on the programs. A type of `tenure-wire`
//! may have the name of the engine's, the hub's or the topics' type that it carries.

use std::collections::BTreeMap;

use super::Breach;
use super::tree::Tree;

const GLOSSARY: &str = "docs/glossary.md";
const HEADING: &str = "## Type names that several crates use";
/// Programs: their types are not seen by other crates.
const PROGRAMS: [&str; 3] = ["tenure", "sim", "xtask"];
/// The crate whose types carry those of others to a peer. Its macros declare them, so they are indented.
const WIRE: &str = "wire";
const CARRIED: [&str; 3] = ["engine", "hub", "topics"];

pub(super) fn breaches(tree: &Tree) -> Vec<Breach> {
    let mut declared: BTreeMap<&str, Vec<(&str, &str, usize)>> = BTreeMap::new();
    for (path, text) in tree.sources() {
        let Some(name) = path.split('/').nth(1).filter(|name| !PROGRAMS.contains(name)) else { continue };
        for (index, line) in text.lines().enumerate() {
            let line = if name == WIRE { line.trim_start() } else { line };
            if let Some(type_name) = shared_type(line) {
                declared.entry(type_name).or_default().push((name, path, index + 1));
            }
        }
    }
    let glossary = tree.text(GLOSSARY).unwrap_or_default();
    let listed = listed(glossary);
    let mut found = Vec::new();
    for (type_name, places) in &declared {
        if !is_in_several_crates(places)
            || is_carried(places)
            || listed.iter().any(|(name, _)| name == type_name)
        {
            continue;
        }
        for (own, path, line) in places {
            let others: Vec<&str> =
                places.iter().filter(|(other, ..)| other != own).map(|(_, path, _)| *path).collect();
            let what = format!(
                "`{type_name}` is a type in {} as well: rename one, or list it in {GLOSSARY}",
                others.join(", ")
            );
            found.push(Breach { path: (*path).to_owned(), line: *line, what });
        }
    }
    for (name, line) in listed {
        if !declared.get(name).is_some_and(|places| is_in_several_crates(places)) {
            let what = format!("`{name}` is not a type of several crates any more");
            found.push(Breach { path: GLOSSARY.to_owned(), line, what });
        }
    }
    found
}

fn is_in_several_crates(places: &[(&str, &str, usize)]) -> bool {
    places.iter().any(|(name, ..)| *name != places[0].0)
}

/// Whether these are a type of one crate and the type of the wire that carries it.
fn is_carried(places: &[(&str, &str, usize)]) -> bool {
    let mut others = places.iter().map(|(name, ..)| *name).filter(|name| *name != WIRE);
    let Some(first) = others.next() else { return false };
    CARRIED.contains(&first) && others.all(|name| name == first)
}

/// The name of the type that this line declares, if other files can see it. Items inside of others are indented.
fn shared_type(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("pub")?;
    let rest = match rest.strip_prefix('(') {
        Some(scope) => scope.split_once(')')?.1,
        None => rest,
    };
    let rest = rest.strip_prefix(' ')?;
    let name = ["struct ", "enum ", "trait ", "type "].iter().find_map(|word| rest.strip_prefix(word))?;
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
    Some(&name[..end])
}

/// The names in the glossary's list, each with its line.
fn listed(glossary: &str) -> Vec<(&str, usize)> {
    let lines = glossary.lines().enumerate().skip_while(|(_, line)| *line != HEADING).skip(1);
    let section = lines.take_while(|(_, line)| !line.starts_with("## "));
    section
        .filter_map(|(index, line)| Some((line.strip_prefix("| `")?.split_once('`')?.0, index + 1)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        breaches(&Tree::of(files)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_type_name_in_two_crates_is_a_breach_at_both_places() {
        let files =
            [("crates/a/src/x.rs", "pub struct Place;"), ("crates/b/src/y.rs", "\npub(crate) enum Place {}")];
        let found = found(&files);
        assert_eq!(found.len(), 2);
        assert_eq!(
            found[1],
            "crates/b/src/y.rs:2: `Place` is a type in crates/a/src/x.rs as well: rename one, or list it in docs/glossary.md"
        );
    }

    #[test]
    fn what_is_private_or_in_one_crate_or_in_a_program_is_fine() {
        let files = [
            ("crates/a/src/x.rs", "pub struct Place;"),
            ("crates/a/src/z.rs", "pub type Place = u8;"),
            ("crates/b/src/y.rs", "struct Place;\nmod m {\n    pub struct Place;\n}"),
            ("crates/tenure/src/main.rs", "pub struct Place;"),
            ("crates/b/tests/y.rs", "pub struct Place;"),
        ];
        assert_eq!(found(&files), Vec::<String>::new());
    }

    #[test]
    fn types_inside_the_macros_of_wire_are_seen() {
        let files = [
            ("crates/wire/src/x.rs", "message! {\n    /// A place.\n    pub struct Place {\n    }\n}"),
            ("crates/store/src/y.rs", "pub struct Place;"),
        ];
        assert_eq!(found(&files).len(), 2);
    }

    #[test]
    fn a_type_of_wire_may_have_the_name_of_what_it_carries() {
        for carried in ["engine", "hub", "topics"] {
            let path = format!("crates/{carried}/src/y.rs");
            let files =
                [("crates/wire/src/x.rs", "    pub struct Place {"), (path.as_str(), "pub struct Place;")];
            assert_eq!(found(&files), Vec::<String>::new());
        }
        let files = [
            ("crates/wire/src/x.rs", "    pub struct Place {"),
            ("crates/engine/src/y.rs", "pub struct Place;"),
            ("crates/hub/src/y.rs", "pub struct Place;"),
        ];
        assert_eq!(found(&files).len(), 3, "two types of the same name cannot both be what it carries");
    }

    #[test]
    fn the_glossary_lists_what_is_shared_and_nothing_else() {
        let glossary = "# Glossary\n\n## Type names that several crates use\n\n| name | why |\n|---|---|\n| `Place` | x |\n| `Gone` | y |\n";
        let files = [
            ("docs/glossary.md", glossary),
            ("crates/a/src/x.rs", "pub struct Place;"),
            ("crates/b/src/y.rs", "pub struct Place<T>(T);"),
        ];
        assert_eq!(found(&files), ["docs/glossary.md:8: `Gone` is not a type of several crates any more"]);
    }
}
