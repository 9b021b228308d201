//! Converts every refusal of the hub to a problem, with the stable code and what to do.

use http::StatusCode;
use serde_json::{Map, Value};
use tenure_hub::words::Refusal;

use crate::problem::ProblemDetails;

pub(crate) fn problem(no: &Refusal) -> ProblemDetails {
    let facts: Map<String, Value> =
        facts(no).into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    ProblemDetails {
        facts: Box::new(facts),
        ..ProblemDetails::new(status(no), no.code(), no.to_string(), action(no))
    }
}

/// The table of `spec/http.md`.
fn status(no: &Refusal) -> StatusCode {
    match no {
        Refusal::UnknownTask { .. }
        | Refusal::UnknownName { .. }
        | Refusal::UnknownWorker { .. }
        | Refusal::UnknownQueue { .. }
        | Refusal::NoListener { .. } => StatusCode::NOT_FOUND,
        Refusal::BadName { .. }
        | Refusal::BadValue { .. }
        | Refusal::TooMany { .. }
        | Refusal::BadParent { .. } => StatusCode::BAD_REQUEST,
        Refusal::IdTaken { .. }
        | Refusal::NameTaken { .. }
        | Refusal::WorkerTaken { .. }
        | Refusal::NotAWorker
        | Refusal::WrongState { .. }
        | Refusal::StaleAttempt { .. }
        | Refusal::TooLate { .. } => StatusCode::CONFLICT,
        Refusal::NotAllowed { .. } => StatusCode::FORBIDDEN,
        Refusal::Trimmed { .. } | Refusal::Unreadable { .. } => StatusCode::GONE,
        Refusal::Full { .. } | Refusal::Draining => StatusCode::SERVICE_UNAVAILABLE,
        Refusal::DiskFull => StatusCode::INSUFFICIENT_STORAGE,
    }
}

/// The table at the head of `spec/errors.md`.
fn action(no: &Refusal) -> &'static str {
    match no {
        Refusal::StaleAttempt { .. } => "stop working on it and drop its result",
        Refusal::BadName { .. }
        | Refusal::BadValue { .. }
        | Refusal::TooMany { .. }
        | Refusal::BadParent { .. }
        | Refusal::TooLate { .. }
        | Refusal::WrongState { .. }
        | Refusal::IdTaken { .. }
        | Refusal::NameTaken { .. } => "correct the request",
        Refusal::NotAllowed { .. } => "use a key that has the right",
        Refusal::UnknownTask { .. }
        | Refusal::UnknownName { .. }
        | Refusal::UnknownWorker { .. }
        | Refusal::UnknownQueue { .. }
        | Refusal::NoListener { .. } => "check what the request refers to",
        Refusal::NotAWorker | Refusal::WorkerTaken { .. } => "register, then try again",
        Refusal::Full { .. } | Refusal::DiskFull | Refusal::Draining => "wait, then try again",
        Refusal::Trimmed { .. } | Refusal::Unreadable { .. } => "continue with what is left",
    }
}

fn facts(no: &Refusal) -> Vec<(&'static str, Value)> {
    match no {
        Refusal::UnknownTask { task } | Refusal::BadParent { parent: task } | Refusal::IdTaken { task } => {
            vec![("task", task.to_string().into())]
        }
        Refusal::UnknownName { name } => vec![("name", (&**name).into())],
        Refusal::UnknownWorker { worker } | Refusal::WorkerTaken { worker } => {
            vec![("worker", (&**worker).into())]
        }
        Refusal::UnknownQueue { queue } => vec![("queue", (&**queue).into())],
        Refusal::NameTaken { name, task } => {
            vec![("name", (&**name).into()), ("task", task.to_string().into())]
        }
        Refusal::StaleAttempt { task, attempt, current, state } => vec![
            ("task", task.to_string().into()),
            ("attempt", (*attempt).into()),
            ("current", (*current).into()),
            ("state", state.as_str().into()),
        ],
        Refusal::WrongState { task, state, verb } => vec![
            ("task", task.to_string().into()),
            ("state", state.as_str().into()),
            ("verb", (*verb).into()),
        ],
        Refusal::BadName { what, why } | Refusal::BadValue { what, why } => {
            vec![("what", (*what).into()), ("why", (*why).into())]
        }
        Refusal::TooMany { what, limit } => vec![("what", (*what).into()), ("limit", (*limit).into())],
        Refusal::Full { what, limit } => vec![("what", (*what).into()), ("limit", (*limit).into())],
        Refusal::NotAllowed { what } | Refusal::Unreadable { what } => vec![("what", (*what).into())],
        Refusal::Trimmed { oldest } => vec![("oldest", (*oldest).into())],
        Refusal::NoListener { address } => vec![("address", (&**address).into())],
        Refusal::TooLate { deadline } => vec![("deadline", deadline.rfc3339().into())],
        Refusal::NotAWorker | Refusal::DiskFull | Refusal::Draining => Vec::new(),
    }
}
