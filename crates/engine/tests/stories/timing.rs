//! Times: not before a moment, not started before another, not running for too long.

use std::time::Duration;

use tenure_engine::command::AttemptFailure;
use tenure_engine::state::{EXIT_EXPIRED, TaskState};
use tenure_engine::terms::{Backoff, OnLost};
use tenure_engine::{Command, NewTask, StateName, Timestamp, Why, WorkerSpec};

use crate::broker::{Broker, SECOND, failure, spec};

#[test]
fn a_task_waits_for_its_time() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    broker.worker("w", &["q"], 1);
    broker.hush();
    let at = broker.now + SECOND * 10;
    let task = NewTask { not_before: Some(at), ..broker.new_task("q") };
    let accepted = broker.submit_and_see(&ann, task);
    assert_eq!((accepted.state, accepted.unserved), (StateName::Delayed, None));
    assert_eq!(broker.explain(accepted.task), Why::NotBefore { until: at });
    broker.hears(&["#1 submitted"]);
    assert_eq!(broker.engine.next_deadline(), Some(at));
    broker.wait(SECOND * 9);
    broker.hears_nothing();
    broker.wait(SECOND);
    broker.hears(&["#1 due", "#1/1 assigned to w", "-> w: run #1/1"]);
}

#[test]
fn a_time_that_is_past_is_no_delay_and_one_that_never_comes_is_no_alarm() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let past = NewTask { not_before: Some(Timestamp(3)), ..broker.new_task("q") };
    assert_eq!(broker.submit_and_see(&ann, past).state, StateName::Ready);
    let never = NewTask { not_before: Some(Timestamp::NEVER), ..broker.new_task("q") };
    assert_eq!(broker.submit_and_see(&ann, never).state, StateName::Delayed);
    assert_eq!(broker.engine.next_deadline(), None);
    broker.hush();
}

#[test]
fn a_task_without_a_time_limit_waits_for_years_and_through_restarts() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let first = broker.worker("w", &["q"], 1);
    let task = broker.submit(&ann, "q");
    broker.start(&first, task);
    broker.disconnect(&first);
    for _ in 0..10 {
        broker.wait(SECOND * 86_400 * 100);
        broker.restart_after(SECOND * 86_400);
    }
    assert_eq!(broker.state(task), StateName::Ready);
    broker.hush();
    broker.worker("later", &["q"], 1);
    assert_eq!(broker.assigned(), [task]);
}

#[test]
fn a_task_that_has_not_started_in_time_fails_wherever_it_waits() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let expires = Some(broker.now + SECOND * 10);
    let ready = NewTask { expires_at: expires, ..broker.new_task("q") };
    let ready = broker.submit_task(&ann, ready);
    let held = NewTask { expires_at: expires, hold: true, ..broker.new_task("q") };
    let held = broker.submit_task(&ann, held);
    let assigned = NewTask { expires_at: expires, ..broker.new_task("r") };
    let assigned = broker.submit_task(&ann, assigned);
    broker.worker("w", &["r"], 1);
    broker.hush();
    broker.wait(SECOND * 10);
    broker.hears(&["#1 expired", "#2 expired", "-> w: stop #3/1, expired", "#3/1 expired"]);
    for task in [ready, held, assigned] {
        let TaskState::Failed(end) = broker.show(task).state else { panic!("it failed") };
        assert_eq!(
            (end.exit_code, end.message.as_deref()),
            (EXIT_EXPIRED, Some("it expired before it started"))
        );
    }
    // Nothing is left to happen but forgetting.
    assert_eq!(broker.engine.next_deadline(), Some(broker.now + Duration::from_secs(5)));
    broker.wait(SECOND * 5);
    broker.hears(&["w lost, heartbeat-missed", "queue r unserved"]);
}

#[test]
fn a_task_that_has_started_in_time_does_not_expire_even_if_it_has_to_start_again() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let task = NewTask { expires_at: Some(broker.now + SECOND), ..broker.new_task("q") };
    let task = broker.submit_task(&ann, task);
    broker.start(&worker, task);
    broker.give_back(&worker, task);
    broker.hush();
    broker.wait(SECOND * 2);
    assert_eq!(broker.state(task), StateName::Assigned);
    broker.hears_nothing();
}

#[test]
fn an_expired_task_can_be_retried_without_expiring_again() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let task = NewTask { expires_at: Some(broker.now + SECOND), ..broker.new_task("q") };
    let task = broker.submit_task(&ann, task);
    broker.wait(SECOND);
    broker.hush();
    broker.does(&ann, Command::Retry { task });
    broker.hears(&["#1 retried"]);
    broker.wait(SECOND * 100);
    assert_eq!(broker.state(task), StateName::Ready);
}

#[test]
fn a_run_limit_ends_an_attempt_that_takes_too_long() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let task = NewTask { run_limit: Some(SECOND * 10), crash_budget: 2, ..broker.new_task("q") };
    let task = broker.submit_task(&ann, task);
    broker.start(&worker, task);
    broker.hush();
    broker.wait(SECOND * 9);
    broker.heartbeat(&worker);
    broker.hears_nothing();
    broker.wait(SECOND);
    broker.hears(&[
        "-> w: stop #1/1, run-limit",
        "#1/1 crashed on w, run-limit: requeued, 1 left",
        "#1/2 assigned to w",
        "-> w: run #1/2",
    ]);
    broker.start(&worker, task);
    broker.hush();
    broker.wait(SECOND * 9);
    broker.heartbeat(&worker);
    broker.wait(SECOND);
    broker.hears(&["-> w: stop #1/2, run-limit", "#1/2 crashed on w, run-limit: failed, 0 left"]);
    assert_eq!(broker.worker_info("w").crashes, 0, "the worker is alive and well");
}

#[test]
fn without_a_run_limit_a_task_may_run_for_weeks() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker_with(WorkerSpec {
        heartbeat: SECOND * 3600,
        lost_after: SECOND * 7200,
        lease: SECOND * 7200,
        ..spec("w", &["q"], 1)
    });
    let task = broker.submit(&ann, "q");
    broker.start(&worker, task);
    broker.hush();
    for _ in 0..21 * 24 {
        broker.wait(SECOND * 3600);
        broker.heartbeat(&worker);
    }
    assert_eq!(broker.state(task), StateName::Running);
    broker.hears_nothing();
}

#[test]
fn a_failed_task_is_tried_again_after_a_delay_that_doubles() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let backoff = Backoff { first: SECOND * 4, max: SECOND * 8 };
    let task = NewTask { retries: 3, backoff, ..broker.new_task("q") };
    let task = broker.submit_task(&ann, task);
    for (failures, ceiling) in [(1, 4), (2, 8), (3, 8)] {
        broker.fail(&worker, task);
        let TaskState::Delayed { until } = broker.show(task).state else { panic!("it waits") };
        let delay = until.since(broker.now);
        assert!(delay <= SECOND * ceiling && delay >= SECOND * ceiling * 4 / 5, "{delay:?} of {ceiling}");
        assert_eq!(broker.show(task).failures, failures);
        broker.wait(delay);
        broker.heartbeat(&worker);
        assert_eq!(broker.state(task), StateName::Assigned);
    }
    broker.hush();
    broker.fail(&worker, task);
    broker.hears(&["#1/4 failed by w with 7: failed"]);
    assert_eq!((broker.show(task).failures, broker.show(task).crashes), (4, 0));
}

#[test]
fn a_task_whose_worker_crashed_may_wait_longer_from_crash_to_crash() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let crash_backoff = Some(Backoff { first: SECOND * 4, max: SECOND * 8 });
    let task = NewTask { crash_budget: 4, crash_backoff, ..broker.new_task("q") };
    let task = broker.submit_task(&ann, task);
    for ceiling in [4, 8, 8] {
        let crash = AttemptFailure { crashed: true, ..failure(broker.held(task), 7) };
        broker.does(&worker, Command::Fail(crash));
        let TaskState::Delayed { until } = broker.show(task).state else { panic!("it waits") };
        let delay = until.since(broker.now);
        assert!(delay <= SECOND * ceiling && delay >= SECOND * ceiling * 4 / 5, "{delay:?} of {ceiling}");
        broker.wait(delay);
        broker.heartbeat(&worker);
        assert_eq!(broker.state(task), StateName::Assigned);
    }
    let crash = AttemptFailure { crashed: true, ..failure(broker.held(task), 7) };
    broker.does(&worker, Command::Fail(crash));
    assert_eq!(broker.state(task), StateName::Failed, "the budget is what it was");
    broker.hush();
}

#[test]
fn a_final_failure_is_not_tried_again() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let task = NewTask { retries: 3, on_lost: OnLost::Requeue, ..broker.new_task("q") };
    let task = broker.submit_task(&ann, task);
    broker.hush();
    let last = AttemptFailure {
        is_final: true,
        message: Some("no such file".into()),
        ..failure(broker.held(task), 2)
    };
    broker.does(&worker, Command::Fail(last));
    broker.hears(&["#1/1 failed by w with 2 (no such file): failed"]);
    let TaskState::Failed(end) = broker.show(task).state else { panic!("it failed") };
    assert_eq!(
        (end.exit_code, end.message.as_deref(), end.worker.as_deref()),
        (2, Some("no such file"), Some("w"))
    );
}

#[test]
fn reports_that_make_no_sense_are_refused() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let task = broker.submit(&ann, "q");
    broker.hush();
    let held = broker.held(task);
    let cases = [
        (Command::Fail(failure(held, 0)), "bad-value"),
        (Command::Fail(failure(held, -1)), "bad-value"),
        (
            Command::Fail(AttemptFailure {
                message: Some("x".repeat(16 * 1024 + 1).into()),
                ..failure(held, 1)
            }),
            "too-many",
        ),
        (Command::Progress { held, percent: Some(101), note: None }, "bad-value"),
        (Command::Progress { held, percent: None, note: Some("x".repeat(4 * 1024 + 1).into()) }, "too-many"),
        (Command::GiveBack { held, reason: Some("x".repeat(4 * 1024 + 1).into()) }, "too-many"),
    ];
    for (command, code) in cases {
        assert_eq!(broker.refuses(&worker, command).code(), code);
    }
    for command in [
        Command::Cancel { task, reason: Some("x".repeat(4 * 1024 + 1).into()) },
        Command::Pause { task, reason: Some("x".repeat(4 * 1024 + 1).into()), terminate: false },
    ] {
        assert_eq!(broker.refuses(&ann, command).code(), "too-many");
    }
}

#[test]
fn progress_is_reported_and_shown() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let task = broker.submit(&ann, "q");
    broker.hush();
    let held = broker.held(task);
    // A worker that reports progress has started.
    broker.does(&worker, Command::Progress { held, percent: Some(40), note: Some("sorting".into()) });
    broker.hears(&["#1/1 started by w", "#1/1 progress 40% (sorting)"]);
    let TaskState::Running(holding) = broker.show(task).state else { panic!("it runs") };
    let progress = holding.progress.expect("there is progress");
    assert_eq!(
        (progress.percent, progress.note.as_deref(), progress.at),
        (Some(40), Some("sorting"), broker.now)
    );
    broker.does(&worker, Command::Progress { held, percent: None, note: None });
    broker.hears(&["#1/1 progress"]);
}
