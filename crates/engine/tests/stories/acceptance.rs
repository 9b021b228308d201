//! Acceptance: an assigned task is not a running one until its worker says so; until then it can be taken back.

use tenure_engine::{Command, Held, NewTask, Settings, StateName, Why};

use crate::broker::{Broker, SECOND};

#[test]
fn a_task_runs_when_its_worker_confirms_it() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let task = broker.submit(&ann, "q");
    broker.hush();
    assert_eq!(broker.state(task), StateName::Assigned);
    assert_eq!(broker.explain(task), Why::AwaitingAcceptance { worker: "w".into(), since: broker.now });
    broker.start(&worker, task);
    broker.hears(&["#1/1 started by w"]);
    assert_eq!(broker.explain(task), Why::NotWaiting { state: StateName::Running });
    // Saying it twice is no mistake.
    broker.start(&worker, task);
    broker.hears_nothing();
    broker.complete(&worker, task);
    broker.hears(&["#1/1 completed by w"]);
}

#[test]
fn a_task_that_is_done_at_once_need_not_be_confirmed_first() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let task = broker.submit(&ann, "q");
    broker.hush();
    broker.complete(&worker, task);
    broker.hears(&["#1/1 completed by w"]);
}

#[test]
fn an_unconfirmed_task_is_taken_back_and_offered_to_another_worker() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let silent = broker.worker("silent", &["q"], 1);
    let task = NewTask { accept_timeout: Some(SECOND * 10), ..broker.new_task("q") };
    let task = broker.submit_task(&ann, task);
    broker.hush();
    broker.wait(SECOND * 9);
    broker.heartbeat(&silent);
    broker.hears_nothing();
    broker.wait(SECOND);
    // There is no other worker, so it is offered to the same worker again.
    broker.hears(&[
        "#1/1 taken back from silent",
        "-> silent: stop #1/1, taken-back",
        "#1/2 assigned to silent",
        "-> silent: run #1/2",
    ]);
    assert_eq!(broker.show(task).crashed_on.len(), 1);
    assert_eq!(broker.show(task).crashes, 0, "no worker crashed");
    // The old attempt is over.
    let stale = broker.refuses(&silent, Command::Start(vec![Held { task, attempt: 1 }]));
    assert_eq!(stale.code(), "stale-attempt");
    // Another worker appears, and is preferred when the time is over.
    broker.wait(SECOND);
    broker.worker("other", &["q"], 1);
    broker.heartbeat(&silent);
    broker.hush();
    broker.wait(SECOND * 9);
    broker.hears(&[
        "#1/2 taken back from silent",
        "-> silent: stop #1/2, taken-back",
        "#1/3 assigned to other",
        "-> other: run #1/3",
    ]);
}

#[test]
fn the_brokers_accept_timeout_applies_if_a_task_sets_none() {
    let mut broker = Broker::with(Settings { accept_timeout: SECOND * 3, ..Settings::default() });
    let ann = broker.client("ann");
    broker.worker("w", &["q"], 1);
    broker.submit(&ann, "q");
    broker.hush();
    broker.wait(SECOND * 3);
    broker.hears(&[
        "#1/1 taken back from w",
        "-> w: stop #1/1, taken-back",
        "#1/2 assigned to w",
        "-> w: run #1/2",
    ]);
}

#[test]
fn a_freer_worker_takes_what_a_busy_one_has_not_begun() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let hoarder = broker.worker("hoarder", &["q"], 4);
    let tasks: Vec<_> = (0..4).map(|_| broker.submit(&ann, "q")).collect();
    broker.start(&hoarder, tasks[0]);
    broker.hush();
    // Not at once: the hoarder may be about to confirm.
    let _idle = broker.worker("idle", &["q"], 1);
    broker.hears(&["idle registered"]);
    broker.wait(SECOND * 2);
    broker.hears(&[
        "#2/1 taken back from hoarder",
        "-> hoarder: stop #2/1, taken-back",
        "#2/2 assigned to idle",
        "-> idle: run #2/2",
    ]);
    assert_eq!(broker.state(tasks[0]), StateName::Running);
}

#[test]
fn a_worker_that_comes_later_takes_what_has_waited_too_long_for_its_confirmation() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let hoarder = broker.worker("hoarder", &["q"], 2);
    let (running, idle) = (broker.submit(&ann, "q"), broker.submit(&ann, "q"));
    broker.start(&hoarder, running);
    broker.wait(SECOND * 3);
    broker.hush();
    broker.worker("fresh", &["q"], 1);
    broker.hears(&[
        "fresh registered",
        "#2/1 taken back from hoarder",
        "-> hoarder: stop #2/1, taken-back",
        "#2/2 assigned to fresh",
        "-> fresh: run #2/2",
    ]);
    assert_eq!(broker.show(idle).crashed_on.len(), 1);
}

#[test]
fn two_workers_that_do_not_confirm_do_not_pass_a_task_to_and_fro() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let (one, two) = (broker.worker("one", &["q"], 1), broker.worker("two", &["q"], 1));
    let task = broker.submit(&ann, "q");
    for _ in 0..29 {
        broker.wait(SECOND);
        broker.heartbeat(&one);
        broker.heartbeat(&two);
    }
    assert_eq!(broker.show(task).attempt, 2, "handed over once, then left until the time to accept is over");
    broker.hush();
}

#[test]
fn nothing_is_taken_back_for_a_worker_that_could_not_have_it() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    broker.limit(&ann, "t", Some(2));
    broker.worker("hoarder", &["q"], 2);
    for _ in 0..2 {
        let task = NewTask { tags: vec!["t".into()], ..broker.new_task("q") };
        broker.submit_task(&ann, task);
    }
    broker.limit(&ann, "t", Some(1));
    broker.worker("elsewhere", &["r"], 1);
    broker.worker("idle", &["q"], 1);
    broker.hush();
    // The limit was lowered: a task that is given up would not be handed out again.
    broker.wait(SECOND * 3);
    broker.hears_nothing();
    broker.limit(&ann, "t", Some(2));
    broker.does(&ann, Command::PauseQueue { queue: "q".into() });
    broker.hush();
    broker.worker("another", &["q"], 1);
    broker.hears(&["another registered"]);
}
