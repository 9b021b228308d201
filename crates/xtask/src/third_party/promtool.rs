//! promtool, which checks metrics and alert rules. The package has a server as well, which must not be started, so only
//! the one program is taken out of it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::stamp::Stamp;
use crate::process::{ask, program, run};

/// Returns the program; `None` on a system that has no such package, where its test is skipped.
pub(super) fn prepare(folder: &Path) -> Result<Option<PathBuf>> {
    let here = Path::new("/");
    if let Some(found) = ask(program("sh", here).args(["-c", "command -v promtool"])) {
        return Ok(Some(found.into()));
    }
    let promtool = folder.join("usr/bin/promtool");
    let stamp = Stamp::new(folder, "apt", "prometheus");
    if stamp.matches() {
        return Ok(Some(promtool));
    }
    if ask(program("apt-get", here).arg("--version")).is_none() {
        println!("promtool is not installed, so the alert rules are not checked");
        return Ok(None);
    }
    stamp.clear()?;
    let download = || run(program("apt-get", folder).args(["download", "--quiet", "prometheus"]));
    if download().is_err() {
        // The usual reason is a list of packages that is older than what the mirrors hold.
        run(program("apt-get", here).args(["update", "--quiet"]))
            .context("cannot renew the list of packages")?;
        download().context("cannot download the package prometheus")?;
    }
    let mut entries = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    let Some(package) = entries.find(|path| path.extension().is_some_and(|kind| kind == "deb")) else {
        bail!("the package prometheus is downloaded, but not found");
    };
    run(program("dpkg-deb", folder).arg("--extract").arg(&package).arg("."))?;
    fs::remove_file(&package)?;
    if !promtool.exists() {
        bail!("the package prometheus has no promtool");
    }
    stamp.put()?;
    Ok(Some(promtool))
}
