//! Looking things up: one job, one worker, one queue, a list over several pages.

use bytes::Bytes;
use tenure_hub::words::{
    Answer, Command, ListQuery, Name, Query, QueueInfo, Refusal, TaskId, TaskInfo, Timestamp, WorkerInfo,
};
use tenure_hub::{Request, Response};

use super::names::is_reserved;
use super::refusals::refusal;
use crate::errand::{Outcome, Step};

/// How many things the broker gives at a time. A long walk is many short questions, and others are answered between.
pub(super) const PAGE: usize = 1000;

type Found = Result<Box<TaskInfo>, Refusal>;

/// A job by its id or by its name.
pub(super) fn find(job: &str, then: impl FnOnce(Timestamp, Found) -> Step + Send + 'static) -> Step {
    let query = match job.parse::<TaskId>() {
        Ok(task) => Query::Show { task },
        Err(_) => Query::Find { name: Name::from(job) },
    };
    Step::ask(Request::Query(query), move |now, outcome| {
        // The tasks behind plans and actions are no jobs.
        let found = task_of(outcome).and_then(|task| match is_reserved(&task.terms.queue) {
            true => Err(Refusal::UnknownTask { task: task.id }),
            false => Ok(task),
        });
        then(now, found)
    })
}

/// Makes a task that has ended one that is held back again, with its name and without its family.
pub(super) fn take_up(task: TaskId, then: impl FnOnce() -> Step + Send + 'static) -> Step {
    // Whoever comes at the same time does the same; what was refused to one of them is done.
    Step::ask(Request::Command(Command::Retry { task }), move |_, _| {
        let reason = Some("it waits for nobody".into());
        Step::ask(Request::Command(Command::Pause { task, reason }), move |_, _| then())
    })
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
    list_on(query, limit, Vec::new(), Box::new(keep), Box::new(then))
}

/// One page of tasks, and the question for the next one.
pub(super) fn page(
    mut query: ListQuery,
    then: impl FnOnce(Timestamp, Vec<TaskInfo>, Option<ListQuery>) -> Step + Send + 'static,
) -> Step {
    query.limit = PAGE;
    Step::ask(Request::Query(Query::List(Box::new(query.clone()))), move |now, outcome| match outcome {
        Ok(Response::Answer(Answer::Tasks { tasks, next })) => {
            let next = next.map(|cursor| ListQuery { cursor: Some(cursor), ..query });
            then(now, tasks, next)
        }
        other => unexpected(other),
    })
}

/// Every worker.
pub(super) fn workers(then: impl FnOnce(Timestamp, Vec<WorkerInfo>) -> Step + Send + 'static) -> Step {
    workers_on(0, Vec::new(), Box::new(then))
}

/// One worker, if anybody has heard of it.
pub(super) fn worker(
    name: &str,
    then: impl FnOnce(Timestamp, Option<WorkerInfo>) -> Step + Send + 'static,
) -> Step {
    let query = Query::Worker { worker: Name::from(name) };
    Step::ask(Request::Query(query), move |now, outcome| match outcome {
        Ok(Response::Answer(Answer::Workers(mut workers))) => then(now, workers.pop()),
        other => unexpected(other),
    })
}

/// The only queue of an answer, if there is one.
pub(super) fn one_queue(outcome: Outcome) -> Result<Option<QueueInfo>, Refusal> {
    match outcome? {
        Response::Answer(Answer::Queues(mut queues)) => Ok(queues.pop()),
        _ => Err(OTHER_KIND),
    }
}

/// An answer that leads nowhere.
pub(super) fn unexpected(outcome: Outcome) -> Step {
    Step::Reply(refusal(&outcome.err().unwrap_or(OTHER_KIND)))
}

const OTHER_KIND: Refusal = Refusal::BadValue { what: "answer", why: "is of another kind" };

type Keep = Box<dyn Fn(&TaskInfo) -> bool + Send>;
type ThenTasks = Box<dyn FnOnce(Timestamp, Vec<TaskInfo>) -> Step + Send>;
type ThenWorkers = Box<dyn FnOnce(Timestamp, Vec<WorkerInfo>) -> Step + Send>;

fn list_on(query: ListQuery, limit: usize, mut found: Vec<TaskInfo>, keep: Keep, then: ThenTasks) -> Step {
    page(query, move |now, tasks, next| {
        found.extend(tasks.into_iter().filter(|task| keep(task)));
        match next {
            Some(next) if found.len() < limit => list_on(next, limit, found, keep, then),
            _ => {
                found.truncate(limit);
                then(now, found)
            }
        }
    })
}

fn workers_on(from: u32, mut found: Vec<WorkerInfo>, then: ThenWorkers) -> Step {
    let query = Query::ScanWorkers { from, limit: PAGE };
    Step::ask(Request::Query(query), move |now, outcome| match outcome {
        Ok(Response::Answer(Answer::ScannedWorkers { workers, next })) => {
            found.extend(workers);
            match next {
                Some(next) => workers_on(next, found, then),
                None => {
                    found.sort_by(|one, other| one.worker.cmp(&other.worker));
                    then(now, found)
                }
            }
        }
        other => unexpected(other),
    })
}

fn task_of(outcome: Outcome) -> Found {
    match outcome? {
        Response::Answer(Answer::Task(task)) => Ok(task),
        _ => Err(OTHER_KIND),
    }
}
