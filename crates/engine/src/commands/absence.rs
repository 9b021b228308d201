//! Absence: the broker could not hear or speak for a while, or its clock was set. No worker is believed dead for that, and
//! what is measured in seconds stays as long as it was.

use crate::engine::Engine;
use crate::id::{Slot, WorkerKey};
use crate::state::TaskState;
use crate::time::Timestamp;
use crate::timers::Timer;
use crate::workers::Presence;

impl Engine {
    /// Between these two moments nobody could be heard or spoken to: the process was stopped, or the disk kept every
    /// answer back. Silence, leases and acceptance are measured as if the clock had stood still. The rest goes on:
    /// workers that run tasks did so meanwhile.
    pub fn was_away(&mut self, from: Timestamp, to: Timestamp) {
        self.carry_workers(from, to);
        self.carry_held(from, to, |state| matches!(state, TaskState::Assigned(_)));
    }

    /// The clock was set from `from` to `to`, forward or back, or the machine slept. Every span of time is as long as it
    /// was: besides what [`Engine::was_away`] measures, these are run limits, the time a worker has to cancel, delays
    /// before a retry, quarantines, and how long tasks are ready. What is promised for a time of day (`not_before`, `expires_at`) is not touched.
    pub fn clock_set(&mut self, from: Timestamp, to: Timestamp) {
        self.carry_workers(from, to);
        self.carry_held(from, to, |_| true);
        self.carry_retries(from, to);
        self.carry_quarantines(from, to);
        self.carry_waiting(from, to);
    }

    fn carry_workers(&mut self, from: Timestamp, to: Timestamp) {
        for key in self.worker_keys() {
            let worker = self.workers.at_mut(key);
            match &mut worker.presence {
                Presence::Gone { .. } => continue,
                Presence::Lost { lease_until, .. } => *lease_until = lease_until.carried(from, to),
                Presence::Live { .. } => {}
            }
            // Whoever has not been heard of since a restart has no such moment. Whoever was heard of while the disk stood
            // still was not heard of later than now.
            if worker.last_seen != Timestamp::ZERO {
                worker.last_seen = worker.last_seen.carried(from, to).min(to);
            }
            self.watch_worker(key);
        }
    }

    /// Carries the deadlines of held tasks in these states.
    fn carry_held(&mut self, from: Timestamp, to: Timestamp, is_meant: impl Fn(&TaskState) -> bool) {
        let held: Vec<Slot> =
            self.workers.iter().flat_map(|(_, worker)| worker.held.iter().copied()).collect();
        for slot in held {
            let state = &mut self.tasks.at_mut(slot).state;
            if !is_meant(state) {
                continue;
            }
            let holding = state.holding_mut().expect("a worker holds it");
            let before = holding.check_at;
            holding.told_at = holding.told_at.carried(from, to);
            holding.check_at = before.carried(from, to);
            let after = holding.check_at;
            self.timers.disarm(before, Timer::Held(slot));
            self.timers.arm(after, Timer::Held(slot));
        }
        self.prune_timers();
    }

    /// A delay that is not the task's own `not_before` is one before a retry.
    fn carry_retries(&mut self, from: Timestamp, to: Timestamp) {
        for (until, slot) in self.timers.due() {
            if self.tasks.at(slot).not_before() == Some(until) {
                continue;
            }
            self.leave_state(slot);
            self.tasks.at_mut(slot).state = TaskState::Delayed { until: until.carried(from, to) };
            self.enter_state(slot);
        }
    }

    fn carry_quarantines(&mut self, from: Timestamp, to: Timestamp) {
        for key in self.worker_keys() {
            let health = &mut self.workers.at_mut(key).health;
            for crash in &mut health.recent_crashes {
                *crash = crash.carried(from, to);
            }
            if let Some(until) = &mut health.quarantined_until {
                let before = std::mem::replace(until, until.carried(from, to));
                let after = *until;
                self.timers.disarm(before, Timer::Quarantine(key));
                self.timers.arm(after, Timer::Quarantine(key));
            }
        }
    }

    fn worker_keys(&self) -> Vec<WorkerKey> {
        self.workers.iter().map(|(key, _)| key).collect()
    }
}
