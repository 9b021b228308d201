//! `/v1/messages`: the messages of topics as a stream of server-sent events.
//!
//! The id of an event names the subscription and the last number of each topic that the stream has sent. A client that
//! connects again with `Last-Event-ID` gets what it has missed, or an explicit gap.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;
use tenure_hub::TopicAct;
use tenure_hub::topics::{
    Delivery, Ended, Policy, Recovery, Resume, Sequence, Subscribe, SubscriptionHandle, SubscriptionId,
    TopicFilter, fresh_subscription_id,
};
use tokio::time::timeout;

use crate::call::HttpCall;
use crate::codec::{percent, sse};
use crate::problem::ProblemDetails;
use crate::reply::{self, HttpResult};
use crate::translate::{self, topic_end, topic_problem};

/// A comment is sent after this much silence, so that proxies keep the stream open.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How much is taken from the subscription at a time.
const BATCH_MESSAGES: usize = 256;
const BATCH_BYTES: usize = 64 << 10;
/// How many topics an id names. A stream of more topics cannot say where it has stopped in all of them.
const POSITIONS_MAX: usize = 100;

pub(crate) async fn messages(call: HttpCall) -> HttpResult {
    call.query.only(&["topic", "subscription", "group", "policy", "retained", "queue_limit"])?;
    let peer = call.peer()?;
    let filters: Result<Vec<TopicFilter>, _> = call.query.many("topic").map(TopicFilter::parse).collect();
    let filters = filters.map_err(|no| topic_problem(&no))?;
    let last = sse::last_event_id(&call.head.headers).map(Position::parse).transpose()?;
    peer.may(TopicAct::subscribe_to(filters.iter().map(TopicFilter::as_str)))?;
    let (subscription, position, first) = match last {
        Some(last) => resume(&call, filters, last)?,
        None => subscribe(&call, filters)?,
    };
    let revoked = {
        let (hub, grant) = (call.door.hub.clone(), Arc::clone(&peer.principal.grant));
        Box::pin(async move { hub.revoked(&grant).await })
    };
    let listening = Listening { subscription, position, revoked };
    let events = stream::unfold(Some(listening), |listening| async move {
        let mut listening = listening?;
        let (part, goes_on) = listening.next().await;
        Some((part, goes_on.then_some(listening)))
    });
    use futures::StreamExt as _;
    Ok(reply::event_stream(stream::once(async { first }).chain(events)))
}

type OpenedSubscription = (SubscriptionHandle, Position, Bytes);

fn subscribe(call: &HttpCall, filters: Vec<TopicFilter>) -> Result<OpenedSubscription, ProblemDetails> {
    let query = &call.query;
    let id = match query.one("subscription")? {
        None => fresh_subscription_id(),
        Some(id) => SubscriptionId::parse(id).map_err(|no| topic_problem(&no))?,
    };
    let peer = call.peer()?;
    let subscribe = Subscribe {
        client: Arc::clone(&peer.identity),
        retained: query.flag("retained")?,
        group: query.one("group")?.map(Into::into),
        queue_limit: query.number("queue_limit")?,
        policy: policy(call)?,
        ..Subscribe::new(id.clone(), filters)
    };
    let subscribed = call.door.hub.topics().subscribe(&peer.namespace, subscribe);
    let (subscription, info) = subscribed.map_err(|no| topic_problem(&no))?;
    let position = Position::new(id);
    let mut first = sse::RETRY.to_owned();
    sse::append(&mut first, Some("subscribed"), Some(&position.id()), &translate::subscription(&info));
    Ok((subscription, position, first.into()))
}

fn resume(
    call: &HttpCall,
    filters: Vec<TopicFilter>,
    position: Position,
) -> Result<OpenedSubscription, ProblemDetails> {
    let peer = call.peer()?;
    let resume = Resume {
        client: Arc::clone(&peer.identity),
        filters,
        last_seen: position.topics.iter().map(|(topic, last)| (Arc::clone(topic), *last)).collect(),
        group: call.query.one("group")?.map(Into::into),
        queue_limit: call.query.number("queue_limit")?,
        policy: policy(call)?,
        ..Resume::new(position.subscription.clone(), Recovery::Replay)
    };
    let resumed = call.door.hub.topics().resume(&peer.namespace, &resume);
    let (subscription, resumed) = resumed.map_err(|no| topic_problem(&no))?;
    let mut first = sse::RETRY.to_owned();
    let data = json!({
        "subscription": position.subscription.as_str(),
        "created": resumed.created,
        "took_over": resumed.took_over,
        "missed": resumed.missed,
        "lost": resumed.lost,
        // The client may have missed messages that the stream had sent.
        "unsure": resumed.is_unsure || !position.is_whole,
        "restarted": resumed.restarted,
    });
    sse::append(&mut first, Some("resumed"), Some(&position.id()), &data);
    Ok((subscription, position, first.into()))
}

fn policy(call: &HttpCall) -> Result<Option<Policy>, ProblemDetails> {
    let unknown = || ProblemDetails::bad_value("policy is none of drop-oldest, drop-newest and block");
    call.query.one("policy")?.map(|policy| Policy::parse(policy).ok_or_else(unknown)).transpose()
}

struct Listening {
    subscription: SubscriptionHandle,
    position: Position,
    /// Resolves when the key of the listener is revoked.
    revoked: BoxFuture<'static, ()>,
}

impl Listening {
    /// The next part of the stream, and whether more follows.
    async fn next(&mut self) -> (Bytes, bool) {
        let mut taken = Vec::new();
        let took = tokio::select! {
            took = timeout(KEEP_ALIVE, self.subscription.take(BATCH_MESSAGES, BATCH_BYTES, &mut taken)) => took,
            () = &mut self.revoked => {
                return (ended(&ProblemDetails::unauthenticated("this key was revoked or changed")), false);
            }
        };
        match took {
            Err(_) => (Bytes::from_static(sse::KEEP_ALIVE.as_bytes()), true),
            Ok(Ok(())) => (self.told(&taken), true),
            Ok(Err(why)) => (self.ended(why), false),
        }
    }

    fn told(&mut self, taken: &[Delivery]) -> Bytes {
        let mut out = String::new();
        for delivery in taken {
            self.position.pass(delivery);
            let (name, data) = translate::delivery(delivery);
            sse::append(&mut out, name, Some(&self.position.id()), &data);
        }
        out.into()
    }

    fn ended(&self, why: Ended) -> Bytes {
        ended(&topic_end(why))
    }
}

fn ended(problem: &ProblemDetails) -> Bytes {
    let mut out = String::new();
    sse::append(&mut out, Some("end"), None, &problem.json());
    out.into()
}

/// Where a stream is: its subscription, and the last number of each topic.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Position {
    subscription: SubscriptionId,
    topics: BTreeMap<Arc<str>, Sequence>,
    /// Whether all topics that were sent are named.
    is_whole: bool,
}

impl Position {
    fn new(subscription: SubscriptionId) -> Position {
        Position { subscription, topics: BTreeMap::new(), is_whole: true }
    }

    fn pass(&mut self, delivery: &Delivery) {
        let (topic, last) = match delivery {
            Delivery::Message { message, .. } => (&message.topic, message.sequence),
            Delivery::Gap(gap) => (&gap.topic, gap.last_missed),
            Delivery::ReplayComplete(done) => (&done.topic, done.latest),
            Delivery::Warning(_) => return,
        };
        if let Some(before) = self.topics.get_mut(topic) {
            *before = last.max(*before);
        } else if self.topics.len() < POSITIONS_MAX {
            self.topics.insert(Arc::clone(topic), last);
        } else {
            self.is_whole = false;
        }
    }

    /// `SUBSCRIPTION a.b=7 c=9`, with `+` at the end if topics are missing.
    fn id(&self) -> String {
        let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let mut id = encoded(self.subscription.as_str());
        for (topic, last) in &self.topics {
            id += &format!(" {}={}", encoded(topic), last.0);
        }
        if !self.is_whole {
            id += " +";
        }
        id
    }

    fn parse(id: &str) -> Result<Position, ProblemDetails> {
        let bad = || ProblemDetails::bad_value("Last-Event-ID is not one that a stream of messages gave out");
        let mut parts = id.split(' ');
        let subscription = percent(parts.next().unwrap_or_default())?;
        let subscription = SubscriptionId::parse(&subscription).map_err(|no| topic_problem(&no))?;
        let mut position = Position::new(subscription);
        for part in parts {
            if part == "+" {
                position.is_whole = false;
                continue;
            }
            let (topic, last) = part.split_once('=').ok_or_else(bad)?;
            let last = last.parse().map_err(|_| bad())?;
            if position.topics.len() == POSITIONS_MAX {
                return Err(bad());
            }
            position.topics.insert(percent(topic)?.into(), Sequence(last));
        }
        Ok(position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_reads_back_what_it_prints() {
        let mut position = Position::new(SubscriptionId::parse("me too").unwrap());
        assert_eq!(position.id(), "me%20too");
        for number in 0..POSITIONS_MAX + 1 {
            let gap = tenure_hub::topics::Gap {
                topic: format!("a.{number}").into(),
                first_missed: Sequence(1),
                last_missed: Sequence(7),
                oldest_kept: Sequence(8),
                reason: tenure_hub::topics::GapReason::NotKept,
            };
            position.pass(&Delivery::Gap(Box::new(gap)));
        }
        assert_eq!(position.topics.len(), POSITIONS_MAX);
        assert!(!position.is_whole);
        assert_eq!(Position::parse(&position.id()).unwrap(), position);
        for bad in ["", "x a", "x a=b", "x a=-1"] {
            assert!(Position::parse(bad).is_err(), "{bad:?}");
        }
    }
}
