//! Converts every refusal of the topics, and every end of a stream, to a status.

use std::collections::BTreeMap;

use tenure_hub::topics::{Ended, TopicRefusal};
use tonic::{Code, Status};

use super::refusal::said;
use crate::proto::tenure::v1 as pb;

pub(crate) fn topic_status(no: &TopicRefusal) -> Status {
    said(code(no), topic_refusal(no))
}

/// A refusal inside an answer.
pub(super) fn topic_refusal(no: &TopicRefusal) -> pb::Refusal {
    plain(no.code(), no.to_string())
}

/// The status of an ended stream; `None` if the client asked for the end.
pub(crate) fn ended(ended: Ended) -> Option<Status> {
    match ended {
        Ended::Unsubscribed | Ended::Paused => None,
        Ended::TakenOver => {
            let message = "another stream has taken over this subscription";
            Some(said(Code::Aborted, plain(ended.as_str(), message.to_owned())))
        }
        Ended::Stopping => Some(topic_status(&TopicRefusal::Stopping)),
    }
}

fn plain(code: &str, message: String) -> pb::Refusal {
    pb::Refusal { code: code.to_owned(), message, facts: BTreeMap::new() }
}

/// The table of `spec/grpc.md`.
fn code(no: &TopicRefusal) -> Code {
    match no {
        TopicRefusal::NameEmpty
        | TopicRefusal::NameTooLong { .. }
        | TopicRefusal::TooManyLevels { .. }
        | TopicRefusal::LevelEmpty
        | TopicRefusal::ControlCharacter
        | TopicRefusal::WildcardInName
        | TopicRefusal::WildcardMisplaced
        | TopicRefusal::NameReserved
        | TopicRefusal::NoFilters
        | TopicRefusal::EventsInGroup
        | TopicRefusal::TooManyFilters { .. }
        | TopicRefusal::TextEmpty { .. }
        | TopicRefusal::TextTooLong { .. }
        | TopicRefusal::PayloadTooLong { .. }
        | TopicRefusal::TtlZero
        | TopicRefusal::TooManyLastSeen { .. } => Code::InvalidArgument,
        TopicRefusal::ReadOnly { .. } => Code::PermissionDenied,
        TopicRefusal::UnknownSubscription | TopicRefusal::UnknownTopic => Code::NotFound,
        TopicRefusal::SubscriptionExists | TopicRefusal::RequestExists => Code::AlreadyExists,
        TopicRefusal::SubscriptionPaused
        | TopicRefusal::TopicInUse
        | TopicRefusal::NoResponders
        | TopicRefusal::DurableRequest
        | TopicRefusal::UnknownRequest => Code::FailedPrecondition,
        TopicRefusal::FiltersFull { .. }
        | TopicRefusal::TooManyTopics { .. }
        | TopicRefusal::TooManySubscriptions { .. }
        | TopicRefusal::RetainedFull { .. }
        | TopicRefusal::TooManyRequests { .. }
        | TopicRefusal::TooManyNamespaces { .. } => Code::ResourceExhausted,
        TopicRefusal::NoAnswer => Code::DeadlineExceeded,
        TopicRefusal::NotWritten | TopicRefusal::Stopping => Code::Unavailable,
    }
}
