//! The guard: a small process beside the worker that outlives its `kill -9`.
//!
//! Commands lead process groups of their own, so they would go on without their worker, and run beside the next attempt.
//! The worker tells the guard which groups there are. When the worker is gone without a goodbye, the guard kills the
//! groups and then tells the broker, which need not wait for the lease: the tasks are certainly not running any more. The
//! directories that the worker had made for its tasks go as well.
//! Until that is done it keeps a lock on the worker's name, so that the next worker of the same name on this machine,
//! whose coming also tells the broker that the tasks are free, does not begin while they still run.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use tenure_client::wire::hello::{Hello, Key};
use tenure_client::wire::worker::WorkerSpec;
use tenure_client::wire::{FromBroker, Reply, Request};
use tenure_client::{Address, Connection, Name};

use super::Work;
use super::group::Group;
use crate::args::Global;
use crate::exit::{Failure, OK, Outcome};
use crate::output::remark;

/// How long killed groups are waited for before the broker is told.
const DYING: Duration = Duration::from_secs(5);
/// How long the broker is looked for. After that the lease ends the matter.
const TELLING: Duration = Duration::from_secs(30);
const TELL_EVERY: Duration = Duration::from_millis(100);
/// How long the guard of a worker before of the same name may take. It gives up earlier.
const NAME_PATIENCE: Duration = Duration::from_secs(45);
/// After this time it is told what is waited for.
const NAME_TOLD: Duration = Duration::from_secs(1);
/// What the guard says while the name is still somebody else's.
const WAITING: &str = "waiting";
/// What the guard says when the name is its worker's.
const READY: &str = "ready";
/// The last line of a worker that leaves in peace.
const GOODBYE: &str = "goodbye";

/// The worker's side.
#[derive(Debug)]
pub(crate) struct Guard {
    child: Mutex<Child>,
    line: Mutex<ChildStdin>,
}

impl Guard {
    /// Starts a guard for the worker of this name.
    pub(crate) fn start(worker: &str, queues: &[String], global: &Global) -> Result<Guard, Failure> {
        let program = std::env::current_exe()
            .map_err(|error| Failure::system(format!("cannot tell where this program is: {error}")))?;
        let mut command = Command::new(program);
        command.args(["work", "--guard", "--id", worker, "--broker", &global.broker]);
        command.args(queues.iter().flat_map(|queue| ["--queue", queue]));
        if let Some(namespace) = &global.namespace {
            command.args(["--namespace", namespace]);
        }
        if let Some(key) = &global.key {
            // In the environment, where other users cannot see it.
            command.env("TENURE_KEY", key);
        }
        // What a terminal sends to the worker's group is not meant for the guard.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command
            .spawn()
            .map_err(|error| Failure::system(format!("cannot start the worker's guard: {error}")))?;
        let line = child.stdin.take().ok_or_else(|| Failure::internal("the guard has no stdin"))?;
        let mut said = String::new();
        if let Some(stdout) = child.stdout.take() {
            let mut stdout = BufReader::new(stdout);
            stdout.read_line(&mut said)?;
            if said.trim_end() == WAITING {
                remark(format!(
                    "worker {worker} waits: another of this name runs on this machine, or what it ran is being ended"
                ));
                said.clear();
                stdout.read_line(&mut said)?;
            }
        }
        if said.trim_end() != READY {
            return Err(Failure::system(format!(
                "a worker named {worker} runs on this machine already: choose another name with --id"
            )));
        }
        Ok(Guard { child: Mutex::new(child), line: Mutex::new(line) })
    }

    pub(crate) fn add(&self, group: Group) {
        self.say(format!("+{}", group.number()).as_bytes());
    }

    pub(crate) fn remove(&self, group: Group) {
        self.say(format!("-{}", group.number()).as_bytes());
    }

    /// A directory that must not outlive the worker.
    pub(crate) fn add_place(&self, path: &Path) {
        self.say_place(b">", path);
    }

    pub(crate) fn remove_place(&self, path: &Path) {
        self.say_place(b"<", path);
    }

    fn say_place(&self, sign: &[u8], path: &Path) {
        let path = path.as_os_str().as_bytes();
        // A path of two lines cannot be told, and half of it would be another one.
        if !path.contains(&b'\n') {
            self.say(&[sign, path].concat());
        }
    }

    /// Sends the guard away.
    pub(crate) fn dismiss(&self) {
        self.say(GOODBYE.as_bytes());
        let _ = self.child.lock().unwrap_or_else(PoisonError::into_inner).wait();
    }

    fn say(&self, text: &[u8]) {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        // Without its guard the worker still works; only its own death is less tidy.
        let _ = line.write_all(&[text, b"\n"].concat());
    }
}

/// The guard's side: listens on stdin until the worker is gone.
pub(crate) fn stand(work: &Work, worker: &str, global: &Global) -> Outcome {
    let _name = claim(worker, global, || {
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, "{WAITING}").and_then(|()| out.flush());
    })?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{READY}").and_then(|()| out.flush())?;
    drop(out);
    let Some(Left { groups, places }) = listen(std::io::stdin().lock()) else { return Ok(OK) };
    for group in &groups {
        group.kill();
    }
    let since = Instant::now();
    while groups.iter().any(|group| group.is_alive()) && since.elapsed() < DYING {
        std::thread::sleep(Duration::from_millis(10));
    }
    // Beside the telling: the next attempt need not wait until a large directory is gone.
    let tidying = std::thread::spawn(move || {
        for place in places {
            // What cannot be removed stays until somebody tidies up.
            let _ = std::fs::remove_dir_all(place);
        }
    });
    let told = tell_until_heard(work, worker, global);
    let _ = tidying.join();
    told
}

fn tell_until_heard(work: &Work, worker: &str, global: &Global) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::internal(format!("cannot start: {error}")))?;
    runtime.block_on(async {
        let since = Instant::now();
        while since.elapsed() < TELLING {
            match tell(work, worker, global).await {
                Ok(()) => return Ok(OK),
                // The broker may not have noticed yet that the worker's connection is closed, or it is away itself.
                Err(_) => tokio::time::sleep(TELL_EVERY).await,
            }
        }
        Ok(OK)
    })
}

/// Takes the worker's name on this machine, as soon as the guard of the worker before lets go of it.
fn claim(worker: &str, global: &Global, tell: impl Fn()) -> Result<Claim, Failure> {
    let namespace = global.namespace.as_deref().unwrap_or_default();
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    let hash = hasher.hash_one((worker, namespace, &global.broker));
    let user = rustix::process::getuid().as_raw();
    let path = std::env::temp_dir().join(format!("tenure-work-{user}-{hash:016x}.lock"));
    let since = Instant::now();
    let mut is_told = false;
    loop {
        let open = File::options().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let file =
            open.map_err(|error| Failure::system(format!("cannot open {}: {error}", path.display())))?;
        let is_locked = flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
        // Whoever let go has removed the file: the lock counts only on the one that can be found.
        let found = std::fs::metadata(&path).map(|found| found.ino());
        if is_locked && found.ok() == file.metadata().map(|own| own.ino()).ok() {
            return Ok(Claim { path, _file: file });
        }
        if !is_told && since.elapsed() > NAME_TOLD {
            tell();
            is_told = true;
        }
        if since.elapsed() > NAME_PATIENCE {
            return Err(Failure::system(format!("the name {worker} is taken")));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The worker's name on this machine.
struct Claim {
    path: PathBuf,
    _file: File,
}

impl Drop for Claim {
    fn drop(&mut self) {
        // While it is still locked, so that nobody's but this one's is removed.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// What a worker leaves behind that is gone without a goodbye.
#[derive(Debug, Default, PartialEq, Eq)]
struct Left {
    groups: BTreeSet<Group>,
    places: BTreeSet<PathBuf>,
}

/// What is left when the worker is gone; nothing if it said goodbye.
fn listen(mut from: impl BufRead) -> Option<Left> {
    let mut left = Left::default();
    let group = |text: &[u8]| str::from_utf8(text).ok()?.parse().ok().and_then(Group::led_by);
    let place = |path: &[u8]| Some(PathBuf::from(OsStr::from_bytes(path))).filter(|path| path.is_absolute());
    loop {
        let mut line = Vec::new();
        let _ = from.read_until(b'\n', &mut line);
        // Half a line may hold half a number: somebody else's.
        let Some(line) = line.strip_suffix(b"\n") else { return Some(left) };
        match line.split_first() {
            _ if line == GOODBYE.as_bytes() => return None,
            Some((b'+', number)) => left.groups.extend(group(number)),
            Some((b'-', number)) => {
                if let Some(group) = group(number) {
                    left.groups.remove(&group);
                }
            }
            Some((b'>', path)) => left.places.extend(place(path)),
            Some((b'<', path)) => {
                left.places.remove(Path::new(OsStr::from_bytes(path)));
            }
            _ => {}
        }
    }
}

/// Registers in the worker's name with empty hands, as a new process would, and leaves.
async fn tell(work: &Work, worker: &str, global: &Global) -> Result<(), Failure> {
    let queues: Vec<Name> = work.queues().iter().map(|queue| queue.as_str().into()).collect();
    let mut spec = WorkerSpec::new(worker, queues, 1);
    spec.instance = u64::from(std::process::id());
    // Whoever fetches for itself is given nothing.
    spec.pulls = true;
    let hello = Hello {
        identity: Some(worker.into()),
        namespace: global.namespace.as_deref().map(Into::into),
        key: global.key.as_deref().map(Key::new),
        software: Some("tenure work, the guard".into()),
        ..Hello::default()
    };
    let addresses = Address::parse_many(&global.broker)?;
    let address = addresses.first().ok_or_else(|| Failure::usage("no address"))?;
    let mut connection = Connection::open(address, hello).await?;
    for request in [Request::Register(Box::new(spec)), Request::Leave] {
        connection.ask(&request);
        let mut arrived = Vec::new();
        connection.turn(&mut arrived).await?;
        let refused = arrived.iter().find_map(|message| match message {
            FromBroker::Reply { reply: Reply::Refused(refusal), .. } => Some(&**refusal),
            _ => None,
        });
        if let Some(refusal) = refused {
            return Err(Failure::from(refusal));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guard_knows_what_is_left_when_the_worker_dies() {
        let left = |lines: &str| {
            listen(lines.as_bytes())
                .map(|left| left.groups.iter().map(|group| group.number()).collect::<Vec<_>>())
        };
        assert_eq!(left("+100\n+200\n-100\n"), Some(vec![200]));
        assert_eq!(left("+100\n+2"), Some(vec![100]));
        assert_eq!(left("+1\n+0\n+-5\n+x\n-77\n\n"), Some(vec![]));
        assert_eq!(left("+100\ngoodbye\n"), None);
    }

    #[test]
    fn the_guard_knows_which_directories_to_remove_and_never_half_a_path() {
        let left = |lines: &str| listen(lines.as_bytes()).expect("no goodbye").places;
        assert_eq!(left(">/tmp/a\n>/tmp/b b\n</tmp/a\n"), [PathBuf::from("/tmp/b b")].into());
        assert_eq!(left(">/tmp/a"), BTreeSet::new());
        assert_eq!(left(">\n>relative\n>../up\n"), BTreeSet::new());
    }
}
