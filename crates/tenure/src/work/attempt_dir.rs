//! Working directories: one for each attempt, created before it and removed after it.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tenure_client::TaskId;

use super::output::LeftFile;
use crate::exit::Failure;

/// How many files of a directory are listed, and how deep they are looked for.
const FILES_LISTED_MAX: usize = 100;
const DEPTH_MAX: usize = 8;

/// Which directories outlive their attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keeping {
    /// Those of attempts that did not complete.
    pub(crate) failed: bool,
    /// Those that hold files.
    pub(crate) files: bool,
}

impl Keeping {
    fn is_any(self) -> bool {
        self.failed || self.files
    }
}

/// The files of a directory, and whether there are more than are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RemainingFiles {
    pub(crate) files: Vec<LeftFile>,
    pub(crate) more: bool,
}

/// The directory under which every attempt gets its own.
#[derive(Debug)]
pub(crate) struct AttemptDirs {
    base: PathBuf,
    keeping: Keeping,
    /// Held so that a base of this worker's own goes with it.
    own: Option<TempDir>,
}

/// One attempt's directory.
#[derive(Debug)]
pub(crate) struct AttemptDir {
    path: PathBuf,
    keeping: Keeping,
}

impl AttemptDirs {
    /// Under a directory that was given, or a private one of this worker.
    pub(crate) fn new(given: Option<&Path>, keeping: Keeping) -> Result<AttemptDirs, Failure> {
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
                Ok(AttemptDirs { base, keeping, own: None })
            }
            None => {
                let mut own = crate::spawned::scratch("work")?;
                own.disable_cleanup(keeping.is_any());
                Ok(AttemptDirs { base: own.path().to_owned(), keeping, own: Some(own) })
            }
        }
    }

    /// The directory that was given, if one was.
    pub(crate) fn configured_dir(&self) -> Option<&Path> {
        self.own.is_none().then_some(&self.base)
    }

    /// The base, if it must not outlive the worker.
    pub(crate) fn passing(&self) -> Option<&Path> {
        self.own.as_ref().map(TempDir::path).filter(|_| !self.keeping.is_any())
    }

    pub(crate) fn open(&self, task: TaskId, attempt: u32) -> std::io::Result<AttemptDir> {
        let path = self.base.join(format!("{task}-{attempt}"));
        match std::fs::remove_dir_all(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => std::fs::create_dir(&path)?,
        }
        Ok(AttemptDir { path, keeping: self.keeping })
    }
}

impl AttemptDir {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the directory is removed if the worker dies.
    pub(crate) fn is_passing(&self) -> bool {
        !self.keeping.is_any()
    }

    /// Whether the directory stays after an attempt that ended so and left these files.
    pub(crate) fn stays(&self, succeeded: bool, left: &RemainingFiles) -> bool {
        self.keeping.failed && !succeeded || self.keeping.files && !left.files.is_empty()
    }

    /// Removes the directory.
    pub(crate) fn remove(self) {
        // A directory that cannot be removed stays for the operator to clean up.
        let _ = std::fs::remove_dir_all(&self.path);
    }

    /// The files in it, except those with which the worker passes output from one step of a plan to the next.
    pub(crate) fn left(&self) -> RemainingFiles {
        let mut left = RemainingFiles::default();
        list(&self.path, &self.path, DEPTH_MAX, &mut left);
        left.files.sort_by(|one, other| one.path.cmp(&other.path));
        left
    }
}

/// The file with which a step's output is passed on.
pub(crate) fn step_file(number: u32) -> String {
    format!("step-{number}.out")
}

fn list(base: &Path, dir: &Path, depth: usize, left: &mut RemainingFiles) {
    // A directory that cannot be read is listed as empty.
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
        if kind.is_dir() {
            match depth {
                0 => left.more = true,
                _ => list(base, &path, depth - 1, left),
            }
            continue;
        }
        let name = path.strip_prefix(base).unwrap_or(&path).to_string_lossy().into_owned();
        let is_step = name.strip_prefix("step-").and_then(|name| name.strip_suffix(".out"));
        if is_step.is_some_and(|number| number.parse::<u32>().is_ok()) {
            continue;
        }
        if left.files.len() == FILES_LISTED_MAX {
            left.more = true;
            return;
        }
        let bytes = entry.metadata().map_or(0, |about| about.len());
        left.files.push(LeftFile { path: name, bytes });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_goes_with_its_attempt_unless_it_is_to_be_kept() {
        let base = tempfile::tempdir().unwrap();
        let task = TaskId([7; 16]);
        for (failed, files, succeeded, stays) in [
            (false, false, true, false),
            (false, false, false, false),
            (true, false, true, false),
            (true, false, false, true),
            (false, true, true, true),
        ] {
            let places = AttemptDirs::new(Some(base.path()), Keeping { failed, files }).unwrap();
            let place = places.open(task, 1).unwrap();
            std::fs::write(place.path().join("left-over"), "x").unwrap();
            assert_eq!(place.stays(succeeded, &place.left()), stays);
            let path = place.path().to_owned();
            place.remove();
            assert!(!path.exists());
        }
        let places = AttemptDirs::new(Some(base.path()), Keeping { failed: false, files: true }).unwrap();
        let place = places.open(task, 1).unwrap();
        assert!(!place.stays(true, &place.left()), "an empty one is of no use");
        // The same attempt begins in an empty directory, whatever was there.
        std::fs::write(place.path().join("old"), "x").unwrap();
        let place = places.open(task, 1).unwrap();
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_files_of_a_directory_are_listed_within_bounds() {
        let base = tempfile::tempdir().unwrap();
        let place = AttemptDirs::new(Some(base.path()), Keeping::default())
            .unwrap()
            .open(TaskId([7; 16]), 1)
            .unwrap();
        std::fs::create_dir_all(place.path().join("a/b")).unwrap();
        std::fs::write(place.path().join("a/b/result.csv"), "1,2").unwrap();
        std::fs::write(place.path().join(step_file(1)), "passed on").unwrap();
        let one =
            RemainingFiles { files: vec![LeftFile { path: "a/b/result.csv".into(), bytes: 3 }], more: false };
        assert_eq!(place.left(), one);
        for number in 0..FILES_LISTED_MAX {
            std::fs::write(place.path().join(format!("{number}.txt")), "").unwrap();
        }
        let many = place.left();
        assert_eq!((many.files.len(), many.more), (FILES_LISTED_MAX, true));
    }
}
