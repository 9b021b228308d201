//! Rule: the tree contains no path of a developer's machine and no host of a package registry.
//!
//! Both work only on the author's machine. The words are split here, because this file must keep the rule as well.

use super::Breach;
use super::tree::Tree;

/// Folders right under the root of a file system in which people and machines work.
const MACHINE_FOLDERS: [&str; 2] = ["work", "root"];

/// Hosts that serve packages, and the path under which mirrors do. Which of them is asked is for each machine's own
/// settings.
const REGISTRY_HOSTS: [&str; 7] = [
    concat!("index.", "crates.io"),
    concat!("static.", "crates.io"),
    concat!("registry.", "npmjs.org"),
    concat!("registry.", "yarnpkg.com"),
    concat!("pypi.org", "/simple"),
    concat!("files.", "pythonhosted.org"),
    concat!("/artifact", "ory/"),
];

pub(super) fn breaches(tree: &Tree) -> Vec<Breach> {
    let folders: Vec<String> = MACHINE_FOLDERS.iter().map(|name| format!("/{name}/")).collect();
    let mut found = Vec::new();
    for (path, text) in tree.texts() {
        for (index, line) in text.lines().enumerate() {
            let mut breach =
                |what: String| found.push(Breach { path: path.to_owned(), line: index + 1, what });
            for folder in folders.iter().filter(|folder| names_folder(line, folder)) {
                breach(format!("`{folder}…` is a path of one machine"));
            }
            for host in REGISTRY_HOSTS.iter().filter(|host| line.contains(**host)) {
                breach(format!("`{host}` is a package registry; leave it to each machine's settings"));
            }
        }
    }
    found
}

/// Whether the line names this folder from the root, and not one deeper down such as `src/<folder>/`.
fn names_folder(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| {
            c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '~' | '}' | ')' | '>' | '*')
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        breaches(&Tree::of(&[("a.md", text)])).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_path_of_one_machine_is_a_breach_wherever_it_stands() {
        for before in ["", "see ", "`", "(", "\"", "file://", "path="] {
            let line = format!("{before}/{}/main/x.rs", MACHINE_FOLDERS[0]);
            assert_eq!(found(&line).len(), 1, "{line}");
        }
    }

    #[test]
    fn a_folder_of_that_name_elsewhere_is_fine() {
        for before in ["src", "$HOME", "~", "..", "${ROOT}", "<dir>", "https://example.org"] {
            let line = format!("{before}/{}/x", MACHINE_FOLDERS[0]);
            assert_eq!(found(&line), Vec::<String>::new(), "{line}");
        }
        assert_eq!(found("the root/leaf order of work"), Vec::<String>::new());
    }

    #[test]
    fn a_registry_host_is_a_breach_with_its_line() {
        let line = format!("\"resolved\": \"https://{}/x.tgz\"", REGISTRY_HOSTS[2]);
        let found = found(&format!("one\n{line}\n"));
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("a.md:2: "), "{}", found[0]);
    }

    #[test]
    fn the_lock_file_of_cargo_and_a_link_to_a_crate_are_fine() {
        let lock = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";
        assert_eq!(found(&format!("{lock}\nhttps://crates.io/crates/clap\n")), Vec::<String>::new());
    }
}
