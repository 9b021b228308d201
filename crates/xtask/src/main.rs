//! `cargo xtask <verb>`: the tasks of a contributor.
//!
//! One file per verb: [`check`], [`test`], [`sim`], [`bench`], [`dist`], [`features`], [`house`], [`pictures`],
//! [`python`], [`site`] and [`third_party`]. They share [`steps`] (named, timed pieces of work that say how to repeat them),
//! [`process`] (child processes) and [`place`] (the folders).

#![warn(clippy::too_many_lines)]

mod bench;
mod check;
mod dist;
mod features;
mod glibc;
mod house;
mod members;
mod pictures;
mod place;
mod process;
mod python;
mod sim;
mod site;
mod steps;
mod tally;
mod test;
mod third_party;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::place::Workspace;

/// Everything a contributor to Tenure runs, in one place.
///
/// The usual day: `cargo xtask check` while writing, `cargo xtask test --quick` before a commit,
/// `cargo xtask test` before a push. The last one is also all that the continuous integration runs.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Check(check::Check),
    Test(test::Test),
    Sim(sim::Sim),
    Bench(bench::Bench),
    Dist(dist::Dist),
    Features(features::Features),
    House(house::House),
    Pictures(pictures::Pictures),
    Python(python::Python),
    Site(site::Site),
    ThirdParty(third_party::Prepare),
}

fn main() -> ExitCode {
    let verb = Cli::parse().verb;
    let outcome = Workspace::find().and_then(|place| match verb {
        Verb::Check(check) => check.run(&place),
        Verb::Test(test) => test.run(&place),
        Verb::Sim(sim) => sim.run(&place),
        Verb::Bench(bench) => bench.run(&place),
        Verb::Dist(dist) => dist.run(&place),
        Verb::Features(features) => features.run(&place),
        Verb::House(house) => house.run(&place),
        Verb::Pictures(pictures) => pictures.run(&place),
        Verb::Python(python) => python.run(&place),
        Verb::Site(site) => site.run(&place),
        Verb::ThirdParty(third_party) => third_party.run(&place),
    });
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Cli;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
