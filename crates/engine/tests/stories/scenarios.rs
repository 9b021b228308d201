//! Whole evenings: what the people this broker is for live through, from the first submission to the last word.

use tenure_engine::command::{Completion, OnClose};
use tenure_engine::state::{TaskState, Wanted};
use tenure_engine::terms::OnLost;
use tenure_engine::{Blob, Command, Held, NewTask, Settings, StateName, TaskId, WorkerSpec};

use crate::broker::{Broker, SECOND, names, spec};

#[test]
fn a_worker_crashes_while_it_runs_a_task_and_another_finishes_it() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let first = broker.worker("first", &["simulate"], 1);
    let task = broker.submit(&ann, "simulate");
    broker.start(&first, task);
    broker.hush();
    // The machine loses power: nothing closes, nothing is said.
    broker.wait(SECOND * 15);
    broker.hears(&[
        "first lost, heartbeat-missed",
        "queue simulate unserved",
        "#1/1 holder first lost, heartbeat-missed, believed until 1030000",
    ]);
    let second = broker.worker("second", &["simulate"], 1);
    broker.hears(&["second registered", "queue simulate served"]);
    broker.wait(SECOND * 14);
    broker.heartbeat(&second);
    broker.hears_nothing();
    broker.wait(SECOND);
    broker.hears(&[
        "-> first: stop #1/1, stale",
        "#1/1 crashed on first, heartbeat-missed: requeued, 2 left",
        "first left",
        "#1/2 assigned to second",
        "-> second: run #1/2",
    ]);
    broker.start(&second, task);
    broker.complete(&second, task);
    broker.hears(&["#1/2 started by second", "#1/2 completed by second"]);
    assert_eq!(broker.show(task).crashes, 1);
}

#[test]
fn a_worker_dies_when_half_of_its_tasks_are_done() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker_with(WorkerSpec { on_close: OnClose::TasksDie, ..spec("w", &["q"], 4) });
    let tasks: Vec<TaskId> = (0..4).map(|_| broker.submit(&ann, "q")).collect();
    for task in &tasks {
        broker.start(&worker, *task);
    }
    broker.complete(&worker, tasks[0]);
    broker.complete(&worker, tasks[2]);
    broker.hush();
    broker.disconnect(&worker);
    broker.hears(&[
        "w lost, connection-closed",
        "queue q unserved",
        "#2/1 holder w lost, connection-closed, believed until 1000000",
        "#4/1 holder w lost, connection-closed, believed until 1000000",
        "#2/1 crashed on w, connection-closed: requeued, 2 left",
        "#4/1 crashed on w, connection-closed: requeued, 2 left",
        "w left",
    ]);
    // What was done stays done; only the rest is done again.
    let again = broker.worker("w", &["q"], 4);
    assert_eq!(broker.assigned(), [tasks[1], tasks[3]]);
    for task in [tasks[1], tasks[3]] {
        broker.complete(&again, task);
    }
    assert_eq!(broker.counts().by_state[StateName::Completed as usize], 4);
    broker.hush();
}

#[test]
fn clients_learn_that_no_worker_serves_them_until_one_comes() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let needy = NewTask { needs: names(&["gpu"]), ..broker.new_task("vision") };
    let task = broker.submit_task(&ann, needy);
    broker.hears(&["#1 submitted, no-worker-ever"]);
    broker.worker("plain", &["vision"], 1);
    broker.hears(&["plain registered", "queue vision served"]);
    assert_eq!(broker.explain(task).to_string(), "no live worker of the queue offers gpu");
    let able = WorkerSpec { capabilities: names(&["gpu"]), ..spec("able", &["vision"], 1) };
    broker.worker_with(able);
    broker.hears(&[
        "able registered",
        "queue vision served with gpu",
        "#1/1 assigned to able",
        "-> able: run #1/1",
    ]);
}

#[test]
fn a_late_report_is_refused_and_the_right_one_counts() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let slow = broker.worker("slow", &["q"], 1);
    let task = broker.submit(&ann, "q");
    broker.start(&slow, task);
    broker.disconnect(&slow);
    broker.wait(SECOND * 30);
    let quick = broker.worker("quick", &["q"], 1);
    broker.start(&quick, task);
    broker.hush();
    // The network is back; the slow one was at it all the time and has finished.
    let slow = broker.client("slow");
    let held = vec![Held { task, attempt: 1 }];
    broker.does(&slow, Command::Register(Box::new(WorkerSpec { held, ..spec("slow", &["q"], 1) })));
    broker.hears(&["slow registered"]);
    let late = Completion { held: Held { task, attempt: 1 }, result: Blob::new(10, 1) };
    let refusal = broker.refuses(&slow, Command::Complete(vec![late]));
    assert_eq!(
        refusal.to_string(),
        "attempt 1 of task 00000000-0000-0000-0000-000000000001 is over (now running, attempt 2): stop working on it"
    );
    let right = Completion { held: broker.held(task), result: Blob::new(20, 2) };
    broker.does(&quick, Command::Complete(vec![right]));
    broker.hears(&["#1/2 completed by quick"]);
    let TaskState::Completed(end) = broker.show(task).state else { panic!("it is done") };
    assert_eq!(end.result, Blob::new(20, 2));
}

#[test]
fn the_broker_is_killed_and_started_again_and_nothing_runs_twice() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let (running, waiting) = (broker.submit(&ann, "q"), broker.submit(&ann, "q"));
    broker.start(&worker, running);
    broker.hush();
    broker.restart_after(SECOND * 3);
    // The worker notices, connects again and says what it has.
    let worker = broker.client("w");
    let held = vec![Held { task: running, attempt: 1 }];
    broker.does(&worker, Command::Register(Box::new(WorkerSpec { held, ..spec("w", &["q"], 1) })));
    broker.complete(&worker, running);
    broker.start(&worker, waiting);
    broker.complete(&worker, waiting);
    broker.hears(&[
        "w returned",
        "#1/1 holder w returned",
        "queue q served",
        "#1/1 completed by w",
        "#2/1 assigned to w",
        "-> w: run #2/1",
        "#2/1 started by w",
        "#2/1 completed by w",
    ]);
    assert_eq!([running, waiting].map(|task| broker.show(task).attempt), [1, 1]);
}

#[test]
fn a_calculation_that_must_not_run_twice_waits_for_a_human() {
    let mut broker = Broker::new();
    let (ann, human) = (broker.client("ann"), broker.client("human"));
    let worker = broker.worker_with(WorkerSpec { on_close: OnClose::TasksDie, ..spec("w", &["calc"], 1) });
    let task = NewTask { on_lost: OnLost::Pause, ..broker.new_task("calc") };
    let task = broker.submit_task(&ann, task);
    broker.start(&worker, task);
    broker.disconnect(&worker);
    broker.worker("other", &["calc"], 1);
    broker.wait(SECOND * 10);
    broker.hush();
    assert_eq!(
        broker.state(task),
        StateName::Paused,
        "it ran once, or not at all, and never again by itself"
    );
    broker.does(&human, Command::Resume { task });
    broker.hears(&["#1/1 resumed", "#1/2 assigned to other", "-> other: run #1/2"]);
}

#[test]
fn a_workflow_is_killed_with_all_that_it_started() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let daemon = broker.worker("daemon", &["workflow", "job"], 8);
    let workflow = broker.submit(&ann, "workflow");
    broker.start(&daemon, workflow);
    let jobs: Vec<TaskId> = (0..3)
        .map(|_| {
            let job = NewTask { parent: Some(workflow), ..broker.new_task("job") };
            broker.submit_task(&ann, job)
        })
        .collect();
    broker.start(&daemon, jobs[0]);
    broker.hush();
    broker.cancel(&ann, workflow);
    for task in [jobs[0], workflow] {
        let held = broker.held(task);
        broker.does(&daemon, Command::Confirm { held, wanted: Wanted::Cancel, result: Blob::EMPTY });
    }
    broker.hears(&[
        "#1/1 cancel requested",
        "-> daemon: cancel #1/1",
        "#1/1 cancel delivered to daemon",
        "#2/1 cancel requested",
        "-> daemon: cancel #2/1",
        "#2/1 cancel delivered to daemon",
        "-> daemon: stop #3/1, cancelled",
        "#3/1 cancelled",
        "-> daemon: stop #4/1, cancelled",
        "#4/1 cancelled",
        "#2/1 cancelled",
        "#1/1 cancelled",
    ]);
}

#[test]
fn a_computer_with_ten_seats_is_shared_by_three_workers() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    broker.limit(&ann, "computer", Some(10));
    let workers: Vec<_> = (0..3).map(|number| broker.worker(&format!("w{number}"), &["q"], 8)).collect();
    for _ in 0..30 {
        let task = NewTask { tags: names(&["computer"]), ..broker.new_task("q") };
        broker.submit_task(&ann, task);
    }
    let held = |broker: &Broker| broker.workers().iter().map(|worker| worker.held.len()).collect::<Vec<_>>();
    assert_eq!(held(&broker).iter().sum::<usize>(), 10);
    assert!(held(&broker).iter().all(|held| *held >= 3), "evenly: {:?}", held(&broker));
    for done in 1..=30 {
        let busy = broker
            .workers()
            .into_iter()
            .find(|worker| !worker.held.is_empty())
            .expect("a worker holds a task");
        let worker = workers.iter().find(|peer| peer.identity == busy.worker).expect("one of ours");
        broker.complete(worker, busy.held[0].task);
        assert_eq!(held(&broker).iter().sum::<usize>(), 10.min(30 - done));
    }
    broker.hush();
}

#[test]
fn a_poisonous_task_stops_before_it_has_killed_all_workers() {
    let mut broker = Broker::with(Settings { quarantine_crashes: 9, ..Settings::default() });
    let ann = broker.client("ann");
    let task = broker.submit(&ann, "q");
    for number in 0..3 {
        let name = format!("victim {number}");
        let worker = broker.worker_with(WorkerSpec { on_close: OnClose::TasksDie, ..spec(&name, &["q"], 1) });
        broker.start(&worker, task);
        broker.disconnect(&worker);
    }
    broker.worker("lucky", &["q"], 1);
    broker.hush();
    let TaskState::Failed(end) = broker.show(task).state else { panic!("three crashes are enough") };
    assert_eq!(end.message.as_deref(), Some("worker victim 2 lost: connection closed, crash 3"));
    assert_eq!(broker.show(task).crashed_on, names(&["victim 0", "victim 1", "victim 2"]));
}
