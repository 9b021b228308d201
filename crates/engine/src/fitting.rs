//! Which workers can take which demands. Every class lists, for each demand of its dispatch groups, the
//! workers with room for it, so that an assignment finds the best one without a search. The plain demand, one
//! slot, needs no list of its own: the free workers of the class are that list.

use crate::classes::{ClassKey, Fitting, WorkerRank};
use crate::demands::DemandKey;
use crate::dispatch_groups::GroupKey;
use crate::dispatch_order::{OfferRank, first_if_comparable, first_offer, goes_before};
use crate::engine::Engine;
use crate::id::WorkerKey;
use crate::queues::QueueKey;
use crate::ready_queues::ReadyQueueKey;
use crate::state::TaskState;
use crate::time::Timestamp;

impl Engine {
    /// One more dispatch group of this class has this demand.
    pub(crate) fn link_demand(&mut self, class: ClassKey, demand: DemandKey) {
        if let Some(fitting) = self.classes.at_mut(class).demands.get_mut(&demand) {
            fitting.groups += 1;
            return;
        }
        let mut fitting = Fitting { groups: 1, ..Fitting::default() };
        let wanted = self.demands.at(demand);
        for key in self.workers.keys() {
            let worker = self.workers.at_mut(key);
            if let Some((_, large_for)) = worker.large_for.as_mut().filter(|(of, _)| *of == class)
                && worker.stock.is_large_enough(wanted)
            {
                large_for.push(demand);
                fitting.live += 1;
            }
            if let Some((_, rank)) = worker.worker_rank.filter(|(of, _)| *of == class)
                && worker.stock.fits(wanted)
            {
                worker.fits.push(demand);
                fitting.free.insert(rank);
            }
        }
        self.classes.at_mut(class).demands.insert(demand, fitting);
    }

    /// One dispatch group less of this class has this demand.
    pub(crate) fn unlink_demand(&mut self, class: ClassKey, demand: DemandKey) {
        let demands = &mut self.classes.at_mut(class).demands;
        let fitting = demands.get_mut(&demand).expect("a class knows the demands of its groups");
        fitting.groups -= 1;
        if fitting.groups > 0 {
            return;
        }
        demands.remove(&demand);
        for key in self.workers.keys() {
            let worker = self.workers.at_mut(key);
            if worker.worker_rank.is_some_and(|(of, _)| of == class) {
                worker.fits.retain(|other| *other != demand);
            }
            if let Some((_, large_for)) = worker.large_for.as_mut().filter(|(of, _)| *of == class) {
                large_for.retain(|other| *other != demand);
            }
        }
    }

    /// Updates for which demands a worker counts as large enough, after its class, its size or whether it
    /// may take tasks has changed.
    pub(crate) fn recount_sizes(&mut self, key: WorkerKey) {
        if let Some((class, demands)) = self.workers.at_mut(key).large_for.take() {
            let class = self.classes.at_mut(class);
            for demand in demands {
                class.demands.get_mut(&demand).expect("a class knows its demands").live -= 1;
            }
        }
        self.workers.at_mut(key).large_for = self.large_for(key);
        if let Some((class, demands)) = &self.workers.at(key).large_for {
            let class = self.classes.at_mut(*class);
            for demand in demands {
                class.demands.get_mut(demand).expect("a class knows its demands").live += 1;
            }
        }
    }

    /// The demands for which a worker counts as large enough.
    pub(crate) fn large_for(&self, key: WorkerKey) -> Option<(ClassKey, Vec<DemandKey>)> {
        let worker = self.workers.at(key);
        let class = worker.class.filter(|_| worker.counted)?;
        let demands = self.classes.at(class).demands.keys().copied();
        let large = demands.filter(|demand| worker.stock.is_large_enough(self.demands.at(*demand)));
        Some((class, large.collect()))
    }

    /// Whether a worker has room for the tasks of a dispatch group now.
    pub(crate) fn has_room_for(&self, worker: WorkerKey, group: GroupKey) -> bool {
        let worker = self.workers.at(worker);
        match self.groups.at(group).demand {
            None => worker.has_slot(),
            Some(demand) => worker.stock.fits(self.demands.at(demand)),
        }
    }

    /// The workers of a class with room for the tasks of a dispatch group, best choice first.
    pub(crate) fn with_room(&self, class: ClassKey, group: GroupKey) -> impl Iterator<Item = &WorkerRank> {
        let class = self.classes.at(class);
        let free = match self.groups.at(group).demand {
            None => &class.free,
            Some(demand) => &class.demands[&demand].free,
        };
        free.iter()
    }

    /// Whether a worker keeps its room: the task for which it makes room is more urgent than all that it has
    /// room for, and than this one.
    pub(crate) fn keeps_room(
        &self,
        now: Timestamp,
        worker: WorkerKey,
        class: ClassKey,
        other: Option<(QueueKey, OfferRank, ReadyQueueKey)>,
    ) -> bool {
        let Some(reserved) = self.workers.at(worker).reserved else { return false };
        let group = self.groups.at(reserved);
        let Some((first, ready_queue)) = group.open.first().copied() else { return false };
        if self.has_room_for(worker, reserved) || self.is_blocked(now, ready_queue) {
            return false;
        }
        let kept = (group.queue, first, ready_queue);
        first_offer(self.open_for(worker, class).chain(other).chain([kept])) == Some(kept)
    }

    /// Whether a reserved worker still takes nothing but what is more urgent.
    pub(crate) fn keeps_its_room(&self, now: Timestamp, worker: WorkerKey) -> bool {
        self.workers
            .at(worker)
            .worker_rank
            .is_some_and(|(class, _)| self.keeps_room(now, worker, class, None))
    }

    /// The first ready queue of each dispatch group of this class whose tasks the worker has room for.
    pub(crate) fn open_for(
        &self,
        worker: WorkerKey,
        class: ClassKey,
    ) -> impl Iterator<Item = (QueueKey, OfferRank, ReadyQueueKey)> + Clone {
        let groups = self.classes.at(class).groups.iter();
        groups.filter_map(move |key| {
            let group = self.groups.at(*key);
            let (rank, ready_queue) = *group.open.first()?;
            self.has_room_for(worker, *key).then_some((group.queue, rank, ready_queue))
        })
    }

    /// The most urgent ready queue of this class, if the worker has room for its tasks and nothing that the class
    /// could take goes before them: then there is nothing to keep room for.
    pub(crate) fn first_if_room(&self, worker: WorkerKey, class: ClassKey) -> Option<ReadyQueueKey> {
        let groups = self.classes.at(class).groups.iter();
        let firsts = groups.filter_map(|key| {
            let group = self.groups.at(*key);
            let (rank, ready_queue) = *group.open.first()?;
            Some((group.queue, rank, (ready_queue, *key)))
        });
        let Ok(Some((_, _, (ready_queue, group)))) = first_if_comparable(firsts) else { return None };
        self.has_room_for(worker, group).then_some(ready_queue)
    }

    /// Reserves a worker for the most urgent task that has waited too long for room on it and is more urgent
    /// than one of this rank. Returns whether it did.
    pub(crate) fn reserve(
        &mut self,
        now: Timestamp,
        key: WorkerKey,
        queue: QueueKey,
        rank: OfferRank,
    ) -> bool {
        let worker = self.workers.at(key);
        if worker.pulls || worker.reserved.is_some() {
            return false;
        }
        let Some((class, _)) = worker.worker_rank else { return false };
        if self.classes.at(class).demands.is_empty() {
            return false;
        }
        let groups = self.classes.at(class).groups.iter();
        let starved: Vec<_> =
            groups.filter_map(|group| self.starved(now, key, *group, queue, rank)).collect();
        let Some((queue, first, group)) = first_offer(starved.into_iter()) else { return false };
        let Some((_, ready_queue)) = self.groups.at(group).open.first() else { return false };
        let kept = (queue, first, *ready_queue);
        if first_offer(self.open_for(key, class).chain([kept])) != Some(kept) {
            return false;
        }
        self.workers.at_mut(key).reserved = Some(group);
        self.reserved.insert(key);
        self.groups.at_mut(group).reserved = Some(key);
        true
    }

    /// The rank of a group's first task, if it has waited too long and this worker can make room for it.
    fn starved(
        &self,
        now: Timestamp,
        key: WorkerKey,
        group_key: GroupKey,
        queue: QueueKey,
        rank: OfferRank,
    ) -> Option<(QueueKey, OfferRank, GroupKey)> {
        let group = self.groups.at(group_key);
        let demand = group.demand?;
        let is_before = |first: &OfferRank| goes_before((group.queue, *first), (queue, rank));
        let (first, ready_queue) = *group.open.first().filter(|(first, _)| is_before(first))?;
        let TaskState::Ready { since } = self.tasks.at(self.first_task(ready_queue)).state else {
            return None;
        };
        let is_starved = group.reserved.is_none()
            && now.since(since) >= self.settings.reserve_after
            && self.workers.at(key).stock.is_large_enough(self.demands.at(demand))
            && !self.is_blocked(now, ready_queue);
        is_starved.then_some((group.queue, first, group_key))
    }

    /// The worker keeps no room any more.
    pub(crate) fn cancel_reservation(&mut self, key: WorkerKey) {
        if let Some(group) = self.workers.at_mut(key).reserved.take() {
            self.reserved.remove(&key);
            self.groups.at_mut(group).reserved = None;
            self.dirty.workers.push(key);
        }
    }

    /// A task of the group was assigned, or the group has no task to assign.
    pub(crate) fn end_reservation(&mut self, group: GroupKey) {
        if let Some(worker) = self.groups.at(group).reserved {
            self.cancel_reservation(worker);
        }
    }
}
