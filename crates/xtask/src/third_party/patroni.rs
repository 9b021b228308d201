//! Patroni and etcd, which fail a database over. The test starts them itself.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{apt, environment_of};
use crate::process::{ask, program};

const REQUIREMENTS: &str = include_str!("../../third-party/patroni.txt");
/// The system's own interpreter: as root, the servers run as another user, who may not read the home of root.
const PYTHON: &str = "/usr/bin/python3";

/// Returns the python of an environment with Patroni.
pub(super) fn prepare(folder: &Path) -> Result<PathBuf> {
    let here = Path::new("/");
    if ask(program("etcd", here).arg("--version")).is_none() {
        apt::install(&["etcd-server"])?;
    }
    if ask(program(PYTHON, here).args(["-c", "import ensurepip, venv"])).is_none() {
        apt::install(&["python3", "python3-venv"])?;
    }
    environment_of(Path::new(PYTHON), folder, REQUIREMENTS)
}
