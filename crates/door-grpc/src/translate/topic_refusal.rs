//! Every "no" of the topics, and every end of a stream, as a status.

use std::collections::BTreeMap;

use tenure_hub::topics::{Ended, Refusal};
use tonic::{Code, Status};

use super::refusal::said;
use crate::proto::tenure::v1 as pb;

pub(crate) fn topic_status(no: &Refusal) -> Status {
    said(code(no), topic_refusal(no))
}

/// A refusal inside an answer.
pub(super) fn topic_refusal(no: &Refusal) -> pb::Refusal {
    plain(no.code(), no.to_string())
}

/// How a stream ends that is over: nothing if that is what was asked for.
pub(crate) fn ended(ended: Ended) -> Option<Status> {
    match ended {
        Ended::Unsubscribed | Ended::Paused => None,
        Ended::TakenOver => {
            let message = "another stream has taken over this subscription";
            Some(said(Code::Aborted, plain(ended.as_str(), message.to_owned())))
        }
        Ended::Stopping => Some(topic_status(&Refusal::Stopping)),
    }
}

fn plain(code: &str, message: String) -> pb::Refusal {
    pb::Refusal { code: code.to_owned(), message, facts: BTreeMap::new() }
}

/// The table of `spec/grpc.md`.
fn code(no: &Refusal) -> Code {
    match no {
        Refusal::NameEmpty
        | Refusal::NameTooLong { .. }
        | Refusal::TooManyLevels { .. }
        | Refusal::LevelEmpty
        | Refusal::ControlCharacter
        | Refusal::WildcardInName
        | Refusal::WildcardMisplaced
        | Refusal::NameReserved
        | Refusal::NoFilters
        | Refusal::EventsInGroup
        | Refusal::TooManyFilters { .. }
        | Refusal::TextEmpty { .. }
        | Refusal::TextTooLong { .. }
        | Refusal::PayloadTooLong { .. }
        | Refusal::TtlZero
        | Refusal::TooManyLastSeen { .. } => Code::InvalidArgument,
        Refusal::ReadOnly { .. } => Code::PermissionDenied,
        Refusal::UnknownSubscription | Refusal::UnknownTopic => Code::NotFound,
        Refusal::SubscriptionExists | Refusal::RequestExists => Code::AlreadyExists,
        Refusal::SubscriptionPaused
        | Refusal::TopicInUse
        | Refusal::NoResponders
        | Refusal::DurableRequest
        | Refusal::UnknownRequest => Code::FailedPrecondition,
        Refusal::FiltersFull { .. }
        | Refusal::TooManyTopics { .. }
        | Refusal::TooManySubscriptions { .. }
        | Refusal::RetainedFull { .. }
        | Refusal::TooManyRequests { .. }
        | Refusal::TooManyNamespaces { .. } => Code::ResourceExhausted,
        Refusal::NoAnswer => Code::DeadlineExceeded,
        Refusal::NotWritten | Refusal::Stopping => Code::Unavailable,
    }
}
