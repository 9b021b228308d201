//! Asks for confirmation before a change of many things.

use std::io::{self, BufRead, IsTerminal, Write};

use crate::exit::Failure;

/// Continues only if the user says yes. Without a terminal there is no user to ask, so `--yes` is required.
pub(crate) fn confirm(question: &str) -> Result<bool, Failure> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return Err(Failure::usage(format!(
            "{question}: there is no terminal to confirm it; add --yes, or preview with --dry-run"
        )));
    }
    let mut out = io::stderr().lock();
    write!(out, "{question}? [y/N] ")?;
    out.flush()?;
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
