//! Rule: the engine, the schedules, the topics and the stored keys use no clock, disk, network, runtime, randomness or logging.
//!
//! Their dependencies were chosen without these, but the standard library has them. Time is an argument, and the same
//! arguments always lead to the same state: replay and simulation depend on it.

use super::Breach;
use super::rust_paths::mentions;
use super::tree::Tree;

const PURE: [&str; 4] =
    ["crates/engine/src/", "crates/keyspace/src/", "crates/schedules/src/", "crates/topics/src/"];

/// Paths and why they are not for the pure crates. `time::…` is what is left after `use std::time;`.
const IMPURE: [(&str, &str); 10] = [
    ("std::time::Instant", "time comes in as an argument"),
    ("std::time::SystemTime", "time comes in as an argument"),
    ("std::time::*", "name what is used: of the time only `Duration` is pure"),
    ("time::Instant", "time comes in as an argument"),
    ("time::SystemTime", "time comes in as an argument"),
    ("std::fs", "files are the store's"),
    ("std::net", "the network is for the doors"),
    ("tokio", "nothing is awaited here"),
    ("rand", "the same input gives the same state"),
    ("tracing", "events report what happened"),
];

pub(super) fn breaches(tree: &Tree) -> Vec<Breach> {
    let mut found = Vec::new();
    for (path, text) in tree.sources().filter(|(path, _)| PURE.iter().any(|pure| path.starts_with(pure))) {
        for mention in mentions(text) {
            if let Some((impure, why)) = IMPURE.iter().find(|(impure, _)| *impure == mention.path) {
                let what = format!("`{impure}` in a pure crate: {why}");
                found.push(Breach { path: path.to_owned(), line: mention.line, what });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, code: &str) -> Vec<String> {
        breaches(&Tree::of(&[(path, code)])).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_way_to_reach_the_outside_is_a_breach() {
        for code in [
            "use std::time::Instant;",
            "use std::time::{Duration, SystemTime};",
            "use std::time::*;",
            "use std::time; fn a() -> time::Instant { time::Instant::now() }",
            "use std::{collections::BTreeMap, fs};",
            "fn a() { std::fs::write(b, c) }",
            "use std::net::TcpStream;",
            "use tokio::sync::mpsc;",
            "#[tokio::test]",
            "let n = rand::random();",
            "tracing::warn!(x);",
        ] {
            assert!(!found("crates/engine/src/a.rs", code).is_empty(), "{code}");
            assert!(!found("crates/topics/src/a/b.rs", code).is_empty(), "{code}");
            assert!(!found("crates/keyspace/src/a.rs", code).is_empty(), "{code}");
            assert!(found("crates/hub/src/a.rs", code).is_empty(), "{code}");
        }
    }

    #[test]
    fn pure_code_may_speak_of_what_it_does_without() {
        let code = "//! No tokio, no tracing, no std::fs.\nuse std::time::Duration;\nlet operand = net;\n\
                    struct Instantly; // rand\nlet word = \"tokio\";";
        assert_eq!(found("crates/engine/src/a.rs", code), Vec::<String>::new());
    }

    #[test]
    fn a_breach_says_where_and_why() {
        assert_eq!(
            found("crates/engine/src/a.rs", "//! A.\nuse std::fs;\n"),
            ["crates/engine/src/a.rs:2: `std::fs` in a pure crate: files are the store's"]
        );
    }
}
