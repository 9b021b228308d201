//! Retrying an ended task, and moving one that waits.

use tenure_engine::command::{AttemptFailure, Completion, Move};
use tenure_engine::{Blob, Command, NewTask, StateName, Why};

use crate::broker::{Broker, SECOND, failure, names};

#[test]
fn an_ended_task_starts_over_with_its_sins_forgiven_but_its_attempts_counted() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let task = NewTask { crash_budget: 2, retries: 1, ..broker.new_task("q") };
    let task = broker.submit_task(&ann, task);
    let crash = AttemptFailure { crashed: true, ..failure(broker.held(task), 7) };
    broker.does(&worker, Command::Fail(crash));
    let last = AttemptFailure { is_final: true, result: Blob::new(40, 4), ..failure(broker.held(task), 7) };
    broker.does(&worker, Command::Fail(last));
    let info = broker.show(task);
    assert_eq!((info.state.name(), info.attempt, info.crashes, info.failures), (StateName::Failed, 2, 1, 1));
    let old = broker.held(task);
    broker.hush();
    broker.does(&ann, Command::Retry { task });
    broker.hears(&["freed 40+4", "#1/2 retried", "#1/3 assigned to w", "-> w: run #1/3"]);
    let info = broker.show(task);
    assert_eq!((info.crashes, info.failures, info.crashed_on.len()), (0, 0, 0));
    // A report from its earlier life stays stale.
    let refusal =
        broker.refuses(&worker, Command::Complete(vec![Completion { held: old, result: Blob::EMPTY }]));
    assert_eq!(refusal.code(), "stale-attempt");
    broker.complete(&worker, task);
    broker.hears(&["#1/3 completed by w"]);
    broker.does(&ann, Command::Retry { task });
    broker.hears(&["#1/3 retried", "#1/4 assigned to w", "-> w: run #1/4"]);
}

#[test]
fn a_cancelled_task_that_was_to_wait_runs_at_once_when_it_is_retried() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let task = NewTask { not_before: Some(broker.now + SECOND * 100), ..broker.new_task("q") };
    let task = broker.submit_task(&ann, task);
    broker.cancel(&ann, task);
    broker.hush();
    broker.does(&ann, Command::Retry { task });
    broker.hears(&["#1 retried"]);
    assert_eq!(broker.state(task), StateName::Ready);
}

#[test]
fn a_waiting_task_moves_to_another_queue_priority_and_tags() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let task = NewTask { tags: names(&["old"]), ..broker.new_task("q") };
    let task = broker.submit_task(&ann, task);
    broker.hush();
    let to = Move { queue: Some("r".into()), priority: Some(8), tags: Some(names(&["b", "a", "b"])) };
    broker.does(&ann, Command::Move { task, to });
    broker.hears(&["#1 moved"]);
    let info = broker.show(task);
    assert_eq!((&*info.terms.queue, info.priority, &info.terms.tags), ("r", 8, &names(&["a", "b"])));
    assert_eq!(broker.explain(task), Why::NoWorkerEver { queue: "r".into() });
    // A move to where it is changes nothing else.
    broker.does(&ann, Command::Move { task, to: Move::default() });
    broker.hears(&["#1 moved"]);
    assert_eq!(broker.show(task), info);
    for (to, code) in [
        (Move { queue: Some("".into()), ..Move::default() }, "bad-name"),
        (Move { tags: Some(names(&[""])), ..Move::default() }, "bad-name"),
        (
            Move { tags: Some((0..40).map(|n| format!("{n}").into()).collect()), ..Move::default() },
            "too-many",
        ),
    ] {
        assert_eq!(broker.refuses(&ann, Command::Move { task, to }).code(), code);
    }
    let unknown = tenure_engine::TaskId::from_u128(77);
    for command in [
        Command::Move { task: unknown, to: Move::default() },
        Command::Retry { task: unknown },
        Command::Cancel { task: unknown, reason: None },
        Command::Pause { task: unknown, reason: None, terminate: false },
        Command::Resume { task: unknown },
        Command::Release { task: unknown },
    ] {
        assert_eq!(broker.refuses(&ann, command).code(), "unknown-task");
    }
}

#[test]
fn a_delayed_task_keeps_its_time_when_it_moves() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    broker.worker("w", &["r"], 1);
    let task = NewTask { not_before: Some(broker.now + SECOND), ..broker.new_task("q") };
    let task = broker.submit_task(&ann, task);
    broker.does(&ann, Command::Move { task, to: Move { queue: Some("r".into()), ..Move::default() } });
    broker.hush();
    broker.wait(SECOND);
    broker.hears(&["#1 due", "#1/1 assigned to w", "-> w: run #1/1"]);
}
