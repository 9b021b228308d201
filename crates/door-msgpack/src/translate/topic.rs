//! Topics, in both directions.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tenure_hub::topics::{
    Ended, Gap, GapReason, Message, MessageId, PAGE_MAX, Policy, Publish, PublishResult, Recovery,
    ReplayComplete, RequestAnswer, Resume, Resumed, Sequence, Subscribe, SubscriptionId, SubscriptionInfo,
    TopicFilter, TopicInfo, TopicPage, TopicRefusal, Ttl, Warning, WarningReason, fresh_message_id,
    fresh_subscription_id,
};
use tenure_hub::words::{self, Name};
use tenure_wire::topic::{self as wire, EndedWhy, NewMessage, TopicRequest, TopicsQuery};
use tenure_wire::verdict::Verdict;
use tenure_wire::{Code, Notice, Reply, Timestamp};

use super::word::span;

/// A payload up to this size is copied out of the read buffer, so that it does not keep the buffer in memory.
const COPIED_BYTES_MAX: usize = 16 << 10;

pub(crate) fn publish<'a>(message: &'a NewMessage, identity: &Name) -> Publish<'a> {
    Publish {
        topic: &message.topic,
        id: message.id.map_or_else(fresh_message_id, |id| MessageId(u128::from_be_bytes(id.0))),
        payload: own(&message.payload),
        content_type: message.content_type.clone(),
        correlation_id: message.correlation.clone(),
        source: Some(message.source.clone().unwrap_or_else(|| identity.clone())),
        ttl: message.ttl_ms.map_or(Ttl::Default, |millis| Ttl::After(Duration::from_millis(millis))),
        retain: message.retain,
    }
}

pub(crate) fn request<'a>(request: &'a TopicRequest, identity: &Name) -> Publish<'a> {
    Publish {
        topic: &request.topic,
        id: fresh_message_id(),
        payload: own(&request.payload),
        content_type: request.content_type.clone(),
        correlation_id: request.correlation.clone(),
        source: Some(request.source.clone().unwrap_or_else(|| identity.clone())),
        ttl: Ttl::Default,
        retain: false,
    }
}

fn own(payload: &Bytes) -> Bytes {
    if payload.len() <= COPIED_BYTES_MAX { Bytes::copy_from_slice(payload) } else { payload.clone() }
}

/// A new subscription, or a resumed one.
pub(crate) enum SubscriptionStart {
    New(Subscribe),
    Again(Resume),
}

/// The options of a subscription that the broker must understand.
#[derive(Clone, Copy)]
pub(crate) struct SubscriptionOptions {
    policy: Option<Policy>,
    recovery: Option<Recovery>,
}

pub(crate) fn subscription_options(
    subscribe: &wire::Subscribe,
) -> Result<SubscriptionOptions, words::Refusal> {
    Ok(SubscriptionOptions {
        policy: subscribe.policy.as_ref().map(policy).transpose()?,
        recovery: subscribe.recovery.as_ref().map(recovery).transpose()?,
    })
}

pub(crate) fn subscription(
    subscribe: wire::Subscribe,
    how: SubscriptionOptions,
    identity: &Name,
) -> Result<SubscriptionStart, TopicRefusal> {
    let id = match &subscribe.id {
        Some(id) => SubscriptionId::parse(id)?,
        None => fresh_subscription_id(),
    };
    let filters =
        subscribe.topics.iter().map(|topic| TopicFilter::parse(topic)).collect::<Result<Vec<_>, _>>()?;
    let queue_limit = Some(subscribe.queue).filter(|limit| *limit > 0);
    let SubscriptionOptions { policy, recovery } = how;
    let Some(recovery) = recovery else {
        return Ok(SubscriptionStart::New(Subscribe {
            client: identity.clone(),
            group: subscribe.group,
            retained: subscribe.retained,
            queue_limit,
            policy,
            ..Subscribe::new(id, filters)
        }));
    };
    Ok(SubscriptionStart::Again(Resume {
        client: identity.clone(),
        filters,
        retained: subscribe.retained,
        last_seen: last_seen(subscribe.last_seen),
        last_seen_single: subscribe.last.map(Sequence),
        queue_limit,
        group: subscribe.group,
        policy,
        ..Resume::new(id, recovery)
    }))
}

pub(crate) fn last_seen(rows: Vec<wire::LastSeen>) -> Vec<(Name, Sequence)> {
    rows.into_iter().map(|last| (last.topic, Sequence(last.sequence))).collect()
}

fn policy(policy: &wire::Policy) -> Result<Policy, words::Refusal> {
    match policy {
        wire::Policy::DropOldest => Ok(Policy::DropOldest),
        wire::Policy::DropNewest => Ok(Policy::DropNewest),
        wire::Policy::Block => Ok(Policy::Block),
        wire::Policy::Other(_) => Err(words::Refusal::BadValue {
            what: "policy",
            why: "is none of drop-oldest, drop-newest and block",
        }),
    }
}

fn recovery(recovery: &wire::Recovery) -> Result<Recovery, words::Refusal> {
    match recovery {
        wire::Recovery::None => Ok(Recovery::None),
        wire::Recovery::Retained => Ok(Recovery::RetainedOnly),
        wire::Recovery::Replay => Ok(Recovery::Replay),
        wire::Recovery::Other(_) => {
            Err(words::Refusal::BadValue { what: "recovery", why: "is none of none, retained and replay" })
        }
    }
}

pub(crate) fn subscribed(info: &SubscriptionInfo) -> Reply {
    Reply::Subscribed(Box::new(wire::Subscribed {
        id: info.id.as_str().into(),
        topics: names(&info.filters),
        created: true,
        took_over: false,
        missed: Some(0),
        lost: 0,
        unsure: false,
        restarted: false,
        replays: false,
    }))
}

pub(crate) fn resumed(id: &SubscriptionId, resumed: &Resumed) -> Reply {
    Reply::Subscribed(Box::new(wire::Subscribed {
        id: id.as_str().into(),
        topics: names(&resumed.filters),
        created: resumed.created,
        took_over: resumed.took_over,
        missed: resumed.missed,
        lost: resumed.lost,
        unsure: resumed.is_unsure,
        restarted: resumed.restarted,
        replays: resumed.replay_started,
    }))
}

pub(crate) fn subscription_paused(kept: Duration) -> Reply {
    Reply::SubscriptionPaused(wire::SubscriptionPaused { kept_ms: span(kept) })
}

pub(crate) fn published(results: impl IntoIterator<Item = Result<PublishResult, TopicRefusal>>) -> Reply {
    let verdict = |result: Result<PublishResult, TopicRefusal>| {
        Verdict(result.map(row_of).map_err(|no| topic_refusal(&no)))
    };
    Reply::Published(wire::PublishedReply { messages: results.into_iter().map(verdict).collect() })
}

fn row_of(published: PublishResult) -> wire::Published {
    wire::Published {
        sequence: published.sequence.0,
        receivers: published.receivers,
        dropped: published.dropped,
        blocked: published.blocked,
        id: Some(id(published.id)),
    }
}

pub(crate) fn responded(answer: RequestAnswer) -> Reply {
    Reply::Response(Box::new(wire::TopicAnswer {
        payload: answer.payload,
        content_type: answer.content_type,
        correlation: answer.correlation_id,
        source: answer.source,
        id: Some(id(answer.id)),
    }))
}

pub(crate) fn message(message: &Message) -> wire::Message {
    wire::Message {
        topic: Arc::clone(&message.topic),
        sequence: message.sequence.0,
        payload: message.payload.clone(),
        published_at: Timestamp(message.published_at.0),
        id: Some(id(message.id)),
        source: message.source.clone(),
        content_type: message.content_type.clone(),
        correlation: message.correlation_id.clone(),
        reply_to: message.reply_to.clone(),
    }
}

pub(crate) fn topic_gap(subscription: u64, gap: &Gap) -> Notice {
    Notice::TopicGap(wire::TopicGap {
        subscription,
        topic: Arc::clone(&gap.topic),
        first_missed: gap.first_missed.0,
        last_missed: gap.last_missed.0,
        oldest_kept: gap.oldest_kept.0,
        reason: Some(match gap.reason {
            GapReason::NotKept => wire::GapReason::NotKept,
            GapReason::QueueFull => wire::GapReason::QueueFull,
            GapReason::Restarted => wire::GapReason::Restarted,
            GapReason::Crashed => wire::GapReason::Crashed,
        }),
    })
}

pub(crate) fn replay_complete(subscription: u64, complete: &ReplayComplete) -> Notice {
    Notice::ReplayComplete(wire::ReplayComplete {
        subscription,
        topic: Arc::clone(&complete.topic),
        replayed: complete.replayed,
        latest: complete.latest.0,
    })
}

pub(crate) fn warning(subscription: u64, warning: &Warning) -> Notice {
    Notice::Warning(wire::Warning {
        subscription,
        reason: match warning.reason {
            WarningReason::SlowConsumer => wire::WarningReason::SlowConsumer,
            WarningReason::Burst => wire::WarningReason::Burst,
            WarningReason::TtlExpired => wire::WarningReason::TtlExpired,
        },
        dropped: warning.dropped,
        expired: warning.expired,
        depth: warning.depth,
        limit: warning.limit,
        oldest_age_ms: span(warning.oldest_age),
    })
}

pub(crate) fn subscription_ended(subscription: u64, why: Ended) -> Notice {
    let why = match why {
        Ended::TakenOver => EndedWhy::TakenOver,
        Ended::Unsubscribed => EndedWhy::Unsubscribed,
        Ended::Paused => EndedWhy::Paused,
        Ended::Stopping => EndedWhy::Stopping,
    };
    Notice::SubscriptionEnded(wire::SubscriptionEnded { subscription, why })
}

pub(crate) fn topics_query(query: &TopicsQuery) -> Result<(usize, usize, Option<TopicFilter>), TopicRefusal> {
    let filter = query.pattern.as_deref().map(TopicFilter::parse).transpose()?;
    Ok((query.from as usize, (query.limit as usize).min(PAGE_MAX), filter))
}

pub(crate) fn topic_list(page: TopicPage<TopicInfo>) -> Reply {
    let info = |topic: TopicInfo| wire::TopicInfo {
        topic: topic.name,
        sequence: topic.sequence.0,
        kept: topic.kept as u64,
        oldest_kept: topic.oldest_kept.map(|oldest| oldest.0),
        retained: topic.retained,
        subscribers: topic.subscribers as u64,
    };
    Reply::Topics(wire::TopicList {
        topics: page.items.into_iter().map(info).collect(),
        next: page.next.map(|next| next as u64),
    })
}

pub(crate) fn subscription_list(page: TopicPage<SubscriptionInfo>) -> Reply {
    let info = |subscription: SubscriptionInfo| {
        let stats = subscription.stats;
        wire::SubscriptionInfo {
            id: subscription.id.as_str().into(),
            client: (*subscription.client).into(),
            topics: names(&subscription.filters),
            group: subscription.group,
            policy: match subscription.policy {
                Policy::DropOldest => wire::Policy::DropOldest,
                Policy::DropNewest => wire::Policy::DropNewest,
                Policy::Block => wire::Policy::Block,
            },
            paused_until: subscription.paused_until.map(|until| Timestamp(until.0)),
            depth: stats.depth,
            limit: stats.limit,
            high_watermark: stats.high_watermark,
            enqueued: stats.enqueued,
            delivered: stats.delivered,
            dropped_oldest: stats.dropped.oldest,
            dropped_newest: stats.dropped.newest,
            dropped_ttl: stats.dropped.ttl,
            dropped_disconnect: stats.dropped.disconnect,
            blocked_ms: span(stats.blocked),
        }
    };
    Reply::Subscriptions(wire::SubscriptionList {
        subscriptions: page.items.into_iter().map(info).collect(),
        next: page.next.map(|next| next as u64),
    })
}

/// The codes of topics are the same through every door, and the message contains the numbers.
pub(crate) fn topic_refusal(refusal: &TopicRefusal) -> tenure_wire::Refusal {
    tenure_wire::Refusal::new(Code::from(refusal.code()), refusal.to_string())
}

fn names(filters: &[TopicFilter]) -> Vec<Name> {
    filters.iter().map(|filter| filter.as_str().into()).collect()
}

fn id(id: MessageId) -> wire::MessageId {
    tenure_wire::TaskId(id.0.to_be_bytes())
}
