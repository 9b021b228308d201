//! Working directories: one for each attempt, created before it and removed after it.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tenure_client::TaskId;

use crate::exit::Failure;

/// The directory under which every attempt gets its own.
#[derive(Debug)]
pub(crate) struct Places {
    base: PathBuf,
    keep_failed: bool,
    /// Held so that a base of this worker's own goes with it.
    own: Option<TempDir>,
}

/// One attempt's directory.
#[derive(Debug)]
pub(crate) struct Place {
    path: PathBuf,
    keep_failed: bool,
}

impl Places {
    /// Under a directory that was given, or a private one of this worker.
    pub(crate) fn new(given: Option<&Path>, keep_failed: bool) -> Result<Places, Failure> {
        let fails = |what: &Path, error: std::io::Error| {
            Failure::system(format!(
                "tasks cannot run in {}: {error}. Choose another with --dir",
                what.display()
            ))
        };
        match given {
            Some(base) => {
                std::fs::create_dir_all(base).map_err(|error| fails(base, error))?;
                let base = base.canonicalize().map_err(|error| fails(base, error))?;
                Ok(Places { base, keep_failed, own: None })
            }
            None => {
                let mut own = crate::own::scratch("work")?;
                own.disable_cleanup(keep_failed);
                Ok(Places { base: own.path().to_owned(), keep_failed, own: Some(own) })
            }
        }
    }

    /// The directory that was given, if one was.
    pub(crate) fn given(&self) -> Option<&Path> {
        self.own.is_none().then_some(&self.base)
    }

    /// The base, if it must not outlive the worker.
    pub(crate) fn passing(&self) -> Option<&Path> {
        self.own.as_ref().map(TempDir::path).filter(|_| !self.keep_failed)
    }

    pub(crate) fn open(&self, task: TaskId, attempt: u32) -> std::io::Result<Place> {
        let path = self.base.join(format!("{task}-{attempt}"));
        match std::fs::remove_dir_all(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => std::fs::create_dir(&path)?,
        }
        Ok(Place { path, keep_failed: self.keep_failed })
    }
}

impl Place {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the directory is removed if the worker dies.
    pub(crate) fn is_passing(&self) -> bool {
        !self.keep_failed
    }

    /// Removes the directory, unless the attempt failed and failed ones are kept. Returns its path if it still exists.
    pub(crate) fn close(self, succeeded: bool) -> Option<PathBuf> {
        if self.keep_failed && !succeeded {
            return Some(self.path);
        }
        // What cannot be removed stays for the operator to clean up.
        let _ = std::fs::remove_dir_all(&self.path);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_goes_with_its_attempt_unless_it_failed_and_is_kept() {
        let base = tempfile::tempdir().unwrap();
        let task = TaskId([7; 16]);
        for (keep, succeeded, stays) in
            [(false, true, false), (false, false, false), (true, true, false), (true, false, true)]
        {
            let places = Places::new(Some(base.path()), keep).unwrap();
            let place = places.open(task, 1).unwrap();
            std::fs::write(place.path().join("left-over"), "x").unwrap();
            let path = place.path().to_owned();
            assert_eq!(place.close(succeeded).is_some(), stays);
            assert_eq!(path.exists(), stays);
        }
        // The same attempt begins in an empty directory, whatever was there.
        let place = Places::new(Some(base.path()), false).unwrap().open(task, 1).unwrap();
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    }
}
