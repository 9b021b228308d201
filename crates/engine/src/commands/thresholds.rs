//! Thresholds: when a queue has a backlog. A client can set them while the queue is empty and while tasks
//! wait.

use std::time::Duration;

use crate::backlog::Thresholds;
use crate::command::{Peer, Reply};
use crate::engine::Engine;
use crate::event::EventData;
use crate::name::{self, Name};
use crate::record::Output;
use crate::refusal::Refusal;
use crate::time::Timestamp;

impl Engine {
    pub(crate) fn set_thresholds(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        queue: &Name,
        thresholds: Option<Thresholds>,
        out: &mut dyn Output,
    ) -> Result<Reply, Refusal> {
        name::check("queue", queue)?;
        check(thresholds.unwrap_or_default())?;
        self.check_queue_room(&peer.namespace, std::slice::from_ref(queue))?;
        let namespace_key = self.namespaces.open(&peer.namespace);
        let key = self.queues.open(&peer.namespace, queue, namespace_key);
        self.queues.at_mut(key).setting.thresholds = thresholds;
        let Thresholds { depth, age } = self.thresholds_of(&self.queues.at(key).setting);
        self.emit_queue_record(now, key, EventData::QueueThresholdsSet { depth, age }, out);
        self.list_waiting(key);
        // The backlog check also removes a queue without tasks and settings.
        self.mark_queue_dirty(key);
        Ok(Reply::Done)
    }
}

fn check(thresholds: Thresholds) -> Result<(), Refusal> {
    if thresholds.depth == Some(0) {
        return Err(Refusal::BadValue { what: "depth", why: "is zero: name at least one task, or no depth" });
    }
    if thresholds.age.is_some_and(|age| age < Duration::from_millis(1)) {
        return Err(Refusal::BadValue {
            what: "age",
            why: "is below one millisecond: name a time, or no age",
        });
    }
    Ok(())
}
