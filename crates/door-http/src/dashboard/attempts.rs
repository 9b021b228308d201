//! The attempts of a task, as its events tell them.

use std::sync::Arc;

use tenure_hub::words::{Event, EventData, EventSubject, Name, Next, Timestamp};

/// One attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AttemptSpan {
    pub(super) number: u32,
    pub(super) worker: Name,
    /// Since when the task waited for this attempt.
    pub(super) waited_from: Timestamp,
    pub(super) assigned_at: Timestamp,
    pub(super) started_at: Option<Timestamp>,
    /// `None` while it goes on.
    pub(super) ended_at: Option<Timestamp>,
    /// How it ended: one of the kinds of events, or `running`.
    pub(super) outcome: &'static str,
    /// When its worker was missing, and until when.
    pub(super) missing: Vec<(Timestamp, Option<Timestamp>)>,
    pub(super) checkpoints: Vec<Timestamp>,
}

/// Reads the attempts from the events of one task, in order.
pub(super) fn from_events(submitted_at: Timestamp, events: &[Arc<Event>]) -> Vec<AttemptSpan> {
    let mut attempts: Vec<AttemptSpan> = Vec::new();
    let mut waits_from = submitted_at;
    for event in events {
        let number = match &event.about {
            EventSubject::Task { attempt, .. } => *attempt,
            EventSubject::Worker { .. }
            | EventSubject::Queue { .. }
            | EventSubject::Tag { .. }
            | EventSubject::Schedule { .. }
            | EventSubject::Array { .. }
            | EventSubject::Share { .. } => continue,
        };
        if let EventData::Assigned { worker } = &event.kind {
            attempts.push(AttemptSpan {
                number,
                worker: worker.clone(),
                waited_from: waits_from,
                assigned_at: event.at,
                started_at: None,
                ended_at: None,
                outcome: "running",
                missing: Vec::new(),
                checkpoints: Vec::new(),
            });
            continue;
        }
        let open = attempts.last_mut().filter(|attempt| attempt.ended_at.is_none());
        let ends = match &event.kind {
            EventData::Started { .. } => {
                if let Some(attempt) = open {
                    attempt.started_at.get_or_insert(event.at);
                }
                continue;
            }
            EventData::Checkpoint { .. } => {
                if let Some(attempt) = open {
                    attempt.checkpoints.push(event.at);
                }
                continue;
            }
            EventData::HolderLost { .. } => {
                if let Some(attempt) = open {
                    attempt.missing.push((event.at, None));
                }
                continue;
            }
            EventData::HolderReturned { .. } => {
                if let Some((_, until)) = open.and_then(|attempt| attempt.missing.last_mut()) {
                    until.get_or_insert(event.at);
                }
                continue;
            }
            EventData::Completed { .. } => "completed",
            EventData::Failed { .. } => "failed",
            EventData::Crashed { .. } => "crashed",
            EventData::Cancelled { .. } => "cancelled",
            EventData::Paused { .. } => "paused",
            EventData::GivenBack { .. } => "given-back",
            EventData::TakenBack { .. } => "taken-back",
            EventData::Resumed | EventData::Retried | EventData::Released | EventData::Due => {
                waits_from = event.at;
                continue;
            }
            _ => continue,
        };
        if let Some(attempt) = open {
            attempt.ended_at = Some(event.at);
            attempt.outcome = ends;
        }
        waits_from = match &event.kind {
            EventData::Crashed { next: Next::RetriedAt(at), .. }
            | EventData::Failed { next: Next::RetriedAt(at), .. } => *at,
            _ => event.at,
        };
    }
    attempts
}

#[cfg(test)]
mod tests {
    use tenure_hub::words::{LostReason, Terms};

    use super::*;

    fn event(seq: u64, attempt: u32, kind: EventData) -> Arc<Event> {
        let terms = Arc::new(Terms::new("default".into(), "q".into(), "ann".into()));
        let about = EventSubject::Task {
            id: "0190a6e2-7f3c-7a10-8000-5d2f0a1b2c3d".parse().unwrap(),
            attempt,
            terms,
        };
        Arc::new(Event { seq, at: Timestamp(seq * 1000), about, kind })
    }

    #[test]
    fn an_attempt_crashes_and_the_next_one_completes() {
        let (worker, reason) = (|name: &str| Name::from(name), LostReason::HeartbeatMissed);
        let events = [
            event(1, 0, EventData::Submitted { unserved: None, reconciliation: None }),
            event(2, 1, EventData::Assigned { worker: worker("w1") }),
            event(3, 1, EventData::Started { worker: worker("w1") }),
            event(4, 1, EventData::Checkpoint { bytes: 3 }),
            event(
                5,
                1,
                EventData::HolderLost { worker: worker("w1"), reason, lease_until: Timestamp(9_000) },
            ),
            event(
                6,
                1,
                EventData::Crashed { worker: worker("w1"), reason, next: Next::Requeued, budget_left: 2 },
            ),
            event(7, 2, EventData::Assigned { worker: worker("w2") }),
        ];
        let attempts = from_events(Timestamp(1_000), &events);
        let [first, second] = &attempts[..] else { panic!("{attempts:?}") };
        assert_eq!((first.outcome, first.ended_at), ("crashed", Some(Timestamp(6_000))));
        assert_eq!(first.missing, [(Timestamp(5_000), None)]);
        assert_eq!((first.waited_from, first.checkpoints.len()), (Timestamp(1_000), 1));
        assert_eq!(
            (second.waited_from, second.outcome, second.ended_at),
            (Timestamp(6_000), "running", None)
        );
    }
}
