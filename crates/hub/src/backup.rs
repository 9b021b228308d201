//! Backups: copies of the store below the one directory that the configuration names for them.

use std::path::{Component, Path, PathBuf};

use tenure_engine::{Refusal, SessionId};
use tenure_store::{Manifest, RealDisk, StoreError};
use tokio::sync::oneshot;

use crate::audit::AuditAct;
use crate::handle::{HubHandle, Inbound};
use crate::refusal::HubRefusal;
use crate::request::Response;

/// A backup of a broker that has no hub: a standby copies its own files.
#[derive(Debug)]
pub struct StandbyBackup {
    /// Its name below `backup_dir`.
    pub name: PathBuf,
    /// Where the answer goes.
    pub reply: oneshot::Sender<Result<BackupWritten, BackupFailure>>,
}

/// A backup that is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupWritten {
    /// Its size.
    pub bytes: u64,
    /// It holds everything that was acknowledged before this position of the journal.
    pub position: u64,
}

/// Why there is no backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackupFailure {
    /// The name cannot be used; the text continues "the backup name …".
    Name(&'static str),
    /// The standby cannot find out what the group has acknowledged.
    JournalAway,
}

impl From<BackupFailure> for HubRefusal {
    fn from(failure: BackupFailure) -> HubRefusal {
        match failure {
            BackupFailure::Name(why) => Refusal::BadValue { what: "backup name", why }.into(),
            BackupFailure::JournalAway => HubRefusal::JournalAway,
        }
    }
}

impl StandbyBackup {
    /// The directory for the backup.
    pub fn directory(&self, backup_dir: &Path) -> Result<PathBuf, BackupFailure> {
        place(backup_dir, &self.name).map_err(BackupFailure::Name)
    }
}

/// Writes a backup into a directory, and logs how that went.
pub fn write_backup(
    directory: &Path,
    write: impl FnOnce(&RealDisk) -> Result<Manifest, StoreError>,
) -> Result<BackupWritten, BackupFailure> {
    let doing = |source| StoreError::Io { doing: "creating", file: directory.display().to_string(), source };
    match RealDisk::new(directory).map_err(doing).and_then(|disk| write(&disk)) {
        Ok(manifest) => {
            let bytes = manifest.files.iter().map(|file| file.bytes).sum();
            tracing::info!(directory = %directory.display(), bytes, position = manifest.position, "backup written");
            Ok(BackupWritten { bytes, position: manifest.position })
        }
        Err(error) => {
            tracing::warn!(directory = %directory.display(), %error, "the backup failed");
            Err(BackupFailure::Name(match error {
                StoreError::NotEmpty { .. } => {
                    "is taken: a directory of that name below backup_dir is not empty, and a backup needs a new one"
                }
                _ => "cannot be used: the broker failed to write there, and its log says why",
            }))
        }
    }
}

/// Takes a backup on its own thread and replies.
pub(crate) fn back_up(
    handle: HubHandle,
    session: SessionId,
    token: u64,
    act: Option<AuditAct>,
    name: PathBuf,
) {
    tokio::task::spawn_blocking(move || {
        let reply = copy(&handle, &name);
        handle.send(Inbound::Reply { session, token, act, reply });
    });
}

fn copy(handle: &HubHandle, name: &Path) -> Result<Response, HubRefusal> {
    let base = handle.backup_dir().ok_or("cannot be used: this broker has no backup_dir");
    let written = base
        .and_then(|base| place(&base, name))
        .map_err(BackupFailure::Name)
        .and_then(|directory| write_backup(&directory, |disk| handle.reader().backup(disk)));
    let BackupWritten { bytes, position } = written?;
    Ok(Response::BackedUp { bytes, position })
}

/// The directory below `base` for a backup of this name. A peer must not choose any other location on the
/// broker's machine.
fn place(base: &Path, name: &Path) -> Result<PathBuf, &'static str> {
    let below = if name.is_absolute() { name.strip_prefix(base).unwrap_or(name) } else { name };
    let is_plain = below.components().all(|component| matches!(component, Component::Normal(_)));
    if !is_plain {
        return Err(
            "must be a name below the broker's backup_dir, such as monday: other absolute paths and .. are refused",
        );
    }
    if below.as_os_str().is_empty() {
        return Err("is empty: give the backup a name of its own below the broker's backup_dir");
    }
    Ok(base.join(below))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_goes_below_its_directory_and_nowhere_else() {
        let base = Path::new("/srv/backups");
        let place = |name: &str| place(base, Path::new(name));
        assert_eq!(place("monday"), Ok("/srv/backups/monday".into()));
        assert_eq!(place("2026/monday"), Ok("/srv/backups/2026/monday".into()));
        assert_eq!(place("/srv/backups/monday"), Ok("/srv/backups/monday".into()));
        for outside in
            ["/etc/cron.d", "..", "../other", "monday/../../other", "/srv/backups/../other", "/", "."]
        {
            let why = place(outside).expect_err(outside);
            assert!(why.contains("backup_dir"), "{outside}: {why}");
        }
        for unnamed in ["", "/srv/backups", "/srv/backups/"] {
            assert!(place(unnamed).is_err_and(|why| why.contains("is empty")), "{unnamed}");
        }
    }
}
