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
async fn read(
    peer: &HttpPeer,
    filter: EventFilter,
    from: u64,
    keep: usize,
    deadline: Instant,
) -> Result<PastEvents, ProblemDetails> {
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
    let mut before = None;
    loop {
        let from = last_event.saturating_sub(back).max(1);
        let past = read(peer, filter.clone(), from, usize::MAX, deadline).await?;
        let is_whole = from == 1 || past.kept_from.is_some();
        match further(before, past, wanted, is_whole) {
            LookBack::Enough(mut past) => {
                past.events.drain(..past.events.len().saturating_sub(wanted));
                past.events.reverse();
                return Ok(past);
            }
            LookBack::Further(past) => before = Some(past),
        }
        back = back.saturating_mul(8);
    }
}

/// What follows from a look at the end of the log.
#[derive(Debug)]
enum LookBack {
    Enough(PastEvents),
    Further(PastEvents),
}

/// A longer look that ran out of time has not reached the newest events, so the shorter one before it counts.
fn further(before: Option<PastEvents>, past: PastEvents, wanted: usize, is_whole: bool) -> LookBack {
    if past.is_cut {
        return LookBack::Enough(PastEvents { is_cut: true, ..before.unwrap_or(past) });
    }
    if past.events.len() >= wanted || is_whole { LookBack::Enough(past) } else { LookBack::Further(past) }
}

/// The events of a task from its first on. If the log is too long to be read to its end in time, the newest are read
/// from there, and what is in between is left out.
pub(super) async fn of_task(
    peer: &HttpPeer,
    filter: EventFilter,
    first: u64,
    last_event: u64,
    keep: usize,
) -> Result<PastEvents, ProblemDetails> {
    let past = read(peer, filter.clone(), first, keep, Instant::now() + READING_MAX).await?;
    if !past.is_cut {
        return Ok(past);
    }
    let newest = last(peer, filter, last_event, keep / 2).await?;
    Ok(joined(past, newest, keep))
}

/// The oldest and the newest events in their order, each once.
fn joined(oldest: PastEvents, newest: PastEvents, keep: usize) -> PastEvents {
    let mut past = oldest;
    past.events.truncate(keep - keep / 2);
    let known = past.events.last().map_or(0, |event| event.seq);
    past.events.extend(newest.events.into_iter().rev().filter(|event| event.seq > known));
    past.next = past.next.max(newest.next);
    past
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

#[cfg(test)]
mod tests {
    use tenure_hub::words::{EventData, EventSubject};

    use super::*;

    fn past(numbers: impl IntoIterator<Item = u64>, is_cut: bool) -> PastEvents {
        let event = |seq| {
            let about = EventSubject::Queue { namespace: "default".into(), queue: "images".into() };
            Arc::new(Event { seq, at: Timestamp(seq), about, kind: EventData::QueuePaused })
        };
        let events: Vec<_> = numbers.into_iter().map(event).collect();
        let next = events.last().map_or(1, |event| event.seq + 1);
        PastEvents { events, is_cut, next, ..PastEvents::default() }
    }

    fn numbers(past: &PastEvents) -> Vec<u64> {
        past.events.iter().map(|event| event.seq).collect()
    }

    #[test]
    fn a_look_back_that_runs_out_of_time_keeps_the_newest_events_that_were_found() {
        let LookBack::Further(before) = further(None, past([90, 95], false), 5, false) else {
            panic!("two are not enough")
        };
        // The longer look has read the old part of the log only.
        let LookBack::Enough(found) = further(Some(before), past([10, 11, 12, 13, 14, 15], true), 5, false)
        else {
            panic!("there is no time left")
        };
        assert_eq!((numbers(&found), found.is_cut, found.next), (vec![90, 95], true, 96));
        let LookBack::Enough(found) = further(None, past([10], true), 5, false) else { panic!("no time") };
        assert!(found.is_cut);
        assert!(matches!(further(None, past([10], false), 5, true), LookBack::Enough(past) if !past.is_cut));
    }

    #[test]
    fn a_task_with_a_long_log_shows_how_it_began_and_what_happened_last() {
        let newest = PastEvents {
            events: past([3, 90, 95], false).events.into_iter().rev().collect(),
            next: 96,
            ..PastEvents::default()
        };
        let found = joined(past([1, 2, 3, 4, 5], true), newest, 6);
        assert_eq!((numbers(&found), found.is_cut, found.next), (vec![1, 2, 3, 90, 95], true, 96));
    }
}
