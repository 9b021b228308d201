//! `tenure`: the broker and everything a person types around it.
//!
//! `serve` joins hub and doors into a broker. Every other verb is a client of a running broker, or looks after files
//! while none runs. `args.rs` says what can be typed, `exit.rs` what the program answers with, `config/` what the broker
//! is told, `output/` how things are shown, and `verbs/` has one file for each verb.

mod args;
mod bench;
mod config;
mod demo;
mod exit;
mod key;
mod output;
mod own;
mod serve;
mod signals;
mod units;
mod verbs;
mod work;

use std::process::ExitCode;

use clap::error::ErrorKind;

use args::Cli;

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
    match verbs::run(cli) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            if !failure.message.is_empty() {
                // It may quote what others have sent.
                output::remark(format!("tenure: {}", output::text::harmless_lines(&failure.message)));
            }
            ExitCode::from(failure.code)
        }
    }
}
