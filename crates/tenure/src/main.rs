//! `tenure`: the broker and its command-line tools.
//!
//! `serve` joins hub and doors into a broker. Every other subcommand is a client of a running broker, or works on
//! its files while none runs. `args.rs` defines the command line, `exit.rs` the exit codes, `config/` the broker's
//! configuration, `output/` the output formats, and `verbs/` has one file for each subcommand.

#![warn(clippy::too_many_lines)]

mod args;
mod bench;
mod config;
mod demo;
mod exit;
mod key;
mod output;
#[cfg(test)]
mod page_examples;
mod resource_args;
mod serve;
mod signals;
mod spawned;
mod units;
mod verbs;
mod work;

use std::process::ExitCode;

use clap::error::ErrorKind;

use args::{Cli, ReadError};
use exit::Outcome;

/// The hub frees what its doors allocate, many at a time: docs/decisions/0006-allocator.md.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match Cli::read() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are answers, not errors.
            let asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            let _ = error.print();
            return ExitCode::from(if asked { exit::OK } else { exit::USAGE });
        }
    };
    let cli = match cli.with_job() {
        Ok(cli) => cli,
        Err(ReadError::Usage(error)) => {
            let _ = error.print();
            return ExitCode::from(exit::USAGE);
        }
        Err(ReadError::Job(failure)) => return ended(Err(failure)),
    };
    ended(verbs::run(cli))
}

fn ended(outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            if !failure.message.is_empty() {
                // It may quote what others have sent.
                output::last_words(&format!("tenure: {}", failure.message));
            }
            ExitCode::from(failure.code)
        }
    }
}
