//! One command, from its start to the end of everything it has started.
//!
//! It leads its own process group. To end it, the worker sends `TERM` to the group, and `KILL` when the grace is
//! over. When the command ends by itself, the worker ends the processes it has left behind in the same way. While a
//! client wants the task paused, the group is stopped in place.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tenure_client::{Context, Error, LogStream, WaitEnd};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::time::Instant;

use super::capture::{Capture, Lines};
use super::control;
use super::directive::Directive;
use super::group::Group;
use super::guard::Guard;
use super::live::{Live, Printed};
use super::sink::Sinks;
use super::waits::{SuspendedTime, Waits};

/// How often a group whose leader has ended is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long pipes may stay open after the group is gone: a process that left the group may hold them.
const PIPES_AFTER: Duration = Duration::from_secs(1);
/// How much of a step's output later steps can read.
pub(crate) const PASSED_ON_BYTES_MAX: u64 = 1 << 30;
/// How often it is seen whether an attempt is still suspended.
const SUSPENDED_LOOK_EVERY: Duration = Duration::from_millis(500);
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
    /// What its processes wait for, if the worker can hear them.
    pub(crate) waits: Option<Waits>,
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
    /// It was stopped in place when it got that request.
    pub(crate) was_stopped: bool,
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

/// A group that is stopped in place until a client resumes its task.
struct Stop<'a> {
    since: Instant,
    /// Over when a client resumes the task; gone if the task should wind down instead.
    resumed: Option<Resumed<'a>>,
}

type Resumed<'a> = Pin<Box<dyn Future<Output = Result<Vec<WaitEnd>, Error>> + Send + 'a>>;

impl Launch<'_> {
    /// Runs it. When the task is interrupted, the group is ended; `stopped` is called for each stop in place and for its
    /// end. While its processes wait for other tasks, the attempt is suspended. An error means that it could not be started.
    pub(crate) async fn run(
        mut self,
        guard: &Guard,
        context: &Context,
        mut stopped: impl FnMut(bool),
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
        let mut interrupted = pin!(context.interrupted());
        let (mut was_interrupted, mut timed_out) = (false, false);
        // The attempt waits for one thing at a time: to be resumed, or else for other tasks.
        let (is_stopped, stopping) = watch::channel(false);
        let suspended = SuspendedTime::default();
        let waits = self.waits.take();
        let mut waits = pin!(async {
            match waits {
                Some(waits) => waits.serve(stopping, &suspended, |on| context.wait_for(on)).await,
                None => std::future::pending().await,
            }
        });
        let mut stop: Option<Stop<'_>> = None;
        let mut stopped_for = Duration::ZERO;
        let mut status: Option<ExitStatus> = None;
        let mut phase = Phase::Running;
        let mut gone_since: Option<Instant> = None;
        loop {
            if status.is_some() && gone_since.is_none() {
                if !group.is_alive() || matches!(phase, Phase::Killed) {
                    gone_since = Some(Instant::now());
                } else if matches!(phase, Phase::Running) {
                    phase = self.terminate(group, stop.is_some());
                }
            }
            let drained = stdout.is_none() && stderr.is_none();
            if gone_since.is_some_and(|since| drained || since.elapsed() > PIPES_AFTER) {
                break;
            }
            let running = status.is_none() && matches!(phase, Phase::Running);
            // Time in which the group is stopped or the attempt is suspended does not count.
            let is_suspended = suspended.is_now();
            let idle = stopped_for + suspended.so_far(Instant::now());
            let over_at = self.time_limit.and_then(|limit| begun.checked_add(limit)?.checked_add(idle));
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
                            phase = self.terminate(group, stop.is_some());
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
                _ = &mut interrupted, if running => {
                    was_interrupted = true;
                    phase = self.terminate(group, stop.is_some());
                }
                () = context.stop_wanted(), if running && stop.is_none() => {
                    group.stop();
                    // It takes the place of a wait for other tasks, which then ends.
                    let resumed = context.wait_for_resume();
                    is_stopped.send_replace(true);
                    stop = Some(Stop { since: Instant::now(), resumed: Some(Box::pin(resumed)) });
                    stopped(true);
                }
                is_interrupted = resumed(&mut stop), if running && stop.is_some() => {
                    if !is_interrupted && let Some(stop) = stop.take() {
                        stopped_for += stop.since.elapsed();
                        is_stopped.send_replace(false);
                        group.go_on();
                        stopped(false);
                    }
                }
                () = until(over_at), if running && stop.is_none() && !is_suspended => {
                    // It may have been suspended in the meantime.
                    if self.is_over(begun.elapsed(), stopped_for + suspended.so_far(Instant::now())) {
                        timed_out = true;
                        phase = self.terminate(group, false);
                    }
                }
                never = &mut waits, if running => match never {},
                // The end of a suspension is noticed soon enough for a time limit.
                () = tokio::time::sleep(SUSPENDED_LOOK_EVERY), if is_suspended => {}
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
            took: begun.elapsed().saturating_sub(stopped_for + suspended.so_far(Instant::now())),
            timed_out,
            interrupted: was_interrupted,
            was_stopped: stop.is_some(),
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
        // The trace is the task's own, not the one in which the worker was started; so is the control socket.
        for variable in ["TRACEPARENT", "TRACESTATE", control::VARIABLE] {
            if !self.env.iter().any(|(name, _)| name == variable) {
                command.env_remove(variable);
            }
        }
        command.process_group(0).kill_on_drop(true);
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
    }

    /// Whether the time limit has passed, without the time that does not count.
    fn is_over(&self, elapsed: Duration, idle: Duration) -> bool {
        self.time_limit.is_some_and(|limit| elapsed.saturating_sub(idle) >= limit)
    }

    fn terminate(&self, group: Group, is_stopped: bool) -> Phase {
        group.terminate();
        if is_stopped {
            // It has to run to receive the signal.
            group.go_on();
        }
        Phase::Terminated { kill_at: Instant::now() + self.grace }
    }
}

/// Waits until a client resumes the task. Returns whether the task should wind down instead.
async fn resumed(stop: &mut Option<Stop<'_>>) -> bool {
    let Some(resumed) = stop.as_mut().and_then(|stop| stop.resumed.as_mut()) else {
        return std::future::pending().await;
    };
    let is_interrupted = matches!(resumed.await, Err(Error::Interrupted { .. }));
    if let Some(stop) = stop {
        stop.resumed = None;
    }
    is_interrupted
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
