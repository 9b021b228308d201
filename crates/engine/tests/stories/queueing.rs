//! Queues: paused and resumed as a whole, and who hears when no worker or a worker serves them.

use tenure_engine::{Command, NewTask, Refusal, Thresholds, Why, WorkerSpec};

use crate::broker::{Broker, SECOND, names, spec};

#[test]
fn a_paused_queue_hands_out_nothing_and_what_runs_goes_on() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q", "other"], 1);
    let running = broker.submit(&ann, "q");
    broker.start(&worker, running);
    broker.hush();
    broker.does(&ann, Command::PauseQueue { queue: "q".into() });
    broker.hears(&["queue q paused"]);
    let waiting = broker.submit(&ann, "q");
    broker.hears(&["#2 submitted"]);
    assert_eq!(broker.explain(waiting), Why::QueuePaused { queue: "q".into() });
    broker.submit(&ann, "other");
    broker.complete(&worker, running);
    broker.hears(&["#3 submitted", "#1/1 completed by w", "#3/1 assigned to w", "-> w: run #3/1"]);
    // Pausing twice is no news.
    broker.does(&ann, Command::PauseQueue { queue: "q".into() });
    broker.hears_nothing();
    assert!(broker.queue("q").paused);
    broker.give_back(&worker, tenure_engine::TaskId::from_u128(3));
    broker.hush();
    broker.does(&ann, Command::ResumeQueue { queue: "q".into() });
    broker.hears(&["queue q resumed"]);
    broker.does(&ann, Command::ResumeQueue { queue: "q".into() });
    broker.hears_nothing();
    assert_eq!(
        broker.refuses(&ann, Command::ResumeQueue { queue: "r".into() }),
        Refusal::UnknownQueue { queue: "r".into() }
    );
    assert_eq!(broker.refuses(&ann, Command::PauseQueue { queue: "".into() }).code(), "bad-name");
}

#[test]
fn a_queue_may_be_paused_before_anything_is_in_it_and_is_forgotten_when_resumed() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    broker.does(&ann, Command::PauseQueue { queue: "later".into() });
    assert!(broker.queue("later").paused);
    broker.does(&ann, Command::ResumeQueue { queue: "later".into() });
    broker.hears(&["queue later paused", "queue later resumed"]);
    assert_eq!(broker.refuses(&ann, Command::ResumeQueue { queue: "later".into() }).code(), "unknown-queue");
}

#[test]
fn when_a_paused_queue_is_resumed_the_most_urgent_goes_first() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    broker.does(&ann, Command::PauseQueue { queue: "q".into() });
    broker.worker("w", &["q"], 1);
    broker.submit(&ann, "q");
    let urgent = NewTask { priority: Some(1), tags: names(&["t"]), ..broker.new_task("q") };
    broker.submit_task(&ann, urgent);
    broker.hush();
    broker.does(&ann, Command::ResumeQueue { queue: "q".into() });
    broker.hears(&["queue q resumed", "#2/1 assigned to w", "-> w: run #2/1"]);
}

#[test]
fn the_submitter_learns_that_no_worker_serves_the_queue_and_later_that_one_does() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let task = broker.new_task("q");
    let accepted = broker.submit_and_see(&ann, task);
    assert_eq!(accepted.unserved, Some(Why::NoWorkerEver { queue: "q".into() }));
    broker.hears(&["#1 submitted, no-worker-ever"]);
    let worker = broker.worker("w", &["q"], 1);
    broker.hears(&["w registered", "queue q served", "#1/1 assigned to w", "-> w: run #1/1"]);
    let left_at = broker.now;
    broker.does(&worker, Command::Leave);
    broker.hears(&["#1/1 given back by w (the worker left)", "w left", "queue q unserved"]);
    broker.wait(SECOND);
    let task = broker.new_task("q");
    let accepted = broker.submit_and_see(&ann, task);
    assert_eq!(accepted.unserved, Some(Why::AllLost { queue: "q".into(), since: left_at }));
    broker.hears(&["#2 submitted, all-lost"]);
    let queue = broker.queue("q");
    assert_eq!((queue.live_workers, queue.ever_served, queue.unserved_since), (0, true, Some(left_at)));
}

#[test]
fn a_client_that_waits_for_a_capability_learns_when_it_appears_and_disappears() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    broker.worker("plain", &["q"], 1);
    broker.hush();
    for tags in [&["a"], &["b"]] {
        let task = NewTask { needs: names(&["gpu"]), tags: names(tags), ..broker.new_task("q") };
        let accepted = broker.submit_and_see(&ann, task);
        assert_eq!(accepted.unserved, Some(Why::NeedsUnmet { missing: names(&["gpu"]) }));
    }
    broker.hears(&["#1 submitted, needs-unmet", "#2 submitted, needs-unmet"]);
    let able = broker.worker_with(WorkerSpec { capabilities: names(&["gpu"]), ..spec("able", &["q"], 1) });
    broker.hears(&[
        "able registered",
        "queue q served with gpu",
        "#1/1 assigned to able",
        "-> able: run #1/1",
    ]);
    broker.does(&able, Command::Drain);
    broker.hears(&["able draining", "queue q unserved with gpu"]);
}

#[test]
fn a_queue_shows_its_numbers() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let first = broker.submit(&ann, "q");
    broker.start(&worker, first);
    broker.wait(SECOND);
    let since = broker.now;
    broker.submit(&ann, "q");
    broker.wait(SECOND);
    let urgent = NewTask { priority: Some(1), tags: names(&["t"]), ..broker.new_task("q") };
    broker.submit_task(&ann, urgent);
    let held = NewTask { hold: true, ..broker.new_task("q") };
    broker.submit_task(&ann, held);
    let queue = broker.queue("q");
    assert_eq!(queue.counts, [1, 0, 0, 2, 0, 1, 0, 0, 0, 0, 0]);
    assert_eq!((queue.live_workers, queue.paused, queue.ever_served), (1, false, true));
    assert_eq!(queue.oldest_ready, Some(since));
    broker.hush();
}

#[test]
fn the_oldest_task_of_a_queue_counts_from_when_it_was_ready() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let later = NewTask { not_before: Some(broker.now + 60 * SECOND), ..broker.new_task("q") };
    broker.submit_task(&ann, later);
    assert_eq!(broker.queue("q").oldest_ready, None);
    broker.wait(60 * SECOND);
    let since = broker.now;
    broker.wait(5 * SECOND);
    assert_eq!(broker.queue("q").oldest_ready, Some(since), "it was submitted a minute before");

    // An urgent task hides it, unless the queue keeps its tasks by age for a threshold.
    let urgent = NewTask { priority: Some(1), ..broker.new_task("q") };
    broker.submit_task(&ann, urgent);
    assert_eq!(broker.queue("q").oldest_ready, Some(broker.now));
    let thresholds = Thresholds { depth: None, age: Some(3600 * SECOND) };
    broker.does(&ann, Command::SetThresholds { queue: "q".into(), thresholds: Some(thresholds) });
    assert_eq!(broker.queue("q").oldest_ready, Some(since));
    broker.hush();
}
