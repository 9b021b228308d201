//! Converts every refusal of the hub to a problem, with the stable code and what to do.

use http::StatusCode;
use serde_json::{Map, Value};
use tenure_hub::HubRefusal;
use tenure_hub::words::Refusal;

use crate::problem::ProblemDetails;

/// The problem for a refusal of the hub, or of the engine.
pub(crate) fn problem(no: &(impl Clone + Into<HubRefusal>)) -> ProblemDetails {
    let no: &HubRefusal = &no.clone().into();
    let facts: Map<String, Value> =
        facts(no).into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    ProblemDetails {
        facts: Box::new(facts),
        ..ProblemDetails::new(status(no), no.code(), no.to_string(), action(no))
    }
}

/// The table of `spec/http.md`.
fn status(no: &HubRefusal) -> StatusCode {
    match no {
        HubRefusal::Engine(no) => engine_status(no),
        HubRefusal::UnknownHook { .. } | HubRefusal::NoListener { .. } => StatusCode::NOT_FOUND,
        HubRefusal::Trimmed { .. } | HubRefusal::Unreadable { .. } => StatusCode::GONE,
        HubRefusal::Draining | HubRefusal::JournalAway | HubRefusal::Deposed { .. } => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        HubRefusal::Elsewhere { .. } => StatusCode::MISDIRECTED_REQUEST,
        HubRefusal::DiskFull => StatusCode::INSUFFICIENT_STORAGE,
    }
}

fn engine_status(no: &Refusal) -> StatusCode {
    match no {
        Refusal::UnknownTask { .. }
        | Refusal::UnknownName { .. }
        | Refusal::UnknownWorker { .. }
        | Refusal::UnknownQueue { .. }
        | Refusal::UnknownSchedule { .. } => StatusCode::NOT_FOUND,
        Refusal::BadName { .. }
        | Refusal::BadValue { .. }
        | Refusal::TooMany { .. }
        | Refusal::BadSchedule { .. }
        | Refusal::BadParent { .. } => StatusCode::BAD_REQUEST,
        Refusal::IdTaken { .. }
        | Refusal::NameTaken { .. }
        | Refusal::WorkerTaken { .. }
        | Refusal::NotAWorker
        | Refusal::WrongState { .. }
        | Refusal::StaleAttempt { .. }
        | Refusal::TooLate { .. } => StatusCode::CONFLICT,
        Refusal::NotAllowed { .. } => StatusCode::FORBIDDEN,
        Refusal::Full { .. } => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// The table at the head of `spec/errors.md`.
fn action(no: &HubRefusal) -> &'static str {
    match no {
        HubRefusal::Engine(no) => engine_action(no),
        HubRefusal::UnknownHook { .. } | HubRefusal::NoListener { .. } => "check what the request refers to",
        HubRefusal::DiskFull
        | HubRefusal::Draining
        | HubRefusal::JournalAway
        | HubRefusal::Deposed { .. } => "wait, then try again",
        HubRefusal::Elsewhere { .. } => "connect to one of the addresses",
        HubRefusal::Trimmed { .. } | HubRefusal::Unreadable { .. } => "continue with what is left",
    }
}

fn engine_action(no: &Refusal) -> &'static str {
    match no {
        Refusal::StaleAttempt { .. } => "stop working on it and drop its result",
        Refusal::BadName { .. }
        | Refusal::BadValue { .. }
        | Refusal::TooMany { .. }
        | Refusal::BadSchedule { .. }
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
        | Refusal::UnknownSchedule { .. } => "check what the request refers to",
        Refusal::NotAWorker | Refusal::WorkerTaken { .. } => "register, then try again",
        Refusal::Full { .. } => "wait, then try again",
    }
}

fn facts(no: &HubRefusal) -> Vec<(&'static str, Value)> {
    match no {
        HubRefusal::Engine(no) => engine_facts(no),
        HubRefusal::Unreadable { what } => vec![("what", (*what).into())],
        HubRefusal::Trimmed { oldest } => vec![("oldest", (*oldest).into())],
        HubRefusal::UnknownHook { hook } => vec![("hook", (&**hook).into())],
        HubRefusal::NoListener { address } => vec![("address", (&**address).into())],
        HubRefusal::Deposed { holder } => vec![("name", (&**holder).into())],
        HubRefusal::Elsewhere { namespace, group, addresses } => vec![
            ("namespace", (&**namespace).into()),
            ("group", (&**group).into()),
            ("addresses", addresses.iter().map(|address| &**address).collect()),
        ],
        HubRefusal::DiskFull | HubRefusal::Draining | HubRefusal::JournalAway => Vec::new(),
    }
}

fn engine_facts(no: &Refusal) -> Vec<(&'static str, Value)> {
    match no {
        Refusal::UnknownTask { task } | Refusal::BadParent { parent: task } | Refusal::IdTaken { task } => {
            vec![("task", task.to_string().into())]
        }
        Refusal::UnknownName { name } => vec![("name", (&**name).into())],
        Refusal::UnknownWorker { worker } | Refusal::WorkerTaken { worker } => {
            vec![("worker", (&**worker).into())]
        }
        Refusal::UnknownSchedule { schedule } => vec![("schedule", (&**schedule).into())],
        Refusal::BadSchedule { why } => vec![("why", (&**why).into())],
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
        Refusal::NotAllowed { what } => vec![("what", (*what).into())],
        Refusal::TooLate { deadline } => vec![("deadline", deadline.rfc3339().into())],
        Refusal::NotAWorker => Vec::new(),
    }
}
