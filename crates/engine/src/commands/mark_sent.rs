//! Spoken: the hub has sent what was decided. Until then a worker cannot know what it is asked to do, however
//! long the disk takes, so the timeouts against it start here.

use std::time::Duration;

use crate::engine::Engine;
use crate::id::Slot;
use crate::state::{TaskState, Wanted};
use crate::terms::Terms;
use crate::time::Timestamp;
use crate::timers::Timer;

impl Engine {
    /// The hub has sent everything decided up to this event. It calls this for every batch that is on disk,
    /// after it has sent the batch's notices.
    pub fn mark_sent(&mut self, now: Timestamp, event: u64) {
        while let Some((waits_for, slot)) = self.unsent_attempts.front().copied()
            && waits_for <= event
        {
            self.unsent_attempts.pop_front();
            self.start_clock(now, slot, waits_for);
        }
        self.prune_timers();
    }

    /// Starts the timeout now that the holder has its notice, unless the task has moved on since.
    fn start_clock(&mut self, now: Timestamp, slot: Slot, waits_for: u64) {
        let Some(task) = self.tasks.get(slot) else { return };
        let Some(holding) = task.state.holding().filter(|holding| holding.waits_for == waits_for) else {
            return;
        };
        let terms = self.terms.get(task.terms);
        let before = holding.check_at;
        let is_assigned = matches!(task.state, TaskState::Assigned(_));
        let is_suspended = matches!(task.state, TaskState::Suspended(_));
        let check_at = if is_assigned {
            let timeout = terms.accept_timeout.unwrap_or(self.settings.accept_timeout);
            now + timeout.min(self.settings.take_back_after)
        } else if self.wanted_of(slot) == Some(Wanted::Cancel) {
            // If the run limit ends first, the cancellation is enforced then.
            self.cancel_timeout(terms).map_or(before, |timeout| before.min(now + timeout))
        } else if is_suspended {
            before
        } else {
            // The task counts as running since its assignment, but the worker really starts it now.
            terms.run_limit.map_or(Timestamp::NEVER, |limit| now + limit)
        };
        let holding = self.tasks.at_mut(slot).state.holding_mut().expect("it is held");
        (holding.waits_for, holding.told_at, holding.check_at) = (0, now, check_at);
        self.timers.disarm(before, Timer::Held(slot));
        if is_assigned {
            self.timers.arm_soon(check_at, Timer::Held(slot));
        } else {
            self.timers.arm(check_at, Timer::Held(slot));
        }
    }

    /// How long a worker may take to stop a task with these terms, if there is a limit.
    pub(crate) fn cancel_timeout(&self, terms: &Terms) -> Option<Duration> {
        terms.cancel_timeout.or(self.settings.cancel_timeout).filter(|timeout| !timeout.is_zero())
    }
}
