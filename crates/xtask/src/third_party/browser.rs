//! A browser, in which a test uses the dashboard as a person does.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::apt;
use crate::process::{ask, program};

/// The names that systems give to Chromium.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Returns the browser's program.
pub(super) fn prepare() -> Result<PathBuf> {
    let here = Path::new("/");
    let find = || {
        let path = |name: &&str| ask(program("sh", here).args(["-c", &format!("command -v {name}")]));
        NAMES.iter().find_map(path)
    };
    if let Some(found) = find() {
        return Ok(found.into());
    }
    apt::install(&["chromium"])?;
    match find() {
        Some(found) => Ok(found.into()),
        None => bail!("chromium is installed, but not found"),
    }
}
