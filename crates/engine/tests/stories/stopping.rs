//! Stopping in place: a worker keeps the attempt that a client paused, and continues it when the client resumes it.

use std::time::Duration;

use tenure_engine::state::Wanted;
use tenure_engine::terms::OnLost;
use tenure_engine::{
    ArrayTerms, Blob, Command, Demand, NewArray, NewTask, Peer, Quantity, Refusal, Resource, Settings,
    StateName, TaskId, WaitOn, Why, WorkerSpec,
};

use crate::broker::{Broker, SECOND, compare, failure, spec};

/// The worker has stopped the attempt in place.
fn stop(broker: &mut Broker, worker: &Peer, task: TaskId) {
    let held = broker.held(task);
    broker.does(worker, Command::Suspend { held, on: WaitOn::Resume });
}

fn resume(broker: &mut Broker, peer: &Peer, task: TaskId) {
    broker.does(peer, Command::Resume { task });
}

/// A worker with one slot that keeps a task stopped.
fn stopped(change: impl FnOnce(NewTask) -> NewTask) -> (Broker, Peer, Peer, TaskId) {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let task = change(broker.new_task("q"));
    let task = broker.submit_task(&ann, task);
    broker.start(&worker, task);
    broker.does(&ann, Command::Pause { task, reason: Some("lunch".into()), terminate: false });
    broker.hush();
    stop(&mut broker, &worker, task);
    (broker, ann, worker, task)
}

#[test]
fn a_paused_attempt_gives_its_slot_to_others_and_goes_on_where_it_was() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let task = broker.submit(&ann, "q");
    broker.start(&worker, task);
    let other = broker.submit(&ann, "q");
    broker.hush();
    broker.does(&ann, Command::Pause { task, reason: Some("lunch".into()), terminate: false });
    broker.hears(&["#1/1 pause requested (lunch)", "-> w: pause #1/1 (lunch)", "#1/1 pause delivered to w"]);
    stop(&mut broker, &worker, task);
    broker.hears(&["#1/1 paused (lunch)", "#2/1 assigned to w", "-> w: run #2/1"]);
    assert_eq!(broker.state(task), StateName::Suspended);
    assert_eq!(broker.explain(task), Why::Paused);
    // The worker says it again after a reconnect.
    stop(&mut broker, &worker, task);
    broker.hears_nothing();
    resume(&mut broker, &ann, task);
    broker.hears(&["#1/1 resumed"]);
    assert_eq!(broker.explain(task), Why::AwaitingSlot { worker: "w".into() });
    broker.complete(&worker, other);
    broker.hears(&["#2/1 completed by w", "#1/1 continued by w", "-> w: continue #1/1:"]);
    // The notice was lost: the worker says again that it waits.
    stop(&mut broker, &worker, task);
    broker.hears(&["-> w: continue #1/1:"]);
    broker.complete(&worker, task);
    broker.hears(&["#1/1 completed by w"]);
}

#[test]
fn who_wants_the_attempt_ended_says_so() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let task = broker.submit(&ann, "q");
    broker.start(&worker, task);
    broker.pause(&ann, task);
    broker.hush();
    // A pause that ends the attempt weighs more than one in place, and not the other way round.
    let terminate = Command::Pause { task, reason: None, terminate: true };
    broker.does(&ann, terminate.clone());
    broker.hears(&["#1/1 pause requested", "-> w: pause and end #1/1", "#1/1 pause delivered to w"]);
    broker.pause(&ann, task);
    broker.does(&ann, terminate);
    broker.hears_nothing();
    let held = broker.held(task);
    broker.does(&worker, Command::Confirm { held, wanted: Wanted::Pause, result: Blob::EMPTY });
    broker.hears(&["#1/1 paused"]);
    assert_eq!(broker.state(task), StateName::Paused);
}

#[test]
fn an_attempt_that_is_stopped_can_be_ended_after_all() {
    let (mut broker, ann, worker, task) = stopped(|task| task);
    broker.hush();
    broker.does(&ann, Command::Pause { task, reason: Some("memory".into()), terminate: true });
    broker.hears(&[
        "#1/1 pause requested (memory)",
        "-> w: pause and end #1/1 (memory)",
        "#1/1 pause delivered to w",
    ]);
    let held = broker.held(task);
    broker.does(&worker, Command::Confirm { held, wanted: Wanted::Pause, result: Blob::EMPTY });
    broker.hears(&["#1/1 paused (memory)"]);
    resume(&mut broker, &ann, task);
    broker.hears(&["#1/1 resumed", "#1/2 assigned to w", "-> w: run #1/2"]);
}

#[test]
fn a_second_pause_is_refused_until_the_task_is_resumed() {
    let (mut broker, ann, worker, task) = stopped(|task| task);
    let pause = Command::Pause { task, reason: None, terminate: false };
    let state = StateName::Suspended;
    let refused = broker.refuses(&ann, pause.clone());
    assert_eq!(refused, Refusal::WrongState { task, state, verb: "pause" });
    let other = broker.submit(&ann, "q");
    resume(&mut broker, &ann, task);
    let refused = broker.refuses(&ann, Command::Resume { task });
    assert_eq!(refused, Refusal::WrongState { task, state, verb: "resume" });
    broker.hush();
    // It has not continued yet, so the worker need not know.
    broker.does(&ann, pause);
    broker.hears(&["#1/1 paused"]);
    broker.complete(&worker, other);
    broker.hears(&["#2/1 completed by w"]);
    resume(&mut broker, &ann, task);
    broker.hears(&["#1/1 resumed", "#1/1 continued by w", "-> w: continue #1/1:"]);
}

#[test]
fn an_attempt_that_no_client_wants_paused_goes_on_at_once() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let task = broker.submit(&ann, "q");
    broker.start(&worker, task);
    broker.hush();
    stop(&mut broker, &worker, task);
    broker.hears(&["-> w: continue #1/1:"]);
    broker.pause(&ann, task);
    broker.cancel(&ann, task);
    broker.hush();
    stop(&mut broker, &worker, task);
    broker.hears(&["-> w: continue #1/1:"]);
    assert_eq!(broker.state(task), StateName::Running);
}

#[test]
fn cancelling_a_stopped_attempt_works_as_for_a_running_one() {
    let (mut broker, ann, worker, task) = stopped(|task| task);
    broker.hush();
    broker.cancel(&ann, task);
    broker.hears(&["#1/1 cancel requested", "-> w: cancel #1/1", "#1/1 cancel delivered to w"]);
    let held = broker.held(task);
    broker.does(&worker, Command::Confirm { held, wanted: Wanted::Cancel, result: Blob::EMPTY });
    broker.hears(&["#1/1 cancelled"]);
    let (mut broker, ann, _, task) = stopped(|task| NewTask { run_limit: Some(SECOND), ..task });
    broker.cancel(&ann, task);
    broker.hush();
    broker.wait(60 * SECOND);
    assert_eq!(broker.state(task), StateName::Cancelled);
    broker.hush();
}

#[test]
fn the_task_of_a_lost_worker_is_paused_whatever_its_policy() {
    for on_lost in [OnLost::Requeue, OnLost::Pause, OnLost::Fail] {
        let (mut broker, ann, worker, task) = stopped(|task| NewTask { on_lost, crash_budget: 1, ..task });
        broker.disconnect(&worker);
        broker.wait(60 * SECOND);
        assert_eq!(broker.state(task), StateName::Paused, "{on_lost:?}");
        assert_eq!(broker.show(task).crashes, 0);
        broker.worker_with(WorkerSpec { instance: 9, ..spec("w", &["q"], 1) });
        broker.hush();
        resume(&mut broker, &ann, task);
        broker.hears(&["#1/1 resumed", "#1/2 assigned to w", "-> w: run #1/2"]);
    }
}

#[test]
fn what_a_draining_worker_gives_back_is_paused_unless_it_was_resumed() {
    let (mut broker, ann, worker, task) = stopped(|task| task);
    broker.does(&worker, Command::Drain);
    broker.hush();
    broker.give_back(&worker, task);
    broker.hears(&["#1/1 paused (lunch)"]);
    resume(&mut broker, &ann, task);
    assert_eq!(broker.state(task), StateName::Ready);
    broker.hush();

    let (mut broker, ann, worker, task) = stopped(|task| task);
    let blocking = broker.submit(&ann, "q");
    broker.start(&worker, blocking);
    resume(&mut broker, &ann, task);
    broker.hush();
    broker.give_back(&worker, task);
    assert_eq!(broker.state(task), StateName::Ready);
    broker.hush();
}

#[test]
fn an_attempt_that_fails_while_it_is_stopped_is_paused_instead_of_retried() {
    let (mut broker, _, worker, task) = stopped(|task| NewTask { retries: 3, ..task });
    let held = broker.held(task);
    broker.does(&worker, Command::Fail(failure(held, 137)));
    assert_eq!(broker.state(task), StateName::Paused);
    broker.hush();
}

#[test]
fn a_restart_of_the_broker_changes_nothing_for_what_is_stopped() {
    let (mut broker, ann, _, task) = stopped(|task| task);
    broker.restart_after(SECOND);
    compare(&broker.journal.restore(Settings::default(), broker.now), &broker.engine);
    let back = WorkerSpec { held: vec![broker.held(task)], instance: 3, ..spec("w", &["q"], 1) };
    let worker = broker.worker_with(back.clone());
    broker.hush();
    stop(&mut broker, &worker, task);
    broker.hears_nothing();
    assert_eq!(broker.explain(task), Why::Paused);
    // A client resumes it while the worker is away.
    broker.restart_after(SECOND);
    resume(&mut broker, &ann, task);
    broker.hears(&["#1/1 resumed"]);
    broker.restart_after(SECOND);
    let back = WorkerSpec { held: vec![broker.held(task)], ..back };
    let worker = broker.worker_with(back);
    broker.hears(&["w returned", "#1/1 holder w returned", "queue q served"]);
    stop(&mut broker, &worker, task);
    broker.hears(&["#1/1 continued by w", "-> w: continue #1/1:"]);
}

#[test]
fn the_run_limit_stands_still_while_an_attempt_is_stopped() {
    let (mut broker, ann, worker, task) = stopped(|task| NewTask { run_limit: Some(10 * SECOND), ..task });
    for _ in 0..10 {
        broker.wait(Duration::from_secs(6));
        broker.heartbeat(&worker);
    }
    resume(&mut broker, &ann, task);
    broker.wait(Duration::from_secs(5));
    broker.heartbeat(&worker);
    assert_eq!(broker.state(task), StateName::Running);
    broker.wait(Duration::from_secs(6));
    assert_ne!(broker.state(task), StateName::Running);
    broker.hush();
}

#[test]
fn an_attempt_can_wait_for_other_tasks_and_for_its_client() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let task = broker.submit(&ann, "q");
    broker.start(&worker, task);
    let other = broker.submit(&ann, "q");
    let held = broker.held(task);
    broker.does(&worker, Command::Suspend { held, on: WaitOn::Tasks(vec![other]) });
    broker.pause(&ann, task);
    stop(&mut broker, &worker, task);
    broker.hush();
    broker.complete(&worker, other);
    broker.hears(&["#2/1 completed by w"]);
    resume(&mut broker, &ann, task);
    broker.hears(&["#1/1 resumed", "#1/1 continued by w", "-> w: continue #1/1: #2 completed"]);
}

#[test]
fn an_array_is_stopped_and_resumed_as_one_thing() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 2);
    let array = TaskId([9; 16]);
    let task = NewTask::new(array, "q");
    let new = NewArray { task, size: 3, first: 0, step: 1, limit: None, bodies: Vec::new() };
    broker.does(&ann, Command::SubmitArray(Box::new(new)));
    let element = |place| ArrayTerms { id: array, first: 0, step: 1 }.element_id(place);
    let states = |broker: &Broker| [0, 1, 2].map(|place| broker.state(element(place)));
    [0, 1].iter().for_each(|place| broker.start(&worker, element(*place)));
    broker.pause(&ann, array);
    [0, 1].iter().for_each(|place| stop(&mut broker, &worker, element(*place)));
    assert_eq!(states(&broker), [StateName::Suspended, StateName::Suspended, StateName::Paused]);
    resume(&mut broker, &ann, array);
    assert_eq!(states(&broker), [StateName::Running, StateName::Running, StateName::Ready]);
    broker.hush();
}

/// What tasks need of gpus, and workers have.
fn gpus(count: u64) -> Vec<Resource> {
    vec![Resource::new("gpus", Quantity::whole(count))]
}

fn with_gpus(broker: &mut Broker, count: u64) -> NewTask {
    NewTask { demand: Demand { slots: 1, resources: gpus(count) }, ..broker.new_task("q") }
}

#[test]
fn a_parent_lends_its_resources_to_its_children_and_gets_the_same_gpus_back() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker_with(WorkerSpec { resources: gpus(2), ..spec("w", &["q"], 4) });
    let first = with_gpus(&mut broker, 1);
    let first = broker.submit_task(&ann, first);
    let parent = with_gpus(&mut broker, 1);
    let parent = broker.submit_task(&ann, parent);
    let devices = |broker: &Broker, task| broker.show(task).devices.map(|found| found.gpus);
    assert_eq!((devices(&broker, first), devices(&broker, parent)), (Some(vec![0]), Some(vec![1])));
    broker.start(&worker, first);
    broker.start(&worker, parent);
    let child = with_gpus(&mut broker, 2);
    let child = broker.submit_task(&ann, NewTask { parent: Some(parent), ..child });
    let held = broker.held(parent);
    broker.does(&worker, Command::Suspend { held, on: WaitOn::Children });
    broker.hush();
    // Without what its parent had, the child could never run.
    broker.complete(&worker, first);
    broker.hears(&["#1/1 completed by w", "#3/1 assigned to w", "-> w: run #3/1"]);
    assert_eq!(devices(&broker, child), Some(vec![0, 1]));
    // Another task takes one gpu as soon as there is one; the parent waits for its own, and less urgent tasks for it.
    let urgent = with_gpus(&mut broker, 1);
    let urgent = broker.submit_task(&ann, NewTask { priority: Some(9), ..urgent });
    let idle = with_gpus(&mut broker, 1);
    let idle = broker.submit_task(&ann, idle);
    broker.hush();
    broker.complete(&worker, child);
    broker.hears(&[
        "#3/1 completed by w",
        "#4/1 assigned to w",
        "-> w: run #4/1",
        "#2/1 continued by w",
        "-> w: continue #2/1: #3 completed",
    ]);
    assert_eq!(devices(&broker, urgent), Some(vec![0]));
    assert_eq!(broker.state(idle), StateName::Ready);
    let info = broker.worker_info("w");
    assert_eq!((info.resources[0].used, info.resources[0].total), (Quantity::whole(2), Quantity::whole(2)));
}

#[test]
fn a_worker_keeps_what_becomes_free_for_an_attempt_that_continues() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker_with(WorkerSpec { resources: gpus(2), ..spec("w", &["q"], 4) });
    let parent = with_gpus(&mut broker, 2);
    let parent = broker.submit_task(&ann, parent);
    broker.start(&worker, parent);
    broker.pause(&ann, parent);
    stop(&mut broker, &worker, parent);
    let small: Vec<TaskId> = (0..3)
        .map(|_| {
            let small = with_gpus(&mut broker, 1);
            broker.submit_task(&ann, small)
        })
        .collect();
    resume(&mut broker, &ann, parent);
    broker.hush();
    // One gpu is free, and the attempt needs two.
    broker.complete(&worker, small[0]);
    broker.hears(&["#2/1 completed by w"]);
    assert_eq!(broker.explain(small[2]), Why::Reserved { worker: "w".into(), task: parent });
    broker.complete(&worker, small[1]);
    broker.hears(&["#3/1 completed by w", "#1/1 continued by w", "-> w: continue #1/1:"]);
    broker.complete(&worker, parent);
    broker.hears(&["#1/1 completed by w", "#4/1 assigned to w", "-> w: run #4/1"]);
}

#[test]
fn another_worker_takes_what_waits_behind_an_attempt_that_continues() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker_with(WorkerSpec { resources: gpus(2), ..spec("w", &["q"], 4) });
    let parent = with_gpus(&mut broker, 2);
    let parent = broker.submit_task(&ann, parent);
    broker.start(&worker, parent);
    broker.pause(&ann, parent);
    stop(&mut broker, &worker, parent);
    let small = with_gpus(&mut broker, 1);
    broker.submit_task(&ann, small);
    resume(&mut broker, &ann, parent);
    broker.worker_with(WorkerSpec { resources: gpus(1), ..spec("v", &["q"], 1) });
    broker.hush();
    let next = with_gpus(&mut broker, 1);
    broker.submit_task(&ann, next);
    broker.hears(&["#3 submitted", "#3/1 assigned to v", "-> v: run #3/1"]);
    // The attempt goes away: what was kept for it is free.
    let last = with_gpus(&mut broker, 1);
    broker.submit_task(&ann, last);
    broker.hears(&["#4 submitted"]);
    broker.give_back(&worker, parent);
    let said = broker.take_said();
    assert!(said.contains(&"-> w: run #4/1".to_owned()), "{said:?}");
}

#[test]
fn a_worker_that_returns_with_less_continues_the_attempt_alone() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let large = WorkerSpec { resources: gpus(2), instance: 3, ..spec("w", &["q"], 4) };
    let worker = broker.worker_with(large.clone());
    let parent = with_gpus(&mut broker, 2);
    let parent = broker.submit_task(&ann, parent);
    broker.start(&worker, parent);
    broker.pause(&ann, parent);
    stop(&mut broker, &worker, parent);
    broker.disconnect(&worker);
    let worker =
        broker.worker_with(WorkerSpec { resources: gpus(1), held: vec![broker.held(parent)], ..large });
    let small = with_gpus(&mut broker, 1);
    let small = broker.submit_task(&ann, small);
    resume(&mut broker, &ann, parent);
    stop(&mut broker, &worker, parent);
    broker.hush();
    broker.complete(&worker, small);
    broker.hears(&["#2/1 completed by w", "#1/1 continued by w", "-> w: continue #1/1:"]);
}

#[test]
fn a_reserved_worker_takes_other_tasks_when_a_limit_or_a_rate_blocks_the_large_one() {
    for blocked_by_rate in [false, true] {
        let mut broker = Broker::with(Settings { reserve_after: SECOND, ..Settings::default() });
        let ann = broker.client("ann");
        let worker = broker.worker("w", &["q"], 2);
        broker.worker("other", &["side"], 1);
        broker.limit(&ann, "licence", Some(1));
        if blocked_by_rate {
            let rate = tenure_engine::Rate::parse("1/h").expect("a rate");
            broker.limit(&ann, "licence", None);
            broker.does(&ann, Command::SetTagRate { tag: "licence".into(), rate: Some(rate) });
        }
        let held = [broker.submit(&ann, "q"), broker.submit(&ann, "q")];
        held.iter().for_each(|task| broker.start(&worker, *task));
        let tags = vec!["licence".into()];
        let large = NewTask { demand: Demand { slots: 2, resources: vec![] }, tags, ..broker.new_task("q") };
        let large = broker.submit_task(&ann, large);
        broker.wait(SECOND * 2);
        let small = broker.submit(&ann, "q");
        broker.complete(&worker, held[0]);
        assert_eq!(broker.explain(small), Why::Reserved { worker: "w".into(), task: large });
        broker.hush();
        // Another task takes the licence, so the worker keeps its room for nothing.
        let other = NewTask { tags: vec!["licence".into()], ..broker.new_task("side") };
        broker.submit_task(&ann, other);
        broker.hears(&[
            "#5 submitted",
            "#5/1 assigned to other",
            "-> other: run #5/1",
            "#4/1 assigned to w",
            "-> w: run #4/1",
        ]);
    }
}

#[test]
fn an_attempt_that_waits_for_a_task_is_paused_at_once_and_goes_on_before_that_task_has_ended() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 2);
    let task = broker.submit(&ann, "q");
    broker.start(&worker, task);
    let child = broker.submit(&ann, "q");
    broker.start(&worker, child);
    let held = broker.held(task);
    broker.does(&worker, Command::Suspend { held, on: WaitOn::Tasks(vec![child]) });
    broker.does(&ann, Command::Pause { task, reason: None, terminate: false });
    broker.hush();
    stop(&mut broker, &worker, task);
    broker.hears(&["#1/1 paused"]);
    assert_eq!(broker.explain(task), Why::Paused);
    // The worker has room. What the attempt waits for it says again.
    resume(&mut broker, &ann, task);
    broker.hears(&["#1/1 resumed", "#1/1 continued by w", "-> w: continue #1/1:"]);
    broker.does(&worker, Command::Suspend { held, on: WaitOn::Tasks(vec![child]) });
    assert_eq!(broker.state(task), StateName::Suspended);
    broker.hush();
    broker.complete(&worker, child);
    broker.hears(&["#2/1 completed by w", "#1/1 continued by w", "-> w: continue #1/1: #2 completed"]);
}
