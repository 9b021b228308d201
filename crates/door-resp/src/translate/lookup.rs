//! Lookups: a job, a worker, a queue, a list over several pages. Each lookup names its continuation.

use bytes::Bytes;
use tenure_hub::words::{
    Answer, Blob, Command, ListQuery, Name, Query, QueueInfo, Refusal, TaskId, TaskInfo, Timestamp,
    WorkerInfo,
};
use tenure_hub::{HubRefusal, Request, Response};

use super::CallerInfo;
use super::actions::{self, ActionSubmission, AfterAction, AfterJobs, AfterRetire};
use super::events::Resolving;
use super::jobs::{self, AfterFilter, AfterMention, Keep};
use super::lists;
use super::logs::LogFlow;
use super::names::is_reserved;
use super::plans::{self, AfterPlace, AfterRecipe, NewRecipe};
use super::ranges::Window;
use super::refusals::refusal;
use super::submit::PendingJob;
use super::views::{self, AfterIsThere, AfterMembers, AfterValue};
use super::workers::{self, AfterHeld, Asking};
use crate::codec::Reply;
use crate::command::{JobStatus, JobVerb, PageOptions};
use crate::flow::{CommandFlow, FlowOutcome, FlowStep, Input, OTHER_KIND};
use crate::json::{DocumentError, JobReport, JobSubmission, SubmittedAction};
use crate::key::{JobField, RespQueueKey, WorkerField};
use crate::rights::{JobReader, is_held_by, not_own_job};
use crate::worker::RespCall;

/// Page size of queries. A long walk is many short queries, so that other requests run in between.
pub(super) const PAGE: usize = 1000;

pub(super) type LookupResult = Result<Box<TaskInfo>, HubRefusal>;

/// What is being looked up.
#[derive(Debug)]
pub(crate) enum Lookup {
    Job(AfterFind),
    /// The same for a reader that may read only what its worker holds.
    HeldJob(Box<(Option<Name>, AfterFind)>),
    Named(AfterName),
    /// Turns an ended task into a held one: first it is retried, then paused.
    Retrying(TaskId, AfterReopen),
    Pausing(AfterReopen),
    Body(Box<TaskInfo>, AfterWhole),
    Result(Box<TaskInfo>, AfterResult),
    Page(AfterPage, Box<ListQuery>),
    Workers(Vec<WorkerInfo>, AfterWorkers),
    Worker(AfterWorker),
}

impl Lookup {
    pub(super) fn ask(self, request: Request) -> FlowStep {
        FlowStep::Ask(request, CommandFlow::Lookup(self))
    }

    pub(super) fn read(self, blob: Blob) -> FlowStep {
        FlowStep::Read(vec![blob], CommandFlow::Lookup(self))
    }

    pub(crate) fn resume(self, now: Timestamp, input: Input) -> FlowStep {
        match self {
            Self::Job(then) => then.go(now, job_of(input.answer())),
            Self::HeldJob(held) => {
                let (worker, then) = *held;
                match job_of(input.answer()) {
                    Ok(task) if !is_held_by(&task, worker.as_deref()) => {
                        FlowStep::Reply(refusal(&not_own_job()))
                    }
                    found => then.go(now, found),
                }
            }
            Self::Named(then) => then.go(task_of(input.answer())),
            // Two clients may do this at the same time; a step refused to one of them is already done.
            Self::Retrying(task, then) => {
                let reason = Some("no client waits for it".into());
                Self::Pausing(then).ask(Request::Command(Command::Pause { task, reason, terminate: false }))
            }
            Self::Pausing(then) => then.go(),
            Self::Body(task, then) => match input.read() {
                Err(reason) => FlowStep::Reply(refusal(&reason)),
                Ok(body) => read_result(task, AfterResult::Whole(body, then)),
            },
            Self::Result(task, then) => match input.read() {
                Err(reason) => FlowStep::Reply(refusal(&reason)),
                Ok(result) => then.go(&task, result),
            },
            Self::Page(then, query) => match input.answer() {
                Ok(Response::Answer(Answer::Tasks { tasks, next })) => {
                    let next = next.map(|cursor| ListQuery { cursor: Some(cursor), ..*query });
                    then.go(now, tasks, next)
                }
                other => unexpected(other),
            },
            Self::Workers(mut found, then) => match input.answer() {
                Ok(Response::Answer(Answer::ScannedWorkers { workers, next })) => {
                    found.extend(workers);
                    match next {
                        Some(next) => workers_on(next, found, then),
                        None => {
                            found.sort_by(|one, other| one.worker.cmp(&other.worker));
                            then.go(now, &found)
                        }
                    }
                }
                other => unexpected(other),
            },
            Self::Worker(then) => match input.answer() {
                Ok(Response::Answer(Answer::Workers(mut workers))) => then.go(now, workers.pop()),
                other => unexpected(other),
            },
        }
    }
}

/// What to do with a job that was looked up by its id or name.
#[derive(Debug)]
pub(crate) enum AfterFind {
    NotHeld {
        job: String,
        report: Option<JobReport>,
        worker: Option<Name>,
    },
    /// An invalid update, whichever peer sent it.
    BadUpdate {
        job: String,
        error: DocumentError,
    },
    Mentioned(AfterMention),
    Steer {
        job: String,
        verb: JobVerb,
        reason: Option<String>,
    },
    HeldAfterAll {
        then: AfterHeld,
        worker: Name,
        call: RespCall,
    },
    Parent {
        parent: String,
        job: Box<PendingJob>,
    },
    Remove {
        queue: RespQueueKey,
        job: String,
        worker: Option<Name>,
    },
    IsThere(AfterIsThere),
    Field(JobField, AfterValue),
    TimeToLive {
        milliseconds: bool,
    },
    Stream(Box<Resolving>),
    Logs(Box<LogFlow>),
}

impl AfterFind {
    fn go(self, now: Timestamp, found: LookupResult) -> FlowStep {
        match self {
            Self::NotHeld { job, report, worker } => {
                FlowStep::Reply(jobs::not_held(&job, report, worker.as_deref(), found))
            }
            Self::BadUpdate { job, error } => FlowStep::error(match found {
                Err(_) => format!("ERR Job not found: {job}"),
                Ok(_) => format!("ERR {error}"),
            }),
            Self::Mentioned(then) => match found {
                Ok(task) => then.go(task),
                Err(HubRefusal::Engine(Refusal::UnknownTask { .. } | Refusal::UnknownName { .. })) => {
                    FlowStep::Reply(then.unknown())
                }
                Err(reason) => FlowStep::Reply(refusal(&reason)),
            },
            Self::Steer { job, verb, reason } => jobs::steer_found(job, verb, reason, found),
            Self::HeldAfterAll { worker, call, then } => workers::retry_if_held(worker, call, then, &found),
            Self::Parent { parent, job } => match found {
                Ok(task) => job.with_parent(Some(task.id)),
                Err(_) => FlowStep::error(format!("ERR Parent job not found: {parent}")),
            },
            Self::Remove { queue, job, worker } => match found {
                Err(_) => FlowStep::Reply(Reply::Integer(0)),
                Ok(task) => lists::remove_other(&task, &queue, &job, worker.as_deref()),
            },
            Self::IsThere(then) => then.go(found.is_ok()),
            Self::Field(field, then) => views::job_field_of(field, then, found),
            Self::TimeToLive { milliseconds } => views::time_held(now, milliseconds, found),
            Self::Stream(resolving) => resolving.found(found),
            Self::Logs(flow) => flow.found(found),
        }
    }
}

/// What to do with a task that was looked up by its whole name.
#[derive(Debug)]
pub(crate) enum AfterName {
    SubmitAction(Box<ActionSubmission>),
    Action(AfterAction),
    Plan(AfterPlace),
}

impl AfterName {
    fn go(self, found: LookupResult) -> FlowStep {
        match self {
            Self::SubmitAction(submission) => submission.found(found),
            Self::Action(then) => actions::found(then, found),
            Self::Plan(then) => plans::found_place(then, found),
        }
    }
}

/// Why a task is resumed.
#[derive(Debug)]
pub(crate) enum AfterReopen {
    Plan(Box<NewRecipe>),
    Action(Box<actions::NewAction>),
}

impl AfterReopen {
    fn go(self) -> FlowStep {
        match self {
            Self::Plan(recipe) => recipe.store_again(),
            Self::Action(fan) => fan.submit_again(),
        }
    }
}

/// What to do with a job, its body and its result.
#[derive(Debug)]
pub(crate) enum AfterWhole {
    Get,
    Value(AfterValue),
}

/// What to do with a job and its result.
#[derive(Debug)]
pub(crate) enum AfterResult {
    Whole(Bytes, AfterWhole),
    Status(Box<FlowOutcome>),
    Field(JobField, AfterValue),
}

impl AfterResult {
    fn go(self, task: &TaskInfo, result: Bytes) -> FlowStep {
        match self {
            Self::Whole(body, then) => {
                let shown = super::render::whole(task, &body, &result).to_string();
                match then {
                    AfterWhole::Get => FlowStep::Reply(Reply::bulk(shown)),
                    AfterWhole::Value(then) => then.go(Some(shown.into())),
                }
            }
            Self::Status(why) => FlowStep::Reply(jobs::status_reply(task, &result, &why)),
            Self::Field(field, then) => then.go(views::result_field(task, field, result)),
        }
    }
}

/// What to do with a page of tasks.
#[derive(Debug)]
pub(crate) enum AfterPage {
    List(Box<PagedList>),
    Range(Window),
    Tidy(AfterRetire),
}

impl AfterPage {
    fn go(self, now: Timestamp, tasks: Vec<TaskInfo>, next: Option<ListQuery>) -> FlowStep {
        match self {
            Self::List(listing) => listing.go(tasks, next),
            Self::Range(window) => window.go(&tasks, next),
            Self::Tidy(then) => actions::tidy_page(now, &tasks, next, then),
        }
    }
}

/// A list that grows page by page.
#[derive(Debug)]
pub(crate) struct PagedList {
    then: AfterList,
    keep: Keep,
    limit: usize,
    found: Vec<TaskInfo>,
}

impl PagedList {
    fn go(mut self: Box<Self>, tasks: Vec<TaskInfo>, next: Option<ListQuery>) -> FlowStep {
        self.found.extend(tasks.into_iter().filter(|task| self.keep.keeps(task)));
        match next {
            Some(next) if self.found.len() < self.limit => page(next, AfterPage::List(self)),
            _ => {
                self.found.truncate(self.limit);
                self.then.go(self.found)
            }
        }
    }
}

/// What to do with a list of tasks.
#[derive(Debug)]
pub(crate) enum AfterList {
    JobsOfAction(AfterJobs),
    Actions { wanted: Option<JobStatus>, page: PageOptions },
    Filtered { of_action: bool, page: PageOptions, then: AfterFilter },
    Peek,
    Recipe(AfterRecipe),
    Plans { page: PageOptions },
    JobsOfPlan { plan: String, place: TaskId },
    UsesOfPlan { plan: Box<serde_json::Value> },
}

impl AfterList {
    fn go(self, mut tasks: Vec<TaskInfo>) -> FlowStep {
        match self {
            Self::JobsOfAction(then) => {
                // Ids are created in order and sort that way.
                tasks.sort_by_key(|job| job.id);
                then.go(tasks)
            }
            Self::Actions { wanted, page } => {
                // The newest first; they are taken from the end.
                tasks.sort_by_key(|action| action.id);
                actions::describe(tasks, wanted, page, Vec::new())
            }
            Self::Filtered { of_action, page, then } => {
                if of_action {
                    tasks.sort_by_key(|task| task.id);
                }
                then.go(tasks.get(page.offset..).unwrap_or_default())
            }
            Self::Peek => FlowStep::Reply(jobs::ids(&tasks)),
            Self::Recipe(then) => then.go(tasks.pop().map(Box::new)),
            // They are taken from the end.
            Self::Plans { page } => {
                plans::describe(tasks.into_iter().skip(page.offset).rev().collect(), Vec::new())
            }
            Self::JobsOfPlan { plan, place } => plans::delete(plan, place, &tasks),
            Self::UsesOfPlan { plan } => FlowStep::Reply(plans::with_uses(*plan, &tasks)),
        }
    }
}

/// What needs the capability that was found by its description.
#[derive(Debug)]
pub(crate) enum AfterMatch {
    Job(Box<(JobSubmission, CallerInfo)>),
    Action(Box<(SubmittedAction, CallerInfo)>),
}

impl AfterMatch {
    fn go(self, capability: String) -> FlowStep {
        match self {
            Self::Job(job) => {
                let (mut submission, speaker) = *job;
                submission.options.needs_matched = Some(capability);
                super::submit::job(submission, &speaker)
            }
            Self::Action(action) => {
                let (mut submitted, speaker) = *action;
                submitted.options.needs_matched = Some(capability);
                actions::submit_action(submitted, &speaker)
            }
        }
    }
}

/// What to do with the list of all workers.
#[derive(Debug)]
pub(crate) enum AfterWorkers {
    List,
    Search {
        words: String,
        page: PageOptions,
    },
    /// Finds a capability by its description.
    Match {
        words: String,
        then: AfterMatch,
    },
    Challenge(Box<Asking>),
    Members {
        capability: String,
        then: AfterMembers,
    },
}

impl AfterWorkers {
    fn go(self, now: Timestamp, all: &[WorkerInfo]) -> FlowStep {
        match self {
            Self::List => FlowStep::Reply(workers::list_reply(now, all)),
            Self::Search { words, page } => FlowStep::Reply(workers::search_reply(now, all, &words, page)),
            Self::Match { words, then } => match workers::best_match(now, all, &words) {
                Some(capability) => then.go(capability),
                None => FlowStep::error("ERR No capability matches needs_described; see CAPABILITY.SEARCH"),
            },
            Self::Challenge(asking) => asking.ask(now, all),
            Self::Members { capability, then } => then.go(views::members_of(now, &capability, all)),
        }
    }
}

/// What to do with one worker.
#[derive(Debug)]
pub(crate) enum AfterWorker {
    Pinged { name: Name, reply: Reply },
    Forget { name: String },
    Field(WorkerField, AfterValue),
    TimeToLive { field: WorkerField, milliseconds: bool, dead_after: std::time::Duration },
}

impl AfterWorker {
    fn go(self, now: Timestamp, found: Option<WorkerInfo>) -> FlowStep {
        match self {
            Self::Pinged { name, reply } => workers::pinged_found(name, reply, found.as_ref()),
            Self::Forget { name } => workers::forget_found(&name, found),
            Self::Field(field, then) => {
                then.go(found.and_then(|worker| views::of_worker(&worker, field, now)))
            }
            Self::TimeToLive { field, milliseconds, dead_after } => {
                views::time_alive(now, field, milliseconds, dead_after, found.as_ref())
            }
        }
    }
}

/// A job by its id or by its name.
pub(super) fn find(job: &str, then: AfterFind) -> FlowStep {
    Lookup::Job(then).ask(query_for(job))
}

/// The same for a reader that may read only what its worker holds.
pub(super) fn find_readable(job: &str, reader: JobReader, worker: Option<Name>, then: AfterFind) -> FlowStep {
    match reader {
        JobReader::Everyone => find(job, then),
        JobReader::Holder => Lookup::HeldJob(Box::new((worker, then))).ask(query_for(job)),
    }
}

fn query_for(job: &str) -> Request {
    Request::Query(match job.parse::<TaskId>() {
        Ok(task) => Query::Show { task },
        Err(_) => Query::Find { name: Name::from(job) },
    })
}

pub(super) fn find_name(name: Name, then: AfterName) -> FlowStep {
    Lookup::Named(then).ask(Request::Query(Query::Find { name }))
}

/// Turns an ended task into a held one again, with its name and without its relations.
pub(super) fn reopen_task(task: TaskId, then: AfterReopen) -> FlowStep {
    Lookup::Retrying(task, then).ask(Request::Command(Command::Retry { task }))
}

/// A job with its body and its result.
pub(super) fn read_whole(task: Box<TaskInfo>, then: AfterWhole) -> FlowStep {
    let body = task.body;
    Lookup::Body(task, then).read(body)
}

pub(super) fn read_result(task: Box<TaskInfo>, then: AfterResult) -> FlowStep {
    let result = task.state.end().map(|end| end.result).unwrap_or_default();
    Lookup::Result(task, then).read(result)
}

/// All tasks that match and are kept, up to a number of them.
pub(super) fn list(query: ListQuery, limit: usize, keep: Keep, then: AfterList) -> FlowStep {
    page(query, AfterPage::List(Box::new(PagedList { then, keep, limit, found: Vec::new() })))
}

/// One page of tasks.
pub(super) fn page(mut query: ListQuery, then: AfterPage) -> FlowStep {
    query.limit = PAGE;
    let request = Request::Query(Query::List(Box::new(query.clone())));
    Lookup::Page(then, Box::new(query)).ask(request)
}

/// Every worker.
pub(super) fn workers(then: AfterWorkers) -> FlowStep {
    workers_on(0, Vec::new(), then)
}

/// One worker, if the broker knows it.
pub(super) fn worker(name: &str, then: AfterWorker) -> FlowStep {
    Lookup::Worker(then).ask(Request::Query(Query::Worker { worker: Name::from(name) }))
}

/// The only queue of an answer, if there is one.
pub(super) fn one_queue(outcome: FlowOutcome) -> Result<Option<QueueInfo>, HubRefusal> {
    match outcome? {
        Response::Answer(Answer::Queues(mut queues)) => Ok(queues.pop()),
        _ => Err(OTHER_KIND),
    }
}

/// A reply without a continuation.
pub(super) fn unexpected(outcome: FlowOutcome) -> FlowStep {
    FlowStep::Reply(refusal(&outcome.err().unwrap_or(OTHER_KIND)))
}

fn workers_on(from: u32, found: Vec<WorkerInfo>, then: AfterWorkers) -> FlowStep {
    Lookup::Workers(found, then).ask(Request::Query(Query::ScanWorkers { from, limit: PAGE }))
}

/// The tasks behind plans and actions are not jobs.
fn job_of(outcome: FlowOutcome) -> LookupResult {
    let task = task_of(outcome)?;
    if is_reserved(&task.terms.queue) { Err(Refusal::UnknownTask { task: task.id }.into()) } else { Ok(task) }
}

fn task_of(outcome: FlowOutcome) -> LookupResult {
    match outcome? {
        Response::Answer(Answer::Task(task)) => Ok(task),
        _ => Err(OTHER_KIND),
    }
}
