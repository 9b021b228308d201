//! Namespaces: what is in one does not exist in another.

use tenure_engine::command::{Completion, ListQuery};
use tenure_engine::{Answer, Blob, Command, Held, NewTask, Query, StateName};

use crate::broker::{Broker, names, spec};

#[test]
fn two_namespaces_do_not_see_each_other() {
    let mut broker = Broker::new();
    let (ann, eve) = (broker.peer("red", "ann"), broker.peer("blue", "eve"));
    let (red, blue) = (broker.peer("red", "red worker"), broker.peer("blue", "blue worker"));
    let task = NewTask { name: Some("x".into()), tags: names(&["t"]), ..broker.new_task("q") };
    let task = broker.submit_task(&ann, task);
    broker.limit(&ann, "t", Some(3));
    broker.hush();

    // A worker of the same queue and name in the other namespace gets nothing.
    broker.does(&blue, Command::Register(Box::new(spec("w", &["q"], 1))));
    broker.hears(&["w registered", "queue q served"]);
    broker.does(&red, Command::Register(Box::new(spec("w", &["q"], 1))));
    broker.hears(&["w registered", "queue q served", "#1/1 assigned to w", "-> red worker: run #1/1"]);

    // No peer there knows the task, by id or by name, and none can touch it.
    let held = Held { task, attempt: 1 };
    for command in [
        Command::Cancel { task, reason: None },
        Command::Pause { task, reason: None, terminate: false },
        Command::Resume { task },
        Command::Release { task },
        Command::Retry { task },
        Command::Move { task, to: tenure_engine::command::Move::default() },
    ] {
        assert_eq!(broker.refuses(&eve, command).code(), "unknown-task");
    }
    let completion = Completion { held, result: Blob::EMPTY };
    assert_eq!(broker.refuses(&blue, Command::Complete(vec![completion])).code(), "unknown-task");
    assert_eq!(broker.refuses(&blue, Command::Start(vec![held])).code(), "unknown-task");
    let child = NewTask { parent: Some(task), ..broker.new_task("q") };
    assert_eq!(broker.refuses(&eve, Command::Submit(vec![child])).code(), "bad-parent");
    for query in [Query::Show { task }, Query::Explain { task }, Query::Find { name: "x".into() }] {
        assert!(broker.ask_in("blue", &query).is_err());
        assert!(broker.ask_in("red", &query).is_ok());
    }
    for parent in [None, Some(task)] {
        let list = Query::List(Box::new(ListQuery { parent, limit: 10, ..ListQuery::default() }));
        assert_eq!(broker.ask_in("blue", &list), Ok(Answer::Tasks { tasks: vec![], next: None }));
    }
    let Ok(Answer::Counts(counts)) = broker.ask_in("blue", &Query::Counts) else { panic!("no counts") };
    assert_eq!((counts.by_state, counts.live_workers), ([0; StateName::COUNT], 1));
    assert_eq!(broker.ask_in("blue", &Query::Limits), Ok(Answer::Limits(vec![])));
    let Ok(Answer::Queues(queues)) = broker.ask_in("blue", &Query::Queues) else { panic!("no queues") };
    assert_eq!(queues.len(), 1);
    assert_eq!(queues[0].counts, [0; StateName::COUNT]);
    let Ok(Answer::Workers(workers)) = broker.ask_in("blue", &Query::Workers) else { panic!("no workers") };
    assert_eq!(workers.len(), 1);
    assert!(workers[0].held.is_empty());

    // Names, queues, tags and limits of the same spelling are other ones.
    let same = NewTask { name: Some("x".into()), tags: names(&["t"]), ..broker.new_task("q") };
    assert!(!broker.submit_and_see(&eve, same).known);
    broker.does(&eve, Command::PauseQueue { queue: "q".into() });
    broker.limit(&eve, "t", Some(0));
    broker.hush();
    assert_eq!(
        broker.refuses(&eve, Command::DrainWorker { worker: "absent".into() }).code(),
        "unknown-worker"
    );
    broker.does(&eve, Command::DrainWorker { worker: "w".into() });
    broker.hears(&["w draining", "queue q unserved", "-> blue worker: drain"]);
    let more = NewTask { tags: names(&["t"]), ..broker.new_task("q") };
    broker.submit_task(&ann, more);
    broker.hears(&["#4 submitted"]);
    let held = Completion { held: Held { task, attempt: 1 }, result: Blob::EMPTY };
    broker.does(&red, Command::Complete(vec![held]));
    broker.hears(&["#1/1 completed by w", "#4/1 assigned to w", "-> red worker: run #4/1"]);
}

#[test]
fn an_unknown_namespace_is_empty() {
    let broker = Broker::new();
    assert_eq!(broker.ask_in("nowhere", &Query::Queues), Ok(Answer::Queues(vec![])));
    let Ok(Answer::Counts(counts)) = broker.ask_in("nowhere", &Query::Counts) else { panic!("no counts") };
    assert_eq!(counts.by_state, [0; StateName::COUNT]);
}
