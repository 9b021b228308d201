//! A command that has been started: its process group, its streams, and the progress of ending it.

use std::fs::File;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::pin::Pin;
use std::process::ExitStatus;
use std::time::Duration;

use tenure_client::{Context, Error, LogStream, WaitEnd};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdout};
use tokio::sync::watch;
use tokio::time::Instant;

use super::capture::{Capture, Lines};
use super::command::{CommandResult, Input, Launch};
use super::directive::Directive;
use super::group::Group;
use super::guard::Guard;
use super::live::Live;
use super::sink::Sinks;
use super::waits::SuspendedTime;

/// How long pipes may stay open after the group is gone: a process that left the group may hold them.
const PIPES_AFTER: Duration = Duration::from_secs(1);
/// How much of a step's output later steps can read.
const PASSED_ON_BYTES_MAX: u64 = 1 << 30;
const READ_BYTES: usize = 64 << 10;

pub(super) struct RunningCommand<'a> {
    /// The first field, because it must be dropped before the child.
    _guarded: GuardedGroup<'a>,
    group: Group,
    pub(super) child: Child,
    /// Set when the leader of the group has ended.
    pub(super) status: Option<ExitStatus>,
    begun: Instant,
    time_limit: Option<Duration>,
    grace: Duration,
    pub(super) stdout: Stream<ChildStdout>,
    pub(super) stderr: Stream<ChildStderr>,
    lines: Lines,
    passed_on: Option<PassedOn>,
    sinks: Sinks,
    pub(super) live: &'a mut Live,
    phase: Phase,
    gone_since: Option<Instant>,
    was_interrupted: bool,
    timed_out: bool,
    /// Set while the group is stopped in place.
    pub(super) stop: Option<StopInPlace<'a>>,
    is_stopped: watch::Sender<bool>,
    stopped_for: Duration,
    suspended: &'a SuspendedTime,
}

/// The progress of ending the group.
#[derive(Clone, Copy, Debug)]
enum Phase {
    Running,
    Terminated { kill_at: Instant },
    Killed,
}

/// A group that is stopped in place until a client resumes its task.
pub(super) struct StopInPlace<'a> {
    since: Instant,
    /// Over when a client resumes the task; gone if the task should wind down instead.
    resumed: Option<Resumed<'a>>,
}

type Resumed<'a> = Pin<Box<dyn Future<Output = Result<Vec<WaitEnd>, Error>> + Send + 'a>>;

impl<'a> RunningCommand<'a> {
    pub(super) fn start(
        launch: Launch<'_>,
        guard: &'a Guard,
        live: &'a mut Live,
        suspended: &'a SuspendedTime,
        is_stopped: watch::Sender<bool>,
    ) -> std::io::Result<RunningCommand<'a>> {
        let begun = Instant::now();
        let passed_on = launch.passed_on.as_ref().map(File::create).transpose()?;
        let mut child = launch.spawn()?;
        let group = Group::led_by(child.id().unwrap_or_default())
            .ok_or_else(|| std::io::Error::other("it has no number"))?;
        let guarded = GuardedGroup::new(guard, group);
        if let (Input::Text(text), Some(mut stdin)) = (launch.stdin, child.stdin.take()) {
            // It may end without reading everything.
            tokio::spawn(async move { stdin.write_all(text.as_bytes()).await });
        }
        Ok(RunningCommand {
            _guarded: guarded,
            group,
            status: None,
            begun,
            time_limit: launch.time_limit,
            grace: launch.grace,
            stdout: Stream::new(child.stdout.take(), launch.kept_bytes),
            stderr: Stream::new(child.stderr.take(), launch.kept_bytes),
            child,
            lines: Lines::default(),
            passed_on: passed_on.map(|file| PassedOn { file, bytes: 0 }),
            sinks: launch.sinks,
            live,
            phase: Phase::Running,
            gone_since: None,
            was_interrupted: false,
            timed_out: false,
            stop: None,
            is_stopped,
            stopped_for: Duration::ZERO,
            suspended,
        })
    }

    /// Whether the command runs or is stopped in place, and no signal to end has been sent.
    pub(super) fn is_running(&self) -> bool {
        self.status.is_none() && matches!(self.phase, Phase::Running)
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.is_some()
    }

    /// When the time limit ends the command.
    pub(super) fn over_at(&self) -> Option<Instant> {
        self.begun.checked_add(self.time_limit?)?.checked_add(self.idle())
    }

    pub(super) fn kill_at(&self) -> Option<Instant> {
        match self.phase {
            Phase::Terminated { kill_at } => Some(kill_at),
            Phase::Running | Phase::Killed => None,
        }
    }

    /// When the command has ended: ends the processes that it has left behind, and notices when they are gone.
    pub(super) fn end_leftovers(&mut self) {
        if self.status.is_none() || self.gone_since.is_some() {
            return;
        }
        if !self.group.is_alive() || matches!(self.phase, Phase::Killed) {
            self.gone_since = Some(Instant::now());
        } else if matches!(self.phase, Phase::Running) {
            self.terminate();
        }
    }

    /// Whether all processes are gone and everything they wrote has been read.
    pub(super) fn is_gone(&self) -> bool {
        let drained = !self.stdout.is_open() && !self.stderr.is_open();
        self.gone_since.is_some_and(|since| drained || since.elapsed() > PIPES_AFTER)
    }

    pub(super) fn on_stdout(&mut self, count: usize, tell: impl FnMut(Directive)) {
        let bytes = &self.stdout.buffer[..count];
        self.stdout.capture.add(bytes);
        self.live.add(LogStream::Stdout, bytes);
        if let Some(sink) = &mut self.sinks.stdout {
            sink.write(bytes);
        }
        self.lines.add(bytes, tell);
        if let Some(passed_on) = &mut self.passed_on
            && !passed_on.write(bytes)
        {
            // Half an input would be worse than none.
            self.stderr.capture.add(b"tenure work: the output cannot be passed on to later steps: too long, or no room on the disk\n");
            self.passed_on = None;
            self.on_interrupt();
        }
    }

    pub(super) fn on_stderr(&mut self, count: usize) {
        let bytes = &self.stderr.buffer[..count];
        self.stderr.capture.add(bytes);
        self.live.add(LogStream::Stderr, bytes);
        if let Some(sink) = &mut self.sinks.stderr {
            sink.write(bytes);
        }
    }

    pub(super) fn on_interrupt(&mut self) {
        self.was_interrupted = true;
        self.terminate();
    }

    /// Stops the group in place, until a client resumes the task.
    pub(super) fn on_stop(&mut self, context: &'a Context) {
        self.group.stop();
        // It takes the place of a wait for other tasks, which then ends.
        let resumed = context.wait_for_resume();
        self.is_stopped.send_replace(true);
        self.stop = Some(StopInPlace { since: Instant::now(), resumed: Some(Box::pin(resumed)) });
    }

    pub(super) fn on_resume(&mut self) {
        if let Some(stop) = self.stop.take() {
            self.stopped_for += stop.since.elapsed();
            self.is_stopped.send_replace(false);
            self.group.resume();
        }
    }

    pub(super) fn on_time_limit(&mut self) {
        // It may have been suspended in the meantime.
        let ran = self.begun.elapsed().saturating_sub(self.idle());
        if self.time_limit.is_some_and(|limit| ran >= limit) {
            self.timed_out = true;
            self.terminate();
        }
    }

    pub(super) fn on_grace_over(&mut self) {
        self.group.kill();
        self.phase = Phase::Killed;
    }

    pub(super) fn finish(self) -> CommandResult {
        let took = self.begun.elapsed().saturating_sub(self.idle());
        let status = self.status.unwrap_or_default();
        let signal = status.signal();
        CommandResult {
            exit_code: status.code().or(signal.map(|signal| 128 + signal)).unwrap_or(1),
            signal,
            stdout: self.stdout.capture,
            stderr: self.stderr.capture,
            took,
            timed_out: self.timed_out,
            interrupted: self.was_interrupted,
            was_stopped: self.stop.is_some(),
            not_written: self.sinks.trouble(),
        }
    }

    /// The time that does not count: the group was stopped, or the attempt was suspended.
    fn idle(&self) -> Duration {
        self.stopped_for + self.suspended.so_far(Instant::now())
    }

    fn terminate(&mut self) {
        self.group.terminate();
        if self.stop.is_some() {
            // It has to run to receive the signal.
            self.group.resume();
        }
        self.phase = Phase::Terminated { kill_at: Instant::now() + self.grace };
    }
}

/// Waits until a client resumes the task. Returns whether the task should wind down instead.
pub(super) async fn resumed(stop: &mut Option<StopInPlace<'_>>) -> bool {
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

/// An output stream of the command, and the part of it that is kept.
pub(super) struct Stream<R> {
    pipe: Option<R>,
    buffer: Vec<u8>,
    capture: Capture,
}

impl<R: AsyncRead + Unpin> Stream<R> {
    fn new(pipe: Option<R>, kept_bytes: usize) -> Stream<R> {
        Stream { pipe, buffer: vec![0; READ_BYTES], capture: Capture::new(kept_bytes) }
    }

    pub(super) fn is_open(&self) -> bool {
        self.pipe.is_some()
    }

    /// Reads some bytes into the buffer and returns how many. Closes the pipe at the end of the stream.
    pub(super) async fn read(&mut self) -> usize {
        let Some(pipe) = &mut self.pipe else { return 0 };
        let count = pipe.read(&mut self.buffer).await.unwrap_or(0);
        if count == 0 {
            self.pipe = None;
        }
        count
    }
}

/// The file in which later steps read the whole output.
struct PassedOn {
    file: File,
    bytes: u64,
}

impl PassedOn {
    /// Returns whether all bytes were written and the file may have this many.
    fn write(&mut self, bytes: &[u8]) -> bool {
        self.bytes += bytes.len() as u64;
        self.bytes <= PASSED_ON_BYTES_MAX && self.file.write_all(bytes).is_ok()
    }
}
