//! `tenure journal`: inspects and repairs the files while no broker runs.

mod relocate;

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
use tenure_hub::words::Timestamp;
use tenure_store::{self as store, Damage, RealDisk, Repaired, StoreError, Verification};

use crate::config::flags::Flags;
use crate::config::{Config, random_seed};
use crate::exit::{FOUND_TROUBLE, Failure, OK, Outcome};
use crate::output::Screen;
use crate::output::confirm::confirm;
use crate::units::counted;
use crate::verbs::config::read;

/// Verify, repair or dump a data directory that no broker uses
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tenure journal verify --data-dir /var/lib/tenure
  tenure journal repair --data-dir /var/lib/tenure   asks; make a copy before
  tenure journal dump --data-dir /var/lib/tenure | less
  tenure journal move --data-dir /var/lib/tenure --to postgres://tenure@db1,db2/tenure --group g1
  tenure journal move --journal postgres://tenure@db1,db2/tenure --group g1 --to /var/lib/tenure")]
pub(crate) struct Journal {
    #[command(subcommand)]
    act: Act,
}

#[derive(Debug, Subcommand)]
enum Act {
    /// Verify every file and report all damage; changes nothing
    Verify(Box<Flags>),
    /// Repair damaged files and report what was lost
    Repair(Box<RepairArgs>),
    /// Print every record as text
    Dump(Box<Flags>),
    /// Move the journal of a stopped broker into a new group, or that of a stopped group into a directory
    Move(Box<relocate::Relocate>),
}

#[derive(Args, Debug)]
struct RepairArgs {
    /// How to treat damaged frames
    #[arg(long, value_enum, default_value_t = RepairMode::Skip)]
    how: RepairMode,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    flags: Flags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RepairMode {
    /// Skip the damaged frames and keep what follows
    Skip,
    /// Drop everything after the first damage
    Cut,
}

impl Journal {
    pub(crate) fn run(&self, screen: &Screen) -> Outcome {
        match &self.act {
            Act::Verify(flags) => verify(&configured(flags)?, screen),
            Act::Repair(args) => repair(args, screen),
            Act::Dump(flags) => dump(&configured(flags)?.data_dir),
            Act::Move(args) => args.run(screen),
        }
    }
}

fn verify(config: &Config, screen: &Screen) -> Outcome {
    let dir = &config.data_dir;
    let now = Timestamp(screen.now);
    let found = store::verify(&open_read_only(dir)?, config.engine.clone(), now)
        .map_err(|error| explain(dir, &error))?;
    screen.one(|| describe(&found, dir), || {
        let damages: Vec<_> = found
            .damages
            .iter()
            .map(|damage| {
                let Damage { file, offset, why, is_missing } = damage;
                json!({ "file": file, "offset": offset, "missing": is_missing, "why": why })
            })
            .collect();
        let torn = found.torn.as_ref().map(|cut| json!({ "file": cut.file, "offset": cut.offset, "why": cut.why }));
        json!({
            "sound": found.is_sound(), "segments": found.segments, "frames": found.frames, "records": found.records,
            "position": found.position, "high_water": found.high_water, "events": found.events, "topic_frames": found.topic_frames, "key_frames": found.key_frames, "tasks": found.tasks, "damages": damages, "torn": torn,
        })
    })?;
    Ok(if found.is_sound() { OK } else { FOUND_TROUBLE })
}

fn describe(found: &Verification, dir: &Path) -> String {
    let Verification { segments, frames, records, tasks, .. } = found;
    let mut text = format!(
        "{}; {} with {} and {}",
        counted(*tasks, "task", "tasks"),
        counted(*segments, "segment", "segments"),
        counted(*frames, "frame", "frames"),
        counted(*records, "record", "records"),
    );
    for cut in found.torn.iter().chain(&found.torn_topics).chain(&found.torn_keys) {
        text += &format!(
            "\nincomplete: {} at byte {}: {}. The next start cuts it off. If the broker was killed or the power failed while it \
             wrote, this is normal and nothing acknowledged is lost; if not, the disk has damaged a write that may have been \
             acknowledged",
            cut.file, cut.offset, cut.why
        );
    }
    for damage in &found.damages {
        text += &format!("\ndamaged: {damage}");
    }
    match found.damages.len() {
        0 => text + "\nno damage found" + &known_end(found),
        _ => {
            text + &format!(
                "\nRestore a backup (`tenure restore`), or copy {0} and save what can be saved:\n  tenure journal repair --data-dir {0}",
                dir.display()
            )
        }
    }
}

/// How much is known of the end of the journal, of which no later frame can tell.
fn known_end(found: &Verification) -> String {
    match found.high_water {
        _ if found.torn.is_some() => " before the incomplete write".to_owned(),
        Some(position) if position == found.position => {
            "; the journal is complete up to its last write".to_owned()
        }
        Some(position) => format!(
            "; the journal is complete up to position {position}. What comes after it ({}) was written since the broker last \
             started or began a segment: it is unknown whether more followed, because the broker did not stop cleanly",
            counted(found.position.saturating_sub(position), "byte", "bytes")
        ),
        None => "; it is unknown whether the end of the journal is complete: there is no readable high-water file, which the \
                 next start writes"
            .to_owned(),
    }
}

fn repair(args: &RepairArgs, screen: &Screen) -> Outcome {
    let dir = configured(&args.flags)?.data_dir;
    let disk = open(&dir)?;
    if !args.yes && !confirm(&format!("repair {}; make a copy of it first", dir.display()))? {
        return Err(Failure::usage("nothing was done"));
    }
    let how = match args.how {
        RepairMode::Skip => store::Repair::Skip,
        RepairMode::Cut => store::Repair::Cut,
    };
    let repaired = store::repair(&disk, how).map_err(|error| explain(&dir, &error))?;
    screen.one(
        || describe_repair(&repaired),
        || {
            let unreadable: Vec<_> = repaired
                .unreadable
                .iter()
                .map(|(task, state)| json!({ "task": task.to_string(), "state": state.to_string() }))
                .collect();
            json!({
                "done": repaired.done, "position": repaired.position, "next_event": repaired.next_event,
                "unreadable": unreadable,
            })
        },
    )?;
    Ok(OK)
}

/// How many tasks are named before the rest is only counted.
const TASKS_NAMED: usize = 20;

fn describe_repair(repaired: &Repaired) -> String {
    let mut lines = repaired.done.clone();
    if lines.is_empty() {
        lines.push("there was nothing to repair".to_owned());
    }
    let unreadable = &repaired.unreadable;
    if !unreadable.is_empty() {
        lines.push(format!(
            "The body or result of {} cannot be read. Those that still have to run will fail; submit them again:",
            counted(unreadable.len() as u64, "task", "tasks")
        ));
        lines.extend(unreadable.iter().take(TASKS_NAMED).map(|(task, state)| format!("  {task} {state}")));
        if unreadable.len() > TASKS_NAMED {
            lines.push(format!("  … and {} more; -o json names all", unreadable.len() - TASKS_NAMED));
        }
    }
    lines.join("\n")
}

fn dump(dir: &Path) -> Outcome {
    let disk = open_read_only(dir)?;
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
fn open(dir: &Path) -> Result<RealDisk, Failure> {
    open_read_only(dir)?;
    RealDisk::new(dir).map_err(|error| Failure::system(format!("{} cannot be used: {error}", dir.display())))
}

/// The same for readers: the directory may be on a read-only file system.
pub(crate) fn open_read_only(dir: &Path) -> Result<RealDisk, Failure> {
    let shown = dir.display();
    if !dir.is_dir() {
        return Err(Failure::input(format!("there is no directory {shown}: name it with --data-dir")));
    }
    RealDisk::read_only(dir).map_err(|error| Failure::system(format!("{shown} cannot be read: {error}")))
}

/// Explains a store error to the operator.
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

/// For `doctor`: whether a process uses the directory.
pub(crate) fn holder(dir: &PathBuf) -> Option<String> {
    use tenure_store::Disk;
    match RealDisk::read_only(dir).ok()?.lock() {
        Err(StoreError::Locked { pid }) => Some(pid),
        _ => None,
    }
}
