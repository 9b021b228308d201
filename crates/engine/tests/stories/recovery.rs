//! Recovery: an engine that is put together from its records is the engine that wrote them.

use tenure_engine::command::{AttemptFailure, OnClose};
use tenure_engine::terms::OnLost;
use tenure_engine::{
    Answer, Blob, Change, Command, Engine, Held, NewTask, Peer, Query, Reply, Restore, SessionId, Settings,
    StateName, Which, Why, WorkerSpec,
};

use crate::broker::{Broker, Journal, Kept, SECOND, apply, compare, failure, keep, names, spec};

/// A day in the life of a broker: something of everything.
fn busy_day() -> Broker {
    let settings = Settings { ended_kept: 3, quarantine_crashes: 2, ..Settings::default() };
    let mut broker = Broker::with(settings);
    let (ann, eve) = (broker.client("ann"), broker.peer("other", "eve"));
    broker.limit(&ann, "t", Some(2));
    broker.limit(&ann, "lifted", Some(9));
    broker.limit(&ann, "lifted", None);
    broker.does(&ann, Command::PauseQueue { queue: "paused".into() });
    let worker = broker.worker_with(WorkerSpec { on_close: OnClose::TasksDie, ..spec("w", &["q"], 3) });
    for number in 0..6 {
        let task = NewTask {
            name: (number % 2 == 0).then(|| format!("name {number}").into()),
            priority: Some(number % 3),
            tags: names(if number % 2 == 0 { &["t"] } else { &[] }),
            on_lost: [OnLost::Requeue, OnLost::Pause][number as usize % 2],
            expires_at: (number == 5).then(|| broker.now + SECOND * 500),
            body: Blob::new(number as u64 * 10 + 10, 5),
            retries: 1,
            ..broker.new_task("q")
        };
        broker.submit_task(&ann, task);
        broker.submit(&ann, "paused");
        broker.submit(&eve, "q");
    }
    for held in broker.worker_info("w").held {
        broker.start(&worker, held.task);
    }
    broker.disconnect(&worker);
    broker.wait(SECOND);
    let worker = broker.worker("w2", &["q"], 4);
    for (index, held) in broker.worker_info("w2").held.into_iter().enumerate() {
        match index {
            0 => broker.complete(&worker, held.task),
            1 => broker.fail(&worker, held.task),
            2 => broker.start(&worker, held.task),
            _ => {}
        }
    }
    let running = broker.worker_info("w2").held[0];
    broker.does(&worker, Command::Progress { held: running, percent: Some(30), note: None });
    broker.does(&worker, Command::Checkpoint { held: running, checkpoint: Blob::new(700, 7) });
    broker.does(&ann, Command::Cancel { task: running.task, reason: Some("slow".into()) });
    let parent = broker.submit(&ann, "paused");
    for _ in 0..3 {
        let child = NewTask { parent: Some(parent), ..broker.new_task("paused") };
        let child = broker.submit_task(&ann, child);
        broker.pause(&ann, child);
    }
    for _ in 0..5 {
        let task = broker.submit(&eve, "q");
        broker.cancel(&eve, task);
    }
    broker.hush();
    broker
}

/// Works off everything that waits in one queue with one big worker, and says in which order it was handed out.
fn order_of_assignment(engine: &mut Engine, now: tenure_engine::Timestamp, namespace: &str) -> Vec<Held> {
    struct RecordingOutput(Vec<Held>);
    impl tenure_engine::Output for RecordingOutput {
        fn record(&mut self, _: tenure_engine::Event, _: Change<'_>) {}
        fn notice(&mut self, to: SessionId, notice: tenure_engine::Notice) {
            if let tenure_engine::Notice::Assign(assignment) = notice
                && to == SessionId(999)
            {
                self.0.push(Held { task: assignment.task, attempt: assignment.attempt });
            }
        }
        fn body(&mut self, _: &[u8]) -> Blob {
            Blob::EMPTY
        }
        fn freed(&mut self, _: Blob) {}
    }
    let peer = Peer { session: SessionId(999), namespace: namespace.into(), identity: "big".into() };
    let mut ears = RecordingOutput(Vec::new());
    let big = spec("big", &["q", "paused"], 1000);
    engine.handle(now, &peer, Command::Register(Box::new(big)), &mut ears).expect("registered");
    engine.handle(now, &peer, Command::ResumeQueue { queue: "paused".into() }, &mut ears).ok();
    engine.handle(now, &peer, Command::SetLimit { tag: "t".into(), limit: None }, &mut ears).expect("lifted");
    engine.audit();
    ears.0
}

#[test]
fn an_engine_comes_back_as_it_was_from_any_number_of_records() {
    let broker = busy_day();
    // After every prefix of the journal there is an engine, and it is sound.
    for length in 0..=broker.journal.records.len() {
        let prefix = Journal { records: broker.journal.records[..length].to_vec() };
        let engine = prefix.restore(Settings::default(), broker.now);
        engine.audit();
        assert_eq!(engine.last_event(), length as u64);
    }
    let settings = Settings { ended_kept: 3, quarantine_crashes: 2, ..Settings::default() };
    let restored = broker.journal.restore(settings, broker.now);
    compare(&restored, &broker.engine);
    for namespace in ["default", "other"] {
        let counts = |engine: &Engine| {
            let peer = Peer { session: SessionId(0), namespace: namespace.into(), identity: "x".into() };
            match engine.ask(&peer, &Query::Counts) {
                Ok(Answer::Counts(counts)) => counts.by_state,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(counts(&restored), counts(&broker.engine));
    }
}

#[test]
fn the_order_of_assignment_is_the_same_afterwards() {
    let mut broker = busy_day();
    let settings = Settings { ended_kept: 3, quarantine_crashes: 2, ..Settings::default() };
    let mut restored = broker.journal.restore(settings, broker.now);
    for namespace in ["default", "other"] {
        let lived = order_of_assignment(&mut broker.engine, broker.now, namespace);
        let came_back = order_of_assignment(&mut restored, broker.now, namespace);
        assert!(lived.len() > 3);
        assert_eq!(came_back, lived, "{namespace}");
    }
}

#[test]
fn records_may_be_applied_twice() {
    let broker = busy_day();
    let settings = Settings { ended_kept: 3, quarantine_crashes: 2, ..Settings::default() };
    let mut restore = Restore::new(settings);
    for _ in 0..2 {
        for (seq, kept) in &broker.journal.records {
            apply(&mut restore, kept.clone());
            restore.event(*seq);
        }
    }
    let restored = restore.finish(broker.now);
    restored.audit();
    compare(&restored, &broker.engine);
}

#[test]
fn a_slow_walk_and_the_records_since_its_beginning_make_a_snapshot() {
    let mut broker = busy_day();
    let ann = broker.client("ann");
    let begin = broker.journal.records.len();
    let mut snapshot: Vec<Kept> = Vec::new();
    broker.engine.settings_records(&mut |change| snapshot.push(keep(change)));
    let mut from = None;
    for round in 0.. {
        let mut slice = |task: &tenure_engine::Task,
                         terms: &tenure_engine::Terms,
                         after: &[tenure_engine::Dependency]| {
            snapshot.push(Kept::Task(Box::new(task.clone()), Box::new(terms.clone()), after.to_vec()));
        };
        from = broker.engine.scan_tasks(from, 4, &mut slice);
        if from.is_none() {
            assert!(round > 3, "it takes several turns");
            break;
        }
        // Meanwhile life goes on: tasks come, end and are forgotten.
        let task = broker.submit(&ann, "q");
        broker.cancel(&ann, task);
        broker.submit(&ann, "q");
    }
    let settings = Settings { ended_kept: 3, quarantine_crashes: 2, ..Settings::default() };
    let mut restore = Restore::new(settings);
    snapshot.into_iter().for_each(|kept| apply(&mut restore, kept));
    for (seq, kept) in &broker.journal.records[begin..] {
        apply(&mut restore, kept.clone());
        restore.event(*seq);
    }
    let restored = restore.finish(broker.now);
    restored.audit();
    compare(&restored, &broker.engine);
    broker.hush();
}

#[test]
fn a_restart_is_no_event_for_workers_that_come_back() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 2);
    let (task, waiting) = (broker.submit(&ann, "q"), broker.submit(&ann, "q"));
    broker.start(&worker, task);
    broker.start(&worker, waiting);
    let queued = broker.submit(&ann, "q");
    broker.hush();
    broker.restart_after(SECOND * 20);
    assert_eq!(broker.explain(queued), Why::AllLost { queue: "q".into(), since: broker.now });
    let again = broker.client("w again");
    let held = vec![broker.held(task), broker.held(waiting)];
    let reply = broker.does(&again, Command::Register(Box::new(WorkerSpec { held, ..spec("w", &["q"], 2) })));
    assert_eq!(reply, Reply::Registered { held: vec![Ok(()), Ok(())], returned: true });
    broker.hears(&["w returned", "#1/1 holder w returned", "#2/1 holder w returned", "queue q served"]);
    broker.complete(&again, task);
    broker.hears(&["#1/1 completed by w", "#3/1 assigned to w", "-> w again: run #3/1"]);
}

#[test]
fn workers_that_do_not_come_back_after_a_restart_are_given_up_after_a_grace() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 2);
    let (running, unconfirmed) = (broker.submit(&ann, "q"), broker.submit(&ann, "q"));
    broker.start(&worker, running);
    broker.hush();
    // However long the broker was away: the grace begins with its return.
    broker.restart_after(SECOND * 3600);
    broker.wait(SECOND * 59);
    broker.hears_nothing();
    assert_eq!(broker.state(running), StateName::Running);
    broker.wait(SECOND);
    broker.hears(&[
        "#1/1 crashed on w, not-back-after-restart: requeued, 2 left",
        "#2/1 taken back from w",
        "w left",
    ]);
    assert_eq!(
        broker.show(unconfirmed).crashed_on.len(),
        0,
        "no worker is to blame for what was not confirmed"
    );
}

#[test]
fn what_the_worker_does_not_bring_back_after_a_restart_is_lost() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 2);
    let (running, unconfirmed) = (broker.submit(&ann, "q"), broker.submit(&ann, "q"));
    broker.start(&worker, running);
    broker.hush();
    broker.restart_after(SECOND);
    let again = broker.client("w");
    broker.does(&again, Command::Register(Box::new(spec("w", &["q"], 2))));
    broker.hears(&[
        "w returned",
        "#1/1 crashed on w, forgotten: requeued, 2 left",
        "-> w: stop #2/1, taken-back",
        "#2/1 given back by w",
        "queue q served",
        "#1/2 assigned to w",
        "-> w: run #1/2",
        "#2/2 assigned to w",
        "-> w: run #2/2",
    ]);
    assert_eq!(broker.state(unconfirmed), StateName::Assigned);
}

#[test]
fn an_intent_survives_a_restart() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let task = broker.submit(&ann, "q");
    broker.start(&worker, task);
    broker.disconnect(&worker);
    broker.does(&ann, Command::Cancel { task, reason: Some("why not".into()) });
    broker.hush();
    broker.restart_after(SECOND);
    let again = broker.client("w");
    let held = vec![broker.held(task)];
    broker.does(&again, Command::Register(Box::new(WorkerSpec { held, ..spec("w", &["q"], 1) })));
    broker.hears(&[
        "w returned",
        "#1/1 holder w returned",
        "-> w: cancel #1/1 (why not)",
        "#1/1 cancel delivered to w",
        "queue q served",
    ]);
}

#[test]
fn a_run_limit_and_an_expiry_survive_a_restart() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["run"], 1);
    let limited = NewTask { run_limit: Some(SECOND * 100), ..broker.new_task("run") };
    let limited = broker.submit_task(&ann, limited);
    broker.start(&worker, limited);
    let expiring = NewTask { expires_at: Some(broker.now + SECOND * 30), ..broker.new_task("q") };
    broker.submit_task(&ann, expiring);
    let delayed = NewTask { not_before: Some(broker.now + SECOND * 20), ..broker.new_task("q") };
    broker.submit_task(&ann, delayed);
    broker.hush();
    broker.restart_after(SECOND * 10);
    let again = broker.client("w");
    let held = vec![broker.held(limited)];
    broker.does(&again, Command::Register(Box::new(WorkerSpec { held, ..spec("w", &["run"], 1) })));
    broker.hush();
    broker.wait(SECOND * 10);
    broker.hears(&["#3 due"]);
    broker.heartbeat(&again);
    broker.wait(SECOND * 10);
    broker.hears(&["#2 expired"]);
    for _ in 0..7 {
        broker.heartbeat(&again);
        broker.wait(SECOND * 10);
    }
    broker.hears(&[
        "-> w: stop #1/1, run-limit",
        "#1/1 crashed on w, run-limit: requeued, 2 left",
        "#1/2 assigned to w",
        "-> w: run #1/2",
    ]);
}

#[test]
fn a_quarantine_survives_a_restart() {
    let mut broker =
        Broker::with(Settings { quarantine_crashes: 1, quarantine_for: SECOND * 60, ..Settings::default() });
    let ann = broker.client("ann");
    let worker = broker.worker_with(WorkerSpec { on_close: OnClose::TasksDie, ..spec("w", &["q"], 1) });
    let task = broker.submit(&ann, "q");
    broker.start(&worker, task);
    broker.disconnect(&worker);
    broker.hush();
    broker.restart_after(SECOND * 10);
    let worker = broker.worker("w", &["q"], 1);
    broker.hears(&["w registered"]);
    for _ in 0..5 {
        broker.wait(SECOND * 10);
        broker.heartbeat(&worker);
    }
    broker.hears(&["w cleared", "queue q served", "#1/2 assigned to w", "-> w: run #1/2"]);
}

#[test]
fn a_task_that_was_forgotten_does_not_come_back_even_if_there_is_room_again() {
    let mut broker = Broker::with(Settings { ended_kept: 2, ..Settings::default() });
    let ann = broker.client("ann");
    let tasks: Vec<_> = (0..3).map(|_| broker.submit(&ann, "q")).collect();
    for task in &tasks {
        broker.cancel(&ann, *task);
    }
    assert!(broker.ask(&Query::Show { task: tasks[0] }).is_err(), "one too many");
    broker.does(&ann, Command::Retry { task: tasks[1] });
    broker.restart_after(SECOND);
    assert!(broker.ask(&Query::Show { task: tasks[0] }).is_err(), "its bytes are gone");
    assert_eq!(broker.state(tasks[1]), StateName::Ready);
    broker.hush();
}

#[test]
fn bytes_are_moved_and_found_at_their_new_place() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let task = NewTask { body: Blob::new(10, 5), ..broker.new_task("q") };
    let task = broker.submit_task(&ann, task);
    let last = AttemptFailure { is_final: true, result: Blob::new(20, 6), ..failure(broker.held(task), 7) };
    broker.does(&worker, Command::Fail(last));
    broker.hush();
    let engine = &mut broker.engine;
    let (body, result) = (Blob::new(10, 5), Blob::new(20, 6));
    assert!(engine.holds(&task, Which::Body, body) && engine.holds(&task, Which::Result, result));
    assert!(!engine.holds(&task, Which::Body, result));
    let Some(Change::Task { task: moved, .. }) = engine.relocate(&task, Which::Body, body, Blob::new(110, 5))
    else {
        panic!("it moved")
    };
    assert_eq!(moved.body, Blob::new(110, 5));
    let Some(Change::Task { task: moved, terms, .. }) =
        engine.relocate(&task, Which::Result, result, Blob::new(120, 6))
    else {
        panic!("it moved")
    };
    assert_eq!((Which::Result.of(moved), &*terms.queue), (Blob::new(120, 6), "q"));
    // What moved meanwhile is left alone.
    assert!(engine.relocate(&task, Which::Body, body, Blob::new(210, 5)).is_none());
    assert!(engine.relocate(&tenure_engine::TaskId::from_u128(9), Which::Body, body, body).is_none());
    assert_eq!(engine.find_task(&task).map(|task| task.body), Some(Blob::new(110, 5)));
}
