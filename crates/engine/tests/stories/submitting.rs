//! Submitting: one task or many, with ids and names of the client's choice, each accepted or refused on its own.

use std::time::Duration;

use tenure_engine::{Blob, Command, NewTask, Refusal, Settings, StateName, TaskId, Timestamp, Why};

use crate::broker::{Broker, names};

#[test]
fn a_task_is_accepted_and_its_submitter_hears_that_nobody_is_there_to_run_it() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let task = broker.new_task("analysis");
    let accepted = broker.submit_and_see(&ann, task);
    assert_eq!(accepted.task, TaskId::from_u128(1));
    assert_eq!(accepted.state, StateName::Ready);
    assert!(!accepted.known);
    assert_eq!(accepted.unserved, Some(Why::NoWorkerEver { queue: "analysis".into() }));
    broker.hears(&["#1 submitted, no-worker-ever"]);
}

#[test]
fn many_tasks_are_submitted_at_once_and_each_is_answered_on_its_own() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    broker.worker("w", &["q"], 1);
    broker.hush();
    let (good, bad, again, last) = (
        broker.new_task("q"),
        NewTask { queue: "".into(), ..broker.new_task("q") },
        NewTask::new(TaskId::from_u128(1), "q"),
        broker.new_task("q"),
    );
    let each = broker.submit_many(&ann, vec![good, bad, again, last]);
    assert!(each[0].as_ref().is_ok_and(|accepted| accepted.unserved.is_none()));
    assert_eq!(each[1], Err(Refusal::BadName { what: "queue", why: "is empty" }));
    assert_eq!(each[2], Err(Refusal::IdTaken { task: TaskId::from_u128(1) }));
    assert!(each[3].is_ok());
    broker.hears(&["#1 submitted", "#3 submitted", "#1/1 assigned to w", "-> w: run #1/1"]);
}
