//! `cargo xtask check`: all checks of the tree that do not run it.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::house;
use crate::place::Workspace;
use crate::process::{ask, cargo, run};
use crate::steps::Steps;

/// Check format, lints, house rules and the licences of dependencies
///
/// Nothing is changed. `cargo fmt --all` mends the format; the other complaints name file and line.
#[derive(Args)]
pub(crate) struct Check {}

impl Check {
    pub(crate) fn run(self, place: &Workspace) -> Result<ExitCode> {
        let mut steps = Steps::default();
        take(&mut steps, place);
        Ok(steps.report())
    }
}

/// The steps of a check, for this verb and for `test`.
pub(crate) fn take(steps: &mut Steps, place: &Workspace) {
    let root = &place.root;
    steps.run("rustfmt", "cargo fmt --all --check (mend with: cargo fmt --all)", || {
        run(cargo(root).args(["fmt", "--all", "--check"]))
    });
    steps.run("house rules", "cargo xtask house", || house::keep(root));
    steps.run("clippy", "cargo clippy --workspace --all-targets -- -D warnings", || {
        run(cargo(root).args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
    });
    steps.run("dependencies", "cargo deny check bans licenses sources", || dependencies(place));
}

/// Advisories are left out: they need an external database, and a run must not depend on the current date.
fn dependencies(place: &Workspace) -> Result<()> {
    if ask(cargo(&place.root).args(["deny", "--version"])).is_none() {
        println!("left out: cargo-deny is not installed; `cargo install --locked cargo-deny` installs it");
        return Ok(());
    }
    run(cargo(&place.root).args(["deny", "check", "bans", "licenses", "sources"]))
}
