//! One command, from its start to the end of everything it has started.
//!
//! It leads its own process group. To end it, the worker sends `TERM` to the group, and `KILL` when the grace is
//! over. When the command ends by itself, the worker ends the processes it has left behind in the same way.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tenure_client::LogStream;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::time::Instant;

use super::capture::{Capture, Lines};
use super::directive::Directive;
use super::group::Group;
use super::guard::Guard;
use super::live::{Live, Printed};
use super::sink::Sinks;

/// How often a group whose leader has ended is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long pipes may stay open after the group is gone: a process that left the group may hold them.
const PIPES_AFTER: Duration = Duration::from_secs(1);
/// How much of a step's output later steps can read.
pub(crate) const PASSED_ON_BYTES_MAX: u64 = 1 << 30;
const READ_BYTES: usize = 64 << 10;

/// What to start, where, and within which bounds.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    pub(crate) program: &'a str,
    pub(crate) args: &'a [String],
    pub(crate) env: &'a [(String, OsString)],
    pub(crate) cwd: PathBuf,
    pub(crate) stdin: Input,
    pub(crate) time_limit: Option<Duration>,
    /// How much is kept of each stream.
    pub(crate) kept_bytes: usize,
    /// Where all of stdout goes for others to read.
    pub(crate) passed_on: Option<PathBuf>,
    /// Files that get everything.
    pub(crate) sinks: Sinks,
    pub(crate) grace: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    Nothing,
    Text(String),
    File(PathBuf),
}

/// The outcome of a command.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) exit_code: i32,
    pub(crate) signal: Option<i32>,
    pub(crate) stdout: Capture,
    pub(crate) stderr: Capture,
    pub(crate) took: Duration,
    pub(crate) timed_out: bool,
    /// It got a termination request before it had ended.
    pub(crate) interrupted: bool,
    /// A file that should have got its output did not.
    pub(crate) not_written: Option<String>,
}

/// The progress of ending the group.
#[derive(Clone, Copy, Debug)]
enum Phase {
    Running,
    Terminated { kill_at: Instant },
    Killed,
}

impl Launch<'_> {
    /// Runs it. When `interrupted` comes, the group is ended. An error means that it could not be started.
    pub(crate) async fn run(
        mut self,
        guard: &Guard,
        interrupted: impl Future<Output = ()>,
        mut tell: impl FnMut(Directive),
        live: &mut Live,
        mut print: impl FnMut(Printed),
    ) -> std::io::Result<Ran> {
        let begun = Instant::now();
        let mut passed_on = self.passed_on.as_ref().map(File::create).transpose()?;
        let mut passed_bytes = 0;
        let mut child = self.spawn()?;
        let group = Group::led_by(child.id().unwrap_or_default())
            .ok_or_else(|| std::io::Error::other("it has no number"))?;
        let _tended = GuardedGroup::new(guard, group);
        if let (Input::Text(text), Some(mut stdin)) = (&self.stdin, child.stdin.take()) {
            let text = text.clone();
            // It may end without reading everything.
            tokio::spawn(async move { stdin.write_all(text.as_bytes()).await });
        }
        let (mut stdout, mut stderr) = (child.stdout.take(), child.stderr.take());
        let (mut out, mut err) = (Capture::new(self.kept_bytes), Capture::new(self.kept_bytes));
        let (mut out_read, mut err_read) = (vec![0; READ_BYTES], vec![0; READ_BYTES]);
        let mut lines = Lines::default();
        let mut interrupted = pin!(interrupted);
        let (mut was_interrupted, mut timed_out) = (false, false);
        let mut status: Option<ExitStatus> = None;
        let mut phase = Phase::Running;
        let mut gone_since: Option<Instant> = None;
        let over_at = self.time_limit.and_then(|limit| begun.checked_add(limit));
        loop {
            if status.is_some() && gone_since.is_none() {
                if !group.is_alive() || matches!(phase, Phase::Killed) {
                    gone_since = Some(Instant::now());
                } else if matches!(phase, Phase::Running) {
                    phase = self.terminate(group);
                }
            }
            let drained = stdout.is_none() && stderr.is_none();
            if gone_since.is_some_and(|since| drained || since.elapsed() > PIPES_AFTER) {
                break;
            }
            let running = status.is_none() && matches!(phase, Phase::Running);
            tokio::select! {
                count = read(&mut stdout, &mut out_read), if stdout.is_some() => {
                    let bytes = &out_read[..count];
                    out.add(bytes);
                    live.add(LogStream::Stdout, bytes);
                    if let Some(sink) = &mut self.sinks.stdout {
                        sink.write(bytes);
                    }
                    lines.add(bytes, &mut tell);
                    if let Some(file) = &mut passed_on {
                        passed_bytes += bytes.len() as u64;
                        if passed_bytes > PASSED_ON_BYTES_MAX || file.write_all(bytes).is_err() {
                            // Half an input would be worse than none.
                            err.add(b"tenure work: the output cannot be passed on to later steps: too long, or no room on the disk\n");
                            passed_on = None;
                            was_interrupted = true;
                            phase = self.terminate(group);
                        }
                    }
                }
                count = read(&mut stderr, &mut err_read), if stderr.is_some() => {
                    let bytes = &err_read[..count];
                    err.add(bytes);
                    live.add(LogStream::Stderr, bytes);
                    if let Some(sink) = &mut self.sinks.stderr {
                        sink.write(bytes);
                    }
                }
                ended = child.wait(), if status.is_none() => status = Some(ended?),
                () = &mut interrupted, if running => {
                    was_interrupted = true;
                    phase = self.terminate(group);
                }
                () = until(over_at), if running => {
                    timed_out = true;
                    phase = self.terminate(group);
                }
                () = until(kill_at(phase)), if matches!(phase, Phase::Terminated { .. }) => {
                    group.kill();
                    phase = Phase::Killed;
                }
                () = until(live.due()), if live.due().is_some() => {
                    live.take(Instant::now()).into_iter().for_each(&mut print);
                }
                () = tokio::time::sleep(LOOK_EVERY), if status.is_some() => {}
            }
        }
        let status = status.unwrap_or_default();
        let signal = status.signal();
        Ok(Ran {
            exit_code: status.code().or(signal.map(|signal| 128 + signal)).unwrap_or(1),
            signal,
            stdout: out,
            stderr: err,
            took: begun.elapsed(),
            timed_out,
            interrupted: was_interrupted,
            not_written: self.sinks.trouble(),
        })
    }

    fn spawn(&self) -> std::io::Result<Child> {
        let stdin = match &self.stdin {
            Input::Nothing => Stdio::null(),
            Input::Text(_) => Stdio::piped(),
            Input::File(path) => File::open(path)?.into(),
        };
        let mut command = Command::new(self.program);
        command
            .args(self.args)
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.cwd);
        for variable in crate::key::VARIABLES {
            command.env_remove(variable);
        }
        command.process_group(0).kill_on_drop(true);
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
    }

    fn terminate(&self, group: Group) -> Phase {
        group.terminate();
        Phase::Terminated { kill_at: Instant::now() + self.grace }
    }
}

/// While it exists, the guard tracks the group, whatever happens to this process or this future.
struct GuardedGroup<'a> {
    guard: &'a Guard,
    group: Group,
}

impl<'a> GuardedGroup<'a> {
    fn new(guard: &'a Guard, group: Group) -> GuardedGroup<'a> {
        guard.add(group);
        GuardedGroup { guard, group }
    }
}

impl Drop for GuardedGroup<'_> {
    fn drop(&mut self) {
        if self.group.is_alive() {
            self.group.kill();
        }
        self.guard.remove(self.group);
    }
}

/// Reads some; at the end of the stream it is taken away.
async fn read<R: AsyncRead + Unpin>(from: &mut Option<R>, into: &mut [u8]) -> usize {
    let Some(stream) = from else { return 0 };
    let count = stream.read(into).await.unwrap_or(0);
    if count == 0 {
        *from = None;
    }
    count
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

fn kill_at(phase: Phase) -> Option<Instant> {
    match phase {
        Phase::Terminated { kill_at } => Some(kill_at),
        Phase::Running | Phase::Killed => None,
    }
}
