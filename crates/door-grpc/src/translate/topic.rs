//! Converts messages, subscriptions and stream events between the topics and `nexusd.sidecar`.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use prost::Message as _;
use tenure_hub::topics::{
    Delivery, DeliveryKind, Message, Policy, Publish, PublishResult, Recovery, RequestAnswer, Resume,
    Resumed, Sequence, Subscribe, SubscriptionId, SubscriptionInfo, TopicFilter, TopicInfo, TopicRefusal,
    Ttl, WarningReason, fresh_message_id, fresh_subscription_id,
};
use tenure_hub::words;
use tonic::Status;

use super::refusal::status;
use super::topic_refusal::{topic_refusal, topic_status};
use crate::codec::EncodedEvent;
use crate::proto::sidecar as pb;
use crate::proto::tenure::v1;

/// The slot under which a message caches its encoding for this door.
const PROTOCOL: usize = 1;
/// A payload below this size is copied out of the read buffer, so that it does not keep the buffer in memory.
const COPIED_BYTES_MAX: usize = 32 << 10;

/// The fields of `MessageEvent`.
const SUBSCRIPTION_INFO: u32 = 1;
const MESSAGE: u32 = 2;
const RETAINED_MESSAGE: u32 = 3;
const HEARTBEAT: u32 = 4;
const REPLAY_MESSAGE: u32 = 5;
const REPLAY_COMPLETE: u32 = 6;
const BACKPRESSURE_WARNING: u32 = 7;
const GAP: u32 = 8;

pub(crate) fn publish(request: &pb::PublishRequest) -> Result<Publish<'_>, TopicRefusal> {
    let payload = if request.payload.len() < COPIED_BYTES_MAX {
        Bytes::copy_from_slice(&request.payload)
    } else {
        request.payload.clone()
    };
    let ttl = match request.ttl_ms {
        0 => Ttl::Default,
        millis => {
            Ttl::After(Duration::from_millis(u64::try_from(millis).map_err(|_| TopicRefusal::TtlZero)?))
        }
    };
    Ok(Publish {
        content_type: some(&request.content_type),
        correlation_id: some(&request.correlation_id),
        ttl,
        retain: request.retain,
        ..Publish::new(&request.topic, fresh_message_id(), payload)
    })
}

pub(crate) fn published(published: &PublishResult) -> pb::PublishResponse {
    pb::PublishResponse {
        success: true,
        message_id: uuid::Uuid::from_u128(published.id.0).to_string(),
        subscriber_count: published.receivers as i32,
        error_message: String::new(),
        subscribers_dropped: published.dropped as i32,
        subscribers_blocked: published.blocked as i32,
        sequence_number: published.sequence.0 as i64,
    }
}

pub(crate) fn subscribe(request: &pb::SubscribeRequest) -> Result<Subscribe, TopicRefusal> {
    let id = match request.subscription_id.as_str() {
        "" => fresh_subscription_id(),
        id => SubscriptionId::parse(id)?,
    };
    Ok(Subscribe {
        client: request.client_id.as_str().into(),
        retained: request.receive_retained,
        // A negative size means unset.
        queue_limit: u32::try_from(request.max_buffer_size).ok(),
        ..Subscribe::new(id, filters(&request.topics)?)
    })
}

/// The same with the options that only `tenure.v1` has.
pub(crate) fn subscribe_with(request: &v1::TopicSubscription) -> Result<Subscribe, Status> {
    let plain = request.subscription.as_ref().ok_or_else(|| topic_status(&TopicRefusal::NoFilters))?;
    let why = "is none of drop-oldest, drop-newest and block";
    let unknown = || status(&words::Refusal::BadValue { what: "policy", why });
    let policy = match request.policy.as_str() {
        "" => None,
        policy => Some(Policy::parse(policy).ok_or_else(unknown)?),
    };
    let subscribe = subscribe(plain).map_err(|no| topic_status(&no))?;
    Ok(Subscribe { group: some(&request.group), policy, ..subscribe })
}

/// The outcome of one message among many.
pub(crate) fn verdict(published: &Result<PublishResult, TopicRefusal>) -> v1::PublishVerdict {
    let verdict = match published {
        Ok(done) => v1::publish_verdict::Verdict::Published(self::published(done)),
        Err(no) => v1::publish_verdict::Verdict::Refused(topic_refusal(no)),
    };
    v1::PublishVerdict { verdict: Some(verdict) }
}

pub(crate) fn answer(answer: RequestAnswer) -> v1::TopicAnswer {
    let text = |text: Option<Arc<str>>| text.as_deref().unwrap_or_default().to_owned();
    v1::TopicAnswer {
        payload: answer.payload,
        content_type: text(answer.content_type),
        correlation_id: text(answer.correlation_id),
    }
}

/// Refuses unknown recovery modes: the subscriber would miss messages without learning of it.
pub(crate) fn resume(request: &pb::ResumeSubscribeRequest) -> Result<Resume, Status> {
    let recovery = match pb::GapRecoveryMode::try_from(request.gap_recovery_mode) {
        Ok(pb::GapRecoveryMode::GapRecoveryNone) => Recovery::None,
        Ok(pb::GapRecoveryMode::GapRecoveryRetainedOnly) => Recovery::RetainedOnly,
        Ok(pb::GapRecoveryMode::GapRecoveryReplayBuffer) => Recovery::Replay,
        Err(_) => {
            let why = "is a mode that this version of the broker does not know";
            return Err(status(&words::Refusal::BadValue { what: "gap_recovery_mode", why }));
        }
    };
    resume_with(request, recovery).map_err(|no| topic_status(&no))
}

fn resume_with(request: &pb::ResumeSubscribeRequest, recovery: Recovery) -> Result<Resume, TopicRefusal> {
    Ok(Resume {
        client: request.client_id.as_str().into(),
        filters: filters(&request.topics)?,
        retained: request.receive_retained,
        last_seen: last_seen(&request.last_sequence_per_topic),
        last_seen_single: Some(request.last_sequence_number).filter(|last| *last > 0).map(Sequence),
        ..Resume::new(SubscriptionId::parse(&request.subscription_id)?, recovery)
    })
}

pub(crate) fn last_seen<'a>(
    per_topic: impl IntoIterator<Item = (&'a String, &'a i64)>,
) -> Vec<(Arc<str>, Sequence)> {
    // No sequence is below zero.
    let row = |(topic, last): (&String, &i64)| {
        (Arc::from(topic.as_str()), Sequence(u64::try_from(*last).unwrap_or(0)))
    };
    per_topic.into_iter().map(row).collect()
}

/// A topic as a list of topics shows it.
pub(crate) fn topic_info(info: &TopicInfo) -> pb::TopicInfo {
    pb::TopicInfo {
        topic: info.name.to_string(),
        subscriber_count: i32::try_from(info.subscribers).unwrap_or(i32::MAX),
        has_retained: info.retained,
    }
}

/// A subscription with its figures.
pub(crate) fn subscription_status(info: &SubscriptionInfo) -> v1::SubscriptionStatus {
    let stats = &info.stats;
    v1::SubscriptionStatus {
        subscription_id: info.id.to_string(),
        client_id: info.client.to_string(),
        topics: info.filters.iter().map(ToString::to_string).collect(),
        group: info.group.as_deref().unwrap_or_default().to_owned(),
        policy: info.policy.as_str().to_owned(),
        paused_until_ms: info.paused_until.map_or(0, |until| until.0 as i64),
        queue_depth: stats.depth,
        queue_limit: stats.limit,
        high_watermark: stats.high_watermark,
        enqueued: stats.enqueued,
        delivered: stats.delivered,
        dropped: Some(v1::Drops {
            oldest: stats.dropped.oldest,
            newest: stats.dropped.newest,
            ttl: stats.dropped.ttl,
            disconnect: stats.dropped.disconnect,
        }),
        blocked_ms: u64::try_from(stats.blocked.as_millis()).unwrap_or(u64::MAX),
    }
}

fn filters(topics: &[String]) -> Result<Vec<TopicFilter>, TopicRefusal> {
    topics.iter().map(|topic| TopicFilter::parse(topic)).collect()
}

/// The first event of a new subscription.
pub(crate) fn info(info: &SubscriptionInfo, now: i64) -> EncodedEvent {
    encoded(
        SUBSCRIPTION_INFO,
        &pb::SubscriptionInfo {
            subscription_id: info.id.to_string(),
            topics: info.filters.iter().map(ToString::to_string).collect(),
            timestamp_ms: now,
            gap_detected: false,
            missed_message_count: 0,
            replay_started: false,
            missed_in_all: 0,
            broker_restarted: false,
        },
    )
}

/// The first event of a resumed subscription. Replayed messages are not missing; without a replay, missed messages are
/// not delivered.
pub(crate) fn resumed(id: &str, resumed: &Resumed, replays: bool, now: i64) -> EncodedEvent {
    let known = Some(resumed.lost).filter(|_| !resumed.is_unsure);
    let will_not_come = if replays { known } else { resumed.missed };
    encoded(
        SUBSCRIPTION_INFO,
        &pb::SubscriptionInfo {
            subscription_id: id.to_owned(),
            topics: resumed.filters.iter().map(ToString::to_string).collect(),
            timestamp_ms: now,
            gap_detected: will_not_come != Some(0),
            missed_message_count: will_not_come
                .map_or(-1, |missed| i32::try_from(missed).unwrap_or(i32::MAX)),
            replay_started: resumed.replay_started,
            missed_in_all: resumed.missed.map_or(-1, |missed| missed as i64),
            broker_restarted: resumed.restarted,
        },
    )
}

pub(crate) fn heartbeat(now: i64) -> EncodedEvent {
    encoded(HEARTBEAT, &pb::Heartbeat { timestamp_ms: now })
}

/// Converts any delivery to an event of the stream.
pub(crate) fn delivery(delivery: &Delivery, subscription: &SubscriptionId) -> EncodedEvent {
    match delivery {
        Delivery::Message { kind, message } => {
            let field = match kind {
                DeliveryKind::Live => MESSAGE,
                DeliveryKind::Retained => RETAINED_MESSAGE,
                DeliveryKind::Replay => REPLAY_MESSAGE,
            };
            EncodedEvent { field, message: message.encoded(PROTOCOL, encode_message) }
        }
        Delivery::Gap(gap) => encoded(
            GAP,
            &pb::Gap {
                topic: gap.topic.to_string(),
                first_missed: gap.first_missed.0 as i64,
                last_missed: gap.last_missed.0 as i64,
                oldest_kept: gap.oldest_kept.0 as i64,
                reason: gap.reason.as_str().to_owned(),
            },
        ),
        Delivery::ReplayComplete(done) => encoded(
            REPLAY_COMPLETE,
            &pb::ReplayComplete {
                topic: done.topic.to_string(),
                replayed_count: i32::try_from(done.replayed).unwrap_or(i32::MAX),
                latest_sequence: done.latest.0 as i64,
                subscription_id: subscription.to_string(),
            },
        ),
        Delivery::Warning(warning) => encoded(
            BACKPRESSURE_WARNING,
            &pb::BackpressureWarning {
                messages_dropped: warning.dropped,
                queue_depth: u64::from(warning.depth),
                queue_limit: u64::from(warning.limit),
                reason: reason(warning.reason).to_owned(),
                messages_expired: warning.expired,
                oldest_message_age_ms: i64::try_from(warning.oldest_age.as_millis()).unwrap_or(i64::MAX),
            },
        ),
    }
}

fn encode_message(message: &Message) -> Bytes {
    let text = |text: &Option<Arc<str>>| text.as_deref().unwrap_or_default().to_owned();
    let message = pb::Message {
        message_id: uuid::Uuid::from_u128(message.id.0).to_string(),
        topic: message.topic.to_string(),
        payload: message.payload.clone(),
        content_type: text(&message.content_type),
        timestamp_ms: message.published_at.0 as i64,
        source_node_id: text(&message.source),
        correlation_id: text(&message.correlation_id),
        sequence_number: message.sequence.0 as i64,
        reply_to: text(&message.reply_to),
    };
    message.encode_to_vec().into()
}

fn reason(reason: WarningReason) -> &'static str {
    match reason {
        WarningReason::SlowConsumer => "slow_consumer",
        WarningReason::Burst => "burst",
        WarningReason::TtlExpired => "ttl_expired",
    }
}

fn encoded(field: u32, message: &impl prost::Message) -> EncodedEvent {
    EncodedEvent { field, message: message.encode_to_vec().into() }
}

fn some(text: &str) -> Option<Arc<str>> {
    if text.is_empty() { None } else { Some(text.into()) }
}
