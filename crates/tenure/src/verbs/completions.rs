//! `tenure completions`: prints a shell's completion script.

use std::io::Write;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::args::Cli;
use crate::exit::{OK, Outcome};

/// Generate shell completions
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tenure completions bash > ~/.local/share/bash-completion/completions/tenure
  tenure completions zsh > ~/.zfunc/_tenure
  tenure completions fish > ~/.config/fish/completions/tenure.fish")]
pub(crate) struct Completions {
    /// Shell to complete for
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self) -> Outcome {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "tenure", &mut script);
        std::io::stdout().write_all(&script)?;
        Ok(OK)
    }
}
