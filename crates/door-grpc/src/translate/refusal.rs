//! Converts every refusal of the hub to a gRPC status, with the stable code beside it.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message as _;
use tenure_hub::HubRefusal;
use tenure_hub::words::Refusal;
use tonic::metadata::MetadataMap;
use tonic::{Code, Status};

use crate::proto::tenure::v1 as pb;

/// The trailer that carries the stable code.
const CODE_KEY: &str = "tenure-code";
/// The type name of a status detail.
const DETAIL_TYPE: &str = "type.googleapis.com/tenure.v1.Refusal";

/// A refusal that ends the call.
pub(crate) fn status(no: &(impl Clone + Into<HubRefusal>)) -> Status {
    let no: HubRefusal = no.clone().into();
    said(code(&no), refusal(&no))
}

/// The status for a call without a key.
pub(crate) fn unauthenticated() -> Status {
    no_entry("a key is required: send authorization: Bearer KEY")
}

/// The status for a key that this broker does not know, or no longer knows.
pub(crate) fn unknown_key() -> Status {
    no_entry("invalid key")
}

/// The status for an `authorization` header that is not a key.
pub(crate) fn no_key() -> Status {
    no_entry("malformed authorization header: send authorization: Bearer KEY")
}

fn no_entry(message: &str) -> Status {
    let no = Refusal::NotAllowed { what: "come in" };
    said(Code::Unauthenticated, pb::Refusal { message: message.to_owned(), ..refusal(&no) })
}

/// The broker stops, or has stopped.
pub(crate) fn unavailable() -> Status {
    status(&HubRefusal::Draining)
}

/// The hub's reply does not fit the request: a bug in this door.
pub(crate) fn unexpected() -> Status {
    Status::internal("internal error: the reply does not match the request; please report this")
}

/// A refusal of the hub, or of the engine, inside an answer.
pub(crate) fn refusal(no: &(impl Clone + Into<HubRefusal>)) -> pb::Refusal {
    let no: &HubRefusal = &no.clone().into();
    pb::Refusal { code: no.code().to_owned(), message: no.to_string(), facts: map(facts(no)) }
}

/// The code and the facts travel twice: as a trailer that every client can read, and as a typed detail.
pub(super) fn said(code: Code, refusal: pb::Refusal) -> Status {
    let mut metadata = MetadataMap::new();
    metadata.insert(CODE_KEY, refusal.code.parse().expect("codes are plain words"));
    let detail = prost_types::Any { type_url: DETAIL_TYPE.to_owned(), value: refusal.encode_to_vec() };
    let rich = RichStatus { code: code as i32, message: refusal.message.clone(), details: vec![detail] };
    let details = Bytes::from(rich.encode_to_vec());
    Status::with_details_and_metadata(code, refusal.message, details, metadata)
}

/// The shape in which gRPC libraries expect the details of a status.
#[derive(Clone, PartialEq, prost::Message)]
struct RichStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<prost_types::Any>,
}

/// The table of `spec/grpc.md`.
fn code(no: &HubRefusal) -> Code {
    match no {
        HubRefusal::Engine(no) => engine_code(no),
        HubRefusal::UnknownHook { .. } => Code::NotFound,
        HubRefusal::NoListener { .. } => Code::FailedPrecondition,
        HubRefusal::DiskFull => Code::ResourceExhausted,
        HubRefusal::Draining | HubRefusal::JournalAway | HubRefusal::Deposed { .. } => Code::Unavailable,
        HubRefusal::Elsewhere { .. } => Code::FailedPrecondition,
        HubRefusal::Trimmed { .. } => Code::OutOfRange,
        HubRefusal::Unreadable { .. } => Code::DataLoss,
    }
}

fn engine_code(no: &Refusal) -> Code {
    match no {
        Refusal::UnknownTask { .. }
        | Refusal::UnknownName { .. }
        | Refusal::UnknownWorker { .. }
        | Refusal::UnknownQueue { .. }
        | Refusal::UnknownSchedule { .. } => Code::NotFound,
        Refusal::IdTaken { .. } | Refusal::NameTaken { .. } | Refusal::WorkerTaken { .. } => {
            Code::AlreadyExists
        }
        Refusal::BadName { .. }
        | Refusal::BadValue { .. }
        | Refusal::BadSchedule { .. }
        | Refusal::TooMany { .. } => Code::InvalidArgument,
        Refusal::BadParent { .. }
        | Refusal::NotAWorker
        | Refusal::WrongState { .. }
        | Refusal::TooLate { .. } => Code::FailedPrecondition,
        Refusal::StaleAttempt { .. } => Code::Aborted,
        Refusal::Full { .. } => Code::ResourceExhausted,
        Refusal::NotAllowed { .. } => Code::PermissionDenied,
    }
}

fn facts(no: &HubRefusal) -> Vec<(&'static str, String)> {
    match no {
        HubRefusal::Engine(no) => engine_facts(no),
        HubRefusal::Unreadable { what } => vec![("what", (*what).to_owned())],
        HubRefusal::Trimmed { oldest } => vec![("oldest", oldest.to_string())],
        HubRefusal::UnknownHook { hook } => vec![("hook", hook.to_string())],
        HubRefusal::NoListener { address } => vec![("address", address.to_string())],
        HubRefusal::Deposed { holder } => vec![("name", holder.to_string())],
        HubRefusal::Elsewhere { namespace, group, addresses } => vec![
            ("namespace", namespace.to_string()),
            ("group", group.to_string()),
            ("addresses", addresses.join(" ")),
        ],
        HubRefusal::DiskFull | HubRefusal::Draining | HubRefusal::JournalAway => Vec::new(),
    }
}

fn engine_facts(no: &Refusal) -> Vec<(&'static str, String)> {
    match no {
        Refusal::UnknownTask { task } | Refusal::BadParent { parent: task } | Refusal::IdTaken { task } => {
            vec![("task", task.to_string())]
        }
        Refusal::UnknownName { name } => vec![("name", name.to_string())],
        Refusal::UnknownWorker { worker } | Refusal::WorkerTaken { worker } => {
            vec![("worker", worker.to_string())]
        }
        Refusal::UnknownSchedule { schedule } => vec![("schedule", schedule.to_string())],
        Refusal::BadSchedule { why } => vec![("why", why.to_string())],
        Refusal::UnknownQueue { queue } => vec![("queue", queue.to_string())],
        Refusal::NameTaken { name, task } => vec![("name", name.to_string()), ("task", task.to_string())],
        Refusal::StaleAttempt { task, attempt, current, state } => vec![
            ("task", task.to_string()),
            ("attempt", attempt.to_string()),
            ("current", current.to_string()),
            ("state", state.to_string()),
        ],
        Refusal::WrongState { task, state, verb } => {
            vec![("task", task.to_string()), ("state", state.to_string()), ("verb", (*verb).to_owned())]
        }
        Refusal::BadName { what, why } | Refusal::BadValue { what, why } => {
            vec![("what", (*what).to_owned()), ("why", (*why).to_owned())]
        }
        Refusal::TooMany { what, limit } => vec![("what", (*what).to_owned()), ("limit", limit.to_string())],
        Refusal::Full { what, limit } => vec![("what", (*what).to_owned()), ("limit", limit.to_string())],
        Refusal::NotAllowed { what } => vec![("what", (*what).to_owned())],
        Refusal::TooLate { deadline } => vec![("deadline", deadline.to_string())],
        Refusal::NotAWorker => Vec::new(),
    }
}

/// Facts as a message carries them.
pub(super) fn map(facts: Vec<(&'static str, String)>) -> BTreeMap<String, String> {
    facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
