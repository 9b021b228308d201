//! Crash: an attempt is over without a report. The task's own policy says what happens next, and crashes are counted
//! apart from failures.

use crate::blob::Blob;
use crate::engine::Engine;
use crate::event::{Kind, LostReason, Next};
use crate::id::Slot;
use crate::notice::StopWhy;
use crate::record::Output;
use crate::state::{Aside, AsideWhy, EXIT_CANCELLED, EXIT_CRASHED, TaskState, Wanted};
use crate::terms::OnLost;
use crate::time::Timestamp;

/// How many workers that crashed on a task are remembered.
const CRASHED_ON_MAX: usize = 8;

impl Engine {
    pub(crate) fn crash(&mut self, now: Timestamp, slot: Slot, reason: LostReason, out: &mut dyn Output) {
        // A holder that is still connected should not go on with an attempt that is over.
        let why = if reason == LostReason::RunLimit { StopWhy::RunLimit } else { StopWhy::Stale };
        self.order_stop(slot, why, out);
        let task = self.tasks.at_mut(slot);
        task.crashes = task.crashes.saturating_add(1);
        let crashes = task.crashes;
        let holding = task.state.holding().expect("only a held task crashes");
        let worker = holding.worker.clone();
        let intent = holding.intent.clone();
        let crashed_on = &mut task.extras_mut().crashed_on;
        crashed_on.retain(|name| *name != worker);
        crashed_on.push(worker.clone());
        if crashed_on.len() > CRASHED_ON_MAX {
            crashed_on.remove(0);
        }
        let terms = self.terms.get(self.tasks.at(slot).terms);
        let budget_left = terms.crash_budget.saturating_sub(crashes);
        let next = match (intent.as_ref().map(|intent| intent.wanted), terms.on_lost) {
            (Some(Wanted::Cancel), _) => Next::Cancelled,
            (Some(Wanted::Pause), _) | (None, OnLost::Pause) => Next::Paused,
            (None, OnLost::Requeue) if budget_left > 0 => Next::Requeued,
            (None, OnLost::Requeue | OnLost::Fail) => Next::Failed,
        };
        let state = match next {
            Next::Requeued | Next::RetriedAt(_) => TaskState::Ready,
            Next::Paused => {
                let why = if intent.is_some() { AsideWhy::Asked } else { AsideWhy::WorkerLost };
                TaskState::Paused(Box::new(Aside {
                    since: now,
                    why,
                    reason: intent.and_then(|intent| intent.reason),
                }))
            }
            Next::Failed => {
                let message = format!("worker {worker} crashed ({}), crash {crashes}", reason.as_str());
                TaskState::Failed(Box::new(self.end_of(
                    now,
                    slot,
                    EXIT_CRASHED,
                    Blob::EMPTY,
                    Some(message.into()),
                )))
            }
            Next::Cancelled => {
                let message = intent.and_then(|intent| intent.reason);
                TaskState::Cancelled(Box::new(self.end_of(now, slot, EXIT_CANCELLED, Blob::EMPTY, message)))
            }
        };
        self.become_state(now, slot, state, Kind::Crashed { worker, reason, next, budget_left }, out);
        self.retire_ended(now, out);
    }
}
