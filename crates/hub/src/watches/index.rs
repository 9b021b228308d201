//! Finds the watches that may want an event, without a look at the others: by the task, submitter, worker or queue that
//! they follow, and then by the kinds of events.

use std::collections::{BTreeSet, HashMap};

use foldhash::fast::FixedState;
use tenure_engine::{Event, EventFilter, Name, SessionId, TaskId};

use super::WatchKey;

type Map<K, V> = HashMap<K, V, FixedState>;

/// The watches of each namespace: an event of another one passes them by.
#[derive(Debug, Default)]
pub(super) struct NamespaceIndex(Map<Name, WatchIndex>);

impl NamespaceIndex {
    pub(super) fn insert(&mut self, key: WatchKey, namespace: &Name, filter: &EventFilter) {
        self.0.entry(namespace.clone()).or_default().insert(key, filter);
    }

    pub(super) fn remove(&mut self, key: WatchKey, namespace: &Name, filter: &EventFilter) {
        if let Some(index) = self.0.get_mut(namespace) {
            index.remove(key, filter);
            if index.is_empty() {
                self.0.remove(namespace);
            }
        }
    }

    /// The watches that may want the event, each once.
    pub(super) fn candidates(&self, event: &Event) -> impl Iterator<Item = WatchKey> {
        self.0.get(event.namespace()).into_iter().flat_map(|index| index.candidates(event))
    }

    /// How many watches of the session follow the same thing.
    pub(super) fn same(&self, session: SessionId, namespace: &Name, filter: &EventFilter) -> usize {
        self.0.get(namespace).map_or(0, |index| index.same(session, filter))
    }
}

/// Each watch stands under the most selective thing that it follows.
#[derive(Debug, Default)]
struct WatchIndex {
    by_task: Map<TaskId, KindIndex>,
    by_submitter: Map<Name, KindIndex>,
    by_worker: Map<Name, KindIndex>,
    by_queue: Map<Name, KindIndex>,
    others: KindIndex,
}

/// Watches that follow the same thing.
#[derive(Debug, Default)]
struct KindIndex {
    by_kind: Map<Name, BTreeSet<WatchKey>>,
    all_kinds: BTreeSet<WatchKey>,
}

impl WatchIndex {
    fn insert(&mut self, key: WatchKey, filter: &EventFilter) {
        let EventFilter { task, submitter, worker, queue, kinds } = filter;
        let index = if let Some(task) = task {
            self.by_task.entry(*task).or_default()
        } else if let Some(submitter) = submitter {
            self.by_submitter.entry(submitter.clone()).or_default()
        } else if let Some(worker) = worker {
            self.by_worker.entry(worker.clone()).or_default()
        } else if let Some(queue) = queue {
            self.by_queue.entry(queue.clone()).or_default()
        } else {
            &mut self.others
        };
        index.insert(key, kinds);
    }

    fn remove(&mut self, key: WatchKey, filter: &EventFilter) {
        let EventFilter { task, submitter, worker, queue, kinds } = filter;
        if let Some(task) = task {
            remove_from(&mut self.by_task, task, key, kinds);
        } else if let Some(submitter) = submitter {
            remove_from(&mut self.by_submitter, submitter, key, kinds);
        } else if let Some(worker) = worker {
            remove_from(&mut self.by_worker, worker, key, kinds);
        } else if let Some(queue) = queue {
            remove_from(&mut self.by_queue, queue, key, kinds);
        } else {
            self.others.remove(key, kinds);
        }
    }

    fn is_empty(&self) -> bool {
        let Self { by_task, by_submitter, by_worker, by_queue, others } = self;
        by_task.is_empty()
            && by_submitter.is_empty()
            && by_worker.is_empty()
            && by_queue.is_empty()
            && others.is_empty()
    }

    /// The watches that may want the event, each once.
    fn candidates(&self, event: &Event) -> impl Iterator<Item = WatchKey> {
        let kind = event.kind.as_str();
        let of_task = event.task().and_then(|task| self.by_task.get(&task));
        let of_array = event.array().and_then(|array| self.by_task.get(&array));
        let of_submitter = event.submitter().and_then(|submitter| self.by_submitter.get(submitter));
        let of_worker = event.worker().and_then(|worker| self.by_worker.get(worker));
        let of_queue = event.queue().and_then(|queue| self.by_queue.get(queue));
        let found = [of_task, of_array, of_submitter, of_worker, of_queue, Some(&self.others)];
        found.into_iter().flatten().flat_map(|index| index.of_kind(kind)).copied()
    }

    /// How many watches of the session follow the same thing.
    fn same(&self, session: SessionId, filter: &EventFilter) -> usize {
        let EventFilter { task, submitter, worker, queue, kinds } = filter;
        let index = if let Some(task) = task {
            self.by_task.get(task)
        } else if let Some(submitter) = submitter {
            self.by_submitter.get(submitter)
        } else if let Some(worker) = worker {
            self.by_worker.get(worker)
        } else if let Some(queue) = queue {
            self.by_queue.get(queue)
        } else {
            Some(&self.others)
        };
        index.map_or(0, |index| index.same(session, kinds))
    }
}

impl KindIndex {
    fn insert(&mut self, key: WatchKey, kinds: &[Name]) {
        if kinds.is_empty() {
            self.all_kinds.insert(key);
        }
        for kind in kinds {
            self.by_kind.entry(kind.clone()).or_default().insert(key);
        }
    }

    fn remove(&mut self, key: WatchKey, kinds: &[Name]) {
        self.all_kinds.remove(&key);
        for kind in kinds {
            if let Some(watches) = self.by_kind.get_mut(kind) {
                watches.remove(&key);
                if watches.is_empty() {
                    self.by_kind.remove(kind);
                }
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.by_kind.is_empty() && self.all_kinds.is_empty()
    }

    fn of_kind(&self, kind: &str) -> impl Iterator<Item = &WatchKey> {
        self.all_kinds.iter().chain(self.by_kind.get(kind).into_iter().flatten())
    }

    /// How many watches of the session one event may be compared with, whatever its kind.
    fn same(&self, session: SessionId, kinds: &[Name]) -> usize {
        let count = |watches: &BTreeSet<WatchKey>| watches.range((session, 0)..=(session, u64::MAX)).count();
        let of_kind = |kind| self.by_kind.get(kind).map_or(0, count);
        let of_kinds = if kinds.is_empty() {
            self.by_kind.values().map(count).max()
        } else {
            kinds.iter().map(of_kind).max()
        };
        count(&self.all_kinds) + of_kinds.unwrap_or(0)
    }
}

fn remove_from<K: Eq + std::hash::Hash>(map: &mut Map<K, KindIndex>, at: &K, key: WatchKey, kinds: &[Name]) {
    if let Some(index) = map.get_mut(at) {
        index.remove(key, kinds);
        if index.is_empty() {
            map.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use tenure_engine::Timestamp;
    use tenure_engine::event::{EventData, EventSubject};

    use super::*;

    fn event(about: EventSubject, kind: EventData) -> Event {
        Event { seq: 1, at: Timestamp(0), about, kind }
    }

    fn of_queue(queue: &str, kind: EventData) -> Event {
        event(EventSubject::Queue { namespace: "default".into(), queue: queue.into() }, kind)
    }

    fn of_worker(worker: &str) -> Event {
        let about = EventSubject::Worker { namespace: "default".into(), worker: worker.into() };
        event(about, EventData::WorkerReturned)
    }

    fn filters() -> Vec<EventFilter> {
        let all = EventFilter::default;
        let kinds = |kinds: &[&str]| kinds.iter().map(|kind| (*kind).into()).collect::<Vec<Name>>();
        vec![
            all(),
            EventFilter { kinds: kinds(&["queue-paused", "queue-paused", "worker-returned"]), ..all() },
            EventFilter { queue: Some("a".into()), ..all() },
            EventFilter { queue: Some("a".into()), kinds: kinds(&["queue-resumed"]), ..all() },
            EventFilter { queue: Some("b".into()), kinds: kinds(&["queue-paused"]), ..all() },
            EventFilter { worker: Some("w".into()), ..all() },
            EventFilter { submitter: Some("ada".into()), ..all() },
            EventFilter { task: Some(TaskId([7; 16])), ..all() },
        ]
    }

    #[test]
    fn an_event_is_compared_with_the_watches_that_want_it_and_no_others() {
        let filters = filters();
        let mut index = WatchIndex::default();
        for (number, filter) in filters.iter().enumerate() {
            index.insert((SessionId(1), number as u64), filter);
        }
        let events = [
            of_queue("a", EventData::QueuePaused),
            of_queue("a", EventData::QueueResumed),
            of_queue("b", EventData::QueuePaused),
            of_queue("c", EventData::QueueResumed),
            of_worker("w"),
            of_worker("v"),
        ];
        for event in &events {
            let mut found: Vec<u64> = index.candidates(event).map(|(_, watch)| watch).collect();
            found.sort_unstable();
            let wanted = (0..filters.len()).filter(|number| filters[*number].matches(event));
            let wanted: Vec<u64> = wanted.map(|number| number as u64).collect();
            assert_eq!(found, wanted, "{event:?}");
        }
    }

    #[test]
    fn an_event_of_another_namespace_is_compared_with_no_watch() {
        let mut index = NamespaceIndex::default();
        for (number, filter) in filters().iter().enumerate() {
            index.insert((SessionId(1), number as u64), &"lab".into(), filter);
        }
        assert_eq!(index.candidates(&of_worker("w")).count(), 0);
        index.insert((SessionId(2), 0), &"default".into(), &EventFilter::default());
        assert_eq!(index.candidates(&of_worker("w")).collect::<Vec<_>>(), [(SessionId(2), 0)]);
        index.remove((SessionId(2), 0), &"default".into(), &EventFilter::default());
        assert_eq!(index.0.len(), 1, "nothing is left of a namespace without watches");
    }

    #[test]
    fn nothing_is_left_of_watches_that_have_ended() {
        let mut index = WatchIndex::default();
        for (number, filter) in filters().iter().enumerate() {
            index.insert((SessionId(1), number as u64), filter);
        }
        for (number, filter) in filters().iter().enumerate() {
            index.remove((SessionId(1), number as u64), filter);
        }
        assert!(index.others.is_empty() && index.by_task.is_empty() && index.by_submitter.is_empty());
        assert!(index.by_worker.is_empty() && index.by_queue.is_empty());
    }

    #[test]
    fn watches_of_different_kinds_do_not_follow_the_same() {
        let mut index = WatchIndex::default();
        let of = |kind: &str| EventFilter { kinds: vec![kind.into()], ..EventFilter::default() };
        index.insert((SessionId(1), 1), &of("crashed"));
        index.insert((SessionId(1), 2), &EventFilter::default());
        index.insert((SessionId(2), 1), &of("crashed"));
        assert_eq!(index.same(SessionId(1), &of("crashed")), 2);
        assert_eq!(index.same(SessionId(1), &of("failed")), 1);
        assert_eq!(index.same(SessionId(1), &EventFilter::default()), 2);
    }
}
