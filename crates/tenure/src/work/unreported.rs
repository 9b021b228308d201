//! Results that the broker has not accepted when the worker leaves. Each is a file in the worker's directory; the
//! next worker of the same name in the same directory reports it, and the broker accepts it if the attempt is still
//! that worker's own.
//!
//! A file holds one frame of the native protocol (`spec/native.md`): the request that would have reported the end.

use std::fs::File;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tenure_client::{Refusal, TaskId, Unreported};

use crate::exit::Failure;

/// The name of a file that the broker finally refused.
const STALE: &str = "stale";
/// The largest file that is read: a report is not larger.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// How much of a worker's name is shown in the name of its directory.
const NAME_BYTES_MAX: usize = 180;

/// Where one worker's unreported results are.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    dir: PathBuf,
}

impl Store {
    /// Below the directory in which the worker's tasks run. Several workers may share that.
    pub(crate) fn new(base: &Path, worker: &str) -> Store {
        Store { dir: base.join(format!("unreported-{}", file_name(worker))) }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The reports that an earlier worker has left, and the files that could not be read.
    pub(crate) fn read(&self) -> (Vec<Unreported>, Vec<String>) {
        let (mut left, mut unreadable) = (Vec::new(), Vec::new());
        for entry in std::fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_some() {
                continue;
            }
            match read_one(&path) {
                Ok(unreported) => left.push(unreported),
                Err(why) => unreadable.push(format!("{} cannot be reported: {why}", path.display())),
            }
        }
        (left, unreadable)
    }

    pub(crate) fn save(&self, unreported: &[Unreported]) -> Result<(), Failure> {
        let save = || {
            std::fs::create_dir_all(&self.dir)?;
            for one in unreported {
                let path = self.path(one.task(), one.attempt());
                let beside = path.with_extension("tmp");
                let mut file = File::create(&beside)?;
                file.write_all(&one.to_bytes())?;
                file.sync_all()?;
                std::fs::rename(beside, path)?;
            }
            File::open(&self.dir)?.sync_all()
        };
        save().map_err(|error: io::Error| {
            Failure::system(format!(
                "{} results cannot be kept in {}: {error}",
                unreported.len(),
                self.dir.display()
            ))
        })
    }

    /// The broker has answered: accepted results are removed; late ones stay for inspection. Returns where.
    pub(crate) fn answered(
        &self,
        task: TaskId,
        attempt: u32,
        answer: Result<(), &Refusal>,
    ) -> Option<PathBuf> {
        let path = self.path(task, attempt);
        if answer.is_err() {
            let stale = path.with_extension(STALE);
            return std::fs::rename(&path, &stale).is_ok().then_some(stale);
        }
        if std::fs::remove_file(&path).is_ok() {
            // Only if that was the last one.
            let _ = std::fs::remove_dir(&self.dir);
        }
        None
    }

    fn path(&self, task: TaskId, attempt: u32) -> PathBuf {
        self.dir.join(format!("{task}-{attempt}"))
    }
}

fn read_one(path: &Path) -> Result<Unreported, String> {
    let length = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
    if length > FILE_BYTES_MAX {
        return Err("it is too long".to_owned());
    }
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    Unreported::from_bytes(&bytes).map_err(|error| error.to_string())
}

/// A worker's name as part of a file's name.
fn file_name(worker: &str) -> String {
    let mut name = String::new();
    for byte in worker.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') {
            name.push(char::from(byte));
        } else {
            name += &format!("%{byte:02x}");
        }
    }
    if name.len() > NAME_BYTES_MAX {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(worker);
        name.truncate(NAME_BYTES_MAX);
        name += &format!("-{hash:016x}");
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workers_name_cannot_lead_out_of_the_directory() {
        assert_eq!(file_name("host-1_a"), "host-1_a");
        assert_eq!(file_name("../é/x"), "%2e%2e%2f%c3%a9%2fx");
    }

    #[test]
    fn what_cannot_be_read_is_reported_and_left_alone() {
        let base = tempfile::tempdir().unwrap();
        let store = Store::new(base.path(), "w");
        assert!(store.read().0.is_empty(), "no directory, nothing left");
        std::fs::create_dir(store.dir()).unwrap();
        std::fs::write(store.dir().join("broken"), "x").unwrap();
        std::fs::write(store.dir().join("old.stale"), "x").unwrap();
        let (left, unreadable) = store.read();
        assert_eq!((left.len(), unreadable.len()), (0, 1));
        assert!(unreadable[0].contains("broken"), "{unreadable:?}");
    }
}
