//! `/events`: the log of events, the newest first, and `/live/events`, which adds to it as things happen.

use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use maud::{Markup, html};
use serde_json::json;
use tenure_hub::HubRefusal;
use tenure_hub::words::{Answer, EventFilter, Query};
use tokio::time::timeout;

use super::format::escaped;
use super::frame::{self, Section};
use super::{event_rows, recent};
use crate::call::HttpCall;
use crate::codec::sse;
use crate::problem::ProblemDetails;
use crate::reply::{self, HttpResult};
use crate::session::{EventWatch, WatchItem};
use crate::translate;

const SHOWN: usize = 100;
/// A comment is sent after this much silence, so that proxies keep the stream open.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How many rows are sent at a time.
const ROWS_AT_ONCE: usize = 200;
const FIELDS: [(&str, &str); 4] = [
    ("kind", "Kinds, such as crashed,failed"),
    ("queue", "Queue"),
    ("worker", "Worker"),
    ("task", "Id of a task"),
];

pub(super) async fn page(call: HttpCall) -> HttpResult {
    call.query.only(&["kind", "queue", "worker", "task"])?;
    let filter = filter(&call)?;
    let Answer::Counts(counts) = call.hub()?.query(Query::Counts).await? else {
        return Err(ProblemDetails::unexpected());
    };
    let past = recent::last(call.peer()?, filter, counts.last_event, SHOWN).await?;
    let stream = stream_path(&call, past.next)?;
    let content = html! {
        div.head {
            h1 { "Events" }
            div.buttons {
                a.button href="/hooks" { "Hooks" }
                button #pause-log type="button" aria-pressed="false" { "Pause" }
            }
        }
        form.filters action="/events" {
            @for (name, label) in FIELDS {
                div.field {
                    label for={ "filter-" (name) } { (label) }
                    input id={ "filter-" (name) } name=(name) value=[call.query.one(name)?] maxlength="500" autocomplete="off";
                }
            }
            div.buttons {
                button.primary type="submit" { "Filter" }
                a.button href="/events" { "Clear" }
            }
        }
        section.card aria-label="Log" {
            @if past.is_cut { p.muted { "The log is long: older events that match may be missing here." } }
            @if past.events.is_empty() { p #no-events.empty { "No event matches yet. New ones appear here." } }
            ol #event-log.events data-stream=(stream) { @for event in &past.events { (event_rows::row(event)) } }
        }
    };
    frame::page(&call, Section::Events, "Events", &content)
}

fn filter(call: &HttpCall) -> Result<EventFilter, ProblemDetails> {
    let query = &call.query;
    let task = query.one("task")?.map(|text| translate::task_id("task", text)).transpose();
    let kinds =
        query.one("kind")?.unwrap_or_default().split(',').map(str::trim).filter(|kind| !kind.is_empty());
    let filter = EventFilter {
        task: task.map_err(|no| translate::problem(&no))?,
        queue: query.one("queue")?.map(Into::into),
        worker: query.one("worker")?.map(Into::into),
        kinds: kinds.map(Into::into).collect(),
        ..EventFilter::default()
    };
    filter.check().map_err(|no| translate::problem(&no))?;
    Ok(filter)
}

/// Where the page hears what happens next, with the same filter.
fn stream_path(call: &HttpCall, next: u64) -> Result<String, ProblemDetails> {
    let mut path = format!("/live/events?from={next}");
    for (name, _) in FIELDS {
        if let Some(value) = call.query.one(name)? {
            path += &format!("&{name}={}", escaped(value));
        }
    }
    Ok(path)
}

/// Rows as they are to be shown, so that only the server makes HTML.
pub(super) async fn stream(call: HttpCall) -> HttpResult {
    call.query.only(&["kind", "queue", "worker", "task", "from"])?;
    let filter = filter(&call)?;
    let last: Option<u64> = sse::last_event_id(&call.head.headers).and_then(|id| id.parse().ok());
    let from: Option<u64> = last.map(|last| last.saturating_add(1)).or(call.query.number("from")?);
    let watch = EventWatch::begin(call.peer()?, filter, from.map(|from| from.max(1))).await?;
    let first = Bytes::from_static(sse::RETRY.as_bytes());
    let parts = stream::unfold(Some(watch), |watch| async move {
        let mut watch = watch?;
        match timeout(KEEP_ALIVE, watch.next()).await {
            Err(_) => Some((Bytes::from_static(sse::KEEP_ALIVE.as_bytes()), Some(watch))),
            Ok(item) => {
                let mut out = String::new();
                let goes_on = gather(&mut out, item, &mut watch);
                Some((Bytes::from(out), goes_on.then_some(watch)))
            }
        }
    });
    use futures::StreamExt as _;
    Ok(reply::event_stream(stream::once(async { first }).chain(parts)))
}

/// Appends this and what has arrived. Returns whether the stream goes on.
fn gather(out: &mut String, first: Result<WatchItem, HubRefusal>, watch: &mut EventWatch) -> bool {
    let mut rows: Vec<Markup> = Vec::new();
    let mut last = None;
    let mut item = Some(first);
    let mut goes_on = true;
    while let Some(one) = item {
        match one {
            Ok(WatchItem::Event(event)) => {
                last = Some(event.seq);
                rows.push(event_rows::row(&event));
            }
            Ok(WatchItem::Gap { from, oldest }) => {
                last = Some(oldest.saturating_sub(1));
                rows.push(html! {
                    li.event data-level="warn" { span.says {
                        @if oldest < from { "The log ends before event " (from) ". It begins again with event " (oldest) "." }
                        @else { "The events from " (from) " to " (oldest - 1) " are gone." }
                    } }
                });
            }
            Ok(WatchItem::Live { next }) => last = Some(next.saturating_sub(1)),
            Err(no) => {
                sse::append(out, Some("end"), None, &translate::problem(&no).json());
                goes_on = false;
                break;
            }
        }
        item = if rows.len() < ROWS_AT_ONCE { watch.next_now() } else { None };
    }
    // The newest is at the top.
    let html: String = rows.iter().rev().map(|row| row.0.as_str()).collect();
    let id = last.map(|last| last.to_string());
    if id.is_some() {
        sse::append(out, Some("rows"), id.as_deref(), &json!({ "html": html }));
    }
    goes_on
}
