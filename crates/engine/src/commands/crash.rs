//! Crash: an attempt ends without a report. The task's `on_lost` policy decides what happens next. Crashes
//! are counted separately from failures.

use super::fail::delay;
use crate::blob::Blob;
use crate::engine::Engine;
use crate::event::{EventData, LostReason, Next};
use crate::id::Slot;
use crate::notice::StopWhy;
use crate::record::Output;
use crate::state::{EXIT_CRASHED, PauseCause, PauseInfo, StateName, TaskState, Wanted};
use crate::terms::OnLost;
use crate::time::Timestamp;

impl Engine {
    /// `said` is the worker's own report of the crash, if any.
    pub(crate) fn crash(
        &mut self,
        now: Timestamp,
        slot: Slot,
        reason: LostReason,
        said: Option<&str>,
        out: &mut dyn Output,
    ) {
        match reason {
            // The worker itself knows that the attempt is over.
            LostReason::WorkerSaidSo | LostReason::Forgotten => {}
            LostReason::RunLimit => self.order_stop(slot, StopWhy::RunLimit, out),
            // A holder that is still connected must not continue an attempt that is over.
            LostReason::ConnectionClosed | LostReason::HeartbeatMissed | LostReason::NotBackAfterRestart => {
                self.order_stop(slot, StopWhy::Stale, out);
            }
        }
        if self.wanted_of(slot) == Some(Wanted::Cancel) {
            self.end_cancelled(now, slot, Blob::EMPTY, true, out);
            return;
        }
        // A task that only waited did not bring its worker down, so its crash budget stays as it is.
        let counts = self.state_name(slot) != StateName::Suspended || reason == LostReason::WorkerSaidSo;
        let task = self.tasks.at_mut(slot);
        task.crashes = task.crashes.saturating_add(u16::from(counts));
        let crashes = task.crashes;
        let holding = task.state.holding().expect("only a held task crashes");
        let worker = holding.worker.clone();
        let (wanted, asked_because) = (self.wanted_of(slot), self.intent_reason(slot));
        let task = self.tasks.at_mut(slot);
        if counts {
            task.extras_mut().avoid_worker(worker.clone());
        }
        let terms = self.terms.get(self.tasks.at(slot).terms);
        let waits = self.edges.open_count(self.tasks.at(slot).edges) > 0;
        let budget_left = terms.crash_budget.saturating_sub(crashes);
        let next = match (wanted, terms.on_lost) {
            (Some(_), _) | (None, OnLost::Pause) => Next::Paused,
            (None, OnLost::Requeue) if !counts => Next::Requeued,
            (None, OnLost::Requeue) if budget_left > 0 => match terms.crash_backoff.filter(|_| !waits) {
                None => Next::Requeued,
                Some(backoff) => Next::RetriedAt(now + delay(backoff, crashes - 1, self.tasks.at(slot).id)),
            },
            (None, OnLost::Requeue | OnLost::Fail) => Next::Failed,
        };
        let state = match next {
            Next::Requeued => self.waiting_state(now, slot),
            Next::RetriedAt(until) => TaskState::Delayed { until },
            Next::Paused => {
                let why = match wanted {
                    Some(_) => PauseCause::Asked,
                    None if budget_left == 0 => PauseCause::CrashBudget,
                    None => PauseCause::WorkerLost,
                };
                TaskState::Paused(Box::new(PauseInfo { since: now, why, reason: asked_because }))
            }
            Next::Failed | Next::Cancelled => {
                let mut message = format!("{}, crash {crashes}", crash_sentence(&worker, reason));
                if let Some(said) = said {
                    message.push_str(": ");
                    message.push_str(said);
                }
                let end = self.end_of(now, slot, EXIT_CRASHED, Blob::EMPTY, Some(message.into()));
                TaskState::Failed(Box::new(end))
            }
        };
        self.become_state(now, slot, state, EventData::Crashed { worker, reason, next, budget_left }, out);
        self.retire_ended(now, out);
    }
}

/// How an attempt ended, for people; `LostReason::as_str` is the code for programs.
fn crash_sentence(worker: &str, reason: LostReason) -> String {
    match reason {
        LostReason::ConnectionClosed => format!("worker {worker} lost: connection closed"),
        LostReason::HeartbeatMissed => format!("worker {worker} lost: heartbeats missed"),
        LostReason::RunLimit => format!("run limit exceeded on worker {worker}"),
        LostReason::WorkerSaidSo => format!("crash reported by worker {worker}"),
        LostReason::Forgotten => format!("worker {worker} no longer has the task"),
        LostReason::NotBackAfterRestart => {
            format!("worker {worker} lost: it did not reconnect after the broker restart")
        }
    }
}
