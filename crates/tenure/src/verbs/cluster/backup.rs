//! `tenure cluster backup`: a backup of a group, read from its database. No broker takes part in it, so it costs the
//! leader nothing and works while all brokers are down.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;
use tenure_store::{Manifest, Member, RealDisk, Replica, ReplicaSettings, ReplicationError, StoreError};

use crate::config::flags::Flags;
use crate::config::random_seed;
use crate::exit::{Failure, OK, Outcome};
use crate::output::Screen;
use crate::serve::cluster::start;
use crate::units::{counted, show_size};
use crate::verbs::journal::explain;

/// How long the database may be away, and how long files may be replaced while they are read.
const WITHIN: Duration = Duration::from_secs(300);
const PAUSE: Duration = Duration::from_millis(200);

#[derive(Args, Debug)]
pub(super) struct BackUp {
    /// Directory for the backup on this machine, new or empty
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    #[command(flatten)]
    flags: Flags,
}

impl BackUp {
    pub(super) fn run(&self, screen: &Screen) -> Outcome {
        let (config, cluster) = super::configured(&self.flags)?;
        let dir = &self.directory;
        let shown = dir.display();
        if dir.is_dir() && std::fs::read_dir(dir)?.next().is_some() {
            return Err(Failure::input(format!("{shown} is not empty: name a new directory")));
        }
        let journal = start::open_as_tool(&cluster)?;
        start::retry_as_tool(|| journal.check())?;
        let failed = |error: StoreError| explain(dir, &error);
        let disk = |dir: &Path| {
            RealDisk::new(dir)
                .map_err(|error| Failure::system(format!("{} cannot be used: {error}", dir.display())))
        };
        let target = disk(dir)?;
        // Beside it, because the temporary directory of the system may be too small.
        let parent = dir.canonicalize()?.parent().map(Path::to_path_buf).unwrap_or_default();
        let scratch = tempfile::Builder::new().prefix("tenure-backup-").tempdir_in(parent)?;
        let member = Member {
            name: String::new(),
            instance: random_seed(),
            lease: cluster.lease,
            doors: String::new(),
        };
        let settings = ReplicaSettings { member, store: config.store.clone(), mutation: None };
        let replica = Replica::open(Arc::new(disk(scratch.path())?), Arc::new(journal), settings);
        let manifest = back_up(replica.map_err(failed)?, &target).map_err(failed)?;
        let files = manifest.files.len();
        let bytes: u64 = manifest.files.iter().map(|file| file.bytes).sum();
        let text = || {
            let files = counted(files as u64, "file", "files");
            format!("{shown} holds the group {}: {files}, {}", cluster.group, show_size(bytes))
        };
        screen.one(text, || {
            json!({ "group": cluster.group, "files": files, "bytes": bytes, "position": manifest.position })
        })?;
        Ok(OK)
    }
}

/// The leader goes on meanwhile, and may replace a file or drop a segment.
fn back_up(mut replica: Replica, target: &RealDisk) -> Result<Manifest, StoreError> {
    let since = Instant::now();
    loop {
        match replica.back_up(target) {
            Ok(manifest) => return Ok(manifest),
            Err((again, StoreError::Replication(error)))
                if (error.is_passing() || matches!(error, ReplicationError::Gone(_)))
                    && since.elapsed() < WITHIN =>
            {
                replica = *again;
                std::thread::sleep(PAUSE);
            }
            Err((_, error)) => return Err(error),
        }
    }
}
