//! A shell task, from the broker's assignment to the outcome that goes back.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::{Access, access};
use tenure_client::{CPUS, Context, Failure, GPUS, Interrupt, Outcome, Quantity};
use tenure_plans::{PlanJob, PlanTask};
use tokio::time::Instant;

use super::attempt_dir::{AttemptDir, AttemptDirs, RemainingFiles, step_file};
use super::attempt_locks::AttemptLocks;
use super::command::{CommandResult, Input, Launch};
use super::control::{self, Control};
use super::device_names::DeviceNames;
use super::directive::Directive;
use super::form::{self, Command, Form};
use super::guard::Guard;
use super::live::{Live, Printed};
use super::orphans::MARK;
use super::output::{Output, StepOutput};
use super::sink::{Names, Sinks};
use super::waits::Waits;
use crate::output::label;
use crate::output::paint::escape_line;
use crate::output::remark;
use crate::output::table::cut;
use crate::output::times::{clock, now};
use crate::units::show_duration;

/// How much all steps of a plan keep of their output together.
const PLAN_KEPT_BYTES: usize = 1 << 20;
/// The longest variable of the environment that an operating system takes. A line of output is shorter.
const VARIABLE_BYTES_MAX: usize = 64 << 10;
/// The longest part of stderr that goes into a failure's message.
const MESSAGE_LINE_MAX: usize = 300;
/// As a shell says it: there is no such command, or it cannot be run.
const NOT_FOUND: i32 = 127;
const NOT_RUNNABLE: i32 = 126;
/// How much of a name or a command each log line shows.
const CALLED_WIDTH: usize = 40;

/// Everything that all tasks of this worker share.
#[derive(Debug)]
pub(crate) struct Shell {
    pub(crate) guard: Guard,
    pub(crate) attempt_locks: AttemptLocks,
    pub(crate) places: AttemptDirs,
    /// Commands that wait for tasks say so there, if the socket could be opened.
    pub(crate) control: Option<Control>,
    pub(crate) worker: String,
    /// The mark of this worker's run, by which its guard finds commands that the worker did not announce.
    pub(crate) run: String,
    pub(crate) broker: String,
    pub(crate) namespace: Option<String>,
    /// Whether a body that is no shell task is a line for `sh`.
    pub(crate) any_line: bool,
    pub(crate) kept_bytes: usize,
    pub(crate) grace: Duration,
    pub(crate) quiet: bool,
    /// This machine's names of the cpus and gpus that the broker numbers.
    pub(crate) devices: DeviceNames,
    /// The resources of the worker.
    pub(crate) declared: Vec<(String, Quantity)>,
}

/// How an attempt ended, before it is put into the broker's words.
struct Done {
    output: Output,
    /// A time limit or this program ended it, and why.
    because: Option<String>,
    interrupted: bool,
    /// It was stopped in place when it was interrupted.
    was_stopped: bool,
}

impl Done {
    fn is_success(&self) -> bool {
        self.output.exit_code == 0 && self.because.is_none() && !self.interrupted
    }
}

impl Shell {
    pub(crate) async fn run(&self, context: Context) -> Outcome {
        let task = context.task();
        let form = match form::parse(context.body(), self.any_line) {
            Ok(form) => form,
            // Another try would find the same body.
            Err(message) => {
                self.log(&format!("task {}: {}", label::short(task), escape_line(&message)));
                return Outcome::fail(Failure::new(form_error(), message).last());
            }
        };
        let called = called(&context, &form);
        self.log(&format!("{called}: attempt {} begins", context.attempt()));
        // A command that must end has a grace period. The next attempt may have come already: it waits.
        let _lock = tokio::select! {
            biased;
            lock = self.attempt_locks.lock(task) => lock,
            _ = context.interrupted() => {
                let (outcome, sentence) = outcome_of(&context, &not_started_attempt());
                self.log(&format!("{called}: {sentence} while an older attempt was still ending"));
                return outcome;
            }
        };
        let place = match self.places.open(task, context.attempt()) {
            Ok(place) => place,
            Err(error) => {
                return Outcome::fail(Failure::new(1, format!("no directory for the task: {error}")));
            }
        };
        let path = place.path().to_owned();
        if place.is_passing() {
            self.guard.add_place(&path);
        }
        let mut live = Live::new(Instant::now());
        let mut done = match &form {
            Form::Command(command) => self.command(&context, command, &place, &mut live).await,
            Form::Plan(plan) => self.plan(&context, plan, &place, &mut live).await,
        };
        live.finish(done.is_success()).into_iter().for_each(|printed| send(&context, printed));
        let left = place.left();
        let stays = place.stays(done.is_success(), &left);
        done.output.kept_in = stays.then(|| path.display().to_string());
        let RemainingFiles { files, more } = left;
        (done.output.files, done.output.more_files) = (files, more);
        let (outcome, sentence) = outcome_of(&context, &done);
        if !stays {
            place.remove();
        }
        self.guard.remove_place(&path);
        let kept = if stays { format!("; its directory is {}", path.display()) } else { String::new() };
        let took = show_duration(Duration::from_millis(done.output.duration_ms));
        self.log(&format!("{called}: {} after {took}{kept}", escape_line(&sentence)));
        if let Some(files) = done.output.files_sentence().filter(|_| !stays) {
            self.log(&format!("{called}: {}", escape_line(&files)));
        }
        outcome
    }

    async fn command(
        &self,
        context: &Context,
        command: &Command,
        place: &AttemptDir,
        live: &mut Live,
    ) -> Done {
        let [program, args @ ..] = command.command.as_slice() else {
            return not_started("", &io::Error::other("nothing"));
        };
        let mut env = self.env(context, place);
        env.extend(command.env.iter().map(|(name, value)| (name.clone(), value.into())));
        let cwd = directory(command, place);
        let names = Names {
            id: context.task().to_string(),
            name: context.name().map(ToString::to_string).unwrap_or_default(),
            attempt: context.attempt(),
            index: context.index().map_or(0, u64::from),
        };
        let sinks = Sinks::open(command.stdout.as_deref(), command.stderr.as_deref(), &names, &cwd);
        let sinks = match sinks {
            Ok(sinks) => sinks,
            Err(why) => return refused_to_run(why),
        };
        let launch = Launch {
            program,
            args,
            env: &env,
            cwd: cwd.clone(),
            sinks,
            stdin: command.stdin.clone().map_or(Input::Nothing, Input::Text),
            time_limit: command.time_limit(),
            kept_bytes: self.kept_bytes,
            passed_on: None,
            grace: self.grace,
            waits: None,
        };
        match self.launch(launch, context, live).await {
            Ok(ran) => Done {
                was_stopped: ran.was_stopped,
                because: match ran.timed_out {
                    true => Some("it ran longer than its time limit".to_owned()),
                    false => ran.not_written.clone(),
                },
                interrupted: ran.interrupted,
                output: Output { cwd: Some(cwd.display().to_string()), ..output(&ran) },
            },
            Err(error) => match command.cwd.as_deref().filter(|cwd| !cwd.is_dir()) {
                Some(cwd) => {
                    refused_to_run(format!("the directory {} cannot be used: {error}", cwd.display()))
                }
                None => not_started(program, &error),
            },
        }
    }

    /// Step by step, up to the first that fails.
    async fn plan(&self, context: &Context, plan: &PlanJob, place: &AttemptDir, live: &mut Live) -> Done {
        let env = self.env(context, place);
        let kept_bytes = self.kept_bytes.min(PLAN_KEPT_BYTES / (2 * plan.tasks.len()));
        let passed_on = |number: u32| place.path().join(step_file(number));
        let mut done =
            Done { output: Output::default(), because: None, interrupted: false, was_stopped: false };
        let mut results = Vec::new();
        let steps = plan.tasks.len();
        for (index, step) in plan.tasks.iter().enumerate() {
            let percent = u8::try_from(index * 100 / steps).unwrap_or(100);
            context.progress(Some(percent), &format!("step {} of {steps}: {}", step.number, step.command));
            let launch = Launch {
                program: &step.command,
                args: &step.arguments,
                env: &env,
                cwd: place.path().to_owned(),
                stdin: input(plan, step, index, passed_on),
                time_limit: step.timeout,
                kept_bytes,
                passed_on: plan.tasks.is_read(step.number).then(|| passed_on(step.number)),
                sinks: Sinks::default(),
                grace: self.grace,
                waits: None,
            };
            let took_before = done.output.duration_ms;
            done = match self.launch(launch, context, live).await {
                Ok(ran) => {
                    results.push(step_output(step, &ran));
                    let because =
                        ran.timed_out.then(|| format!("step {} ran longer than its time limit", step.number));
                    let CommandResult { interrupted, was_stopped, .. } = ran;
                    Done { because, interrupted, was_stopped, output: output(&ran) }
                }
                Err(error) => {
                    let mut done = not_started(&step.command, &error);
                    results.push(StepOutput {
                        task_number: step.number,
                        exit_code: done.output.exit_code,
                        stderr: done.output.stderr.clone(),
                        ..StepOutput::default()
                    });
                    done.because = done.because.map(|because| format!("step {}: {because}", step.number));
                    done
                }
            };
            done.output.duration_ms += took_before;
            if done.output.exit_code != 0 || done.because.is_some() || done.interrupted {
                done.because.get_or_insert_with(|| format!("step {} of {steps} failed", step.number));
                break;
            }
        }
        done.output.task_results = results;
        done
    }

    async fn launch(
        &self,
        mut launch: Launch<'_>,
        context: &Context,
        live: &mut Live,
    ) -> io::Result<CommandResult> {
        let stopped = |is_stopped| {
            let what = if is_stopped { "paused, and stopped in place" } else { "resumed, and continues" };
            self.log(&format!("task {}: {what}", label::short(context.task())));
        };
        let tell = |said| match said {
            Directive::Progress(progress) => context.progress(progress.percent, &progress.note),
            // The command cannot learn when it is on disk; the worker sends it before any later report on the task.
            Directive::Checkpoint(text) => drop(context.save_checkpoint(text)),
        };
        let heard = self.control.as_ref().map(|control| control.listen(context.task(), context.attempt()));
        let (_entry, said) = heard.unzip();
        launch.waits = said.map(Waits::new);
        launch.run(&self.guard, context, stopped, tell, live, |printed| send(context, printed)).await
    }

    /// The environment of every command.
    fn env(&self, context: &Context, place: &AttemptDir) -> Vec<(String, OsString)> {
        let mut env: Vec<(String, OsString)> = Vec::new();
        let mut set = |name: &str, value: OsString| env.push((name.to_owned(), value));
        set("TENURE_TASK_ID", context.task().to_string().into());
        set("TENURE_ATTEMPT", context.attempt().to_string().into());
        set("TENURE_QUEUE", context.queue().to_string().into());
        set("TENURE_TASK_NAME", context.name().map(ToString::to_string).unwrap_or_default().into());
        set("TENURE_PARENT", context.parent().map(|parent| parent.to_string()).unwrap_or_default().into());
        let after: Vec<String> = context.after().iter().map(|info| info.task.to_string()).collect();
        set("TENURE_AFTER", after.join(" ").into());
        if let (Some(array), Some(index)) = (context.array(), context.index()) {
            set("TENURE_ARRAY", array.to_string().into());
            set("TENURE_INDEX", index.to_string().into());
        }
        set("TENURE_SUBMITTER", context.submitter().map(ToString::to_string).unwrap_or_default().into());
        set("TENURE_PRIORITY", context.priority().to_string().into());
        set("TENURE_CRASHES", context.crashes().to_string().into());
        set("TENURE_FAILURES", context.failures().to_string().into());
        if let Some(checkpoint) = context.checkpoint().and_then(|bytes| as_variable(bytes)) {
            set("TENURE_CHECKPOINT", checkpoint.into());
        }
        if let Some(parent) = context.traceparent() {
            set("TRACEPARENT", parent.into());
            set("TRACESTATE", context.tracestate().unwrap_or_default().into());
        }
        set("TENURE_WORKER", self.worker.clone().into());
        set(MARK, self.run.clone().into());
        set("TENURE_BROKER", self.broker.clone().into());
        set("TENURE_TASK_DIR", place.path().into());
        if let Some(control) = &self.control {
            set(control::VARIABLE, control.socket().into());
        }
        if let Some(namespace) = &self.namespace {
            set("TENURE_NAMESPACE", namespace.into());
        }
        let has = |name: &str| self.declared.iter().any(|(declared, _)| declared == name);
        if has(CPUS) {
            set("TENURE_CPUS", self.devices.cpus(context.cpus()).into());
        }
        if has(GPUS) {
            // A task that needs no gpu sees none: they belong to others.
            set("CUDA_VISIBLE_DEVICES", self.devices.gpus(context.gpus()).into());
        }
        env
    }

    fn log(&self, text: &str) {
        if !self.quiet {
            remark(format!("{}  {text}", clock(now())));
        }
    }
}

/// Sends a piece of output to the broker.
fn send(context: &Context, printed: Printed) {
    context.append_log(printed.stream, printed.offset, printed.bytes);
}

/// Where a command runs: in its `cwd`, or in the directory of its submitter if this machine has that, or in
/// the task's own.
fn directory(command: &Command, place: &AttemptDir) -> PathBuf {
    let can_be_entered = |dir: &&PathBuf| dir.is_dir() && access(*dir, Access::EXEC_OK).is_ok();
    let chosen = command.cwd.as_ref().or(command.submitted_from.as_ref().filter(can_be_entered));
    chosen.cloned().unwrap_or_else(|| place.path().to_owned())
}

/// How a task is spoken of: its short id, and its name or what it runs.
fn called(context: &Context, form: &Form) -> String {
    let what = match (context.name(), form) {
        (Some(name), _) => name.to_string(),
        (None, Form::Command(command)) => label::command_line(command.command.iter().map(String::as_str)),
        (None, Form::Plan(_)) => "a plan".to_owned(),
    };
    format!("task {} {}", label::short(context.task()), escape_line(&cut(&what, CALLED_WIDTH)))
}

/// A checkpoint as a value in the environment. One that no command can have said is not for commands.
fn as_variable(checkpoint: &[u8]) -> Option<&str> {
    let fits = checkpoint.len() <= VARIABLE_BYTES_MAX && !checkpoint.contains(&0);
    std::str::from_utf8(checkpoint).ok().filter(|_| fits)
}

/// The outcome for the broker, and a sentence for people.
fn outcome_of(context: &Context, done: &Done) -> (Outcome, String) {
    let Done { output, because, interrupted, was_stopped } = done;
    let result = output.to_bytes();
    let code = output.exit_code;
    if *interrupted {
        match context.interrupt() {
            Some(Interrupt::Cancel { .. }) => return (Outcome::cancelled(result), "cancelled".to_owned()),
            Some(Interrupt::Pause { .. }) => return (Outcome::paused(result), "paused".to_owned()),
            Some(Interrupt::Stop { why }) => {
                let sentence = format!("stopped, the attempt is over ({})", why.as_str());
                return (Outcome::give_back("the attempt is over"), sentence);
            }
            Some(Interrupt::Leaving) if *was_stopped => {
                // The task stays paused, and begins again when a client resumes it.
                let sentence = "ended with its worker, while it was paused".to_owned();
                return (Outcome::give_back("its worker left while it was paused"), sentence);
            }
            Some(Interrupt::Leaving) => {
                // The command was interrupted: its own policy decides about another attempt.
                let failure =
                    Failure::new(code, "the worker was stopped while it ran").crashed().result(result);
                return (Outcome::fail(failure), "ended with its worker".to_owned());
            }
            None => {}
        }
    }
    if done.is_success() {
        return (Outcome::complete(result), "completed".to_owned());
    }
    let mut message = because.clone().unwrap_or_default();
    if message.is_empty() {
        message = output
            .signal
            .map_or_else(|| format!("exit code {code}"), |signal| format!("killed by signal {signal}"));
    }
    let sentence = format!("failed, {message}");
    let last = output.stderr.lines().rev().find(|line| !line.trim().is_empty());
    if let Some(line) = last.filter(|line| !message.ends_with(line)) {
        message += &format!(": {}", &line[..line.floor_char_boundary(MESSAGE_LINE_MAX)]);
    }
    (Outcome::fail(Failure::new(code, message).result(result)), sentence)
}

/// The input of a step: an earlier one's output, or the plan's input if it is the first.
fn input(plan: &PlanJob, step: &PlanTask, index: usize, passed_on: impl Fn(u32) -> PathBuf) -> Input {
    match (step.input_from, &plan.input) {
        (Some(from), _) => Input::File(passed_on(from)),
        (None, Some(input)) if index == 0 => Input::Text(input.clone()),
        (None, _) => Input::Nothing,
    }
}

fn output(ran: &CommandResult) -> Output {
    Output {
        // A time limit is a failure even for a command that exits cleanly on the signal.
        exit_code: if ran.timed_out && ran.exit_code == 0 { 124 } else { ran.exit_code },
        signal: ran.signal,
        stdout: ran.stdout.text(),
        stderr: ran.stderr.text(),
        stdout_truncated: ran.stdout.is_truncated(),
        stderr_truncated: ran.stderr.is_truncated(),
        duration_ms: u64::try_from(ran.took.as_millis()).unwrap_or(u64::MAX),
        ..Output::default()
    }
}

fn step_output(step: &PlanTask, ran: &CommandResult) -> StepOutput {
    let Output { exit_code, signal, stdout, stderr, stdout_truncated, stderr_truncated, duration_ms, .. } =
        output(ran);
    StepOutput {
        task_number: step.number,
        exit_code,
        signal,
        stdout,
        stderr,
        stdout_truncated,
        stderr_truncated,
        duration_ms,
        timed_out: ran.timed_out,
    }
}

fn not_started(program: &str, error: &io::Error) -> Done {
    let exit_code = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_RUNNABLE };
    let mut done = refused_to_run(format!("`{program}` cannot be started: {error}"));
    done.output.exit_code = exit_code;
    done
}

fn refused_to_run(because: String) -> Done {
    let output = Output { exit_code: NOT_RUNNABLE, stderr: format!("{because}\n"), ..Output::default() };
    Done { output, because: Some(because), interrupted: false, was_stopped: false }
}

/// Nothing was done for this attempt.
fn not_started_attempt() -> Done {
    Done { output: Output::default(), because: None, interrupted: true, was_stopped: false }
}

/// The error of a shell that cannot read a command line.
fn form_error() -> i32 {
    i32::from(crate::exit::BAD_INPUT)
}

#[cfg(test)]
mod tests {
    use super::super::capture::Capture;
    use super::*;

    #[test]
    fn a_command_that_is_not_there_differs_from_one_that_cannot_run() {
        let missing = not_started("no-such", &io::Error::from(io::ErrorKind::NotFound));
        let locked = not_started("locked", &io::Error::from(io::ErrorKind::PermissionDenied));
        assert_eq!((missing.output.exit_code, locked.output.exit_code), (127, 126));
        assert!(missing.because.unwrap().contains("`no-such`"));
    }

    #[test]
    fn ending_well_after_the_time_limit_is_not_success() {
        let ran = CommandResult {
            exit_code: 0,
            signal: None,
            stdout: Capture::new(8),
            stderr: Capture::new(8),
            took: Duration::from_secs(1),
            timed_out: true,
            interrupted: false,
            was_stopped: false,
            not_written: None,
        };
        assert_eq!(output(&ran).exit_code, 124);
    }
}
