//! Ask: a pulling worker has a free slot. It gets one task, from the first of its queues that has one now,
//! else the first task to arrive in any of them.

use crate::command::{Peer, Reply};
use crate::engine::Engine;
use crate::id::WorkerKey;
use crate::limits::WORKER_QUEUES_MAX;
use crate::name::{self, Name};
use crate::ready_queues::ReadyQueueKey;
use crate::record::Output;
use crate::refusal::Refusal;
use crate::time::Timestamp;

impl Engine {
    pub(crate) fn take_ask(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        queues: &[Name],
        out: &mut dyn Output,
    ) -> Result<Reply, Refusal> {
        let key = self.worker_of(peer)?;
        if !self.workers.at(key).pulls {
            return Err(Refusal::BadValue {
                what: "ask",
                why: "is for workers that registered to fetch their tasks",
            });
        }
        if queues.is_empty() {
            return Err(Refusal::BadValue { what: "queues", why: "is empty: name at least one to ask" });
        }
        if queues.len() > WORKER_QUEUES_MAX {
            return Err(Refusal::TooMany { what: "queues", limit: WORKER_QUEUES_MAX });
        }
        queues.iter().try_for_each(|queue| name::check("queue", queue))?;
        self.check_queue_room(&peer.namespace, queues)?;
        self.stop_asking(key);
        self.serve_also(now, key, queues, out);
        let capabilities = self.workers.at(key).capabilities.clone();
        let class = self.retain_class(&peer.namespace, queues, &capabilities);
        self.workers.at_mut(key).asking = Some(class);
        self.reindex_worker(key);
        if queues.len() > 1
            && let Some(ready_queue) = self.first_ready_queue_in_order(now, peer, key, queues)
            && let slot = self.first_task(ready_queue)
            && !self.keeps_room_to_continue(key, slot)
        {
            self.assign(now, slot, key, out);
            self.reindex_worker(key);
        } else {
            self.dirty.workers.push(key);
        }
        Ok(Reply::Done)
    }

    pub(crate) fn unask(&mut self, peer: &Peer) -> Result<Reply, Refusal> {
        let key = self.worker_of(peer)?;
        self.stop_asking(key);
        Ok(Reply::Done)
    }

    pub(crate) fn stop_asking(&mut self, key: WorkerKey) {
        if let Some(class) = self.workers.at_mut(key).asking.take() {
            self.reindex_worker(key);
            self.release_class(class);
        }
    }

    /// A worker that asks for a queue also serves it. Beyond the limit, the queues it asked for longest ago
    /// are dropped.
    fn serve_also(&mut self, now: Timestamp, key: WorkerKey, queues: &[Name], out: &mut dyn Output) {
        let worker = self.workers.at(key);
        if queues.iter().all(|queue| worker.queues.contains(queue)) {
            return;
        }
        let mut all: Vec<Name> =
            worker.queues.iter().filter(|queue| !queues.contains(queue)).cloned().collect();
        all.extend(queues.iter().cloned());
        all.drain(..all.len().saturating_sub(WORKER_QUEUES_MAX));
        let capabilities = worker.capabilities.clone();
        self.join_class(now, key, &all, &capabilities, out);
        self.workers.at_mut(key).queues = all;
    }

    /// The most urgent ready queue of the first queue that has a task for this worker. The order of the
    /// queues takes precedence over priority, because the worker chose that order.
    fn first_ready_queue_in_order(
        &self,
        now: Timestamp,
        peer: &Peer,
        key: WorkerKey,
        queues: &[Name],
    ) -> Option<ReadyQueueKey> {
        let (class, _) = self.workers.at(key).worker_rank?;
        let groups = || {
            let groups = self.classes.at(class).groups.iter();
            groups.filter(|group| self.has_room_for(key, **group)).map(|group| self.groups.at(*group))
        };
        let may_go = |ready_queue: &ReadyQueueKey| !self.is_blocked(now, *ready_queue);
        queues.iter().find_map(|queue| {
            let queue = self.queues.find(&peer.namespace, queue)?;
            let of_queue = groups().filter(|group| group.queue == queue);
            let best =
                of_queue.filter_map(|group| group.open.iter().find(|(_, ready_queue)| may_go(ready_queue)));
            best.min().map(|(_, ready_queue)| *ready_queue)
        })
    }
}
