//! `cargo xtask site`: the documentation site, built with mdBook from the pages of the last commit.

use std::fs;
use std::process::{ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::place::Workspace;
use crate::process::{announce, ask, program, run};

/// What the site consists of: the pages, and the other files that pages lead to. mdBook copies every file of its source
/// folder into the site, so nothing else may be in it.
const CONTENTS: [&str; 9] = [
    "book.toml",
    "*.md",
    "docs/monitoring",
    "docs/pictures",
    "LICENSE-*",
    "packaging",
    "examples/python",
    "crates/door-grpc/proto",
    ":!.github",
];

/// Build the documentation site into target/site/book; needs mdbook
#[derive(Args)]
pub(crate) struct Site {}

impl Site {
    pub(crate) fn run(self, place: &Workspace) -> Result<ExitCode> {
        if ask(program("mdbook", &place.root).arg("--version")).is_none() {
            bail!("mdbook is not installed; `cargo install --locked mdbook` installs it");
        }
        let site = place.built.parent().unwrap_or(&place.built).join("site");
        if site.exists() {
            fs::remove_dir_all(&site).with_context(|| format!("cannot empty {}", site.display()))?;
        }
        fs::create_dir_all(&site)?;
        let mut git = program("git", &place.root);
        git.args(["archive", "HEAD"]).args(CONTENTS).stdout(Stdio::piped());
        announce(&git);
        let mut archive = git.spawn().context("cannot start git")?;
        let contents = archive.stdout.take().context("git has no output")?;
        run(program("tar", &site).arg("-x").stdin(contents))?;
        if !archive.wait()?.success() {
            bail!("`git archive` has failed");
        }
        run(program("mdbook", &site).arg("build"))?;
        println!("{}", site.join("book").join("index.html").display());
        Ok(ExitCode::SUCCESS)
    }
}
