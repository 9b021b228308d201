//! `cargo xtask bench`: the benchmarks of one crate, of all that have some, or of the Python SDK.

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;

use crate::members::{Member, members};
use crate::place::Workspace;
use crate::process::{cargo, run};
use crate::python;

/// The name of the Python SDK among the crates.
const PYTHON: &str = "python";

/// Run the benchmarks of one crate, by the name of its folder, or of all
///
/// Compare two runs on the same idle machine. Figures of different machines, or of a busy one, cannot be compared.
///
///     cargo xtask bench
///     cargo xtask bench engine
///     cargo xtask bench engine -- submit    what comes after `--` goes to the benchmark
///     cargo xtask bench python              the Python SDK: figures, floors, and Celery beside them
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Bench {
    /// The crates to measure; all that have benchmarks if none is named
    #[arg(value_name = "CRATE")]
    crates: Vec<String>,
    /// Arguments for the benchmarks themselves
    #[arg(last = true, value_name = "ARGUMENT")]
    arguments: Vec<String>,
}

impl Bench {
    pub(crate) fn run(self, place: &Workspace) -> Result<ExitCode> {
        if self.crates == [PYTHON] {
            return python::bench(place, &self.arguments);
        }
        let all = members(&place.root)?;
        for package in choose(&all, &self.crates)? {
            let mut command = cargo(&place.root);
            // Only the bench targets: the harness of a library's own tests would not know the arguments.
            command.args(["bench", "--package", package, "--bench", "*"]);
            if !self.arguments.is_empty() {
                command.arg("--").args(&self.arguments);
            }
            run(&mut command)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The packages to measure. A name without benchmarks is refused together with the names that have some.
fn choose<'a>(all: &'a [Member], named: &[String]) -> Result<Vec<&'a str>> {
    let with_benches: Vec<&Member> = all.iter().filter(|member| member.has_benches).collect();
    if with_benches.is_empty() {
        bail!("no crate has a benches/ folder yet");
    }
    if named.is_empty() {
        return Ok(with_benches.iter().map(|member| member.package.as_str()).collect());
    }
    let mut chosen = Vec::new();
    for name in named {
        match with_benches.iter().find(|member| member.folder == *name || member.package == *name) {
            Some(member) => chosen.push(member.package.as_str()),
            None => {
                let folders: Vec<&str> = with_benches.iter().map(|member| member.folder.as_str()).collect();
                bail!("{name} has no benchmarks; these have: {}", folders.join(", "));
            }
        }
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(folder: &str, has_benches: bool) -> Member {
        Member { folder: folder.into(), package: format!("tenure-{folder}"), has_benches }
    }

    #[test]
    fn without_a_name_every_crate_with_benchmarks_is_measured() {
        let all = [member("engine", true), member("hub", false), member("store", true)];
        assert_eq!(choose(&all, &[]).unwrap(), ["tenure-engine", "tenure-store"]);
    }

    #[test]
    fn a_crate_goes_by_its_folder_or_its_package() {
        let all = [member("engine", true), member("store", true)];
        let named = ["store".to_owned(), "tenure-engine".to_owned()];
        assert_eq!(choose(&all, &named).unwrap(), ["tenure-store", "tenure-engine"]);
    }

    #[test]
    fn a_crate_without_benchmarks_is_refused_with_the_names_that_have_some() {
        let all = [member("engine", true), member("hub", false)];
        let refusal = choose(&all, &["hub".to_owned()]).unwrap_err().to_string();
        assert_eq!(refusal, "hub has no benchmarks; these have: engine");
    }

    #[test]
    fn a_tree_without_benchmarks_says_so() {
        assert!(choose(&[member("hub", false)], &[]).is_err());
    }
}
