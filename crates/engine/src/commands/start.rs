//! Start: the worker confirms that it works on an assigned task.

use crate::command::{Held, Peer, Reply};
use crate::engine::Engine;
use crate::event::EventData;
use crate::id::Slot;
use crate::record::Output;
use crate::refusal::Refusal;
use crate::state::TaskState;
use crate::time::Timestamp;
use crate::timers::Timer;

impl Engine {
    pub(crate) fn start(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        held: &[Held],
        out: &mut dyn Output,
    ) -> Result<Reply, Refusal> {
        let worker = self.worker_of(peer)?;
        let found = self.tasks.find_all(held.iter().map(|held| &held.task));
        let each = held.iter().zip(found).map(|(held, found)| {
            let slot = self.fence(worker, peer, *held, found)?;
            self.mark_started(now, slot, out);
            Ok(())
        });
        Ok(Reply::Held(each.collect()))
    }

    /// Turns an assigned task into a running one with the same holder. A running one stays as it is: `Start`
    /// is idempotent.
    pub(crate) fn mark_started(&mut self, now: Timestamp, slot: Slot, out: &mut dyn Output) {
        let TaskState::Assigned(_) = self.tasks.at(slot).state else { return };
        self.count(slot, |count| *count -= 1);
        let run_limit = self.terms.get(self.tasks.at(slot).terms).run_limit;
        let task = self.tasks.at_mut(slot);
        let TaskState::Assigned(mut holding) = std::mem::replace(&mut task.state, TaskState::Created) else {
            unreachable!("it is assigned")
        };
        let unconfirmed = holding.check_at;
        holding.started_at = Some(now);
        holding.check_at = run_limit.map_or(Timestamp::NEVER, |limit| now + limit);
        let (worker, check_at) = (holding.worker.clone(), holding.check_at);
        task.state = TaskState::Running(holding);
        // A started task can no longer expire.
        let expiry = task.extras.as_mut().and_then(|extras| extras.expires_at.take());
        self.timers.disarm(unconfirmed, Timer::Held(slot));
        self.timers.arm(check_at, Timer::Held(slot));
        if let Some(at) = expiry {
            self.timers.disarm(at, Timer::Expires(slot));
        }
        self.overdue.remove(&slot);
        self.count(slot, |count| *count += 1);
        self.emit_task_record(now, slot, EventData::Started { worker }, out);
    }
}
