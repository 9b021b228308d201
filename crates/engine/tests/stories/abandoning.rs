//! Tasks whose submitter is gone and cannot come back.

use tenure_engine::{Command, NewTask, StateName};

use crate::broker::{Broker, SECOND};

fn task_of_a_stranger(broker: &mut Broker) -> NewTask {
    NewTask { abandon_after: Some(SECOND * 60), ..broker.new_task("q") }
}

#[test]
fn what_has_not_started_expires_and_what_runs_goes_on() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let running = task_of_a_stranger(&mut broker);
    let running = broker.submit_task(&ann, running);
    broker.start(&worker, running);
    let waiting = task_of_a_stranger(&mut broker);
    let waiting = broker.submit_task(&ann, waiting);
    let kept = broker.submit(&ann, "q");
    for _ in 0..100 {
        broker.wait(SECOND * 10);
        broker.heartbeat(&worker);
    }
    assert_eq!(broker.state(waiting), StateName::Ready, "its client waits");
    broker.does(&ann, Command::Abandon(vec![running, waiting, kept]));
    for _ in 0..5 {
        broker.wait(SECOND * 10);
        broker.heartbeat(&worker);
    }
    assert_eq!(broker.state(waiting), StateName::Ready);
    broker.hush();
    broker.wait(SECOND * 11);
    broker.hears(&["#2 expired"]);
    assert_eq!(broker.state(running), StateName::Running);
    assert_eq!(broker.state(kept), StateName::Ready, "it has no such term");
    broker.hush();
}

#[test]
fn what_starts_in_time_is_done() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let task = task_of_a_stranger(&mut broker);
    let task = broker.submit_task(&ann, task);
    broker.does(&ann, Command::Abandon(vec![task]));
    broker.wait(SECOND * 59);
    let worker = broker.worker("w", &["q"], 1);
    broker.start(&worker, task);
    broker.wait(SECOND * 5);
    broker.complete(&worker, task);
    assert_eq!(broker.state(task), StateName::Completed);
    broker.hush();
}

#[test]
fn only_the_submitter_abandons_its_tasks() {
    let mut broker = Broker::new();
    let (ann, bob) = (broker.client("ann"), broker.client("bob"));
    let task = task_of_a_stranger(&mut broker);
    let task = broker.submit_task(&ann, task);
    broker.does(&bob, Command::Abandon(vec![task]));
    broker.wait(SECOND * 3600);
    assert_eq!(broker.state(task), StateName::Ready);
    broker.hush();
}

#[test]
fn a_restart_abandons_what_its_submitter_cannot_come_back_to() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let task = task_of_a_stranger(&mut broker);
    let task = broker.submit_task(&ann, task);
    let kept = broker.submit(&ann, "q");
    broker.restart_after(SECOND * 3600);
    assert_eq!(broker.state(task), StateName::Ready, "it has its time after the restart");
    broker.wait(SECOND * 61);
    assert_eq!((broker.state(task), broker.state(kept)), (StateName::Failed, StateName::Ready));
    broker.hush();
}
