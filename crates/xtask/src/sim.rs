//! `cargo xtask sim`: the deterministic simulator, with its arguments passed on.

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;

use crate::members;
use crate::place::Workspace;
use crate::process::{cargo, run};

/// Run the simulator: the real engine and hub with a simulated clock, disk and network
///
/// Without a seed it tries one after another until the minutes are over. When a promise is
/// broken it prints the seed; the same seed on the same code tells the same story:
///
///     cargo xtask sim --minutes 10
///     cargo xtask sim --seed 1234
///
/// Every argument goes to the simulator; `cargo xtask sim -- --help` lists them.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Sim {
    /// Arguments for the simulator, such as `--seed N` or `--minutes M`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    arguments: Vec<String>,
}

impl Sim {
    /// The short runs that are part of every full test, of one broker and of a group: the same seeds each time, so that
    /// a commit passes always or never.
    pub(crate) const SHORT: [&str; 2] = ["--from 0 --worlds 2500", "--cluster --from 0 --worlds 500"];

    pub(crate) fn short(arguments: &str) -> Self {
        Self { arguments: arguments.split(' ').map(String::from).collect() }
    }

    pub(crate) fn run(self, place: &Workspace) -> Result<ExitCode> {
        self.simulate(place)?;
        Ok(ExitCode::SUCCESS)
    }

    pub(crate) fn simulate(self, place: &Workspace) -> Result<()> {
        if !members::has(&place.root, "sim") {
            bail!("there is no simulator in this tree: crates/sim is missing");
        }
        // A debug build simulates too few worlds a minute to find anything.
        run(cargo(&place.root)
            .args(["run", "--release", "--package", "tenure-sim", "--"])
            .args(self.arguments))
    }
}
