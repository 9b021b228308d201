//! Jobs: asking about them, reporting on them, steering them.

use serde_json::Value;
use tenure_hub::words::{Answer, Command, ListQuery, Name, Query, Refusal, TaskInfo};
use tenure_hub::{Request, Response};

use super::actions::find_action;
use super::names::{is_reserved, job_id, plan_tag, queue_name, states, status};
use super::pages::{find, list, read_result, read_whole};
use super::plans::find_plan;
use super::refusals::{call_refused, refusal};
use super::render;
use super::workers::about_held;
use super::{Speaker, submit};
use crate::codec::Reply;
use crate::command::{CommandError, JobCommand, JobFilter, JobStatus, JobVerb, Page};
use crate::errand::{Step, Whom};
use crate::shapes::{JobUpdate, Report};
use crate::worker::{Call, CallAnswer};

const NOT_FAILED: &str = "ERR Job not in failed status";

pub(super) fn start(command: JobCommand, speaker: &Speaker) -> Step {
    match command {
        JobCommand::Submit(submission) => submit::job(*submission, speaker),
        JobCommand::Update { job, update } => update_job(job, update, speaker),
        JobCommand::Get { job } => get(job),
        JobCommand::Status { job } => get_status(job),
        JobCommand::Ids { action, status, page } => {
            let filter = JobFilter { is_bare: action.is_some(), action, status, ..JobFilter::default() };
            filtered(filter, page, |jobs| ids(&jobs))
        }
        JobCommand::List { filter, page } => filtered(filter, page, |jobs| {
            let shown = |job: &TaskInfo| Value::Object(render::state(job, &bytes::Bytes::new())).to_string();
            Reply::array(jobs.iter().map(|job| Reply::bulk(shown(job))))
        }),
        JobCommand::Search { filter, page } => filtered(filter, page, |jobs| ids(&jobs)),
        JobCommand::Steer { job, verb, reason } => steer(job, verb, reason),
    }
}

/// A job with everything about it. A worker that asks for its own job has read that it has it.
pub(super) fn get(job: String) -> Step {
    mentioned(job, |task| {
        read_whole(task, |_, task, body, result| {
            Step::Reply(Reply::bulk(render::whole(&task, &body, &result).to_string()))
        })
    })
}

/// Says "it is not yours" with both names.
pub(super) fn not_yours(worker: Option<&str>, holder: &str) -> Reply {
    let worker = worker.unwrap_or("(unregistered)");
    Reply::error(format!("ERR Worker {worker} cannot update job claimed by {holder}"))
}

/// After a report was refused because the worker does not hold the job: why not.
pub(super) fn explain_not_held(job: String, report: Option<Report>, speaker_worker: Option<Name>) -> Step {
    find(&job.clone(), move |_, found| {
        Step::Reply(match found {
            Err(_) => Reply::error(format!("ERR Job not found: {job}")),
            Ok(task) => match task.state.holding() {
                Some(holding) if Some(&*holding.worker) == speaker_worker.as_deref() => Reply::error(
                    format!("ERR Stale attempt of job {job}, the current one is {}", task.attempt),
                ),
                Some(holding) => not_yours(speaker_worker.as_deref(), &holding.worker),
                None => {
                    let from = status(&task.state).word();
                    Reply::error(match report {
                        Some(to) => format!("ERR Invalid status transition: {from} -> {}", to.word()),
                        None => format!("ERR Job not held by a worker: {job} is {from}"),
                    })
                }
            },
        })
    })
}

/// Looks a job up after telling the worker's desk that it was mentioned.
pub(super) fn mentioned(job: String, then: impl FnOnce(Box<TaskInfo>) -> Step + Send + 'static) -> Step {
    Step::call(Whom::Own, Call::Mention { job: job.clone() }, move |_, _| {
        find(&job, move |_, found| match found {
            Ok(task) => then(task),
            Err(Refusal::UnknownTask { .. } | Refusal::UnknownName { .. }) => Step::Reply(Reply::Null),
            Err(reason) => Step::Reply(refusal(&reason)),
        })
    })
}

fn update_job(job: String, update: Box<JobUpdate>, speaker: &Speaker) -> Step {
    let worker = speaker.worker.clone();
    let report = update.report;
    let Some(name) = update.worker.as_deref().map(Name::from) else {
        return report_on(Whom::Own, job, update, worker);
    };
    match &worker {
        Some(worker) if *worker == name => report_on(Whom::Own, job, update, Some(name)),
        // A connection that has said who it is may not say otherwise.
        Some(_) => explain_not_held(job, report, worker),
        None if !speaker.may_claim => explain_not_held(job, report, None),
        // One that has not may say so here, unless that worker speaks elsewhere.
        None => Step::call(Whom::Known(name.clone()), Call::Identify, move |_, answer| match answer {
            CallAnswer::Taken => explain_not_held(job, report, None),
            _ => report_on(Whom::Known(name.clone()), job, update, Some(name)),
        }),
    }
}

fn report_on(whom: Whom, job: String, update: Box<JobUpdate>, worker: Option<Name>) -> Step {
    let report = update.report;
    let call = Call::Report { job: job.clone(), update };
    about_held(whom, job.clone(), worker.clone(), call, move |answer| match answer {
        CallAnswer::Done => Step::Reply(Reply::OK),
        CallAnswer::Wanted(word) => Step::Reply(Reply::simple(format!("OK wanted={word}"))),
        CallAnswer::NotHeld | CallAnswer::NotRegistered => explain_not_held(job, report, worker),
        CallAnswer::Stale { attempt, current } => {
            Step::error(format!("ERR Stale attempt {attempt} of job {job}, the current one is {current}"))
        }
        other => Step::Reply(call_refused(&other, worker.as_deref().unwrap_or_default())),
    })
}

fn get_status(job: String) -> Step {
    mentioned(job, |task| {
        let id = task.id;
        Step::ask(Request::Query(Query::Explain { task: id }), move |_, why| {
            read_result(task, move |_, task, result| {
                let mut shown = render::state(&task, &result);
                if let Ok(Response::Answer(Answer::Why(why))) = why
                    && task.state.holding().is_none()
                    && !task.state.name().has_ended()
                {
                    shown.insert("waiting_because".into(), render::why(&why).into());
                    shown.insert("waiting_code".into(), why.code().into());
                }
                Step::Reply(Reply::bulk(Value::Object(shown).to_string()))
            })
        })
    })
}

fn filtered(
    filter: JobFilter,
    page: Page,
    reply: impl FnOnce(Vec<TaskInfo>) -> Reply + Send + 'static,
) -> Step {
    if let Some(action) = filter.action.clone() {
        return find_action(&action.clone(), move |_, found| match found {
            None if filter.is_bare => Step::Reply(neither_status_nor("action", action)),
            None => Step::Reply(reply(Vec::new())),
            Some(task) => of_filter(&filter, Some(task.id), page, move |jobs| Step::Reply(reply(jobs))),
        });
    }
    let bare = filter.plan.clone().filter(|_| filter.is_bare && page.offset == 0);
    of_filter(&filter, None, page, move |jobs| match bare {
        // Jobs may outlive their plan, so it is missed only where there are none.
        Some(plan) if jobs.is_empty() => find_plan(&plan.clone(), move |_, found| {
            Step::Reply(match found {
                None => neither_status_nor("plan", plan),
                Some(_) => reply(jobs),
            })
        }),
        _ => Step::Reply(reply(jobs)),
    })
}

fn neither_status_nor(what: &'static str, word: String) -> Reply {
    CommandError::NeitherStatusNor { word, what }.reply()
}

fn of_filter(
    filter: &JobFilter,
    parent: Option<tenure_hub::words::TaskId>,
    page: Page,
    then: impl FnOnce(Vec<TaskInfo>) -> Step + Send + 'static,
) -> Step {
    let plan = filter.plan.as_deref().map(plan_tag);
    let tag = filter.tag.as_deref().map(Into::into);
    let query = ListQuery {
        states: filter.status.map(states).unwrap_or_default(),
        queue: filter.queue.as_ref().and_then(queue_name),
        tag: plan.clone().or(tag.clone()),
        worker: filter.worker.as_deref().map(Into::into),
        parent,
        ..ListQuery::default()
    };
    let wanted = filter.status;
    let keep = move |task: &TaskInfo| {
        let found = status(&task.state);
        let same =
            |wanted: JobStatus| found == wanted || (wanted == JobStatus::Failed && found == JobStatus::Dead);
        !is_reserved(&task.terms.queue)
            && wanted.is_none_or(same)
            && tag.as_ref().is_none_or(|tag| task.terms.tags.contains(tag))
    };
    list(query, page.offset.saturating_add(page.limit), keep, move |_, mut tasks| {
        if parent.is_some() {
            tasks.sort_by_key(|task| task.id);
        }
        then(tasks.into_iter().skip(page.offset).collect())
    })
}

fn ids(jobs: &[TaskInfo]) -> Reply {
    Reply::array(jobs.iter().map(|job| Reply::bulk(job_id(job))))
}

fn steer(job: String, verb: JobVerb, reason: Option<String>) -> Step {
    find(&job.clone(), move |_, found| {
        let Ok(task) = found else { return Step::error(format!("ERR Job not found: {job}")) };
        let from = status(&task.state);
        // What came to a good end is not tried again by mistake.
        if verb == JobVerb::Retry && from == JobStatus::Completed {
            return Step::error(NOT_FAILED);
        }
        let reason = reason.map(String::into_boxed_str);
        let (command, done) = match verb {
            JobVerb::Retry => (Command::Retry { task: task.id }, "OK job re-queued"),
            JobVerb::Cancel => (Command::Cancel { task: task.id, reason }, "OK job cancelled"),
            JobVerb::Pause => (Command::Pause { task: task.id, reason }, "OK job paused"),
            JobVerb::Resume => (Command::Resume { task: task.id }, "OK job resumed"),
        };
        // A worker has to stop first; the wish is remembered.
        let asked = task.state.name() == tenure_hub::words::StateName::Running;
        Step::last(Request::Command(command), move |_, outcome| match outcome {
            Ok(_) if asked && verb == JobVerb::Cancel => Reply::simple("OK cancellation requested"),
            Ok(_) if asked && verb == JobVerb::Pause => Reply::simple("OK pause requested"),
            Ok(_) => Reply::simple(done),
            Err(Refusal::WrongState { .. }) => Reply::error(match verb {
                JobVerb::Retry => NOT_FAILED.to_owned(),
                JobVerb::Resume => format!("ERR Job not paused: {job} is {}", from.word()),
                JobVerb::Cancel => format!("ERR Job cannot be cancelled: {job} is {}", from.word()),
                JobVerb::Pause => format!("ERR Job cannot be paused: {job} is {}", from.word()),
            }),
            Err(reason) => refusal(&reason),
        })
    })
}
