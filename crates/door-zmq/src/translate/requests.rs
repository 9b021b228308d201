//! Hub requests that both doors share.

use std::fmt::Display;

use bytes::Bytes;
use tenure_hub::limits::{BODY_BYTES_MAX, MANY_MAX};
use tenure_hub::words::{
    AttemptFailure, Blob, Command, EventData, EventFilter, Held, ListQuery, Name, NewTask, Query, Refusal,
    StateName, TaskId,
};
use tenure_hub::{Done, Request, Submission, Watch};

use crate::body;

/// A task with the frames of its body.
pub(crate) fn submission(task: NewTask, body: Bytes) -> Result<Submission, Refusal> {
    if body.len() > BODY_BYTES_MAX {
        return Err(Refusal::TooMany { what: "bytes in a body", limit: BODY_BYTES_MAX });
    }
    Ok(Submission::new(task, body))
}

/// Follows the ends of whatever this peer submits.
pub(crate) fn watch_ends(watch: u64, submitter: &Name) -> Request {
    let filter = EventFilter {
        submitter: Some(submitter.clone()),
        kinds: EventData::KINDS_OF_ENDS.map(Name::from).to_vec(),
        ..EventFilter::default()
    };
    Request::Watch(Watch { watch, filter, from: None })
}

/// One of the tasks of a queue that a worker holds, if there is one.
pub(crate) fn held_in(queue: &Name) -> Request {
    let states = vec![StateName::Assigned, StateName::Running, StateName::Suspended];
    let query = ListQuery { states, queue: Some(queue.clone()), limit: 1, ..ListQuery::default() };
    Request::Query(Query::List(Box::new(query)))
}

/// One of the tasks that this peer submitted and that have not ended, if there is one.
pub(crate) fn unfinished_of(submitter: &Name) -> Request {
    let states = StateName::ALL.into_iter().filter(|state| !state.has_ended()).collect();
    let query = ListQuery { states, submitter: Some(submitter.clone()), limit: 1, ..ListQuery::default() };
    Request::Query(Query::List(Box::new(query)))
}

/// The frames of a result. One that is too long to be kept is a failure.
pub(crate) fn report(held: Held, result: &[Bytes]) -> Request {
    let result = if result.is_empty() { Bytes::new() } else { body::pack(result) };
    if result.len() > BODY_BYTES_MAX {
        return given_up(held, &Refusal::TooMany { what: "bytes in a result", limit: BODY_BYTES_MAX });
    }
    Request::Complete(vec![Done { held, result }])
}

/// The job cannot be sent to a worker, or its result cannot be stored; a retry would not help.
pub(crate) fn given_up(held: Held, refusal: &impl Display) -> Request {
    let failure = AttemptFailure {
        held,
        exit_code: 1,
        message: Some(refusal.to_string().into()),
        result: Blob::EMPTY,
        crashed: false,
        is_final: true,
    };
    Request::Fail { failure, result: Bytes::new() }
}

/// Reports that the client of these tasks is gone and cannot return.
pub(crate) fn abandon(tasks: impl Iterator<Item = TaskId>) -> Vec<Request> {
    let tasks: Vec<TaskId> = tasks.collect();
    let some = |some: &[TaskId]| Request::Command(Command::Abandon(some.to_vec()));
    tasks.chunks(MANY_MAX).map(some).collect()
}
