//! `/live`: what every open page listens to. Each second the counts of the namespace and the figures for the charts,
//! and at once the notices that a person should read: crashes, lost workers, queues without a worker.

use std::sync::Arc;

use bytes::Bytes;
use futures::stream;
use serde_json::{Value, json};
use tenure_hub::words::{Event, EventData, EventFilter, Name};
use tokio::sync::watch;

use super::format::{capital, counted, escaped, short, span, why_lost};
use super::sample_history::SampleHistory;
use crate::call::HttpCall;
use crate::codec::sse;
use crate::problem::ProblemDetails;
use crate::reply::{self, HttpResult};
use crate::session::{EventWatch, HubAccess, WatchItem};
use crate::translate;

/// The kinds of events that become notices.
const KINDS: [&str; 6] =
    ["crashed", "worker-lost", "worker-returned", "worker-quarantined", "queue-unserved", "queue-backlog"];

pub(super) async fn stream(call: HttpCall) -> HttpResult {
    call.query.only(&["from"])?;
    let last: Option<u64> = sse::last_event_id(&call.head.headers).and_then(|id| id.parse().ok());
    let from = last.map(|last| last.saturating_add(1)).or(call.query.number("from")?);
    let kinds = KINDS.iter().map(|kind| (*kind).into()).collect();
    let filter = EventFilter { kinds, ..EventFilter::default() };
    let watching = EventWatch::begin(call.peer()?, filter, from.map(|from: u64| from.max(1))).await?;
    let history = call.door.samples.of(&call.peer()?.principal.grant);
    let listening = LiveStream {
        namespace: call.peer()?.namespace.clone(),
        hub: call.hub()?,
        watching,
        samples: history.listen(&call.door.hub),
        history,
        sent: 0,
    };
    let first = Bytes::from_static(sse::RETRY.as_bytes());
    let parts = stream::unfold(Some(listening), |listening| async move {
        let mut listening = listening?;
        match listening.next().await {
            Ok(part) => Some((part, Some(listening))),
            Err(problem) => {
                let mut out = String::new();
                sse::append(&mut out, Some("end"), None, &problem.json());
                Some((Bytes::from(out), None))
            }
        }
    });
    use futures::StreamExt as _;
    Ok(reply::event_stream(stream::once(async { first }).chain(parts)))
}

struct LiveStream {
    namespace: Name,
    hub: HubAccess,
    watching: EventWatch,
    history: Arc<SampleHistory>,
    samples: watch::Receiver<u64>,
    /// The last sample that was sent.
    sent: u64,
}

impl LiveStream {
    async fn next(&mut self) -> Result<Bytes, ProblemDetails> {
        let mut out = String::new();
        tokio::select! {
            watched = self.watching.next() => {
                append(&mut out, &watched.map_err(|no| translate::problem(&no))?);
                while out.len() < 64 << 10 && let Some(more) = self.watching.next_now() {
                    append(&mut out, &more.map_err(|no| translate::problem(&no))?);
                }
            }
            changed = self.samples.changed() => {
                changed.map_err(|_| ProblemDetails::unexpected())?;
                let (part, sent) = self.history.part(&self.namespace, self.sent, &mut self.hub).await?;
                self.sent = sent;
                return Ok(part);
            }
        }
        Ok(Bytes::from(out))
    }
}

fn append(out: &mut String, watched: &WatchItem) {
    match watched {
        WatchItem::Event(event) => {
            if let Some(notice) = notice(event) {
                sse::append(out, Some("notice"), Some(&event.seq.to_string()), &notice);
            }
        }
        // Notices that are gone are not missed on a page that was not open.
        WatchItem::Gap { oldest, .. } => {
            let id = oldest.saturating_sub(1).to_string();
            sse::append(out, Some("gap"), Some(&id), &json!({ "oldest": oldest }));
        }
        WatchItem::Live { next } => {
            sse::append(
                out,
                Some("live"),
                Some(&next.saturating_sub(1).to_string()),
                &json!({ "next": next }),
            );
        }
    }
}

/// A notice as a person reads it.
fn notice(event: &Event) -> Option<Value> {
    let worker = event.worker().map(|worker| &**worker).unwrap_or_default();
    let queue = event.queue().map(|queue| &**queue).unwrap_or_default();
    let of_worker = format!("/workers/{}", escaped(worker));
    let of_queue = format!("/queues/{}", escaped(queue));
    let (level, title, text, path) = match &event.kind {
        EventData::Crashed { reason, next, .. } => {
            let task = event.task()?;
            let title = format!("Task {} crashed", short(task));
            let text = format!("On worker {worker}: {}. The task is {}.", why_lost(*reason), next.as_str());
            ("bad", title, text, format!("/tasks/{task}"))
        }
        EventData::WorkerLost { reason } => {
            let text = format!("{}. Its tasks wait until its lease ends.", capital(why_lost(*reason)));
            ("bad", format!("Worker {worker} is lost"), text, of_worker)
        }
        EventData::WorkerReturned => {
            // It may be back to report that its processes have died.
            let text = "It says which of its tasks go on. The others have crashed.".to_owned();
            ("good", format!("Worker {worker} is connected again"), text, of_worker)
        }
        EventData::WorkerQuarantined { crashes, .. } => {
            let crashes = counted(u64::from(*crashes), "crash", "crashes");
            let text = format!("It gets no tasks after {crashes}.");
            ("bad", format!("Worker {worker} is in quarantine"), text, of_worker)
        }
        EventData::QueueUnserved { .. } => {
            let text = "Tasks wait, and no live worker can take them.".to_owned();
            ("warn", format!("Queue {queue} has no worker"), text, of_queue)
        }
        EventData::QueueBacklog { depth, age, .. } => {
            let text = format!("{} ready, the oldest for {}.", counted(*depth, "task", "tasks"), span(*age));
            ("warn", format!("Queue {queue} has a backlog"), text, of_queue)
        }
        // The watch asks for no other kind.
        _ => return None,
    };
    Some(json!({
        "seq": event.seq, "at": event.at.rfc3339(), "kind": event.kind.as_str(), "level": level,
        "title": title, "text": text, "path": path,
    }))
}

#[cfg(test)]
mod tests {
    use tenure_hub::words::{EventSubject, LostReason, Timestamp};

    use super::*;

    fn of_worker(kind: EventData) -> (String, String) {
        let about = EventSubject::Worker { namespace: "default".into(), worker: "w1".into() };
        let notice = notice(&Event { seq: 1, at: Timestamp(0), about, kind }).expect("a notice");
        let text = |name: &str| notice[name].as_str().expect("a text").to_owned();
        (text("title"), text("text"))
    }

    #[test]
    fn a_notice_says_no_more_than_the_broker_knows_and_in_plain_words() {
        let (title, text) = of_worker(EventData::WorkerLost { reason: LostReason::ConnectionClosed });
        assert_eq!(title, "Worker w1 is lost");
        assert_eq!(text, "The connection closed. Its tasks wait until its lease ends.");
        // What a worker that was killed has left behind connects again, to say which tasks have died with it.
        let (title, text) = of_worker(EventData::WorkerReturned);
        assert_eq!(title, "Worker w1 is connected again");
        assert!(!text.contains("continues its tasks"), "{text}");
    }
}
