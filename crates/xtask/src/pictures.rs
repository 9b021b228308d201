//! `cargo xtask pictures`: draws the pictures of the documentation from text.
//!
//! A picture is a `.txt` file in `docs/pictures`; the `.svg` beside it is drawn from it. The first word of the text says
//! what it is: [`boxes`] or a [`sequence`] of messages. `cargo xtask house` checks that no drawing is out of date.

mod boxes;
mod sequence;
mod svg;

use std::fs;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::place::Workspace;

/// Where the pictures are.
pub(crate) const FOLDER: &str = "docs/pictures";

/// Draw docs/pictures/*.svg from the texts beside them
#[derive(Args)]
pub(crate) struct Pictures {}

impl Pictures {
    pub(crate) fn run(self, place: &Workspace) -> Result<ExitCode> {
        for entry in fs::read_dir(place.root.join(FOLDER))? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "txt") {
                let drawn = draw(&fs::read_to_string(&path)?).with_context(|| path.display().to_string())?;
                fs::write(path.with_extension("svg"), drawn)?;
                println!("drew {}", path.with_extension("svg").display());
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The drawing of a text.
pub(crate) fn draw(text: &str) -> Result<String> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let first = lines.next().context("the text is empty")?;
    let (kind, title) = first.split_once(' ').context("the first line has no title")?;
    let lines: Vec<&str> = lines.collect();
    match kind {
        "boxes" => boxes::draw(title.trim(), &lines),
        "sequence" => sequence::draw(title.trim(), &lines),
        other => bail!("`{other}` is neither boxes nor sequence"),
    }
}
