//! Explaining: exactly why a task is not running, in every case there is.

use tenure_engine::command::OnClose;
use tenure_engine::{Command, NewTask, Settings, StateName, Why, WorkerSpec};

use crate::broker::{Broker, SECOND, names, spec};

#[test]
fn a_task_that_its_submitter_delays_or_pauses_says_so() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let held = NewTask { hold: true, ..broker.new_task("q") };
    let held = broker.submit_task(&ann, held);
    assert_eq!(broker.explain(held), Why::Held);
    let at = broker.now + SECOND;
    let later = NewTask { not_before: Some(at), ..broker.new_task("q") };
    let later = broker.submit_task(&ann, later);
    assert_eq!(broker.explain(later), Why::NotBefore { until: at });
    broker.pause(&ann, later);
    assert_eq!(broker.explain(later), Why::Paused);
    broker.hush();
}

#[test]
fn a_task_that_no_worker_can_take_says_what_is_missing() {
    let mut broker = Broker::with(Settings { quarantine_crashes: 1, ..Settings::default() });
    let ann = broker.client("ann");
    let plain = broker.submit(&ann, "q");
    assert_eq!(broker.explain(plain), Why::NoWorkerEver { queue: "q".into() });
    let worker = broker.worker_with(WorkerSpec { on_close: OnClose::TasksDie, ..spec("w", &["q"], 1) });
    let needy = NewTask { needs: names(&["gpu", "ssd"]), ..broker.new_task("q") };
    let needy = broker.submit_task(&ann, needy);
    assert_eq!(broker.explain(needy), Why::NeedsUnmet { missing: names(&["gpu", "ssd"]) });
    let half = broker.worker_with(WorkerSpec { capabilities: names(&["gpu"]), ..spec("half", &["q"], 1) });
    assert_eq!(broker.explain(needy), Why::NeedsUnmet { missing: names(&["ssd"]) });
    // Each is offered by a worker, but no worker offers both.
    let other = broker.worker_with(WorkerSpec { capabilities: names(&["ssd"]), ..spec("other", &["q"], 1) });
    assert_eq!(broker.explain(needy), Why::NeedsUnmet { missing: names(&["gpu", "ssd"]) });
    let able =
        broker.worker_with(WorkerSpec { capabilities: names(&["gpu", "ssd"]), ..spec("able", &["q"], 1) });
    assert_eq!(broker.explain(needy).code(), "awaiting-acceptance");
    broker.does(&able, Command::Drain);
    broker.give_back(&able, needy);
    assert_eq!(broker.explain(needy), Why::Draining { workers: 1 });
    broker.does(&able, Command::Leave);
    broker.does(&half, Command::Leave);
    broker.does(&other, Command::Leave);
    broker.start(&worker, plain);
    broker.disconnect(&worker);
    let since = broker.now;
    assert_eq!(broker.explain(plain), Why::AllLost { queue: "q".into(), since });
    broker.worker("w", &["q"], 1);
    assert_eq!(broker.explain(plain), Why::Quarantined { worker: "w".into(), until: since + SECOND * 600 });
    broker.hush();
}

#[test]
fn a_task_that_waits_its_turn_says_for_what() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 2);
    let first = broker.submit(&ann, "q");
    assert_eq!(broker.explain(first), Why::AwaitingAcceptance { worker: "w".into(), since: broker.now });
    broker.start(&worker, first);
    assert_eq!(broker.explain(first), Why::NotWaiting { state: StateName::Running });
    broker.submit(&ann, "q");
    let third = broker.submit(&ann, "q");
    assert_eq!(broker.explain(third), Why::AllFull { workers: 1, slots: 2 });
    broker.limit(&ann, "t", Some(0));
    let tagged = NewTask { tags: names(&["t"]), ..broker.new_task("q") };
    let tagged = broker.submit_task(&ann, tagged);
    assert_eq!(broker.explain(tagged), Why::TagLimit { tag: "t".into(), limit: 0, in_use: 0 });
    broker.does(&ann, Command::PauseQueue { queue: "q".into() });
    assert_eq!(broker.explain(third), Why::QueuePaused { queue: "q".into() });
    broker.cancel(&ann, third);
    assert_eq!(broker.explain(third), Why::NotWaiting { state: StateName::Cancelled });
    broker.worker_with(WorkerSpec { pulls: true, ..spec("p", &["r"], 1) });
    let pulled = broker.submit(&ann, "r");
    assert_eq!(broker.explain(pulled), Why::NoWorkerAsks { workers: 1 });
    broker.hush();
}

#[test]
fn every_reason_reads_as_a_sentence() {
    let at = tenure_engine::Timestamp(7);
    let cases = [
        (Why::NotWaiting { state: StateName::Running }, "it is running"),
        (Why::Held, "it is held back: release it"),
        (Why::NotBefore { until: at }, "not before 1970-01-01T00:00:00.007Z"),
        (Why::Paused, "it is paused: resume it"),
        (Why::QueuePaused { queue: "q".into() }, "queue q is paused: resume the queue"),
        (Why::NoWorkerEver { queue: "q".into() }, "no worker has ever served queue q: start one"),
        (
            Why::AllLost { queue: "q".into(), since: at },
            "all workers of queue q have been gone since 1970-01-01T00:00:00.007Z",
        ),
        (Why::NeedsUnmet { missing: names(&["a", "b"]) }, "no live worker of the queue offers a, b"),
        (
            Why::Quarantined { worker: "w".into(), until: at },
            "worker w is quarantined until 1970-01-01T00:00:00.007Z",
        ),
        (Why::Draining { workers: 2 }, "all 2 workers that could take it are draining"),
        (Why::TagLimit { tag: "t".into(), limit: 2, in_use: 2 }, "tag t is at its limit: 2 of 2 in use"),
        (Why::AllFull { workers: 3, slots: 9 }, "all 3 workers that could take it are full: 9 slots in use"),
        (Why::NoWorkerAsks { workers: 1 }, "1 workers could take it, but none is fetching tasks now"),
        (
            Why::AwaitingAcceptance { worker: "w".into(), since: at },
            "sent to worker w at 1970-01-01T00:00:00.007Z, not confirmed yet",
        ),
        (Why::AwaitingDisk, "waiting for the disk"),
        (Why::AwaitingJournal, "the replicated journal does not answer; it goes on when the journal is back"),
    ];
    for (why, text) in cases {
        assert_eq!(why.to_string(), text);
    }
}
