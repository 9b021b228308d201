//! PostgreSQL, on which groups of brokers are tested. The tests start their own servers.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::apt;

/// The directory of the programs: `initdb` and the others are rarely in the path.
pub(super) fn prepare() -> Result<PathBuf> {
    let pooler = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"];
    // One test needs the pooler, and says that it is skipped without it.
    if !pooler.iter().any(|path| Path::new(path).is_file())
        && let Err(error) = apt::install(&["pgbouncer"])
    {
        eprintln!("left out: the pooler cannot be installed: {error:#}");
    }
    if let Some(found) = programs() {
        return Ok(found);
    }
    apt::install(&["postgresql"])?;
    programs().context("installed, but initdb is not found in /usr/lib/postgresql/*/bin")
}

/// Of several versions the newest.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let of_packages = versions.map(|version| version.path().join("bin"));
    let of_path = std::env::var_os("PATH");
    let in_path = of_path.iter().flat_map(std::env::split_paths);
    let has_programs = |dir: &PathBuf| is_there(dir, "initdb") && is_there(dir, "pg_basebackup");
    of_packages
        .filter(has_programs)
        .max_by_key(|dir| version_of(dir))
        .or_else(|| in_path.into_iter().find(has_programs))
}

fn is_there(dir: &Path, program: &str) -> bool {
    dir.join(program).is_file()
}

fn version_of(dir: &Path) -> u32 {
    let version = dir.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    version.and_then(|version| version.parse().ok()).unwrap_or(0)
}
