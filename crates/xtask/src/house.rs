//! `cargo xtask house`: rules of the project that the compiler does not check.
//!
//! One file per rule under `house/`. A rule is a pure function from the [`tree::Tree`] to its breaches, so that
//! tests can build a tree of three lines by hand.

mod architecture;
mod arrows;
mod dependencies;
mod length;
mod links;
mod markdown;
mod opening;
mod pictures;
mod places;
mod purity;
mod rust_paths;
mod summary;
mod toolchain;
mod tree;
mod type_names;
mod words;

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;

use crate::place::Workspace;
use tree::Tree;

/// Check the house rules
///
/// - every Rust source under crates/*/src begins with a `//!` line that says what it is for
/// - no file under crates is longer than 600 lines
/// - no path of a developer's machine and no host of a package registry in the tree
/// - Markdown links between files lead somewhere, to the heading as well
/// - crates depend on each other only along the arrows of the architecture
/// - the engine, the schedules, the topics and the stored keys know no clock, disk, network, runtime, randomness or logging
/// - a type name belongs to one crate, unless docs/glossary.md lists it as shared
/// - every file and function that ARCHITECTURE.md or a decision in force names exists
/// - every dependency that a manifest names is used
/// - the toolchain file and `rust-version` name the same version of Rust
/// - SUMMARY.md lists every page
/// - no text leaves open who acts, see crates/xtask/src/house/words.rs
/// - the pictures in docs/pictures are drawn from their texts, and show every crate
///
/// They have no exceptions. A rule that is wrong is changed, in crates/xtask/src/house.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct House {}

impl House {
    pub(crate) fn run(self, place: &Workspace) -> Result<ExitCode> {
        keep(&place.root)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// One place where a rule is broken.
#[derive(Debug, PartialEq, Eq)]
struct Breach {
    path: String,
    /// Counted from 1.
    line: usize,
    what: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

type Rule = fn(&Tree) -> Vec<Breach>;

const RULES: [(&str, Rule); 13] = [
    ("opening", opening::breaches),
    ("length", length::breaches),
    ("places", places::breaches),
    ("links", links::breaches),
    ("arrows", arrows::breaches),
    ("purity", purity::breaches),
    ("type names", type_names::breaches),
    ("architecture", architecture::breaches),
    ("dependencies", dependencies::breaches),
    ("toolchain", toolchain::breaches),
    ("pictures", pictures::breaches),
    ("summary", summary::breaches),
    ("words", words::breaches),
];

/// Prints every breach of every rule; an error if there is any.
pub(crate) fn keep(root: &Path) -> Result<()> {
    let tree = Tree::read(root)?;
    let mut count = 0;
    for (rule, breaches) in RULES {
        for breach in breaches(&tree) {
            println!("{breach} [{rule}]");
            count += 1;
        }
    }
    match count {
        0 => println!("{} files keep the house rules", tree.len()),
        1 => bail!("1 breach of the house rules"),
        count => bail!("{count} breaches of the house rules"),
    }
    Ok(())
}
