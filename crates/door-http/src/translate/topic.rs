//! Topics, messages and subscriptions as JSON, and the refusals of topics as problems.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use serde_json::{Value, json};
use tenure_hub::topics::{
    Delivery, DeliveryKind, Ended, Gap, Message, PublishResult, SubscriptionInfo, TopicFilter, TopicInfo,
    TopicRefusal, TopicTime, WarningReason,
};
use tenure_hub::words::Timestamp;

use super::word::{millis, time};
use crate::problem::ProblemDetails;

pub(crate) fn topic(topic: &TopicInfo) -> Value {
    json!({
        "topic": &*topic.name,
        "sequence": topic.sequence.0,
        "kept": topic.kept,
        "oldest_kept": topic.oldest_kept.map(|oldest| oldest.0),
        "retained": topic.retained,
        "subscribers": topic.subscribers,
    })
}

pub(crate) fn subscription(one: &SubscriptionInfo) -> Value {
    let stats = &one.stats;
    json!({
        "id": one.id.as_str(),
        "client": &*one.client,
        "topics": one.filters.iter().map(TopicFilter::as_str).collect::<Vec<_>>(),
        "group": one.group.as_deref(),
        "policy": one.policy.as_str(),
        "paused_until": one.paused_until.map(topic_time),
        "depth": stats.depth,
        "limit": stats.limit,
        "high_watermark": stats.high_watermark,
        "enqueued": stats.enqueued,
        "delivered": stats.delivered,
        "dropped": {
            "oldest": stats.dropped.oldest,
            "newest": stats.dropped.newest,
            "ttl": stats.dropped.ttl,
            "disconnect": stats.dropped.disconnect,
        },
        "blocked_ms": millis(stats.blocked),
    })
}

pub(crate) fn published(done: &PublishResult) -> Value {
    json!({
        "id": uuid::Uuid::from_u128(done.id.0).to_string(),
        "sequence": done.sequence.0,
        "receivers": done.receivers,
        "dropped": done.dropped,
        "blocked": done.blocked,
    })
}

/// Bytes as text if they are text, else in base64.
fn payload(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => json!({ "payload": text }),
        Err(_) => json!({ "payload": null, "payload_base64": STANDARD.encode(bytes) }),
    }
}

fn message(kind: DeliveryKind, message: &Message) -> Value {
    let mut value = payload(&message.payload);
    value["topic"] = (&*message.topic).into();
    value["sequence"] = message.sequence.0.into();
    value["kind"] = match kind {
        DeliveryKind::Live => "live",
        DeliveryKind::Retained => "retained",
        DeliveryKind::Replay => "replay",
    }
    .into();
    value["published_at"] = topic_time(message.published_at);
    value["id"] = uuid::Uuid::from_u128(message.id.0).to_string().into();
    value["source"] = message.source.as_deref().into();
    value["content_type"] = message.content_type.as_deref().into();
    value["correlation"] = message.correlation_id.as_deref().into();
    value["reply_to"] = message.reply_to.as_deref().into();
    value
}

/// The name of a server-sent event for a delivery, and its data. A message has no name.
pub(crate) fn delivery(delivery: &Delivery) -> (Option<&'static str>, Value) {
    match delivery {
        Delivery::Message { kind, message: sent } => (None, message(*kind, sent)),
        Delivery::Gap(gap) => (Some("gap"), topic_gap(gap)),
        Delivery::ReplayComplete(done) => {
            let data = json!({ "topic": &*done.topic, "replayed": done.replayed, "latest": done.latest.0 });
            (Some("live"), data)
        }
        Delivery::Warning(warning) => {
            let reason = match warning.reason {
                WarningReason::SlowConsumer => "slow-consumer",
                WarningReason::Burst => "burst",
                WarningReason::TtlExpired => "ttl-expired",
            };
            let data = json!({
                "reason": reason,
                "dropped": warning.dropped,
                "expired": warning.expired,
                "depth": warning.depth,
                "limit": warning.limit,
                "oldest_age_ms": millis(warning.oldest_age),
            });
            (Some("warning"), data)
        }
    }
}

fn topic_gap(gap: &Gap) -> Value {
    json!({
        "topic": &*gap.topic,
        "from": gap.first_missed.0,
        "to": gap.last_missed.0,
        "oldest": gap.oldest_kept.0,
        "reason": gap.reason.as_str(),
    })
}

/// Why a stream has ended.
pub(crate) fn topic_end(ended: Ended) -> ProblemDetails {
    let (status, detail, action) = match ended {
        Ended::TakenOver => {
            let detail = "another stream has taken over this subscription";
            (StatusCode::CONFLICT, detail, "use another subscription for each stream")
        }
        Ended::Unsubscribed => (StatusCode::GONE, "the subscription was ended", "subscribe again"),
        Ended::Paused => (StatusCode::CONFLICT, "the subscription was paused", "resume it"),
        Ended::Stopping => return topic_problem(&TopicRefusal::Stopping),
    };
    ProblemDetails::new(status, ended.as_str(), detail, action)
}

pub(crate) fn topic_problem(no: &TopicRefusal) -> ProblemDetails {
    let (status, action) = match no {
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
        | TopicRefusal::TooManyLastSeen { .. } => (StatusCode::BAD_REQUEST, "correct the request"),
        TopicRefusal::ReadOnly { .. } => (StatusCode::FORBIDDEN, "publish to another topic"),
        TopicRefusal::UnknownSubscription | TopicRefusal::UnknownTopic => {
            (StatusCode::NOT_FOUND, "check what the request refers to")
        }
        TopicRefusal::SubscriptionExists
        | TopicRefusal::RequestExists
        | TopicRefusal::SubscriptionPaused
        | TopicRefusal::TopicInUse
        | TopicRefusal::NoResponders
        | TopicRefusal::DurableRequest
        | TopicRefusal::UnknownRequest => (StatusCode::CONFLICT, "correct the request"),
        TopicRefusal::FiltersFull { .. }
        | TopicRefusal::TooManyTopics { .. }
        | TopicRefusal::TooManySubscriptions { .. }
        | TopicRefusal::RetainedFull { .. }
        | TopicRefusal::TooManyRequests { .. }
        | TopicRefusal::TooManyNamespaces { .. }
        | TopicRefusal::NotWritten
        | TopicRefusal::Stopping => (StatusCode::SERVICE_UNAVAILABLE, "wait, then try again"),
        TopicRefusal::NoAnswer => (StatusCode::GATEWAY_TIMEOUT, "wait, then try again"),
    };
    ProblemDetails::new(status, no.code(), no.to_string(), action)
}

fn topic_time(at: TopicTime) -> Value {
    time(Timestamp(at.0))
}
