//! Stories of attempts: begun, interrupted, reported, lost and found again.

use std::sync::Arc;

use tenure_wire::task::{Assignment, Terms};
use tenure_wire::words::OnLost;
use tenure_wire::{TaskId, Timestamp};

use super::super::outbox::Outbox;
use super::*;

const RESULT_BYTES_MAX: usize = 1 << 20;

fn context(task: u8, on_lost: OnLost) -> Context {
    let terms = Terms { on_lost, ..Terms::new("images") };
    let assignment = Assignment {
        task: TaskId([task; 16]),
        attempt: 1,
        body: Bytes::new(),
        terms: 0,
        priority: 0,
        submitted_at: Timestamp(0),
        name: None,
        parent: None,
        crashes: 0,
        failures: 0,
        checkpoint_bytes: 0,
    };
    Context::new(assignment, Arc::new(terms), Arc::new(Outbox::default()))
}

/// Takes a task and returns it with its handler begun, if it was.
fn assign(roster: &mut Roster, task: u8) -> (Held, Context) {
    let context = context(task, OnLost::Requeue);
    roster.assigned(context.clone());
    (context.held(), context)
}

fn begun(roster: &mut Roster) -> Vec<Held> {
    roster.begins.drain(..).map(|context| context.held()).collect()
}

fn complete(roster: &mut Roster, held: Held) -> bool {
    roster.finished(held, Some(Outcome::complete("done")), RESULT_BYTES_MAX)
}

fn refusal(code: Code) -> Refusal {
    Refusal::new(code, "no")
}

#[test]
fn a_task_is_started_run_reported_and_forgotten() {
    let (mut roster, now) = (Roster::new(1), Instant::now());
    let (held, _) = assign(&mut roster, 1);
    assert_eq!((std::mem::take(&mut roster.starts), begun(&mut roster)), (vec![held], vec![held]));
    assert!(complete(&mut roster, held));
    assert_eq!(roster.unsent, [held]);
    assert_eq!(roster.send(held), Some(&Report::Complete("done".into())));
    assert_eq!(roster.answered(now, held, None), Answered::Taken(Report::Complete("done".into())));
    assert!(roster.is_empty());
    assert_eq!(roster.answered(now, held, None), Answered::Unknown);
}

#[test]
fn a_careful_task_begins_only_when_the_broker_knows() {
    let (mut roster, now) = (Roster::new(2), Instant::now());
    let (one, two) = (context(1, OnLost::Pause), context(2, OnLost::Pause));
    roster.assigned(one.clone());
    roster.assigned(two.clone());
    assert_eq!(roster.starts, [one.held(), two.held()]);
    assert_eq!(begun(&mut roster), []);
    roster.started(now, &[one.held(), two.held()], &[0]);
    assert_eq!(begun(&mut roster), [two.held()]);
    assert_eq!(roster.len(), 1, "the refused one is gone");
}

#[test]
fn a_careful_task_whose_start_got_lost_begins_when_the_registration_confirms_it() {
    let (mut roster, now) = (Roster::new(1), Instant::now());
    let careful = context(1, OnLost::Pause);
    roster.assigned(careful.clone());
    roster.disconnected();
    let presented = roster.for_register();
    assert_eq!(presented, [careful.held()]);
    assert_eq!(begun(&mut roster), []);
    roster.registered(now, &presented, &[]);
    assert_eq!(begun(&mut roster), [careful.held()]);
}

#[test]
fn no_more_handlers_run_than_there_are_slots_even_if_some_do_not_stop() {
    let (mut roster, now) = (Roster::new(1), Instant::now());
    let (one, running) = assign(&mut roster, 1);
    begun(&mut roster);
    roster.stop(now, one, StopWhy::Stale);
    assert_eq!(running.interrupt(), Some(Interrupt::Stop { why: StopWhy::Stale }));
    let (two, _) = assign(&mut roster, 2);
    assert_eq!(begun(&mut roster), [], "the old handler still runs");
    assert_eq!(roster.for_heartbeat(), [two], "what is over is not presented, what waits is");
    assert_eq!(roster.over().collect::<Vec<_>>(), [(one, now)]);
    assert!(!complete(&mut roster, one), "its outcome does not count");
    assert_eq!(begun(&mut roster), [two]);
    assert_eq!(roster.unsent, []);
}

#[test]
fn what_has_not_begun_is_cancelled_at_once_and_what_runs_is_asked() {
    let mut roster = Roster::new(1);
    let (one, running) = assign(&mut roster, 1);
    let (two, _) = assign(&mut roster, 2);
    let cancel = Interrupt::Cancel { reason: Some("wrong scan".into()) };
    roster.wanted(one, cancel.clone(), Wanted::Cancel);
    roster.wanted(two, cancel.clone(), Wanted::Cancel);
    assert_eq!(running.interrupt(), Some(cancel));
    assert_eq!(roster.unsent, [two]);
    roster.finished(one, Some(Outcome::cancelled("half")), RESULT_BYTES_MAX);
    let confirm = Report::Confirm { wanted: Wanted::Cancel, result: "half".into() };
    assert_eq!(roster.send(one), Some(&confirm));
    assert!(roster.send(two).is_some(), "the confirmation is still there");
    assert_eq!(begun(&mut roster), [one], "the cancelled one never begins");
}

#[test]
fn a_report_that_was_not_answered_is_sent_again_after_the_reconnect() {
    let (mut roster, now) = (Roster::new(3), Instant::now());
    let (one, _) = assign(&mut roster, 1);
    let (two, _) = assign(&mut roster, 2);
    let (three, running) = assign(&mut roster, 3);
    complete(&mut roster, one);
    complete(&mut roster, two);
    for held in std::mem::take(&mut roster.unsent) {
        roster.send(held).unwrap();
    }
    assert_eq!(
        roster.for_heartbeat(),
        [three],
        "the broker has heard of the ends before it hears the heartbeat"
    );
    roster.disconnected();
    let mut presented = roster.for_register();
    presented.sort_by_key(|held| held.task);
    assert_eq!(presented, [one, two, three]);
    // The first report had arrived before the connection broke.
    assert_eq!(roster.registered(now, &presented, &[0]), [one]);
    assert_eq!(roster.unsent, [two]);
    assert_eq!(roster.len(), 2);
    assert_eq!(running.interrupt(), None, "what runs goes on");
}

#[test]
fn an_attempt_that_is_over_after_the_reconnect_is_stopped_and_not_reported() {
    let (mut roster, now) = (Roster::new(1), Instant::now());
    let (one, running) = assign(&mut roster, 1);
    roster.disconnected();
    roster.registered(now, &[one], &[0]);
    assert_eq!(running.interrupt(), Some(Interrupt::Stop { why: StopWhy::Stale }));
    assert!(!complete(&mut roster, one));
    assert!(roster.is_empty() && roster.unsent.is_empty());
}

#[test]
fn what_waited_for_a_hand_is_forgotten_when_the_connection_is_lost() {
    let mut roster = Roster::new(1);
    let (one, _) = assign(&mut roster, 1);
    assign(&mut roster, 2);
    roster.disconnected();
    assert_eq!(roster.for_register(), [one]);
    roster.begins.clear();
    complete(&mut roster, one);
    assert_eq!(begun(&mut roster), []);
}

#[test]
fn a_stale_answer_ends_a_report() {
    let (mut roster, now) = (Roster::new(1), Instant::now());
    let (one, _) = assign(&mut roster, 1);
    complete(&mut roster, one);
    assert_eq!(roster.answered(now, one, Some(&refusal(Code::StaleAttempt))), Answered::Stale);
    assert!(roster.is_empty());
}

#[test]
fn a_broker_without_room_is_told_again_a_little_later() {
    let (mut roster, now) = (Roster::new(1), Instant::now());
    let (one, _) = assign(&mut roster, 1);
    complete(&mut roster, one);
    roster.unsent.clear();
    roster.send(one);
    assert_eq!(roster.answered(now, one, Some(&refusal(Code::DiskFull))), Answered::Again);
    assert_eq!(roster.for_heartbeat(), [one], "the broker still believes it to run");
    assert_eq!(roster.next_due(), Some(now + AGAIN_AFTER));
    roster.due(now);
    assert_eq!(roster.unsent, []);
    roster.due(now + AGAIN_AFTER);
    assert_eq!(roster.unsent, [one]);
}

#[test]
fn a_report_that_the_broker_does_not_take_becomes_a_failure_and_then_nothing() {
    let (mut roster, now) = (Roster::new(1), Instant::now());
    let (one, _) = assign(&mut roster, 1);
    complete(&mut roster, one);
    assert_eq!(roster.answered(now, one, Some(&refusal(Code::BadValue))), Answered::Again);
    assert!(matches!(roster.send(one), Some(Report::Fail(failure)) if failure.message.starts_with(REFUSED)));
    assert!(matches!(roster.answered(now, one, Some(&refusal(Code::BadValue))), Answered::Given(_)));
    assert!(roster.is_empty());
}

#[test]
fn a_leaving_worker_gives_back_what_has_not_begun_and_asks_the_rest_to_hurry() {
    let mut roster = Roster::new(1);
    let (one, running) = assign(&mut roster, 1);
    let (two, _) = assign(&mut roster, 2);
    roster.leave();
    let (three, _) = assign(&mut roster, 3);
    assert_eq!(roster.unsent, [two, three]);
    assert!(matches!(roster.send(two), Some(Report::GiveBack { .. })));
    assert_eq!(running.interrupt(), None);
    roster.hurry();
    assert_eq!(running.interrupt(), Some(Interrupt::Leaving));
    begun(&mut roster);
    complete(&mut roster, one);
    assert_eq!(begun(&mut roster), []);
}

#[test]
fn what_does_not_end_in_time_is_reported_as_crashed_and_its_handler_is_over() {
    let (mut roster, now) = (Roster::new(2), Instant::now());
    let (one, running) = assign(&mut roster, 1);
    let (two, _) = assign(&mut roster, 2);
    complete(&mut roster, two);
    roster.abandon(now);
    assert_eq!(running.interrupt(), Some(Interrupt::Stop { why: StopWhy::Stale }));
    assert!(matches!(roster.send(one), Some(Report::Fail(failure)) if failure.crashed));
    assert!(matches!(roster.send(two), Some(Report::Complete(_))));
    assert!(!complete(&mut roster, one), "its outcome does not count any more");
    assert_eq!(
        roster.answered(now, one, None),
        Answered::Taken(Report::Fail(Box::new(
            Failure::new(1, "the worker stopped before the handler ended").crashed()
        )))
    );
}
