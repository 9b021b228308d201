//! Installs packages of the system, where that is ours to do.

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::process::{ask, program, run};

/// Installs `packages` as root on a system with apt; otherwise says what the reader has to install.
pub(super) fn install(packages: &[&str]) -> Result<()> {
    let here = Path::new("/");
    let wanted = packages.join(" ");
    if ask(program("apt-get", here).arg("--version")).is_none() {
        bail!("please install {wanted} with this system's package manager");
    }
    if ask(program("id", here).arg("-u")).as_deref() != Some("0") {
        bail!("please run: sudo apt-get install {wanted}");
    }
    let mut install = program("apt-get", here);
    install.args(["install", "--yes", "--quiet", "--no-install-recommends"]).args(packages);
    install.env("DEBIAN_FRONTEND", "noninteractive");
    if run(&mut install).is_ok() {
        return Ok(());
    }
    // The usual reason is a list of packages that is older than what the mirrors hold.
    run(program("apt-get", here).args(["update", "--quiet"])).context("cannot renew the list of packages")?;
    run(&mut install).with_context(|| format!("cannot install {wanted}"))
}
