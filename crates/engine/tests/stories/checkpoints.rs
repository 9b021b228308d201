//! Checkpoints: as far as a worker got, kept for the next attempt.

use tenure_engine::command::{Command, Held};
use tenure_engine::state::StateName;
use tenure_engine::{Blob, Checkpoint, Refusal, TaskId};

use crate::broker::{Broker, SECOND};

fn enter_paused(broker: &mut Broker, worker: &tenure_engine::command::Peer, task: TaskId, at: u64) {
    let held = broker.held(task);
    broker.does(worker, Command::Checkpoint { held, checkpoint: Blob::new(at, 5) });
}

#[test]
fn the_next_attempt_goes_on_where_the_last_one_was() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let task = broker.submit(&ann, "q");
    broker.hush();
    // A worker that saves a checkpoint has started.
    enter_paused(&mut broker, &worker, task, 100);
    broker.hears(&["#1/1 started by w", "#1/1 checkpoint of 5"]);
    enter_paused(&mut broker, &worker, task, 200);
    broker.hears(&["freed 100+5", "#1/1 checkpoint of 5"]);
    let checkpoint = broker.show(task).checkpoint;
    assert_eq!(checkpoint, Some(Checkpoint { attempt: 1, at: broker.now, blob: Blob::new(200, 5) }));
    broker.does(&worker, Command::Leave);
    broker.hush();
    let next = broker.worker("v", &["q"], 1);
    broker.hears(&["v registered", "queue q served", "#1/2 assigned to v", "-> v: run #1/2 from 200+5"]);
    assert_eq!(broker.show(task).checkpoint, checkpoint, "it is still the first attempt's");
    broker.complete(&next, task);
    broker.hears(&["freed 200+5", "#1/2 completed by v"]);
    assert_eq!(broker.show(task).checkpoint, None);
}

#[test]
fn it_outlives_the_broker_and_the_worker() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let task = broker.submit(&ann, "q");
    enter_paused(&mut broker, &worker, task, 100);
    broker.restart_after(SECOND);
    assert_eq!(broker.show(task).checkpoint.map(|checkpoint| checkpoint.blob), Some(Blob::new(100, 5)));
    broker.wait(SECOND * 120);
    broker.hush();
    broker.worker("v", &["q"], 1);
    assert!(broker.take_said().contains(&"-> v: run #1/2 from 100+5".to_owned()));
}

#[test]
fn it_stays_with_a_task_that_failed_or_was_cancelled_in_case_it_is_retried() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let task = broker.submit(&ann, "q");
    enter_paused(&mut broker, &worker, task, 100);
    broker.fail(&worker, task);
    assert_eq!(broker.state(task), StateName::Failed);
    broker.hush();
    broker.does(&ann, Command::Retry { task });
    broker.hears(&["#1/1 retried", "#1/2 assigned to w", "-> w: run #1/2 from 100+5"]);
    broker.pause(&ann, task);
    broker.cancel(&ann, task);
    assert_eq!(broker.state(task), StateName::Cancelled);
    broker.hush();
    broker.does(&ann, Command::Retry { task });
    broker.hears(&["#1/2 retried", "#1/3 assigned to w", "-> w: run #1/3 from 100+5"]);
}

#[test]
fn an_empty_checkpoint_removes_the_last_one() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let task = broker.submit(&ann, "q");
    enter_paused(&mut broker, &worker, task, 100);
    broker.hush();
    let held = broker.held(task);
    broker.does(&worker, Command::Checkpoint { held, checkpoint: Blob::EMPTY });
    broker.hears(&["freed 100+5", "#1/1 checkpoint of 0"]);
    assert_eq!(broker.show(task).checkpoint, None);
}

#[test]
fn only_the_holder_saves_a_checkpoint_and_only_for_its_attempt() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let other = broker.worker("other", &["elsewhere"], 1);
    let task = broker.submit(&ann, "q");
    broker.start(&worker, task);
    broker.hush();
    let held = broker.held(task);
    let mut refuses = |who, held| {
        let refusal = broker.refuses(who, Command::Checkpoint { held, checkpoint: Blob::new(100, 5) });
        assert!(matches!(refusal, Refusal::StaleAttempt { .. }), "{refusal:?}");
    };
    refuses(&other, held);
    refuses(&worker, Held { attempt: 7, ..held });
    broker.hears_nothing();
    assert_eq!(broker.show(task).checkpoint, None);
}

#[test]
fn it_is_freed_with_its_task() {
    let settings = tenure_engine::Settings { ended_kept: 0, ..tenure_engine::Settings::default() };
    let mut broker = Broker::with(settings);
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let task = broker.submit(&ann, "q");
    enter_paused(&mut broker, &worker, task, 100);
    broker.hush();
    broker.fail(&worker, task);
    assert!(broker.take_said().contains(&"freed 100+5".to_owned()));
}
