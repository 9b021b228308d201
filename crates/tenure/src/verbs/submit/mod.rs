//! `tenure submit`: submits tasks.

mod array;
pub(crate) mod job;
pub(super) mod lines;
pub(super) mod options;
pub(super) mod schedule;
pub(super) mod shell;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use tenure_client::{Accepted, Client, Submission, TaskId};

use super::input::{read_file, read_stdin};
use super::{follow, schedules, wait};
use crate::exit::{Failure, OK, Outcome, STILL_GOING};
use crate::output::paint::escape_line;
use crate::output::{Format, ItemList, Screen, json, remark};
use crate::units::parse_duration;
use array::ArrayOptions;
use options::Options;
use schedule::ScheduleOptions;
use shell::{Shell, Surroundings};

/// Submit tasks
#[derive(Args, Debug)]
#[command(after_help = "\
What follows -- is a command for `tenure work`: start one first, in another terminal. It runs in this
directory if the worker has it (--cwd). Anything else is a body for your own workers. The id is the
answer, on stdout, and with it the promise: it comes when the task is on disk.

A job file holds what is repeated: `tenure submit job.toml` with the words of the flags (command =
[\"./simulate\"], name = \"sim/7\", retries = 3), or a script with lines such as #TENURE --retries 3. Flags
of the command line win.

Examples:
  tenure submit --wait -- echo hello                  follow it, exit with its exit code
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
    /// Submit many tasks: one JSON object per line, with `command` or `body` and the words of the flags; - reads stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["command", "name", "id"])]
    jsonl: Option<PathBuf>,
    /// Print the task's events until it ends, then exit with its exit code
    #[arg(short = 'w', long)]
    wait: bool,
    /// With --wait: stop waiting after this time (exit code 83); the task keeps running
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, requires = "wait")]
    timeout: Option<Duration>,
    /// Submit it again and again: a cron expression such as '0 2 * * *', or 'every 15m'; needs --name
    #[arg(long, value_name = "WHEN", requires = "name", conflicts_with_all = ["wait", "jsonl"])]
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
    /// What may be the name of a job file.
    pub(crate) fn maybe_job(&self) -> Option<&str> {
        self.body.as_deref().filter(|body| *body != "-")
    }

    pub(crate) async fn run(&self, client: &Client, screen: &Screen) -> Outcome {
        if self.schedule.is_none() && self.schedule_options.is_given() {
            let why = "--zone, --catch-up, --overlap, --jitter and --expires-after are for a schedule: add --schedule";
            return Err(Failure::usage(why));
        }
        if let Some(file) = &self.jsonl {
            let mut told = ItemList::new(screen);
            let defaults = lines::Defaults {
                options: &self.options,
                shell: &self.shell,
                around: Surroundings::of_this_process(),
            };
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
            return Ok(submitted.code);
        }
        if self.array.is_given()? {
            let draft = self.options.submission(screen.now)?;
            let body = || match self.command_body()? {
                Some(body) => Ok(Some(body)),
                None if self.body.is_none() && self.file.is_none() => Ok(None),
                None => self.body().map(Some),
            };
            let array = self.array.submission(draft, &self.shell, body)?;
            return array::submit(client, array, self.wait, self.timeout, screen).await;
        }
        let body = match self.command_body()? {
            Some(body) => body,
            None => self.body()?,
        };
        if let Some(when) = &self.schedule {
            let name = self.options.name().unwrap_or_default();
            let task = self.options.unnamed().submission(screen.now)?.body(body);
            client.set_schedule(self.schedule_options.schedule(name, when, task)).await?;
            return schedules::tell(client, name, screen).await;
        }
        let mut submission = self.options.submission(screen.now)?.body(body);
        if !self.wait {
            let accepted = client.submit(submission).await?;
            screen.one(|| accepted.task.to_string(), || json::accepted(&accepted))?;
            if screen.is_table() {
                worth_knowing(&accepted).iter().for_each(remark);
            }
            return Ok(OK);
        }
        // The watch starts before the task is submitted, so that no event is missed.
        let id = match self.options.id()? {
            Some(id) => id,
            None => TaskId::new(),
        };
        submission = submission.id(id);
        let watcher = follow::begin(client, id).await?;
        let accepted = client.submit(submission).await?;
        if screen.is_table() {
            remark(accepted.task.to_string());
            worth_knowing(&accepted).iter().for_each(remark);
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
        let following = follow::unless_interrupted(std::slice::from_ref(&accepted.task), following);
        let ended = match self.timeout {
            None => following.await?,
            Some(timeout) => match tokio::time::timeout(timeout, following).await {
                Ok(ended) => ended?,
                Err(_) => {
                    remark(format!("timed out waiting for task {}; the task keeps running", accepted.task));
                    if screen.format == Format::Json {
                        screen.one(String::new, || json::accepted(&accepted))?;
                    }
                    return Ok(STILL_GOING);
                }
            },
        };
        follow::print_end(&ended, screen)
    }

    /// The body of the command after `--`, if there is one.
    fn command_body(&self) -> Result<Option<Bytes>, Failure> {
        match self.shell.body(&Surroundings::of_this_process())? {
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

/// What people want to know besides the id. It goes to stderr, so that `id=$(tenure submit …)` is the id.
fn worth_knowing(accepted: &Accepted) -> Vec<String> {
    let mut remarks = Vec::new();
    if accepted.known {
        remarks.push(format!("known already by its name, and {}", accepted.state.as_str()));
    }
    if let Some(why) = &accepted.unserved {
        remarks.push(format!("it waits: {}", escape_line(&why.message)));
    }
    remarks
}

/// Keeps the builder's type out of the other files' signatures.
type Draft = Submission;
