//! Intents: cancelling and pausing are wishes that are remembered until they are carried out.

use tenure_engine::command::Completion;
use tenure_engine::state::{EXIT_CANCELLED, TaskState, Wanted};
use tenure_engine::terms::OnLost;
use tenure_engine::{Blob, Command, NewTask, Peer, StateName, TaskId, WorkerSpec};

use crate::broker::{Broker, SECOND, failure, spec};

/// A worker runs a task of a client.
fn running() -> (Broker, Peer, Peer, TaskId) {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let task = NewTask { retries: 3, ..broker.new_task("q") };
    let task = broker.submit_task(&ann, task);
    broker.start(&worker, task);
    broker.hush();
    (broker, ann, worker, task)
}

fn confirm(broker: &mut Broker, worker: &Peer, task: TaskId, wanted: Wanted, result: Blob) {
    let held = broker.held(task);
    broker.does(worker, Command::Confirm { held, wanted, result });
}

#[test]
fn a_running_task_is_asked_to_stop_and_its_worker_confirms() {
    let (mut broker, ann, worker, task) = running();
    broker.does(&ann, Command::Cancel { task, reason: Some("typo".into()) });
    broker.hears(&["#1/1 cancel requested (typo)", "-> w: cancel #1/1 (typo)", "#1/1 cancel delivered to w"]);
    assert_eq!(broker.state(task), StateName::Running);
    let TaskState::Running(holding) = broker.show(task).state else { panic!("it runs") };
    let intent = holding.intent.expect("a client wants something");
    assert_eq!(
        (intent.wanted, intent.reason.as_deref(), intent.delivered),
        (Wanted::Cancel, Some("typo"), true)
    );
    // Asking again is no news.
    broker.cancel(&ann, task);
    broker.hears_nothing();
    confirm(&mut broker, &worker, task, Wanted::Cancel, Blob::new(70, 7));
    broker.hears(&["#1/1 cancelled (typo)"]);
    let TaskState::Cancelled(end) = broker.show(task).state else { panic!("it is cancelled") };
    assert_eq!(
        (end.exit_code, end.message.as_deref(), end.result),
        (EXIT_CANCELLED, Some("typo"), Blob::new(70, 7))
    );
    assert_eq!(end.worker.as_deref(), Some("w"));
}

#[test]
fn a_waiting_task_is_cancelled_at_once_and_an_unconfirmed_one_too() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let (assigned, waiting) = (broker.submit(&ann, "q"), broker.submit(&ann, "q"));
    broker.hush();
    broker.cancel(&ann, waiting);
    broker.hears(&["#2 cancelled"]);
    broker.cancel(&ann, assigned);
    broker.hears(&["-> w: stop #1/1, cancelled", "#1/1 cancelled"]);
    // If it had just begun, its report comes too late.
    let held = broker.held(assigned);
    let refusal = broker.refuses(&worker, Command::Complete(vec![Completion { held, result: Blob::EMPTY }]));
    assert_eq!(refusal.code(), "stale-attempt");
}

#[test]
fn an_intent_reaches_a_worker_that_was_disconnected() {
    let (mut broker, ann, worker, task) = running();
    broker.disconnect(&worker);
    broker.hush();
    broker.does(&ann, Command::Cancel { task, reason: Some("late".into()) });
    broker.hears(&["#1/1 cancel requested (late)"]);
    broker.wait(SECOND * 5);
    let again = broker.client("w again");
    let held = vec![broker.held(task)];
    broker.does(&again, Command::Register(Box::new(WorkerSpec { held, ..spec("w", &["q"], 1) })));
    broker.hears(&[
        "w returned",
        "#1/1 holder w returned",
        "-> w again: cancel #1/1 (late)",
        "#1/1 cancel delivered to w",
        "queue q served",
    ]);
    confirm(&mut broker, &again, task, Wanted::Cancel, Blob::EMPTY);
    broker.hears(&["#1/1 cancelled (late)"]);
}

#[test]
fn an_intent_reaches_a_worker_that_was_only_silent() {
    let (mut broker, ann, worker, task) = running();
    broker.wait(SECOND * 16);
    broker.hush();
    broker.pause(&ann, task);
    broker.hears(&["#1/1 pause requested"]);
    broker.heartbeat(&worker);
    broker.hears(&[
        "w returned",
        "#1/1 holder w returned",
        "-> w: pause #1/1",
        "#1/1 pause delivered to w",
        "queue q served",
    ]);
}

#[test]
fn a_delivered_intent_is_repeated_to_a_returning_worker_with_one_event() {
    let (mut broker, ann, worker, task) = running();
    broker.cancel(&ann, task);
    broker.disconnect(&worker);
    broker.hush();
    let again = broker.client("w again");
    let held = vec![broker.held(task)];
    broker.does(&again, Command::Register(Box::new(WorkerSpec { held, ..spec("w", &["q"], 1) })));
    broker.hears(&["w returned", "#1/1 holder w returned", "-> w again: cancel #1/1", "queue q served"]);
}

#[test]
fn an_unconfirmed_intent_is_forced_when_the_lease_ends() {
    let (mut broker, ann, worker, task) = running();
    broker.does(&ann, Command::Cancel { task, reason: Some("now".into()) });
    broker.disconnect(&worker);
    broker.hush();
    broker.wait(SECOND * 30);
    broker.hears(&["#1/1 cancelled by force (now)", "w left"]);
    assert_eq!(broker.show(task).crashes, 0);

    let (mut broker, ann, worker, task) = running();
    broker.does(&ann, Command::Pause { task, reason: Some("lunch".into()), terminate: false });
    broker.disconnect(&worker);
    broker.hush();
    broker.wait(SECOND * 30);
    broker.hears(&["#1/1 crashed on w, connection-closed: paused, 2 left", "w left"]);
    let TaskState::Paused(pause) = broker.show(task).state else { panic!("it is paused") };
    assert_eq!(pause.reason.as_deref(), Some("lunch"));
}

#[test]
fn a_running_task_is_paused_and_resumed() {
    let (mut broker, ann, worker, task) = running();
    broker.does(&ann, Command::Pause { task, reason: Some("maintenance".into()), terminate: false });
    broker.hears(&[
        "#1/1 pause requested (maintenance)",
        "-> w: pause #1/1 (maintenance)",
        "#1/1 pause delivered to w",
    ]);
    confirm(&mut broker, &worker, task, Wanted::Pause, Blob::new(30, 3));
    // Another attempt will follow, so the bytes of this one are of no use.
    broker.hears(&["#1/1 paused (maintenance)", "freed 30+3"]);
    let TaskState::Paused(pause) = broker.show(task).state else { panic!("it is paused") };
    assert_eq!((pause.since, pause.reason.as_deref()), (broker.now, Some("maintenance")));
    broker.does(&ann, Command::Resume { task });
    broker.hears(&["#1/1 resumed", "#1/2 assigned to w", "-> w: run #1/2"]);
}

#[test]
fn a_cancel_takes_precedence_over_a_pause() {
    let (mut broker, ann, worker, task) = running();
    broker.pause(&ann, task);
    broker.hush();
    broker.cancel(&ann, task);
    broker.hears(&["#1/1 cancel requested", "-> w: cancel #1/1", "#1/1 cancel delivered to w"]);
    broker.pause(&ann, task);
    broker.hears_nothing();
    // It has stopped because it was asked to pause; cancelling is what is wanted now.
    confirm(&mut broker, &worker, task, Wanted::Pause, Blob::EMPTY);
    broker.hears(&["#1/1 cancelled"]);
}

#[test]
fn work_completed_in_spite_of_an_intent_counts() {
    for wish in [
        Command::Cancel { task: TaskId::from_u128(1), reason: None },
        Command::Pause { task: TaskId::from_u128(1), reason: None, terminate: false },
    ] {
        let (mut broker, ann, worker, task) = running();
        broker.does(&ann, wish);
        broker.hush();
        broker.complete(&worker, task);
        broker.hears(&["#1/1 completed by w"]);
    }
}

#[test]
fn a_failure_after_an_intent_carries_the_intent_out() {
    let (mut broker, ann, worker, task) = running();
    broker.does(&ann, Command::Cancel { task, reason: Some("stop it".into()) });
    broker.hush();
    let held = broker.held(task);
    broker.does(&worker, Command::Fail(failure(held, 143)));
    broker.hears(&["#1/1 cancelled (stop it)"]);

    let (mut broker, ann, worker, task) = running();
    broker.does(&ann, Command::Pause { task, reason: Some("wait".into()), terminate: false });
    broker.hush();
    let held = broker.held(task);
    broker.does(&worker, Command::Fail(failure(held, 143)));
    broker.hears(&["#1/1 failed by w with 143: paused"]);
    let TaskState::Paused(pause) = broker.show(task).state else { panic!("it is paused") };
    assert_eq!((pause.reason.as_deref(), broker.show(task).failures), (Some("wait"), 1));
}

#[test]
fn a_task_that_is_given_back_after_an_intent_carries_the_intent_out() {
    let (mut broker, ann, worker, task) = running();
    broker.does(&ann, Command::Pause { task, reason: Some("wait".into()), terminate: false });
    broker.hush();
    broker.give_back(&worker, task);
    broker.hears(&["#1/1 paused (wait)"]);

    let (mut broker, ann, worker, task) = running();
    broker.cancel(&ann, task);
    broker.hush();
    broker.does(&worker, Command::Leave);
    broker.hears(&["#1/1 cancelled", "w left", "queue q unserved"]);
}

#[test]
fn an_unrequested_intent_cannot_be_confirmed() {
    let (mut broker, ann, worker, task) = running();
    let held = broker.held(task);
    for wanted in [Wanted::Cancel, Wanted::Pause] {
        let refusal = broker.refuses(&worker, Command::Confirm { held, wanted, result: Blob::EMPTY });
        assert_eq!(refusal.code(), "wrong-state");
    }
    broker.pause(&ann, task);
    broker.hush();
    let refusal =
        broker.refuses(&worker, Command::Confirm { held, wanted: Wanted::Cancel, result: Blob::EMPTY });
    assert_eq!(refusal.code(), "wrong-state");
    assert_eq!(
        refusal.to_string(),
        "task 00000000-0000-0000-0000-000000000001 is running: cannot confirm an unrequested cancel of it"
    );
}

#[test]
fn the_run_limit_carries_out_what_was_wanted() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let task = NewTask { run_limit: Some(SECOND * 5), on_lost: OnLost::Requeue, ..broker.new_task("q") };
    let task = broker.submit_task(&ann, task);
    broker.start(&worker, task);
    broker.cancel(&ann, task);
    broker.hush();
    broker.wait(SECOND * 5);
    broker.hears(&["-> w: stop #1/1, run-limit", "#1/1 cancelled by force"]);
}
