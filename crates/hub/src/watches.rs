//! Watches: which sessions follow which events. An event finds its watches by task, by submitter, or among
//! the few that follow everything. A watch that cannot keep up falls back to reading the log, so it misses
//! nothing and delays no other.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Weak};

use foldhash::fast::FixedState;
use tenure_engine::{Event, EventFilter, Name, SessionId, TaskId};

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
    by_task: Map<TaskId, BTreeSet<WatchKey>>,
    by_submitter: Map<Name, BTreeSet<WatchKey>>,
    others: BTreeSet<WatchKey>,
    recent: VecDeque<Arc<Event>>,
    /// The first event that has not been published.
    next: u64,
    /// Events before this one were decided while there was no watch: only the log has them.
    kept_from: u64,
}

#[derive(Debug)]
struct Entry {
    namespace: Name,
    filter: EventFilter,
    /// The first event it wants.
    from: u64,
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

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
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
        if self.all.is_empty() {
            self.kept_from = decided + 1;
        }
        self.remove(key);
        self.index(&filter).insert(key);
        self.all.insert(key, Entry { namespace, filter, from, live: false, life: Arc::new(()) });
    }

    /// How many watches of the session already follow the same thing.
    pub(crate) fn same(&self, session: SessionId, filter: &EventFilter) -> usize {
        let index = match (filter.task, &filter.submitter) {
            (Some(task), _) => self.by_task.get(&task),
            (None, Some(submitter)) => self.by_submitter.get(submitter),
            (None, None) => Some(&self.others),
        };
        index.map_or(0, |index| index.range((session, 0)..=(session, u64::MAX)).count())
    }

    pub(crate) fn remove(&mut self, key: WatchKey) -> bool {
        let Some(entry) = self.all.remove(&key) else { return false };
        self.index(&entry.filter).remove(&key);
        if let Some(task) = entry.filter.task
            && self.by_task.get(&task).is_some_and(BTreeSet::is_empty)
        {
            self.by_task.remove(&task);
        } else if let Some(submitter) = &entry.filter.submitter
            && self.by_submitter.get(submitter).is_some_and(BTreeSet::is_empty)
        {
            self.by_submitter.remove(submitter);
        }
        true
    }

    /// Removes all watches of a closed session.
    pub(crate) fn remove_all(&mut self, session: SessionId, watches: &BTreeSet<u64>) {
        for watch in watches {
            self.remove((session, *watch));
        }
    }

    fn index(&mut self, filter: &EventFilter) -> &mut BTreeSet<WatchKey> {
        match (filter.task, &filter.submitter) {
            (Some(task), _) => self.by_task.entry(task).or_default(),
            (None, Some(submitter)) => self.by_submitter.entry(submitter.clone()).or_default(),
            (None, None) => &mut self.others,
        }
    }

    /// An event is on disk: delivers it to every live watch that wants it. `deliver` returns whether there
    /// was room; a watch without room is no longer live and is passed to `lagging`.
    pub(crate) fn publish(
        &mut self,
        event: &Arc<Event>,
        mut deliver: impl FnMut(WatchKey) -> bool,
        mut lagging: impl FnMut(WatchKey, u64),
    ) {
        self.next = event.seq + 1;
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(Arc::clone(event));
        let none = BTreeSet::new();
        let of_task = event.task().and_then(|task| self.by_task.get(&task)).unwrap_or(&none);
        let of_submitter = event.submitter().and_then(|name| self.by_submitter.get(name)).unwrap_or(&none);
        let of_array = event.array().and_then(|array| self.by_task.get(&array)).unwrap_or(&none);
        for key in of_task.iter().chain(of_array).chain(of_submitter).chain(&self.others) {
            let entry = self.all.get_mut(key).expect("an indexed watch exists");
            if entry.live && wants(entry, event) && !deliver(*key) {
                entry.live = false;
                lagging(*key, event.seq);
            }
        }
    }

    /// Events up to `seq` are on disk, and there was no watch when they were decided.
    pub(crate) fn pass(&mut self, seq: u64) {
        self.next = seq + 1;
        self.recent.clear();
    }

    /// The watch has seen everything before `from`. If memory reaches back that far, it gets the rest and is
    /// live. Otherwise it has to read the log, because memory begins too late or the mailbox is full.
    /// `deliver` returns whether there was room.
    pub(crate) fn catch_up(
        &mut self,
        key: WatchKey,
        from: u64,
        mut deliver: impl FnMut(&Arc<Event>) -> bool,
    ) -> WatchCatchUp {
        let oldest = self.recent.front().map_or(self.next, |event| event.seq);
        let Some(entry) = self.all.get_mut(&key) else { return WatchCatchUp::Gone };
        if from < oldest {
            return WatchCatchUp::Read { from, until: self.next };
        }
        if from < self.kept_from && self.next < self.kept_from {
            return WatchCatchUp::Read { from, until: self.kept_from };
        }
        for event in self.recent.iter().skip((from - oldest) as usize) {
            if wants(entry, event) && !deliver(event) {
                return WatchCatchUp::Read { from: event.seq, until: self.next };
            }
        }
        entry.live = true;
        WatchCatchUp::Live
    }

    /// What a watch wants, for the follower that reads the log for it.
    pub(crate) fn wanted(&self, key: WatchKey) -> Option<WatchInterest> {
        self.all.get(&key).map(|entry| WatchInterest {
            namespace: entry.namespace.clone(),
            filter: entry.filter.clone(),
            life: WatchLife(Arc::downgrade(&entry.life)),
        })
    }
}

/// What to look for in the log.
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
