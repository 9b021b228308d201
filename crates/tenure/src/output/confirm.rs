//! Asking before many things are changed at once.

use std::io::{self, BufRead, IsTerminal, Write};

use crate::exit::Failure;

/// Goes on only if the person says yes. Without a terminal there is nobody to ask, so `--yes` is needed.
pub(crate) fn confirm(question: &str) -> Result<bool, Failure> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return Err(Failure::usage(format!(
            "{question}: nobody is here to confirm it; add --yes, or look first with --dry-run"
        )));
    }
    let mut out = io::stderr().lock();
    write!(out, "{question}? [y/N] ")?;
    out.flush()?;
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
