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
use crate::peers::{MessagePack, Resp, call, calls, frame, http};
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
        Attack { name: "idle clients, more than descriptors", begin: idle_clients },
        Attack {
            name: "a key that may nothing, never reading",
            begin: |broker| never_reading(broker, NOTHING, LIST),
        },
        Attack { name: "unread lists", begin: |broker| never_reading(broker, READS, LIST) },
        Attack { name: "unread watches", begin: |broker| never_reading(broker, READS, WATCH) },
        Attack { name: "xmessage clients, unfinished frames", begin: unfinished_frames },
        Attack { name: "wrong keys at every door", begin: wrong_keys },
        Attack { name: "RESP, huge lengths and unfinished bulks", begin: unfinished_bulks },
        Attack { name: "ZeroMQ, bytes that trickle", begin: trickling },
        Attack { name: "gRPC, unfinished messages", begin: unfinished_calls },
        Attack { name: "HTTP, unfinished heads and bodies", begin: unfinished_requests },
        Attack { name: "HTTP, unread bodies", begin: unread_http_bodies },
        Attack { name: "HTTP/2, unread bodies", begin: unread_http_streams },
        Attack { name: "subscribers that do not read", begin: mute_subscribers },
        Attack { name: "RESP, unread values of stored keys", begin: unread_values },
        Attack { name: "RESP, unread jobs", begin: |broker| unread_jobs(broker, "JOB.GET {}") },
        Attack { name: "RESP, unread views of jobs", begin: |broker| unread_jobs(broker, "GET job:{}") },
        Attack { name: "RESP, unread hashes of jobs", begin: |broker| unread_jobs(broker, "HGETALL job:{}") },
        Attack { name: "RESP, workers that do not read their jobs", begin: unread_pops },
        Attack { name: "gRPC, unread bodies", begin: unread_grpc_bodies },
        Attack { name: "gRPC, unread lists", begin: unread_grpc_lists },
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

fn idle_clients(broker: &Broker) -> Running {
    let mut running = Running::default();
    let clients = (0..2_500).filter_map(|number| connect(address(broker, DOORS[number % DOORS.len()])));
    running.sockets.extend(clients);
    running
}

const LIST: &str = r#""list", {"limit": 1000}"#;
const WATCH: &str = r#""watch", {"from": 1}"#;

/// 160 KB of requests on each of a few connections whose answers stay unread.
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

/// A client that waits until the clients of the attack before have left it a connection.
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

/// A task with a body of 15 MiB.
fn long_task(broker: &Broker, queue: &str) -> String {
    let body = vec![b'x'; 15 << 20];
    let mut task = String::new();
    eventually("there is room for a long body", || {
        let answer = http(broker, Some(ALL), "POST", &format!("/v1/queues/{queue}/tasks"), &body);
        task = answer.json()["task"].as_str().unwrap_or_default().to_owned();
        !task.is_empty()
    });
    task
}

/// The path of a body of 15 MiB.
fn long_body(broker: &Broker) -> String {
    format!("/v1/tasks/{}/body", long_task(broker, "absent"))
}

/// A command about a job with a long body, on many connections that read nothing.
fn unread_jobs(broker: &Broker, line: &str) -> Running {
    let line = line.replace("{}", &long_task(broker, "absent"));
    let mut running = Running::default();
    for _ in 0..60 {
        let mut peer = with_place(broker);
        press(&mut peer.stream, format!("{line}\r\n").repeat(4).as_bytes());
        running.sockets.push(peer.stream);
    }
    running
}

/// Workers that take jobs with long bodies and read nothing.
fn unread_pops(broker: &Broker) -> Running {
    let mut running = Running::default();
    (0..30).for_each(|_| drop(long_task(broker, "long")));
    for _ in 0..30 {
        let mut peer = with_place(broker);
        press(&mut peer.stream, b"BRPOP queue:long 0\r\n");
        running.sockets.push(peer.stream);
    }
    running
}

/// Requests for long bodies on many connections that read nothing.
fn unread_http_bodies(broker: &Broker) -> Running {
    let path = long_body(broker);
    let mut running = Running::default();
    let request =
        format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {READS}\r\n\r\n").repeat(4);
    for _ in 0..60 {
        let Some(mut stream) = connect(address(broker, "http")) else { continue };
        press(&mut stream, request.as_bytes());
        running.sockets.push(stream);
    }
    running
}

/// The same with a hundred requests at once on each connection, whose peer has opened its windows.
fn unread_http_streams(broker: &Broker) -> Running {
    const WINDOW: u32 = i32::MAX as u32;
    let path = long_body(broker);
    let mut running = Running::default();
    let frame = |kind: u8, flags: u8, stream: u32, payload: &[u8]| {
        let length = (payload.len() as u32).to_be_bytes();
        [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
    };
    let mut block = vec![0x82, 0x86];
    for (name, value) in
        [(":path", &*path), (":authority", "localhost"), ("authorization", &format!("Bearer {READS}"))]
    {
        // A literal without indexing, with a new name. No text is as long as 127 bytes.
        block.extend_from_slice(&[0, name.len() as u8]);
        block.extend_from_slice(name.as_bytes());
        block.push(value.len() as u8);
        block.extend_from_slice(value.as_bytes());
    }
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(4, 0, 0, &[&[0, 4][..], &WINDOW.to_be_bytes()].concat()));
    bytes.extend(frame(8, 0, 0, &(WINDOW - 65_535).to_be_bytes()));
    for number in 0..100 {
        bytes.extend(frame(1, 5, 2 * number + 1, &block));
    }
    for _ in 0..6 {
        let Some(mut stream) = connect(address(broker, "http")) else { continue };
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

/// How many connections read none of their answers, and how many answers each of them wants.
const UNREAD_CONNECTIONS: usize = 20;
const UNREAD_VALUES: usize = 100;
const UNREAD_BODIES: u32 = 50;
const UNREAD_LISTS: u32 = 90;

/// A command whose last word is long.
fn with_long_word(words: &str, long: &[u8]) -> Vec<u8> {
    let words: Vec<&str> = words.split(' ').collect();
    let mut bytes = format!("*{}\r\n", words.len() + 1).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n{word}\r\n", word.len()).into_bytes());
    }
    bytes.extend(format!("${}\r\n", long.len()).into_bytes());
    [&bytes, long, b"\r\n"].concat()
}

/// Large values, read again and again in one write.
fn unread_values(broker: &Broker) -> Running {
    let mut running = Running::default();
    let mut peer = with_place(broker);
    peer.stream.write_all(&with_long_word("SET large", &vec![b'v'; 9 << 20])).expect("it listens");
    assert_eq!(peer.reply(), Some(Reply::Simple("OK".into())));
    let gets = b"*2\r\n$3\r\nGET\r\n$5\r\nlarge\r\n".repeat(UNREAD_VALUES);
    for _ in 0..UNREAD_CONNECTIONS {
        let mut peer = with_place(broker);
        press(&mut peer.stream, &gets);
        running.sockets.push(peer.stream);
    }
    running
}

/// The body of one task, fetched by many calls.
fn unread_grpc_bodies(broker: &Broker) -> Running {
    let mut peer = with_place(broker);
    peer.stream.write_all(&with_long_word("LPUSH queue:bodies", &vec![b'b'; 9 << 20])).expect("it listens");
    assert!(peer.reply().is_some());
    let Some(Reply::Array(jobs)) = peer.ask("LRANGE queue:bodies 0 0") else { panic!("no jobs") };
    let [Reply::Bulk(task)] = jobs.as_slice() else { panic!("{jobs:?}") };
    let message = [&[0x0a, u8::try_from(task.len()).expect("an id")], &task[..]].concat();
    unread_calls(broker, "/tenure.v1.Tasks/Body", &message, UNREAD_BODIES)
}

fn unread_grpc_lists(broker: &Broker) -> Running {
    // The field `limit`, 1000.
    unread_calls(broker, "/tenure.v1.Tasks/List", &[0x50, 0xe8, 0x07], UNREAD_LISTS)
}

fn unread_calls(broker: &Broker, path: &str, message: &[u8], count: u32) -> Running {
    let mut running = Running::default();
    let framed = [&[0, 0, 0, 0, u8::try_from(message.len()).expect("it is short")], message].concat();
    for _ in 0..UNREAD_CONNECTIONS {
        let Some(mut stream) = connect(address(broker, "grpc")) else { continue };
        press(&mut stream, &calls(path, ALL, &framed, count));
        running.sockets.push(stream);
    }
    running
}
