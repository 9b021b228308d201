//! Cancel timeouts: the broker does not wait for a worker that does not stop a cancelled task. It ends the attempt and tells the worker.

use std::time::Duration;

use tenure_engine::command::Completion;
use tenure_engine::{Blob, Command, Held, NewTask, Peer, Settings, StateName, TaskId, WorkerSpec};

use crate::broker::{Broker, SECOND, spec};

/// A worker with one slot that runs a task, and a client that cancels it.
fn cancelled(broker: &mut Broker, change: impl FnOnce(&mut NewTask)) -> (Peer, TaskId) {
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let mut task = broker.new_task("q");
    change(&mut task);
    let task = broker.submit_task(&ann, task);
    broker.start(&worker, task);
    broker.cancel(&ann, task);
    (worker, task)
}

/// Time passes, and the worker is heard of, whatever it does not do.
fn beats(broker: &mut Broker, worker: &Peer, seconds: u32) {
    for _ in 0..seconds {
        broker.wait(SECOND);
        broker.heartbeat(worker);
    }
}

#[test]
fn a_cancel_that_a_living_worker_ignores_comes_true_after_a_minute() {
    let mut broker = Broker::new();
    let (worker, task) = cancelled(&mut broker, |_| ());
    broker.hush();
    beats(&mut broker, &worker, 59);
    broker.hears_nothing();
    beats(&mut broker, &worker, 1);
    broker.hears(&["-> w: stop #1/1, cancelled", "#1/1 cancelled by force"]);
    assert_eq!(broker.state(task), StateName::Cancelled);
    let late = Completion { held: Held { task, attempt: 1 }, result: Blob::EMPTY };
    let refusal = broker.refuses(&worker, Command::Complete(vec![late]));
    assert_eq!(refusal.code(), "stale-attempt");
}

#[test]
fn the_task_says_how_long_it_may_take_and_zero_is_as_long_as_it_takes() {
    let mut broker = Broker::new();
    let (worker, _) = cancelled(&mut broker, |task| task.cancel_timeout = Some(SECOND * 5));
    broker.hush();
    beats(&mut broker, &worker, 5);
    broker.hears(&["-> w: stop #1/1, cancelled", "#1/1 cancelled by force"]);

    let mut broker = Broker::new();
    let (worker, task) = cancelled(&mut broker, |task| task.cancel_timeout = Some(Duration::ZERO));
    broker.hush();
    beats(&mut broker, &worker, 200);
    broker.hears_nothing();
    assert_eq!(broker.state(task), StateName::Running);
}

#[test]
fn the_setting_may_be_off() {
    let mut broker = Broker::with(Settings { cancel_timeout: None, ..Settings::default() });
    let (worker, task) = cancelled(&mut broker, |_| ());
    broker.hush();
    beats(&mut broker, &worker, 200);
    broker.hears_nothing();
    assert_eq!(broker.state(task), StateName::Running);
}

#[test]
fn the_time_counts_from_the_moment_the_worker_gets_the_notice() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let task = NewTask { cancel_timeout: Some(SECOND * 5), ..broker.new_task("q") };
    let task = broker.submit_task(&ann, task);
    broker.start(&worker, task);
    broker.disk_stops();
    broker.cancel(&ann, task);
    broker.hush();
    beats(&mut broker, &worker, 10);
    broker.hears_nothing();
    broker.disk_goes_on();
    beats(&mut broker, &worker, 4);
    broker.hears_nothing();
    beats(&mut broker, &worker, 1);
    broker.hears(&["-> w: stop #1/1, cancelled", "#1/1 cancelled by force"]);
}

#[test]
fn it_holds_after_a_restart_of_the_broker() {
    let mut broker = Broker::new();
    let (_, task) = cancelled(&mut broker, |task| task.cancel_timeout = Some(SECOND * 5));
    broker.restart_after(SECOND);
    broker.hush();
    let again = broker.client("w");
    let held = vec![broker.held(task)];
    broker.does(&again, Command::Register(Box::new(WorkerSpec { held, ..spec("w", &["q"], 1) })));
    broker.hears(&["w returned", "#1/1 holder w returned", "-> w: cancel #1/1", "queue q served"]);
    beats(&mut broker, &again, 4);
    broker.hears_nothing();
    beats(&mut broker, &again, 1);
    broker.hears(&["-> w: stop #1/1, cancelled", "#1/1 cancelled by force"]);
}

#[test]
fn a_reminder_does_not_prolong_it() {
    let mut broker = Broker::new();
    let (worker, task) = cancelled(&mut broker, |task| task.cancel_timeout = Some(SECOND * 5));
    beats(&mut broker, &worker, 3);
    let held = vec![broker.held(task)];
    broker.does(&worker, Command::Register(Box::new(WorkerSpec { held, ..spec("w", &["q"], 1) })));
    broker.hush();
    beats(&mut broker, &worker, 2);
    broker.hears(&["-> w: stop #1/1, cancelled", "#1/1 cancelled by force"]);
}

#[test]
fn a_pause_waits_as_long_as_it_takes_because_the_work_is_wanted() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let task = broker.submit(&ann, "q");
    broker.start(&worker, task);
    broker.pause(&ann, task);
    broker.hush();
    beats(&mut broker, &worker, 200);
    broker.hears_nothing();
    broker.complete(&worker, task);
    broker.hears(&["#1/1 completed by w"]);
}

#[test]
fn a_slot_is_not_free_while_the_worker_lists_what_it_must_stop() {
    let mut broker = Broker::new();
    let (worker, task) = cancelled(&mut broker, |task| task.cancel_timeout = Some(SECOND));
    let ann = broker.client("ann");
    broker.submit(&ann, "q");
    let held = Held { task, attempt: 1 };
    let lists = |broker: &mut Broker, held: Vec<Held>| {
        broker.does(&worker, Command::Heartbeat { held: Some(held), stats: None });
    };
    lists(&mut broker, vec![held]);
    broker.hush();
    broker.wait(SECOND);
    broker.hears(&["-> w: stop #1/1, cancelled", "#1/1 cancelled by force"]);
    assert_eq!(broker.worker_info("w").stopping, [held]);
    lists(&mut broker, vec![held]);
    broker.hears_nothing();
    lists(&mut broker, vec![]);
    broker.hears(&["#2/1 assigned to w", "-> w: run #2/1"]);
    assert!(broker.worker_info("w").stopping.is_empty());
}

#[test]
fn a_slot_is_free_at_once_if_the_worker_never_says_what_it_holds() {
    let mut broker = Broker::new();
    let (_, _) = cancelled(&mut broker, |task| task.cancel_timeout = Some(SECOND));
    let ann = broker.client("ann");
    broker.submit(&ann, "q");
    broker.hush();
    broker.wait(SECOND);
    broker.hears(&[
        "-> w: stop #1/1, cancelled",
        "#1/1 cancelled by force",
        "#2/1 assigned to w",
        "-> w: run #2/1",
    ]);
}
