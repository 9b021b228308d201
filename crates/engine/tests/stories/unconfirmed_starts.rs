//! Unconfirmed starts: a worker whose protocol has no word for "I have started" begins as soon as it gets the body. A
//! task that must not run again by itself is therefore running, on disk, before the body leaves.

use tenure_engine::command::OnClose;
use tenure_engine::terms::OnLost;
use tenure_engine::{Command, NewTask, Peer, StateName, TaskId, WorkerSpec};

use crate::broker::{Broker, SECOND, names, spec};

fn silent_starter(broker: &mut Broker) -> Peer {
    broker.worker_with(silent_starter_spec())
}

fn silent_starter_spec() -> WorkerSpec {
    WorkerSpec { pulls: true, starts_on_assign: true, ..spec("p", &["q"], 1) }
}

fn submit_and_ask(broker: &mut Broker, worker: &Peer, on_lost: OnLost) -> TaskId {
    let ann = broker.client("ann");
    let task = NewTask { on_lost, ..broker.new_task("q") };
    let task = broker.submit_task(&ann, task);
    broker.hush();
    broker.does(worker, Command::Ask { queues: names(&["q"]) });
    task
}

#[test]
fn a_task_that_pauses_when_lost_has_started_before_its_body_leaves() {
    let mut broker = Broker::new();
    let worker = silent_starter(&mut broker);
    let task = submit_and_ask(&mut broker, &worker, OnLost::Pause);
    broker.hears(&["#1/1 assigned to p", "#1/1 started by p", "-> p: run #1/1"]);
    // The door says it as well, as for any other task: that changes nothing.
    broker.start(&worker, task);
    broker.hears_nothing();
    // It is not taken back, however long nothing is heard of it.
    for _ in 0..10 {
        broker.wait(SECOND * 10);
        broker.heartbeat(&worker);
    }
    broker.hears_nothing();
    broker.complete(&worker, task);
    broker.hears(&["#1/1 completed by p"]);
}

#[test]
fn it_is_paused_if_its_worker_dies_right_after_the_assignment() {
    let mut broker = Broker::new();
    let worker = broker.worker_with(WorkerSpec { on_close: OnClose::TasksDie, ..silent_starter_spec() });
    submit_and_ask(&mut broker, &worker, OnLost::Pause);
    broker.hush();
    broker.disconnect(&worker);
    broker.hears(&[
        "p lost, connection-closed",
        "queue q unserved",
        "#1/1 holder p lost, connection-closed, believed until 1000000",
        "#1/1 crashed on p, connection-closed: paused, 2 left",
        "p left",
    ]);
}

#[test]
fn it_is_paused_if_the_broker_dies_right_after_the_assignment_and_the_worker_does_not_come_back() {
    let mut broker = Broker::new();
    let worker = silent_starter(&mut broker);
    let task = submit_and_ask(&mut broker, &worker, OnLost::Pause);
    broker.restart_after(SECOND);
    broker.hush();
    assert_eq!(broker.state(task), StateName::Running);
    broker.wait(SECOND * 60);
    broker.hears(&["#1/1 crashed on p, not-back-after-restart: paused, 2 left", "p left"]);
}

#[test]
fn a_task_that_fails_when_lost_does_so_from_its_assignment_on() {
    let mut broker = Broker::new();
    let worker = silent_starter(&mut broker);
    submit_and_ask(&mut broker, &worker, OnLost::Fail);
    broker.hush();
    silent_starter_comes_back(&mut broker, &worker);
    broker.hears(&["p returned", "#1/1 crashed on p, forgotten: failed, 2 left"]);
}

#[test]
fn a_task_that_may_run_again_waits_for_its_start_and_a_lost_assignment_costs_no_crash() {
    let mut broker = Broker::new();
    let worker = silent_starter(&mut broker);
    let task = submit_and_ask(&mut broker, &worker, OnLost::Requeue);
    broker.hears(&["#1/1 assigned to p", "-> p: run #1/1"]);
    silent_starter_comes_back(&mut broker, &worker);
    broker.hears(&["p returned", "-> p: stop #1/1, taken-back", "#1/1 given back by p"]);
    assert_eq!(broker.show(task).crashes, 0);
}

/// Another process of the same name, which holds nothing.
fn silent_starter_comes_back(broker: &mut Broker, worker: &Peer) {
    broker.does(worker, Command::Register(Box::new(silent_starter_spec())));
}

#[test]
fn it_waits_again_if_its_door_could_not_hand_it_over() {
    let mut broker = Broker::new();
    let worker = silent_starter(&mut broker);
    let task = submit_and_ask(&mut broker, &worker, OnLost::Pause);
    broker.hush();
    let held = broker.held(task);
    broker.does(&worker, Command::Undelivered { held, reason: None });
    broker.hears(&["#1/1 given back by p"]);
    assert_eq!(broker.state(task), StateName::Ready);
}
