//! `tenure journal move`: from a directory into a new group, and from a group into a directory. Nothing may run
//! meanwhile, and what is moved stays where it was.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde_json::json;
use tenure_hub::{monotonic_clock, wall_clock};
use tenure_journal_postgres::PostgresJournal;
use tenure_store::{
    Disk as _, LeaderClaim, Member, RealDisk, Replica, ReplicaSettings, ReplicatedJournal as _, StoreError,
    Stream, verify,
};

use super::{explain, open, open_read_only};
use crate::config::cluster::{ClusterSettings, cluster_at};
use crate::config::flags::Flags;
use crate::config::load::Loaded;
use crate::config::{Config, random_seed, value};
use crate::exit::{Failure, OK, Outcome};
use crate::output::Screen;
use crate::serve::cluster::{identity, start};
use crate::units::counted;
use crate::verbs::config::read;

#[derive(Args, Debug)]
pub(super) struct Relocate {
    /// Where to: postgres://USER@HOST/DATABASE, or an empty directory
    #[arg(long, value_name = "URL|DIR")]
    to: String,
    #[command(flatten)]
    flags: Flags,
}

/// The member that moves. It leads for a moment.
const MOVER: &str = "journal-move";

impl Relocate {
    pub(super) fn run(&self, screen: &Screen) -> Outcome {
        let loaded = read(&self.flags)?;
        let config = Config::build(&loaded, random_seed());
        let is_url = self.to.contains("://");
        let tasks = if is_url {
            self.move_to_group(&loaded, &config)?
        } else {
            move_to_directory(&config, Path::new(&self.to))?
        };
        let note = "with topics, stored keys and hooks; task output stays in the files of the brokers";
        let text = || {
            let moved = counted(tasks, "task is", "tasks are");
            match is_url {
                true => format!(
                    "{moved} in the group now ({note}).\nStart its members with empty data directories; {} is as it was",
                    config.data_dir.display()
                ),
                false => format!(
                    "{moved} in {} now ({note}).\nStart a broker there without --journal, and no member of the group again",
                    self.to
                ),
            }
        };
        screen.one(text, || json!({ "to": if is_url { "group" } else { "directory" }, "tasks": tasks }))?;
        Ok(OK)
    }

    fn move_to_group(&self, loaded: &Loaded, config: &Config) -> Result<u64, Failure> {
        let dir = &config.data_dir;
        identity::refuse_copy(dir)?;
        let found = verify(&open_read_only(dir)?, config.engine.clone(), wall_clock())
            .map_err(|error| explain(dir, &error))?;
        if !found.is_sound() {
            let shown = dir.display();
            return Err(Failure::input(format!(
                "{shown} is damaged: `tenure journal verify --data-dir {shown}` tells where; repair it first"
            )));
        }
        let disk = open(dir)?;
        let _lock = disk.lock().map_err(|error| explain(dir, &error))?;
        let cluster = self.target(loaded)?;
        let journal = start::open(&cluster)?;
        start::retry_as_tool(|| journal.create())?;
        start::retry_as_tool(|| journal.check())?;
        if first_segment(dir, Stream::Tasks)?.is_none() {
            return Err(Failure::input(format!("{} holds no journal", dir.display())));
        }
        for stream in Stream::ALL {
            let first = first_segment(dir, stream)?.unwrap_or(0);
            if !journal.begin_at(stream, first).map_err(|error| start::explain(&error))? {
                return Err(Failure::input(format!(
                    "the group {} has a journal already: choose a new one with --group",
                    cluster.group
                )));
            }
        }
        // The store changes files when it opens them, so it gets a copy.
        let scratch =
            tempfile::Builder::new().prefix("tenure-move-").tempdir_in(dir.parent().unwrap_or(dir))?;
        let copied = copy(dir, scratch.path())?;
        upload(&journal, &cluster, scratch.path(), &copied)?;
        let tasks = take_over(config, &journal, &cluster, scratch.path())?;
        if tasks != found.tasks {
            return Err(Failure::system(format!(
                "the group {} has {tasks} of {}: do not use it, and choose a new one with --group",
                cluster.group,
                counted(found.tasks, "task", "tasks")
            )));
        }
        Ok(tasks)
    }

    /// The group that `--to` and the settings name.
    fn target(&self, loaded: &Loaded) -> Result<ClusterSettings, Failure> {
        let address = value::journal(&self.to).map_err(Failure::usage)?.expect("it is not empty");
        if address.has_password() {
            return Err(Failure::usage(
                "every user of this machine can read a password on the command line: use --journal-password-file or \
                 PGPASSFILE",
            ));
        }
        let cluster = cluster_at(loaded, address);
        Ok(ClusterSettings { name: MOVER.to_owned(), ..cluster })
    }
}

fn move_to_directory(config: &Config, dir: &Path) -> Result<u64, Failure> {
    let Some(cluster) = &config.cluster else {
        return Err(Failure::usage(
            "no journal is named: pass --journal postgres://USER@HOST/DATABASE, and --group",
        ));
    };
    let cluster = ClusterSettings { name: MOVER.to_owned(), ..cluster.clone() };
    if dir.is_dir() && std::fs::read_dir(dir)?.next().is_some() {
        return Err(Failure::input(format!("{} is not empty: name a new directory", dir.display())));
    }
    let journal = start::open(&cluster)?;
    start::retry_as_tool(|| journal.check())?;
    take_over(config, &journal, &cluster, dir)
}

/// Leads for a moment on this directory: afterwards it and the group hold the same.
fn take_over(
    config: &Config,
    journal: &PostgresJournal,
    cluster: &ClusterSettings,
    dir: &Path,
) -> Result<u64, Failure> {
    let failed = |error: StoreError| explain(dir, &error);
    let state = start::retry_as_tool(|| journal.connect()?.look())?;
    if !state.lease_left.is_zero() && state.holder.as_deref() != Some(MOVER) {
        return Err(Failure::system(format!(
            "{} leads the group {}: stop all its members first",
            state.holder.unwrap_or_default(),
            cluster.group
        )));
    }
    let disk = Arc::new(RealDisk::new(dir).map_err(|error| Failure::system(error.to_string()))?);
    let settings = ReplicaSettings { member: mover(cluster), store: config.store.clone(), mutation: None };
    let mut replica = Replica::open(disk, Arc::new(journal.clone()), settings).map_err(failed)?;
    let led = replica.lead(LeaderClaim::LeaseEnded, config.engine.clone(), wall_clock(), monotonic_clock());
    let opened =
        led.map_err(failed)?.ok_or_else(|| Failure::system("another member leads: stop it first"))?;
    let tasks = opened.report.tasks;
    let mut parts = opened.store.split();
    parts.writer.close(monotonic_clock()).map_err(failed)?;
    Ok(tasks)
}

fn mover(cluster: &ClusterSettings) -> Member {
    Member { name: MOVER.to_owned(), instance: random_seed(), lease: cluster.lease, doors: String::new() }
}

/// Stores the snapshot, the event files and the progress of hooks: for a member, those of the group are the truth.
fn upload(
    journal: &PostgresJournal,
    cluster: &ClusterSettings,
    dir: &Path,
    names: &[String],
) -> Result<(), Failure> {
    let stored = || {
        let mut session = journal.connect()?;
        let led = session.lead(&mover(cluster), LeaderClaim::LeaseEnded)?;
        let leadership = led.ok_or_else(|| {
            tenure_store::ReplicationError::Misconfigured("another member leads: stop it first".to_owned())
        })?;
        for name in names {
            let stored = match name.split_once('-') {
                Some(("snapshot" | "events", _)) => name.clone(),
                // The first version of a hook's progress.
                Some(("hook", _)) => format!("{name}@{:020}", 1),
                _ => continue,
            };
            let bytes = std::fs::read(dir.join(name))
                .map_err(|error| tenure_store::ReplicationError::Misconfigured(error.to_string()))?;
            session.put_file(&leadership, &stored, &bytes)?;
        }
        session.release(&leadership)
    };
    start::retry_as_tool(stored)
}

/// The prefix of the names of a stream's files.
fn prefix(stream: Stream) -> &'static str {
    match stream {
        Stream::Tasks => "journal-",
        Stream::Topics => "topics-",
        Stream::Keys => "keys-",
    }
}

/// The position at which the oldest segment of a stream begins.
fn first_segment(dir: &Path, stream: Stream) -> Result<Option<u64>, Failure> {
    let mut starts = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let name = entry?.file_name();
        starts.extend(name.to_str().and_then(|name| name.strip_prefix(prefix(stream))?.parse::<u64>().ok()));
    }
    Ok(starts.into_iter().min())
}

/// Copies the files of the journal, and returns their names.
fn copy(from: &Path, to: &Path) -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(from)? {
        let path: PathBuf = entry?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        if ["journal-", "topics-", "keys-", "snapshot-", "events-", "hook-"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
        {
            std::fs::copy(&path, to.join(name))?;
            names.push(name.to_owned());
        }
    }
    Ok(names)
}
