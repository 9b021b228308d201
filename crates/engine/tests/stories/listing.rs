//! Listing: every filter, and pages on which no task is missing or twice while others change.

use std::collections::BTreeSet;

use tenure_engine::command::{Cursor, ListQuery};
use tenure_engine::{Answer, Command, NewTask, Peer, Query, Refusal, StateName, TaskId};

use crate::broker::{Broker, SECOND, names};

/// A broker with tasks in every state.
fn crowd() -> (Broker, Peer, Peer, Vec<(StateName, TaskId)>) {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["run"], 2);
    let mut tasks = Vec::new();
    let held = NewTask { hold: true, ..broker.new_task("q") };
    tasks.push((StateName::Created, broker.submit_task(&ann, held)));
    let later = NewTask { not_before: Some(broker.now + SECOND * 9999), ..broker.new_task("q") };
    tasks.push((StateName::Delayed, broker.submit_task(&ann, later)));
    for _ in 0..3 {
        tasks.push((StateName::Ready, broker.submit(&ann, "q")));
    }
    for end in [StateName::Completed, StateName::Failed, StateName::Cancelled] {
        let task = broker.submit(&ann, "run");
        match end {
            StateName::Completed => broker.complete(&worker, task),
            StateName::Failed => broker.fail(&worker, task),
            _ => broker.cancel(&ann, task),
        }
        tasks.push((end, task));
    }
    let running = broker.submit(&ann, "run");
    broker.start(&worker, running);
    tasks.push((StateName::Running, running));
    tasks.push((StateName::Assigned, broker.submit(&ann, "run")));
    let paused = broker.submit(&ann, "q");
    broker.pause(&ann, paused);
    tasks.push((StateName::Paused, paused));
    broker.hush();
    (broker, ann, worker, tasks)
}

#[test]
fn tasks_are_listed_by_state() {
    let (broker, _, _, tasks) = crowd();
    for state in StateName::ALL {
        let expected: Vec<TaskId> =
            tasks.iter().filter(|(of, _)| *of == state).map(|(_, task)| *task).collect();
        let listed = broker.list(ListQuery { states: vec![state], ..ListQuery::default() });
        assert_eq!(listed, expected, "{state}");
    }
    let two = vec![StateName::Cancelled, StateName::Ready];
    let listed = broker.list(ListQuery { states: two, ..ListQuery::default() });
    assert_eq!(listed.len(), 4);
    // Page by page, one task at a time, all of them once.
    let all = broker.list(ListQuery { limit: 1, ..ListQuery::default() });
    assert_eq!(all.len(), tasks.len());
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), tasks.len());
}

#[test]
fn tasks_are_listed_by_queue_tag_worker_submitter_parent_and_time() {
    let mut broker = Broker::new();
    let (ann, bob) = (broker.client("ann"), broker.client("bob"));
    let worker = broker.worker("w", &["q"], 2);
    let first = NewTask { tags: names(&["red"]), ..broker.new_task("q") };
    let first = broker.submit_task(&ann, first);
    let early = broker.now;
    broker.wait(SECOND);
    let second = NewTask { tags: names(&["red", "blue"]), parent: Some(first), ..broker.new_task("q") };
    let second = broker.submit_task(&bob, second);
    let late = broker.now;
    let third = broker.submit(&bob, "r");
    let fourth = NewTask { tags: names(&["blue"]), parent: Some(first), ..broker.new_task("r") };
    let fourth = broker.submit_task(&ann, fourth);
    broker.complete(&worker, first);
    broker.hush();
    let list = |query: ListQuery| {
        let mut tasks = broker.list(query);
        tasks.sort();
        tasks
    };
    let any = ListQuery::default;
    assert_eq!(list(ListQuery { queue: Some("q".into()), ..any() }), [first, second]);
    assert_eq!(list(ListQuery { queue: Some("none".into()), ..any() }), []);
    assert_eq!(list(ListQuery { tag: Some("red".into()), ..any() }), [first, second]);
    assert_eq!(list(ListQuery { tag: Some("blue".into()), ..any() }), [second, fourth]);
    assert_eq!(
        list(ListQuery { worker: Some("w".into()), ..any() }),
        [first, second],
        "also who held it last"
    );
    assert_eq!(list(ListQuery { worker: Some("x".into()), ..any() }), []);
    assert_eq!(list(ListQuery { submitter: Some("bob".into()), ..any() }), [second, third]);
    assert_eq!(list(ListQuery { parent: Some(first), ..any() }), [second, fourth]);
    assert_eq!(list(ListQuery { parent: Some(third), ..any() }), []);
    assert_eq!(list(ListQuery { parent: Some(TaskId::from_u128(99)), ..any() }), []);
    assert_eq!(list(ListQuery { submitted_after: Some(early), ..any() }), [second, third, fourth]);
    assert_eq!(list(ListQuery { submitted_before: Some(late), ..any() }), [first]);
    let several = ListQuery {
        queue: Some("r".into()),
        tag: Some("blue".into()),
        submitter: Some("ann".into()),
        parent: Some(first),
        states: vec![StateName::Ready],
        ..any()
    };
    assert_eq!(list(several), [fourth]);
}

#[test]
fn waiting_tasks_are_listed_in_the_order_in_which_they_will_run() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let low = broker.submit(&ann, "q");
    let high = NewTask { priority: Some(3), ..broker.new_task("q") };
    let high = broker.submit_task(&ann, high);
    let next = broker.submit(&ann, "q");
    for limit in 1..4 {
        let query = ListQuery {
            states: vec![StateName::Ready],
            queue: Some("q".into()),
            limit,
            ..ListQuery::default()
        };
        assert_eq!(broker.list(query), [high, low, next]);
    }
    broker.hush();
}

#[test]
fn no_task_is_missing_or_twice_while_others_come_and_go() {
    for state in [StateName::Ready, StateName::Created, StateName::Assigned, StateName::Cancelled] {
        let mut broker = Broker::new();
        let ann = broker.client("ann");
        let workers: Vec<Peer> =
            (0..4).map(|number| broker.worker(&format!("w{number}"), &["run"], 20)).collect();
        let submit = |broker: &mut Broker, number: usize| {
            let tags = names(&[["a", "b", "c"][number % 3]]);
            let queue = if state == StateName::Assigned { "run" } else { "q" };
            let task = NewTask {
                tags,
                priority: Some(number as i32 % 5),
                hold: state == StateName::Created,
                accept_timeout: Some(SECOND * 9999),
                ..broker.new_task(queue)
            };
            let task = broker.submit_task(&ann, task);
            if state == StateName::Cancelled {
                broker.cancel(&ann, task);
            }
            task
        };
        let all: Vec<TaskId> = (0..60).map(|number| submit(&mut broker, number)).collect();
        let (unchanged, changed): (Vec<_>, Vec<_>) =
            all.iter().enumerate().partition(|(number, _)| number % 4 != 0);
        let mut changed = changed.into_iter().map(|(_, task)| *task);
        let mut seen = Vec::new();
        let mut query = ListQuery { states: vec![state], limit: 3, ..ListQuery::default() };
        loop {
            let (tasks, next) = broker.page(query.clone());
            seen.extend(tasks);
            if next.is_none() {
                break;
            }
            query.cursor = next;
            // Between two pages, one leaves the state and two others join it.
            if let Some(task) = changed.next() {
                match state {
                    StateName::Ready | StateName::Created => broker.cancel(&ann, task),
                    StateName::Cancelled => {
                        broker.does(&ann, Command::Retry { task });
                    }
                    _ => {
                        let holder = broker.show(task).state.holding().map(|holding| holding.worker.clone());
                        let worker = workers.iter().find(|worker| Some(&worker.identity) == holder.as_ref());
                        broker.complete(worker.expect("a worker holds it"), task);
                    }
                }
                submit(&mut broker, seen.len());
                submit(&mut broker, seen.len() + 1);
            }
        }
        assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), seen.len(), "{state}: none is twice");
        for (_, task) in unchanged {
            assert!(seen.contains(task), "{state}: {task} is missing");
        }
        broker.hush();
    }
}

#[test]
fn a_page_looks_at_a_bounded_number_of_tasks_and_says_that_it_is_not_done() {
    let mut broker = Broker::new();
    let (ann, bob) = (broker.client("ann"), broker.client("bob"));
    let many: Vec<NewTask> = (0..12_000).map(|_| broker.new_task("q")).collect();
    broker.submit_many(&ann, many);
    let wanted = broker.submit(&bob, "q");
    broker.hush();
    let query = ListQuery { submitter: Some("bob".into()), limit: 10, ..ListQuery::default() };
    let (tasks, next) = broker.page(query.clone());
    assert_eq!(tasks, []);
    let next = next.expect("the search is not over");
    let (tasks, next) = broker.page(ListQuery { cursor: Some(next), ..query });
    assert_eq!((tasks, next), (vec![wanted], None));
}

#[test]
fn a_cursor_prints_and_parses_and_a_forged_one_is_harmless() {
    let (broker, ..) = crowd();
    let (_, next) = broker.page(ListQuery { limit: 3, ..ListQuery::default() });
    let next = next.expect("there is more");
    assert_eq!(next.to_string().parse(), Ok(next));
    for text in ["", "ready", "ready:1:2", "ready:x:0:0", "lost:0:0:0", "ready:-1:0:0"] {
        let parsed = text.parse::<Cursor>();
        assert_eq!(parsed.map_err(|refusal| refusal.code()), Err("bad-value"), "{text}");
    }
    for state in StateName::ALL {
        for text in [
            format!("{state}:4294967295:9223372036854775807:18446744073709551615"),
            format!("{state}:0:-9223372036854775808:0"),
            format!("{state}:7:0:4294967296"),
        ] {
            let cursor: Cursor = text.parse().expect("it looks like one");
            let query = ListQuery { cursor: Some(cursor), limit: 10, ..ListQuery::default() };
            broker.page(ListQuery { states: vec![state], ..query.clone() });
            // A list over several states, and one of children, has cursors of its own.
            let children = ListQuery { parent: Some(TaskId::from_u128(1)), ..query.clone() };
            for query in [query, children] {
                let refused = broker.ask(&Query::List(Box::new(query))).map_err(|refusal| refusal.code());
                assert_eq!(refused, Err("bad-value"));
            }
        }
    }
    for number in [0, u64::from(u32::MAX), u64::MAX] {
        let cursor = Some(format!("any:0:0:{number}").parse().expect("it looks like one"));
        broker.page(ListQuery { cursor, limit: 10, ..ListQuery::default() });
        let parent = Some(TaskId::from_u128(1));
        broker.page(ListQuery { cursor, parent, limit: 10, ..ListQuery::default() });
    }
}

#[test]
fn a_list_over_several_states_shows_every_task_once_whatever_state_it_moves_to() {
    // Among more others than a page looks at, or alone.
    for (others, step) in [(0, 1), (12_000, 20)] {
        let mut broker = Broker::new();
        let ann = broker.client("ann");
        let parent = broker.submit(&ann, "families");
        let tasks: Vec<TaskId> = (0..60)
            .map(|number| {
                let later = (number % 3 == 0).then(|| broker.now + SECOND * 9999);
                let family = (number % 2 == 0).then_some(parent);
                let task = NewTask { not_before: later, parent: family, ..broker.new_task("q") };
                broker.submit_task(&ann, task)
            })
            .collect();
        for task in tasks.iter().skip(1).step_by(4) {
            broker.cancel(&ann, *task);
        }
        let many: Vec<NewTask> = (0..others).map(|_| broker.new_task("other")).collect();
        broker.submit_many(&ann, many);
        broker.hush();
        let everything = ListQuery { queue: Some("q".into()), limit: 7, ..ListQuery::default() };
        let unended = vec![StateName::Delayed, StateName::Ready, StateName::Paused, StateName::Cancelled];
        let some = ListQuery { states: unended, ..everything.clone() };
        let everyones = ListQuery { queue: None, submitter: Some("ann".into()), limit: 1000, ..some.clone() };
        let children = ListQuery { parent: Some(parent), ..everything.clone() };
        for query in [everything, some, everyones, children] {
            let mut seen = Vec::new();
            let mut next = query.clone();
            for page in 0.. {
                let (listed, cursor) = broker.page(next);
                seen.extend(listed);
                let Some(cursor) = cursor else { break };
                next = ListQuery { cursor: Some(cursor), ..query.clone() };
                // Between two pages tasks move: on, and back.
                for task in tasks.iter().skip(page % step).step_by(step) {
                    let command = match (broker.show(*task).state.name(), page % 2) {
                        (StateName::Cancelled, _) => Command::Retry { task: *task },
                        (StateName::Paused, _) => Command::Resume { task: *task },
                        (_, 0) => Command::Pause { task: *task, reason: None, terminate: false },
                        (..) => Command::Cancel { task: *task, reason: None },
                    };
                    broker.does(&ann, command);
                }
                broker.hush();
            }
            assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), seen.len(), "none is twice");
            let is_meant = |task: &TaskId| query.parent.is_none() || broker.show(*task).parent.is_some();
            for task in tasks.iter().filter(|task| is_meant(task)) {
                assert!(seen.contains(task), "{others}: {task} is missing");
            }
        }
    }
}

#[test]
fn the_size_of_a_page_has_a_limit() {
    let broker = Broker::new();
    for limit in [0, 1001, usize::MAX] {
        let query = Query::List(Box::new(ListQuery { limit, ..ListQuery::default() }));
        assert_eq!(broker.ask(&query).map_err(|refusal| refusal.code()), Err("bad-value"));
    }
    let query = Query::List(Box::new(ListQuery { limit: 1000, ..ListQuery::default() }));
    assert_eq!(broker.ask(&query), Ok(Answer::Tasks { tasks: vec![], next: None }));
    let unknown = TaskId::from_u128(5);
    for query in [Query::Show { task: unknown }, Query::Explain { task: unknown }] {
        assert_eq!(broker.ask(&query), Err(Refusal::UnknownTask { task: unknown }));
    }
}

#[test]
fn counts_are_always_a_recount() {
    let (broker, _, _, tasks) = crowd();
    let mut expected = [0; StateName::COUNT];
    for (state, _) in &tasks {
        expected[*state as usize] += 1;
    }
    let counts = broker.counts();
    assert_eq!(counts.by_state, expected);
    assert_eq!((counts.live_workers, counts.lost_workers), (1, 0));
    assert_eq!(counts.last_event, broker.engine.last_event());
    let per_queue: [u64; StateName::COUNT] =
        std::array::from_fn(|state| broker.queue("q").counts[state] + broker.queue("run").counts[state]);
    assert_eq!(per_queue, expected);
}

#[test]
fn a_scan_sees_every_task_once_whatever_changes_its_state_meanwhile() {
    let (mut broker, ann, worker, tasks) = crowd();
    let (mut seen, mut from) = (Vec::new(), Some(0));
    while let Some(place) = from {
        let query = Query::ScanTasks { from: place, limit: 2 };
        let Ok(Answer::ScannedTasks { tasks, next }) = broker.ask(&query) else { panic!("no slice") };
        seen.extend(tasks.iter().map(|task| task.id));
        if seen.len() == 4 {
            // What was running waits again and what waited is gone: a walk by state would be confused.
            let running = broker.list(ListQuery { states: vec![StateName::Running], ..ListQuery::default() });
            broker.give_back(&worker, running[0]);
            let ready = broker.list(ListQuery { states: vec![StateName::Ready], ..ListQuery::default() });
            broker.cancel(&ann, ready[0]);
        }
        from = next;
    }
    broker.hush();
    let unique: BTreeSet<TaskId> = seen.iter().copied().collect();
    assert_eq!((seen.len(), unique), (tasks.len(), tasks.iter().map(|(_, task)| *task).collect()));
    let Ok(Answer::ScannedTasks { tasks, .. }) =
        broker.ask_in("elsewhere", &Query::ScanTasks { from: 0, limit: 1000 })
    else {
        panic!("no slice")
    };
    assert!(tasks.is_empty(), "other namespaces see nothing");
    assert!(broker.ask(&Query::ScanTasks { from: 0, limit: 1001 }).is_err());
}

#[test]
fn one_worker_and_one_queue_are_found_by_name() {
    let (broker, ..) = crowd();
    let Ok(Answer::Workers(workers)) = broker.ask(&Query::Worker { worker: "w".into() }) else { panic!() };
    assert_eq!(workers, broker.workers());
    let Ok(Answer::ScannedWorkers { workers: scanned, next }) =
        broker.ask(&Query::ScanWorkers { from: 0, limit: 10 })
    else {
        panic!("no slice")
    };
    assert_eq!((scanned, next), (workers, None));
    assert_eq!(broker.ask(&Query::Worker { worker: "x".into() }), Ok(Answer::Workers(Vec::new())));
    let Ok(Answer::Queues(queues)) = broker.ask(&Query::Queue { queue: "q".into() }) else { panic!() };
    assert_eq!((queues.len(), queues[0].counts[StateName::Ready as usize]), (1, 3));
    assert_eq!(broker.ask(&Query::Queue { queue: "x".into() }), Ok(Answer::Queues(Vec::new())));
}

#[test]
fn a_page_of_large_tasks_is_short_and_the_list_goes_on() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let long = |letter: &str| (0..32).map(|number| format!("{letter}{number:0>250}").into()).collect();
    let tasks: BTreeSet<TaskId> = (0..150)
        .map(|_| {
            let task = NewTask { needs: long("n"), tags: long("t"), ..broker.new_task("q") };
            broker.submit_task(&ann, task)
        })
        .collect();
    broker.hush();
    for states in [vec![StateName::Ready], Vec::new()] {
        let query = ListQuery { states, limit: 1_000, ..ListQuery::default() };
        let (page, next) = broker.page(query.clone());
        assert!(next.is_some(), "there is more");
        assert!(page.len() < 100, "{} tasks of 17 kB", page.len());
        let all = broker.list(query);
        assert_eq!(all.len(), tasks.len());
        assert_eq!(all.into_iter().collect::<BTreeSet<_>>(), tasks);
    }
}

#[test]
fn tasks_are_found_by_the_digits_of_their_id_and_a_part_of_their_name() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let scan = NewTask { name: Some("nightly-scan".into()), ..broker.new_task("q") };
    let scan = broker.submit_task(&ann, scan);
    let other = NewTask { id: TaskId::from_u128((0xabcd << 112) + 0x1234_5678), ..broker.new_task("q") };
    let other = broker.submit_task(&ann, other);
    broker.hush();
    let found = |text: &str| broker.list(ListQuery { search: Some(text.into()), ..ListQuery::default() });
    assert_eq!(found("scan"), [scan]);
    assert_eq!(found("abcd"), [other]);
    assert_eq!(found("ABCD0000-00"), [other]);
    assert_eq!(found("345678"), [other]);
    assert_eq!(found("bcd"), []);
}

#[test]
fn ended_tasks_are_listed_from_the_last_one_on_if_asked() {
    let mut broker = Broker::new();
    let ann = broker.client("ann");
    let mut tasks: Vec<TaskId> = (0..7).map(|_| broker.submit(&ann, "q")).collect();
    for task in &tasks {
        broker.cancel(&ann, *task);
    }
    broker.hush();
    tasks.reverse();
    for limit in 1..9 {
        let states = vec![StateName::Cancelled];
        let query = ListQuery { states, newest_first: true, limit, ..ListQuery::default() };
        assert_eq!(broker.list(query), tasks, "pages of {limit}");
    }
}
