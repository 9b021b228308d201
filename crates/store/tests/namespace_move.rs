//! A namespace moves from one journal to another, and back.

mod support;

use std::sync::Arc;

use support::{Broker, NOW, Picture, body, small};
use tenure_engine::command::Command;
use tenure_engine::{Blob, NewArray, NewTask, Settings, TaskId, Timestamp};
use tenure_store::{IdleJournal, MemoryDisk, Store};

fn clock() -> Timestamp {
    NOW
}

fn broker(disk: &MemoryDisk) -> Broker {
    Broker::open_with(disk, small(), Settings::default()).unwrap()
}

fn idle(disk: &MemoryDisk) -> IdleJournal {
    let opened = Store::open(Arc::new(disk.clone()), small(), Settings::default(), NOW).unwrap();
    IdleJournal::new(opened, clock)
}

/// Moves everything, as a program does that leads both groups.
fn move_all(from: &MemoryDisk, to: &MemoryDisk) -> u64 {
    let (mut old, mut new) = (idle(from), idle(to));
    let namespace = "default".into();
    let first_event = new.add_namespace(&mut old, &namespace, NOW).unwrap();
    old.drop_namespace(&namespace).unwrap();
    old.close().unwrap();
    new.close().unwrap();
    first_event
}

/// The tasks in the order of their submission, and those that have ended in the order of their ends.
fn order(broker: &Broker) -> (Vec<TaskId>, Vec<TaskId>) {
    let (mut begun, mut ended) = (Vec::new(), Vec::new());
    broker.engine.scan_tasks(None, usize::MAX, &mut |task, _, _| {
        begun.push((task.age, task.id));
        ended.extend(task.state.end().map(|end| (end.event, task.id)));
    });
    begun.sort_unstable();
    ended.sort_unstable();
    let ids = |all: Vec<(u64, TaskId)>| all.into_iter().map(|(_, id)| id).collect();
    (ids(begun), ids(ended))
}

/// Tasks that wait, run and have ended in another order than they were submitted, and an array.
fn live(disk: &MemoryDisk) -> (Picture, (Vec<TaskId>, Vec<TaskId>)) {
    let mut broker = broker(disk);
    for number in 0..4 {
        broker.submit(&body(number, 100));
    }
    broker.register_worker();
    broker.held.rotate_left(1);
    for number in 0..3 {
        broker.complete(&body(number, 60));
    }
    broker.take_snapshot();
    let array = NewTask { body: Blob::EMPTY, ..NewTask::new(TaskId::from_u128(1 << 120), "many") };
    let bodies: Vec<Blob> = (0..5).map(|number| broker.parts.batches.blob(&body(number, 30))).collect();
    let array = NewArray { task: array, size: 5, first: 1, step: 1, limit: Some(2), bodies };
    broker.ask(2, Command::SubmitArray(Box::new(array)));
    for number in 4..9 {
        broker.submit(&body(number, 300));
    }
    broker.start();
    broker.ask(2, Command::PauseQueue { queue: "many".into() });
    broker.commit().unwrap();
    (broker.picture(), order(&broker))
}

#[test]
fn a_namespace_moves_with_everything_in_its_order_and_back() {
    let (here, there) = (MemoryDisk::new(), MemoryDisk::new());
    let (before, ordered) = live(&here);
    assert!(before.len() == 14 && ordered.1.len() == 3, "{before:?}");
    assert_ne!(ordered.0[..3], ordered.1[..], "ends have an order of their own");
    {
        // What an interrupted move has left there, under other numbers.
        let mut stale = broker(&there);
        for number in 0..30 {
            stale.submit(&body(number, 10));
        }
        stale.commit().unwrap();
    }
    let contents = idle(&here).contents_of("default");
    assert_eq!((contents.tasks, contents.open_tasks), (14, 11));
    for (from, to) in [(&here, &there), (&there, &here), (&here, &there)] {
        let first_event = move_all(from, to);
        assert!(idle(from).namespaces().is_empty(), "nothing is left behind");
        assert_eq!(idle(to).contents_of("default"), contents);
        let mut moved = broker(to);
        moved.engine.audit();
        assert_eq!(moved.picture(), before);
        assert_eq!(order(&moved), ordered);
        assert_eq!(moved.engine.last_event() + 1, first_event);
        assert_eq!(
            moved.engine.arrays().map(|array| (array.size, array.limit)).collect::<Vec<_>>(),
            [(5, Some(2))]
        );
        // A snapshot, and what happens next: numbers go on after those of the move.
        moved.take_snapshot();
        drop(moved);
        let moved = broker(to);
        assert_eq!((moved.picture(), order(&moved)), (before.clone(), ordered.clone()));
        let (first, events) = moved.history(1);
        assert_eq!(events.last().map(|event| event.seq + 1), Some(first_event), "from {first}");
    }
    // A submission after the move comes last, and its end too.
    let mut moved = broker(&there);
    moved.register_worker();
    let last = moved.submit(&body(99, 20));
    assert_eq!(order(&moved).0.last(), Some(&last));
}
