//! The guard: a small process beside the worker that survives the worker's `kill -9`.
//!
//! Commands lead their own process groups, so without the guard they would continue without their worker, and run
//! beside the next attempt. The worker tells the guard which groups exist. When the worker is gone without a
//! goodbye, the guard kills the groups and then informs the broker, which need not wait for the lease, because the
//! tasks no longer run. The guard also removes the directories that the worker created for its tasks. Until the
//! groups are dead it holds the worker's name (`claim.rs`), so that the next worker of the same name on this
//! machine does not start while they still run. The registration of that worker also frees the tasks: if one waits
//! for the name, the guard leaves informing the broker to it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tenure_client::wire::hello::{Hello, Key};
use tenure_client::wire::worker::WorkerSpec;
use tenure_client::wire::{FromBroker, Reply, Request};
use tenure_client::{Address, Connection, Name};

use super::Work;
use super::claim::Claim;
use super::group::Group;
use super::orphans;
use crate::args::Global;
use crate::exit::{Failure, OK, Outcome};
use crate::output::remark;

/// How long the guard waits for killed groups before it informs the broker.
const DYING: Duration = Duration::from_secs(5);
/// How long the broker is looked for. After that the lease ends the matter.
const TELLING: Duration = Duration::from_secs(30);
const TELL_EVERY: Duration = Duration::from_millis(100);
/// How long one attempt may take: another worker may wait for the name meanwhile.
const TRY: Duration = Duration::from_secs(3);
/// The guard prints this while another process holds the name, and which one.
const WAITING: &str = "waiting";
/// The guard prints this when the name is its worker's.
const READY: &str = "ready";
/// The guard prints this when it cannot guard its worker, and why.
const FAILED: &str = "failed";
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
    pub(crate) fn start(work: &Work, worker: &str, run: &str, global: &Global) -> Result<Guard, Failure> {
        let program = std::env::current_exe()
            .map_err(|error| Failure::system(format!("cannot find the path of this program: {error}")))?;
        let mut command = Command::new(program);
        command.args(["work", "--guard", "--id", worker, "--broker", &global.broker]);
        command.args(work.queues().iter().flat_map(|queue| ["--queue", queue]));
        let takeover = format!("{}ms", work.takeover_timeout.as_millis());
        command.args(["--takeover-timeout", &takeover]).env(orphans::MARK, run);
        if let Some(namespace) = &global.namespace {
            command.args(["--namespace", namespace]);
        }
        if let Some(key) = &global.key {
            // In the environment, where other users cannot see it.
            command.env("TENURE_KEY", key.reveal());
        }
        // Signals of a terminal are for the worker's group, not for the guard.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command
            .spawn()
            .map_err(|error| Failure::system(format!("cannot start the worker's guard: {error}")))?;
        let line = child.stdin.take().ok_or_else(|| Failure::internal("the guard has no stdin"))?;
        let stdout = child.stdout.take().ok_or_else(|| Failure::internal("the guard has no stdout"))?;
        for said in BufReader::new(stdout).lines() {
            let said = said?;
            let (word, why) = said.split_once(' ').unwrap_or((&said, ""));
            match word {
                READY => return Ok(Guard { child: Mutex::new(child), line: Mutex::new(line) }),
                WAITING => remark(format!("worker {worker} waits: {why}")),
                FAILED => return Err(Failure::system(why)),
                _ => {}
            }
        }
        let ended = child.wait().map(|status| status.to_string()).unwrap_or_default();
        Err(Failure::system(format!(
            "the worker's guard has ended at its start ({ended}): start the worker again"
        )))
    }

    pub(crate) fn add(&self, group: Group) {
        self.send(format!("+{}", group.number()).as_bytes());
    }

    pub(crate) fn remove(&self, group: Group) {
        self.send(format!("-{}", group.number()).as_bytes());
    }

    /// A directory that must not outlive the worker.
    pub(crate) fn add_place(&self, path: &Path) {
        self.send_dir(b">", path);
    }

    pub(crate) fn remove_place(&self, path: &Path) {
        self.send_dir(b"<", path);
    }

    fn send_dir(&self, sign: &[u8], path: &Path) {
        let path = path.as_os_str().as_bytes();
        // A path with a line break cannot be sent, and a part of it would be another path.
        if !path.contains(&b'\n') {
            self.send(&[sign, path].concat());
        }
    }

    /// Sends the guard away.
    pub(crate) fn release(&self) {
        self.send(GOODBYE.as_bytes());
        let _ = self.child.lock().unwrap_or_else(PoisonError::into_inner).wait();
    }

    fn send(&self, text: &[u8]) {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        // Without its guard the worker still works; only its own death is less tidy.
        let _ = line.write_all(&[text, b"\n"].concat());
    }
}

/// The guard's side: listens on stdin until the worker is gone.
pub(crate) fn run_guard(work: &Work, worker: &str, global: &Global) -> Outcome {
    let worker_pid = std::os::unix::process::parent_id();
    let waits = |for_whom: &str| drop(answer(WAITING, for_whom));
    let claimed = Claim::take(worker, global, worker_pid, work.takeover_timeout, waits);
    let name = claimed.inspect_err(|failure| drop(answer(FAILED, &failure.message)))?;
    answer(READY, "")?;
    let Some(RemainingProcesses { mut groups, places }) = listen(std::io::stdin().lock()) else {
        return Ok(OK);
    };
    name.ending();
    if let Some(run) = std::env::var_os(orphans::MARK) {
        groups.extend(orphans::find(&run.to_string_lossy()));
    }
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
            // A directory that cannot be removed stays for the operator to clean up.
            let _ = std::fs::remove_dir_all(place);
        }
    });
    let told = report_until_accepted(work, worker, global, &name);
    drop(name);
    let _ = tidying.join();
    told
}

/// Says something to the worker: a word, and one line about it.
fn answer(word: &str, about: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", format!("{word} {}", about.replace('\n', " ")).trim_end()).and_then(|()| out.flush())
}

/// Tells the broker, unless the next worker of the name is there to do so.
fn report_until_accepted(work: &Work, worker: &str, global: &Global, name: &Claim) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::internal(format!("cannot start the async runtime: {error}")))?;
    runtime.block_on(async {
        let since = Instant::now();
        while since.elapsed() < TELLING && !name.is_wanted() {
            match tokio::time::timeout(TRY, report_tasks_lost(work, worker, global)).await {
                Ok(Ok(())) => return Ok(OK),
                // The broker may not have noticed yet that the worker's connection is closed, or it is away itself.
                Ok(Err(_)) | Err(_) => tokio::time::sleep(TELL_EVERY).await,
            }
        }
        Ok(OK)
    })
}

/// The groups and directories of a worker that is gone without a goodbye.
#[derive(Debug, Default, PartialEq, Eq)]
struct RemainingProcesses {
    groups: BTreeSet<Group>,
    places: BTreeSet<PathBuf>,
}

/// The groups and directories that a dead worker has left; `None` if it said goodbye.
fn listen(mut from: impl BufRead) -> Option<RemainingProcesses> {
    let mut left = RemainingProcesses::default();
    let group = |text: &[u8]| str::from_utf8(text).ok()?.parse().ok().and_then(Group::led_by);
    let place = |path: &[u8]| Some(PathBuf::from(OsStr::from_bytes(path))).filter(|path| path.is_absolute());
    loop {
        let mut line = Vec::new();
        let _ = from.read_until(b'\n', &mut line);
        // An incomplete line may contain a part of a number, which would name another group.
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

/// Registers under the worker's name without any attempts, as a new process would, and leaves.
async fn report_tasks_lost(work: &Work, worker: &str, global: &Global) -> Result<(), Failure> {
    let queues: Vec<Name> = work.queues().iter().map(|queue| queue.as_str().into()).collect();
    let mut spec = WorkerSpec::new(worker, queues, 1);
    spec.instance = u64::from(std::process::id());
    // A pulling worker is assigned nothing.
    spec.pulls = true;
    let hello = Hello {
        identity: Some(worker.into()),
        namespace: global.namespace.as_deref().map(Into::into),
        key: global.key.as_ref().map(|key| Key::new(key.reveal())),
        software: Some("tenure work, the guard".into()),
        ..Hello::default()
    };
    let addresses = Address::parse_many(&global.broker)?;
    let address = addresses.first().ok_or_else(|| Failure::usage("no address"))?;
    let mut connection = Connection::open(address, hello).await?;
    for request in [Request::Register(Box::new(spec)), Request::Leave] {
        let asked = connection.ask(&request);
        answered(&mut connection, asked).await?;
    }
    Ok(())
}

/// Waits for the reply with this number. Notices may come before it.
async fn answered(connection: &mut Connection, asked: u64) -> Result<(), Failure> {
    loop {
        let mut arrived = Vec::new();
        connection.turn(&mut arrived).await?;
        for message in arrived {
            match message {
                FromBroker::Reply { number, reply: Reply::Refused(refusal) } if number == asked => {
                    return Err(Failure::from(&*refusal));
                }
                FromBroker::Reply { number, .. } if number == asked => return Ok(()),
                FromBroker::Reply { .. } | FromBroker::Notice(_) => {}
            }
        }
    }
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
