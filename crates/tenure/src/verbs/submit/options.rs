//! The command-line options of a task.

use std::time::Duration;

use clap::{Args, ValueEnum};
use tenure_client::{After, OnBroken, OnLost, TaskId, Timestamp};

use crate::exit::Failure;
use crate::output::times::parse_future;
use crate::resource_args::ResourceArgs;
use crate::units::parse_duration;
use tenure_client::Submission;

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Task")]
pub(crate) struct Options {
    /// Queue
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    pub(crate) queue: String,
    /// Idempotency key: submitting the same task again returns the existing one
    #[arg(short, long, value_name = "NAME")]
    name: Option<String>,
    /// Task id (UUID); the broker refuses an id that exists
    #[arg(long, value_name = "UUID")]
    id: Option<String>,
    /// Priority; higher runs first [default: 0, or the parent's plus one]
    #[arg(short, long, value_name = "NUMBER", allow_negative_numbers = true)]
    priority: Option<i32>,
    /// Capability that the worker must offer; repeat for several
    #[arg(long = "need", value_name = "NAME", value_delimiter = ',')]
    needs: Vec<String>,
    /// Tag, counted by limits; repeat for several
    #[arg(short, long = "tag", value_name = "NAME", value_delimiter = ',')]
    tags: Vec<String>,
    /// Slots that the task occupies; 0 for a task that mostly waits [default: 1]
    #[arg(long, value_name = "COUNT")]
    slots: Option<u32>,
    #[command(flatten)]
    resources: ResourceArgs,
    /// Share key, such as a user or project: keys take turns in a queue
    #[arg(long, value_name = "KEY")]
    share: Option<String>,
    /// Parent task; cancelling the parent cancels this task
    #[arg(long, value_name = "TASK")]
    pub(super) parent: Option<String>,
    /// Run after this task: its id or name, completed unless :ended or :failed follows; repeat for several
    #[arg(long = "after", value_name = "TASK", value_delimiter = ',')]
    pub(super) after: Vec<String>,
    /// What to do if a task of --after ends otherwise [default: cancel]
    #[arg(long, value_enum, value_name = "POLICY")]
    after_broken: Option<Broken>,
    /// Trace that the task belongs to (W3C traceparent) [default: $TRACEPARENT]
    #[arg(long, value_name = "TRACEPARENT")]
    traceparent: Option<String>,
    /// Hold the task until `tenure release`
    #[arg(long)]
    hold: bool,
    /// Do not start before this time: 2h, 23:30, 'tomorrow 6:00', 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME")]
    not_before: Option<String>,
    /// Fail the task if it has not started by this time
    #[arg(long, value_name = "TIME")]
    expires: Option<String>,
    /// What to do if the worker is lost
    #[arg(long, value_enum, value_name = "POLICY")]
    on_lost: Option<Policy>,
    /// Fail the task after this many crashes [default: 3]
    #[arg(long, value_name = "COUNT")]
    crash_budget: Option<u16>,
    /// Number of retries after a failure [default: 0]
    #[arg(long, value_name = "COUNT")]
    retries: Option<u16>,
    /// Delay before the first retry; doubles with each further one [default: 1s]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    backoff: Option<Duration>,
    /// Maximum delay before a retry [default: 5m]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    backoff_max: Option<Duration>,
    /// How long a worker may take to start it [default: the broker's setting]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    accept_timeout: Option<Duration>,
    /// Maximum run time of one attempt [default: none]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    run_limit: Option<Duration>,
    /// End it after this long if a worker does not stop it when it is cancelled, or off [default: the broker's]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration_or_off)]
    cancel_timeout: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Policy {
    /// Run it on another worker, up to the crash budget
    Requeue,
    /// Pause it for a human; it never runs twice
    Pause,
    /// Fail it
    Fail,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Broken {
    /// Cancel this task
    Cancel,
    /// Run it anyway
    Run,
    /// Pause it for a human
    Hold,
}

impl Broken {
    pub(crate) fn policy(self) -> OnBroken {
        match self {
            Broken::Cancel => OnBroken::Cancel,
            Broken::Run => OnBroken::Run,
            Broken::Hold => OnBroken::Hold,
        }
    }
}

/// A task, and how it has to end.
pub(super) fn split_condition(text: &str) -> (&str, &str) {
    match text.rsplit_once(':') {
        Some((task, word @ ("completed" | "ended" | "failed"))) if task != "name" => (task, word),
        _ => (text, "completed"),
    }
}

/// `ID`, `NAME` or `name:NAME`, and how the task has to end.
pub(crate) fn after(text: &str) -> After {
    let (task, condition) = split_condition(text);
    let after = match task.parse::<TaskId>() {
        Ok(id) => After::task(id),
        Err(_) => After::name(task.strip_prefix("name:").unwrap_or(task)),
    };
    match condition {
        "ended" => after.ended(),
        "failed" => after.failed(),
        _ => after,
    }
}

/// The trace of the program that started this one. What is no trace is ignored, as the recommendation wants it.
fn inherited_trace() -> Option<String> {
    const TRACEPARENT_BYTES: usize = 55;
    let is_part = |byte: u8| byte == b'-' || byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let is_trace = |text: &String| {
        text.len() == TRACEPARENT_BYTES && text.starts_with("00-") && text.bytes().all(is_part)
    };
    std::env::var("TRACEPARENT").ok().filter(is_trace)
}

impl Options {
    pub(crate) fn id(&self) -> Result<Option<TaskId>, Failure> {
        self.id.as_deref().map(|text| task_id("--id", text)).transpose()
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The same without the name: a schedule names its tasks itself.
    pub(crate) fn unnamed(&self) -> Options {
        Options { name: None, ..self.clone() }
    }

    /// A task with these options and no body yet.
    pub(crate) fn submission(&self, now: u64) -> Result<Submission, Failure> {
        self.submission_to(&self.queue, now)
    }

    /// The same for another queue.
    pub(crate) fn submission_to(&self, queue: &str, now: u64) -> Result<Submission, Failure> {
        let mut task = Submission::to(queue)
            .needs(self.needs.iter().map(String::as_str))
            .tags(self.tags.iter().map(String::as_str))
            .hold(self.hold);
        if let Some(name) = &self.name {
            task = task.name(name.as_str());
        }
        if let Some(share) = &self.share {
            task = task.share(share.as_str());
        }
        if let Some(id) = self.id()? {
            task = task.id(id);
        }
        if let Some(priority) = self.priority {
            task = task.priority(priority);
        }
        if let Some(parent) = &self.parent {
            task = task.parent(task_id("--parent", parent)?);
        }
        if let Some(slots) = self.slots {
            task = task.slots(slots);
        }
        for (name, quantity) in self.resources.all() {
            task = task.resource(name, quantity);
        }
        for text in &self.after {
            task = task.after(after(text));
        }
        if let Some(policy) = self.after_broken {
            task = task.on_broken(policy.policy());
        }
        if let Some(parent) = self.traceparent.clone().or_else(inherited_trace) {
            task = task.traceparent(parent);
            if let Ok(state) = std::env::var("TRACESTATE") {
                task = task.tracestate(state);
            }
        }
        if let Some(time) = &self.not_before {
            task = task.not_before(Timestamp(parse_future(time, now).map_err(Failure::usage)?));
        }
        if let Some(time) = &self.expires {
            task = task.expires_at(Timestamp(parse_future(time, now).map_err(Failure::usage)?));
        }
        if let Some(policy) = self.on_lost {
            task = task.on_lost(match policy {
                Policy::Requeue => OnLost::Requeue,
                Policy::Pause => OnLost::Pause,
                Policy::Fail => OnLost::Fail,
            });
        }
        if let Some(budget) = self.crash_budget {
            task = task.crash_budget(budget);
        }
        if let Some(retries) = self.retries {
            task = task.retries(retries);
        }
        if self.backoff.is_some() || self.backoff_max.is_some() {
            let first = self.backoff.unwrap_or(Duration::from_secs(1));
            let max = self.backoff_max.unwrap_or(Duration::from_secs(300)).max(first);
            task = task.backoff(first, max);
        }
        if let Some(timeout) = self.accept_timeout {
            task = task.accept_timeout(timeout);
        }
        if let Some(limit) = self.run_limit {
            task = task.run_limit(limit);
        }
        if let Some(timeout) = self.cancel_timeout {
            task = task.cancel_timeout(timeout);
        }
        Ok(task)
    }
}

pub(crate) fn task_id(what: &str, text: &str) -> Result<TaskId, Failure> {
    text.parse().map_err(|_| Failure::usage(format!("{what}: `{text}` is not a UUID")))
}

/// No limit is written as zero.
fn parse_duration_or_off(text: &str) -> Result<Duration, String> {
    if text == "off" { Ok(Duration::ZERO) } else { parse_duration(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_to_wait_for_is_an_id_or_a_name_with_or_without_a_condition() {
        let id = TaskId::new();
        assert_eq!(after(&id.to_string()), After::task(id));
        assert_eq!(after(&format!("{id}:ended")), After::task(id).ended());
        assert_eq!(after("build"), After::name("build"));
        assert_eq!(after("name:build:failed"), After::name("build").failed());
        assert_eq!(after("name:failed"), After::name("failed"));
        assert_eq!(after("a:b"), After::name("a:b"));
    }
}
