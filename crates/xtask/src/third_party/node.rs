//! The Node clients, in a folder that tests put into `NODE_PATH`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::apt;
use super::stamp::Stamp;
use crate::process::{ask, program, run};

const PACKAGE: &str = include_str!("../../third-party/package.json");

/// The oldest Node that the pinned packages say they run on.
const NODE_MAJOR_MIN: u32 = 20;

/// Returns the folder with the installed modules.
pub(super) fn prepare(folder: &Path) -> Result<PathBuf> {
    let here = Path::new("/");
    let present = |name: &str| ask(program(name, here).arg("--version"));
    if present("node").is_none() || present("npm").is_none() {
        apt::install(&["nodejs", "npm"])?;
    }
    let Some(version) = present("node") else { bail!("node is installed, but not found") };
    match major(&version) {
        Some(major) if major >= NODE_MAJOR_MIN => {}
        _ => bail!("node is {version}; the third-party clients need {NODE_MAJOR_MIN} or newer"),
    }

    let modules = folder.join("node_modules");
    let stamp = Stamp::new(folder, &version, PACKAGE);
    if stamp.matches() {
        return Ok(modules);
    }
    stamp.clear()?;
    fs::write(folder.join("package.json"), PACKAGE).context("cannot write the pinned list")?;
    // Install scripts of these packages do not run: none of them needs one to be imported.
    let mut npm = program("npm", folder);
    run(npm.args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock"]))?;
    stamp.put()?;
    Ok(modules)
}

/// `v20.11.1` is 20.
fn major(version: &str) -> Option<u32> {
    version.strip_prefix('v')?.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::major;

    #[test]
    fn the_major_version_is_the_first_number() {
        assert_eq!(major("v20.11.1"), Some(20));
        assert_eq!(major("20"), None);
        assert_eq!(major(""), None);
    }
}
