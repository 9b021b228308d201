//! The source archive: the last commit, which writes its own name into `crates/tenure/commit.txt`.

use anyhow::{Context, Result};

use super::Release;
use crate::process::{program, run};

pub(super) fn archive(release: &Release) -> Result<()> {
    let name = format!("tenure-{}", release.version);
    let mut git = program("git", &release.root);
    git.args(["-c", "tar.tar.gz.command=gzip -9n", "archive", "--format=tar.gz"]);
    git.arg(format!("--prefix={name}/"))
        .arg("--output")
        .arg(release.out.join(format!("{name}-source.tar.gz")));
    run(git.arg("HEAD")).context("the source archive needs a git repository")
}
