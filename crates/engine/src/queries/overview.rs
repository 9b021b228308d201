//! Overviews: queues, workers, limits, shares and counts of one namespace.

use std::collections::BTreeMap;

use crate::command::{
    Answer, Counts, Gauges, Held, LimitInfo, Peer, QueueGauge, QueueInfo, ResourceInfo, ShareInfo, WorkerInfo,
};
use crate::engine::Engine;
use crate::limits::QUEUES_SHOWN_MAX;
use crate::name::Name;
use crate::queues::Queue;
use crate::shares::{Share, ShareKey, WEIGHT_DEFAULT};
use crate::state::StateName;
use crate::tags::Tag;
use crate::time::Timestamp;
use crate::workers::Worker;

impl Engine {
    pub(crate) fn list_queues(&self, peer: &Peer) -> Answer {
        Answer::Queues(self.queues.of(&peer.namespace).map(|(_, queue)| self.queue_info(queue)).collect())
    }

    pub(crate) fn one_queue(&self, peer: &Peer, queue: &Name) -> Answer {
        let found = self.queues.find(&peer.namespace, queue);
        Answer::Queues(found.map(|key| self.queue_info(self.queues.at(key))).into_iter().collect())
    }

    fn queue_info(&self, queue: &Queue) -> QueueInfo {
        QueueInfo {
            queue: queue.setting.queue.clone(),
            paused: queue.setting.paused,
            counts: queue.counts,
            ready_by_priority: queue.depths(),
            live_workers: queue.live,
            ever_served: queue.setting.ever_served,
            unserved_since: queue.setting.unserved_since,
            oldest_ready: self.oldest_ready(queue),
            thresholds: self.thresholds_of(&queue.setting),
            passed: queue.setting.passed,
            rate: queue.setting.rate,
        }
    }

    /// Since when the longest-waiting task has been ready. A queue with a threshold looks at all its ready
    /// tasks, as its events do; any other queue at the first of each ready queue, because it keeps no list of
    /// all of them by age.
    fn oldest_ready(&self, queue: &Queue) -> Option<Timestamp> {
        if !self.thresholds_of(&queue.setting).is_none() {
            return self.waits_longest(queue);
        }
        let ready_queues = queue.groups.iter().flat_map(|group| &self.groups.at(*group).ready_queues);
        let first = ready_queues.filter_map(|ready_queue| self.ready_queues.at(*ready_queue).ranked.first());
        first.map(|slot| self.ready_since(slot)).min()
    }

    pub(crate) fn list_workers(&self, peer: &Peer) -> Answer {
        Answer::Workers(
            self.workers.of(&peer.namespace).map(|(_, worker)| self.worker_info(worker)).collect(),
        )
    }

    pub(crate) fn one_worker(&self, peer: &Peer, worker: &Name) -> Answer {
        let found = self.workers.find(&peer.namespace, worker);
        Answer::Workers(found.map(|key| self.worker_info(self.workers.at(key))).into_iter().collect())
    }

    pub(super) fn worker_info(&self, worker: &Worker) -> WorkerInfo {
        let held = worker.held_in_order().into_iter().map(|slot| {
            let task = self.tasks.at(slot);
            Held { task: task.id, attempt: task.attempt }
        });
        let resources = worker.stock.resources().map(|(name, used, total)| ResourceInfo {
            name: name.clone(),
            used,
            total,
        });
        WorkerInfo {
            worker: worker.name().clone(),
            presence: worker.presence_name(),
            since: worker.since(),
            last_seen: worker.last_seen,
            queues: worker.queues.clone(),
            capabilities: worker.capabilities.clone(),
            slots: worker.stock.slots,
            slots_used: worker.stock.slots_used,
            light_slots: worker.stock.light_slots,
            light_used: worker.stock.light_used,
            resources: resources.collect(),
            pulls: worker.pulls,
            held: held.collect(),
            suspended: worker.suspended as u32,
            stopping: worker.stopping.iter().map(|stopping| stopping.held).collect(),
            draining: worker.draining,
            crashes: worker.health.crashes,
            last_crash: worker.health.last_crash,
            quarantined_until: worker.health.quarantined_until,
            heartbeat: worker.heartbeat,
            lost_after: worker.lost_after,
            lease: worker.lease,
            about: worker.about.clone(),
            stats: worker.stats.as_deref().cloned(),
            profile: worker.health.profile.clone(),
        }
    }

    pub(crate) fn list_limits(&self, peer: &Peer) -> Answer {
        let tags = self.tags.iter().filter(|tag| tag.namespace == peer.namespace);
        Answer::Limits(tags.map(limit_info).collect())
    }

    pub(crate) fn list_shares(&self, peer: &Peer) -> Answer {
        let mut ready: BTreeMap<ShareKey, u64> = BTreeMap::new();
        for turns in self.queues.of(&peer.namespace).filter_map(|(_, queue)| queue.turns.as_ref()) {
            for (share, flow) in turns.flows() {
                if let Some(share) = share {
                    *ready.entry(share).or_default() += flow.ready;
                }
            }
        }
        let of_namespace = self.shares.iter().filter(|(_, share)| share.namespace == peer.namespace);
        let info = |(key, share): (ShareKey, &Share)| ShareInfo {
            share: share.name.clone(),
            weight: share.weight.unwrap_or(WEIGHT_DEFAULT),
            ready: ready.get(&key).copied().unwrap_or_default(),
        };
        Answer::Shares(of_namespace.map(info).collect())
    }

    /// Metrics of the whole broker.
    pub fn gauges(&self) -> Gauges {
        self.gauges_where(|_| true)
    }

    /// Metrics of one namespace.
    pub fn gauges_of(&self, namespace: &Name) -> Gauges {
        self.gauges_where(|other| other == namespace)
    }

    fn gauges_where(&self, is_meant: impl Fn(&Name) -> bool) -> Gauges {
        let mut gauges = Gauges::default();
        for queue in self.queues.iter().filter(|queue| is_meant(&queue.setting.namespace)) {
            for (sum, count) in gauges.by_state.iter_mut().zip(queue.counts) {
                *sum += count;
            }
            gauges.backlogged_queues += u64::from(queue.setting.passed.any());
            let oldest = self.oldest_ready(queue);
            gauges.oldest_ready = gauges.oldest_ready.into_iter().chain(oldest).min();
        }
        for tag in self.tags.iter().filter(|tag| tag.limit.is_some() && is_meant(&tag.namespace)) {
            gauges.limits.push((tag.namespace.clone(), limit_info(tag)));
        }
        (gauges.queues, gauges.queue_count) = self.largest_queues(is_meant);
        gauges
    }

    /// The queues with the most tasks that have not ended, the largest first, and how many queues there are.
    fn largest_queues(&self, is_meant: impl Fn(&Name) -> bool) -> (Vec<QueueGauge>, usize) {
        let unended = |queue: &Queue| {
            let counts = StateName::ALL.iter().zip(queue.counts);
            counts.filter(|(state, _)| !state.has_ended()).map(|(_, count)| count).sum::<u64>()
        };
        // The names decide between equal queues, so that the same queues are shown each time.
        let rank = |queue: &&Queue| {
            (std::cmp::Reverse(unended(queue)), queue.setting.namespace.clone(), queue.setting.queue.clone())
        };
        let mut queues: Vec<&Queue> =
            self.queues.iter().filter(|queue| is_meant(&queue.setting.namespace)).collect();
        let count = queues.len();
        if count > QUEUES_SHOWN_MAX {
            queues.select_nth_unstable_by_key(QUEUES_SHOWN_MAX, rank);
            queues.truncate(QUEUES_SHOWN_MAX);
        }
        queues.sort_by_cached_key(rank);
        let gauge = |queue: &Queue| QueueGauge {
            namespace: queue.setting.namespace.clone(),
            queue: queue.setting.queue.clone(),
            by_state: queue.counts,
            oldest_ready: self.oldest_ready(queue),
            live_workers: queue.live,
            paused: queue.setting.paused,
        };
        (queues.into_iter().map(gauge).collect(), count)
    }

    pub(crate) fn counts(&self, peer: &Peer) -> Answer {
        let mut counts = Counts { last_event: self.last_event(), ..Counts::default() };
        if let Some(key) = self.namespaces.find(&peer.namespace) {
            let of_namespace = self.namespaces.at(key);
            counts.by_state = of_namespace.tasks;
            counts.live_workers = of_namespace.live_workers;
            counts.lost_workers = of_namespace.lost_workers;
        }
        Answer::Counts(Box::new(counts))
    }
}

fn limit_info(tag: &Tag) -> LimitInfo {
    LimitInfo { tag: tag.name.clone(), limit: tag.limit, in_use: tag.in_use, rate: tag.rate }
}
