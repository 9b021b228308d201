//! What peers do that mean no good. Each attack goes on until it is dropped.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tenure_door_resp::testing::Reply;

use super::{ALL, NOTHING, READS};
use crate::peers::zmtp::{Wire, command, greeting};
use crate::peers::{MessagePack, Resp, call, frame};
use crate::support::{Broker, eventually};

pub(crate) struct Attack {
    pub(crate) name: &'static str,
    pub(crate) begin: fn(&Broker) -> Running,
}

/// Sockets that stay open, and threads that go on, until this is dropped.
#[derive(Default)]
pub(crate) struct Running {
    sockets: Vec<TcpStream>,
    threads: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

pub(crate) fn all() -> Vec<Attack> {
    vec![
        Attack { name: "idle strangers, more than descriptors", begin: idle_strangers },
        Attack {
            name: "a key that may nothing, never reading",
            begin: |broker| never_reading(broker, NOTHING, LIST),
        },
        Attack { name: "lists that nobody reads", begin: |broker| never_reading(broker, READS, LIST) },
        Attack { name: "watches that nobody reads", begin: |broker| never_reading(broker, READS, WATCH) },
        Attack { name: "xmessage strangers, unfinished frames", begin: unfinished_frames },
        Attack { name: "wrong keys at every door", begin: wrong_keys },
        Attack { name: "RESP, huge lengths and unfinished bulks", begin: unfinished_bulks },
        Attack { name: "ZeroMQ, bytes that trickle", begin: trickling },
        Attack { name: "gRPC, unfinished messages", begin: unfinished_calls },
        Attack { name: "HTTP, unfinished heads and bodies", begin: unfinished_requests },
        Attack { name: "subscribers that do not read", begin: mute_subscribers },
    ]
}

const DOORS: [&str; 6] = ["native", "xmessage", "resp", "mdp", "grpc", "http"];

fn address(broker: &Broker, door: &str) -> SocketAddr {
    broker.doors[door].as_str().unwrap().parse().unwrap()
}

/// A connection that gives up at once if the broker does not take it.
fn connect(address: SocketAddr) -> Option<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, Duration::from_secs(2)).ok()?;
    stream.set_nodelay(true).ok()?;
    Some(stream)
}

fn idle_strangers(broker: &Broker) -> Running {
    let mut running = Running::default();
    let clients = (0..2_500).filter_map(|number| connect(address(broker, DOORS[number % DOORS.len()])));
    running.sockets.extend(clients);
    running
}

const LIST: &str = r#""list", {"limit": 1000}"#;
const WATCH: &str = r#""watch", {"from": 1}"#;

/// 160 KB of requests on each of a few connections whose answers nobody reads.
fn never_reading(broker: &Broker, key: &str, request: &str) -> Running {
    let mut running = Running::default();
    for _ in 0..6 {
        let mut peer = MessagePack::native(&broker.address, key);
        let mut requests = Vec::new();
        let mut number = 10;
        while requests.len() < 160 << 10 {
            requests.extend_from_slice(&frame(&format!("[{number}, {request}]")));
            number += 1;
        }
        press(&mut peer.stream, &requests);
        running.sockets.push(peer.stream);
    }
    running
}

/// Writes as much as the other side takes.
fn press(stream: &mut TcpStream, bytes: &[u8]) {
    stream.set_write_timeout(Some(Duration::from_millis(50))).expect("a timeout can be set");
    let mut rest = bytes;
    while let Ok(count @ 1..) = stream.write(rest) {
        rest = &rest[count..];
    }
}

fn unfinished_frames(broker: &Broker) -> Running {
    let mut bytes = vec![b'x'; 1 << 20];
    bytes[..4].copy_from_slice(&(1u32 << 20).to_be_bytes());
    let mut running = Running::default();
    for _ in 0..1_500 {
        let Some(mut stream) = connect(address(broker, "xmessage")) else { continue };
        stream.set_nonblocking(true).expect("it can be set");
        let _ = stream.write(&bytes);
        running.sockets.push(stream);
    }
    running
}

/// Peers that come with a wrong key again and again, at every door at once.
fn wrong_keys(broker: &Broker) -> Running {
    let mut running = Running::default();
    let wrong = "dddddddddddddddddddddddddddddddd";
    let native = frame(&format!(r#"[1, "hello", {{"version": 1, "key": "{wrong}"}}]"#)).to_vec();
    let older = frame(&format!(r#"{{"HandShakeWith": {{"role": "worker", "key": "{wrong}"}}}}"#)).to_vec();
    let resp = format!("AUTH {wrong}\r\n").into_bytes();
    let zmq =
        [&greeting(3, 1, "PLAIN")[..], &command("HELLO", format!("\x01u\x20{wrong}").as_bytes())].concat();
    let grpc = call("/tenure.v1.Broker/Counts", Some(wrong), &[0; 5], true);
    let http = format!("GET /v1/counts HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {wrong}\r\n\r\n")
        .into_bytes();
    for (door, bytes) in DOORS.into_iter().zip([native, older, resp, zmq, grpc, http]) {
        let (address, stop) = (address(broker, door), Arc::clone(&running.stop));
        running.threads.push(std::thread::spawn(move || {
            let mut open = std::collections::VecDeque::new();
            while !stop.load(Ordering::Relaxed) {
                if let Some(mut stream) = connect(address) {
                    let _ = stream.write_all(&bytes);
                    open.push_back(stream);
                }
                // Some wait for their answer, as long as it may take.
                if open.len() > 100 {
                    open.pop_front();
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        }));
    }
    running
}

fn unfinished_bulks(broker: &Broker) -> Running {
    let mut running = Running::default();
    let resp = address(broker, "resp");
    for _ in 0..300 {
        for bytes in
            [&b"*2\r\n$4\r\nECHO\r\n$999999999\r\n"[..], b"*1000000\r\n", b"*2\r\n$4\r\nAUTH\r\n$16383\r\nx"]
        {
            let Some(mut stream) = connect(resp) else { continue };
            let _ = stream.write_all(bytes);
            running.sockets.push(stream);
        }
    }
    let bulk = [&b"*3\r\n$5\r\nLPUSH\r\n$7\r\nqueue:a\r\n$10000000\r\n"[..], &vec![b'x'; 9 << 20]].concat();
    for _ in 0..40 {
        let mut peer = with_place(broker);
        press(&mut peer.stream, &bulk);
        running.sockets.push(peer.stream);
    }
    running
}

/// A client that waits until the strangers of the attack before have left it a place.
fn with_place(broker: &Broker) -> Resp {
    let resp = address(broker, "resp");
    assert!(connect(resp).is_some(), "the broker is there\n{}", broker.log.so_far());
    let mut peer = None;
    eventually("there is a place for a right key", || {
        let mut new = Resp::connect(&resp.to_string());
        let answer = new.ask(&format!("AUTH {ALL}"));
        peer = (answer == Some(Reply::Simple("OK".into()))).then_some(new);
        peer.is_some()
    });
    peer.expect("it has one")
}

/// Handshakes and messages of which a byte comes now and then.
fn trickling(broker: &Broker) -> Running {
    let mut running = Running::default();
    let mdp = address(broker, "mdp");
    let mut slow: Vec<TcpStream> = (0..300).filter_map(|_| connect(mdp)).collect();
    let opening = greeting(3, 1, "PLAIN");
    let stop = Arc::clone(&running.stop);
    running.threads.push(std::thread::spawn(move || {
        for byte in opening {
            slow.iter_mut().for_each(|stream| drop(stream.write_all(&[byte])));
            if stop.load(Ordering::Relaxed) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }));
    // Messages of 30 MiB: as much of each as the broker takes, and then a byte now and then.
    let mut head = vec![2];
    head.extend_from_slice(&(30u64 << 20).to_be_bytes());
    let mut wires: Vec<Wire> = (0..20).map(|_| Wire::plain(mdp, "nothing", NOTHING)).collect();
    let piece = vec![b'x'; 12 << 20];
    for wire in &mut wires {
        wire.raw(&head);
        press(wire.stream(), &piece);
    }
    let stop = Arc::clone(&running.stop);
    running.threads.push(std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            wires.iter_mut().for_each(|wire| press(wire.stream(), b"x"));
            std::thread::sleep(Duration::from_millis(100));
        }
    }));
    running
}

/// Calls whose messages never end, with a key and without.
fn unfinished_calls(broker: &Broker) -> Running {
    let mut running = Running::default();
    let mut message = vec![0; 60 << 10];
    message[1..5].copy_from_slice(&(16u32 << 20).to_be_bytes());
    for number in 0..600 {
        let key = if number % 3 == 0 { Some(NOTHING) } else { None };
        let Some(mut stream) = connect(address(broker, "grpc")) else { continue };
        press(&mut stream, &call("/tenure.v1.Tasks/Submit", key, &message, false));
        running.sockets.push(stream);
    }
    running
}

/// Heads that never end, and bodies that are announced and mostly not sent.
fn unfinished_requests(broker: &Broker) -> Running {
    let mut running = Running::default();
    let head = |key: &str, length: usize| {
        let line = "POST /v1/queues/a/tasks HTTP/1.1\r\nhost: localhost\r\n";
        format!("{line}authorization: Bearer {key}\r\ncontent-length: {length}\r\n\r\n").into_bytes()
    };
    for number in 0..600 {
        let Some(mut stream) = connect(address(broker, "http")) else { continue };
        let bytes = match number % 3 {
            0 => b"GET /v1/tasks HTTP/1.1\r\nhost: localhost\r\nx-more: ".to_vec(),
            1 => [head(NOTHING, 16 << 20), vec![b'x'; 60 << 10]].concat(),
            _ => [head(ALL, 16 << 20), vec![b'x'; 60 << 10]].concat(),
        };
        press(&mut stream, &bytes);
        running.sockets.push(stream);
    }
    running
}

/// Subscribers at two doors that read nothing, while much is published.
fn mute_subscribers(broker: &Broker) -> Running {
    let mut running = Running::default();
    for number in 0..40 {
        let mut peer = MessagePack::native(&broker.address, ALL);
        let answer = peer.ask(2, r#"[2, "subscribe", {"topics": ["loud"]}]"#).to_string();
        assert!(answer.contains("subscribed"), "{number}: {answer}");
        running.sockets.push(peer.stream);
        let mut peer = with_place(broker);
        assert!(peer.ask("SUBSCRIBE loud").is_some());
        running.sockets.push(peer.stream);
    }
    let mut publisher = with_place(broker);
    let message = vec![b'x'; 64 << 10];
    let head = format!("*3\r\n$7\r\nPUBLISH\r\n$4\r\nloud\r\n${}\r\n", message.len());
    let command = [head.as_bytes(), &message, b"\r\n"].concat();
    let mut publish = move || publisher.stream.write_all(&command).is_ok() && publisher.reply().is_some();
    // More than may be kept for all of them.
    (0..2_000).for_each(|_| assert!(publish(), "the publisher is served"));
    let stop = Arc::clone(&running.stop);
    running.threads.push(std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) && publish() {
            std::thread::sleep(Duration::from_millis(20));
        }
    }));
    running
}
