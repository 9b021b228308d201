//! Peers that make life hard: noisy, silent, greedy, slow, gone in the middle of a word.

mod support;

use std::io::Write as _;
use std::net::Shutdown;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use support::over_socket::SocketStage;
use support::peer::{FOREVER, Peer, ids, submit};
use tenure_door_kit::DoorSettings;
use tenure_door_msgpack::{Settings, serve};
use tenure_wire::request::{Complete, OneTask, Start, WaitRequest, Watch};
use tenure_wire::task::{Completion, Held};
use tenure_wire::words::OnClose;
use tenure_wire::worker::WorkerSpec;
use tenure_wire::{Code, FromBroker, Notice, Reply, Request, TaskId, encode_request};

fn stage() -> SocketStage {
    SocketStage::new(|listener, hub| serve(listener, hub, Settings::default()))
}

#[test]
fn noise_on_the_port_is_harmless() {
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
        let mut peer = Peer::client(&stage);
        let _ = peer.stream.write_all(&noise);
        let _ = peer.stream.shutdown(Shutdown::Write);
        peer.hear_out();
        assert!(matches!(honest.ask(9, &Request::Ping), Reply::Pong(_)));
    }
}

#[test]
fn a_silent_unauthenticated_peer_is_disconnected_and_delays_no_other() {
    let settings = Settings {
        door: DoorSettings { login_within: Duration::from_millis(100), ..DoorSettings::default() },
        ..Settings::default()
    };
    let stage = SocketStage::new(|listener, hub| serve(listener, hub, settings));
    let silent = Peer::client(&stage);
    let mut honest = Peer::known(&stage, "honest");
    assert!(matches!(honest.ask(2, &Request::Counts), Reply::Counts(_)));
    let heard = silent.hear_out();
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
fn a_peer_that_does_not_read_is_skipped_and_others_are_served() {
    let settings = Settings {
        door: DoorSettings { read_within: Duration::from_millis(500), ..DoorSettings::default() },
        ..Settings::default()
    };
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
    let heard = greedy.hear_out();
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
fn a_peer_that_closes_its_sending_side_still_gets_the_answers() {
    let stage = stage();
    let mut peer = Peer::known(&stage, "netcat");
    peer.say(2, &submit(3, "q", &Bytes::new()));
    peer.say(3, &Request::Counts);
    peer.stream.shutdown(Shutdown::Write).unwrap();
    let heard = peer.hear_out();
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
    let wait =
        |task: TaskId| Request::Wait(WaitRequest { tasks: vec![task], timeout_ms: None, results: true });
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
