//! `/v1/topics` and `/v1/subscriptions`: publish, request, list. Streams of messages are in `messages.rs`.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use serde_json::{Value, json};
use tenure_hub::TopicAct;
use tenure_hub::limits::BODY_BYTES_MAX;
use tenure_hub::topics::{
    PAGE_MAX, Publish, SubscriptionId, TopicFilter, TopicRefusal, Ttl, fresh_message_id,
};

use crate::call::HttpCall;
use crate::problem::ProblemDetails;
use crate::reply::{self, HttpResult};
use crate::translate::{self, topic_problem};

/// How many topics or subscriptions a page has, unless the client says otherwise.
const PAGE: usize = 100;
/// How long a request waits for its answer unless it says otherwise.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
const CORRELATION: HeaderName = HeaderName::from_static("tenure-correlation");

/// Publishes the body of the request.
pub(crate) async fn publish(mut call: HttpCall) -> HttpResult {
    call.query.only(&["retain", "ttl_ms", "correlation", "source"])?;
    call.peer()?.may(TopicAct::Publish)?;
    let payload = copied(&call.bytes(BODY_BYTES_MAX).await?);
    let peer = call.peer()?;
    let publish = message(&call, payload)?;
    let published = call.door.hub.topics().publish(&peer.namespace, publish).await;
    let published = published.map_err(|no| topic_problem(&no))?;
    Ok(reply::json(&translate::published(&published)))
}

/// Publishes a request and waits for its first answer.
pub(crate) async fn request(mut call: HttpCall) -> HttpResult {
    call.query.only(&["correlation", "source", "wait"])?;
    call.peer()?.may(TopicAct::Request)?;
    let payload = copied(&call.bytes(BODY_BYTES_MAX).await?);
    let (peer, within) = (call.peer()?, call.wait(ANSWER_WITHIN)?);
    let publish = message(&call, payload)?;
    let answered = call.door.hub.topics().request(&peer.namespace, publish, within).await;
    let answer = answered.map_err(|no| topic_problem(&no))?;
    let mut response = reply::bytes(answer.payload);
    let mut set = |name: HeaderName, text: Option<&str>| {
        if let Some(value) = text.and_then(|text| HeaderValue::from_str(text).ok()) {
            response.headers_mut().insert(name, value);
        }
    };
    set(CORRELATION, answer.correlation_id.as_deref());
    Ok(response)
}

fn message(call: &HttpCall, payload: Bytes) -> Result<Publish<'_>, ProblemDetails> {
    let ttl = match call.query.number("ttl_ms")? {
        None => Ttl::Default,
        Some(0) => return Err(topic_problem(&TopicRefusal::TtlZero)),
        Some(millis) => Ttl::After(Duration::from_millis(millis)),
    };
    let content_type = call.head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    Ok(Publish {
        content_type: content_type.map(Into::into),
        correlation_id: call.query.one("correlation")?.map(Into::into),
        source: call.query.one("source")?.map(Into::into),
        ttl,
        retain: call.query.flag("retain")?,
        ..Publish::new(call.path.get("topic")?, fresh_message_id(), payload)
    })
}

/// A message that is kept must not keep the read buffer of its connection.
fn copied(payload: &Bytes) -> Bytes {
    Bytes::copy_from_slice(payload)
}

pub(crate) async fn list(call: HttpCall) -> HttpResult {
    call.query.only(&["match", "next", "limit"])?;
    let peer = call.peer()?;
    peer.may(TopicAct::List)?;
    let filter = call.query.one("match")?.map(TopicFilter::parse).transpose();
    let filter = filter.map_err(|no| topic_problem(&no))?;
    let (from, limit) = page(&call)?;
    let page = call.door.hub.topics().topics(&peer.namespace, from, limit, filter.as_ref());
    let topics: Vec<Value> = page.items.iter().map(translate::topic).collect();
    Ok(reply::json(&json!({ "topics": topics, "next": page.next })))
}

pub(crate) async fn show(call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    let peer = call.peer()?;
    peer.may(TopicAct::List)?;
    let found = call.door.hub.topics().topic(&peer.namespace, call.path.get("topic")?);
    let found = found.ok_or_else(|| topic_problem(&TopicRefusal::UnknownTopic))?;
    Ok(reply::json(&translate::topic(&found)))
}

pub(crate) async fn subscriptions(call: HttpCall) -> HttpResult {
    call.query.only(&["next", "limit"])?;
    let peer = call.peer()?;
    peer.may(TopicAct::List)?;
    let (from, limit) = page(&call)?;
    let page = call.door.hub.topics().subscriptions(&peer.namespace, from, limit);
    let subscriptions: Vec<Value> = page.items.iter().map(translate::subscription).collect();
    Ok(reply::json(&json!({ "subscriptions": subscriptions, "next": page.next })))
}

/// Ends a subscription; its stream, if it has one, ends as well.
pub(crate) async fn unsubscribe(call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    let peer = call.peer()?;
    peer.may(TopicAct::ChangeSubscription)?;
    let id = SubscriptionId::parse(call.path.get("subscription")?).map_err(|no| topic_problem(&no))?;
    call.door.hub.topics().unsubscribe(&peer.namespace, &id).map_err(|no| topic_problem(&no))?;
    Ok(reply::no_content())
}

fn page(call: &HttpCall) -> Result<(usize, usize), ProblemDetails> {
    let limit = call.page_limit(PAGE, PAGE_MAX)?;
    Ok((call.query.number("next")?.unwrap_or(0), limit))
}
