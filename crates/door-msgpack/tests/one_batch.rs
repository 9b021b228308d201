//! What the hub delivers at once goes out in few frames and in an order that makes sense.

use std::sync::Arc;

use bytes::Bytes;
use tenure_door_msgpack::Settings;
use tenure_door_msgpack::session::{Protocol as _, Session, Turn};
use tenure_hub::words::{
    Assignment, Blob, Devices, Event, EventData, EventSubject, Name, Notice, StopWhy, TaskId, Terms,
    Timestamp, Wanted,
};
use tenure_hub::{ClockReading, Delivery};
use tenure_wire::{FromBroker, decode_from_broker, split_frames};

const NOW: Timestamp = Timestamp(1_800_000_000_000);

fn terms(queue: &str) -> Arc<Terms> {
    Arc::new(Terms::new("default".into(), queue.into(), "ada".into()))
}

fn assign(number: u8, terms: &Arc<Terms>) -> Delivery {
    Delivery::Notice(Notice::Assign(Box::new(Assignment {
        task: TaskId([number; 16]),
        attempt: 1,
        priority: 0,
        body: Blob::new(1000, 3),
        checkpoint: Blob::EMPTY,
        terms: Arc::clone(terms),
        name: None,
        parent: None,
        after: Vec::new(),
        submitted_at: NOW,
        crashes: 0,
        failures: 0,
        devices: Devices::default(),
        trace: None,
    })))
}

fn event(watch: u64, seq: u64, terms: &Arc<Terms>) -> Delivery {
    let about = EventSubject::Task { id: TaskId([1; 16]), attempt: 1, terms: Arc::clone(terms) };
    let kind = EventData::Started { worker: Name::from("w1") };
    Delivery::Event { watch, event: Arc::new(Event { seq, at: NOW, about, kind }) }
}

/// Delivers all of it at once and gives what goes out.
fn deliver(deliveries: Vec<Delivery>) -> Vec<FromBroker> {
    let mut session = Session::new(Arc::new(Settings::default()));
    let mut turn = Turn::default();
    for delivery in deliveries {
        let bytes = session.needs(&delivery).map(|_| Ok(Bytes::from_static(b"abc")));
        session.deliver(ClockReading::both(NOW), delivery, bytes, &mut turn);
    }
    session.flush(&mut turn);
    let frames = split_frames(&mut turn.out, 1 << 20).unwrap();
    frames.map(|frame| decode_from_broker(&frame).unwrap()).collect()
}

#[test]
fn work_that_arrives_together_is_one_frame_and_terms_are_said_once() {
    let (images, mail) = (terms("images"), terms("mail"));
    let told = deliver(vec![assign(1, &images), assign(2, &images), assign(3, &mail)]);
    let [FromBroker::Notice(tenure_wire::Notice::Assign(work))] = &told[..] else { panic!("{told:?}") };
    assert_eq!(work.terms.iter().map(|terms| &*terms.queue).collect::<Vec<_>>(), ["images", "mail"]);
    assert_eq!(work.tasks.iter().map(|task| task.terms).collect::<Vec<_>>(), [0, 0, 1]);
    assert_eq!(&work.tasks[2].body[..], b"abc");
}

#[test]
fn news_of_a_task_does_not_overtake_the_task() {
    let images = terms("images");
    let (task, attempt) = (TaskId([1; 16]), 1);
    let wanted = Delivery::Notice(Notice::Wanted {
        task,
        attempt,
        wanted: Wanted::Cancel,
        in_place: false,
        reason: None,
    });
    let stop = Delivery::Notice(Notice::Stop { task, attempt, why: StopWhy::TakenBack });
    let told = deliver(vec![assign(1, &images), wanted, assign(2, &images), stop]);
    let kinds: Vec<&str> = told
        .iter()
        .map(|message| match message {
            FromBroker::Notice(notice) => notice.kind(),
            FromBroker::Reply { reply, .. } => reply.kind(),
        })
        .collect();
    assert_eq!(kinds, ["assign", "wanted", "assign", "stop"]);
}

#[test]
fn events_of_one_watch_are_one_frame_and_keep_their_order() {
    let images = terms("images");
    let live = Delivery::Live { watch: 2, next: 9 };
    let told = deliver(vec![
        event(2, 5, &images),
        event(2, 6, &images),
        live,
        event(3, 6, &images),
        event(2, 9, &images),
    ]);
    let seen: Vec<(u64, Vec<u64>)> = told
        .iter()
        .map(|message| match message {
            FromBroker::Notice(tenure_wire::Notice::Events(events)) => {
                (events.watch, events.events.iter().map(|event| event.seq).collect())
            }
            FromBroker::Notice(tenure_wire::Notice::Live(live)) => (live.watch, vec![]),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(seen, [(2, vec![5, 6]), (2, vec![]), (3, vec![6]), (2, vec![9])]);
}
