//! Feeds: what many streams follow alike is watched, encoded and kept once.
//!
//! A watch costs the hub one delivery for each event. The first listeners that follow the same have a watch each; from
//! [`SHARED_FROM`] on they share one. The feed encodes each event once, gathers events while many come, and keeps the
//! last of them in pieces that all listeners send without a copy. A listener that falls behind them reads the log with a
//! watch of its own, so it misses nothing and delays no other.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tenure_hub::words::{EventFilter, Name};
use tenure_hub::{HubHandle, HubRefusal, Principal};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::watching::{EventWatch, WatchItem};

/// From how many listeners on a feed is used.
const SHARED_FROM: usize = 4;
/// How many bytes of events a piece has, and all pieces of a feed.
const PIECE_BYTES: usize = 64 << 10;
const KEPT_BYTES: usize = 8 << 20;
/// How much later the next events are sent for each listener, and at most. The first event after a silence is sent at
/// once. So up to a thousand listeners together cost at most 4,000 wake-ups and writes a second.
const DELAY_PER_LISTENER: Duration = Duration::from_micros(250);
const DELAY_MAX: Duration = Duration::from_millis(250);
/// How many bytes all listeners of a feed get in a second. A crowd lags together: the mailbox of the feed fills, and one
/// watch reads the log for all of them.
const BYTES_PER_SECOND: f64 = 100e6;

/// How an item of a watch stands in the stream.
pub(crate) type Encode = fn(&mut String, &WatchItem);

/// The feeds of one door.
#[derive(Debug, Default)]
pub(crate) struct FeedTable {
    /// By namespace.
    followed: Mutex<HashMap<Name, Vec<Followed>>>,
}

/// What some listeners of a namespace follow.
#[derive(Debug)]
struct Followed {
    filter: EventFilter,
    listeners: usize,
    feed: Option<Arc<EventFeed>>,
}

/// The place of one listener. It leaves when this is dropped.
#[derive(Debug)]
pub(crate) struct FeedPlace {
    table: Arc<FeedTable>,
    namespace: Name,
    filter: EventFilter,
}

impl FeedTable {
    pub(crate) fn enter(self: &Arc<FeedTable>, namespace: Name, filter: EventFilter) -> FeedPlace {
        let mut followed = self.lock();
        let all = followed.entry(namespace.clone()).or_default();
        match all.iter_mut().find(|known| known.filter == filter) {
            Some(known) => known.listeners += 1,
            None => all.push(Followed { filter: filter.clone(), listeners: 1, feed: None }),
        }
        FeedPlace { table: Arc::clone(self), namespace, filter }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Name, Vec<Followed>>> {
        // Counting and inserting cannot stop half-way.
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FeedPlace {
    /// The feed, if there are enough listeners for one.
    pub(crate) fn feed(&self, hub: &HubHandle, encode: Encode) -> Option<Arc<EventFeed>> {
        let mut in_all = self.table.lock();
        let all = in_all.get_mut(&self.namespace)?;
        let followed = all.iter_mut().find(|followed| followed.filter == self.filter)?;
        if let Some(feed) = &followed.feed
            && !feed.has_ended()
        {
            return Some(Arc::clone(feed));
        }
        if followed.listeners < SHARED_FROM {
            return None;
        }
        let feed = Arc::new(EventFeed::default());
        let (hub, namespace, filter) = (hub.clone(), self.namespace.clone(), self.filter.clone());
        tokio::spawn(Arc::clone(&feed).run(hub, namespace, filter, encode));
        followed.feed = Some(Arc::clone(&feed));
        Some(feed)
    }
}

impl Drop for FeedPlace {
    fn drop(&mut self) {
        let mut followed = self.table.lock();
        let Some(all) = followed.get_mut(&self.namespace) else { return };
        let Some(index) = all.iter().position(|followed| followed.filter == self.filter) else { return };
        all[index].listeners -= 1;
        if all[index].listeners == 0 {
            let gone = all.swap_remove(index);
            if let Some(feed) = gone.feed {
                feed.end(HubRefusal::Draining);
            }
        }
        if all.is_empty() {
            followed.remove(&self.namespace);
        }
    }
}

/// The last events that match a filter, encoded.
#[derive(Debug)]
pub(crate) struct EventFeed {
    kept: Mutex<Kept>,
    /// Changes with each piece and at the end.
    version: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Kept {
    pieces: VecDeque<Piece>,
    bytes: usize,
    /// All events from this one on are here or will be. `None` until the watch of the feed is live.
    complete_from: Option<u64>,
    ended: Option<HubRefusal>,
}

/// Some events, one after the other.
#[derive(Clone, Debug, Default)]
struct Piece {
    bytes: Bytes,
    /// The number of each event, and where it ends.
    ends: Vec<(u64, usize)>,
}

/// What a listener gets.
#[derive(Debug, PartialEq)]
pub(crate) enum FeedRead {
    /// Events up to this number.
    Events(Bytes, u64),
    /// Nothing new.
    Nothing,
    /// The next event is not kept, or not yet.
    Missing,
    Ended(HubRefusal),
}

impl Default for EventFeed {
    fn default() -> EventFeed {
        EventFeed { kept: Mutex::default(), version: watch::channel(0).0 }
    }
}

impl EventFeed {
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// What comes after the event with this number.
    pub(crate) fn after(&self, seq: u64) -> FeedRead {
        let kept = self.lock();
        match kept.complete_from {
            Some(first) if first <= seq + 1 => {}
            _ if kept.ended.is_none() => return FeedRead::Missing,
            _ => {}
        }
        let index = kept.pieces.partition_point(|piece| piece.last() <= seq);
        if let Some(piece) = kept.pieces.get(index) {
            let known = piece.ends.partition_point(|(number, _)| *number <= seq);
            let begin = known.checked_sub(1).map_or(0, |last| piece.ends[last].1);
            return FeedRead::Events(piece.bytes.slice(begin..), piece.last());
        }
        kept.ended.clone().map_or(FeedRead::Nothing, FeedRead::Ended)
    }

    async fn run(self: Arc<EventFeed>, hub: HubHandle, namespace: Name, filter: EventFilter, encode: Encode) {
        // Each listener has shown with a watch of its own that it may see these events.
        let watching = EventWatch::trusted(&hub, Principal::trusted("http"), namespace, filter).await;
        let why = match watching {
            Ok(watching) => self.follow(watching, encode).await,
            Err(why) => why,
        };
        self.end(why);
    }

    /// Publishes until the watch ends.
    async fn follow(&self, mut watching: EventWatch, encode: Encode) -> HubRefusal {
        let mut listeners = self.version.subscribe();
        let mut open = OpenPieces::default();
        let (mut published, mut bytes) = (Instant::now(), 0);
        loop {
            let first = tokio::select! {
                first = watching.next() => first,
                // Only the end of the feed wakes this: the feed itself publishes elsewhere.
                () = async { while !self.has_ended() { let _ = listeners.changed().await; } } => {
                    return HubRefusal::Draining;
                }
            };
            let due = published + self.delay(bytes);
            let mut item = Some(first);
            loop {
                match item.take() {
                    Some(Ok(WatchItem::Live { next })) => {
                        self.lock().complete_from.get_or_insert(next);
                    }
                    Some(Ok(other)) => open.append(&other, encode),
                    Some(Err(why)) => {
                        self.publish(open.take());
                        return why;
                    }
                    None => match watching.next_now() {
                        Some(more) => item = Some(more),
                        None if Instant::now() >= due => break,
                        None => match timeout_at(due, watching.next()).await {
                            Ok(more) => item = Some(more),
                            Err(_) => break,
                        },
                    },
                }
                if open.bytes >= self.bytes_at_once() {
                    break;
                }
            }
            sleep_until(due).await;
            bytes = open.bytes;
            self.publish(open.take());
            published = Instant::now();
        }
    }

    /// How long the events after the last ones are gathered: so that wake-ups stay rare, and until the listeners can have
    /// taken the last bytes.
    fn delay(&self, bytes: usize) -> Duration {
        let listeners = self.listeners();
        let taken = Duration::from_secs_f64(bytes as f64 * f64::from(listeners) / BYTES_PER_SECOND);
        DELAY_PER_LISTENER.saturating_mul(listeners).min(DELAY_MAX).max(taken)
    }

    /// From how many bytes on nothing more is gathered. The listeners take them within the longest delay, so that a crowd
    /// gets little often, and waits no longer when the burst is over. And they push out nothing that was not seen yet.
    fn bytes_at_once(&self) -> usize {
        let in_time = BYTES_PER_SECOND * DELAY_MAX.as_secs_f64() / f64::from(self.listeners().max(1));
        (in_time as usize).min(KEPT_BYTES / 4)
    }

    fn listeners(&self) -> u32 {
        u32::try_from(self.version.receiver_count()).unwrap_or(u32::MAX)
    }

    fn publish(&self, pieces: Vec<Piece>) {
        {
            let mut kept = self.lock();
            for piece in pieces {
                kept.bytes += piece.bytes.len();
                kept.pieces.push_back(piece);
            }
            while kept.bytes > KEPT_BYTES
                && let Some(gone) = kept.pieces.pop_front()
            {
                kept.bytes -= gone.bytes.len();
                kept.complete_from = Some(gone.last() + 1);
            }
        }
        self.version.send_modify(|version| *version += 1);
    }

    fn end(&self, why: HubRefusal) {
        self.lock().ended.get_or_insert(why);
        self.version.send_modify(|version| *version += 1);
    }

    fn has_ended(&self) -> bool {
        self.lock().ended.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        // Pushing and reading cannot stop half-way.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Piece {
    fn last(&self) -> u64 {
        self.ends.last().map_or(0, |(number, _)| *number)
    }
}

/// Pieces that have not been published.
#[derive(Debug, Default)]
struct OpenPieces {
    full: Vec<Piece>,
    text: String,
    ends: Vec<(u64, usize)>,
    bytes: usize,
}

impl OpenPieces {
    fn append(&mut self, item: &WatchItem, encode: Encode) {
        let number = match item {
            WatchItem::Event(event) => event.seq,
            WatchItem::Gap { oldest, .. } => oldest.saturating_sub(1),
            WatchItem::Live { .. } => return,
        };
        let before = self.text.len();
        encode(&mut self.text, item);
        self.bytes += self.text.len() - before;
        self.ends.push((number, self.text.len()));
        if self.text.len() >= PIECE_BYTES {
            self.cut();
        }
    }

    fn cut(&mut self) {
        if !self.ends.is_empty() {
            let bytes = Bytes::from(std::mem::take(&mut self.text));
            self.full.push(Piece { bytes, ends: std::mem::take(&mut self.ends) });
        }
    }

    fn take(&mut self) -> Vec<Piece> {
        self.cut();
        self.bytes = 0;
        std::mem::take(&mut self.full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(numbers: &[u64], width: usize) -> Piece {
        let ends = numbers.iter().enumerate().map(|(index, number)| (*number, (index + 1) * width)).collect();
        let text: String = numbers.iter().map(|number| format!("{number:>width$}")).collect();
        Piece { bytes: Bytes::from(text), ends }
    }

    #[test]
    fn a_listener_gets_what_it_has_not_seen_and_nothing_twice() {
        let feed = EventFeed::default();
        assert_eq!(feed.after(0), FeedRead::Missing, "the watch is not live yet");
        feed.lock().complete_from = Some(5);
        assert_eq!(feed.after(3), FeedRead::Missing, "event 4 may have matched");
        assert_eq!(feed.after(4), FeedRead::Nothing);
        feed.publish(vec![piece(&[6, 9], 2), piece(&[12], 2)]);
        assert_eq!(feed.after(4), FeedRead::Events(" 6 9".into(), 9));
        assert_eq!(feed.after(6), FeedRead::Events(" 9".into(), 9));
        assert_eq!(feed.after(8), FeedRead::Events(" 9".into(), 9));
        assert_eq!(feed.after(9), FeedRead::Events("12".into(), 12));
        assert_eq!(feed.after(12), FeedRead::Nothing);
        feed.end(HubRefusal::Draining);
        assert_eq!(feed.after(9), FeedRead::Events("12".into(), 12), "the last events come before the end");
        assert_eq!(feed.after(12), FeedRead::Ended(HubRefusal::Draining));
    }

    #[test]
    fn old_pieces_go_and_a_listener_that_needs_them_reads_the_log() {
        let feed = EventFeed::default();
        feed.lock().complete_from = Some(1);
        for number in 1..=9 {
            let ends = vec![(number, KEPT_BYTES / 4)];
            feed.publish(vec![Piece { bytes: Bytes::from(vec![b'x'; KEPT_BYTES / 4]), ends }]);
        }
        assert!(feed.lock().bytes <= KEPT_BYTES);
        assert_eq!(feed.after(4), FeedRead::Missing);
        assert!(matches!(feed.after(5), FeedRead::Events(_, 6)));
    }

    #[test]
    fn a_crowd_gets_the_next_events_when_it_can_have_taken_the_last_ones() {
        let feed = EventFeed::default();
        let _crowd: Vec<_> = (0..1_000).map(|_| feed.subscribe()).collect();
        assert_eq!(feed.delay(0), Duration::from_millis(250));
        assert_eq!(feed.delay(1_000), Duration::from_millis(250), "few bytes are no reason to wait");
        assert_eq!(feed.delay(1_000_000), Duration::from_secs(10));
    }

    #[test]
    fn a_burst_reaches_a_crowd_in_pieces_that_it_takes_in_time() {
        let feed = EventFeed::default();
        let mut crowd = Vec::new();
        for size in [1, SHARED_FROM, 100, 1_000, 8_000] {
            crowd.resize_with(size, || feed.subscribe());
            let piece = feed.bytes_at_once();
            assert!(feed.delay(piece) <= DELAY_MAX, "{size} listeners wait {:?}", feed.delay(piece));
            assert!((1..=KEPT_BYTES / 4).contains(&piece), "{size} listeners get {piece} bytes at once");
        }
    }

    #[test]
    fn the_last_listener_ends_the_feed() {
        let table = Arc::new(FeedTable::default());
        let enter = |queue: &str| {
            let filter = EventFilter { queue: Some(queue.into()), ..EventFilter::default() };
            table.enter("default".into(), filter)
        };
        let (one, two, other) = (enter("a"), enter("a"), enter("b"));
        assert_eq!(table.lock()["default"].iter().map(|one| one.listeners).collect::<Vec<_>>(), [2, 1]);
        drop((one, two));
        assert_eq!(table.lock()["default"].len(), 1);
        drop(other);
        assert!(table.lock().is_empty());
    }
}
