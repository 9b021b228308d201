//! Leases: how long a worker that is not heard of is believed, what happens then, and how it comes back.

use tenure_engine::command::{AttemptFailure, Completion, OnClose, PresenceName};
use tenure_engine::terms::OnLost;
use tenure_engine::{Blob, Command, Held, NewTask, Refusal, Reply, StateName, WorkerSpec};

use crate::broker::{Broker, SECOND, failure, spec};

#[test]
fn a_closed_connection_is_reported_at_once_and_acted_on_when_the_lease_ends() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 2);
    let running = broker.submit(&ann, "q");
    let unconfirmed = NewTask { accept_timeout: Some(SECOND * 300), ..broker.new_task("q") };
    let unconfirmed = broker.submit_task(&ann, unconfirmed);
    broker.start(&worker, running);
    broker.wait(SECOND);
    broker.hush();
    broker.disconnect(&worker);
    // Last heard of at 1,000,000; the lease is thirty seconds.
    broker.hears(&[
        "w lost, connection-closed",
        "queue q unserved",
        "#1/1 holder w lost, connection-closed, believed until 1030000",
        "#2/1 holder w lost, connection-closed, believed until 1030000",
    ]);
    assert_eq!(broker.worker_info("w").presence, PresenceName::Lost);
    assert_eq!((broker.counts().live_workers, broker.counts().lost_workers), (0, 1));
    broker.wait(SECOND * 28);
    broker.hears_nothing();
    assert_eq!(broker.state(running), StateName::Running, "it may still be running");
    broker.wait(SECOND);
    broker.hears(&[
        "#1/1 crashed on w, connection-closed: requeued, 2 left",
        "#2/1 taken back from w",
        "w left",
    ]);
    assert_eq!((broker.state(running), broker.state(unconfirmed)), (StateName::Ready, StateName::Ready));
    assert_eq!(
        (broker.show(running).crashes, broker.show(unconfirmed).crashes),
        (1, 0),
        "only what ran has crashed"
    );
    let info = broker.worker_info("w");
    assert_eq!((info.presence, info.crashes, info.last_crash), (PresenceName::Gone, 1, Some(broker.now)));
}

#[test]
fn a_silent_worker_is_lost_after_its_own_limit() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let terms =
        WorkerSpec { heartbeat: SECOND, lost_after: SECOND * 3, lease: SECOND * 5, ..spec("w", &["q"], 1) };
    let worker = broker.worker_with(terms);
    let task = broker.submit(&ann, "q");
    broker.start(&worker, task);
    broker.hush();
    for _ in 0..5 {
        broker.wait(SECOND * 2);
        broker.heartbeat(&worker);
    }
    broker.hears_nothing();
    broker.wait(SECOND * 3);
    broker.hears(&[
        "w lost, heartbeat-missed",
        "queue q unserved",
        "#1/1 holder w lost, heartbeat-missed, believed until 1015000",
    ]);
    broker.wait(SECOND * 2);
    broker.hears(&[
        "-> w: stop #1/1, stale",
        "#1/1 crashed on w, heartbeat-missed: requeued, 2 left",
        "w left",
    ]);
    // It speaks again on the old connection: it has to register again.
    let late = Completion { held: Held { task, attempt: 1 }, result: Blob::EMPTY };
    assert_eq!(broker.refuses(&worker, Command::Complete(vec![late])), Refusal::NotAWorker);
}

#[test]
fn a_silent_worker_that_speaks_again_in_time_goes_on() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 2);
    let task = broker.submit(&ann, "q");
    broker.start(&worker, task);
    broker.wait(SECOND * 15);
    let waiting = broker.submit(&ann, "q");
    broker.hush();
    assert_eq!(broker.state(waiting), StateName::Ready, "a lost worker gets nothing new");
    broker.wait(SECOND * 10);
    // Any word will do.
    let held = broker.held(task);
    broker.does(&worker, Command::Progress { held, percent: Some(9), note: None });
    broker.hears(&[
        "w returned",
        "#1/1 holder w returned",
        "queue q served",
        "#1/1 progress 9%",
        "#2/1 assigned to w",
        "-> w: run #2/1",
    ]);
    // Its lease counts from now.
    broker.wait(SECOND * 14);
    broker.hears_nothing();
    broker.complete(&worker, task);
    broker.hears(&["#1/1 completed by w"]);
}

#[test]
fn a_closed_connection_is_no_sign_of_life() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let task = broker.submit(&ann, "q");
    broker.start(&worker, task);
    broker.wait(SECOND * 20);
    broker.hush();
    // It was silent for twenty seconds and is lost already; now its connection goes as well.
    broker.disconnect(&worker);
    broker.hears_nothing();
    broker.wait(SECOND * 10);
    broker.hears(&["#1/1 crashed on w, heartbeat-missed: requeued, 2 left", "w left"]);
}

#[test]
fn tasks_that_die_with_their_connection_are_elsewhere_at_once() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let fragile = WorkerSpec { on_close: OnClose::TasksDie, ..spec("fragile", &["q"], 2) };
    let worker = broker.worker_with(fragile);
    let (running, unconfirmed) = (broker.submit(&ann, "q"), broker.submit(&ann, "q"));
    broker.start(&worker, running);
    broker.worker("other", &["q"], 2);
    broker.hush();
    broker.disconnect(&worker);
    broker.hears(&[
        "fragile lost, connection-closed",
        "#1/1 holder fragile lost, connection-closed, believed until 1000000",
        "#2/1 holder fragile lost, connection-closed, believed until 1000000",
        "#1/1 crashed on fragile, connection-closed: requeued, 2 left",
        "#2/1 taken back from fragile",
        "fragile left",
        "#1/2 assigned to other",
        "-> other: run #1/2",
        "#2/2 assigned to other",
        "-> other: run #2/2",
    ]);
    assert_eq!(broker.state(unconfirmed), StateName::Assigned);
}

#[test]
fn a_silent_worker_whose_tasks_die_with_the_connection_is_given_up_when_it_closes() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker_with(WorkerSpec { on_close: OnClose::TasksDie, ..spec("w", &["q"], 1) });
    let task = broker.submit(&ann, "q");
    broker.start(&worker, task);
    broker.wait(SECOND * 16);
    broker.hush();
    broker.disconnect(&worker);
    broker.hears(&["#1/1 crashed on w, heartbeat-missed: requeued, 2 left", "w left"]);
}

#[test]
fn a_worker_that_computes_in_silence_has_more_time_while_it_is_busy() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker =
        broker.worker_with(WorkerSpec { busy_lost_after: Some(SECOND * 600), ..spec("w", &["q"], 1) });
    let task = broker.submit(&ann, "q");
    broker.start(&worker, task);
    broker.hush();
    broker.wait(SECOND * 599);
    broker.hears_nothing();
    broker.complete(&worker, task);
    broker.hears(&["#1/1 completed by w"]);
    // Now it is idle and expected to be heard of.
    broker.wait(SECOND * 15);
    broker.hears(&["w lost, heartbeat-missed", "queue q unserved"]);
    broker.wait(SECOND * 15);
    broker.hears(&["w left"]);
    assert!(broker.workers().is_empty(), "it has never crashed, so nothing is remembered");
}

#[test]
fn each_policy_says_what_follows_a_lost_worker() {
    for (on_lost, budget, line, state) in [
        (OnLost::Requeue, 2, "requeued, 1 left", StateName::Ready),
        (OnLost::Requeue, 1, "failed, 0 left", StateName::Failed),
        (OnLost::Requeue, 0, "failed, 0 left", StateName::Failed),
        (OnLost::Pause, 3, "paused, 2 left", StateName::Paused),
        (OnLost::Pause, 1, "paused, 0 left", StateName::Paused),
        (OnLost::Fail, 3, "failed, 2 left", StateName::Failed),
    ] {
        let mut broker = Broker::new();
        let ann = broker.client("ann");
        let worker = broker.worker_with(WorkerSpec { on_close: OnClose::TasksDie, ..spec("w", &["q"], 1) });
        let task = NewTask { on_lost, crash_budget: budget, ..broker.new_task("q") };
        let task = broker.submit_task(&ann, task);
        broker.start(&worker, task);
        broker.hush();
        broker.disconnect(&worker);
        broker.hears(&[
            "w lost, connection-closed",
            "queue q unserved",
            "#1/1 holder w lost, connection-closed, believed until 1000000",
            &format!("#1/1 crashed on w, connection-closed: {line}"),
            "w left",
        ]);
        assert_eq!(broker.state(task), state, "{on_lost:?} with {budget}");
    }
}

#[test]
fn a_task_that_was_paused_for_a_human_says_why() {
    use tenure_engine::TaskState;
    use tenure_engine::state::PauseCause;
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let task = NewTask { on_lost: OnLost::Pause, crash_budget: 2, ..broker.new_task("q") };
    let task = broker.submit_task(&ann, task);
    for why in [PauseCause::WorkerLost, PauseCause::CrashBudget] {
        let crash = AttemptFailure { crashed: true, ..failure(broker.held(task), 7) };
        broker.does(&worker, Command::Fail(crash));
        let TaskState::Paused(pause) = broker.show(task).state else { panic!("it is paused") };
        assert_eq!(pause.why, why);
        broker.does(&ann, Command::Resume { task });
    }
    broker.hush();
    broker.pause(&ann, task);
    let TaskState::Paused(pause) = broker.show(task).state else { panic!("it is paused") };
    assert_eq!(pause.why, PauseCause::Asked);
    broker.hears(&["-> w: stop #1/3, paused", "#1/3 paused"]);
}

#[test]
fn crashes_are_counted_apart_from_failures() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let task = NewTask { crash_budget: 2, retries: 1, ..broker.new_task("q") };
    let task = broker.submit_task(&ann, task);
    let crash = AttemptFailure {
        crashed: true,
        message: Some("out of memory".into()),
        ..failure(broker.held(task), 7)
    };
    broker.does(&worker, Command::Fail(crash.clone()));
    broker.fail(&worker, task);
    broker.wait(SECOND);
    broker.hush();
    assert_eq!((broker.show(task).crashes, broker.show(task).failures), (1, 1));
    assert_eq!(broker.state(task), StateName::Assigned);
    let crash = AttemptFailure { held: broker.held(task), ..crash };
    broker.does(&worker, Command::Fail(crash));
    broker.hears(&["#1/3 crashed on w, worker-said-so: failed, 0 left"]);
    let tenure_engine::TaskState::Failed(end) = broker.show(task).state else { panic!("it failed") };
    assert_eq!(end.exit_code, tenure_engine::state::EXIT_CRASHED);
    assert_eq!(end.message.as_deref(), Some("crash reported by worker w, crash 2: out of memory"));
}

#[test]
fn a_worker_that_comes_back_in_time_with_its_attempts_goes_on() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 3);
    let (running, sent, unheard) =
        (broker.submit(&ann, "q"), broker.submit(&ann, "q"), broker.submit(&ann, "q"));
    broker.start(&worker, running);
    broker.disconnect(&worker);
    broker.wait(SECOND * 10);
    broker.hush();
    let again = broker.client("w again");
    let held = vec![broker.held(running), broker.held(sent)];
    let reply = broker.does(&again, Command::Register(Box::new(WorkerSpec { held, ..spec("w", &["q"], 3) })));
    assert_eq!(reply, Reply::Registered { held: vec![Ok(()), Ok(())], returned: true });
    broker.hears(&[
        "w returned",
        "#1/1 holder w returned",
        "#2/1 started by w",
        "#2/1 holder w returned",
        // It has not heard of the third: that one is offered again, and no worker is to blame.
        "-> w again: stop #3/1, taken-back",
        "#3/1 given back by w",
        "queue q served",
        "#3/2 assigned to w",
        "-> w again: run #3/2",
    ]);
    assert_eq!(broker.show(unheard).crashes, 0);
    broker.complete(&again, running);
    broker.complete(&again, sent);
    broker.hears(&["#1/1 completed by w", "#2/1 completed by w"]);
}

#[test]
fn a_worker_that_comes_back_too_late_must_stop_each_attempt() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 2);
    let (moved_on, done) = (broker.submit(&ann, "q"), broker.submit(&ann, "q"));
    broker.start(&worker, moved_on);
    broker.start(&worker, done);
    broker.disconnect(&worker);
    broker.wait(SECOND * 30);
    let other = broker.worker("other", &["q"], 2);
    broker.start(&other, moved_on);
    broker.complete(&other, done);
    broker.hush();
    let again = broker.client("w again");
    let unknown = Held { task: tenure_engine::TaskId::from_u128(99), attempt: 1 };
    let held = vec![Held { task: moved_on, attempt: 1 }, Held { task: done, attempt: 1 }, unknown];
    let reply = broker.does(&again, Command::Register(Box::new(WorkerSpec { held, ..spec("w", &["q"], 2) })));
    let Reply::Registered { held, returned: false } = reply else { panic!("{reply:?}") };
    assert_eq!(
        held,
        [
            Err(Refusal::StaleAttempt { task: moved_on, attempt: 1, current: 2, state: StateName::Running }),
            Err(Refusal::StaleAttempt { task: done, attempt: 1, current: 2, state: StateName::Completed }),
            Err(Refusal::UnknownTask { task: unknown.task }),
        ]
    );
    broker.hears(&["w registered"]);
    // A late report of the old attempt is refused, whatever it says, and changes nothing.
    let stale = Held { task: moved_on, attempt: 1 };
    for command in [
        Command::Start(vec![stale]),
        Command::Progress { held: stale, percent: None, note: None },
        Command::Complete(vec![Completion { held: stale, result: Blob::new(1, 1) }]),
        Command::Fail(failure(stale, 3)),
        Command::GiveBack { held: stale, reason: None },
        Command::Confirm { held: stale, wanted: tenure_engine::state::Wanted::Cancel, result: Blob::EMPTY },
        // Not even with the right number: another worker holds it.
        Command::Complete(vec![Completion {
            held: Held { task: moved_on, attempt: 2 },
            result: Blob::EMPTY,
        }]),
    ] {
        assert_eq!(broker.refuses(&again, command).code(), "stale-attempt");
    }
    assert_eq!(broker.state(moved_on), StateName::Running);
}

#[test]
fn a_new_process_that_knows_nothing_of_the_tasks_of_the_one_before_means_a_crash() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker_with(WorkerSpec { instance: 1, ..spec("w", &["q"], 1) });
    let task = broker.submit(&ann, "q");
    broker.start(&worker, task);
    broker.disconnect(&worker);
    broker.wait(SECOND);
    broker.hush();
    let again = broker.client("w");
    broker.does(&again, Command::Register(Box::new(WorkerSpec { instance: 2, ..spec("w", &["q"], 1) })));
    broker.hears(&[
        "w returned",
        "#1/1 crashed on w, forgotten: requeued, 2 left",
        "queue q served",
        "#1/2 assigned to w",
        "-> w: run #1/2",
    ]);
    assert_eq!(broker.worker_info("w").crashes, 1);
}

#[test]
fn the_same_process_that_has_lost_track_of_a_task_has_not_crashed() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker_with(WorkerSpec { instance: 1, ..spec("w", &["q"], 1) });
    let task = broker.submit(&ann, "q");
    broker.start(&worker, task);
    broker.hush();
    broker.does(&worker, Command::Register(Box::new(WorkerSpec { instance: 1, ..spec("w", &["q"], 1) })));
    broker.hears(&[
        "w returned",
        "#1/1 crashed on w, forgotten: requeued, 2 left",
        "#1/2 assigned to w",
        "-> w: run #1/2",
    ]);
    assert_eq!(broker.worker_info("w").crashes, 0);
}

#[test]
fn a_heartbeat_that_lists_what_is_held_finds_what_was_forgotten_and_what_is_stale() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 3);
    let (kept, forgotten, unconfirmed) =
        (broker.submit(&ann, "q"), broker.submit(&ann, "q"), broker.submit(&ann, "q"));
    broker.start(&worker, kept);
    broker.start(&worker, forgotten);
    broker.hush();
    let stale = Held { task: kept, attempt: 7 };
    // Said twice by mistake: that hides nothing.
    let held = Some(vec![broker.held(kept), broker.held(kept), stale]);
    let Reply::Held(answers) = broker.does(&worker, Command::Heartbeat { held, stats: None }) else {
        panic!("answers")
    };
    assert_eq!(answers[..2], [Ok(()), Ok(())]);
    assert_eq!(answers[2].as_ref().map_err(Refusal::code), Err("stale-attempt"));
    broker.hears(&["#2/1 crashed on w, forgotten: requeued, 2 left", "#2/2 assigned to w", "-> w: run #2/2"]);
    assert_eq!(broker.state(unconfirmed), StateName::Assigned, "it may still be on its way to the worker");
}

#[test]
fn the_connection_of_a_peer_that_is_no_worker_closes_without_a_message() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    broker.submit(&ann, "q");
    broker.hush();
    broker.disconnect(&ann);
    broker.hears_nothing();
}
