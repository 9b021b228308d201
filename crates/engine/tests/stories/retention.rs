//! Retention: ended tasks are kept by count and by age, then forgotten with their bytes.

use tenure_engine::command::Completion;
use tenure_engine::{Answer, Blob, Command, NewTask, Query, Refusal, Settings, StateName, TaskId};

use crate::broker::{Broker, SECOND};

fn complete_one(broker: &mut Broker, number: u64) -> TaskId {
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 1);
    let task = NewTask { body: Blob::new(number * 100, 10), ..broker.new_task("q") };
    let task = broker.submit_task(&ann, task);
    let completion = Completion { held: broker.held(task), result: Blob::new(number * 100 + 50, 5) };
    broker.does(&worker, Command::Complete(vec![completion]));
    broker.does(&worker, Command::Leave);
    let freed = broker.take_said().into_iter().filter(|line| line.starts_with("freed")).collect::<Vec<_>>();
    assert!(freed.is_empty() || freed.len() == 2, "{freed:?}");
    task
}

#[test]
fn the_oldest_ended_task_makes_room_for_the_newest() {
    let mut broker = Broker::with(Settings { ended_kept: 2, ..Settings::default() });
    let ann = broker.client("ann");
    let first = complete_one(&mut broker, 1);
    let second = complete_one(&mut broker, 2);
    let third = complete_one(&mut broker, 3);
    assert_eq!(broker.ask(&Query::Show { task: first }), Err(Refusal::UnknownTask { task: first }));
    assert_eq!([second, third].map(|task| broker.state(task)), [StateName::Completed; 2]);
    // Every ended task counts, however it ended, and the bytes go with the task.
    let cancelled = NewTask { body: Blob::new(900, 9), ..broker.new_task("q") };
    let cancelled = broker.submit_task(&ann, cancelled);
    broker.hush();
    broker.cancel(&ann, cancelled);
    broker.hears(&["#4 cancelled", "freed 200+10", "freed 250+5"]);
    assert_eq!(broker.counts().by_state, [0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1]);
    // An id and a name are free again when their task is forgotten.
    broker.submit_task(&ann, NewTask::new(first, "q"));
    broker.hush();
}

#[test]
fn an_ended_task_is_forgotten_when_it_is_old() {
    let mut broker = Broker::with(Settings { ended_kept_for: SECOND * 60, ..Settings::default() });
    let task = complete_one(&mut broker, 1);
    broker.wait(SECOND * 30);
    let later = complete_one(&mut broker, 2);
    assert_eq!(broker.engine.next_deadline(), Some(broker.now + SECOND * 30));
    broker.wait(SECOND * 29);
    assert_eq!(broker.state(task), StateName::Completed);
    broker.wait(SECOND);
    broker.hears(&["freed 100+10", "freed 150+5"]);
    assert!(broker.ask(&Query::Show { task }).is_err());
    assert_eq!(broker.state(later), StateName::Completed);
    broker.wait(SECOND * 30);
    broker.hears(&["freed 200+10", "freed 250+5"]);
    assert_eq!(broker.engine.next_deadline(), None);
    assert_eq!(broker.engine.task_count(), 0);
}

#[test]
fn keeping_nothing_is_possible() {
    let mut broker = Broker::with(Settings { ended_kept: 0, ..Settings::default() });
    let ann = broker.client("ann");
    let worker = broker.worker("w", &["q"], 3);
    let tasks: Vec<TaskId> = (0..3).map(|_| broker.submit(&ann, "q")).collect();
    let completions =
        tasks.iter().map(|task| Completion { held: broker.held(*task), result: Blob::EMPTY }).collect();
    broker.hush();
    broker.does(&worker, Command::Complete(completions));
    broker.hears(&["#1/1 completed by w", "#2/1 completed by w", "#3/1 completed by w"]);
    assert_eq!(broker.engine.task_count(), 0);
    // With its last task, everything a queue, tag or set of terms needed is gone too.
    broker.does(&worker, Command::Leave);
    broker.hush();
    assert_eq!(broker.ask(&Query::Limits), Ok(Answer::Limits(vec![])));
}

#[test]
fn a_name_is_free_again_when_its_task_is_forgotten() {
    let mut broker = Broker::with(Settings { ended_kept: 1, ..Settings::default() });
    let ann = broker.client("ann");
    let named = |broker: &mut Broker, priority| NewTask {
        name: Some("x".into()),
        priority: Some(priority),
        ..broker.new_task("q")
    };
    let first = named(&mut broker, 1);
    let first = broker.submit_task(&ann, first);
    broker.cancel(&ann, first);
    broker.hush();
    let different = named(&mut broker, 2);
    assert_eq!(broker.refuses(&ann, Command::Submit(vec![different.clone()])).code(), "name-taken");
    let other = broker.submit(&ann, "q");
    broker.cancel(&ann, other);
    assert!(!broker.submit_and_see(&ann, different).known);
    // The same after a restart, where both records are read.
    broker.restart_after(SECOND);
    let Ok(Answer::Task(found)) = broker.ask(&Query::Find { name: "x".into() }) else {
        panic!("it is there")
    };
    assert_eq!(found.priority, 2);
    broker.hush();
}

#[test]
fn settings_may_change_while_the_broker_runs() {
    let mut broker = Broker::new();
    for number in 1..=5 {
        complete_one(&mut broker, number);
    }
    broker.engine.configure(&Settings { ended_kept: 2, ..Settings::default() });
    broker.wait(SECOND);
    assert_eq!(broker.engine.task_count(), 2);
    broker.hush();
}
