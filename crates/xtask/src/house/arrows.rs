//! Rule: crates depend on each other only along the arrows of the architecture.
//!
//! ```text
//! engine ← store ← hub ← door-kit ← door-*        topics ← hub        wire ← door-msgpack, client
//! ```
//!
//! Crates exist so that the compiler enforces their boundaries; a missing arrow is such a boundary. Tests may use any
//! crate: dev-dependencies are free. So are crates without an entry here.

use toml::{Table, Value};

use super::Breach;
use super::tree::Tree;

pub(super) fn breaches(tree: &Tree) -> Vec<Breach> {
    let mut found = Vec::new();
    for (path, text) in tree.texts().filter(|(path, _)| is_manifest(path)) {
        let breach = |line, what| Breach { path: path.to_owned(), line, what };
        let Ok(manifest) = text.parse::<Table>() else {
            found.push(breach(1, "this manifest is no TOML".to_owned()));
            continue;
        };
        let Some(name) =
            manifest.get("package").and_then(|package| package.get("name")).and_then(Value::as_str)
        else {
            found.push(breach(1, "this manifest names no package".to_owned()));
            continue;
        };
        let Some(allowed) = allowed(name) else { continue };
        for (key, package) in dependencies(&manifest) {
            if is_ours(&package) && !allowed.contains(&package.as_str()) {
                let may = if allowed.is_empty() { "no crate of ours".to_owned() } else { allowed.join(", ") };
                found.push(breach(
                    line_of(text, &key),
                    format!("{name} may depend on {may}, not on {package}"),
                ));
            }
        }
    }
    found
}

/// Which crates of ours a crate may depend on. `None`: any.
fn allowed(package: &str) -> Option<&'static [&'static str]> {
    match package {
        "tenure-schedules" | "tenure-topics" | "tenure-keyspace" | "tenure-wire" | "tenure-plans" => {
            Some(&[])
        }
        "tenure-engine" => Some(&["tenure-schedules"]),
        "tenure-store" => Some(&["tenure-engine"]),
        "tenure-hub" => Some(&["tenure-engine", "tenure-store", "tenure-topics", "tenure-keyspace"]),
        "tenure-journal-postgres" => Some(&["tenure-store"]),
        "tenure-client" => Some(&["tenure-wire"]),
        "tenure-python" => Some(&["tenure-client"]),
        "tenure-door-kit" | "tenure-outbound" => Some(&["tenure-hub"]),
        "tenure-door-msgpack" => Some(&["tenure-hub", "tenure-door-kit", "tenure-wire"]),
        "tenure-door-resp" => Some(&["tenure-hub", "tenure-door-kit", "tenure-plans"]),
        door if door.starts_with("tenure-door-") => Some(&["tenure-hub", "tenure-door-kit"]),
        _ => None,
    }
}

/// Everything a crate is built with: the key in the manifest, and the package behind it.
fn dependencies(manifest: &Table) -> Vec<(String, String)> {
    let mut tables: Vec<&Table> = vec![manifest];
    if let Some(targets) = manifest.get("target").and_then(Value::as_table) {
        tables.extend(targets.values().filter_map(Value::as_table));
    }
    let mut found = Vec::new();
    for table in tables {
        for section in ["dependencies", "build-dependencies"] {
            let Some(entries) = table.get(section).and_then(Value::as_table) else { continue };
            for (key, entry) in entries {
                // A dependency can be renamed.
                let package = entry.get("package").and_then(Value::as_str).unwrap_or(key);
                found.push((key.clone(), package.to_owned()));
            }
        }
    }
    found
}

fn is_manifest(path: &str) -> bool {
    let is_member = path.starts_with("crates/") || path.starts_with("sdk/");
    is_member && path.ends_with("/Cargo.toml") && path.split('/').count() == 3
}

fn is_ours(package: &str) -> bool {
    package == "tenure" || package.starts_with("tenure-")
}

fn line_of(text: &str, key: &str) -> usize {
    text.lines().position(|line| line.trim_start().starts_with(key)).map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(package: &str, rest: &str) -> Vec<String> {
        let manifest = format!("[package]\nname = \"{package}\"\n{rest}");
        let tree = Tree::of(&[("crates/x/Cargo.toml", &manifest)]);
        breaches(&tree).into_iter().map(|breach| breach.what).collect()
    }

    fn depends(package: &str, on: &str) -> Vec<String> {
        found(package, &format!("[dependencies]\nbytes = \"1\"\n{on}.workspace = true\n"))
    }

    #[test]
    fn every_arrow_that_is_drawn_holds() {
        for (from, to) in [
            ("tenure-store", "tenure-engine"),
            ("tenure-hub", "tenure-engine"),
            ("tenure-hub", "tenure-store"),
            ("tenure-hub", "tenure-topics"),
            ("tenure-client", "tenure-wire"),
            ("tenure-journal-postgres", "tenure-store"),
            ("tenure-door-msgpack", "tenure-hub"),
            ("tenure-door-msgpack", "tenure-wire"),
            ("tenure-door-resp", "tenure-hub"),
            ("tenure-door-resp", "tenure-plans"),
            ("tenure-door-kit", "tenure-hub"),
            ("tenure-door-of-tomorrow", "tenure-door-kit"),
            ("tenure-door-of-tomorrow", "tenure-hub"),
            ("tenure", "tenure-door-resp"),
            ("tenure-sim", "tenure-engine"),
            ("xtask", "tenure-engine"),
        ] {
            assert_eq!(depends(from, to), Vec::<String>::new(), "{from} → {to}");
        }
    }

    #[test]
    fn every_other_arrow_is_a_breach() {
        for (from, to) in [
            ("tenure-engine", "tenure-topics"),
            ("tenure-topics", "tenure-engine"),
            ("tenure-wire", "tenure-engine"),
            ("tenure-store", "tenure-hub"),
            ("tenure-hub", "tenure-door-resp"),
            ("tenure-hub", "tenure-wire"),
            ("tenure-client", "tenure-hub"),
            ("tenure-python", "tenure-wire"),
            ("tenure-client", "tenure-engine"),
            ("tenure-door-resp", "tenure-wire"),
            ("tenure-door-resp", "tenure-door-zmq"),
            ("tenure-door-resp", "tenure-engine"),
            ("tenure-door-kit", "tenure-door-resp"),
            ("tenure-door-kit", "tenure-store"),
            ("tenure-door-msgpack", "tenure-store"),
            ("tenure-door-msgpack", "tenure"),
        ] {
            assert_eq!(depends(from, to).len(), 1, "{from} → {to}");
        }
        assert_eq!(
            depends("tenure-door-resp", "tenure-engine"),
            [
                "tenure-door-resp may depend on tenure-hub, tenure-door-kit, tenure-plans, not on tenure-engine"
            ]
        );
    }

    #[test]
    fn an_arrow_cannot_hide() {
        let renamed = "[dependencies]\ncore = { package = \"tenure-store\", path = \"../store\" }\n";
        assert_eq!(found("tenure-engine", renamed).len(), 1);
        let table = "[dependencies.tenure-store]\npath = \"../store\"\n";
        assert_eq!(found("tenure-engine", table).len(), 1);
        let for_a_target = "[target.'cfg(unix)'.dependencies]\ntenure-store = { path = \"../store\" }\n";
        assert_eq!(found("tenure-engine", for_a_target).len(), 1);
        let for_the_build = "[build-dependencies]\ntenure-store = { path = \"../store\" }\n";
        assert_eq!(found("tenure-engine", for_the_build).len(), 1);
    }

    #[test]
    fn tests_may_depend_on_anything() {
        assert_eq!(
            found("tenure-engine", "[dev-dependencies]\ntenure-sim.workspace = true\n"),
            Vec::<String>::new()
        );
    }
}
