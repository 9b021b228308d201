//! The audit: checks every index, count and timer against the tasks and workers it describes.
//!
//! The audit walks every table, so only tests and the simulator run it. A contradiction is a bug in the
//! engine, never a peer's fault, so the audit panics.

use std::collections::{BTreeMap, BTreeSet};

use crate::arrays::ArrayKey;
use crate::buckets::BucketOwner;
use crate::classes::{ClassKey, WorkerRank, offers};
use crate::demand::Resource;
use crate::demands::DemandKey;
use crate::edges::Awaited;
use crate::engine::{Engine, still_holds};
use crate::id::{Slot, WorkerKey};
use crate::namespaces::NamespaceKey;
use crate::queues::QueueKey;
use crate::ranked_list::TaskRank;
use crate::ready_queues::{ReadyOffer, ReadyQueueKey};
use crate::shares::ShareKey;
use crate::state::{StateName, TaskState};
use crate::state_index::order;
use crate::stock::WorkerCapacity;
use crate::tags::TagKey;
use crate::task::{Task, TermsKey};
use crate::time::Timestamp;
use crate::timers::Timer;
use crate::workers::Worker;

/// The contents that the indexes should have, derived from the tasks and workers.
#[derive(Default)]
struct Expected {
    terms: BTreeMap<TermsKey, u32>,
    queue_counts: BTreeMap<QueueKey, [u64; StateName::COUNT]>,
    queue_priorities: BTreeMap<QueueKey, BTreeMap<i32, u64>>,
    namespace_counts: BTreeMap<NamespaceKey, [u64; StateName::COUNT]>,
    waiting: BTreeMap<ReadyQueueKey, BTreeSet<(TaskRank, Slot)>>,
    ready: BTreeMap<QueueKey, BTreeSet<(Timestamp, u64, Slot)>>,
    indexed: BTreeMap<StateName, BTreeSet<(u64, Slot)>>,
    held: BTreeMap<WorkerKey, BTreeSet<Slot>>,
    suspended: BTreeMap<WorkerKey, usize>,
    continuing: BTreeSet<(WorkerKey, Option<TagKey>, TaskRank, Slot)>,
    in_use: BTreeMap<TagKey, u32>,
    timers: BTreeSet<(Timestamp, Timer)>,
    children: BTreeMap<Slot, BTreeSet<(u64, Slot)>>,
    edges: usize,
    dependents: BTreeMap<Awaited, usize>,
    arrays: BTreeMap<ArrayKey, [u64; StateName::COUNT]>,
    free: BTreeMap<ClassKey, BTreeSet<WorkerRank>>,
    fitting: BTreeMap<(ClassKey, DemandKey), BTreeSet<WorkerRank>>,
    large: BTreeMap<(ClassKey, DemandKey), u32>,
    class_live: BTreeMap<ClassKey, u32>,
    class_users: BTreeMap<ClassKey, u32>,
    queue_live: BTreeMap<QueueKey, u32>,
    sidelined: BTreeSet<WorkerKey>,
    namespace_workers: BTreeMap<NamespaceKey, (u64, u64)>,
}

impl Engine {
    /// Panics if any of the engine's tables contradicts another.
    pub fn audit(&self) {
        let mut expected = Expected::default();
        for (slot, task) in self.tasks.iter_from(Slot(0)) {
            self.audit_task(slot, task, &mut expected);
        }
        for (key, _) in self.workers.iter() {
            self.audit_worker(key, &mut expected);
        }
        for key in self.queues.keys() {
            self.audit_backlog(key, &mut expected);
        }
        for (key, entry) in self.schedules.iter() {
            assert_eq!(self.schedules.find(&entry.schedule.namespace, &entry.schedule.name), Some(key));
            expected.arm(entry.armed_at, Timer::Schedule(key));
        }
        self.audit_terms_and_ready_queues(&expected);
        self.audit_groups();
        self.audit_classes(&expected);
        self.audit_tags(&expected);
        self.audit_buckets(&mut expected);
        self.audit_turns();
        self.audit_counts(&expected);
        self.audit_arrays(&expected);
        for (key, worker) in self.workers.iter() {
            let held = expected.held.remove(&key).unwrap_or_default();
            assert_eq!(
                worker.held.iter().copied().collect::<BTreeSet<_>>(),
                held,
                "held by {}",
                worker.name()
            );
            let suspended = expected.suspended.get(&key).copied().unwrap_or(0);
            assert_eq!(worker.suspended, suspended, "suspended tasks of {}", worker.name());
            let first = worker.continuing.first();
            let could = worker.is_live() && first.is_some_and(|(_, slot)| self.has_room_again(key, *slot));
            assert!(!could, "{} has room for what continues", worker.name());
        }
        self.audit_continuing(&expected);
        assert!(expected.held.is_empty(), "held by workers that are not there");
        let timers = self.timers.all(|at, timer| still_holds(&self.tasks, at, timer));
        assert_eq!(timers, expected.timers, "timers");
        assert_eq!(self.sidelined, expected.sidelined, "sidelined workers");
        for (state, tasks) in &expected.indexed {
            let of_state: Vec<Slot> = self.state_index.iter_after(&self.tasks, *state, None).collect();
            assert_eq!(
                of_state,
                tasks.iter().map(|(_, slot)| *slot).collect::<Vec<_>>(),
                "the tasks of {state}"
            );
        }
        assert_eq!(self.edges.len(), expected.edges, "edges of tasks");
        assert!(self.resolving.is_empty(), "every end was passed on");
        let indexed: usize = expected.indexed.values().map(BTreeSet::len).sum();
        assert_eq!(self.state_index.len(), indexed, "tasks in the state index");
        let oldest_ended = self.state_index.find_oldest_ended(&self.tasks);
        assert_eq!(self.state_index.oldest_ended(), oldest_ended, "the task that ended first");
        let dirty = &self.dirty;
        assert!(dirty.is_settled() && dirty.queues.is_empty(), "unsettled");
    }

    fn audit_task(&self, slot: Slot, task: &Task, expected: &mut Expected) {
        assert_eq!(self.tasks.find(&task.id), Some(slot), "found by its id");
        let terms = self.terms.get(task.terms);
        if let Some(name) = task.name() {
            assert_eq!(
                self.tasks.find_name(&self.terms, &terms.namespace, name),
                Some(slot),
                "found by its name"
            );
        }
        *expected.terms.entry(task.terms).or_default() += 1;
        let state = task.state.name() as usize;
        let queue = self.terms.queue(task.terms);
        expected.queue_counts.entry(queue).or_default()[state] += 1;
        if state == StateName::Ready as usize {
            *expected.queue_priorities.entry(queue).or_default().entry(task.priority).or_default() += 1;
        }
        expected.namespace_counts.entry(self.queues.at(queue).namespace_key).or_default()[state] += 1;
        if let Some(array) = self.terms.array(task.terms) {
            expected.arrays.entry(array).or_default()[state] += 1;
        }
        let ready_queue = self.terms.ready_queue(task.terms);
        match &task.state {
            TaskState::Ready { since } => {
                let ready = expected.ready.entry(queue).or_default();
                ready.insert((*since, task.age, slot));
                expected.waiting.entry(ready_queue).or_default().insert((self.rank_of(slot), slot));
            }
            TaskState::Assigned(holding) | TaskState::Running(holding) => {
                expected.held.entry(holding.key).or_default().insert(slot);
                expected.arm(holding.check_at, Timer::Held(slot));
                for tag in &self.ready_queues.at(ready_queue).tags {
                    *expected.in_use.entry(*tag).or_default() += 1;
                }
            }
            TaskState::Suspended(suspension) => {
                let holding = &suspension.holding;
                expected.held.entry(holding.key).or_default().insert(slot);
                expected.arm(holding.check_at, Timer::Held(slot));
                *expected.suspended.entry(holding.key).or_default() += 1;
                if suspension.is_over() {
                    expected.continuing.insert((holding.key, suspension.parked, self.rank_of(slot), slot));
                }
            }
            state => {
                expected.indexed.entry(state.name()).or_default().insert((order(task), slot));
                if let TaskState::Delayed { until } = state {
                    expected.arm(*until, Timer::Due(slot));
                }
            }
        }
        self.audit_dependencies(slot, task, expected);
        if self.overdue.contains(&slot) {
            assert!(matches!(task.state, TaskState::Assigned(_)), "only assigned tasks are overdue");
        }
        let Some(extras) = &task.extras else { return };
        if let Some(at) = extras.expires_at
            && !task.state.name().has_ended()
        {
            expected.arm(at, Timer::Expires(slot));
        }
        if let Some(parent) = extras.parent.and_then(|parent| self.tasks.find(&parent))
            && self.tasks.at(parent).age < task.age
        {
            expected.children.entry(parent).or_default().insert((task.age, slot));
        }
    }

    fn audit_dependencies(&self, slot: Slot, task: &Task, expected: &mut Expected) {
        let ended = task.state.name().has_ended();
        expected.edges += self.edges.of(task.edges).count();
        let mut open = 0;
        for (_, edge) in self.edges.of(task.edges) {
            assert_eq!(edge.dependent, slot, "an edge belongs to its task");
            if edge.is_open() && !ended {
                open += 1;
                let waited_for = self.dependency_of(task, edge).expect("what others wait for is kept");
                assert!(!self.state_of(waited_for).has_ended(), "an open dependency has not ended");
                *expected.dependents.entry(waited_for).or_default() += 1;
            }
        }
        match task.state {
            TaskState::Waiting { open: counted } => {
                assert_eq!(counted, open, "open dependencies of {}", task.id);
            }
            TaskState::Suspended(ref suspension) => {
                assert_eq!(suspension.open, open, "{} is suspended", task.id);
            }
            TaskState::Created | TaskState::Paused(_) => {}
            _ => assert!(open == 0, "{} does not wait, but has open dependencies", task.id),
        }
    }

    fn audit_continuing(&self, expected: &Expected) {
        let mut found = BTreeSet::new();
        for (key, worker) in self.workers.iter() {
            found.extend(worker.continuing.iter().map(|(rank, slot)| (key, None, *rank, *slot)));
            assert_eq!(self.continuing.contains(&key), !worker.continuing.is_empty(), "{}", worker.name());
        }
        for (tag, entry) in self.tags.entries() {
            assert!(entry.continuing.is_empty() || !entry.has_room(), "{} has room", entry.name);
            for (rank, slot) in &entry.continuing {
                let holding = self.tasks.at(*slot).state.holding().expect("a suspended task is held");
                found.insert((holding.key, Some(tag), *rank, *slot));
            }
        }
        assert_eq!(found, expected.continuing, "suspended tasks that could continue");
    }

    fn audit_worker(&self, key: WorkerKey, expected: &mut Expected) {
        let worker = self.workers.at(key);
        assert_eq!(
            self.workers.find(&worker.health.namespace, worker.name()),
            Some(key),
            "found by its name"
        );
        if let Some(session) = worker.session() {
            assert_eq!(self.workers.of_session(session), Some(key), "found by its session");
        }
        expected.arm(worker.timer, Timer::Worker(key));
        if let Some(until) = worker.health.quarantined_until {
            expected.arm(until, Timer::Quarantine(key));
        }
        let (live, lost) = expected.namespace_workers.entry(worker.namespace_key).or_default();
        match worker.presence_name() {
            crate::command::PresenceName::Live => *live += 1,
            crate::command::PresenceName::Lost => *lost += 1,
            crate::command::PresenceName::Gone => {}
        }
        if worker.is_live() && !worker.may_work() {
            expected.sidelined.insert(key);
        }
        assert_eq!(worker.counted, worker.class.is_some() && worker.may_work(), "counted: {}", worker.name());
        for class in worker.class.iter().chain(&worker.asking) {
            *expected.class_users.entry(*class).or_default() += 1;
        }
        if let Some(class) = worker.class
            && worker.counted
        {
            *expected.class_live.entry(class).or_default() += 1;
            for queue in &self.classes.at(class).spec.queues {
                *expected.queue_live.entry(*queue).or_default() += 1;
            }
        }
        assert_eq!(worker.worker_rank, self.worker_rank_of(key), "the choice of {}", worker.name());
        assert_eq!(worker.has_slot, worker.has_slot(), "the free slot of {}", worker.name());
        if let Some((class, worker_rank)) = worker.worker_rank {
            if worker.has_slot() {
                expected.free.entry(class).or_default().insert(worker_rank);
            }
            let demands = self.classes.at(class).demands.keys().copied();
            let fits = demands.filter(|demand| worker.stock.fits(self.demands.at(*demand)));
            let fits: BTreeSet<DemandKey> = fits.collect();
            assert_eq!(worker.fits.iter().copied().collect::<BTreeSet<_>>(), fits, "{} fits", worker.name());
            for demand in fits {
                expected.fitting.entry((class, demand)).or_default().insert(worker_rank);
            }
        }
        let sorted = |(class, mut demands): (ClassKey, Vec<DemandKey>)| {
            demands.sort();
            (class, demands)
        };
        let large_for = worker.large_for.clone().map(sorted);
        assert_eq!(large_for, self.large_for(key).map(sorted), "the size of {}", worker.name());
        if let Some((class, demands)) = &worker.large_for {
            for demand in demands {
                *expected.large.entry((*class, *demand)).or_default() += 1;
            }
        }
        if let Some(group) = worker.reserved {
            assert_eq!(self.groups.at(group).reserved, Some(key), "reserved: {}", worker.name());
            assert!(self.reserved.contains(&key), "{} is listed as reserved", worker.name());
            assert!(!self.groups.at(group).open.is_empty(), "{} keeps room for a task", worker.name());
        }
        self.audit_stock(worker);
    }

    /// The capacity in use is the sum of what the held and stopping attempts occupy.
    fn audit_stock(&self, worker: &Worker) {
        let mut stock = WorkerCapacity::default();
        let declared: Vec<Resource> =
            worker.stock.resources().map(|(name, _, total)| Resource::new(name.clone(), total)).collect();
        stock.declare(worker.stock.slots, worker.stock.light_slots, &declared);
        for slot in &worker.held {
            let task = self.tasks.at(*slot);
            let demand = &self.terms.get(task.terms).demand;
            stock.occupy(demand, task.devices());
            if let TaskState::Suspended(_) = task.state {
                stock.vacate(demand, task.devices());
            }
        }
        for stopping in &worker.stopping {
            stock.occupy(&stopping.terms.demand, stopping.devices.as_deref());
        }
        assert_eq!(stock.normal(), worker.stock.normal(), "in use of {}", worker.name());
    }

    fn audit_backlog(&self, key: QueueKey, expected: &mut Expected) {
        let queue = self.queues.at(key);
        let name = &queue.setting.queue;
        expected.arm(queue.look_at, Timer::Backlog(key));
        let ready = expected.ready.remove(&key).unwrap_or_default();
        let (listed, oldest) = (self.waiting_in(key), ready.first().map(|(since, _, _)| *since));
        if !self.is_watched(key) {
            assert!(listed.is_empty(), "{name} has no threshold");
            return;
        }
        assert_eq!(listed, ready.iter().map(|(_, _, slot)| *slot).collect::<Vec<_>>(), "waiting in {name}");
        assert!(!queue.is_dirty, "the backlog of {name} was looked at");
        let thresholds = self.thresholds_of(&queue.setting);
        if let (Some(since), Some(age)) = (oldest, thresholds.age) {
            let is_known = queue.setting.passed.age || queue.setting.paused;
            assert!(is_known || queue.look_at <= since + age, "{name} is looked at in time");
        }
        let is_looked_at = queue.look_at != Timestamp::ZERO;
        let (depth, passed) = (ready.len() as u64, queue.setting.passed.depth);
        if let (Some(limit), true) = (thresholds.depth.map(u64::from), is_looked_at) {
            assert!(passed || depth < limit || queue.setting.paused, "{name} has a backlog of {depth}");
            assert!(!passed || depth > limit / 2, "the backlog of {name} is over");
        }
    }

    fn audit_terms_and_ready_queues(&self, expected: &Expected) {
        let mut users: BTreeMap<ReadyQueueKey, u32> = BTreeMap::new();
        for (key, count) in self.terms.users() {
            assert_eq!(expected.terms.get(&key), Some(&count), "users of {key:?}");
            *users.entry(self.terms.ready_queue(key)).or_default() += 1;
        }
        for parent in self.ready_queues.iter().filter_map(|(_, child)| child.parent) {
            *users.entry(parent).or_default() += 1;
        }
        for (key, ready_queue) in self.ready_queues.iter() {
            assert_eq!(Some(&ready_queue.users()), users.get(&key), "sets of terms that lead to {key:?}");
            let waiting: Vec<Slot> = ready_queue.ranked.iter_after(None, |slot| self.rank_of(slot)).collect();
            let ready = expected.waiting.get(&key).into_iter().flatten().map(|(_, slot)| *slot);
            assert_eq!(waiting, ready.collect::<Vec<_>>(), "the ranked list of {key:?}");
            let is_offered =
                ready_queue.parent.is_some() || !self.queues.at(ready_queue.queue).setting.paused;
            let first = self.first_of(key).filter(|_| is_offered);
            match (first, ready_queue.offer) {
                (None, offer) => assert_eq!(offer, ReadyOffer::Hidden, "{key:?}"),
                (
                    Some((first, _)),
                    ReadyOffer::Listed(rank) | ReadyOffer::Parked(_, rank) | ReadyOffer::Throttled(_, rank),
                ) => {
                    assert_eq!(rank, first, "{key:?}");
                }
                (Some(_), ReadyOffer::Hidden) => panic!("{key:?} has work and hides it"),
            }
            assert_eq!(
                self.groups.at(ready_queue.group).queue,
                ready_queue.queue,
                "{key:?} is in a group of its queue"
            );
            assert!(self.groups.at(ready_queue.group).ready_queues.contains(&key), "{key:?} is in its group");
        }
        let known: usize = self.groups.iter().map(|(_, group)| group.ready_queues.len()).sum();
        assert_eq!(known, self.ready_queues.iter().count(), "ready queues of groups");
    }

    fn audit_groups(&self) {
        for (key, group) in self.groups.iter() {
            assert!(!group.ready_queues.is_empty(), "{key:?} is not empty");
            assert!(self.queues.at(group.queue).groups.contains(&key), "{key:?} is one of its queue");
            let listed = group.ready_queues.iter().filter_map(|key| {
                let ready_queue = self.ready_queues.at(*key);
                match ready_queue.offer {
                    ReadyOffer::Listed(rank) => Some((ready_queue.parent, (rank, *key))),
                    ReadyOffer::Hidden | ReadyOffer::Parked(..) | ReadyOffer::Throttled(..) => None,
                }
            });
            let mut by_parent: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
            for (parent, entry) in listed {
                by_parent.entry(parent).or_default().insert(entry);
            }
            assert_eq!(group.open, by_parent.remove(&None).unwrap_or_default(), "open on {key:?}");
            for ready_queue in &group.ready_queues {
                let children = by_parent.remove(&Some(*ready_queue)).unwrap_or_default();
                assert_eq!(
                    self.ready_queues.at(*ready_queue).children,
                    children,
                    "children of {ready_queue:?}"
                );
            }
            assert!(by_parent.is_empty(), "the parents of {key:?} are there");
            for class in &self.queues.at(group.queue).classes {
                let can = offers(&self.classes.at(*class).spec.capabilities, &group.needs);
                assert_eq!(can, group.classes.contains(class), "{key:?} and {class:?}");
                assert_eq!(can, self.classes.at(*class).groups.contains(&key), "{class:?} and {key:?}");
            }
        }
        let demands: BTreeSet<DemandKey> = self.groups.iter().filter_map(|(_, group)| group.demand).collect();
        assert_eq!(demands.len(), self.demands.len(), "demands of groups");
        let known: usize = self.queues.iter().map(|queue| queue.groups.len()).sum();
        assert_eq!(known, self.groups.iter().count(), "groups of queues");
    }

    fn audit_classes(&self, expected: &Expected) {
        if let Some(by_best) = self.classes.by_best() {
            assert_eq!(*by_best, self.classes.find_by_best(), "classes by their best choice");
        }
        for (key, class) in self.classes.iter() {
            assert_eq!(Some(&class.users()), expected.class_users.get(&key), "users of {key:?}");
            assert_eq!(class.live, expected.class_live.get(&key).copied().unwrap_or(0), "live in {key:?}");
            assert_eq!(class.free, expected.free.get(&key).cloned().unwrap_or_default(), "free in {key:?}");
            let mut groups: BTreeMap<DemandKey, u32> = BTreeMap::new();
            for demand in class.groups.iter().filter_map(|group| self.groups.at(*group).demand) {
                *groups.entry(demand).or_default() += 1;
            }
            assert_eq!(groups.len(), class.demands.len(), "demands of {key:?}");
            for (demand, fitting) in &class.demands {
                assert_eq!(groups.get(demand), Some(&fitting.groups), "groups of {demand:?} in {key:?}");
                let free = expected.fitting.get(&(key, *demand)).cloned().unwrap_or_default();
                assert_eq!(fitting.free, free, "room for {demand:?} in {key:?}");
                let large = expected.large.get(&(key, *demand)).copied().unwrap_or(0);
                assert_eq!(fitting.live, large, "large enough for {demand:?} in {key:?}");
            }
        }
    }

    fn audit_tags(&self, expected: &Expected) {
        for (key, tag) in self.tags.entries() {
            assert_eq!(tag.in_use, expected.in_use.get(&key).copied().unwrap_or(0), "in use of {}", tag.name);
            assert!(
                tag.parked.is_empty() || !tag.has_room(),
                "ready queues wait for {}, which has room",
                tag.name
            );
            let parked = self.ready_queues.iter().filter_map(|(ready_queue, entry)| match entry.offer {
                ReadyOffer::Parked(parked, rank) if parked == key => Some((rank, ready_queue)),
                _ => None,
            });
            assert_eq!(tag.parked, parked.collect::<BTreeSet<_>>(), "parked at {}", tag.name);
            let ready_queues =
                self.ready_queues.iter().filter(|(_, ready_queue)| ready_queue.tags.contains(&key)).count();
            assert_eq!(tag.ready_queues() as usize, ready_queues, "ready queues of {}", tag.name);
            assert!(ready_queues > 0 || tag.is_set(), "no queue uses {}", tag.name);
        }
    }

    fn audit_arrays(&self, expected: &Expected) {
        for (key, array) in self.arrays.iter() {
            let record = &array.record;
            let id = record.id;
            assert_eq!(self.arrays.find(&id), Some(key), "array {id} is found by its id");
            let counts = expected.arrays.get(&key).copied().unwrap_or_default();
            assert_eq!(array.counts, counts, "counts of array {id}");
            assert!(array.kept() > 0, "array {id} has elements");
            let all: u64 = array.totals().iter().sum();
            assert_eq!(all, u64::from(record.size), "elements of array {id}");
            let is_due = self.unended_arrays.contains(&key);
            assert_eq!(array.has_ended(), record.end.is_some() || is_due, "the end of array {id}");
            let tag = self.tags.find_array(&record.namespace, id).expect("an array has its tag");
            assert_eq!(self.tags.at(tag).limit, record.limit, "the limit of array {id}");
            let awaited = Awaited::Array(key);
            let waiting = expected.dependents.get(&awaited).copied().unwrap_or(0);
            assert_eq!(self.edges.dependents(awaited).count(), waiting, "tasks that wait for array {id}");
        }
        assert_eq!(expected.arrays.len(), self.arrays.len(), "arrays of elements");
    }

    fn audit_buckets(&self, expected: &mut Expected) {
        for (key, bucket) in self.buckets.iter() {
            let (rate, of_owner) = match bucket.owner {
                BucketOwner::Tag(tag) => (self.tags.at(tag).rate, self.tags.at(tag).bucket),
                BucketOwner::Queue(queue) => {
                    (self.queues.at(queue).setting.rate, self.queues.at(queue).bucket)
                }
            };
            assert!(rate.is_some(), "{key:?} has a rate");
            assert_eq!(of_owner, Some(key), "the owner of {key:?}");
            let parked = self.ready_queues.iter().filter_map(|(ready_queue, entry)| match entry.offer {
                ReadyOffer::Throttled(parked, rank) if parked == key => Some((rank, ready_queue)),
                _ => None,
            });
            assert_eq!(bucket.parked, parked.collect::<BTreeSet<_>>(), "parked at {key:?}");
            assert!(
                bucket.parked.is_empty() || bucket.wakes_at != Timestamp::NEVER,
                "ready queues that wait at {key:?} are woken"
            );
            expected.arm(bucket.wakes_at, Timer::Token(key));
        }
        let rates = self.tags.iter().filter(|tag| tag.rate.is_some()).count()
            + self.queues.iter().filter(|queue| queue.setting.rate.is_some()).count();
        assert_eq!(self.buckets.iter().count(), rates, "a bucket for each rate");
    }

    fn audit_turns(&self) {
        let mut users: BTreeMap<ShareKey, u32> = BTreeMap::new();
        for key in self.queues.keys() {
            let queue = self.queues.at(key);
            let mut flows: BTreeMap<Option<ShareKey>, (u64, BTreeSet<ReadyQueueKey>)> = BTreeMap::new();
            for group in &queue.groups {
                for ready_queue in &self.groups.at(*group).ready_queues {
                    let entry = self.ready_queues.at(*ready_queue);
                    let (ready, ready_queues) = flows.entry(entry.share).or_default();
                    *ready += entry.ranked.len() as u64;
                    ready_queues.insert(*ready_queue);
                }
            }
            let Some(turns) = &queue.turns else {
                assert!(flows.keys().all(Option::is_none), "{} has no turns", queue.setting.queue);
                continue;
            };
            assert!(flows.keys().any(Option::is_some), "{} needs no turns", queue.setting.queue);
            for (share, flow) in turns.flows() {
                let (ready, ready_queues) = flows.remove(&share).unwrap_or_default();
                assert_eq!((flow.ready, &flow.ready_queues), (ready, &ready_queues), "the flow of {share:?}");
                if let Some(share) = share {
                    *users.entry(share).or_default() += 1;
                }
            }
            assert!(flows.is_empty(), "every key takes turns");
        }
        for (key, share) in self.shares.iter() {
            assert_eq!(share.users(), users.remove(&key).unwrap_or_default(), "queues of {}", share.name);
            assert!(share.users() > 0 || share.weight.is_some(), "no queue uses {}", share.name);
        }
        assert!(users.is_empty(), "every key is known");
    }

    fn audit_counts(&self, expected: &Expected) {
        for key in self.queues.keys() {
            let queue = self.queues.at(key);
            let name = &queue.setting.queue;
            assert_eq!(
                queue.counts,
                expected.queue_counts.get(&key).copied().unwrap_or_default(),
                "counts of {name}"
            );
            let by_priority = expected.queue_priorities.get(&key).cloned().unwrap_or_default();
            assert_eq!(queue.ready_by_priority, by_priority, "ready tasks of {name} by priority");
            assert_eq!(
                queue.live,
                expected.queue_live.get(&key).copied().unwrap_or(0),
                "live workers of {name}"
            );
            for class in &queue.classes {
                assert!(self.classes.at(*class).spec.queues.contains(&key), "{class:?} serves {name}");
            }
        }
        for (key, counts) in self.namespaces.iter() {
            assert_eq!(
                counts.tasks,
                expected.namespace_counts.get(&key).copied().unwrap_or_default(),
                "counts of {key:?}"
            );
            let workers = expected.namespace_workers.get(&key).copied().unwrap_or_default();
            assert_eq!((counts.live_workers, counts.lost_workers), workers, "workers of {key:?}");
        }
        for (slot, task) in self.tasks.iter_from(Slot(0)) {
            let children = task.extras.as_ref().map(|extras| extras.children.clone()).unwrap_or_default();
            let expected_children = expected.children.get(&slot).cloned().unwrap_or_default();
            assert_eq!(children, expected_children, "children of {}", task.id);
            let awaited = Awaited::Task(slot);
            let dependents = self.edges.dependents(awaited).count();
            let waiting = expected.dependents.get(&awaited).copied().unwrap_or(0);
            assert_eq!(dependents, waiting, "tasks that wait for {}", task.id);
        }
        for slot in &self.overdue {
            assert!(self.tasks.get(*slot).is_some(), "an overdue task is there");
        }
    }
}

impl Expected {
    fn arm(&mut self, at: Timestamp, timer: Timer) {
        if at != Timestamp::NEVER {
            self.timers.insert((at, timer));
        }
    }
}
