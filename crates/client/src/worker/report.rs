//! The report of an ended attempt. The worker keeps it until the broker answers, and sends it again after a reconnect.

use bytes::Bytes;
use tenure_wire::Request;
use tenure_wire::limits::ENTRIES_MAX;
use tenure_wire::request::{Complete, Confirm, GiveBack};
use tenure_wire::task::{Completion, Held};
use tenure_wire::words::Wanted;
use tenure_wire::worker::FailureReport;

use super::outcome::{Failure, Outcome};
use super::signal::Interrupt;
use crate::error::INTERRUPTED_WAIT;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AttemptReport {
    Complete(Bytes),
    Fail(Box<Failure>),
    Confirm { wanted: Wanted, result: Bytes },
    GiveBack { reason: Option<Box<str>> },
}

impl AttemptReport {
    /// Converts a handler's outcome. A result that the broker would refuse becomes a failure.
    pub(crate) fn new(
        outcome: Option<Outcome>,
        interrupt: Option<&Interrupt>,
        result_bytes_max: usize,
    ) -> AttemptReport {
        let too_large = |result: &Bytes| result.len() > result_bytes_max;
        match outcome {
            Some(Outcome::Completed(result) | Outcome::Cancelled(result) | Outcome::Paused(result))
                if too_large(&result) =>
            {
                let bytes = result.len();
                AttemptReport::fail(format!(
                    "the result has {bytes} bytes, the broker takes at most {result_bytes_max}: store it elsewhere and \
                     return a reference"
                ))
            }
            Some(Outcome::Completed(result)) => AttemptReport::Complete(result),
            Some(Outcome::Failed(failure))
                if failure.message.starts_with(INTERRUPTED_WAIT)
                    && let Some(report) = AttemptReport::of_interrupted_wait(interrupt) =>
            {
                report
            }
            Some(Outcome::Failed(mut failure)) => {
                if too_large(&failure.result) {
                    failure.result = Bytes::new();
                }
                AttemptReport::Fail(Box::new(failure))
            }
            Some(Outcome::Cancelled(result)) => match interrupt {
                Some(Interrupt::Cancel { .. }) => AttemptReport::Confirm { wanted: Wanted::Cancel, result },
                _ => AttemptReport::fail("the handler reports a cancellation, but no client requested one"),
            },
            Some(Outcome::Paused(result)) => match interrupt {
                Some(Interrupt::Pause { .. }) => AttemptReport::Confirm { wanted: Wanted::Pause, result },
                // A cancellation may arrive while the handler winds down for a pause.
                Some(Interrupt::Cancel { .. }) => AttemptReport::Confirm { wanted: Wanted::Cancel, result },
                _ => AttemptReport::fail("the handler reports a pause, but no client requested one"),
            },
            Some(Outcome::GivenBack(reason)) => AttemptReport::GiveBack { reason },
            // It is unknown how far a dropped handler got.
            None => AttemptReport::Fail(Box::new(
                Failure::new(1, "the handler was dropped before it ended").crashed(),
            )),
        }
    }

    /// The handler only waited, and passed on that it was interrupted.
    fn of_interrupted_wait(interrupt: Option<&Interrupt>) -> Option<AttemptReport> {
        let result = Bytes::new();
        match interrupt? {
            Interrupt::Cancel { .. } => Some(AttemptReport::Confirm { wanted: Wanted::Cancel, result }),
            Interrupt::Pause { .. } => Some(AttemptReport::Confirm { wanted: Wanted::Pause, result }),
            Interrupt::Leaving => {
                Some(AttemptReport::GiveBack { reason: Some("the worker is leaving".into()) })
            }
            Interrupt::Stop { .. } => None,
        }
    }

    /// The request for a single report. Completions share requests.
    pub(crate) fn request(&self, held: Held) -> Request {
        let Held { task, attempt } = held;
        match self {
            AttemptReport::Complete(result) => Request::Complete(Complete {
                done: vec![Completion { task, attempt, result: result.clone() }],
            }),
            AttemptReport::Fail(failure) => Request::Fail(Box::new(FailureReport {
                task,
                attempt,
                exit_code: failure.exit_code,
                message: (!failure.message.is_empty()).then(|| failure.message.clone()),
                result: failure.result.clone(),
                crashed: failure.crashed,
                is_final: failure.is_final,
            })),
            AttemptReport::Confirm { wanted, result } => {
                Request::Confirm(Confirm { task, attempt, wanted: wanted.clone(), result: result.clone() })
            }
            AttemptReport::GiveBack { reason } => {
                Request::GiveBack(GiveBack { task, attempt, reason: reason.clone() })
            }
        }
    }

    fn fail(message: impl Into<String>) -> AttemptReport {
        AttemptReport::Fail(Box::new(Failure::new(1, message).last()))
    }
}

/// Maximum size of a frame of completions, unless one alone is larger.
const FRAME_BYTES: usize = 4 << 20;

/// Splits completions into as few frames as the limits allow, in order.
pub(crate) fn into_frames(completions: Vec<Completion>) -> Vec<Complete> {
    let mut frames = Vec::new();
    let (mut frame, mut bytes) = (Complete::default(), 0);
    for completion in completions {
        let size = completion.result.len() + COMPLETION_BYTES;
        if frame.done.len() == ENTRIES_MAX || (bytes + size > FRAME_BYTES && !frame.done.is_empty()) {
            frames.push(std::mem::take(&mut frame));
            bytes = 0;
        }
        bytes += size;
        frame.done.push(completion);
    }
    if !frame.done.is_empty() {
        frames.push(frame);
    }
    frames
}

/// Upper bound of a completion's size on the wire beside its result.
const COMPLETION_BYTES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_share_frames_until_one_is_full() {
        let completion = |bytes: usize| Completion {
            task: tenure_wire::TaskId::default(),
            attempt: 1,
            result: Bytes::from(vec![0; bytes]),
        };
        let lengths = |sizes: &[usize]| -> Vec<usize> {
            let frames = into_frames(sizes.iter().map(|size| completion(*size)).collect());
            frames.iter().map(|frame| frame.done.len()).collect()
        };
        assert_eq!(lengths(&[]), [0; 0]);
        assert_eq!(lengths(&[1, 2, 3]), [3]);
        assert_eq!(lengths(&[3 << 20, 16 << 20, 1, 2]), [1, 1, 2]);
        assert_eq!(lengths(&vec![0; ENTRIES_MAX + 1]), [ENTRIES_MAX, 1]);
    }

    #[test]
    fn a_result_that_is_too_large_becomes_a_failure_that_says_so() {
        let AttemptReport::Fail(failure) = AttemptReport::new(Some(Outcome::complete("12345")), None, 4)
        else {
            panic!()
        };
        assert!(failure.message.contains("5 bytes") && failure.is_final);
        assert_eq!(
            AttemptReport::new(Some(Outcome::complete("1234")), None, 4),
            AttemptReport::Complete("1234".into())
        );
    }

    #[test]
    fn only_what_was_wanted_can_be_confirmed() {
        let cancel = Interrupt::Cancel { reason: None };
        let confirmed = AttemptReport::new(Some(Outcome::cancelled("")), Some(&cancel), 4);
        assert_eq!(confirmed, AttemptReport::Confirm { wanted: Wanted::Cancel, result: Bytes::new() });
        assert!(matches!(AttemptReport::new(Some(Outcome::cancelled("")), None, 4), AttemptReport::Fail(_)));
        assert!(matches!(
            AttemptReport::new(Some(Outcome::paused("")), Some(&Interrupt::Leaving), 4),
            AttemptReport::Fail(_)
        ));
        let overtaken = AttemptReport::new(Some(Outcome::paused("")), Some(&cancel), 4);
        assert_eq!(overtaken, AttemptReport::Confirm { wanted: Wanted::Cancel, result: Bytes::new() });
    }

    #[test]
    fn a_handler_that_was_dropped_counts_as_a_crash() {
        let AttemptReport::Fail(failure) = AttemptReport::new(None, None, 4) else { panic!() };
        assert!(failure.crashed);
    }
}
