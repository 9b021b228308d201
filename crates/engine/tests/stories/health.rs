//! The health of workers: quarantine after too many crashes, draining, leaving.

use tenure_engine::command::{OnClose, PresenceName, WorkerAbout};
use tenure_engine::terms::OnLost;
use tenure_engine::{Command, NewTask, Peer, Settings, StateName, WaitOn, Why, WorkerSpec};

use crate::broker::{Broker, SECOND, spec};

fn few_crashes() -> Settings {
    Settings {
        quarantine_crashes: 2,
        quarantine_window: SECOND * 100,
        quarantine_for: SECOND * 60,
        ..Settings::default()
    }
}

/// A worker runs a task and its connection dies with it.
fn crash(broker: &mut Broker, ann: &Peer, name: &str) {
    let worker = broker.worker_with(WorkerSpec { on_close: OnClose::TasksDie, ..spec(name, &["q"], 1) });
    let task = NewTask { crash_budget: 1, ..broker.new_task("q") };
    let task = broker.submit_task(ann, task);
    broker.start(&worker, task);
    broker.disconnect(&worker);
}

#[test]
fn a_worker_that_crashes_too_often_is_put_into_quarantine_for_a_while() {
    let mut broker = Broker::with(few_crashes());
    let ann = broker.client("ann");
    crash(&mut broker, &ann, "w");
    broker.wait(SECOND * 10);
    broker.hush();
    crash(&mut broker, &ann, "w");
    let said = broker.take_said();
    assert!(said.contains(&"w quarantined until 1070000 after crash 2".to_owned()), "{said:#?}");
    // It comes back, but gets nothing.
    let worker = broker.worker("w", &["q"], 1);
    broker.hears(&["w registered"]);
    let task = broker.submit(&ann, "q");
    broker.hears(&["#3 submitted, quarantined"]);
    let until = broker.now + SECOND * 60;
    assert_eq!(broker.explain(task), Why::Quarantined { worker: "w".into(), until });
    assert_eq!(broker.worker_info("w").quarantined_until, Some(until));
    for _ in 0..5 {
        broker.wait(SECOND * 10);
        broker.heartbeat(&worker);
    }
    broker.hears_nothing();
    broker.wait(SECOND * 10);
    broker.hears(&["w cleared", "queue q served", "#3/1 assigned to w", "-> w: run #3/1"]);
    assert_eq!((broker.worker_info("w").crashes, broker.worker_info("w").quarantined_until), (2, None));
}

#[test]
fn crashes_that_are_long_ago_do_not_count() {
    let mut broker = Broker::with(few_crashes());
    let ann = broker.client("ann");
    for _ in 0..4 {
        crash(&mut broker, &ann, "w");
        broker.wait(SECOND * 100);
    }
    assert_eq!((broker.worker_info("w").crashes, broker.worker_info("w").quarantined_until), (4, None));
    broker.hush();
}

#[test]
fn a_quarantine_can_be_lifted_by_hand() {
    let mut broker = Broker::with(few_crashes());
    let ann = broker.client("ann");
    crash(&mut broker, &ann, "w");
    crash(&mut broker, &ann, "w");
    broker.worker("w", &["q"], 1);
    broker.submit(&ann, "q");
    broker.hush();
    broker.does(&ann, Command::ClearWorker { worker: "w".into() });
    broker.hears(&["w cleared", "queue q served", "#3/1 assigned to w", "-> w: run #3/1"]);
    // The crashes that led to it are forgiven as well: one more does not suffice.
    crash(&mut broker, &ann, "other");
    assert_eq!(broker.worker_info("w").quarantined_until, None);
    broker.hush();
    assert_eq!(
        broker.refuses(&ann, Command::ClearWorker { worker: "absent".into() }).code(),
        "unknown-worker"
    );
}

#[test]
fn a_worker_that_restarts_again_and_again_is_noticed_even_if_it_is_never_away_for_long() {
    let mut broker = Broker::with(few_crashes());
    let ann = broker.client("ann");
    let first = broker.worker_with(WorkerSpec { instance: 1, ..spec("w", &["q"], 1) });
    let task = broker.submit(&ann, "q");
    broker.start(&first, task);
    for instance in 2..4 {
        let old = broker.worker_info("w");
        assert_eq!(old.presence, PresenceName::Live);
        broker.disconnect(&Peer { session: tenure_engine::SessionId(instance), ..first.clone() });
        let again = broker.client("w");
        broker.does(&again, Command::Register(Box::new(WorkerSpec { instance, ..spec("w", &["q"], 1) })));
        if broker.state(task) == StateName::Assigned {
            broker.start(&again, task);
        }
    }
    assert_eq!(broker.worker_info("w").crashes, 2);
    assert!(broker.worker_info("w").quarantined_until.is_some());
    broker.hush();
}

#[test]
fn a_task_that_runs_for_too_long_is_not_its_workers_fault() {
    let mut broker = Broker::with(few_crashes());
    let ann = broker.client("ann");
    let first = broker.worker("first", &["q"], 1);
    // Five endless tasks, and a worker that stops each of them on request.
    for _ in 0..5 {
        let endless = NewTask { run_limit: Some(SECOND), crash_budget: 1, ..broker.new_task("q") };
        let endless = broker.submit_task(&ann, endless);
        broker.start(&first, endless);
        broker.wait(SECOND);
        assert_eq!(broker.state(endless), StateName::Failed);
        broker.heartbeat(&first);
    }
    assert_eq!(
        (broker.worker_info("first").crashes, broker.worker_info("first").quarantined_until),
        (0, None)
    );
    broker.hush();
    // Should it have been the worker after all, another worker gets the next attempt.
    let task = NewTask { run_limit: Some(SECOND), ..broker.new_task("q") };
    let task = broker.submit_task(&ann, task);
    broker.start(&first, task);
    broker.worker("second", &["q"], 1);
    broker.hush();
    broker.wait(SECOND);
    broker.hears(&[
        "-> first: stop #6/1, run-limit",
        "#6/1 crashed on first, run-limit: requeued, 2 left",
        "#6/2 assigned to second",
        "-> second: run #6/2",
    ]);
}

#[test]
fn a_worker_that_drains_finishes_what_it_has_and_gets_nothing_new() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 2);
    let running = broker.submit(&ann, "q");
    broker.start(&worker, running);
    broker.hush();
    broker.does(&worker, Command::Drain);
    broker.hears(&["w draining", "queue q unserved"]);
    // Twice is no news.
    broker.does(&worker, Command::Drain);
    broker.hears_nothing();
    let waiting = broker.submit(&ann, "q");
    broker.hears(&["#2 submitted, draining"]);
    assert_eq!(broker.explain(waiting), Why::Draining { workers: 1 });
    broker.complete(&worker, running);
    broker.hears(&["#1/1 completed by w"]);
    broker.does(&worker, Command::Leave);
    broker.hears(&["w left"]);
    assert!(broker.workers().is_empty());
}

#[test]
fn a_client_may_drain_a_worker_and_it_learns_of_it_even_if_it_was_disconnected() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let same = || WorkerSpec { instance: 5, ..spec("w", &["q"], 1) };
    let worker = broker.worker_with(same());
    let task = broker.submit(&ann, "q");
    broker.start(&worker, task);
    broker.disconnect(&worker);
    broker.hush();
    broker.does(&ann, Command::DrainWorker { worker: "w".into() });
    broker.hears(&["w draining"]);
    let again = broker.client("w again");
    let held = vec![broker.held(task)];
    broker.does(&again, Command::Register(Box::new(WorkerSpec { held, ..same() })));
    broker.hears(&["w returned", "#1/1 holder w returned", "-> w again: drain"]);
    assert!(broker.worker_info("w").draining);
    // A new process starts afresh.
    broker.complete(&again, task);
    broker.does(&again, Command::Leave);
    broker.worker_with(WorkerSpec { instance: 6, ..same() });
    assert!(!broker.worker_info("w").draining);
    broker.hush();
    assert_eq!(broker.refuses(&ann, Command::DrainWorker { worker: "x".into() }).code(), "unknown-worker");
}

#[test]
fn a_worker_that_is_only_a_memory_cannot_be_drained() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    crash(&mut broker, &ann, "w");
    broker.hush();
    assert_eq!(broker.worker_info("w").presence, PresenceName::Gone);
    assert_eq!(broker.refuses(&ann, Command::DrainWorker { worker: "w".into() }).code(), "unknown-worker");
    broker.does(&ann, Command::ClearWorker { worker: "w".into() });
    broker.hears(&["w cleared"]);
}

#[test]
fn what_must_not_run_twice_by_itself_is_paused_when_its_worker_leaves() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let leaving = broker.worker("leaving", &["q"], 2);
    let task = NewTask { on_lost: OnLost::Pause, ..broker.new_task("q") };
    let running = broker.submit_task(&ann, task);
    let task = NewTask { on_lost: OnLost::Pause, ..broker.new_task("q") };
    let unconfirmed = broker.submit_task(&ann, task);
    broker.start(&leaving, running);
    broker.hush();
    broker.does(&leaving, Command::Leave);
    broker.hears(&[
        "#1/1 paused (the worker left)",
        "#2/1 given back by leaving (the worker left)",
        "leaving left",
        "queue q unserved",
    ]);
    assert_eq!(broker.show(running).state.name(), StateName::Paused);
    assert_eq!(broker.show(unconfirmed).state.name(), StateName::Ready);
}

#[test]
fn what_must_not_run_twice_by_itself_is_paused_when_it_is_given_back() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let task = NewTask { on_lost: OnLost::Pause, ..broker.new_task("q") };
    let task = broker.submit_task(&ann, task);
    // Nothing has been done yet: it waits again, and comes again.
    broker.give_back(&worker, task);
    assert_eq!((broker.state(task), broker.show(task).attempt), (StateName::Assigned, 2));
    broker.start(&worker, task);
    broker.hush();
    broker.give_back(&worker, task);
    broker.hears(&["#1/2 paused"]);
    assert_eq!(broker.state(task), StateName::Paused);
    // A human may say so, and it is the same with the next attempt.
    broker.does(&ann, Command::Resume { task });
    broker.start(&worker, task);
    broker.give_back(&worker, task);
    assert_eq!((broker.state(task), broker.show(task).attempt), (StateName::Paused, 3));
    broker.hush();
}

#[test]
fn what_must_not_run_twice_at_all_fails_when_its_worker_leaves() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let leaving = broker.worker("leaving", &["q"], 3);
    let [running, suspended, unconfirmed] = [(); 3].map(|()| {
        let task = NewTask { on_lost: OnLost::Fail, ..broker.new_task("q") };
        broker.submit_task(&ann, task)
    });
    broker.start(&leaving, running);
    broker.start(&leaving, suspended);
    let held = broker.held(suspended);
    broker.does(&leaving, Command::Suspend { held, on: WaitOn::Resume });
    broker.hush();
    broker.does(&leaving, Command::Leave);
    let failed = "failed by leaving with -2 (given back by leaving: the worker left): failed";
    broker.hears(&[
        &format!("#1/1 {failed}"),
        &format!("#2/1 {failed}"),
        "#3/1 given back by leaving (the worker left)",
        "leaving left",
        "queue q unserved",
    ]);
    for task in [running, suspended] {
        let info = broker.show(task);
        assert_eq!((info.state.name(), info.crashes, info.failures), (StateName::Failed, 0, 0));
    }
    assert_eq!(broker.state(unconfirmed), StateName::Ready);
}

#[test]
fn what_must_not_run_twice_at_all_fails_when_it_is_given_back() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let task = NewTask { on_lost: OnLost::Fail, ..broker.new_task("q") };
    let task = broker.submit_task(&ann, task);
    // Nothing has been done yet: it waits again, and comes again.
    broker.give_back(&worker, task);
    assert_eq!((broker.state(task), broker.show(task).attempt), (StateName::Assigned, 2));
    broker.start(&worker, task);
    broker.hush();
    broker.give_back(&worker, task);
    broker.hears(&["#1/2 failed by w with -2 (given back by w): failed"]);
    let end = broker.show(task).state.end().expect("it has ended").clone();
    assert_eq!((end.exit_code, end.message.as_deref()), (-2, Some("given back by w")));
    // A human may begin it again.
    broker.does(&ann, Command::Retry { task });
    assert_eq!((broker.state(task), broker.show(task).attempt), (StateName::Assigned, 3));
    broker.hush();
}

#[test]
fn a_worker_that_leaves_gives_back_what_it_holds_without_blame() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let leaving = broker.worker("leaving", &["q"], 2);
    let (running, unconfirmed) = (broker.submit(&ann, "q"), broker.submit(&ann, "q"));
    broker.start(&leaving, running);
    let _staying = broker.worker("staying", &["q"], 2);
    broker.hush();
    broker.does(&leaving, Command::Leave);
    broker.hears(&[
        "#1/1 given back by leaving (the worker left)",
        "#2/1 given back by leaving (the worker left)",
        "leaving left",
        "#1/2 assigned to staying",
        "-> staying: run #1/2",
        "#2/2 assigned to staying",
        "-> staying: run #2/2",
    ]);
    for task in [running, unconfirmed] {
        let info = broker.show(task);
        assert_eq!((info.crashes, info.crashed_on.len()), (0, 0));
    }
    assert_eq!(broker.refuses(&leaving, Command::Leave).code(), "not-a-worker");
}

#[test]
fn there_is_a_limit_to_workers_and_those_that_are_only_remembered_make_room() {
    let mut broker = Broker::with(Settings { workers_max: 4, ..Settings::default() });
    let ann = broker.client("ann");
    for number in 0..10 {
        crash(&mut broker, &ann, &format!("crashed {number}"));
    }
    assert!(broker.workers().len() <= 3, "{:?}", broker.workers().len());
    for number in broker.workers().len()..4 {
        broker.worker(&format!("live {number}"), &["q"], 1);
    }
    broker.hush();
    let one_more = broker.client("one more");
    let refusal = broker.refuses(&one_more, Command::Register(Box::new(spec("one more", &["q"], 1))));
    assert_eq!(refusal, tenure_engine::Refusal::Full { what: "workers", limit: 4 });
}

#[test]
fn a_lost_worker_that_wants_to_be_remembered_is_listed_until_it_is_cleared() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker_with(WorkerSpec { remembered: true, ..spec("w", &["q"], 1) });
    broker.does(&worker, Command::SessionClosed);
    broker.wait(SECOND * 31);
    assert_eq!(broker.worker_info("w").presence, PresenceName::Gone);
    broker.does(&ann, Command::ClearWorker { worker: "w".into() });
    assert!(broker.workers().is_empty());
    let worker = broker.worker_with(WorkerSpec { remembered: true, ..spec("w", &["q"], 1) });
    broker.does(&worker, Command::Leave);
    assert!(broker.workers().is_empty(), "a worker that left is not listed");
    broker.hush();
}

/// A worker with a name of its own that says on which host it runs.
fn on_host(name: &str, host: &str) -> WorkerSpec {
    WorkerSpec {
        on_close: OnClose::TasksDie,
        inherits_crashes: true,
        about: WorkerAbout { host: Some(host.into()), door: Some("door"), ..WorkerAbout::default() },
        ..spec(name, &["q"], 1)
    }
}

#[test]
fn crashes_follow_the_host_of_a_worker_whose_name_is_new_each_time() {
    let mut broker = Broker::with(few_crashes());
    let ann = broker.client("ann");
    for name in ["first", "second"] {
        let worker = broker.worker_with(on_host(name, "node-3"));
        let task = NewTask { crash_budget: 1, ..broker.new_task("q") };
        let task = broker.submit_task(&ann, task);
        broker.start(&worker, task);
        broker.disconnect(&worker);
    }
    let until = broker.now + SECOND * 60;
    broker.worker_with(on_host("third", "node-3"));
    let info = broker.worker_info("third");
    assert_eq!((info.crashes, info.quarantined_until), (2, Some(until)));
    let names: Vec<_> = broker.workers().into_iter().map(|worker| worker.worker.to_string()).collect();
    assert_eq!(names, ["third"], "the record has moved");
    broker.worker_with(on_host("fourth", "node-3"));
    broker.worker_with(on_host("fifth", "node-4"));
    for name in ["fourth", "fifth"] {
        assert_eq!(broker.worker_info(name).crashes, 0, "{name}");
    }
    broker.hush();
}
