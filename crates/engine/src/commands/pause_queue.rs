//! Pause and resume a whole queue: no new tasks are assigned from a paused queue; running ones continue.

use crate::command::{Peer, Reply};
use crate::engine::Engine;
use crate::event::EventData;
use crate::name::{self, Name};
use crate::queues::QueueKey;
use crate::ready_queues::ReadyQueueKey;
use crate::record::Output;
use crate::refusal::Refusal;
use crate::time::Timestamp;

impl Engine {
    /// A queue may be paused while it is empty.
    pub(crate) fn pause_queue(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        queue: &Name,
        out: &mut dyn Output,
    ) -> Result<Reply, Refusal> {
        name::check("queue", queue)?;
        self.check_queue_room(&peer.namespace, std::slice::from_ref(queue))?;
        let namespace_key = self.namespaces.open(&peer.namespace);
        let key = self.queues.open(&peer.namespace, queue, namespace_key);
        self.set_paused(now, key, true, EventData::QueuePaused, out);
        Ok(Reply::Done)
    }

    pub(crate) fn resume_queue(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        queue: &Name,
        out: &mut dyn Output,
    ) -> Result<Reply, Refusal> {
        let found = self.queues.find(&peer.namespace, queue);
        let key = found.ok_or_else(|| Refusal::UnknownQueue { queue: queue.clone() })?;
        self.set_paused(now, key, false, EventData::QueueResumed, out);
        self.close_queue_if_unused(key);
        Ok(Reply::Done)
    }

    fn set_paused(
        &mut self,
        now: Timestamp,
        key: QueueKey,
        paused: bool,
        kind: EventData,
        out: &mut dyn Output,
    ) {
        let queue = self.queues.at_mut(key);
        if queue.setting.paused == paused {
            return;
        }
        queue.setting.paused = paused;
        let groups = queue.groups.iter().map(|group| self.groups.at(*group));
        let ready_queues: Vec<ReadyQueueKey> =
            groups.flat_map(|group| group.ready_queues.iter().copied()).collect();
        self.emit_queue_record(now, key, kind, out);
        self.mark_queue_dirty(key);
        for ready_queue in ready_queues {
            self.reindex_ready_queue(ready_queue);
            self.dirty.ready_queues.push(ready_queue);
        }
    }
}
