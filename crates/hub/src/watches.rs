//! Watches: which sessions follow which events. An event finds its watches by what they follow and by its kind. A watch that cannot keep up falls back to reading the log, so it misses
//! nothing and delays no other.

mod index;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Weak};

use foldhash::fast::FixedState;
use tenure_engine::{Event, EventFilter, Name, SessionId};

use crate::request::Delivery;
use index::NamespaceIndex;

/// How many deliveries may wait in a mailbox before a watch stops adding to it and reads the log later.
pub const MAILBOX_EVENTS_MAX: usize = 4_096;
/// How many recent events are kept in memory, so that a watch that reads the log can catch up.
const RECENT_MAX: usize = 8_192;
/// How many watches one session may hold.
pub const WATCHES_MAX: usize = 65_536;
/// How many watches of one session may follow the same task, the same submitter, or everything: each event is
/// compared with all of them.
pub const SAME_WATCHES_MAX: usize = 64;

pub(crate) type WatchKey = (SessionId, u64);
type Map<K, V> = HashMap<K, V, FixedState>;

#[derive(Debug, Default)]
pub(crate) struct Watches {
    all: Map<WatchKey, Entry>,
    index: NamespaceIndex,
    /// Those of them that are live: watches that catch up read the log, and an event that is published passes them by.
    live: NamespaceIndex,
    /// How many watches are not live. While there is none, nothing needs `recent`.
    catching_up: usize,
    /// The last events that a watch wanted when they were decided, in order.
    recent: VecDeque<Arc<Event>>,
    /// Older ones are not in `recent`.
    recent_from: u64,
    /// The first event that has not been published.
    next: u64,
}

#[derive(Debug)]
struct Entry {
    namespace: Name,
    filter: EventFilter,
    /// The first event it wants.
    from: u64,
    /// Events before this one were decided when this watch did not exist: for this watch, only the log has them.
    kept_from: u64,
    live: bool,
    /// Lets a follower that reads the log see that the watch has ended.
    life: Arc<()>,
}

impl Watches {
    pub(crate) fn new(next: u64) -> Watches {
        Watches { next, ..Watches::default() }
    }

    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Whether any watch wants an event that has just been decided. An event that none wants costs only this question.
    pub(crate) fn want(&self, event: &Event) -> bool {
        !self.all.is_empty()
            && self
                .index
                .candidates(event)
                .any(|key| self.all.get(&key).is_some_and(|entry| wants(entry, event)))
    }

    /// Adds a watch. It is not live yet: [`Watches::catch_up`] makes it live.
    pub(crate) fn add(
        &mut self,
        key: WatchKey,
        namespace: Name,
        filter: EventFilter,
        from: u64,
        decided: u64,
    ) {
        self.remove(key);
        self.index.insert(key, &namespace, &filter);
        self.catching_up += 1;
        let (kept_from, life) = (decided + 1, Arc::new(()));
        self.all.insert(key, Entry { namespace, filter, from, kept_from, live: false, life });
    }

    /// How many watches of the session already follow the same thing in its namespace.
    pub(crate) fn same(&self, session: SessionId, namespace: &Name, filter: &EventFilter) -> usize {
        self.index.same(session, namespace, filter)
    }

    pub(crate) fn remove(&mut self, key: WatchKey) -> bool {
        let Some(entry) = self.all.remove(&key) else { return false };
        self.index.remove(key, &entry.namespace, &entry.filter);
        if entry.live {
            self.live.remove(key, &entry.namespace, &entry.filter);
        } else {
            self.caught_up();
        }
        true
    }

    /// Removes all watches of a closed session.
    pub(crate) fn remove_all(&mut self, session: SessionId, watches: &BTreeSet<u64>) {
        for watch in watches {
            self.remove((session, *watch));
        }
    }

    /// An event is on disk: passes every live watch that wants it to `deliver`.
    pub(crate) fn publish(&mut self, event: &Arc<Event>, mut deliver: impl FnMut(WatchKey)) {
        self.next = event.seq + 1;
        if self.catching_up == 0 {
            self.recent_from = self.next;
        } else {
            self.keep(event);
        }
        for key in self.live.candidates(event) {
            let entry = self.all.get(&key).expect("an indexed watch exists");
            if wants(entry, event) {
                deliver(key);
            }
        }
    }

    /// Events up to `seq` are on disk, and no watch wanted them when they were decided.
    pub(crate) fn pass(&mut self, seq: u64) {
        self.next = seq + 1;
    }

    /// There was no room for an event of this watch: it has to read the log. Returns whether it was live until now.
    pub(crate) fn fall_behind(&mut self, key: WatchKey) -> bool {
        let Some(entry) = self.all.get_mut(&key) else { return false };
        let was_live = std::mem::replace(&mut entry.live, false);
        if was_live {
            self.live.remove(key, &entry.namespace, &entry.filter);
            self.catching_up += 1;
        }
        was_live
    }

    /// The watch has seen everything before `from`. If memory reaches back that far, it gets the rest and is
    /// live. Otherwise it has to read the log, because memory begins too late or the mailbox is full.
    /// `deliver` leaves what it has no room for.
    pub(crate) fn catch_up(
        &mut self,
        key: WatchKey,
        from: u64,
        deliver: impl FnOnce(&mut Vec<Delivery>),
    ) -> WatchCatchUp {
        let Some(entry) = self.all.get_mut(&key) else { return WatchCatchUp::Gone };
        if from < entry.kept_from || from < self.recent_from {
            return WatchCatchUp::Read { from, until: self.next.max(entry.kept_from) };
        }
        let known = self.recent.partition_point(|event| event.seq < from);
        let missed = self.recent.range(known..).filter(|event| wants(entry, event));
        let delivery = |event: &Arc<Event>| Delivery::Event { watch: key.1, event: Arc::clone(event) };
        let mut missed: Vec<Delivery> = missed.map(delivery).collect();
        deliver(&mut missed);
        if let Some(Delivery::Event { event, .. }) = missed.first() {
            return WatchCatchUp::Read { from: event.seq, until: self.next };
        }
        if !std::mem::replace(&mut entry.live, true) {
            self.live.insert(key, &entry.namespace, &entry.filter);
            self.caught_up();
        }
        WatchCatchUp::Live
    }

    /// Keeps an event for watches that are not live yet.
    fn keep(&mut self, event: &Arc<Event>) {
        if self.recent.len() == RECENT_MAX
            && let Some(gone) = self.recent.pop_front()
        {
            self.recent_from = gone.seq + 1;
        }
        self.recent.push_back(Arc::clone(event));
    }

    /// One watch less needs the recent events.
    fn caught_up(&mut self) {
        self.catching_up -= 1;
        if self.catching_up == 0 {
            self.recent.clear();
            self.recent_from = self.next;
        }
    }

    /// The interest of a watch, for the follower that reads the log for it.
    pub(crate) fn wanted(&self, key: WatchKey) -> Option<WatchInterest> {
        self.all.get(&key).map(|entry| WatchInterest {
            namespace: entry.namespace.clone(),
            filter: entry.filter.clone(),
            life: WatchLife(Arc::downgrade(&entry.life)),
        })
    }
}

/// The events to look for in the log.
#[derive(Clone, Debug)]
pub(crate) struct WatchInterest {
    namespace: Name,
    filter: EventFilter,
    pub(crate) life: WatchLife,
}

impl WatchInterest {
    pub(crate) fn matches(&self, event: &Event) -> bool {
        *event.namespace() == self.namespace && self.filter.matches(event)
    }
}

/// Whether a watch still exists, or has ended while a follower reads the log for it.
#[derive(Clone, Debug)]
pub(crate) struct WatchLife(Weak<()>);

impl WatchLife {
    pub(crate) fn is_over(&self) -> bool {
        self.0.strong_count() == 0
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum WatchCatchUp {
    Live,
    Read { from: u64, until: u64 },
    Gone,
}

fn wants(entry: &Entry, event: &Event) -> bool {
    event.seq >= entry.from && *event.namespace() == entry.namespace && entry.filter.matches(event)
}

#[cfg(test)]
mod tests {
    use tenure_engine::Timestamp;
    use tenure_engine::event::{EventData, EventSubject};

    use super::*;

    fn event(seq: u64, queue: &str) -> Arc<Event> {
        let about = EventSubject::Queue { namespace: "default".into(), queue: queue.into() };
        Arc::new(Event { seq, at: Timestamp(0), about, kind: EventData::QueuePaused })
    }

    fn of_queue(queue: &str) -> EventFilter {
        EventFilter { queue: Some(queue.into()), ..EventFilter::default() }
    }

    /// Decides and publishes an event. Returns the watches that got it.
    fn happens(watches: &mut Watches, event: &Arc<Event>) -> Vec<u64> {
        let mut got = Vec::new();
        if watches.want(event) {
            watches.publish(event, |(_, watch)| got.push(watch));
        } else {
            watches.pass(event.seq);
        }
        got
    }

    fn caught_up(watches: &mut Watches, watch: u64, from: u64) -> (WatchCatchUp, Vec<u64>) {
        let mut got = Vec::new();
        let caught = watches.catch_up((SessionId(1), watch), from, |missed| got.append(missed));
        let seq = |delivery: Delivery| match delivery {
            Delivery::Event { event, .. } => event.seq,
            other => panic!("{other:?}"),
        };
        (caught, got.into_iter().map(seq).collect())
    }

    #[test]
    fn an_event_that_no_watch_wants_is_not_kept_and_breaks_no_other_watch() {
        let mut watches = Watches::new(1);
        watches.add((SessionId(1), 1), "default".into(), of_queue("a"), 1, 0);
        for seq in 1..=5 {
            assert!(happens(&mut watches, &event(seq, "b")).is_empty());
        }
        assert!(watches.recent.is_empty());
        happens(&mut watches, &event(6, "a"));
        happens(&mut watches, &event(7, "b"));
        assert_eq!(caught_up(&mut watches, 1, 1), (WatchCatchUp::Live, vec![6]));
        assert_eq!(happens(&mut watches, &event(8, "a")), [1]);
        assert_eq!(watches.next(), 9);
    }

    #[test]
    fn a_watch_reads_from_the_log_what_was_decided_before_it_began() {
        let mut watches = Watches::new(1);
        watches.add((SessionId(1), 1), "default".into(), of_queue("a"), 1, 0);
        happens(&mut watches, &event(1, "a"));
        // Event 2 is decided and not yet published when the second watch begins. The first one does not want it.
        watches.add((SessionId(1), 2), "default".into(), of_queue("b"), 1, 2);
        assert_eq!(caught_up(&mut watches, 2, 1).0, WatchCatchUp::Read { from: 1, until: 3 });
        watches.pass(2);
        happens(&mut watches, &event(3, "b"));
        assert_eq!(caught_up(&mut watches, 2, 2).0, WatchCatchUp::Read { from: 2, until: 4 });
        assert_eq!(caught_up(&mut watches, 2, 3), (WatchCatchUp::Live, vec![3]));
    }

    #[test]
    fn a_watch_that_needs_more_than_memory_has_reads_the_log() {
        let mut watches = Watches::new(1);
        watches.add((SessionId(1), 1), "default".into(), of_queue("a"), 1, 0);
        let count = RECENT_MAX as u64 + 2;
        for seq in 1..=count {
            happens(&mut watches, &event(seq, "a"));
        }
        assert_eq!(caught_up(&mut watches, 1, 2).0, WatchCatchUp::Read { from: 2, until: count + 1 });
        assert_eq!(caught_up(&mut watches, 1, 3).1.len(), RECENT_MAX);
    }

    #[test]
    fn events_are_kept_only_while_a_watch_catches_up() {
        let mut watches = Watches::new(1);
        watches.add((SessionId(1), 1), "default".into(), of_queue("a"), 1, 0);
        happens(&mut watches, &event(1, "a"));
        assert_eq!(caught_up(&mut watches, 1, 1), (WatchCatchUp::Live, vec![1]));
        assert_eq!(happens(&mut watches, &event(2, "a")), [1]);
        assert!(watches.recent.is_empty());
        // There was no room for event 2, and event 3 was published before the hub noticed.
        assert_eq!(happens(&mut watches, &event(3, "a")), [1]);
        assert!(watches.fall_behind((SessionId(1), 1)));
        assert!(!watches.fall_behind((SessionId(1), 1)), "it reads the log already");
        assert!(happens(&mut watches, &event(4, "a")).is_empty());
        assert_eq!(caught_up(&mut watches, 1, 2).0, WatchCatchUp::Read { from: 2, until: 5 });
        happens(&mut watches, &event(5, "a"));
        assert_eq!(caught_up(&mut watches, 1, 5), (WatchCatchUp::Live, vec![5]));
        watches.add((SessionId(1), 2), "default".into(), of_queue("a"), 6, 5);
        happens(&mut watches, &event(6, "a"));
        assert_eq!(watches.recent.len(), 1);
        watches.remove((SessionId(1), 2));
        assert!(watches.recent.is_empty(), "the watch that needed it has ended");
    }
}
