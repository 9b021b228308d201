//! Tests of attempts: started, interrupted, reported, lost and resumed.

use std::sync::Arc;

use tenure_wire::task::{Assignment, Resource, Terms};
use tenure_wire::words::OnLost;
use tenure_wire::worker::WorkerSpec;
use tenure_wire::{TaskId, Timestamp};

use super::super::outbox::WorkerOutbox;
use super::*;

const RESULT_BYTES_MAX: usize = 1 << 20;

fn context(task: u8, on_lost: OnLost) -> Context {
    let terms = Terms { on_lost, ..Terms::new("images") };
    let assignment = assignment(Held { task: TaskId([task; 16]), attempt: 1 });
    Context::new(assignment, Arc::new(terms), Arc::new(WorkerOutbox::default()))
}

fn assignment(held: Held) -> Assignment {
    Assignment {
        task: held.task,
        attempt: held.attempt,
        body: Bytes::new(),
        terms: 0,
        priority: 0,
        submitted_at: Timestamp(0),
        name: None,
        parent: None,
        crashes: 0,
        failures: 0,
        checkpoint_bytes: 0,
        after: Vec::new(),
        cpus: Vec::new(),
        gpus: Vec::new(),
        traceparent: None,
        tracestate: None,
        array: None,
        index: 0,
    }
}

fn room(slots: u32) -> Occupancy {
    Occupancy::new(&WorkerSpec::new("w", Vec::new(), slots))
}

/// Takes a task and returns it with its handler begun, if it was.
fn assign(attempts: &mut AttemptTable, task: u8) -> (Held, Context) {
    let context = context(task, OnLost::Requeue);
    attempts.assigned(context.clone());
    (context.held(), context)
}

fn begun(attempts: &mut AttemptTable) -> Vec<Held> {
    attempts.begins.drain(..).map(|context| context.held()).collect()
}

fn complete(attempts: &mut AttemptTable, held: Held) -> bool {
    attempts.finished(held, Some(Outcome::complete("done")), RESULT_BYTES_MAX)
}

fn refusal(code: Code) -> Refusal {
    Refusal::new(code, "no")
}

#[test]
fn a_task_is_started_run_reported_and_forgotten() {
    let (mut attempts, now) = (AttemptTable::new(room(1)), Instant::now());
    let (held, _) = assign(&mut attempts, 1);
    assert_eq!((std::mem::take(&mut attempts.starts), begun(&mut attempts)), (vec![held], vec![held]));
    assert!(complete(&mut attempts, held));
    assert_eq!(attempts.unsent, [held]);
    assert_eq!(attempts.send(held), Some(&AttemptReport::Complete("done".into())));
    assert_eq!(
        attempts.answered(now, held, None),
        ReportOutcome::Taken(AttemptReport::Complete("done".into()))
    );
    assert!(attempts.is_empty());
    assert_eq!(attempts.answered(now, held, None), ReportOutcome::Unknown);
}

#[test]
fn a_careful_task_begins_only_when_the_broker_knows() {
    let (mut attempts, now) = (AttemptTable::new(room(2)), Instant::now());
    let (one, two) = (context(1, OnLost::Pause), context(2, OnLost::Pause));
    attempts.assigned(one.clone());
    attempts.assigned(two.clone());
    assert_eq!(attempts.starts, [one.held(), two.held()]);
    assert_eq!(begun(&mut attempts), []);
    attempts.started(now, &[one.held(), two.held()], &[0]);
    assert_eq!(begun(&mut attempts), [two.held()]);
    assert_eq!(attempts.len(), 1, "the refused one is gone");
}

#[test]
fn only_a_task_that_may_run_again_begins_before_the_broker_knows() {
    for (on_lost, begins_at_once) in [(OnLost::Requeue, true), (OnLost::Pause, false), (OnLost::Fail, false)]
    {
        let (mut attempts, now) = (AttemptTable::new(room(1)), Instant::now());
        let context = context(1, on_lost.clone());
        attempts.assigned(context.clone());
        assert_eq!(!begun(&mut attempts).is_empty(), begins_at_once, "{on_lost:?}");
        attempts.started(now, &[context.held()], &[]);
        assert_eq!(!begun(&mut attempts).is_empty(), !begins_at_once, "{on_lost:?}");
    }
}

#[test]
fn a_careful_task_whose_start_got_lost_begins_when_the_registration_confirms_it() {
    let (mut attempts, now) = (AttemptTable::new(room(1)), Instant::now());
    let careful = context(1, OnLost::Pause);
    attempts.assigned(careful.clone());
    attempts.disconnected();
    let presented = attempts.for_register();
    assert_eq!(presented, [careful.held()]);
    assert_eq!(begun(&mut attempts), []);
    attempts.registered(now, &presented, &[]);
    assert_eq!(begun(&mut attempts), [careful.held()]);
}

#[test]
fn no_more_handlers_run_than_there_are_slots_even_if_some_do_not_stop() {
    let (mut attempts, now) = (AttemptTable::new(room(1)), Instant::now());
    let (one, running) = assign(&mut attempts, 1);
    begun(&mut attempts);
    attempts.stop(now, one, StopWhy::Stale);
    assert_eq!(running.interrupt(), Some(Interrupt::Stop { why: StopWhy::Stale }));
    let (two, _) = assign(&mut attempts, 2);
    assert_eq!(begun(&mut attempts), [], "the old handler still runs");
    assert_eq!(attempts.for_heartbeat(), [two], "what is over is not presented, what waits is");
    assert_eq!(attempts.over().collect::<Vec<_>>(), [(one, now)]);
    assert!(!complete(&mut attempts, one), "its outcome does not count");
    assert_eq!(begun(&mut attempts), [two]);
    assert_eq!(attempts.unsent, []);
}

#[test]
fn what_has_not_begun_is_cancelled_at_once_and_what_runs_is_asked() {
    let mut attempts = AttemptTable::new(room(1));
    let (one, running) = assign(&mut attempts, 1);
    let (two, _) = assign(&mut attempts, 2);
    let cancel = Interrupt::Cancel { reason: Some("wrong scan".into()) };
    attempts.wanted(one, cancel.clone(), Wanted::Cancel);
    attempts.wanted(two, cancel.clone(), Wanted::Cancel);
    assert_eq!(running.interrupt(), Some(cancel));
    assert_eq!(attempts.unsent, [two]);
    attempts.finished(one, Some(Outcome::cancelled("half")), RESULT_BYTES_MAX);
    let confirm = AttemptReport::Confirm { wanted: Wanted::Cancel, result: "half".into() };
    assert_eq!(attempts.send(one), Some(&confirm));
    assert!(attempts.send(two).is_some(), "the confirmation is still there");
    assert_eq!(begun(&mut attempts), [one], "the cancelled one never begins");
}

#[test]
fn a_report_that_was_not_answered_is_sent_again_after_the_reconnect() {
    let (mut attempts, now) = (AttemptTable::new(room(3)), Instant::now());
    let (one, _) = assign(&mut attempts, 1);
    let (two, _) = assign(&mut attempts, 2);
    let (three, running) = assign(&mut attempts, 3);
    complete(&mut attempts, one);
    complete(&mut attempts, two);
    for held in std::mem::take(&mut attempts.unsent) {
        attempts.send(held).unwrap();
    }
    assert_eq!(
        attempts.for_heartbeat(),
        [three],
        "the broker has heard of the ends before it hears the heartbeat"
    );
    attempts.disconnected();
    let mut presented = attempts.for_register();
    presented.sort_by_key(|held| held.task);
    assert_eq!(presented, [one, two, three]);
    // The first report had arrived before the connection broke.
    assert_eq!(attempts.registered(now, &presented, &[0]), [one]);
    assert_eq!(attempts.unsent, [two]);
    assert_eq!(attempts.len(), 2);
    assert_eq!(running.interrupt(), None, "what runs goes on");
}

#[test]
fn an_attempt_that_is_over_after_the_reconnect_is_stopped_and_not_reported() {
    let (mut attempts, now) = (AttemptTable::new(room(1)), Instant::now());
    let (one, running) = assign(&mut attempts, 1);
    attempts.disconnected();
    attempts.registered(now, &[one], &[0]);
    assert_eq!(running.interrupt(), Some(Interrupt::Stop { why: StopWhy::Stale }));
    assert!(!complete(&mut attempts, one));
    assert!(attempts.is_empty() && attempts.unsent.is_empty());
}

#[test]
fn what_waited_for_a_hand_is_forgotten_when_the_connection_is_lost() {
    let mut attempts = AttemptTable::new(room(1));
    let (one, _) = assign(&mut attempts, 1);
    assign(&mut attempts, 2);
    attempts.disconnected();
    assert_eq!(attempts.for_register(), [one]);
    attempts.begins.clear();
    complete(&mut attempts, one);
    assert_eq!(begun(&mut attempts), []);
}

#[test]
fn a_stale_answer_ends_a_report() {
    let (mut attempts, now) = (AttemptTable::new(room(1)), Instant::now());
    let (one, _) = assign(&mut attempts, 1);
    complete(&mut attempts, one);
    assert_eq!(attempts.answered(now, one, Some(&refusal(Code::StaleAttempt))), ReportOutcome::Stale);
    assert!(attempts.is_empty());
}

#[test]
fn a_broker_without_room_gets_the_report_again_a_little_later() {
    let (mut attempts, now) = (AttemptTable::new(room(1)), Instant::now());
    let (one, _) = assign(&mut attempts, 1);
    complete(&mut attempts, one);
    attempts.unsent.clear();
    attempts.send(one);
    assert_eq!(attempts.answered(now, one, Some(&refusal(Code::DiskFull))), ReportOutcome::Again);
    assert_eq!(attempts.for_heartbeat(), [one], "the broker still believes it to run");
    assert_eq!(attempts.next_due(), Some(now + AGAIN_AFTER));
    attempts.due(now);
    assert_eq!(attempts.unsent, []);
    attempts.due(now + AGAIN_AFTER);
    assert_eq!(attempts.unsent, [one]);
}

#[test]
fn a_report_that_the_broker_does_not_take_becomes_a_failure_and_then_nothing() {
    let (mut attempts, now) = (AttemptTable::new(room(1)), Instant::now());
    let (one, _) = assign(&mut attempts, 1);
    complete(&mut attempts, one);
    assert_eq!(attempts.answered(now, one, Some(&refusal(Code::BadValue))), ReportOutcome::Again);
    assert!(
        matches!(attempts.send(one), Some(AttemptReport::Fail(failure)) if failure.message.starts_with(REFUSED))
    );
    assert!(matches!(attempts.answered(now, one, Some(&refusal(Code::BadValue))), ReportOutcome::Given(_)));
    assert!(attempts.is_empty());
}

#[test]
fn a_leaving_worker_gives_back_what_has_not_begun_and_asks_the_rest_to_hurry() {
    let mut attempts = AttemptTable::new(room(1));
    let (one, running) = assign(&mut attempts, 1);
    let (two, _) = assign(&mut attempts, 2);
    attempts.leave();
    let (three, _) = assign(&mut attempts, 3);
    assert_eq!(attempts.unsent, [two, three]);
    assert!(matches!(attempts.send(two), Some(AttemptReport::GiveBack { .. })));
    assert_eq!(running.interrupt(), None);
    attempts.interrupt_all();
    assert_eq!(running.interrupt(), Some(Interrupt::Leaving));
    begun(&mut attempts);
    complete(&mut attempts, one);
    assert_eq!(begun(&mut attempts), []);
}

#[test]
fn what_does_not_end_in_time_is_reported_as_crashed_and_its_handler_is_over() {
    let (mut attempts, now) = (AttemptTable::new(room(2)), Instant::now());
    let (one, running) = assign(&mut attempts, 1);
    let (two, _) = assign(&mut attempts, 2);
    complete(&mut attempts, two);
    attempts.abandon(now);
    assert_eq!(running.interrupt(), Some(Interrupt::Stop { why: StopWhy::Stale }));
    assert!(matches!(attempts.send(one), Some(AttemptReport::Fail(failure)) if failure.crashed));
    assert!(matches!(attempts.send(two), Some(AttemptReport::Complete(_))));
    assert!(!complete(&mut attempts, one), "its outcome does not count any more");
    assert_eq!(
        attempts.answered(now, one, None),
        ReportOutcome::Taken(AttemptReport::Fail(Box::new(
            Failure::new(1, "the worker stopped before the handler ended").crashed()
        )))
    );
}

fn needing(task: u8, slots: u32, resources: &[(&str, u64)], gpus: &[u16]) -> Context {
    let row = |(name, quantity): &(&str, u64)| Resource { name: (*name).into(), quantity: *quantity };
    let terms = Terms { slots, resources: resources.iter().map(row).collect(), ..Terms::new("images") };
    let plain = context(task, OnLost::Requeue);
    let assignment = Assignment { gpus: gpus.to_vec(), ..assignment(plain.held()) };
    Context::new(assignment, Arc::new(terms), Arc::new(WorkerOutbox::default()))
}

#[test]
fn a_task_waits_until_its_whole_weight_is_free_and_one_without_weight_does_not() {
    let (mut attempts, now) = (AttemptTable::new(room(2)), Instant::now());
    let (first, _) = assign(&mut attempts, 1);
    begun(&mut attempts);
    // The broker has ended it, but its handler runs on.
    attempts.stop(now, first, StopWhy::Stale);
    let (large, light) = (needing(2, 2, &[], &[]), needing(3, 0, &[], &[]));
    attempts.assigned(large.clone());
    attempts.assigned(light.clone());
    assert_eq!(begun(&mut attempts), [light.held()]);
    complete(&mut attempts, first);
    assert_eq!(begun(&mut attempts), [large.held()]);
}

#[test]
fn a_gpu_is_free_when_the_handler_that_used_it_has_returned() {
    let mut spec = WorkerSpec::new("w", Vec::new(), 8);
    spec.resources = vec![Resource { name: "gpus".into(), quantity: 2_000 }];
    let (mut attempts, now) = (AttemptTable::new(Occupancy::new(&spec)), Instant::now());
    let whole = |task, gpu| needing(task, 1, &[("gpus", 1_000)], &[gpu]);
    let first = whole(1, 0);
    attempts.assigned(first.clone());
    assert_eq!(begun(&mut attempts), [first.held()]);
    attempts.stop(now, first.held(), StopWhy::Stale);
    let (same, other) = (whole(2, 0), whole(3, 1));
    attempts.assigned(same.clone());
    attempts.assigned(other.clone());
    assert_eq!(begun(&mut attempts), [other.held()]);
    complete(&mut attempts, first.held());
    assert_eq!(begun(&mut attempts), [same.held()]);
    let halves = [4, 5].map(|task| needing(task, 1, &[("gpus", 500)], &[0]));
    complete(&mut attempts, same.held());
    halves.iter().for_each(|half| attempts.assigned(half.clone()));
    assert_eq!(begun(&mut attempts), halves.map(|half| half.held()), "parts share one");
}
