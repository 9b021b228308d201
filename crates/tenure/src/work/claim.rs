//! A worker's name on this machine: a locked file that one guard holds at a time.
//!
//! The file says which process holds the name and for which worker. A process that waits for the name locks a
//! second file, so that the holder notices and releases the name as soon as it can.

use std::fs::File;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, test_kill_process};

use crate::args::Global;
use crate::exit::Failure;
use crate::units::show_duration;

/// After this time the program reports what it waits for.
const TOLD_AFTER: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Holds the name until it is dropped.
pub(crate) struct Claim {
    path: PathBuf,
    file: File,
    worker_pid: u32,
}

/// Whether the holder of the name works, or its guard ends what it has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Working,
    /// Its worker is dead; what that has left is being ended.
    Ending,
}

/// Who holds a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Holder {
    worker: u32,
    guard: u32,
    doing: Doing,
}

impl Claim {
    /// Takes the name as soon as the previous holder releases it, within `connect_timeout`. `tell` gets a message
    /// about what it waits for.
    pub(crate) fn take(
        worker: &str,
        global: &Global,
        worker_pid: u32,
        timeout: Duration,
        tell: impl Fn(&str),
    ) -> Result<Claim, Failure> {
        let path = path_of(worker, global);
        let since = Instant::now();
        let mut waiting: Option<File> = None;
        let mut is_printed = false;
        loop {
            let mut file = open(&path)?;
            let is_locked = flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
            // The previous holder may have removed the file: the lock counts only on the file that the path names now.
            let found = std::fs::metadata(&path).map(|found| found.ino());
            if is_locked && found.ok() == file.metadata().map(|own| own.ino()).ok() {
                let claim = Claim { path, file, worker_pid };
                claim.write(Doing::Working);
                return Ok(claim);
            }
            if waiting.is_none() {
                let file = open(&wanted(&path))?;
                // Several may wait.
                let _ = flock(&file, FlockOperation::NonBlockingLockShared);
                waiting = Some(file);
            }
            let holder = Holder::read(&mut file);
            if !is_printed && since.elapsed() > TOLD_AFTER {
                tell(&describe(holder));
                is_printed = true;
            }
            if since.elapsed() > timeout {
                return Err(Failure::system(format!(
                    "the name {worker} is not free after {}: {}. {}",
                    show_duration(timeout),
                    describe(holder),
                    advice(holder)
                )));
            }
            drop(file);
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// From here on the name is only held until what the worker left is ended.
    pub(crate) fn ending(&self) {
        self.write(Doing::Ending);
    }

    /// Whether another process waits for the name.
    pub(crate) fn is_wanted(&self) -> bool {
        let Ok(file) = File::options().read(true).open(wanted(&self.path)) else { return false };
        flock(&file, FlockOperation::NonBlockingLockExclusive).is_err()
    }

    fn write(&self, doing: Doing) {
        let word = match doing {
            Doing::Working => "working",
            Doing::Ending => "ending",
        };
        // In one write of always the same length, so that there is no moment without an answer.
        let text = format!("{:10} {:10} {word:7}\n", self.worker_pid, std::process::id());
        // Only for people: without it the name is held all the same.
        let _ = self.file.write_all_at(text.as_bytes(), 0);
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Removed while it is still locked, so that this cannot remove another process's file.
        let _ = std::fs::remove_file(&self.path);
        if !self.is_wanted() {
            let _ = std::fs::remove_file(wanted(&self.path));
        }
    }
}

impl Holder {
    fn read(file: &mut File) -> Option<Holder> {
        let mut text = String::new();
        file.take(100).read_to_string(&mut text).ok()?;
        Holder::parse(&text)
    }

    fn parse(text: &str) -> Option<Holder> {
        let mut words = text.split_whitespace();
        let mut number = || words.next()?.parse().ok();
        let (worker, guard) = (number()?, number()?);
        let doing = match words.next()? {
            "working" => Doing::Working,
            "ending" => Doing::Ending,
            _ => return None,
        };
        Some(Holder { worker, guard, doing })
    }

    /// A worker that is dead although its guard does not say so: the guard does not hear it.
    fn is_orphaned(self) -> bool {
        self.doing == Doing::Working && !is_there(self.worker)
    }
}

fn describe(holder: Option<Holder>) -> String {
    match holder {
        None => "another worker of this name runs on this machine, or its tasks are being stopped".to_owned(),
        Some(holder @ Holder { worker, guard, .. }) if holder.is_orphaned() => format!(
            "another worker of this name is dead (process {worker}), and its guard (process {guard}) has not noticed"
        ),
        Some(Holder { worker, doing: Doing::Working, .. }) => {
            format!("another worker of this name runs on this machine, as process {worker}")
        }
        Some(Holder { worker, guard, doing: Doing::Ending }) => format!(
            "another worker of this name is dead (process {worker}), and its guard (process {guard}) is stopping its tasks"
        ),
    }
}

fn advice(holder: Option<Holder>) -> String {
    match holder {
        Some(holder) if holder.is_orphaned() || holder.doing == Doing::Ending => {
            format!(
                "Find out what blocks process {} and stop it, or choose another name with --id",
                holder.guard
            )
        }
        Some(Holder { worker, .. }) => format!("End it (kill {worker}), or choose another name with --id"),
        None => "Choose another name with --id".to_owned(),
    }
}

fn is_there(pid: u32) -> bool {
    Pid::from_raw(pid.cast_signed()).is_some_and(|pid| test_kill_process(pid).is_ok())
}

fn path_of(worker: &str, global: &Global) -> PathBuf {
    let namespace = global.namespace.as_deref().unwrap_or_default();
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    let hash = hasher.hash_one((worker, namespace, &global.broker));
    let user = rustix::process::getuid().as_raw();
    std::env::temp_dir().join(format!("tenure-work-{user}-{hash:016x}.lock"))
}

fn wanted(path: &Path) -> PathBuf {
    path.with_extension("wanted")
}

fn open(path: &Path) -> Result<File, Failure> {
    let open = File::options().create(true).truncate(false).read(true).write(true).mode(0o600).open(path);
    open.map_err(|error| {
        Failure::system(format!(
            "cannot open {}: {error}. Set TMPDIR to use another directory",
            path.display()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_a_name_is_shown_with_what_to_do() {
        let own = std::process::id();
        let holder = |text: String| Holder::parse(&text);
        let working = holder(format!("{own} 7 working\n"));
        assert!(describe(working).contains(&format!("as process {own}")), "{}", describe(working));
        assert!(advice(working).contains(&format!("kill {own}")));
        let ending = holder("4194303 7 ending\n".to_owned());
        assert!(
            describe(ending).contains("its guard (process 7) is stopping its tasks"),
            "{}",
            describe(ending)
        );
        let orphaned = holder("4194303 7 working\n".to_owned());
        assert!(describe(orphaned).contains("has not noticed"), "{}", describe(orphaned));
        assert!(advice(orphaned).contains("process 7"));
        for half in ["", "1", "1 2", "1 2 sleeping", "x y working"] {
            assert_eq!(holder(half.to_owned()), None);
        }
    }
}
