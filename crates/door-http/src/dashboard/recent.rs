//! Reads events that have happened: the last ones of a namespace, or those of one task.

use std::sync::Arc;
use std::time::Duration;

use tenure_hub::words::{Event, EventFilter, Timestamp};
use tokio::time::{Instant, timeout_at};

use crate::authentication::HttpPeer;
use crate::problem::ProblemDetails;
use crate::session::{EventWatch, WatchItem};
use crate::translate;

/// How long a page may read the log. It shows what it has found by then.
const READING_MAX: Duration = Duration::from_millis(400);

/// What was read of the log.
#[derive(Debug, Default)]
pub(super) struct PastEvents {
    /// In the order in which they happened.
    pub(super) events: Vec<Arc<Event>>,
    /// Events before this one are gone.
    pub(super) kept_from: Option<u64>,
    /// The first event that happens after the page was read.
    pub(super) next: u64,
    /// How many events in the middle are left out.
    pub(super) left_out: usize,
    /// The time was over before the end of the log.
    pub(super) is_cut: bool,
}

/// Reads from a number on to the present; of more than `keep` events the first half and the last ones.
pub(super) async fn read(
    peer: &HttpPeer,
    filter: EventFilter,
    from: u64,
    keep: usize,
) -> Result<PastEvents, ProblemDetails> {
    let deadline = Instant::now() + READING_MAX;
    let mut watching = EventWatch::begin(peer, filter, Some(from.max(1))).await?;
    let mut past = PastEvents { next: from, ..PastEvents::default() };
    loop {
        let watched = match watching.next_now() {
            Some(watched) => watched,
            None => match timeout_at(deadline, watching.next()).await {
                Ok(watched) => watched,
                Err(_) => {
                    past.is_cut = true;
                    return Ok(past);
                }
            },
        };
        match watched.map_err(|no| translate::problem(&no))? {
            WatchItem::Event(event) => {
                past.next = event.seq + 1;
                if past.events.len() == keep {
                    past.events.remove(keep / 2);
                    past.left_out += 1;
                }
                past.events.push(event);
            }
            WatchItem::Gap { oldest, .. } => past.kept_from = Some(oldest),
            WatchItem::Live { next } => {
                past.next = past.next.max(next);
                return Ok(past);
            }
        }
    }
}

/// The last events of the namespace, the newest first.
pub(super) async fn last(
    peer: &HttpPeer,
    filter: EventFilter,
    last_event: u64,
    wanted: usize,
) -> Result<PastEvents, ProblemDetails> {
    // Other namespaces and a filter leave fewer: looks back further until enough are found or nothing is left.
    let mut back = wanted as u64 * 2;
    let deadline = Instant::now() + READING_MAX;
    loop {
        let from = last_event.saturating_sub(back).max(1);
        let mut past = read(peer, filter.clone(), from, usize::MAX).await?;
        if past.events.len() >= wanted || from == 1 || past.kept_from.is_some() || Instant::now() > deadline {
            past.events.drain(..past.events.len().saturating_sub(wanted));
            past.events.reverse();
            return Ok(past);
        }
        back = back.saturating_mul(8);
    }
}

/// A log of fewer events is read whole.
const SHORT_LOG: u64 = 4_000;
/// Clocks are set back now and then, and an event may be a little older than the one before it.
const SLACK: Duration = Duration::from_secs(5);

/// The number from which the events of a task may be, by the time of its submission: the log is searched by halves,
/// because it is ordered by time and not by task.
pub(super) async fn first_since(
    peer: &HttpPeer,
    submitted_at: Timestamp,
    last_event: u64,
) -> Result<u64, ProblemDetails> {
    let wanted = Timestamp(submitted_at.0.saturating_sub(SLACK.as_millis() as u64));
    let (mut low, mut high) = (1, last_event.max(1));
    while high - low > SHORT_LOG {
        let middle = low + (high - low) / 2;
        match time_of(peer, middle).await? {
            Some(at) if at < wanted => low = middle,
            Some(_) | None => high = middle,
        }
    }
    Ok(low)
}

/// When the first event from this number on happened, if the namespace has one.
async fn time_of(peer: &HttpPeer, number: u64) -> Result<Option<Timestamp>, ProblemDetails> {
    let mut watch = EventWatch::begin(peer, EventFilter::default(), Some(number)).await?;
    let deadline = Instant::now() + READING_MAX;
    loop {
        match timeout_at(deadline, watch.next()).await {
            Ok(Ok(WatchItem::Event(event))) => return Ok(Some(event.at)),
            Ok(Ok(WatchItem::Gap { .. })) => {}
            Ok(Ok(WatchItem::Live { .. })) | Err(_) => return Ok(None),
            Ok(Err(no)) => return Err(translate::problem(&no)),
        }
    }
}
