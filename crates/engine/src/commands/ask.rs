//! Ask: a worker that fetches for itself has a free hand. It gets one task, from the first of its queues that has one
//! for it now, else whichever comes first.

use crate::classes::offers;
use crate::command::{Peer, Reply};
use crate::engine::Engine;
use crate::id::WorkerKey;
use crate::lanes::{LaneKey, Stand};
use crate::limits::WORKER_QUEUES_MAX;
use crate::name::{self, Name};
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
                why: "is for workers that registered to fetch for themselves",
            });
        }
        if queues.is_empty() || queues.len() > WORKER_QUEUES_MAX {
            return Err(Refusal::TooMany { what: "queues", limit: WORKER_QUEUES_MAX });
        }
        for queue in queues {
            name::check("queue", queue)?;
            self.check_queue_room(&peer.namespace, queue)?;
        }
        self.serve_also(now, key, queues, out)?;
        self.stop_asking(key);
        let capabilities = self.workers.at(key).capabilities.clone();
        let class = self.retain_class(&peer.namespace, queues, &capabilities);
        self.workers.at_mut(key).asking = Some(class);
        self.rechoose(key);
        if self.workers.at(key).choice.is_some()
            && queues.len() > 1
            && let Some(lane) = self.first_lane_in_order(peer, key, queues)
        {
            let slot = self.lanes.at(lane).line.first().expect("a listed lane has a task");
            self.assign(now, slot, key, out);
        } else {
            self.stirred.workers.push(key);
        }
        Ok(Reply::Done)
    }

    pub(crate) fn unask(&mut self, peer: &Peer) -> Result<Reply, Refusal> {
        let key = self.worker_of(peer)?;
        self.stop_asking(key);
        Ok(Reply::Done)
    }

    fn stop_asking(&mut self, key: WorkerKey) {
        if let Some(class) = self.workers.at_mut(key).asking.take() {
            self.rechoose(key);
            self.release_class(class);
        }
    }

    /// Whoever asks for a queue serves it.
    fn serve_also(
        &mut self,
        now: Timestamp,
        key: WorkerKey,
        queues: &[Name],
        out: &mut dyn Output,
    ) -> Result<(), Refusal> {
        let worker = self.workers.at(key);
        if queues.iter().all(|queue| worker.queues.contains(queue)) {
            return Ok(());
        }
        let mut all = worker.queues.clone();
        all.extend(queues.iter().filter(|queue| !worker.queues.contains(queue)).cloned());
        if all.len() > WORKER_QUEUES_MAX {
            return Err(Refusal::TooMany { what: "queues", limit: WORKER_QUEUES_MAX });
        }
        let (namespace, capabilities) = (worker.health.namespace.clone(), worker.capabilities.clone());
        self.leave_class(now, key, out);
        let class = self.retain_class(&namespace, &all, &capabilities);
        let worker = self.workers.at_mut(key);
        worker.queues = all;
        worker.class = Some(class);
        self.recount(now, key, out);
        Ok(())
    }

    /// The most urgent lane of the first queue that has one for this worker. Here the order of the queues counts for
    /// more than priority: that is what naming them in order asks for.
    fn first_lane_in_order(&self, peer: &Peer, key: WorkerKey, queues: &[Name]) -> Option<LaneKey> {
        let capabilities = &self.workers.at(key).capabilities;
        queues.iter().find_map(|queue| {
            let queue = self.queues.at(self.queues.find(&peer.namespace, queue)?);
            let best = queue.lanes.iter().filter_map(|key| {
                let lane = self.lanes.at(*key);
                let Stand::Listed(rank) = lane.stand else { return None };
                let has_room = lane.tags.iter().all(|tag| self.tags.at(*tag).has_room());
                (has_room && offers(capabilities, &lane.needs)).then_some((rank, *key))
            });
            best.min().map(|(_, key)| key)
        })
    }
}
