//! `tenure journal`: looking after the files while no broker runs.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
use tenure_hub::store::{self, RealDisk, StoreError, Verification};
use tenure_hub::words::Timestamp;

use crate::config::flags::Flags;
use crate::config::{Config, random_seed};
use crate::exit::{FOUND_TROUBLE, Failure, OK, Outcome};
use crate::output::Screen;
use crate::output::confirm::confirm;
use crate::verbs::config::read;

/// Check, mend or show the files of a data directory that no broker uses
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tenure journal verify --data-dir /var/lib/tenure
  tenure journal repair --data-dir /var/lib/tenure          asks first; make a copy of the directory before
  tenure journal dump --data-dir /var/lib/tenure | less")]
pub(crate) struct Journal {
    #[command(subcommand)]
    act: Act,
}

#[derive(Debug, Subcommand)]
enum Act {
    /// Read every byte and tell all that is wrong; changes nothing
    Verify(Box<Flags>),
    /// Mend what is damaged, and tell what was lost
    Repair(Box<RepairArgs>),
    /// Show every record as text
    Dump(Box<Flags>),
}

#[derive(Args, Debug)]
struct RepairArgs {
    /// What to do about a damaged frame
    #[arg(long, value_enum, default_value_t = How::Skip)]
    how: How,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    flags: Flags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum How {
    /// Leave out the damaged frames; what came later stays
    Skip,
    /// Drop everything from the first damage on
    Cut,
}

impl Journal {
    pub(crate) fn run(&self, screen: &Screen) -> Outcome {
        match &self.act {
            Act::Verify(flags) => verify(&configured(flags)?, screen),
            Act::Repair(args) => repair(args, screen),
            Act::Dump(flags) => dump(&configured(flags)?.data_dir),
        }
    }
}

fn verify(config: &Config, screen: &Screen) -> Outcome {
    let dir = &config.data_dir;
    let now = Timestamp(screen.now);
    let found =
        store::verify(&open(dir)?, config.engine.clone(), now).map_err(|error| explain(dir, &error))?;
    screen.one(|| told(&found, dir), || {
        let damages: Vec<_> = found
            .damages
            .iter()
            .map(|damage| json!({ "file": damage.file, "offset": damage.offset, "why": damage.why }))
            .collect();
        let torn = found.torn.as_ref().map(|cut| json!({ "file": cut.file, "offset": cut.offset, "why": cut.why }));
        json!({
            "sound": found.is_sound(), "segments": found.segments, "frames": found.frames, "records": found.records,
            "events": found.events, "topic_frames": found.topic_frames, "tasks": found.tasks, "damages": damages, "torn": torn,
        })
    })?;
    Ok(if found.is_sound() { OK } else { FOUND_TROUBLE })
}

fn told(found: &Verification, dir: &Path) -> String {
    let Verification { segments, frames, records, tasks, .. } = found;
    let mut text = format!("{tasks} tasks; {segments} segments with {frames} frames and {records} records");
    for cut in found.torn.iter().chain(&found.torn_topics) {
        text += &format!(
            "\nunfinished: {} at byte {}: the next start cuts it off, nothing acknowledged is lost",
            cut.file, cut.offset
        );
    }
    for damage in &found.damages {
        text += &format!("\ndamaged: {damage}");
    }
    match found.damages.len() {
        0 => text + "\nall is well",
        _ => {
            text + &format!(
                "\nRestore a backup (`tenure restore`), or copy {0} and save what can be saved:\n  tenure journal repair --data-dir {0}",
                dir.display()
            )
        }
    }
}

fn repair(args: &RepairArgs, screen: &Screen) -> Outcome {
    let dir = configured(&args.flags)?.data_dir;
    let disk = open(&dir)?;
    if !args.yes && !confirm(&format!("mend {}; a copy of it should exist", dir.display()))? {
        return Err(Failure::usage("nothing was done"));
    }
    let how = match args.how {
        How::Skip => store::Repair::Skip,
        How::Cut => store::Repair::Cut,
    };
    let repaired = store::repair(&disk, how).map_err(|error| explain(&dir, &error))?;
    let text = || {
        if repaired.done.is_empty() {
            "there was nothing to mend".to_owned()
        } else {
            repaired.done.join("\n")
        }
    };
    screen.one(
        text,
        || json!({ "done": repaired.done, "position": repaired.position, "next_event": repaired.next_event }),
    )?;
    Ok(OK)
}

fn dump(dir: &Path) -> Outcome {
    let disk = open(dir)?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut written = Ok(());
    let dumped = store::dump(&disk, &mut |line| {
        if written.is_ok() {
            written = writeln!(out, "{line}");
        }
    });
    written.and_then(|()| out.flush())?;
    dumped.map_err(|error| explain(dir, &error))?;
    Ok(OK)
}

fn configured(flags: &Flags) -> Result<Config, Failure> {
    Ok(Config::build(&read(flags)?, random_seed()))
}

/// A directory that must be there already.
pub(crate) fn open(dir: &Path) -> Result<RealDisk, Failure> {
    let shown = dir.display();
    if !dir.is_dir() {
        return Err(Failure::input(format!("there is no directory {shown}: name it with --data-dir")));
    }
    RealDisk::new(dir).map_err(|error| Failure::system(format!("{shown} cannot be used: {error}")))
}

/// What a failing store means for whoever looks after its files.
pub(crate) fn explain(dir: &Path, error: &StoreError) -> Failure {
    let shown = dir.display();
    match error {
        StoreError::Locked { pid } => Failure::system(format!(
            "{shown} is in use by process {pid}: stop that broker first (kill {pid})"
        )),
        StoreError::NotEmpty { .. } => Failure::input(format!(
            "{shown} is not empty: restore into a new directory, or move what is there away"
        )),
        StoreError::NoBackup { .. } => {
            Failure::input(format!("{error}: name a directory that `tenure backup` wrote"))
        }
        StoreError::Damaged(damage) => Failure::new(FOUND_TROUBLE, format!("in {shown}: {damage}")),
        other => Failure::system(format!("in {shown}: {other}")),
    }
}

/// For `doctor`: whether somebody uses the directory.
pub(crate) fn holder(dir: &PathBuf) -> Option<String> {
    use tenure_hub::store::Disk;
    match RealDisk::new(dir).ok()?.lock() {
        Err(StoreError::Locked { pid }) => Some(pid),
        _ => None,
    }
}
