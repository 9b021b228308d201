//! `redis-cli` and `redis-benchmark` as third-party clients of the RESP door, and `redis-server` to compare answers
//! with.

use std::path::Path;

use anyhow::{Result, bail};

use super::apt;
use crate::process::{ask, program};

pub(super) fn prepare(root: &Path) -> Result<()> {
    let missing = |root: &Path| -> Vec<&str> {
        let programs = ["redis-cli", "redis-server"];
        programs.into_iter().filter(|name| ask(program(name, root).arg("--version")).is_none()).collect()
    };
    if missing(root).is_empty() {
        return Ok(());
    }
    apt::install(&["redis-server", "redis-tools"])?;
    let still = missing(root);
    if !still.is_empty() {
        bail!("installed, but not found: {}", still.join(", "));
    }
    Ok(())
}
