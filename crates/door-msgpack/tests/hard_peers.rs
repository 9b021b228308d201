//! Peers that make life hard: noisy, silent, greedy, slow, gone in the middle of a word.

mod support;

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use support::over_socket::SocketStage;
use tenure_door_msgpack::{Settings, serve};
use tenure_wire::hello::Hello;
use tenure_wire::limits::FRAME_BYTES_MAX;
use tenure_wire::request::{Complete, OneTask, Start, Submit, Wait, Watch};
use tenure_wire::task::{Completion, Held, NewTask, Terms};
use tenure_wire::words::OnClose;
use tenure_wire::worker::WorkerSpec;
use tenure_wire::{
    Code, FromBroker, Notice, Reply, Request, TaskId, VERSION, decode_from_broker, encode_request,
    split_frames,
};

/// Nothing here takes this long unless it is broken.
const FOREVER: Duration = Duration::from_secs(20);

/// A native peer on a blocking socket.
struct Peer {
    stream: TcpStream,
    arrived: BytesMut,
    heard: Vec<FromBroker>,
}

impl Peer {
    fn stranger(stage: &SocketStage) -> Peer {
        let stream = stage.connect();
        stream.set_read_timeout(Some(FOREVER)).unwrap();
        Peer { stream, arrived: BytesMut::new(), heard: Vec::new() }
    }

    fn known(stage: &SocketStage, identity: &str) -> Peer {
        let mut peer = Peer::stranger(stage);
        let hello = Hello { version: VERSION, identity: Some(identity.into()), ..Hello::default() };
        assert!(matches!(peer.ask(1, &Request::Hello(Box::new(hello))), Reply::Welcome(_)));
        peer
    }

    fn say(&mut self, number: u64, request: &Request) {
        let mut out = BytesMut::new();
        encode_request(&mut out, number, request);
        self.stream.write_all(&out).unwrap();
    }

    /// The reply to a request; what else comes is kept for later.
    fn ask(&mut self, number: u64, request: &Request) -> Reply {
        self.say(number, request);
        self.reply(number)
    }

    fn reply(&mut self, number: u64) -> Reply {
        self.until(|message| match message {
            FromBroker::Reply { number: answered, reply } if *answered == number => Some(reply.clone()),
            _ => None,
        })
    }

    fn until<T>(&mut self, mut found: impl FnMut(&FromBroker) -> Option<T>) -> T {
        loop {
            if let Some((index, value)) =
                self.heard.iter().enumerate().find_map(|(index, message)| Some((index, found(message)?)))
            {
                self.heard.remove(index);
                return value;
            }
            assert!(self.read_more(), "the connection ended; heard so far: {:?}", self.heard);
        }
    }

    /// Reads once. Says whether the connection is still there.
    fn read_more(&mut self) -> bool {
        let mut chunk = vec![0; 256 << 10];
        let count = match self.stream.read(&mut chunk) {
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => 0,
            Err(error) => panic!("nothing came: {error}"),
        };
        self.arrived.extend_from_slice(&chunk[..count]);
        let frames = split_frames(&mut self.arrived, FRAME_BYTES_MAX).unwrap();
        self.heard.extend(frames.map(|frame| decode_from_broker(&frame).unwrap()));
        count > 0
    }

    /// Everything up to the end of the connection.
    fn to_the_end(mut self) -> Vec<FromBroker> {
        while self.read_more() {}
        self.heard
    }
}

fn stage() -> SocketStage {
    SocketStage::new(|listener, hub| serve(listener, hub, Settings::default()))
}

fn submit(count: usize, queue: &str, body: &Bytes) -> Request {
    let mut submit = Submit::default();
    for _ in 0..count {
        submit.push(&Terms::new(queue), NewTask { body: body.clone(), ..NewTask::default() });
    }
    Request::Submit(submit)
}

fn ids(reply: &Reply) -> Vec<TaskId> {
    let Reply::Submitted(submitted) = reply else { panic!("{reply:?}") };
    submitted.tasks.iter().map(|verdict| verdict.0.as_ref().unwrap().task).collect()
}

#[test]
fn noise_on_the_port_harms_nobody() {
    let stage = stage();
    let mut honest = Peer::known(&stage, "honest");
    let mut noises: Vec<Vec<u8>> = vec![
        b"GET / HTTP/1.1\r\nHost: here\r\n\r\n".to_vec(),
        b"*1\r\n$4\r\nPING\r\n".to_vec(),
        vec![0; 100_000],
        vec![0xff; 100_000],
        vec![0, 0, 0, 1, 0xc1],
    ];
    // Bytes that look like chance, but are the same every time.
    let mut state = 7_u32;
    noises.extend((0..20).map(|_| {
        (0..5_000)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            })
            .collect()
    }));
    for noise in noises {
        let mut peer = Peer::stranger(&stage);
        let _ = peer.stream.write_all(&noise);
        let _ = peer.stream.shutdown(Shutdown::Write);
        peer.to_the_end();
        assert!(matches!(honest.ask(9, &Request::Ping), Reply::Pong(_)));
    }
}

#[test]
fn a_silent_stranger_is_sent_away_and_holds_up_nobody() {
    let settings = Settings { hello_within: Duration::from_millis(100), ..Settings::default() };
    let stage = SocketStage::new(|listener, hub| serve(listener, hub, settings));
    let silent = Peer::stranger(&stage);
    let mut honest = Peer::known(&stage, "honest");
    assert!(matches!(honest.ask(2, &Request::Counts), Reply::Counts(_)));
    let heard = silent.to_the_end();
    assert!(
        matches!(&heard[..], [FromBroker::Notice(Notice::Bye(bye))] if bye.code == Code::TooSlow),
        "{heard:?}"
    );
    assert!(matches!(honest.ask(3, &Request::Ping), Reply::Pong(_)), "who has said hello may be silent");
}

#[test]
fn fifty_thousand_requests_in_one_breath_are_all_answered_once() {
    let stage = stage();
    let mut peer = Peer::known(&stage, "hasty");
    let count = 50_000_u64;
    let mut out = BytesMut::new();
    for number in 0..count {
        let request =
            if number % 2 == 0 { submit(1, "q", &Bytes::from_static(b"body")) } else { Request::Counts };
        encode_request(&mut out, number + 10, &request);
    }
    let mut writer = peer.stream.try_clone().unwrap();
    let writing = std::thread::spawn(move || writer.write_all(&out).unwrap());
    let mut answered = vec![0_u8; count as usize];
    for _ in 0..count {
        let number = peer.until(|message| match message {
            FromBroker::Reply { number, reply } => {
                assert!(matches!(reply, Reply::Submitted(_) | Reply::Counts(_)), "{reply:?}");
                Some(*number)
            }
            FromBroker::Notice(_) => None,
        });
        answered[(number - 10) as usize] += 1;
    }
    writing.join().unwrap();
    assert!(answered.iter().all(|times| *times == 1));
}

#[test]
fn who_does_not_read_is_left_alone_and_others_are_served() {
    let settings = Settings { read_within: Duration::from_millis(500), ..Settings::default() };
    let stage = SocketStage::new(|listener, hub| serve(listener, hub, settings));
    let mut honest = Peer::known(&stage, "honest");
    let body = Bytes::from(vec![7; 1 << 20]);
    let task = ids(&honest.ask(2, &submit(1, "q", &body)))[0];

    let mut greedy = Peer::known(&stage, "greedy");
    let begun = Instant::now();
    let mut out = BytesMut::new();
    for number in 2..200 {
        encode_request(&mut out, number, &Request::Body(OneTask { task }));
    }
    greedy.stream.set_write_timeout(Some(FOREVER)).unwrap();
    greedy.stream.write_all(&out).unwrap();
    for number in 3..50 {
        assert!(matches!(honest.ask(number, &Request::Counts), Reply::Counts(_)));
    }
    std::thread::sleep(Duration::from_millis(1500));
    // It reads at last: what was on its way comes, and then the end, long before all it has asked for.
    let heard = greedy.to_the_end();
    assert!(heard.len() < 198, "{} megabytes were not kept for it", heard.len());
    assert!(begun.elapsed() < FOREVER);
}

#[test]
fn a_worker_that_vanishes_is_noticed_at_once() {
    let stage = stage();
    let mut client = Peer::known(&stage, "ada");
    let mut worker = Peer::known(&stage, "w1");
    let spec = WorkerSpec { on_close: OnClose::TasksDie, ..WorkerSpec::new("w1", vec!["q".into()], 1) };
    worker.ask(2, &Request::Register(Box::new(spec)));
    let watch = Watch { submitter: Some("ada".into()), ..Watch::default() };
    client.ask(2, &Request::Watch(Box::new(watch)));
    let task = ids(&client.ask(3, &submit(1, "q", &Bytes::new())))[0];
    let attempt = worker.until(|message| match message {
        FromBroker::Notice(Notice::Assign(assign)) => Some(assign.tasks[0].attempt),
        _ => None,
    });
    worker.ask(3, &Request::Start(Start { held: vec![Held { task, attempt }] }));
    let mut half_a_frame = BytesMut::new();
    encode_request(&mut half_a_frame, 4, &Request::Ping);
    worker.stream.write_all(&half_a_frame[..5]).unwrap();
    let vanished = Instant::now();
    drop(worker);
    client.until(|message| match message {
        FromBroker::Notice(Notice::Events(events)) => {
            events.events.iter().any(|event| event.kind.as_str() == "crashed").then_some(())
        }
        _ => None,
    });
    let took = vanished.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[test]
fn a_large_body_and_a_large_result_make_the_round_trip() {
    let stage = stage();
    let mut client = Peer::known(&stage, "ada");
    let mut worker = Peer::known(&stage, "w1");
    worker.ask(2, &Request::Register(Box::new(WorkerSpec::new("w1", vec!["q".into()], 1))));
    let body: Bytes = (0..16 << 20).map(|index: u32| (index % 251) as u8).collect();
    let task = ids(&client.ask(2, &submit(1, "q", &body)))[0];
    let (attempt, received) = worker.until(|message| match message {
        FromBroker::Notice(Notice::Assign(assign)) => {
            Some((assign.tasks[0].attempt, assign.tasks[0].body.clone()))
        }
        _ => None,
    });
    assert!(received == body, "the body came as it was");
    worker.ask(3, &Request::Start(Start { held: vec![Held { task, attempt }] }));
    let done = vec![Completion { task, attempt, result: received }];
    assert!(
        matches!(worker.ask(4, &Request::Complete(Complete { done })), Reply::Held(held) if held.refused.is_empty())
    );
    let Reply::Bytes(result) = client.ask(3, &Request::Result(OneTask { task })) else { panic!("no result") };
    assert!(result.bytes == body, "the result came as it was");

    let too_large = Bytes::from(vec![0; (16 << 20) + 1]);
    let Reply::Submitted(submitted) = client.ask(4, &submit(1, "q", &too_large)) else {
        panic!("not answered")
    };
    assert_eq!(submitted.tasks[0].0.as_ref().unwrap_err().code, Code::TooMany);
}

#[test]
fn who_stops_talking_still_hears_the_answers() {
    let stage = stage();
    let mut peer = Peer::known(&stage, "netcat");
    peer.say(2, &submit(3, "q", &Bytes::new()));
    peer.say(3, &Request::Counts);
    peer.stream.shutdown(Shutdown::Write).unwrap();
    let heard = peer.to_the_end();
    let replies: Vec<u64> = heard
        .iter()
        .filter_map(|message| match message {
            FromBroker::Reply { number, .. } => Some(*number),
            FromBroker::Notice(_) => None,
        })
        .collect();
    assert_eq!(replies, [2, 3]);
}

#[test]
fn many_waits_at_once_hear_of_each_end_with_its_result() {
    let stage = stage();
    let mut client = Peer::known(&stage, "ada");
    let mut other = Peer::known(&stage, "grace");
    let mut worker = Peer::known(&stage, "w1");
    let count = 500;
    let tasks = ids(&client.ask(2, &submit(count, "q", &Bytes::new())));
    let wait = |task: TaskId| Request::Wait(Wait { tasks: vec![task], timeout_ms: None, results: true });
    for (index, task) in tasks.iter().enumerate() {
        client.say(100 + index as u64, &wait(*task));
        other.say(100 + index as u64, &wait(*task));
    }
    worker.ask(2, &Request::Register(Box::new(WorkerSpec::new("w1", vec!["q".into()], 64))));
    let mut finished = 0;
    let mut number = 10;
    while finished < count {
        let held = worker.until(|message| match message {
            FromBroker::Notice(Notice::Assign(assign)) => Some(assign.tasks.clone()),
            _ => None,
        });
        let done = held.iter().map(|given| Completion {
            task: given.task,
            attempt: given.attempt,
            result: Bytes::copy_from_slice(&given.task.0),
        });
        finished += held.len();
        number += 1;
        worker.say(number, &Request::Complete(Complete { done: done.collect() }));
    }
    for peer in [&mut client, &mut other] {
        for (index, task) in tasks.iter().enumerate() {
            let Reply::Ended(ended) = peer.reply(100 + index as u64) else { panic!("not told") };
            assert_eq!(ended.tasks[0].task, *task);
            assert_eq!(ended.tasks[0].result.as_deref(), Some(&task.0[..]));
        }
    }
}
