//! Submitting, reporting, querying and controlling jobs. A job is this door's word for a task.

use super::Command;
use super::arguments::Arguments;
use super::error::{CommandError, quoted};
use super::options::{PageOptions, is_number};
use crate::json::{DocumentError, JobSubmission, JobUpdate, pushed_name};
use crate::key::RespQueueKey;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum JobCommand {
    Submit(Box<JobSubmission>),
    /// An error in the update is reported only after the job has been found.
    Update {
        job: String,
        update: Result<Box<JobUpdate>, DocumentError>,
    },
    Get {
        job: String,
    },
    Status {
        job: String,
    },
    /// Ids of an action's jobs, or of all.
    Ids {
        action: Option<String>,
        status: Option<JobStatus>,
        page: PageOptions,
    },
    /// Whole jobs.
    List {
        filter: JobFilter,
        page: PageOptions,
    },
    Search {
        filter: JobFilter,
        page: PageOptions,
    },
    Steer {
        job: String,
        verb: JobVerb,
        reason: Option<String>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobVerb {
    Retry,
    Cancel,
    Pause,
    /// A pause that ends the attempt, even if the worker could stop it in place.
    PauseAndTerminate,
    Resume,
}

/// The states of a job in this door's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobStatus {
    /// Waiting for a worker.
    Pending,
    /// Waiting for its time.
    Scheduled,
    /// Held by a worker.
    Running,
    Paused,
    Completed,
    Failed,
    /// Failed because its workers kept dying.
    Dead,
    Cancelled,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct JobFilter {
    pub status: Option<JobStatus>,
    pub plan: Option<String>,
    pub action: Option<String>,
    pub queue: Option<RespQueueKey>,
    pub worker: Option<String>,
    pub tag: Option<String>,
    /// The plan or the action was a bare word, which may have been meant as a status.
    pub is_bare: bool,
}

impl JobStatus {
    pub(crate) const ALL: [Self; 8] = [
        Self::Pending,
        Self::Scheduled,
        Self::Running,
        Self::Paused,
        Self::Completed,
        Self::Failed,
        Self::Dead,
        Self::Cancelled,
    ];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Scheduled => "scheduled",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Dead => "dead",
            Self::Cancelled => "cancelled",
        }
    }

    /// All statuses, for the error about an unknown one.
    pub(super) fn words() -> String {
        let words = Self::ALL.map(Self::word);
        let [first @ .., last] = &words;
        format!("{} and {last}", first.join(", "))
    }

    pub(crate) fn parse(word: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|status| word.eq_ignore_ascii_case(status.word().as_bytes()))
    }
}

pub(super) fn submit(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let submission = JobSubmission::parse(arguments.required()?)?;
    Ok(Command::Job(JobCommand::Submit(Box::new(submission))))
}

pub(super) fn update(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let job = job_id(arguments)?;
    let update = JobUpdate::parse(arguments.required()?).map(Box::new).map_err(DocumentError::from);
    Ok(Command::Job(JobCommand::Update { job, update }))
}

pub(super) fn get(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    Ok(Command::Job(JobCommand::Get { job: job_id(arguments)? }))
}

pub(super) fn status(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    Ok(Command::Job(JobCommand::Status { job: job_id(arguments)? }))
}

/// `JOB.LIST [action] [status] [LIMIT n] [OFFSET n]`. A lone word that is a status is one.
pub(super) fn ids(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let (mut action, mut status, mut page) = (None, None, PageOptions::default());
    while let Some(word) = arguments.peek() {
        if page.take_option(arguments)? {
            continue;
        }
        match JobStatus::parse(word) {
            Some(found) if status.is_none() => {
                status = Some(found);
                arguments.required()?;
            }
            _ if action.is_none() && status.is_none() => action = Some(arguments.id("action id")?),
            _ => return Err(CommandError::UnknownStatus(quoted(word))),
        }
    }
    Ok(Command::Job(JobCommand::Ids { action, status, page }))
}

pub(super) fn list(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let (filter, page) = filter(arguments)?;
    Ok(Command::Job(JobCommand::List { filter, page }))
}

pub(super) fn search(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let (filter, page) = filter(arguments)?;
    Ok(Command::Job(JobCommand::Search { filter, page }))
}

pub(super) fn retry(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    steer(arguments, JobVerb::Retry)
}

pub(super) fn cancel(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    steer(arguments, JobVerb::Cancel)
}

pub(super) fn pause(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let job = arguments.id("job id")?;
    let verb = if arguments.keyword("TERMINATE") { JobVerb::PauseAndTerminate } else { JobVerb::Pause };
    steer_one(job, verb, arguments)
}

pub(super) fn resume(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    steer(arguments, JobVerb::Resume)
}

fn steer(arguments: &mut Arguments<'_>, verb: JobVerb) -> Result<Command, CommandError> {
    let job = arguments.id("job id")?;
    steer_one(job, verb, arguments)
}

fn steer_one(job: String, verb: JobVerb, arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let reason = if arguments.left() > 0 { Some(arguments.text()?) } else { None };
    arguments.end()?;
    Ok(Command::Job(JobCommand::Steer { job, verb, reason }))
}

/// An id, or the whole job as a worker received it.
fn job_id(arguments: &mut Arguments<'_>) -> Result<String, CommandError> {
    match arguments.peek().map(pushed_name) {
        Some(Ok(Some(name))) => {
            arguments.required()?;
            Ok(name)
        }
        _ => arguments.id("job id"),
    }
}

const FILTERS: [&str; 6] = ["STATUS", "PLAN", "ACTION", "QUEUE", "WORKER", "TAG"];

/// `[offset [limit]]` or `[status] [plan]`, and `[STATUS s] [PLAN p] [ACTION a] [QUEUE q] [WORKER w] [TAG t] [LIMIT n]
/// [OFFSET n]`
fn filter(arguments: &mut Arguments<'_>) -> Result<(JobFilter, PageOptions), CommandError> {
    let (mut filter, mut page) = (JobFilter::default(), PageOptions::default());
    while let Some(word) = arguments.peek() {
        if page.take_option(arguments)? {
            continue;
        }
        let is_option = FILTERS.iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes()));
        if is_option && arguments.left() < 2 {
            return Err(CommandError::Syntax);
        }
        if arguments.keyword("STATUS") {
            let word = arguments.required()?;
            let status = JobStatus::parse(word).ok_or_else(|| CommandError::UnknownStatus(quoted(word)))?;
            filter.status = Some(status);
        } else if arguments.keyword("PLAN") {
            filter.plan = Some(arguments.id("plan id")?);
        } else if arguments.keyword("ACTION") {
            filter.action = Some(arguments.id("action id")?);
        } else if arguments.keyword("QUEUE") {
            filter.queue = Some(match arguments.queue_name()? {
                view @ (RespQueueKey::Scheduled | RespQueueKey::Processing) => {
                    return Err(CommandError::Kept(view.text()));
                }
                queue @ (RespQueueKey::Default | RespQueueKey::Named(_)) => queue,
            });
        } else if arguments.keyword("WORKER") {
            filter.worker = Some(arguments.id("worker id")?);
        } else if arguments.keyword("TAG") {
            filter.tag = Some(arguments.id("tag")?);
        } else if let (None, Some(status)) = (filter.status, JobStatus::parse(word)) {
            filter.status = Some(status);
            arguments.required()?;
        } else if is_number(word) {
            match filter.plan.take().filter(|_| filter.is_bare) {
                Some(offset) => return Err(CommandError::Offset(offset)),
                None => page.take_bare(arguments)?,
            }
        } else if filter.plan.is_none() {
            filter.plan = Some(arguments.id("plan id")?);
            filter.is_bare = true;
        } else {
            return Err(CommandError::Syntax);
        }
    }
    Ok((filter, page))
}
