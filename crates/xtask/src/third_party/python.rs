//! The Python clients, in a virtual environment of their own.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::apt;
use super::stamp::Stamp;
use crate::process::{ask, program, run};

const REQUIREMENTS: &str = include_str!("../../third-party/requirements.txt");

/// Returns the environment's python.
pub(super) fn prepare(folder: &Path) -> Result<PathBuf> {
    environment(folder, REQUIREMENTS)
}

/// An environment with what a list of pinned packages asks for. Returns its python.
pub(crate) fn environment(folder: &Path, requirements: &str) -> Result<PathBuf> {
    let here = Path::new("/");
    let mut version = ask(program("python3", here).arg("--version"));
    if version.is_none() {
        apt::install(&["python3", "python3-venv"])?;
        version = ask(program("python3", here).arg("--version"));
    }
    if version.is_none() {
        bail!("python3 is installed, but not found");
    }
    // Some systems ship python3 without the part that makes environments.
    if ask(program("python3", here).args(["-c", "import ensurepip, venv"])).is_none() {
        apt::install(&["python3-venv"])?;
    }
    environment_of(Path::new("python3"), folder, requirements)
}

/// The same with a certain interpreter.
pub(crate) fn environment_of(interpreter: &Path, folder: &Path, requirements: &str) -> Result<PathBuf> {
    let here = Path::new("/");
    let version = ask(program(interpreter, here).arg("--version")).context("the interpreter does not run")?;
    let python = folder.join("venv").join("bin").join("python");
    let stamp = Stamp::new(folder, &version, requirements);
    if stamp.matches() && ask(program(&python, here).arg("--version")).is_some() {
        return Ok(python);
    }
    stamp.clear()?;
    run(program(interpreter, folder).args(["-m", "venv", "venv"]))?;
    fs::write(folder.join("requirements.txt"), requirements).context("cannot write the pinned list")?;
    // Only ready-made packages: to compile grpcio takes longer than the whole rest of the run.
    let mut pip = program(&python, folder);
    pip.args(["-m", "pip", "install", "--quiet", "--only-binary=:all:", "--requirement", "requirements.txt"]);
    run(&mut pip)?;
    stamp.put()?;
    Ok(python)
}
