//! Backlogs: a queue tells when too many tasks wait, or one for too long, and when that is over.

use std::time::Duration;

use tenure_engine::command::Move;
use tenure_engine::{Command, NewTask, PassedThresholds, Peer, Settings, StateName, TaskId, Thresholds};

use crate::broker::{Broker, SECOND};

fn depth(depth: u32) -> Thresholds {
    Thresholds { depth: Some(depth), age: None }
}

fn age(age: Duration) -> Thresholds {
    Thresholds { depth: None, age: Some(age) }
}

fn set(broker: &mut Broker, peer: &Peer, thresholds: impl Into<Option<Thresholds>>) {
    let command = Command::SetThresholds { queue: "q".into(), thresholds: thresholds.into() };
    broker.does(peer, command);
}

fn submit_many(broker: &mut Broker, peer: &Peer, count: usize) -> Vec<TaskId> {
    (0..count).map(|_| broker.submit(peer, "q")).collect()
}

/// A broker with one task in the hands of one worker, so that what comes next waits.
fn busy() -> (Broker, Peer, Peer, TaskId) {
    busy_with(Settings::default())
}

fn busy_with(settings: Settings) -> (Broker, Peer, Peer, TaskId) {
    let mut broker = Broker::with(settings);
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let held = broker.submit(&ann, "q");
    broker.start(&worker, held);
    broker.hush();
    (broker, ann, worker, held)
}

/// The worker finishes what it has and takes the next.
fn next(broker: &mut Broker, worker: &Peer, held: &mut u128) {
    let task = TaskId::from_u128(*held);
    broker.complete(worker, task);
    *held += 1;
    broker.start(worker, TaskId::from_u128(*held));
}

#[test]
fn a_queue_tells_once_that_it_is_deep_and_once_that_it_is_not() {
    let (mut broker, ann, worker, _) = busy();
    set(&mut broker, &ann, depth(4));
    broker.hears(&["queue q thresholds: depth 4, age none"]);
    submit_many(&mut broker, &ann, 3);
    broker.hush();
    broker.submit(&ann, "q");
    broker.hears(&["#5 submitted", "queue q backlog by depth: 4 ready, for 0 ms"]);
    assert_eq!(broker.queue("q").passed, PassedThresholds { depth: true, age: false });
    // More of it is no news, and neither is a little less.
    broker.submit(&ann, "q");
    broker.hears(&["#6 submitted"]);
    let mut held = 1;
    next(&mut broker, &worker, &mut held);
    next(&mut broker, &worker, &mut held);
    assert_eq!(broker.queue("q").counts[StateName::Ready as usize], 3);
    broker.hush();
    broker.submit(&ann, "q");
    broker.hears(&["#7 submitted"]);
    next(&mut broker, &worker, &mut held);
    broker.hush();
    next(&mut broker, &worker, &mut held);
    broker.hears(&[
        "#4/1 completed by w",
        "#5/1 assigned to w",
        "-> w: run #5/1",
        "queue q backlog by depth cleared: 2 ready, for 0 ms",
        "#5/1 started by w",
    ]);
    assert_eq!(broker.queue("q").passed, PassedThresholds::default());
    broker.hush();
    submit_many(&mut broker, &ann, 2);
    broker.hears(&["#8 submitted", "#9 submitted", "queue q backlog by depth: 4 ready, for 0 ms"]);
}

#[test]
fn a_task_that_a_free_worker_takes_at_once_is_no_backlog() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    broker.worker("w", &["q"], 1);
    set(&mut broker, &ann, depth(1));
    broker.hush();
    broker.submit(&ann, "q");
    broker.hears(&["#1 submitted", "#1/1 assigned to w", "-> w: run #1/1"]);
    broker.submit(&ann, "q");
    broker.hears(&["#2 submitted", "queue q backlog by depth: 1 ready, for 0 ms"]);
}

#[test]
fn a_queue_tells_when_its_oldest_task_waits_for_too_long() {
    let (mut broker, ann, worker, first) = busy();
    set(&mut broker, &ann, age(10 * SECOND));
    broker.submit(&ann, "q");
    broker.wait(6 * SECOND);
    broker.submit(&ann, "q");
    broker.hush();
    broker.wait(Duration::from_millis(3_999));
    broker.heartbeat(&worker);
    broker.hears_nothing();
    broker.wait(Duration::from_millis(1));
    broker.hears(&["queue q backlog by age: 2 ready, for 10000 ms"]);
    broker.heartbeat(&worker);
    broker.wait(SECOND);
    broker.hears_nothing();
    // The next one has waited for five seconds: that is half.
    broker.complete(&worker, first);
    broker.hears(&[
        "#1/1 completed by w",
        "#2/1 assigned to w",
        "-> w: run #2/1",
        "queue q backlog by age cleared: 1 ready, for 5000 ms",
    ]);
    broker.start(&worker, TaskId::from_u128(2));
    broker.heartbeat(&worker);
    broker.hush();
    broker.wait(5 * SECOND);
    broker.hears(&["queue q backlog by age: 1 ready, for 10000 ms"]);
}

#[test]
fn the_oldest_is_the_one_that_waits_for_longest_whatever_its_priority() {
    let (mut broker, ann, worker, _) = busy();
    set(&mut broker, &ann, age(10 * SECOND));
    let last = NewTask { priority: Some(-1), ..broker.new_task("q") };
    broker.submit_task(&ann, last);
    broker.hush();
    let mut heard = Vec::new();
    for round in 0..5u128 {
        broker.wait(2 * SECOND);
        let urgent = broker.submit(&ann, "q");
        broker.complete(&worker, TaskId::from_u128(if round == 0 { 1 } else { round + 2 }));
        broker.start(&worker, urgent);
        heard.push(broker.queue("q").passed.age);
    }
    broker.hush();
    assert_eq!(heard, [false, false, false, false, true], "it waits for ten seconds behind younger ones");
}

#[test]
fn a_task_waits_from_the_moment_at_which_it_is_ready() {
    let (mut broker, ann, worker, held) = busy();
    set(&mut broker, &ann, age(10 * SECOND));
    let later = NewTask { not_before: Some(broker.now + 60 * SECOND), ..broker.new_task("q") };
    broker.submit_task(&ann, later);
    broker.hush();
    for _ in 0..6 {
        broker.wait(10 * SECOND);
        broker.heartbeat(&worker);
    }
    broker.hears(&["#2 due"]);
    broker.wait(5 * SECOND);
    // What ran for a long time and comes back has just begun to wait.
    broker.does(&ann, Command::PauseQueue { queue: "q".into() });
    broker.give_back(&worker, held);
    broker.cancel(&ann, TaskId::from_u128(2));
    broker.does(&ann, Command::ResumeQueue { queue: "q".into() });
    broker.does(&worker, Command::Drain);
    broker.give_back(&worker, held);
    broker.hush();
    broker.wait(Duration::from_millis(9_999));
    broker.heartbeat(&worker);
    broker.hears_nothing();
    broker.wait(Duration::from_millis(1));
    broker.hears(&["queue q backlog by age: 1 ready, for 10000 ms"]);
}

#[test]
fn thresholds_that_are_set_while_tasks_wait_count_what_waits_already() {
    let (mut broker, ann, worker, _) = busy();
    submit_many(&mut broker, &ann, 3);
    broker.wait(7 * SECOND);
    broker.heartbeat(&worker);
    broker.hush();
    set(&mut broker, &ann, Thresholds { depth: Some(3), age: Some(5 * SECOND) });
    broker.hears(&[
        "queue q thresholds: depth 3, age 5000 ms",
        "queue q backlog by depth: 3 ready, for 7000 ms",
        "queue q backlog by age: 3 ready, for 7000 ms",
    ]);
    // A threshold that is gone keeps no backlog.
    set(&mut broker, &ann, age(60 * SECOND));
    broker.hears(&[
        "queue q thresholds: depth none, age 60000 ms",
        "queue q backlog by depth cleared: 3 ready, for 7000 ms",
        "queue q backlog by age cleared: 3 ready, for 7000 ms",
    ]);
    set(&mut broker, &ann, None);
    broker.hears(&["queue q thresholds: depth none, age none"]);
    broker.submit(&ann, "q");
    broker.hears(&["#5 submitted"]);
}

#[test]
fn queues_have_the_thresholds_of_all_unless_they_have_their_own() {
    let settings = Settings { backlog: depth(2), ..Settings::default() };
    let (mut broker, ann, _, _) = busy_with(settings.clone());
    submit_many(&mut broker, &ann, 2);
    broker.hears(&["#2 submitted", "#3 submitted", "queue q backlog by depth: 2 ready, for 0 ms"]);
    assert_eq!(broker.queue("q").thresholds, depth(2));
    // Its own may be none at all.
    set(&mut broker, &ann, Thresholds::default());
    broker.hears(&[
        "queue q thresholds: depth none, age none",
        "queue q backlog by depth cleared: 2 ready, for 0 ms",
    ]);
    set(&mut broker, &ann, None);
    broker.hears(&["queue q thresholds: depth 2, age none", "queue q backlog by depth: 2 ready, for 0 ms"]);
    // Those of all may change while the broker runs.
    broker.engine.configure(&Settings { backlog: depth(5), ..settings });
    broker.wait(Duration::ZERO);
    broker.hears(&["queue q backlog by depth cleared: 2 ready, for 0 ms"]);
}

#[test]
fn a_paused_queue_passes_no_threshold_until_it_is_resumed() {
    let (mut broker, ann, worker, _) = busy();
    set(&mut broker, &ann, Thresholds { depth: Some(2), age: Some(SECOND) });
    broker.does(&ann, Command::PauseQueue { queue: "q".into() });
    submit_many(&mut broker, &ann, 2);
    broker.hush();
    broker.wait(2 * SECOND);
    broker.heartbeat(&worker);
    broker.hears_nothing();
    broker.does(&ann, Command::ResumeQueue { queue: "q".into() });
    broker.hears(&[
        "queue q resumed",
        "queue q backlog by depth: 2 ready, for 2000 ms",
        "queue q backlog by age: 2 ready, for 2000 ms",
    ]);
}

#[test]
fn a_task_that_is_moved_takes_its_waiting_along() {
    let (mut broker, ann, worker, _) = busy();
    set(&mut broker, &ann, age(10 * SECOND));
    let elsewhere = broker.submit(&ann, "other");
    broker.wait(8 * SECOND);
    broker.heartbeat(&worker);
    broker.hush();
    let to = Move { queue: Some("q".into()), ..Move::default() };
    broker.does(&ann, Command::Move { task: elsewhere, to });
    broker.hears(&["#2 moved"]);
    broker.wait(2 * SECOND);
    broker.hears(&["queue q backlog by age: 1 ready, for 10000 ms"]);
}

#[test]
fn a_backlog_survives_a_restart_and_is_not_told_again() {
    let (mut broker, ann, _, _) = busy();
    set(&mut broker, &ann, Thresholds { depth: Some(2), age: Some(10 * SECOND) });
    let tasks = submit_many(&mut broker, &ann, 3);
    broker.hush();
    broker.restart_after(4 * SECOND);
    broker.wait(Duration::from_millis(5_999));
    broker.hears_nothing();
    let queue = broker.queue("q");
    assert_eq!(queue.thresholds, Thresholds { depth: Some(2), age: Some(10 * SECOND) });
    assert_eq!(queue.passed, PassedThresholds { depth: true, age: false });
    broker.wait(Duration::from_millis(1));
    broker.hears(&["queue q backlog by age: 3 ready, for 10000 ms"]);
    broker.restart_after(SECOND);
    for task in tasks {
        broker.cancel(&ann, task);
    }
    broker.hears(&[
        "#2 cancelled",
        "#3 cancelled",
        "queue q backlog by depth cleared: 1 ready, for 11000 ms",
        "#4 cancelled",
        "queue q backlog by age cleared: 0 ready, for 0 ms",
    ]);
}

#[test]
fn a_backlog_that_is_over_when_the_thresholds_of_all_changed_over_a_restart_is_cleared() {
    let settings = Settings { backlog: depth(2), ..Settings::default() };
    let (mut broker, ann, _, _) = busy_with(settings);
    submit_many(&mut broker, &ann, 2);
    broker.hush();
    broker.engine = broker.journal.restore(Settings::default(), broker.now);
    broker.wait(Duration::ZERO);
    broker.hears(&["queue q backlog by depth cleared: 2 ready, for 0 ms"]);
}

#[test]
fn setting_the_clock_makes_no_task_wait_for_longer() {
    let (mut broker, ann, worker, _) = busy();
    set(&mut broker, &ann, age(10 * SECOND));
    submit_many(&mut broker, &ann, 2);
    broker.wait(4 * SECOND);
    broker.heartbeat(&worker);
    broker.hush();
    for to in [broker.now + 3_600 * SECOND, broker.now] {
        broker.engine.clock_set(broker.now, to);
        broker.now = to;
        broker.wait(SECOND);
        broker.heartbeat(&worker);
        broker.hears_nothing();
    }
    broker.wait(4 * SECOND);
    broker.hears(&["queue q backlog by age: 2 ready, for 10000 ms"]);
}

#[test]
fn a_queue_with_thresholds_is_remembered_and_without_them_it_is_forgotten() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    set(&mut broker, &ann, depth(3));
    assert_eq!(broker.queue("q").thresholds, depth(3));
    broker.restart_after(SECOND);
    assert_eq!(broker.queue("q").thresholds, depth(3));
    set(&mut broker, &ann, None);
    broker.hears(&["queue q thresholds: depth 3, age none", "queue q thresholds: depth none, age none"]);
    assert_eq!(broker.refuses(&ann, Command::ResumeQueue { queue: "q".into() }).code(), "unknown-queue");
}

#[test]
fn a_threshold_that_is_always_passed_is_refused() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let refused = |broker: &mut Broker, thresholds| {
        let command = Command::SetThresholds { queue: "q".into(), thresholds: Some(thresholds) };
        broker.refuses(&ann, command).to_string()
    };
    let zero = refused(&mut broker, depth(0));
    assert_eq!(zero, "depth is zero: name at least one task, or no depth");
    let zero = refused(&mut broker, age(Duration::ZERO));
    assert_eq!(zero, "age is below one millisecond: name a time, or no age");
    let command = Command::SetThresholds { queue: "".into(), thresholds: None };
    assert_eq!(broker.refuses(&ann, command).code(), "bad-name");
}
