//! The broker stops, or dies, and comes back; a worker and a watcher come back to it and go on.

mod support;

use std::sync::Arc;

use bytes::Bytes;
use support::over_socket::SocketStage;
use support::peer::{Peer, ids, submit};
use tenure_door_msgpack::{Settings, serve};
use tenure_hub::store::MemoryDisk;
use tenure_wire::event::Event;
use tenure_wire::request::{Complete, Start, Watch};
use tenure_wire::task::{Completion, Held};
use tenure_wire::worker::WorkerSpec;
use tenure_wire::{Code, FromBroker, Notice, Reply, Request, TaskId};

fn stage(disk: &Arc<MemoryDisk>) -> SocketStage {
    SocketStage::on(Arc::clone(disk), |listener, hub| serve(listener, hub, Settings::default()))
}

fn register(held: Vec<Held>) -> Request {
    let spec = WorkerSpec { instance: 77, held, ..WorkerSpec::new("w1", vec!["q".into()], 2) };
    Request::Register(Box::new(spec))
}

/// Submits a task and lets a worker start it: the task, its attempt and the number of the last event seen.
fn begin(stage: &SocketStage) -> (Held, u64) {
    let mut client = Peer::known(stage, "ada");
    let mut worker = Peer::known(stage, "w1");
    worker.ask(2, &register(Vec::new()));
    client.ask(2, &Request::Watch(Box::new(Watch { submitter: Some("ada".into()), ..Watch::default() })));
    let task = ids(&client.ask(3, &submit(1, "q", &Bytes::from_static(b"long work"))))[0];
    let attempt = worker.until(|message| match message {
        FromBroker::Notice(Notice::Assign(assign)) => Some(assign.tasks[0].attempt),
        _ => None,
    });
    let held = Held { task, attempt };
    assert!(matches!(worker.ask(3, &Request::Start(Start { held: vec![held] })), Reply::Held(_)));
    let started = next_event(&mut client, "started");
    (held, started.seq)
}

fn next_event(peer: &mut Peer, kind: &str) -> Event {
    peer.until(|message| match message {
        FromBroker::Notice(Notice::Events(events)) => {
            events.events.iter().find(|event| event.kind.as_str() == kind).cloned()
        }
        _ => None,
    })
}

/// The worker brings its attempt along and finishes; the watcher hears of it from where it stopped.
fn go_on(stage: &SocketStage, held: Held, seen: u64) {
    let mut worker = Peer::known(stage, "w1");
    let unknown = Held { task: TaskId([9; 16]), attempt: 1 };
    let Reply::Registered(registered) = worker.ask(2, &register(vec![held, unknown])) else {
        panic!("not registered")
    };
    assert_eq!(
        registered.refused.len(),
        1,
        "it goes on with what it has, and not with what the broker does not know"
    );
    assert_eq!((registered.refused[0].index, &registered.refused[0].refusal.code), (1, &Code::UnknownTask));
    let done =
        vec![Completion { task: held.task, attempt: held.attempt, result: Bytes::from_static(b"done") }];
    let Reply::Held(answer) = worker.ask(3, &Request::Complete(Complete { done })) else {
        panic!("not completed")
    };
    assert!(answer.refused.is_empty(), "{answer:?}");

    let mut client = Peer::known(stage, "ada");
    let watch = Watch { from: Some(seen + 1), submitter: Some("ada".into()), ..Watch::default() };
    assert!(matches!(client.ask(2, &Request::Watch(Box::new(watch))), Reply::Watching(_)));
    let completed = next_event(&mut client, "completed");
    assert_eq!((completed.task, completed.attempt), (Some(held.task), held.attempt), "it ran once");
    assert!(completed.seq > seen);
}

#[test]
fn after_a_power_failure_the_worker_goes_on_and_the_watcher_misses_nothing() {
    let disk = Arc::new(MemoryDisk::new());
    let first = stage(&disk);
    let (held, seen) = begin(&first);
    first.kill();
    let second = stage(&Arc::new(disk.crash(7)));
    go_on(&second, held, seen);
}

#[test]
fn a_broker_that_stops_says_goodbye_and_takes_up_where_it_was() {
    let disk = Arc::new(MemoryDisk::new());
    let first = stage(&disk);
    let (held, seen) = begin(&first);
    let bystander = Peer::known(&first, "bystander");
    first.hub.stop();
    let heard = bystander.hear_out();
    let said_goodbye = heard
        .iter()
        .any(|message| matches!(message, FromBroker::Notice(Notice::Bye(bye)) if bye.code == Code::Draining));
    assert!(said_goodbye, "{heard:?}");
    first.kill();
    let second = stage(&Arc::new(disk.reopen()));
    go_on(&second, held, seen);
}

#[cfg(unix)]
#[test]
fn a_unix_socket_speaks_the_same() {
    use std::io::{Read as _, Write as _};

    let stage = stage(&Arc::new(MemoryDisk::new()));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.sock");
    let listener = {
        let _inside = stage.runtime().enter();
        tokio::net::UnixListener::bind(&path).unwrap()
    };
    stage.runtime().spawn(tenure_door_msgpack::serve_unix(listener, stage.hub.clone(), Settings::default()));
    let mut stream = std::os::unix::net::UnixStream::connect(&path).unwrap();
    let mut out = bytes::BytesMut::new();
    let hello = tenure_wire::hello::Hello { version: 7, ..Default::default() };
    tenure_wire::encode_request(&mut out, 1, &Request::Hello(Box::new(hello)));
    tenure_wire::encode_request(&mut out, 2, &submit(1, "q", &Bytes::new()));
    stream.write_all(&out).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut heard = Vec::new();
    stream.read_to_end(&mut heard).unwrap();
    let frames = tenure_wire::split_frames(&mut bytes::BytesMut::from(&heard[..]), 1 << 20).unwrap();
    let replies: Vec<FromBroker> =
        frames.map(|frame| tenure_wire::decode_from_broker(&frame).unwrap()).collect();
    assert!(
        matches!(&replies[0], FromBroker::Reply { number: 1, reply: Reply::Welcome(welcome) } if welcome.version == 1),
        "a newer peer is answered in the version that both know"
    );
    assert!(matches!(&replies[1], FromBroker::Reply { number: 2, reply: Reply::Submitted(_) }));
}
