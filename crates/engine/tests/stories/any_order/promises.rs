//! The promises, each checked against what the records say.

use std::collections::BTreeSet;

use tenure_engine::command::{PresenceName, WorkerInfo};
use tenure_engine::{Answer, Event, Name, Query, StateName, Task, TaskState, Terms, Threshold, Why};

use super::world::{WorkerSide, World};

impl World {
    /// A task was just assigned; the mirror does not know it yet.
    pub(crate) fn check_assignment(&self, event: &Event, worker: &Name, asker: Option<usize>) {
        let id = event.task().expect("an assignment is about a task");
        let (task, terms) = &self.mirror.tasks[&id];
        assert_eq!(task.state.name(), StateName::Ready, "only a ready task is assigned");
        assert!(self.mirror.is_released(id), "{id} waits for nothing");
        let (index, side) = self.side(&terms.namespace, worker);
        let info = self.info(side);
        assert!(may_work(&info), "{worker} may not work: {info:?}");
        let spec = side.spec.as_ref().expect("it has registered");
        let has_room = |terms: &Terms| self.mirror.has_capacity(&terms.namespace, spec, &terms.demand);
        assert!(has_room(terms), "{worker} has no room for {:?}", terms.demand);
        assert!(can_take(side, &info, terms), "{worker} cannot take {terms:?}");
        assert!(self.mirror.is_free_to_go(terms), "held back by its queue or a tag: {terms:?}");
        // Nothing more urgent that this worker could take is passed over. A worker that asks for queues in order has chosen
        // another urgency.
        let order = |terms: &Terms| match (&side.asking, asker) {
            (Some(queues), Some(asker)) if asker == index => {
                queues.iter().position(|queue| *queue == terms.queue).unwrap_or(usize::MAX)
            }
            _ => 0,
        };
        let urgency = (order(terms), self.mirror.rank(task));
        for (other, its) in self.mirror.of_state(StateName::Ready) {
            // Within one level it may be the turn of another share key.
            let same_key = its.queue == terms.queue && its.share == terms.share;
            let turns = self.mirror.takes_turns(its) || self.mirror.takes_turns(terms);
            let same_level = self.mirror.level(other) == self.mirror.level(task);
            if turns && same_level && !same_key && order(its) == order(terms) {
                continue;
            }
            let is_free = self.mirror.is_free_to_go(its) && !self.mirror.is_rated(its);
            if (order(its), self.mirror.rank(other)) < urgency && is_free {
                // What is over but still listed occupies what it did.
                let could = can_take(side, &info, its) && has_room(its) && info.stopping.is_empty();
                assert!(!could, "{} is more urgent than {id}", other.id);
            }
        }
    }

    /// An attempt goes on; the mirror does not know it yet.
    pub(crate) fn check_continued(&self, event: &Event, worker: &Name) {
        let id = event.task().expect("this is about a task");
        let (task, terms) = &self.mirror.tasks[&id];
        if task.state.name() == StateName::Running {
            // It had nothing to wait for and kept its slot.
            return;
        }
        assert_eq!(task.state.name(), StateName::Suspended, "only a suspended task continues");
        assert!(self.mirror.is_released(id), "{id} waits for nothing");
        let (_, side) = self.side(&terms.namespace, worker);
        let info = self.info(side);
        assert_eq!(info.presence, PresenceName::Live);
        let spec = side.spec.as_ref().expect("it has registered");
        assert!(!is_paused(task), "no client wants {id} paused");
        assert!(self.mirror.has_room_again(spec, task, terms), "{worker} has room");
        assert!(self.mirror.limits_allow(terms), "its tags and its array have room");
        let rank = self.mirror.rank(task);
        for (other, its) in self.mirror.of_state(StateName::Ready) {
            // Within one level it may be the turn of another share key.
            let turns = self.mirror.takes_turns(its) && self.mirror.level(other) == self.mirror.level(task);
            let is_free = self.mirror.is_free_to_go(its) && !self.mirror.is_rated(its) && !turns;
            if may_work(&info) && self.mirror.rank(other) < rank && is_free {
                let could = can_take(side, &info, its)
                    && self.mirror.has_capacity(&its.namespace, spec, &its.demand)
                    && info.stopping.is_empty();
                let why = || self.broker.ask_in(&its.namespace, &Query::Explain { task: other.id });
                let is_reserved = || matches!(why(), Ok(Answer::Why { why: Why::Reserved { .. }, .. }));
                assert!(!could || is_reserved(), "{} is more urgent than {id}", other.id);
            }
        }
    }

    /// No attempt stays suspended that could continue.
    fn check_no_task_stays_suspended(&self) {
        for (task, terms) in self.mirror.of_state(StateName::Suspended) {
            let worker = &task.state.holding().expect("it is held").worker;
            let (_, side) = self.side(&terms.namespace, worker);
            let info = self.info(side);
            // What is over but still listed occupies what it did, and a more urgent attempt goes first.
            let spec = side.spec.as_ref().expect("it has registered");
            let is_free = info.presence == PresenceName::Live
                && info.stopping.is_empty()
                && self.mirror.has_room_again(spec, task, terms)
                && !self.mirror.of_state(StateName::Suspended).any(|(other, its)| {
                    its.namespace == terms.namespace
                        && other.state.holding().is_some_and(|holding| holding.worker == *worker)
                        && self.mirror.rank(other) < self.mirror.rank(task)
                });
            let has_room = self.mirror.limits_allow(terms);
            let could = self.mirror.is_released(task.id)
                && !is_paused(task)
                && is_free
                && has_room
                && self.is_reported_by_session(task);
            assert!(!could, "{} could continue on {worker}", task.id);
        }
    }

    /// Whether the worker of a suspended attempt has said over its present session that it waits.
    fn is_reported_by_session(&self, task: &Task) -> bool {
        let namespace = &self.mirror.tasks[&task.id].1.namespace;
        let Ok(Answer::Task(info)) = self.broker.ask_in(namespace, &Query::Show { task: task.id }) else {
            return false;
        };
        matches!(&info.state, TaskState::Suspended(suspension) if suspension.is_reported_by_session())
    }

    pub(crate) fn check_promises(&mut self) {
        self.check_retention();
        self.check_no_worker_idles();
        self.check_gpus();
        self.check_no_task_stays_suspended();
        self.check_beliefs();
        self.check_bytes();
        self.check_backlogs();
        self.check_no_waiting_task_is_forgotten();
        for namespace in ["a", "b"] {
            self.check_counts(namespace);
            self.check_arrays(namespace);
        }
    }

    /// No ready task waits while a worker could have it.
    fn check_no_worker_idles(&self) {
        let infos: Vec<(&WorkerSide, WorkerInfo)> = self
            .workers
            .iter()
            .filter(|side| self.is_known(side))
            .map(|side| (side, self.info(side)))
            .collect();
        for (task, terms) in self.mirror.of_state(StateName::Ready) {
            if !self.mirror.is_free_to_go(terms) {
                continue;
            }
            for (side, info) in &infos {
                // An attempt that is over but still listed occupies what it did.
                let spec = side.spec.as_ref().expect("it has registered");
                let has_room = info.stopping.is_empty()
                    && self.mirror.has_capacity(&terms.namespace, spec, &terms.demand);
                let idle = may_work(info) && has_room && can_take(side, info, terms);
                if !idle {
                    continue;
                }
                match self.broker.ask_in(&terms.namespace, &Query::Explain { task: task.id }) {
                    Ok(Answer::Why { why: Why::Reserved { .. }, .. }) => {}
                    Ok(Answer::Why {
                        why: Why::TagRate { next_at, .. } | Why::QueueRate { next_at, .. },
                        ..
                    }) if self.mirror.is_rated(terms) => {
                        assert!(next_at > self.broker.now, "{} could go since {next_at}", task.id);
                    }
                    other => panic!("{} waits while {} is free: {other:?}", task.id, info.worker),
                }
            }
        }
    }

    /// No gpu is given away twice, whatever its worker declares meanwhile.
    fn check_gpus(&self) {
        for side in &self.workers {
            for gpu in 0..2 {
                let used = self.mirror.gpu_use(&side.namespace, &side.name, gpu);
                assert!(used <= 1000, "gpu {gpu} of {} is used {used} thousandths", side.name);
            }
        }
        for (task, terms) in self.mirror.tasks.values() {
            let count = task.devices().map_or(0, |devices| devices.gpus.len() as u64);
            let needed =
                if task.state.name().is_held() { terms.demand.of("gpus").0.div_ceil(1000) } else { 0 };
            assert_eq!(count, needed, "gpus of {}", task.id);
        }
    }

    /// A task waits if and only if one of the tasks it waits for has not ended.
    fn check_no_waiting_task_is_forgotten(&self) {
        for (task, _) in self.mirror.of_state(StateName::Waiting) {
            assert!(!self.mirror.is_released(task.id), "{} waits for nothing", task.id);
        }
    }

    /// Every backlog has an event, and none that is over.
    fn check_backlogs(&self) {
        let queues = self.mirror.tasks.values().map(|(_, terms)| (&terms.namespace, &terms.queue));
        let known = self.mirror.thresholds.keys().map(|(namespace, queue)| (namespace, queue));
        for (namespace, queue) in queues.chain(known).collect::<BTreeSet<_>>() {
            let key = (namespace.clone(), queue.clone());
            let own = self.mirror.thresholds.get(&key).copied().flatten();
            let thresholds = own.unwrap_or(self.settings.backlog);
            let paused = self.mirror.paused.get(&key).copied().unwrap_or(false);
            let depth = self.mirror.waiting(namespace, queue).count() as u64;
            let oldest = self.mirror.waiting(namespace, queue).min();
            let age = oldest.map_or(0, |since| self.broker.now.since(since).as_millis() as u64);
            let limits = [
                (Threshold::Depth, depth, thresholds.depth.map(u64::from)),
                (Threshold::Age, age, thresholds.age.map(|age| age.as_millis() as u64)),
            ];
            for (threshold, value, limit) in limits {
                let told = self.mirror.backlogs.contains(&(namespace.clone(), queue.clone(), threshold));
                let is_past = !paused && limit.is_some_and(|limit| value >= limit);
                let is_over = limit.is_none_or(|limit| value <= limit / 2);
                assert!(told || !is_past, "{queue} does not tell that its {threshold:?} is {value}");
                assert!(!told || !is_over, "{queue} does not tell that its {threshold:?} is {value} only");
            }
        }
    }

    /// Only the worker that the records name holds a current attempt.
    fn check_beliefs(&self) {
        let mut current = BTreeSet::new();
        for side in &self.workers {
            for (id, attempt) in &side.believes {
                let Some((task, terms)) = self.mirror.tasks.get(id) else { continue };
                assert!(*attempt <= task.attempt, "no worker is ahead of the broker");
                let Some(holding) = task.state.holding().filter(|_| task.attempt == *attempt) else {
                    continue;
                };
                assert_eq!((&side.namespace, &side.name), (&terms.namespace, &holding.worker));
                assert!(current.insert(*id), "one attempt of {id} at a time");
            }
        }
    }

    /// Exactly the ended tasks that should be kept are kept, and everything else is there.
    fn check_retention(&mut self) {
        let mut ended: Vec<(u64, Task)> = self
            .mirror
            .tasks
            .values()
            .filter_map(|(task, _)| Some((task.state.end()?.event, task.clone())))
            .collect();
        ended.sort_by_key(|(event, _)| *event);
        let too_many = ended.len().saturating_sub(self.settings.ended_kept);
        for (index, (_, task)) in ended.into_iter().enumerate() {
            let at = task.state.end().expect("it has ended").at;
            let too_old = at + self.settings.ended_kept_for <= self.broker.now;
            if index < too_many || too_old {
                self.mirror.tasks.remove(&task.id);
            }
        }
        let mut count = 0;
        self.broker.engine.scan_tasks(None, usize::MAX, &mut |task, terms, _| {
            count += 1;
            let (mirrored, its) = self.mirror.tasks.get(&task.id).expect("what is there should be there");
            assert_eq!((task.age, task.attempt), (mirrored.age, mirrored.attempt));
            assert_eq!((task.state.name(), terms), (mirrored.state.name(), its));
        });
        assert_eq!(count, self.mirror.tasks.len(), "what should be there is there");
        assert_eq!(self.broker.engine.last_event(), self.mirror.last_event);
    }

    /// Bytes that were accepted belong to a task or were freed.
    fn check_bytes(&self) {
        let used: BTreeSet<u64> = self.mirror.blobs().map(tenure_engine::Blob::at).collect();
        let unfreed: BTreeSet<u64> = self.accepted.difference(&self.freed).copied().collect();
        assert_eq!(unfreed, used, "bytes are kept exactly as long as a task needs them");
    }

    /// Counts equal a recount.
    fn check_counts(&self, namespace: &str) {
        let mut by_state = [0; StateName::COUNT];
        let of_space = || self.mirror.tasks.values().filter(|(_, terms)| &*terms.namespace == namespace);
        for (task, _) in of_space() {
            by_state[task.state.name() as usize] += 1;
        }
        let Ok(Answer::Counts(counts)) = self.broker.ask_in(namespace, &Query::Counts) else {
            panic!("no counts")
        };
        assert_eq!(counts.by_state, by_state);
        let Ok(Answer::Queues(queues)) = self.broker.ask_in(namespace, &Query::Queues) else {
            panic!("no queues")
        };
        for info in queues {
            let mut by_state = [0; StateName::COUNT];
            for (task, _) in of_space().filter(|(_, terms)| terms.queue == info.queue) {
                by_state[task.state.name() as usize] += 1;
            }
            assert_eq!(info.counts, by_state, "{}", info.queue);
        }
        let Ok(Answer::Limits(limits)) = self.broker.ask_in(namespace, &Query::Limits) else {
            panic!("no limits")
        };
        for info in limits {
            assert_eq!(info.in_use, self.mirror.in_use(namespace, &info.tag), "{}", info.tag);
        }
    }

    /// The arrays are those of which an element is kept, and their counts equal a recount of all elements.
    fn check_arrays(&self, namespace: &str) {
        let Ok(Answer::Arrays { arrays, next: None }) =
            self.broker.ask_in(namespace, &Query::Arrays { cursor: None, limit: 1000 })
        else {
            panic!("no arrays")
        };
        let expected: Vec<_> =
            self.mirror.kept_arrays().filter(|array| &*array.record.namespace == namespace).collect();
        assert_eq!(arrays.len(), expected.len(), "arrays of {namespace}");
        for info in arrays {
            let array = &self.mirror.arrays[&info.id];
            assert_eq!(info.counts, array.counts(), "array {}", info.id);
            assert_eq!(info.counts.iter().sum::<u64>(), u64::from(info.size));
            assert_eq!(info.limit, array.record.limit);
            let all_ended = array.elements.values().all(|state| state.has_ended());
            assert_eq!(array.has_ended, all_ended, "the end of {} has an event", info.id);
            assert_eq!(info.state.has_ended(), all_ended);
        }
    }

    fn side(&self, namespace: &Name, worker: &Name) -> (usize, &WorkerSide) {
        let found = self
            .workers
            .iter()
            .enumerate()
            .find(|(_, side)| side.namespace == *namespace && side.name == *worker);
        found.expect("the worker is one of ours")
    }

    fn is_known(&self, side: &WorkerSide) -> bool {
        self.infos(&side.namespace).iter().any(|info| info.worker == side.name)
    }

    fn info(&self, side: &WorkerSide) -> WorkerInfo {
        let found = self.infos(&side.namespace).into_iter().find(|info| info.worker == side.name);
        found.expect("the worker is known")
    }

    fn infos(&self, namespace: &str) -> Vec<WorkerInfo> {
        match self.broker.ask_in(namespace, &Query::Workers) {
            Ok(Answer::Workers(infos)) => infos,
            other => panic!("{other:?}"),
        }
    }
}

fn may_work(info: &WorkerInfo) -> bool {
    info.presence == PresenceName::Live && !info.draining && info.quarantined_until.is_none()
}

/// By what it said of itself: queues and capabilities, and that it asks if it has to.
fn can_take(side: &WorkerSide, info: &WorkerInfo, terms: &Terms) -> bool {
    let spec = side.spec.as_ref().expect("it has registered");
    let queues = if info.pulls { side.asking.as_ref() } else { Some(&spec.queues) };
    side.namespace == terms.namespace
        && queues.is_some_and(|queues| queues.contains(&terms.queue))
        && terms.needs.iter().all(|need| spec.capabilities.contains(need))
}

/// Whether a worker keeps the attempt stopped until a client resumes it.
pub(crate) fn is_paused(task: &Task) -> bool {
    matches!(&task.state, TaskState::Suspended(suspension) if suspension.is_paused())
}
