//! `cargo xtask features`: the broker compiles without each of its doors.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use toml::{Table, Value};

use crate::place::Workspace;
use crate::process::{cargo, run};
use crate::steps::Steps;

/// Lint the binary with no door that can be left out, with each alone, and without each
///
/// Each feature contains a door that a build may leave out, e.g.
/// `cargo build --release --no-default-features --features resp`.
#[derive(Args)]
pub(crate) struct Features {}

impl Features {
    pub(crate) fn run(self, place: &Workspace) -> Result<ExitCode> {
        let mut steps = Steps::default();
        take(&mut steps, place);
        Ok(steps.report())
    }
}

/// The steps, for this verb and for `test`.
pub(crate) fn take(steps: &mut Steps, place: &Workspace) {
    steps.run("features", "cargo xtask features", || {
        let path = place.root.join("crates/tenure/Cargo.toml");
        let manifest = std::fs::read_to_string(&path).context("cannot read the manifest of the binary")?;
        for combination in combinations(&features(&manifest)?) {
            let features = combination.join(",");
            let mut clippy = cargo(&place.root);
            clippy.args(["clippy", "--quiet", "--package", "tenure", "--no-default-features"]);
            run(clippy.args(["--features", &features, "--", "-D", "warnings"]))?;
        }
        Ok(())
    });
}

/// The features of the manifest, but for `default`.
fn features(manifest: &str) -> Result<Vec<String>> {
    let manifest: Table = manifest.parse()?;
    let features =
        manifest.get("features").and_then(Value::as_table).context("the binary has no features")?;
    Ok(features.keys().filter(|name| *name != "default").cloned().collect())
}

/// No feature, each one alone, and all but each one. The ordinary build has all of them.
fn combinations(features: &[String]) -> Vec<Vec<&str>> {
    let alone = features.iter().map(|name| vec![name.as_str()]);
    let without = |left_out| features.iter().filter(|name| *name != left_out).map(String::as_str).collect();
    let mut all: Vec<Vec<&str>> = vec![Vec::new()];
    for combination in alone.chain(features.iter().map(without)) {
        if !all.contains(&combination) {
            all.push(combination);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_feature_is_checked_alone_and_left_out() {
        let manifest = "[features]\ndefault = [\"a\"]\na = []\nb = []\n";
        let features = features(manifest).unwrap();
        assert_eq!(combinations(&features), [vec![], vec!["a"], vec!["b"]]);
        let three = ["a", "b", "c"].map(str::to_owned);
        assert_eq!(combinations(&three).len(), 7);
    }
}
