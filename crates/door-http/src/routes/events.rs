//! `/v1/events`: the numbered events of tasks, queues, workers and limits, as a page of JSON or as a stream.

use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use serde_json::{Value, json};
use tenure_hub::words::EventFilter;
use tokio::time::{Instant, timeout, timeout_at};

use crate::call::HttpCall;
use crate::codec::sse;
use crate::problem::ProblemDetails;
use crate::reply::{self, HttpResult};
use crate::session::{EventListener, EventWatch, WatchItem};
use crate::translate;

/// A comment is sent after this much silence, so that proxies keep the stream open.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How many events a page has, unless the client says otherwise, and at most.
const PAGE: usize = 100;
const PAGE_MAX: usize = 1_000;

pub(crate) async fn events(call: HttpCall) -> HttpResult {
    call.query.only(&["task", "queue", "submitter", "worker", "kind", "from", "limit", "wait"])?;
    let filter = filter(&call)?;
    if sse::is_wanted(&call.head.headers) { follow(&call, filter).await } else { page(&call, filter).await }
}

fn filter(call: &HttpCall) -> Result<EventFilter, ProblemDetails> {
    let query = &call.query;
    let task = query.one("task")?.map(|text| translate::task_id("task", text)).transpose();
    let filter = EventFilter {
        task: task.map_err(|no| translate::problem(&no))?,
        queue: query.one("queue")?.map(Into::into),
        submitter: query.one("submitter")?.map(Into::into),
        worker: query.one("worker")?.map(Into::into),
        kinds: query.many("kind").flat_map(|kinds| kinds.split(',')).map(Into::into).collect(),
    };
    filter.check().map_err(|no| translate::problem(&no))?;
    Ok(filter)
}

/// One page: past events, or the first ones that come within `wait`.
async fn page(call: &HttpCall, filter: EventFilter) -> HttpResult {
    let limit = call.page_limit(PAGE, PAGE_MAX)?;
    // Events are numbered from 1: nothing is missing before it.
    let from = call.query.number("from")?.unwrap_or(1).max(1);
    let deadline = Instant::now() + call.wait(Duration::ZERO)?;
    let mut watching = EventWatch::begin(call.peer()?, filter, Some(from)).await?;
    let (mut events, mut gap, mut next) = (Vec::new(), Value::Null, from);
    let mut is_live = false;
    while events.len() < limit {
        let watched = match watching.next_now() {
            Some(watched) => watched,
            // Past events are read to their end; the first live one is waited for.
            None if is_live && !events.is_empty() => break,
            None if is_live => match timeout_at(deadline, watching.next()).await {
                Ok(watched) => watched,
                Err(_) => break,
            },
            None => watching.next().await,
        };
        match watched.map_err(|no| translate::problem(&no))? {
            WatchItem::Event(event) => {
                next = event.seq + 1;
                events.push(translate::event(&event));
            }
            WatchItem::Gap { from, oldest } => {
                gap = translate::gap(from, oldest);
                next = oldest;
            }
            WatchItem::Live { next: first } => {
                is_live = true;
                next = next.max(first);
            }
        }
    }
    Ok(reply::json(&json!({ "events": events, "next": next, "gap": gap })))
}

/// The stream: from the event after the last one that the client has, or from now on.
async fn follow(call: &HttpCall, filter: EventFilter) -> HttpResult {
    let last = match sse::last_event_id(&call.head.headers) {
        None => None,
        Some(id) => {
            Some(id.parse::<u64>().map_err(|_| ProblemDetails::bad_value("Last-Event-ID is not a number"))?)
        }
    };
    let asked: Option<u64> = call.query.number("from")?;
    let from = last.map(|last| last.saturating_add(1)).or(asked).map(|from| from.max(1));
    let listener = EventListener::begin(call.peer()?, &call.door.feeds, filter, from, append).await?;
    let first = Bytes::from_static(sse::RETRY.as_bytes());
    let events = stream::unfold(Some(listener), |listener| async move {
        let mut listener = listener?;
        match timeout(KEEP_ALIVE, listener.next()).await {
            Err(_) => Some((Bytes::from_static(sse::KEEP_ALIVE.as_bytes()), Some(listener))),
            Ok(Ok(events)) => Some((events, Some(listener))),
            Ok(Err(why)) => {
                let mut out = String::new();
                sse::append(&mut out, Some("end"), None, &translate::problem(&why).json());
                Some((Bytes::from(out), None))
            }
        }
    });
    use futures::StreamExt as _;
    Ok(reply::event_stream(stream::once(async { first }).chain(events)))
}

/// How an item of a watch stands in the stream.
fn append(out: &mut String, item: &WatchItem) {
    match item {
        WatchItem::Event(event) => {
            sse::append(out, None, Some(&event.seq.to_string()), &translate::event(event));
        }
        WatchItem::Gap { from, oldest } => {
            let id = oldest.saturating_sub(1).to_string();
            sse::append(out, Some("gap"), Some(&id), &translate::gap(*from, *oldest));
        }
        // Its id is that of the last past event, so that a client that has seen no event yet can resume as well.
        WatchItem::Live { next } => {
            let id = next.saturating_sub(1).to_string();
            sse::append(out, Some("live"), Some(&id), &json!({ "next": next }));
        }
    }
}
