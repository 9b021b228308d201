//! Jobs: queries, reports and control.

use bytes::Bytes;
use serde_json::Value;
use tenure_hub::words::{Answer, Command, ListQuery, Name, Query, StateName, TaskId, TaskInfo};
use tenure_hub::{Request, Response};

use super::actions::{AfterAction, find_action};
use super::last::LastReply;
use super::lookup::{
    AfterFind, AfterList, AfterResult, AfterWhole, LookupResult, find, find_readable, list, read_result,
    read_whole,
};
use super::names::{is_reserved, job_id, plan_of_recipe, plan_tag, queue_name, states, status};
use super::plans::{AfterFindPlan, find_plan};
use super::refusals::call_refused;
use super::render;
use super::workers::{AfterHeld, about_held};
use super::{CallerInfo, submit};
use crate::codec::Reply;
use crate::command::{CommandError, JobCommand, JobFilter, JobStatus, JobVerb, PageOptions};
use crate::flow::{CommandFlow, FlowOutcome, FlowStep, Input, TargetWorker};
use crate::glob::glob;
use crate::json::{JobReport, JobUpdate};
use crate::rights::JobReader;
use crate::worker::{RespCall, RespCallReply, report};

pub(super) const NOT_FAILED: &str = "ERR Job not in failed status";

/// The state of a waiting command on jobs.
#[derive(Debug)]
pub(crate) enum JobFlow {
    /// The connection's worker, if there is one, learns that the job was mentioned.
    Mentioning { job: String, then: AfterMention, reader: JobReader, worker: Option<Name> },
    /// Checks whether the worker that a report names may act here.
    Identifying { name: Name, job: String, update: Box<JobUpdate> },
    /// Why a job waits.
    Explaining(Box<TaskInfo>),
}

impl JobFlow {
    pub(crate) fn resume(self, input: Input) -> FlowStep {
        match self {
            Self::Mentioning { job, then, reader, worker } => {
                find_readable(&job, reader, worker, AfterFind::Mentioned(then))
            }
            Self::Identifying { name, job, update } => match input.call() {
                RespCallReply::Taken => explain_not_held(job, update.report, None),
                _ => report_on(TargetWorker::Known(name.clone()), job, update, Some(name)),
            },
            Self::Explaining(task) => read_result(task, AfterResult::Status(Box::new(input.answer()))),
        }
    }
}

/// What to do with a job that was mentioned.
#[derive(Debug)]
pub(crate) enum AfterMention {
    Get { job: String },
    Status,
}

impl AfterMention {
    /// There is no such job.
    pub(super) fn unknown(self) -> Reply {
        match self {
            Self::Get { job } => Reply::error(format!("ERR Job not found: {job}")),
            Self::Status => Reply::Null,
        }
    }

    pub(super) fn go(self, task: Box<TaskInfo>) -> FlowStep {
        match self {
            Self::Get { .. } => read_whole(task, AfterWhole::Get),
            Self::Status => {
                let explain = Request::Query(Query::Explain { task: task.id });
                FlowStep::Ask(explain, CommandFlow::Job(JobFlow::Explaining(task)))
            }
        }
    }
}

/// How a list of jobs is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) enum JobView {
    Ids,
    States,
}

impl JobView {
    fn reply(self, jobs: &[TaskInfo]) -> Reply {
        match self {
            Self::Ids => ids(jobs),
            Self::States => {
                let shown = |job: &TaskInfo| Value::Object(render::state(job, &Bytes::new())).to_string();
                Reply::array(jobs.iter().map(|job| Reply::bulk(shown(job))))
            }
        }
    }
}

/// What to do with a filtered list of jobs.
#[derive(Debug)]
pub(crate) struct AfterFilter {
    view: JobView,
    /// A bare word that may be the id of a plan. Jobs may outlive their plan, so it is looked up only if there are no
    /// jobs.
    bare_plan: Option<String>,
}

impl AfterFilter {
    pub(super) fn go(self, jobs: &[TaskInfo]) -> FlowStep {
        match self.bare_plan {
            Some(plan) if jobs.is_empty() => {
                find_plan(&plan.clone(), AfterFindPlan::Bare { plan, view: self.view })
            }
            _ => FlowStep::Reply(self.view.reply(jobs)),
        }
    }
}

/// Which tasks of a list are kept.
#[derive(Debug)]
pub(crate) enum Keep {
    All,
    /// Tasks that have children.
    Parents,
    /// Plan bodies whose plan id matches.
    Plans {
        pattern: Option<Bytes>,
    },
    Jobs {
        status: Option<JobStatus>,
        tag: Option<Name>,
    },
}

impl Keep {
    pub(super) fn keeps(&self, task: &TaskInfo) -> bool {
        match self {
            Self::All => true,
            Self::Parents => task.children > 0,
            Self::Plans { pattern } => {
                let plan = task.name.as_deref().and_then(plan_of_recipe);
                plan.is_some_and(|plan| pattern.as_ref().is_none_or(|pattern| glob(pattern, plan.as_bytes())))
            }
            Self::Jobs { status: wanted, tag } => {
                let found = status(&task.state);
                let same = |wanted: JobStatus| {
                    found == wanted || (wanted == JobStatus::Failed && found == JobStatus::Dead)
                };
                !is_reserved(&task.terms.queue)
                    && wanted.is_none_or(same)
                    && tag.as_ref().is_none_or(|tag| task.terms.tags.contains(tag))
            }
        }
    }
}

pub(super) fn start(command: JobCommand, speaker: &CallerInfo) -> FlowStep {
    match command {
        JobCommand::Submit(submission) => submit::job(*submission, speaker),
        JobCommand::Update { job, update: Ok(update) } => update_job(job, update, speaker),
        JobCommand::Update { job, update: Err(error) } => {
            find(&job.clone(), AfterFind::BadUpdate { job, error })
        }
        JobCommand::Get { job } => mentioned(job.clone(), AfterMention::Get { job }, speaker),
        JobCommand::Status { job } => mentioned(job, AfterMention::Status, speaker),
        JobCommand::Ids { action, status, page } => {
            let filter = JobFilter { is_bare: action.is_some(), action, status, ..JobFilter::default() };
            filtered(filter, page, JobView::Ids)
        }
        JobCommand::List { filter, page } => filtered(filter, page, JobView::States),
        JobCommand::Search { filter, page } => filtered(filter, page, JobView::Ids),
        JobCommand::Steer { job, verb, reason } => find(&job.clone(), AfterFind::Steer { job, verb, reason }),
    }
}

/// The error that the worker does not hold the job, with both names.
pub(super) fn held_by_other(worker: Option<&str>, holder: &str) -> Reply {
    let worker = worker.unwrap_or("(unregistered)");
    Reply::error(format!("ERR Worker {worker} cannot update job claimed by {holder}"))
}

/// Finds out why the worker does not hold the job of a refused report.
pub(super) fn explain_not_held(job: String, report: Option<JobReport>, worker: Option<Name>) -> FlowStep {
    find(&job.clone(), AfterFind::NotHeld { job, report, worker })
}

pub(super) fn not_held(
    job: &str,
    report: Option<JobReport>,
    worker: Option<&str>,
    found: LookupResult,
) -> Reply {
    let Ok(task) = found else { return Reply::error(format!("ERR Job not found: {job}")) };
    match task.state.holding() {
        Some(holding) if Some(&*holding.worker) == worker => {
            Reply::error(format!("ERR Stale attempt of job {job}, the current one is {}", task.attempt))
        }
        Some(holding) => held_by_other(worker, &holding.worker),
        None => {
            let from = status(&task.state).word();
            Reply::error(match report {
                Some(to) => format!("ERR Invalid status transition: {from} -> {}", to.word()),
                None => format!("ERR Job not held by a worker: {job} is {from}"),
            })
        }
    }
}

/// A worker that asks for its own job shows that it has it.
fn mentioned(job: String, then: AfterMention, speaker: &CallerInfo) -> FlowStep {
    let call = RespCall::Mention { task: job.clone() };
    let (reader, worker) = (speaker.reader, speaker.worker.clone());
    FlowStep::Call(
        TargetWorker::Own,
        call,
        CommandFlow::Job(JobFlow::Mentioning { job, then, reader, worker }),
    )
}

fn update_job(job: String, update: Box<JobUpdate>, speaker: &CallerInfo) -> FlowStep {
    let worker = speaker.worker.clone();
    let report = update.report;
    let Some(name) = update.worker.as_deref().map(Name::from) else {
        return report_on(TargetWorker::Own, job, update, worker);
    };
    match &worker {
        Some(worker) if *worker == name => report_on(TargetWorker::Own, job, update, Some(name)),
        // A connection that has named its worker may not change it.
        Some(_) => explain_not_held(job, report, worker),
        None if !speaker.may_claim => explain_not_held(job, report, None),
        // A connection that has not may name it here, unless that worker acts elsewhere.
        None => {
            let flow = CommandFlow::Job(JobFlow::Identifying { name: name.clone(), job, update });
            FlowStep::Call(TargetWorker::Known(name), RespCall::Identify, flow)
        }
    }
}

fn report_on(whom: TargetWorker, job: String, update: Box<JobUpdate>, worker: Option<Name>) -> FlowStep {
    let then = AfterHeld::Report { job: job.clone(), report: update.report, worker: worker.clone() };
    about_held(whom, job.clone(), worker, RespCall::Report { task: job, report: report(*update) }, then)
}

/// The worker actor's reply to a report.
pub(super) fn reported(
    job: String,
    report: Option<JobReport>,
    worker: Option<Name>,
    answer: RespCallReply,
) -> FlowStep {
    match answer {
        RespCallReply::Done => FlowStep::Reply(Reply::OK),
        RespCallReply::Wanted(wanted) => {
            FlowStep::Reply(Reply::simple(format!("OK wanted={}", super::refusals::wanted(wanted))))
        }
        RespCallReply::NotHeld | RespCallReply::NotRegistered => explain_not_held(job, report, worker),
        RespCallReply::Stale { attempt, current } => {
            FlowStep::error(format!("ERR Stale attempt {attempt} of job {job}, the current one is {current}"))
        }
        other => FlowStep::Reply(call_refused(&other, worker.as_deref().unwrap_or_default())),
    }
}

pub(super) fn status_reply(task: &TaskInfo, result: &Bytes, why: &FlowOutcome) -> Reply {
    let mut shown = render::state(task, result);
    if let Ok(Response::Answer(Answer::Why { why, .. })) = why
        && task.state.holding().is_none()
        && !task.state.name().has_ended()
    {
        shown.insert("waiting_because".into(), render::why(why).into());
        shown.insert("waiting_code".into(), why.code().into());
    }
    Reply::bulk(Value::Object(shown).to_string())
}

fn filtered(filter: JobFilter, page: PageOptions, view: JobView) -> FlowStep {
    if let Some(action) = filter.action.clone() {
        let then = AfterFilter { view, bare_plan: None };
        return find_action(
            &action.clone(),
            AfterAction::Filtered { action, filter: Box::new(filter), page, then },
        );
    }
    let bare_plan = filter.plan.clone().filter(|_| filter.is_bare && page.offset == 0);
    of_filter(&filter, None, page, AfterFilter { view, bare_plan })
}

pub(super) fn of_action(
    action: String,
    filter: &JobFilter,
    page: PageOptions,
    then: AfterFilter,
    found: Option<&TaskInfo>,
) -> FlowStep {
    match found {
        None if filter.is_bare => FlowStep::Reply(unknown_status("action", action)),
        None => FlowStep::Reply(then.view.reply(&[])),
        Some(task) => of_filter(filter, Some(task.id), page, then),
    }
}

/// No job belongs to a plan of this id: there may be no such plan.
pub(super) fn of_bare_plan(plan: String, view: JobView, is_there: bool) -> Reply {
    if is_there { view.reply(&[]) } else { unknown_status("plan", plan) }
}

fn unknown_status(what: &'static str, word: String) -> Reply {
    CommandError::NeitherStatusNor { word, what }.reply()
}

fn of_filter(filter: &JobFilter, parent: Option<TaskId>, page: PageOptions, then: AfterFilter) -> FlowStep {
    let plan = filter.plan.as_deref().map(plan_tag);
    let tag: Option<Name> = filter.tag.as_deref().map(Into::into);
    let query = ListQuery {
        states: filter.status.map(states).unwrap_or_default(),
        queue: filter.queue.as_ref().and_then(queue_name),
        tag: plan.or(tag.clone()),
        worker: filter.worker.as_deref().map(Into::into),
        parent,
        ..ListQuery::default()
    };
    let keep = Keep::Jobs { status: filter.status, tag };
    let then = AfterList::Filtered { of_action: parent.is_some(), page, then };
    list(query, page.offset.saturating_add(page.limit), keep, then)
}

pub(super) fn ids<'a>(jobs: impl IntoIterator<Item = &'a TaskInfo>) -> Reply {
    Reply::array(jobs.into_iter().map(|job| Reply::bulk(job_id(job))))
}

pub(super) fn steer_found(
    job: String,
    verb: JobVerb,
    reason: Option<String>,
    found: LookupResult,
) -> FlowStep {
    let Ok(task) = found else { return FlowStep::error(format!("ERR Job not found: {job}")) };
    let from = status(&task.state);
    // A completed job must not be retried by mistake.
    if verb == JobVerb::Retry && from == JobStatus::Completed {
        return FlowStep::error(NOT_FAILED);
    }
    let reason = reason.map(String::into_boxed_str);
    let command = match verb {
        JobVerb::Retry => Command::Retry { task: task.id },
        JobVerb::Cancel => Command::Cancel { task: task.id, reason },
        JobVerb::Pause => Command::Pause { task: task.id, reason, terminate: false },
        JobVerb::PauseAndTerminate => Command::Pause { task: task.id, reason, terminate: true },
        JobVerb::Resume => Command::Resume { task: task.id },
    };
    // What its worker keeps stopped goes on or ends without further notice.
    let is_stopped = from == JobStatus::Paused;
    let is_running = !is_stopped && matches!(task.state.name(), StateName::Running | StateName::Suspended);
    FlowStep::Last(Request::Command(command), LastReply::Steered { job, verb, from, is_running })
}
