//! Absence: the broker could not receive or send for a while, or its clock was set. No worker counts as dead
//! because of that, and every duration keeps its length.

use crate::engine::Engine;
use crate::id::{Slot, WorkerKey};
use crate::state::TaskState;
use crate::time::Timestamp;
use crate::timers::Timer;
use crate::workers::Presence;

impl Engine {
    /// Between `from` and `to` the broker could not receive or send: the process was stopped, or the disk
    /// delayed every answer. Silence, leases and acceptance timeouts are measured as if the clock had stood
    /// still. Other deadlines continue, because workers kept running their tasks.
    pub fn broker_stalled(&mut self, from: Timestamp, to: Timestamp) {
        self.shift_workers(from, to);
        self.shift_held(from, to, |state| matches!(state, TaskState::Assigned(_)));
    }

    /// The clock was set from `from` to `to`, forward or back, or the machine slept. Every duration keeps its
    /// length: besides those in [`Engine::broker_stalled`], these are run limits, cancel timeouts, retry delays,
    /// quarantines, what rates have gathered, and how long tasks have been ready. Absolute times (`not_before`, `expires_at`) do not
    /// change.
    pub fn clock_set(&mut self, from: Timestamp, to: Timestamp) {
        self.shift_workers(from, to);
        self.shift_held(from, to, |_| true);
        self.shift_retries(from, to);
        self.shift_quarantines(from, to);
        self.shift_waiting(from, to);
        self.shift_tokens(from, to);
    }

    fn shift_workers(&mut self, from: Timestamp, to: Timestamp) {
        for key in self.worker_keys() {
            let worker = self.workers.at_mut(key);
            match &mut worker.presence {
                Presence::Gone { .. } => continue,
                Presence::Lost { lease_until, .. } => *lease_until = lease_until.carried(from, to),
                Presence::Live { .. } => {}
            }
            // A worker not heard from since a restart has no `last_seen` to shift. One heard from during the
            // absence must not end up with a `last_seen` in the future.
            if worker.last_seen != Timestamp::ZERO {
                worker.last_seen = worker.last_seen.carried(from, to).min(to);
            }
            self.watch_worker(key);
        }
    }

    /// Shifts the deadlines of held tasks in the chosen states.
    fn shift_held(&mut self, from: Timestamp, to: Timestamp, is_meant: impl Fn(&TaskState) -> bool) {
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

    /// Shifts retry delays: a delayed task whose due time is not its own `not_before` waits for a retry.
    fn shift_retries(&mut self, from: Timestamp, to: Timestamp) {
        for (until, slot) in self.timers.due() {
            if self.tasks.at(slot).not_before() == Some(until) {
                continue;
            }
            self.leave_state(slot);
            self.tasks.at_mut(slot).state = TaskState::Delayed { until: until.carried(from, to) };
            self.enter_state(slot);
        }
    }

    fn shift_quarantines(&mut self, from: Timestamp, to: Timestamp) {
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
