//! Expire: what happens when a timer fires.

use crate::blob::Blob;
use crate::engine::Engine;
use crate::event::{EventData, LostReason};
use crate::id::Slot;
use crate::notice::StopWhy;
use crate::record::Output;
use crate::state::{EXIT_EXPIRED, StateName, TaskState, Wanted};
use crate::time::Timestamp;
use crate::timers::Timer;

impl Engine {
    pub(crate) fn fire(&mut self, now: Timestamp, timer: Timer, out: &mut dyn Output) {
        match timer {
            Timer::Due(slot) => {
                self.become_state(now, slot, TaskState::Ready { since: now }, EventData::Due, out);
            }
            Timer::Expires(slot) => self.expire(now, slot, out),
            Timer::Held(slot) => self.check_held(now, slot, out),
            Timer::Worker(worker) => self.check_worker(now, worker, out),
            Timer::Quarantine(worker) => self.lift_quarantine(now, worker, out),
            Timer::Backlog(queue) => self.backlog_due(queue),
        }
    }

    fn expire(&mut self, now: Timestamp, slot: Slot, out: &mut dyn Output) {
        if self.state_name(slot).has_ended() {
            return;
        }
        self.order_stop(slot, StopWhy::Expired, out);
        let message = Some("it expired before it started".into());
        let end = self.end_of(now, slot, EXIT_EXPIRED, Blob::EMPTY, message);
        self.become_state(now, slot, TaskState::Failed(Box::new(end)), EventData::Expired, out);
        self.retire_ended(now, out);
    }

    /// Checks a held task: it may be unconfirmed or past its run limit.
    fn check_held(&mut self, now: Timestamp, slot: Slot, out: &mut dyn Output) {
        if self.state_name(slot) == StateName::Running {
            if self.wanted_of(slot) == Some(Wanted::Cancel) && !self.is_at_run_limit(now, slot) {
                self.enforce_cancel(now, slot, out);
            } else {
                self.note_stopping(slot);
                if self.terms.get(self.tasks.at(slot).terms).overrun_fails {
                    return self.fail_overrun(now, slot, out);
                }
                self.crash(now, slot, LostReason::RunLimit, None, out);
            }
            return;
        }
        let task = self.tasks.at(slot);
        let terms = self.terms.get(task.terms);
        let timeout = terms.accept_timeout.unwrap_or(self.settings.accept_timeout);
        let holding = task.state.holding().expect("only held tasks have this timer");
        let accept_until = holding.told_at + timeout;
        if now >= accept_until {
            // A worker that does not confirm is as bad a choice for the next attempt as one that crashes.
            self.take_back_unconfirmed(now, slot, out);
            return;
        }
        let ready_queue = self.terms.ready_queue(task.terms);
        if let TaskState::Assigned(holding) = &mut self.tasks.at_mut(slot).state {
            holding.check_at = accept_until;
        }
        self.timers.arm(accept_until, Timer::Held(slot));
        self.overdue.insert(slot);
        // A worker with more free slots may be idle already.
        let group = self.ready_queues.at(ready_queue).group;
        for class in &self.groups.at(group).classes {
            let free = self.with_room(*class, group).next();
            self.dirty.workers.extend(free.map(|worker_rank| worker_rank.worker));
        }
    }

    fn is_at_run_limit(&self, now: Timestamp, slot: Slot) -> bool {
        let task = self.tasks.at(slot);
        let started_at = task.state.holding().and_then(|holding| holding.started_at);
        let limit = self.terms.get(task.terms).run_limit;
        started_at.zip(limit).is_some_and(|(started_at, limit)| started_at + limit <= now)
    }
}
