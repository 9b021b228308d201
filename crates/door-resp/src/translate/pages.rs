//! Looking things up: one job, one worker, a list over several pages.

use bytes::Bytes;
use tenure_hub::words::{Answer, ListQuery, Name, Query, Refusal, TaskId, TaskInfo, Timestamp, WorkerInfo};
use tenure_hub::{Request, Response};

use super::refusals::refusal;
use crate::errand::Step;

/// How many tasks the broker gives at a time.
const PAGE: usize = 1000;
/// How many tasks one command may look at before it gives up.
pub(super) const LOOKS_MAX: usize = 20_000;

type Found = Result<Box<TaskInfo>, Refusal>;

/// A job by its id or by its name.
pub(super) fn find(job: &str, then: impl FnOnce(Timestamp, Found) -> Step + Send + 'static) -> Step {
    let query = match job.parse::<TaskId>() {
        Ok(task) => Query::Show { task },
        Err(_) => Query::Find { name: Name::from(job) },
    };
    Step::ask(Request::Query(query), move |now, outcome| then(now, task_of(outcome)))
}

pub(super) fn find_name(name: Name, then: impl FnOnce(Timestamp, Found) -> Step + Send + 'static) -> Step {
    Step::ask(Request::Query(Query::Find { name }), move |now, outcome| then(now, task_of(outcome)))
}

/// A job with its body and its result.
pub(super) fn read_whole(
    task: Box<TaskInfo>,
    then: impl FnOnce(Timestamp, Box<TaskInfo>, Bytes, Bytes) -> Step + Send + 'static,
) -> Step {
    let body = task.body;
    Step::read(body, move |_, body| match body {
        Err(reason) => Step::Reply(refusal(&reason)),
        Ok(body) => read_result(task, move |now, task, result| then(now, task, body, result)),
    })
}

pub(super) fn read_result(
    task: Box<TaskInfo>,
    then: impl FnOnce(Timestamp, Box<TaskInfo>, Bytes) -> Step + Send + 'static,
) -> Step {
    let result = task.state.end().map(|end| end.result).unwrap_or_default();
    Step::read(result, move |now, result| match result {
        Err(reason) => Step::Reply(refusal(&reason)),
        Ok(result) => then(now, task, result),
    })
}

/// All tasks that match and are wanted, up to a number of them.
pub(super) fn list(
    query: ListQuery,
    limit: usize,
    keep: impl Fn(&TaskInfo) -> bool + Send + 'static,
    then: impl FnOnce(Timestamp, Vec<TaskInfo>) -> Step + Send + 'static,
) -> Step {
    go_on(query, limit, 0, Vec::new(), Box::new(keep), Box::new(then))
}

pub(super) fn workers(then: impl FnOnce(Timestamp, Vec<WorkerInfo>) -> Step + Send + 'static) -> Step {
    Step::ask(Request::Query(Query::Workers), move |now, outcome| match outcome {
        Ok(Response::Answer(Answer::Workers(workers))) => then(now, workers),
        Ok(_) => Step::error("ERR unexpected answer"),
        Err(reason) => Step::Reply(refusal(&reason)),
    })
}

type Keep = Box<dyn Fn(&TaskInfo) -> bool + Send>;
type ThenTasks = Box<dyn FnOnce(Timestamp, Vec<TaskInfo>) -> Step + Send>;

fn go_on(
    mut query: ListQuery,
    limit: usize,
    looked: usize,
    mut found: Vec<TaskInfo>,
    keep: Keep,
    then: ThenTasks,
) -> Step {
    query.limit = PAGE;
    Step::ask(Request::Query(Query::List(Box::new(query.clone()))), move |now, outcome| match outcome {
        Ok(Response::Answer(Answer::Tasks { tasks, next })) => {
            let looked = looked + tasks.len().max(1);
            found.extend(tasks.into_iter().filter(|task| keep(task)));
            if found.len() >= limit || next.is_none() || looked >= LOOKS_MAX {
                found.truncate(limit);
                return then(now, found);
            }
            go_on(ListQuery { cursor: next, ..query }, limit, looked, found, keep, then)
        }
        Ok(_) => Step::error("ERR unexpected answer"),
        Err(reason) => Step::Reply(refusal(&reason)),
    })
}

fn task_of(outcome: crate::errand::Outcome) -> Found {
    match outcome? {
        Response::Answer(Answer::Task(task)) => Ok(task),
        _ => Err(Refusal::BadValue { what: "answer", why: "is of another kind" }),
    }
}
