//! `tenure submit`: submits tasks.

mod array;
pub(crate) mod job;
pub(super) mod lines;
mod notify;
pub(super) mod options;
pub(super) mod references;
pub(super) mod schedule;
pub(super) mod shell;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use tenure_client::{Accepted, Client, StateName, Submission, TaskId};

use super::input::{read_file, read_stdin};
use super::{follow, schedules, wait};
use crate::exit::{Failure, OK, Outcome, STILL_GOING};
use crate::output::label::short;
use crate::output::paint::escape_line;
use crate::output::{Format, ItemList, Screen, json, remark};
use crate::units::parse_duration;
use array::ArrayOptions;
use options::Options;
use schedule::ScheduleOptions;
use shell::{Shell, SubmitterEnvironment};

/// Submit tasks
#[derive(Args, Debug)]
#[command(after_help = "\
Arguments after -- are a command for `tenure work`; start a worker first, in another terminal. The command runs in this
directory if the worker's machine has it (--cwd). Without --, the argument is a body for your own workers. The command
prints the id of the task on stdout once the task is on the broker's disk.

A job file holds options that you use again: `tenure submit job.toml`, with options as keys (command =
[\"./simulate\"], name = \"sim/7\", retries = 3), or a script with lines such as #TENURE --retries 3. Options on the
command line override those of the file.

Examples:
  tenure submit --wait -- echo hello   follow it, exit with its exit code
  tenure submit --name report-7 --retries 3 -- sh -c 'date; sleep 1'
  tenure submit -e HOME -e LEVEL=3 --stdout 'out-%{attempt}.txt' -- env
  tenure submit --not-before 2h --on-lost pause --tag licence -- sleep 60
  tenure submit --schedule '0 2 * * *' --name nightly -- ./backup
  tenure submit --array 1-8 --array-limit 2 -- sh -c 'echo seed $TENURE_INDEX'
  tenure submit --each-line /etc/passwd --wait -- echo {}
  tenure submit --queue images '{\"scan\": 7}'
  tenure submit --queue images --file /etc/hosts --name scan-7
  date | tenure submit --queue images -
  echo '{\"body\": {\"scan\": 8}, \"priority\": 5}' | tenure submit --queue images --jsonl -")]
pub(crate) struct Submit {
    /// Task body, or a job file (job.toml, a script with #TENURE lines); - reads stdin
    #[arg(value_name = "BODY", conflicts_with_all = ["file", "jsonl"])]
    body: Option<String>,
    /// Read the body from a file
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["jsonl", "command"])]
    file: Option<PathBuf>,
    /// Submit many tasks: one JSON object per line, with `command` or `body`, and options as keys; - reads stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["command", "name", "id"])]
    jsonl: Option<PathBuf>,
    /// Print the task's events until it ends, then exit with its exit code
    #[arg(short = 'w', long)]
    wait: bool,
    /// With --wait: stop waiting after this time (exit code 83); the task goes on
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    timeout: Option<Duration>,
    /// Wait, then run this line of sh here; it finds $TENURE_TASK_ID and $TENURE_STATE
    #[arg(long, value_name = "COMMAND", conflicts_with = "jsonl")]
    notify: Option<String>,
    /// Submit it again and again: a cron expression such as '0 2 * * *', or 'every 15m'; needs --name
    #[arg(
        long,
        value_name = "WHEN",
        requires = "name",
        conflicts_with_all = ["wait", "notify", "jsonl", "array", "each_line", "array_limit"]
    )]
    schedule: Option<String>,
    #[command(flatten)]
    schedule_options: ScheduleOptions,
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    array: ArrayOptions,
    #[command(flatten)]
    shell: Shell,
}

impl Submit {
    /// Whether the argument can be a job file.
    pub(crate) fn maybe_job(&self) -> Option<&str> {
        self.body.as_deref().filter(|body| *body != "-")
    }

    pub(crate) async fn run(&self, client: &Client, screen: &Screen) -> Outcome {
        if self.schedule.is_none() && self.schedule_options.is_given() {
            let why = "--zone, --catch-up, --overlap, --jitter and --expires-after are for a schedule: add --schedule";
            return Err(Failure::usage(why));
        }
        let options = &self.options.resolved(client).await?;
        if self.timeout.is_some() && !self.waits() {
            return Err(Failure::usage("--timeout limits how long --wait waits: add --wait"));
        }
        if let Some(file) = &self.jsonl {
            return self.submit_lines(file, options, client, screen).await;
        }
        if self.array.is_given()? {
            return self.submit_array(options, client, screen).await;
        }
        let body = match self.command_body()? {
            Some(body) => body,
            None => self.body()?,
        };
        if let Some(when) = &self.schedule {
            let name = self.options.name().unwrap_or_default();
            let task = options.unnamed().submission(screen.now)?.body(body);
            client.set_schedule(self.schedule_options.schedule(name, when, task)).await?;
            return schedules::tell_name(client, name, screen).await;
        }
        let submission = options.submission(screen.now)?.body(body);
        if self.waits() {
            return self.submit_and_follow(submission, client, screen).await;
        }
        let accepted = client.submit(submission).await?;
        screen.one(|| accepted.task.to_string(), || json::accepted(&accepted))?;
        if screen.is_table() {
            remarks(&accepted).iter().for_each(remark);
        }
        Ok(OK)
    }

    fn waits(&self) -> bool {
        self.wait || self.notify.is_some()
    }

    async fn submit_lines(
        &self,
        file: &Path,
        options: &Options,
        client: &Client,
        screen: &Screen,
    ) -> Outcome {
        let mut told = ItemList::new(screen);
        let defaults =
            lines::Defaults { options, shell: &self.shell, around: SubmitterEnvironment::of_this_process() };
        let submitted = lines::submit(client, file, &defaults, screen, &mut told).await;
        // With --wait the one document is about the ends; but what was refused must be known.
        if !self.wait || !submitted.as_ref().is_ok_and(|submitted| submitted.code == OK) {
            told.end()?;
        }
        let submitted = submitted?;
        if self.wait && submitted.code == OK {
            let waiting = wait::all(client, &submitted.tasks, self.timeout, screen);
            return follow::unless_interrupted(&submitted.tasks, waiting).await;
        }
        Ok(submitted.code)
    }

    async fn submit_array(&self, options: &Options, client: &Client, screen: &Screen) -> Outcome {
        let draft = options.submission(screen.now)?;
        let body = || match self.command_body()? {
            Some(body) => Ok(Some(body)),
            None if self.body.is_none() && self.file.is_none() => Ok(None),
            None => self.body().map(Some),
        };
        let arrays = self.array.submissions(draft, options, &self.shell, body)?;
        if !self.waits() {
            return array::submit(client, arrays, screen).await;
        }
        array::submit_and_follow(client, arrays, self.timeout, self.notify.as_deref(), screen).await
    }

    async fn submit_and_follow(&self, submission: Submission, client: &Client, screen: &Screen) -> Outcome {
        // The watch starts before the task is submitted, so that no event is missed.
        let id = match self.options.id()? {
            Some(id) => id,
            None => TaskId::new(),
        };
        let watcher = follow::begin(client, id).await?;
        let accepted = client.submit(submission.id(id)).await?;
        if screen.is_table() {
            remark(accepted.task.to_string());
            remarks(&accepted).iter().for_each(remark);
        } else if screen.format == Format::Jsonl {
            screen.next(String::new, || json::accepted(&accepted))?;
        }
        let following = async {
            if accepted.task == id {
                return follow::follow_to_end(client, watcher, id, screen).await;
            }
            // The name was known: the task is another one, from before.
            drop(watcher);
            follow::from_here(client, accepted.task, screen).await
        };
        let in_time = async {
            match self.timeout {
                None => following.await.map(Some),
                Some(timeout) => tokio::time::timeout(timeout, following).await.ok().transpose(),
            }
        };
        let ended = follow::unless_interrupted(std::slice::from_ref(&accepted.task), in_time).await?;
        if let Some(command) = &self.notify {
            notify::run(client, &[accepted.task], command).await;
        }
        match ended {
            Some(ended) => follow::print_end(&ended, screen),
            None => {
                remark(format!("timed out waiting for task {}; it has not ended", short(accepted.task)));
                if screen.format == Format::Json {
                    screen.one(String::new, || json::accepted(&accepted))?;
                }
                Ok(STILL_GOING)
            }
        }
    }

    /// The body of the command after `--`, if there is one.
    fn command_body(&self) -> Result<Option<Bytes>, Failure> {
        match self.shell.body(&SubmitterEnvironment::of_this_process())? {
            Some(_) if self.body.is_some() || self.file.is_some() => {
                Err(Failure::usage("give a body or a command after --, not both"))
            }
            None if self.shell.is_given() => Err(Failure::usage(
                "--env, --cwd, --stdout and --stderr are for a command: add -- and the command",
            )),
            body => Ok(body),
        }
    }

    fn body(&self) -> Result<Bytes, Failure> {
        if let Some(file) = &self.file {
            return read_file(file);
        }
        match self.body.as_deref() {
            Some("-") => read_stdin(),
            Some(text) => Ok(Bytes::copy_from_slice(text.as_bytes())),
            None if std::io::stdin().is_terminal() => Err(Failure::usage(
                "nothing to submit: give a body, --file, - for stdin, or -- and a command; `tenure submit --help` has examples",
            )),
            None => Err(Failure::usage("no body: give one, or - to read it from stdin")),
        }
    }
}

/// A new task that is cancelled or paused has a dependency that had ended otherwise than it should.
fn broken_at_once(task: TaskId, state: &StateName) -> Option<String> {
    [StateName::Cancelled, StateName::Paused].contains(state).then(|| {
        let (state, task) = (state.as_str(), short(task));
        format!("it is {state} already, because of how a task of --after has ended: tenure explain {task}")
    })
}

/// Information for people besides the id. It goes to stderr, so that `id=$(tenure submit …)` is the id.
fn remarks(accepted: &Accepted) -> Vec<String> {
    let mut remarks = Vec::new();
    if accepted.known {
        remarks.push(format!("known already by its name, and {}", accepted.state.as_str()));
    } else {
        remarks.extend(broken_at_once(accepted.task, &accepted.state));
    }
    if let Some(why) = &accepted.unserved {
        remarks.push(format!("it waits: {}", escape_line(&why.message)));
    }
    remarks
}
