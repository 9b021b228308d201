//! Assignment: which worker gets which task. Events drive it: a ready queue that got a task looks for a free
//! worker, and a worker that got a free slot looks for a ready queue. Neither looks past the first task of a
//! ready queue.

use std::time::Duration;

use crate::blob::Which;
use crate::buckets::BucketKey;
use crate::classes::{ClassKey, SCANNED_MAX, WorkerRank};
use crate::dispatch_order::{OfferRank, first_offer};
use crate::engine::Engine;
use crate::event::EventData;
use crate::id::{Slot, WorkerKey};
use crate::notice::{Assignment, Notice};
use crate::ordered_set::OrderedSet;
use crate::ready_queues::{ReadyOffer, ReadyQueueKey};
use crate::record::Output;
use crate::state::{Holding, TaskState};
use crate::tags::TagKey;
use crate::terms::OnLost;
use crate::time::Timestamp;

/// How many unconfirmed tasks a free worker examines before it stays idle.
const TAKE_BACK_LOOKS: usize = 16;

impl Engine {
    /// Matches tasks and workers until no further assignment is possible.
    pub(crate) fn assign_tasks(&mut self, now: Timestamp, out: &mut dyn Output) {
        if self.dirty.is_settled() {
            return;
        }
        loop {
            // A dirty entry may be gone by now or its slot reused. A superfluous check is harmless.
            let mut ready_queues = std::mem::take(&mut self.dirty.ready_queues);
            ready_queues.retain(|ready_queue| self.ready_queues.has(*ready_queue));
            for ready_queue in &ready_queues {
                self.ready_queues.at_mut(*ready_queue).is_dirty = false;
            }
            // Index all workers before assigning anything, so that the most urgent task goes first, and to
            // the least loaded worker, whatever the order in which they were marked dirty.
            for index in 0..self.dirty.workers.len() {
                let worker = self.dirty.workers[index];
                if self.workers.has(worker) {
                    self.reindex_worker(worker);
                }
            }
            for ready_queue in &ready_queues {
                self.reindex_ready_queue(*ready_queue);
            }
            for worker in self.list_parked(&mut ready_queues) {
                self.fill(now, worker, out);
            }
            for ready_queue in &ready_queues {
                self.serve(now, *ready_queue, out);
            }
            // The list is kept for its capacity.
            ready_queues.clear();
            if self.dirty.ready_queues.is_empty() {
                self.dirty.ready_queues = ready_queues;
            }
            if !self.dirty.ready_queues.is_empty()
                || !self.dirty.tags.is_empty()
                || !self.dirty.buckets.is_empty()
            {
                continue;
            }
            if std::mem::take(&mut self.dirty.reservations) {
                let reserved = self.reserved.iter().copied();
                let freed: Vec<_> = reserved.filter(|key| !self.keeps_its_room(now, *key)).collect();
                self.dirty.workers.extend(freed);
                self.dirty.workers.extend(self.freed_by_full_tags());
            }
            match self.dirty.workers.pop() {
                Some(worker) if self.workers.has(worker) => self.fill(now, worker, out),
                Some(_) => {}
                None => return,
            }
        }
    }

    /// Lists the ready queues that waited for a tag that has room again, or for a token that is there. It lists
    /// all of them, because the most urgent may be blocked by another tag or have no worker. Those that find
    /// the tag full or no token are parked again when a worker reaches them. Returns the workers of suspended tasks that waited for such a tag:
    /// these look first, or tasks of other workers would always be faster.
    fn list_parked(&mut self, ready_queues: &mut Vec<ReadyQueueKey>) -> Vec<WorkerKey> {
        let mut workers = Vec::new();
        for tag in std::mem::take(&mut self.dirty.tags) {
            if !self.tags.has(tag) || !self.tags.at(tag).has_room() {
                continue;
            }
            let from = ready_queues.len();
            ready_queues.extend(self.tags.at(tag).parked.iter().map(|(_, ready_queue)| *ready_queue));
            for ready_queue in &ready_queues[from..] {
                self.reindex_ready_queue(*ready_queue);
            }
            workers.extend(self.list_continuing(tag));
        }
        for bucket in std::mem::take(&mut self.dirty.buckets) {
            // A bucket that is asleep again has been looked at since.
            if !self.buckets.has(bucket) || self.buckets.at(bucket).wakes_at != Timestamp::NEVER {
                continue;
            }
            let from = ready_queues.len();
            ready_queues.extend(self.buckets.at(bucket).parked.iter().map(|(_, ready_queue)| *ready_queue));
            for ready_queue in &ready_queues[from..] {
                self.reindex_ready_queue(*ready_queue);
            }
        }
        workers
    }

    /// Finds workers for a ready queue until it is empty, blocked, or no worker is free.
    fn serve(&mut self, now: Timestamp, ready_queue: ReadyQueueKey, out: &mut dyn Output) {
        let ready_queue = self.ready_queues.at(ready_queue).parent.unwrap_or(ready_queue);
        let mut reserved = Vec::new();
        while let ReadyOffer::Listed(_) = self.ready_queues.at(ready_queue).offer {
            let Some(worker) = self.best_worker(now, ready_queue, &reserved) else { return };
            // The worker takes the most urgent task it can, which may be one of another ready queue.
            let took = self.take_one(now, worker, out);
            self.reindex_worker(worker);
            if took {
                continue;
            }
            if self.workers.at(worker).reserved.is_none() && self.workers.at(worker).continuing.is_empty() {
                return;
            }
            // A worker that keeps its room is no choice for this ready queue, but another may be.
            reserved.push(self.workers.at(worker).name().clone());
        }
    }

    /// Assigns tasks to a worker until it is full or no task is left for it.
    fn fill(&mut self, now: Timestamp, worker: WorkerKey, out: &mut dyn Output) {
        while self.take_one(now, worker, out) {}
        self.reindex_worker(worker);
        self.take_back_for(now, worker, out);
    }

    /// Assigns one task to this free worker. Returns whether it did. The worker's place among the free
    /// workers is not updated yet: it may take more.
    fn take_one(&mut self, now: Timestamp, worker: WorkerKey, out: &mut dyn Output) -> bool {
        let urgent = self.most_urgent(now, worker);
        if let Some(slot) = self.next_continuing(worker, urgent.map(|(_, slot)| slot)) {
            self.continue_attempt(now, slot, out);
            return true;
        }
        let Some((ready_queue, slot)) = urgent else { return false };
        let better = self.prefer(now, ready_queue, slot, worker);
        if better != worker
            && let Some((_, slot)) = self.most_urgent(now, better)
        {
            // The worker takes its most urgent task, which may be a different one.
            self.assign(now, slot, better, out);
            self.reindex_worker(better);
        } else {
            // Either it is the best choice, or the better one keeps its room for another task.
            self.assign(now, slot, worker, out);
        }
        true
    }

    /// The first task the worker could take. Parks the ready queues that it finds waiting for a tag or a token.
    fn most_urgent(&mut self, now: Timestamp, worker: WorkerKey) -> Option<(ReadyQueueKey, Slot)> {
        let class = self.class_to_serve(worker)?;
        if !self.workers.at(worker).has_slot() && self.classes.at(class).demands.is_empty() {
            return None;
        }
        loop {
            // Most often the first of all has room. Only what goes before a task can have room kept for it.
            let (ready_queue, behind) = match self.first_if_room(worker, class) {
                Some(ready_queue) => (ready_queue, None),
                None => {
                    let (queue, rank, ready_queue) = first_offer(self.open_for(worker, class))?;
                    (ready_queue, Some((queue, rank)))
                }
            };
            if let Some(tag) = self.full_tag(ready_queue) {
                self.park(ready_queue, tag);
            } else if let Some(bucket) = self.empty_bucket(now, ready_queue) {
                self.throttle(ready_queue, bucket);
            } else if let Some((queue, rank)) = behind
                && (self.keeps_room(now, worker, class, None) || self.reserve(now, worker, queue, rank))
            {
                return None;
            } else {
                let slot = self.first_task(ready_queue);
                let keeps_room = self.keeps_room_to_continue(worker, slot);
                return Some((ready_queue, slot)).filter(|_| !keeps_room);
            }
        }
    }

    /// Sends a ready task to a worker.
    pub(crate) fn assign(&mut self, now: Timestamp, slot: Slot, worker: WorkerKey, out: &mut dyn Output) {
        self.take_tokens(now, slot);
        self.charge_turn(slot);
        let next_event = self.next_event;
        let entry = self.workers.at_mut(worker);
        entry.last_assigned = next_event;
        // Each ask is good for one task.
        let asked = entry.asking.take();
        let name = entry.name().clone();
        let session = entry.session().expect("a free worker has a session");
        let starts_on_assign = entry.starts_on_assign;
        if let Some(class) = asked {
            self.reindex_worker(worker);
            self.release_class(class);
        }
        let task = self.tasks.at_mut(slot);
        task.attempt += 1;
        if let Some(extras) = &mut task.extras {
            extras.suspended_for = Duration::ZERO;
        }
        let terms = self.terms.get(task.terms);
        let mut devices = None;
        if !terms.demand.resources.is_empty() {
            let chosen = self.workers.at(worker).stock.choose(&terms.demand);
            devices = (!chosen.is_empty()).then(|| Box::new(chosen));
        }
        let group = self.ready_queues.at(self.terms.ready_queue(task.terms)).group;
        let starts_now = starts_on_assign && terms.on_lost != OnLost::Requeue;
        let holding = Holding {
            worker: name.clone(),
            key: worker,
            place: 0,
            since: now,
            started_at: None,
            intent: None,
            progress: None,
            devices,
            // The number of the assignment's event. The timeout starts when the notice leaves (`mark_sent.rs`).
            waits_for: self.next_event,
            told_at: Timestamp::NEVER,
            check_at: Timestamp::NEVER,
        };
        self.unsent_attempts.push_back((self.next_event, slot));
        self.become_state(
            now,
            slot,
            TaskState::Assigned(Box::new(holding)),
            EventData::Assigned { worker: name },
            out,
        );
        if starts_now {
            self.mark_started(now, slot, out);
        }
        self.end_reservation(group);
        let assignment = self.assignment(slot);
        out.notice(session, Notice::Assign(Box::new(assignment)));
    }

    fn assignment(&self, slot: Slot) -> Assignment {
        let task = self.tasks.at(slot);
        Assignment {
            task: task.id,
            attempt: task.attempt,
            priority: task.priority,
            body: self.body_of(task),
            checkpoint: Which::Checkpoint.of(task),
            terms: self.terms.get(task.terms).clone(),
            name: task.name().cloned(),
            parent: task.parent(),
            after: self.dependencies_info(slot),
            submitted_at: task.submitted_at,
            crashes: task.crashes,
            failures: task.failures,
            devices: task.devices().cloned().unwrap_or_default(),
            trace: task.trace().cloned().map(Box::new),
        }
    }

    /// The worker to send this task to: the given one, unless the task crashed on it and another is free.
    fn prefer(&self, now: Timestamp, ready_queue: ReadyQueueKey, slot: Slot, worker: WorkerKey) -> WorkerKey {
        let Some(extras) = &self.tasks.at(slot).extras else { return worker };
        if !extras.crashed_on.contains(self.workers.at(worker).name()) {
            return worker;
        }
        self.best_worker(now, ready_queue, &extras.crashed_on).unwrap_or(worker)
    }

    /// The best free worker for a ready queue, except the named ones.
    fn best_worker(
        &self,
        now: Timestamp,
        ready_queue: ReadyQueueKey,
        without: &[crate::Name],
    ) -> Option<WorkerKey> {
        let group = self.ready_queues.at(ready_queue).group;
        let first = self.first_task(ready_queue);
        let best_of = |class: ClassKey| {
            let allowed = |worker_rank: &&WorkerRank| {
                let worker = worker_rank.worker;
                let is_named = || without.contains(self.workers.at(worker).name());
                (without.is_empty() || !is_named())
                    && !self.keeps_room(now, worker, class, None)
                    && !self.keeps_room_to_continue(worker, first)
            };
            self.with_room(class, group).find(allowed).copied()
        };
        let classes = &self.groups.at(group).classes;
        if let Some(by_best) = self.classes.by_best()
            && classes.len() > SCANNED_MAX
            && self.groups.at(group).demand.is_none()
        {
            // If the classes in front serve other queues, a look at each class of the group is no more work.
            let mut looks = classes.len();
            let mut best: Option<WorkerRank> = None;
            for (rank, class) in by_best {
                if best.is_some_and(|best| best < *rank) || looks == 0 {
                    break;
                }
                looks -= 1;
                if self.classes.at(*class).groups.contains(&group) {
                    best = best.into_iter().chain(best_of(*class)).min();
                }
            }
            if looks > 0 {
                return best.map(|best| best.worker);
            }
        }
        let best = classes.iter().filter_map(|class| best_of(*class));
        Some(best.min()?.worker)
    }

    pub(crate) fn full_tag(&self, ready_queue: ReadyQueueKey) -> Option<TagKey> {
        self.ready_queues.at(ready_queue).tags.iter().copied().find(|tag| !self.tags.at(*tag).has_room())
    }

    /// Whether a tag or a rate keeps the tasks of a ready queue from being handed out now.
    pub(crate) fn is_blocked(&self, now: Timestamp, ready_queue: ReadyQueueKey) -> bool {
        self.full_tag(ready_queue).is_some() || self.empty_bucket(now, ready_queue).is_some()
    }

    fn park(&mut self, ready_queue: ReadyQueueKey, tag: TagKey) {
        let (rank, _) = self.first_of(ready_queue).expect("a listed ready queue has a task");
        self.set_offer(ready_queue, ReadyOffer::Parked(tag, rank));
    }

    /// Updates a ready queue's offer, or its parent's, after its first task or its turn changed.
    pub(crate) fn reindex_ready_queue(&mut self, mut key: ReadyQueueKey) {
        if let Some(parent) = self.ready_queues.at(key).parent {
            self.reindex_child(key);
            key = parent;
        }
        let ready_queue = self.ready_queues.at(key);
        let paused = self.queues.at(ready_queue.queue).setting.paused;
        let first = if paused { None } else { self.first_of(key) };
        let offer = match (first, ready_queue.offer) {
            (None, _) => ReadyOffer::Hidden,
            (Some((rank, _)), ReadyOffer::Parked(tag, _)) if !self.tags.at(tag).has_room() => {
                ReadyOffer::Parked(tag, rank)
            }
            (Some((rank, _)), ReadyOffer::Throttled(bucket, _)) if self.is_asleep(bucket) => {
                ReadyOffer::Throttled(bucket, rank)
            }
            (Some((rank, _)), _) => ReadyOffer::Listed(rank),
        };
        self.set_offer(key, offer);
    }

    pub(crate) fn set_offer(&mut self, key: ReadyQueueKey, offer: ReadyOffer) {
        let ready_queue = self.ready_queues.at_mut(key);
        if ready_queue.offer == offer {
            return;
        }
        let before = std::mem::replace(&mut ready_queue.offer, offer);
        if let Some((rank, offers)) = self.offers_with(key, before) {
            offers.remove(&(rank, key));
        }
        if let Some((rank, offers)) = self.offers_with(key, offer) {
            offers.insert((rank, key));
        }
        let group = self.ready_queues.at(key).group;
        if self.groups.at(group).open.is_empty() {
            self.end_reservation(group);
        }
    }

    /// Where a ready queue with this offer is listed, and its rank there.
    fn offers_with(
        &mut self,
        key: ReadyQueueKey,
        offer: ReadyOffer,
    ) -> Option<(OfferRank, &mut OrderedSet<(OfferRank, ReadyQueueKey)>)> {
        Some(match offer {
            ReadyOffer::Hidden => return None,
            ReadyOffer::Parked(tag, rank) => (rank, &mut self.tags.at_mut(tag).parked),
            ReadyOffer::Throttled(bucket, rank) => (rank, &mut self.buckets.at_mut(bucket).parked),
            ReadyOffer::Listed(rank) => match self.ready_queues.at(key).parent {
                Some(parent) => (rank, &mut self.ready_queues.at_mut(parent).children),
                None => (rank, &mut self.groups.at_mut(self.ready_queues.at(key).group).open),
            },
        })
    }

    /// Whether ready queues wait for the timer of this bucket.
    fn is_asleep(&self, bucket: BucketKey) -> bool {
        self.buckets.at(bucket).wakes_at != Timestamp::NEVER
    }

    /// Updates a worker's rank among the free workers after its load or its asks changed.
    pub(crate) fn reindex_worker(&mut self, key: WorkerKey) {
        let worker_rank = self.worker_rank_of(key);
        if worker_rank.is_none() {
            self.cancel_reservation(key);
        }
        let worker = self.workers.at_mut(key);
        let has_slot = worker.has_slot();
        let before = std::mem::replace(&mut worker.worker_rank, worker_rank);
        let had_slot = std::mem::replace(&mut worker.has_slot, has_slot);
        let has_demands = |class: Option<(ClassKey, _)>| {
            class.is_some_and(|(class, _)| !self.classes.at(class).demands.is_empty())
        };
        if (before, had_slot) == (worker_rank, has_slot) && !has_demands(worker_rank) {
            return;
        }
        if let Some((class, worker_rank)) = before {
            if had_slot {
                self.classes.remove_free(class, &worker_rank);
            }
            let class = self.classes.at_mut(class);
            for demand in worker.fits.drain(..) {
                class.demands.get_mut(&demand).expect("a class knows its demands").free.remove(&worker_rank);
            }
        }
        if let Some((class, worker_rank)) = worker_rank {
            if has_slot {
                self.classes.add_free(class, worker_rank);
            }
            let class = self.classes.at_mut(class);
            for (demand, fitting) in &mut class.demands {
                if worker.stock.fits(self.demands.at(*demand)) {
                    fitting.free.insert(worker_rank);
                    worker.fits.push(*demand);
                }
            }
        }
    }

    /// A worker's rank among those that may get a task, or `None` if it may not or does not ask.
    pub(crate) fn worker_rank_of(&self, key: WorkerKey) -> Option<(ClassKey, WorkerRank)> {
        let class = self.class_to_serve(key)?;
        let worker = self.workers.at(key);
        let worker_rank = WorkerRank {
            load_permille: worker.load_permille(),
            recent_crashes: worker.health.recent_crashes.len() as u32,
            last_assigned: worker.last_assigned,
            worker: key,
        };
        Some((class, worker_rank))
    }

    /// The class in which a worker may get a task, if it has room for one.
    fn class_to_serve(&self, key: WorkerKey) -> Option<ClassKey> {
        let worker = self.workers.at(key);
        let class = if worker.pulls { worker.asking } else { worker.class };
        class.filter(|_| worker.may_work())
    }

    /// Takes back a task that another worker holds unconfirmed, so that this idle worker may have it. The
    /// task becomes ready like any other: if that frees a tag for which a more urgent task waits, the more
    /// urgent task goes first.
    fn take_back_for(&mut self, now: Timestamp, worker: WorkerKey, out: &mut dyn Output) {
        let Some((class, _)) = self.workers.at(worker).worker_rank else { return };
        let candidates = self.overdue.iter().take(TAKE_BACK_LOOKS).copied();
        let found = candidates.into_iter().find(|slot| self.may_move_to(now, *slot, class, worker));
        if let Some(slot) = found {
            self.take_back_unconfirmed(now, slot, out);
        }
    }

    fn may_move_to(&self, now: Timestamp, slot: Slot, class: ClassKey, worker: WorkerKey) -> bool {
        let task = self.tasks.at(slot);
        let key = self.terms.ready_queue(task.terms);
        let ready_queue = self.ready_queues.at(key);
        let rank = self.offer_rank(slot, self.turn_of(key));
        let offered = ready_queue.parent.unwrap_or(key);
        let holder = task.state.holding().expect("an overdue task is assigned").key;
        let crashed_here = task
            .extras
            .as_ref()
            .is_some_and(|extras| extras.crashed_on.contains(self.workers.at(worker).name()));
        // The task leaves its tags and joins them again. If a limit was lowered meanwhile, the task has to
        // wait.
        let has_room = |tag: &TagKey| {
            let tag = self.tags.at(*tag);
            tag.limit.is_none_or(|limit| tag.in_use <= limit)
        };
        self.classes.at(class).groups.contains(&ready_queue.group)
            && self.has_room_for(worker, ready_queue.group)
            && !self.keeps_room(now, worker, class, Some((ready_queue.queue, rank, offered)))
            && !self.keeps_room_to_continue(worker, slot)
            && ready_queue.tags.iter().all(has_room)
            && !crashed_here
            && !self.queues.at(ready_queue.queue).setting.paused
            && self.workers.at(holder).load_permille() > self.workers.at(worker).load_permille()
    }
}
