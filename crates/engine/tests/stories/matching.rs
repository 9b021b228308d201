//! Who gets a task: a worker that serves its queue, offers what it needs, has a free slot, and is the least loaded.

use tenure_engine::command::{AttemptFailure, PresenceName};
use tenure_engine::{Command, NewTask, WorkerSpec};

use crate::broker::{Broker, SECOND, failure, names, spec};

#[test]
fn a_task_goes_to_a_worker_that_offers_all_it_needs() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    broker.worker("plain", &["q"], 1);
    broker.worker_with(WorkerSpec { capabilities: names(&["gpu"]), ..spec("half", &["q"], 1) });
    broker
        .worker_with(WorkerSpec { capabilities: names(&["cuda", "gpu", "ssd"]), ..spec("full", &["q"], 1) });
    broker.worker_with(WorkerSpec { capabilities: names(&["cuda", "gpu"]), ..spec("elsewhere", &["r"], 1) });
    broker.hush();
    let task = NewTask { needs: names(&["gpu", "cuda"]), ..broker.new_task("q") };
    broker.submit_task(&ann, task);
    broker.hears(&["#1 submitted", "#1/1 assigned to full", "-> full: run #1/1"]);
    let task = NewTask { needs: names(&["gpu", "cuda"]), ..broker.new_task("q") };
    broker.submit_task(&ann, task);
    broker.hears(&["#2 submitted"]);
}

#[test]
fn a_task_that_no_worker_can_take_does_not_block_the_one_behind_it() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    broker.worker("w", &["q"], 1);
    broker.hush();
    let stuck = NewTask { needs: names(&["gpu"]), priority: Some(9), ..broker.new_task("q") };
    broker.submit_task(&ann, stuck);
    broker.submit(&ann, "q");
    broker.hears(&["#1 submitted, needs-unmet", "#2 submitted", "#2/1 assigned to w", "-> w: run #2/1"]);
}

#[test]
fn a_worker_gets_as_many_tasks_as_it_has_slots() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 2);
    let (first, ..) = (broker.submit(&ann, "q"), broker.submit(&ann, "q"), broker.submit(&ann, "q"));
    broker.hush();
    assert_eq!(broker.worker_info("w").held.len(), 2);
    broker.complete(&worker, first);
    broker.hears(&["#1/1 completed by w", "#3/1 assigned to w", "-> w: run #3/1"]);
}

#[test]
fn among_many_unlike_workers_the_least_loaded_gets_the_task() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let unlike = |number: usize, queue| {
        let name = format!("{queue}{number}");
        WorkerSpec { capabilities: vec![name.as_str().into()], ..spec(&name, &[queue], 2) }
    };
    let workers: Vec<_> = (0..40).map(|number| broker.worker_with(unlike(number, "q"))).collect();
    let tasks: Vec<_> = (0..40).map(|_| broker.submit(&ann, "q")).collect();
    // Each got one, in the order in which they came. These have less to do, but serve another queue.
    for number in 0..60 {
        broker.worker_with(unlike(number, "r"));
    }
    broker.complete(&workers[7], tasks[7]);
    broker.complete(&workers[3], tasks[3]);
    broker.hush();
    broker.submit(&ann, "q");
    broker.hears(&["#41 submitted", "#41/1 assigned to q3", "-> q3: run #41/1"]);
    let picky = NewTask { needs: names(&["q9"]), ..broker.new_task("q") };
    broker.submit_task(&ann, picky);
    broker.hears(&["#42 submitted", "#42/1 assigned to q9", "-> q9: run #42/1"]);
    broker.submit(&ann, "q");
    broker.hears(&["#43 submitted", "#43/1 assigned to q7", "-> q7: run #43/1"]);
    broker.submit(&ann, "q");
    broker.hears(&["#44 submitted", "#44/1 assigned to q0", "-> q0: run #44/1"]);
}

#[test]
fn the_least_loaded_worker_gets_the_task() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    broker.worker("small", &["q"], 2);
    broker.worker("large", &["q"], 8);
    broker.hush();
    // By share of slots in use: small 0/2, large 1/8, large 2/8, and so on; an equal share goes to who waited longer.
    for _ in 0..6 {
        broker.submit(&ann, "q");
    }
    broker.hush();
    assert_eq!((broker.worker_info("small").held.len(), broker.worker_info("large").held.len()), (2, 4));
}

#[test]
fn equal_workers_take_turns() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let (one, two) = (broker.worker("one", &["q"], 1), broker.worker("two", &["q"], 1));
    broker.hush();
    let first = broker.submit(&ann, "q");
    broker.complete(&one, first);
    broker.hush();
    let second = broker.submit(&ann, "q");
    broker.hears(&["#2 submitted", "#2/1 assigned to two", "-> two: run #2/1"]);
    broker.complete(&two, second);
    broker.hush();
    broker.submit(&ann, "q");
    broker.hears(&["#3 submitted", "#3/1 assigned to one", "-> one: run #3/1"]);
}

#[test]
fn the_worker_on_which_it_crashed_is_the_last_choice_but_still_a_choice() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let (one, two) = (broker.worker("one", &["q"], 1), broker.worker("two", &["q"], 1));
    let task = broker.submit(&ann, "q");
    broker.hush();
    let crash = AttemptFailure { crashed: true, ..failure(broker.held(task), 7) };
    broker.does(&one, Command::Fail(crash));
    broker.hears(&[
        "#1/1 crashed on one, worker-said-so: requeued, 2 left",
        "#1/2 assigned to two",
        "-> two: run #1/2",
    ]);
    assert_eq!(broker.show(task).crashed_on, names(&["one"]));
    broker.does(&two, Command::Drain);
    broker.hush();
    broker.give_back(&two, task);
    broker.hears(&["#1/2 given back by two", "#1/3 assigned to one", "-> one: run #1/3"]);
}

#[test]
fn a_preferred_worker_still_takes_its_most_urgent_task() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let blamed = broker.worker("blamed", &["q"], 1);
    let crashed = broker.submit(&ann, "q");
    broker.does(&ann, Command::PauseQueue { queue: "q".into() });
    let crash = AttemptFailure { crashed: true, ..failure(broker.held(crashed), 7) };
    broker.does(&blamed, Command::Fail(crash));
    let better = WorkerSpec { capabilities: names(&["gpu"]), ..spec("better", &["q", "other"], 1) };
    let better = broker.worker_with(better);
    // It was busy last, so the blamed one would be chosen first.
    let other = broker.submit(&ann, "other");
    broker.complete(&better, other);
    let urgent = NewTask { priority: Some(5), needs: names(&["gpu"]), ..broker.new_task("q") };
    broker.submit_task(&ann, urgent);
    broker.hush();
    broker.does(&ann, Command::ResumeQueue { queue: "q".into() });
    broker.hears(&[
        "queue q resumed",
        "#3/1 assigned to better",
        "-> better: run #3/1",
        "#1/2 assigned to blamed",
        "-> blamed: run #1/2",
    ]);
}

#[test]
fn a_worker_may_change_what_it_serves_without_counting_as_lost() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q", "old"], 1);
    broker.hush();
    broker.does(&worker, Command::Register(Box::new(spec("w", &["q", "new"], 2))));
    broker.hears(&["queue new served", "queue old unserved", "w returned"]);
    broker.submit(&ann, "new");
    broker.hears(&["#1 submitted", "#1/1 assigned to w", "-> w: run #1/1"]);
    broker.submit(&ann, "old");
    broker.hears(&["#2 submitted, all-lost"]);
}

#[test]
fn a_name_belongs_to_the_live_worker_that_has_it() {
    let mut broker = Broker::new();
    broker.worker_with(WorkerSpec { instance: 7, ..spec("w", &["q"], 1) });
    broker.hush();
    let other = broker.client("other");
    for instance in [0, 8] {
        let spec = WorkerSpec { instance, ..spec("w", &["q"], 1) };
        assert_eq!(broker.refuses(&other, Command::Register(Box::new(spec))).code(), "worker-taken");
    }
    // The same process on a new connection takes over; the old connection receives a notice.
    let again = WorkerSpec { instance: 7, ..spec("w", &["q"], 1) };
    broker.does(&other, Command::Register(Box::new(again)));
    broker.hears(&["-> w: replaced as w", "w returned"]);
}

#[test]
fn one_session_is_one_worker() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let session = broker.worker("first name", &["q"], 1);
    let task = broker.submit(&ann, "q");
    broker.start(&session, task);
    broker.hush();
    broker.does(&session, Command::Register(Box::new(spec("second name", &["q"], 1))));
    broker.hears(&[
        "#1/1 given back by first name (the worker left)",
        "first name left",
        "queue q unserved",
        "second name registered",
        "queue q served",
        "#1/2 assigned to second name",
        "-> first name: run #1/2",
    ]);
    assert_eq!(broker.workers().len(), 1);
}

#[test]
fn nonsense_about_a_worker_is_refused() {
    let mut broker = Broker::new();
    let peer = broker.client("w");
    let good = || spec("w", &["q"], 1);
    let many = |count: usize| (0..count).map(|number| format!("n{number}").into()).collect::<Vec<_>>();
    let cases = [
        (WorkerSpec { worker: "".into(), ..good() }, "bad-name"),
        (WorkerSpec { slots: 0, ..good() }, "bad-value"),
        (WorkerSpec { slots: 65_537, ..good() }, "too-many"),
        (WorkerSpec { queues: vec![], ..good() }, "bad-value"),
        (WorkerSpec { queues: names(&[""]), ..good() }, "bad-name"),
        (WorkerSpec { queues: many(257), ..good() }, "too-many"),
        (WorkerSpec { capabilities: many(4097), ..good() }, "too-many"),
        (WorkerSpec { capabilities: names(&["\0"]), ..good() }, "bad-name"),
        (WorkerSpec { lost_after: SECOND / 20, heartbeat: SECOND / 20, ..good() }, "bad-value"),
        (WorkerSpec { heartbeat: SECOND * 16, ..good() }, "bad-value"),
        (WorkerSpec { lease: SECOND * 14, ..good() }, "bad-value"),
        (WorkerSpec { busy_lost_after: Some(SECOND), ..good() }, "bad-value"),
        (
            WorkerSpec {
                about: tenure_engine::command::WorkerAbout {
                    host: Some("x".repeat(200_000).into()),
                    ..Default::default()
                },
                ..good()
            },
            "too-many",
        ),
    ];
    for (spec, code) in cases {
        let text = format!("{spec:?}");
        assert_eq!(broker.refuses(&peer, Command::Register(Box::new(spec))).code(), code, "{text}");
    }
    for command in [
        Command::Heartbeat { held: None, stats: None },
        Command::Start(vec![]),
        Command::Complete(vec![]),
        Command::Ask { queues: names(&["q"]) },
        Command::Unask,
        Command::Drain,
        Command::Leave,
    ] {
        assert_eq!(broker.refuses(&peer, command).code(), "not-a-worker");
    }
    assert!(broker.workers().is_empty());
}

#[test]
fn what_a_worker_tells_of_itself_is_shown() {
    let mut broker = Broker::new();
    let about = tenure_engine::command::WorkerAbout {
        host: Some("node7".into()),
        platform: Some("linux".into()),
        version: Some("1.2".into()),
        door: Some("native"),
    };
    let peer = broker.worker_with(WorkerSpec {
        about: about.clone(),
        capabilities: names(&["gpu"]),
        ..spec("w", &["q", "r"], 3)
    });
    let stats = tenure_engine::command::WorkerStats {
        cpu_percent: Some(12.5),
        memory_used: Some(1),
        memory_total: Some(2),
        more: vec![("tools".into(), "4".into())],
    };
    broker.wait(SECOND);
    broker.does(&peer, Command::Heartbeat { held: None, stats: Some(Box::new(stats.clone())) });
    let info = broker.worker_info("w");
    assert_eq!((info.about, info.stats), (about, Some(stats)));
    assert_eq!((info.presence, info.slots, info.pulls), (PresenceName::Live, 3, false));
    assert_eq!((info.queues, info.capabilities), (names(&["q", "r"]), names(&["gpu"])));
    assert_eq!(info.last_seen, broker.now);
    assert_eq!((info.heartbeat, info.lost_after, info.lease), (SECOND * 5, SECOND * 15, SECOND * 30));
    let boast = tenure_engine::command::WorkerStats {
        more: vec![("x".repeat(200_000).into(), "".into())],
        ..Default::default()
    };
    let refusal = broker.refuses(&peer, Command::Heartbeat { held: None, stats: Some(Box::new(boast)) });
    assert_eq!(refusal.code(), "too-many");
    broker.hush();
}
