//! Copies files into a stage, and generates those that the binary itself writes: manual pages and completions.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result};

use super::Release;
use crate::process::{ask, program, run};

/// A shell, and the name of its completion script.
const COMPLETIONS: [(&str, &str); 3] = [("bash", "tenure"), ("zsh", "_tenure"), ("fish", "tenure.fish")];

/// Writes `man/` and `completions/` into the stage.
pub(super) fn generate(release: &Release) -> Result<()> {
    let (man, completions) = (release.stage.join("man"), release.stage.join("completions"));
    fs::create_dir_all(&man)?;
    fs::create_dir_all(&completions)?;
    run(program(release.binary(), &release.root).arg("man").arg(&man))?;
    for (shell, name) in COMPLETIONS {
        let script = ask(program(release.binary(), &release.root).args(["completions", shell]));
        fs::write(
            completions.join(name),
            script.with_context(|| format!("no completions for {shell}"))? + "\n",
        )?;
    }
    Ok(())
}

/// Copies a file, and makes the folders above it.
pub(super) fn copy(from: &Path, to: &Path, mode: u32) -> Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    fs::copy(from, to).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    set_mode(to, mode)
}

/// Copies the files of a folder; it has no folders in it.
pub(super) fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from).with_context(|| format!("cannot list {}", from.display()))? {
        let entry = entry?;
        copy(&entry.path(), &to.join(entry.file_name()), 0o644)?;
    }
    Ok(())
}

pub(super) fn write(path: &Path, text: &str, mode: u32) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    set_mode(path, mode)
}

fn set_mode(path: &Path, mode: u32) -> Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .with_context(|| format!("cannot set the mode of {}", path.display()))
}
