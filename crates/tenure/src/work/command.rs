//! One command, from its start to the end of everything it has started.
//!
//! It leads its own process group. To end it, the worker sends `TERM` to the group, and `KILL` when the grace is
//! over. When the command ends by itself, the worker ends the processes it has left behind in the same way. While a
//! client wants the task paused, the group is stopped in place.

use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;
use std::pin::pin;
use std::process::Stdio;
use std::time::Duration;

use tenure_client::Context;
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::time::Instant;

use super::capture::Capture;
use super::control;
use super::directive::Directive;
use super::guard::Guard;
use super::live::{Live, Printed};
use super::running_command::{RunningCommand, resumed};
use super::sink::Sinks;
use super::waits::{SuspendedTime, Waits};

/// How often a group whose leader has ended is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How often it is seen whether an attempt is still suspended.
const SUSPENDED_LOOK_EVERY: Duration = Duration::from_millis(500);

/// The program to start, where, and within which bounds.
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
    /// The waits of its processes, if they can reach the worker.
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
pub(crate) struct CommandResult {
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
    ) -> std::io::Result<CommandResult> {
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
        let mut interrupted = pin!(context.interrupted());
        let mut command = RunningCommand::start(self, guard, live, &suspended, is_stopped)?;
        loop {
            command.end_leftovers();
            if command.is_gone() {
                return Ok(command.finish());
            }
            let is_running = command.is_running();
            let is_stopped = command.is_stopped();
            // Time in which the group is stopped or the attempt is suspended does not count.
            let is_suspended = suspended.is_now();
            let (over_at, kill_at, output_at) = (command.over_at(), command.kill_at(), command.live.due());
            tokio::select! {
                count = command.stdout.read(), if command.stdout.is_open() => command.on_stdout(count, &mut tell),
                count = command.stderr.read(), if command.stderr.is_open() => command.on_stderr(count),
                ended = command.child.wait(), if command.status.is_none() => command.status = Some(ended?),
                _ = &mut interrupted, if is_running => command.on_interrupt(),
                () = context.stop_wanted(), if is_running && !is_stopped => {
                    command.on_stop(context);
                    stopped(true);
                }
                is_interrupted = resumed(&mut command.stop), if is_running && is_stopped => {
                    if !is_interrupted {
                        command.on_resume();
                        stopped(false);
                    }
                }
                () = until(over_at), if is_running && !is_stopped && !is_suspended => command.on_time_limit(),
                never = &mut waits, if is_running => match never {},
                // The end of a suspension is noticed soon enough for a time limit.
                () = tokio::time::sleep(SUSPENDED_LOOK_EVERY), if is_suspended => {}
                () = until(kill_at), if kill_at.is_some() => command.on_grace_over(),
                () = until(output_at), if output_at.is_some() => {
                    command.live.take(Instant::now()).into_iter().for_each(&mut print);
                }
                () = tokio::time::sleep(LOOK_EVERY), if command.status.is_some() => {}
            }
        }
    }

    pub(super) fn spawn(&self) -> std::io::Result<Child> {
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
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}
