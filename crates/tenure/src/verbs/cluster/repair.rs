//! `tenure cluster repair`: for a copy that differs from the group's journal. Nothing is deleted.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use tenure_store::{Disk as _, RealDisk};

use crate::config::flags::Flags;
use crate::config::{Config, random_seed};
use crate::exit::{Failure, OK, Outcome};
use crate::output::Screen;
use crate::output::confirm::confirm;
use crate::serve::cluster::identity;
use crate::units::counted;
use crate::verbs::config::read;
use crate::verbs::journal::explain;

#[derive(Args, Debug)]
pub(super) struct Repair {
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    flags: Flags,
}

impl Repair {
    pub(super) fn run(&self, screen: &Screen) -> Outcome {
        let dir = Config::build(&read(&self.flags)?, random_seed()).data_dir;
        let shown = dir.display();
        if !dir.is_dir() {
            return Err(Failure::input(format!("there is no directory {shown}: name it with --data-dir")));
        }
        if !identity::is_copy(&dir)? {
            return Err(Failure::input(format!(
                "{shown} is no copy of a group's journal; for a broker without a group use `tenure journal repair`"
            )));
        }
        let disk = RealDisk::new(&dir)
            .map_err(|error| Failure::system(format!("{shown} cannot be used: {error}")))?;
        let _lock = disk.lock().map_err(|error| explain(&dir, &error))?;
        let question = format!(
            "set the copy in {shown} aside; the member reads the group's journal again, and what only this copy has \
             stays in the directory beside it"
        );
        if !self.yes && !confirm(&question)? {
            return Err(Failure::usage("nothing was done"));
        }
        let (aside, moved) = set_aside(&dir)?;
        let text = || {
            format!(
                "{} moved to {}; `tenure journal dump --data-dir {}` shows what they hold. Start the member again",
                counted(moved, "file was", "files were"),
                aside.display(),
                aside.display()
            )
        };
        screen.one(text, || json!({ "aside": aside.display().to_string(), "files": moved }))?;
        Ok(OK)
    }
}

/// What the names of the files that are copied begin with.
const COPIED: [&str; 6] = ["journal-", "topics-", "keys-", "snapshot-", "events-", "hook-"];

/// Moves what is copied from the database. The member's own files stay.
fn set_aside(dir: &Path) -> Result<(PathBuf, u64), Failure> {
    let aside = (1..)
        .map(|number| dir.join(format!("diverged-{number}")))
        .find(|path| !path.exists())
        .expect("a number is free");
    std::fs::create_dir(&aside)?;
    let mut moved = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let text = name.to_string_lossy();
        let is_copied = COPIED.iter().any(|prefix| text.starts_with(prefix)) || text == "high-water";
        if is_copied && entry.file_type()?.is_file() {
            std::fs::rename(entry.path(), aside.join(&name))?;
            moved += 1;
        }
    }
    Ok((aside, moved))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_is_copied_is_set_aside_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let copied =
            ["journal-00", "topics-00", "keys-00", "snapshot-00", "events-00", "hook-ops", "high-water"];
        for name in copied.iter().chain(&["group", "LOCK", "logs-00"]) {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let (aside, moved) = set_aside(dir.path()).unwrap();
        assert_eq!(moved, 7);
        assert!(copied.iter().all(|name| aside.join(name).exists() && !dir.path().join(name).exists()));
        assert!(["group", "LOCK", "logs-00"].iter().all(|name| dir.path().join(name).exists()));
        let (second, moved) = set_aside(dir.path()).unwrap();
        assert!(moved == 0 && second != aside, "an earlier copy stays as it is");
    }
}
