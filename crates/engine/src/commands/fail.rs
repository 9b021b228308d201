//! Fail: the worker reports that the work failed. The task is retried as often as its terms allow.

use std::time::Duration;

use crate::blob::Blob;
use crate::command::{AttemptFailure, Peer, Reply};
use crate::engine::Engine;
use crate::event::{EventData, LostReason, Next};
use crate::id::{Slot, TaskId};
use crate::limits::MESSAGE_BYTES_MAX;
use crate::name;
use crate::notice::StopWhy;
use crate::record::Output;
use crate::refusal::Refusal;
use crate::state::{EXIT_CANCELLED, EXIT_CRASHED, EXIT_EXPIRED, TaskState, Wanted};
use crate::terms::Backoff;
use crate::time::Timestamp;

impl Engine {
    pub(crate) fn fail(
        &mut self,
        now: Timestamp,
        peer: &Peer,
        failure: AttemptFailure,
        out: &mut dyn Output,
    ) -> Result<Reply, Refusal> {
        let slot = self.held_by(peer, failure.held)?;
        if let Some(why) = meaning(failure.exit_code) {
            return Err(Refusal::BadValue { what: "exit code", why });
        }
        name::check_text("bytes in a failure message", failure.message.as_deref(), MESSAGE_BYTES_MAX)?;
        if self.wanted_of(slot) == Some(Wanted::Cancel) {
            // The worker had to stop the task and reported a failure: it still ends as cancelled.
            self.end_cancelled(now, slot, failure.result, false, out);
            return Ok(Reply::Done);
        }
        if failure.crashed {
            if !failure.result.is_empty() {
                out.freed(failure.result);
            }
            self.crash(now, slot, LostReason::WorkerSaidSo, failure.message.as_deref(), out);
            return Ok(Reply::Done);
        }
        let AttemptFailure { exit_code, message, result, is_final, .. } = failure;
        self.count_failure(now, slot, Outcome { exit_code, message, result }, is_final, out);
        Ok(Reply::Done)
    }

    /// The attempt exceeded its run limit, and the task's terms count that as a failure. The worker gets a
    /// stop notice.
    pub(super) fn fail_overrun(&mut self, now: Timestamp, slot: Slot, out: &mut dyn Output) {
        self.order_stop(slot, StopWhy::RunLimit, out);
        if self.wanted_of(slot) == Some(Wanted::Cancel) {
            return self.end_cancelled(now, slot, Blob::EMPTY, true, out);
        }
        let limit = self.terms.get(self.tasks.at(slot).terms).run_limit.unwrap_or_default();
        let message = Some(format!("timed out: it ran for longer than {} s", limit.as_secs_f64()).into());
        let outcome = Outcome { exit_code: EXIT_OVERRUN, message, result: Blob::EMPTY };
        self.count_failure(now, slot, outcome, false, out);
    }

    fn count_failure(
        &mut self,
        now: Timestamp,
        slot: Slot,
        outcome: Outcome,
        is_final: bool,
        out: &mut dyn Output,
    ) {
        let Outcome { exit_code, message, result } = outcome;
        let task = self.tasks.at(slot);
        let terms = self.terms.get(task.terms);
        let tries_again = !is_final && task.failures < terms.retries;
        let worker = task.state.holding().map(|holding| holding.worker.clone());
        if tries_again {
            let (next, state) = match self.wanted_of(slot) {
                // A client asked to pause the task, so it is paused instead of retried.
                Some(_) => (Next::Paused, self.paused_as_asked(now, slot)),
                None => {
                    let until = now + delay(terms.backoff, task.failures, task.id);
                    (Next::RetriedAt(until), TaskState::Delayed { until })
                }
            };
            self.tasks.at_mut(slot).failures += 1;
            self.drop_waits(slot);
            let kind = EventData::Failed { worker, exit_code, message, next, result };
            self.become_state(now, slot, state, kind, out);
            if !result.is_empty() {
                out.freed(result);
            }
        } else {
            let task = self.tasks.at_mut(slot);
            task.failures = task.failures.saturating_add(1);
            let end = self.end_of(now, slot, exit_code, result, message.clone());
            let kind = EventData::Failed { worker, exit_code, message, next: Next::Failed, result };
            self.become_state(now, slot, TaskState::Failed(Box::new(end)), kind, out);
            self.retire_ended(now, out);
        }
    }
}

/// How an attempt failed.
struct Outcome {
    exit_code: i32,
    message: Option<Box<str>>,
    result: Blob,
}

/// The exit code when the run limit ends an attempt, the same as that of GNU `timeout`.
const EXIT_OVERRUN: i32 = 124;

/// The meaning of an exit code that only the broker gives.
fn meaning(exit_code: i32) -> Option<&'static str> {
    match exit_code {
        0 => Some("is 0, which means completed"),
        EXIT_CANCELLED => Some("is -1, which means cancelled"),
        EXIT_CRASHED => Some("is -2, which means crashed"),
        EXIT_EXPIRED => Some("is -3, which means expired"),
        _ => None,
    }
}

/// Doubles with every failure or crash. A hash of the task takes up to a fifth off, so that tasks that failed
/// together are not retried together.
pub(super) fn delay(backoff: Backoff, failures: u16, task: TaskId) -> Duration {
    let doubled = backoff.first.saturating_mul(1u32 << failures.min(20)).min(backoff.max);
    let mut hash = u64::from(failures).wrapping_add(0x9e37_79b9_7f4a_7c15);
    for half in [&task.0[..8], &task.0[8..]] {
        hash ^= u64::from_be_bytes(half.try_into().expect("eight bytes"));
        hash = hash.wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash ^= hash >> 31;
    }
    doubled - doubled.mul_f64((hash >> 11) as f64 / (1u64 << 53) as f64 / 5.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_brokers_own_exit_codes_are_not_a_workers_to_give() {
        for code in [0, EXIT_CANCELLED, EXIT_CRASHED, EXIT_EXPIRED] {
            let why = meaning(code).expect("it means something");
            assert!(why.starts_with(&format!("is {code}, ")), "{why}");
        }
        for code in [1, 255, -4, i32::MIN, i32::MAX] {
            assert_eq!(meaning(code), None);
        }
    }

    #[test]
    fn the_delay_doubles_up_to_its_maximum_and_differs_from_task_to_task() {
        let backoff = Backoff { first: Duration::from_secs(1), max: Duration::from_secs(60) };
        let of = |failures, task| delay(backoff, failures, TaskId::from_u128(task)).as_secs_f64();
        for (failures, ceiling) in [(0, 1.0), (1, 2.0), (5, 32.0), (6, 60.0), (40, 60.0)] {
            for task in 0..100 {
                let delay = of(failures, task);
                assert!(delay > ceiling * 0.79 && delay <= ceiling, "{failures} {task} {delay}");
            }
        }
        assert_ne!(of(3, 1), of(3, 2));
        assert_eq!(of(3, 1), of(3, 1));
    }
}
