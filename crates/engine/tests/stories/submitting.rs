//! Submitting: one task or many, with ids and names of the client's choice, each accepted or refused on its own.

use std::time::Duration;

use tenure_engine::limits::{NAME_BYTES_MAX, NEEDS_MAX, TAGS_MAX};
use tenure_engine::terms::{Backoff, OnLost};
use tenure_engine::{
    Blob, Command, NewTask, Peer, Query, Refusal, Settings, StateName, TaskId, Timestamp, Why, WorkerSpec,
};

use crate::broker::{Broker, SECOND, names};

#[test]
fn a_task_is_accepted_and_its_submitter_learns_that_no_worker_can_run_it() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let task = broker.new_task("analysis");
    let accepted = broker.submit_and_see(&ann, task);
    assert_eq!(accepted.task, TaskId::from_u128(1));
    assert_eq!(accepted.state, StateName::Ready);
    assert!(!accepted.known);
    assert_eq!(accepted.unserved, Some(Why::NoWorkerEver { queue: "analysis".into() }));
    broker.hears(&["#1 submitted, no-worker-ever"]);
}

#[test]
fn many_tasks_are_submitted_at_once_and_each_is_answered_on_its_own() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    broker.worker("w", &["q"], 1);
    broker.hush();
    let (good, bad, again, last) = (
        broker.new_task("q"),
        NewTask { queue: "".into(), ..broker.new_task("q") },
        NewTask::new(TaskId::from_u128(1), "q"),
        broker.new_task("q"),
    );
    let each = broker.submit_many(&ann, vec![good, bad, again, last]);
    assert!(each[0].as_ref().is_ok_and(|accepted| accepted.unserved.is_none()));
    assert_eq!(each[1], Err(Refusal::BadName { what: "queue", why: "is empty" }));
    assert_eq!(each[2], Err(Refusal::IdTaken { task: TaskId::from_u128(1) }));
    assert!(each[3].is_ok());
    broker.hears(&["#1 submitted", "#3 submitted", "#1/1 assigned to w", "-> w: run #1/1"]);
}

#[test]
fn a_task_is_shown_as_it_was_asked_for() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let later = broker.now + Duration::from_secs(60);
    let task = NewTask {
        name: Some("nightly".into()),
        priority: Some(-3),
        needs: names(&["gpu", "blas", "gpu"]),
        tags: names(&["licence", "cluster"]),
        not_before: Some(later),
        expires_at: Some(later + SECOND),
        on_lost: OnLost::Pause,
        crash_budget: 9,
        retries: 4,
        backoff: Backoff { first: SECOND, max: SECOND * 8 },
        accept_timeout: Some(SECOND * 3),
        run_limit: Some(SECOND * 100),
        body: Blob::new(700, 12),
        ..broker.new_task("q")
    };
    let id = broker.submit_task(&ann, task);
    let info = broker.show(id);
    assert_eq!(info.name.as_deref(), Some("nightly"));
    assert_eq!((info.priority, info.attempt, info.crashes, info.failures), (-3, 0, 0, 0));
    assert_eq!(info.terms.needs, names(&["blas", "gpu"]), "sorted and once each");
    assert_eq!(info.terms.tags, names(&["cluster", "licence"]));
    assert_eq!((&*info.terms.submitter, &*info.terms.namespace, &*info.terms.queue), ("ann", "default", "q"));
    assert_eq!((info.terms.on_lost, info.terms.crash_budget, info.terms.retries), (OnLost::Pause, 9, 4));
    assert_eq!(info.terms.backoff, Backoff { first: SECOND, max: SECOND * 8 });
    assert_eq!((info.terms.accept_timeout, info.terms.run_limit), (Some(SECOND * 3), Some(SECOND * 100)));
    assert_eq!((info.not_before, info.expires_at), (Some(later), Some(later + SECOND)));
    assert_eq!((info.submitted_at, info.body), (broker.now, Blob::new(700, 12)));
    assert_eq!(info.state.name(), StateName::Delayed);
    broker.hears(&["#1 submitted"]);
}

#[test]
fn a_name_makes_a_submission_idempotent() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let named = |broker: &mut Broker| NewTask {
        name: Some("report of may".into()),
        body: Blob::new(100, 5),
        body_digest: 77,
        ..broker.new_task("q")
    };
    let first = named(&mut broker);
    let accepted = broker.submit_and_see(&ann, first);
    broker.hush();

    // The same request again, with another id and its body at another place.
    let again = NewTask { body: Blob::new(900, 5), ..named(&mut broker) };
    let known = broker.submit_and_see(&ann, again);
    assert!(known.known);
    assert_eq!((known.task, known.state), (accepted.task, StateName::Ready));
    broker.hears_nothing();

    // "In a minute" is another moment each time it is said, but the same request.
    let in_a_minute = Some(broker.now + Duration::from_secs(60));
    let later = NewTask { not_before: in_a_minute, ..named(&mut broker) };
    assert!(broker.submit_and_see(&ann, later).known);
    broker.hears_nothing();

    // Found by its name, also when it has ended.
    broker.cancel(&ann, accepted.task);
    broker.hush();
    assert!(broker.ask(&Query::Find { name: "report of may".into() }).is_ok());
    let ended = named(&mut broker);
    let known = broker.submit_and_see(&ann, ended);
    assert_eq!((known.task, known.known, known.state), (accepted.task, true, StateName::Cancelled));
}

#[test]
fn a_name_that_was_given_to_something_else_is_refused() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let named = |broker: &mut Broker| NewTask { name: Some("x".into()), ..broker.new_task("q") };
    let first = named(&mut broker);
    let task = broker.submit_task(&ann, first);
    broker.hush();
    let others = [
        NewTask { queue: "other".into(), ..named(&mut broker) },
        NewTask { priority: Some(1), ..named(&mut broker) },
        NewTask { needs: names(&["gpu"]), ..named(&mut broker) },
        NewTask { tags: names(&["gpu"]), ..named(&mut broker) },
        NewTask { parent: Some(task), ..named(&mut broker) },
        NewTask { hold: true, ..named(&mut broker) },
        NewTask { on_lost: OnLost::Fail, ..named(&mut broker) },
        NewTask { crash_budget: 1, ..named(&mut broker) },
        NewTask { retries: 1, ..named(&mut broker) },
        NewTask { backoff: Backoff { first: SECOND, max: SECOND }, ..named(&mut broker) },
        NewTask { accept_timeout: Some(SECOND), ..named(&mut broker) },
        NewTask { run_limit: Some(SECOND), ..named(&mut broker) },
        NewTask { body: Blob::new(100, 5), ..named(&mut broker) },
        NewTask { body_digest: 1, ..named(&mut broker) },
    ];
    for other in others {
        let refusal = broker.refuses(&ann, Command::Submit(vec![other]));
        assert_eq!(refusal, Refusal::NameTaken { name: "x".into(), task });
    }
    assert_eq!(
        broker.ask(&Query::Find { name: "y".into() }),
        Err(Refusal::UnknownName { name: "y".into() }),
        "no task had that name"
    );
}

#[test]
fn nonsense_is_refused_by_name_and_changes_nothing() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let long = "x".repeat(NAME_BYTES_MAX + 1);
    let many = |count: usize| (0..count).map(|number| format!("n{number}").into()).collect::<Vec<_>>();
    let now = broker.now;
    let cases: Vec<(NewTask, &str)> = vec![
        (NewTask { queue: "".into(), ..broker.new_task("q") }, "bad-name"),
        (NewTask { queue: long.as_str().into(), ..broker.new_task("q") }, "bad-name"),
        (NewTask { queue: "a\nb".into(), ..broker.new_task("q") }, "bad-name"),
        (NewTask { name: Some("".into()), ..broker.new_task("q") }, "bad-name"),
        (NewTask { needs: names(&[""]), ..broker.new_task("q") }, "bad-name"),
        (NewTask { tags: names(&["\u{7f}"]), ..broker.new_task("q") }, "bad-name"),
        (NewTask { needs: many(NEEDS_MAX + 1), ..broker.new_task("q") }, "too-many"),
        (NewTask { tags: many(TAGS_MAX + 1), ..broker.new_task("q") }, "too-many"),
        (NewTask { parent: Some(TaskId::from_u128(99)), ..broker.new_task("q") }, "bad-parent"),
        (NewTask { expires_at: Some(now), ..broker.new_task("q") }, "too-late"),
        (NewTask { expires_at: Some(Timestamp(5)), ..broker.new_task("q") }, "too-late"),
        (NewTask { run_limit: Some(Duration::ZERO), ..broker.new_task("q") }, "bad-value"),
        (NewTask { accept_timeout: Some(Duration::ZERO), ..broker.new_task("q") }, "bad-value"),
        (
            NewTask { backoff: Backoff { first: SECOND * 2, max: SECOND }, ..broker.new_task("q") },
            "bad-value",
        ),
    ];
    for (task, code) in cases {
        let text = format!("{task:?}");
        assert_eq!(broker.refuses(&ann, Command::Submit(vec![task])).code(), code, "{text}");
    }
    let fits = NewTask {
        needs: many(NEEDS_MAX),
        tags: many(TAGS_MAX),
        ..broker.new_task(&"x".repeat(NAME_BYTES_MAX))
    };
    broker.submit_task(&ann, fits);
    broker.hush();
    let nowhere = Peer { namespace: "".into(), ..ann };
    let task = broker.new_task("q");
    assert_eq!(broker.refuses(&nowhere, Command::Submit(vec![task])).code(), "bad-name");
}

#[test]
fn a_full_broker_says_so() {
    let mut broker = Broker::with(Settings { tasks_max: 2, queues_max: 1, ..Settings::default() });
    let ann = broker.client("ann");
    broker.submit(&ann, "q");
    broker.hush();
    let elsewhere = broker.new_task("another queue");
    assert_eq!(
        broker.refuses(&ann, Command::Submit(vec![elsewhere])),
        Refusal::Full { what: "queues", limit: 1 }
    );
    assert_eq!(
        broker.refuses(&ann, Command::PauseQueue { queue: "another queue".into() }),
        Refusal::Full { what: "queues", limit: 1 }
    );
    broker.submit(&ann, "q");
    broker.hush();
    let one_more = broker.new_task("q");
    assert_eq!(
        broker.refuses(&ann, Command::Submit(vec![one_more])),
        Refusal::Full { what: "tasks", limit: 2 }
    );
}

#[test]
fn an_unused_queue_makes_room_for_another() {
    let settings = Settings { queues_max: 4, ended_kept: 0, ..Settings::default() };
    let mut broker = Broker::with(settings);
    let ann = broker.client("ann");
    // Each of these queues is served once and never again.
    for number in 0..20 {
        let queue = format!("run {number}");
        let worker = broker.worker("w", &[&queue], 1);
        let task = broker.submit(&ann, &queue);
        broker.complete(&worker, task);
        broker.does(&worker, Command::Leave);
    }
    broker.hush();
    let Ok(tenure_engine::Answer::Queues(queues)) = broker.ask(&Query::Queues) else { panic!("no queues") };
    assert!(queues.len() <= 4, "{queues:?}");
}

#[test]
fn a_task_that_is_held_back_waits_for_its_release() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    broker.worker("w", &["q"], 1);
    broker.hush();
    let held = NewTask { hold: true, ..broker.new_task("q") };
    let accepted = broker.submit_and_see(&ann, held);
    assert_eq!(accepted.state, StateName::Created);
    broker.hears(&["#1 submitted"]);
    broker.wait(SECOND * 3);
    broker.hush();
    broker.does(&ann, Command::Release { task: accepted.task });
    broker.hears(&["#1 released", "#1/1 assigned to w", "-> w: run #1/1"]);
}

#[test]
fn a_namespace_that_has_too_many_queues_leaves_room_for_others() {
    let mut broker = Broker::with(Settings { queues_per_namespace_max: 2, ..Settings::default() });
    let ann = broker.client("ann");
    for queue in ["one", "two", "one"] {
        broker.submit(&ann, queue);
    }
    broker.hush();
    let refusal = Refusal::Full { what: "queues of this namespace", limit: 2 };
    let spec = WorkerSpec::new("w", vec!["one".into(), "three".into()], 1);
    for command in [
        Command::Submit(vec![broker.new_task("three")]),
        Command::PauseQueue { queue: "three".into() },
        Command::Register(Box::new(spec)),
    ] {
        assert_eq!(broker.refuses(&ann, command), refusal);
    }
    let other = Peer { namespace: "other".into(), ..ann };
    broker.submit(&other, "three");
    broker.hush();
}
