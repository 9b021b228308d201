//! The stripped binary, and the archive of it with its pages.

use std::fs;
use std::path::Path;

use anyhow::Result;

use super::files::{copy, copy_folder};
use super::{Release, machine};
use crate::process::{program, run};

/// Files of the repository that every package contains.
pub(super) const DOCUMENTS: [&str; 4] = ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"];

/// Removes debug information. The names of functions stay, so that a backtrace in a bug report can be read.
pub(super) fn strip(release: &Release, built: &Path) -> Result<()> {
    let mut strip = program("strip", &release.root);
    run(strip.args(["--strip-debug", "-o"]).arg(release.binary()).arg(built))
}

pub(super) fn archive(release: &Release) -> Result<()> {
    let name = format!("tenure-{}-{}-linux", release.version, machine().0);
    let folder = release.stage.join(&name);
    copy(&release.binary(), &folder.join("tenure"), 0o755)?;
    for document in DOCUMENTS {
        copy(&release.root.join(document), &folder.join(document), 0o644)?;
    }
    for file in ["tenure.service", "tenure.toml"] {
        copy(&release.root.join("packaging").join(file), &folder.join(file), 0o644)?;
    }
    for generated in ["man", "completions"] {
        copy_folder(&release.stage.join(generated), &folder.join(generated))?;
    }
    release.pack(&folder, &name)?;
    fs::remove_dir_all(&folder)?;
    Ok(())
}
