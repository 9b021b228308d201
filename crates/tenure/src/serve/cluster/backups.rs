//! The backups that a standby takes of its own copy, while it goes on copying.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tenure_hub::{BackupFailure, StandbyBackup, write_backup};
use tenure_store::{CopyBackup, Followed, Manifest, Replica, ReplicationError, StoreError};
use tokio::sync::mpsc;

/// How long the copy may take to reach what the group has acknowledged.
const WITHIN: Duration = Duration::from_secs(10);

pub(super) struct StandbyBackups {
    directory: PathBuf,
    /// Asked for since the last round began.
    new: Vec<StandbyBackup>,
    waiting: Vec<WaitingBackup>,
    is_stopped: Arc<AtomicBool>,
}

struct WaitingBackup {
    order: StandbyBackup,
    since: Instant,
    copy: Option<CopyBackup>,
}

impl StandbyBackups {
    pub(super) fn new(directory: &Path) -> StandbyBackups {
        StandbyBackups {
            directory: directory.to_owned(),
            new: Vec::new(),
            waiting: Vec::new(),
            is_stopped: Arc::default(),
        }
    }

    /// The configuration was read again.
    pub(super) fn set_directory(&mut self, directory: &Path) {
        directory.clone_into(&mut self.directory);
    }

    /// Takes what was asked for. The next round shows what the group has acknowledged before.
    pub(super) fn take(&mut self, orders: &mut mpsc::Receiver<StandbyBackup>) {
        while let Ok(order) = orders.try_recv() {
            self.new.push(order);
        }
    }

    /// Continues after a round; without a view of the group the round has failed.
    pub(super) fn continue_with(&mut self, replica: &Replica, followed: Option<&Followed>) {
        let since = Instant::now();
        let new = self.new.drain(..).map(|order| WaitingBackup { order, since, copy: None });
        self.waiting.extend(new);
        for mut waiting in std::mem::take(&mut self.waiting) {
            match waiting.is_complete(replica, followed) {
                Ok(true) => self.write(waiting),
                Ok(false) if waiting.since.elapsed() < WITHIN => self.waiting.push(waiting),
                Ok(false) => waiting.fail(BackupFailure::JournalAway),
                Err(error) => {
                    tracing::warn!(%error, "a backup of the copy failed");
                    waiting.fail(BackupFailure::Name("cannot be used: the broker's log says why"));
                }
            }
        }
    }

    /// Gives up all backups, because this member takes over. They have no manifest.
    pub(super) fn stop(&mut self) {
        self.waiting.clear();
        std::mem::take(&mut self.is_stopped).store(true, Ordering::Release);
    }

    fn write(&self, waiting: WaitingBackup) {
        let Some(copy) = waiting.copy else { return };
        let (directory, is_stopped) = (self.directory.clone(), Arc::clone(&self.is_stopped));
        tokio::task::spawn_blocking(move || {
            let order = waiting.order;
            let written = order.directory(&directory).and_then(|directory| {
                write_backup(&directory, |disk| {
                    let written: Option<Manifest> = copy.write(disk, &is_stopped)?;
                    written.ok_or_else(|| ReplicationError::Away("this member takes over".to_owned()).into())
                })
            });
            let _ = order.reply.send(written);
        });
    }
}

impl WaitingBackup {
    fn is_complete(&mut self, replica: &Replica, followed: Option<&Followed>) -> Result<bool, StoreError> {
        let Some(followed) = followed else { return Ok(false) };
        match &mut self.copy {
            Some(copy) => replica.continue_backup(copy, followed),
            none => {
                *none = Some(replica.begin_backup()?);
                Ok(false)
            }
        }
    }

    fn fail(self, why: BackupFailure) {
        let _ = self.order.reply.send(Err(why));
    }
}
