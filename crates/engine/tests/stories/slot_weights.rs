//! Slot weights: a task occupies as many slots as it weighs, and one that weighs none does not stand in the way.

use tenure_engine::{Command, Demand, NewTask, Quantity, Refusal, Settings, TaskId, Why, WorkerSpec};

use crate::broker::{Broker, SECOND, spec};

fn weighing(broker: &mut Broker, slots: u32) -> NewTask {
    NewTask { demand: Demand { slots, ..Demand::default() }, ..broker.new_task("q") }
}

fn submit(broker: &mut Broker, ann: &tenure_engine::Peer, slots: u32) -> TaskId {
    let task = weighing(broker, slots);
    broker.submit_task(ann, task)
}

#[test]
fn a_task_waits_until_its_whole_weight_fits() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 4);
    let first = submit(&mut broker, &ann, 2);
    broker.hush();
    let large = submit(&mut broker, &ann, 3);
    broker.hears(&["#2 submitted"]);
    let why = broker.explain(large);
    assert_eq!(why.to_string(), "needs 3 slots, worker w has 2 free");
    assert_eq!((why.code(), broker.worker_info("w").slots_used), ("resources-short", 2));
    broker.complete(&worker, first);
    broker.hears(&["#1/1 completed by w", "#2/1 assigned to w", "-> w: run #2/1"]);
    assert_eq!(broker.worker_info("w").slots_used, 3);
}

#[test]
fn a_smaller_task_goes_first_if_it_fits_and_the_larger_does_not() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    broker.worker("w", &["q"], 3);
    submit(&mut broker, &ann, 2);
    submit(&mut broker, &ann, 2);
    broker.hush();
    submit(&mut broker, &ann, 1);
    broker.hears(&["#3 submitted", "#3/1 assigned to w", "-> w: run #3/1"]);
}

#[test]
fn tasks_without_weight_do_not_occupy_the_slots_that_others_need() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    broker.worker_with(WorkerSpec { light_slots: 3, ..spec("w", &["q"], 1) });
    let parents: Vec<TaskId> = (0..4).map(|_| submit(&mut broker, &ann, 0)).collect();
    let info = broker.worker_info("w");
    assert_eq!((info.held.len(), info.slots_used, info.light_used), (3, 0, 3));
    assert_eq!(broker.explain(parents[3]).to_string(), "needs 1 light-slots, worker w has 0 free");
    broker.hush();
    broker.submit(&ann, "q");
    broker.hears(&["#5 submitted", "#5/1 assigned to w", "-> w: run #5/1"]);
    let peer = broker.client("w2");
    broker.does(&peer, Command::Register(Box::new(spec("w2", &["q"], 1))));
    assert_eq!(broker.state(parents[3]).to_string(), "assigned");
    broker.hush();
}

#[test]
fn a_full_worker_still_takes_tasks_without_weight() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    broker.worker("w", &["q"], 1);
    broker.submit(&ann, "q");
    broker.hush();
    submit(&mut broker, &ann, 0);
    broker.hears(&["#2 submitted", "#2/1 assigned to w", "-> w: run #2/1"]);
}

#[test]
fn the_submitter_learns_at_once_that_no_worker_is_large_enough() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    broker.worker("small", &["q"], 2);
    let worker = broker.worker("large", &["q"], 4);
    let task = weighing(&mut broker, 5);
    let accepted = broker.submit_and_see(&ann, task);
    let why = accepted.unserved.expect("no worker can take it");
    assert_eq!(why.code(), "too-large");
    let expected = "no worker is large enough: needs 5 slots, worker large has 4";
    assert_eq!(why.to_string(), expected);
    assert_eq!(broker.explain(accepted.task), why);
    broker.hush();
    broker.does(&worker, Command::Leave);
    broker.worker("huge", &["q"], 8);
    assert_eq!(broker.state(accepted.task).to_string(), "assigned");
    broker.hush();
}

#[test]
fn a_light_task_needs_a_worker_that_takes_light_tasks() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    broker.worker_with(WorkerSpec { light_slots: 0, ..spec("w", &["q"], 4) });
    let task = submit(&mut broker, &ann, 0);
    let expected = Why::TooLarge {
        resource: "light-slots".into(),
        needed: Quantity::whole(1),
        total: Quantity::whole(0),
        worker: "w".into(),
    };
    assert_eq!(broker.explain(task), expected);
    broker.hush();
}

#[test]
fn a_task_that_waits_long_for_room_gets_a_worker_that_makes_room() {
    let mut broker = Broker::with(Settings { reserve_after: SECOND * 10, ..Settings::default() });
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 2);
    let (one, two) = (submit(&mut broker, &ann, 1), submit(&mut broker, &ann, 1));
    let large = submit(&mut broker, &ann, 2);
    let small = submit(&mut broker, &ann, 1);
    broker.hush();
    broker.complete(&worker, one);
    broker.hears(&["#1/1 completed by w", "#4/1 assigned to w", "-> w: run #4/1"]);
    broker.start(&worker, two);
    broker.start(&worker, small);
    broker.hush();
    for _ in 0..2 {
        broker.wait(SECOND * 5);
        broker.heartbeat(&worker);
    }
    let later = submit(&mut broker, &ann, 1);
    broker.hush();
    broker.complete(&worker, small);
    broker.hears(&["#4/1 completed by w"]);
    let why = broker.explain(later);
    assert_eq!(why, Why::Reserved { worker: "w".into(), task: large });
    // What is more urgent does not wait for it.
    let urgent = weighing(&mut broker, 1);
    broker.submit_task(&ann, NewTask { priority: Some(1), ..urgent });
    broker.hears(&["#6 submitted", "#6/1 assigned to w", "-> w: run #6/1"]);
    broker.complete(&worker, two);
    broker.hears(&["#2/1 completed by w"]);
    // If the large task goes away, the room is free at once.
    broker.cancel(&ann, large);
    broker.hears(&["#3 cancelled", "#5/1 assigned to w", "-> w: run #5/1"]);
}

#[test]
fn the_large_task_runs_as_soon_as_there_is_room() {
    let mut broker = Broker::with(Settings { reserve_after: SECOND, ..Settings::default() });
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 2);
    let held = [submit(&mut broker, &ann, 1), submit(&mut broker, &ann, 1)];
    submit(&mut broker, &ann, 2);
    submit(&mut broker, &ann, 1);
    held.iter().for_each(|task| broker.start(&worker, *task));
    broker.wait(SECOND * 2);
    broker.hush();
    broker.complete(&worker, held[0]);
    broker.hears(&["#1/1 completed by w"]);
    broker.complete(&worker, held[1]);
    broker.hears(&["#2/1 completed by w", "#3/1 assigned to w", "-> w: run #3/1"]);
}

#[test]
fn a_task_heavier_than_any_worker_may_be_is_refused() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let task = weighing(&mut broker, 65_537);
    let refused = broker.submit_many(&ann, vec![task]).remove(0);
    assert_eq!(refused, Err(Refusal::TooMany { what: "slots", limit: 65_536 }));
}
