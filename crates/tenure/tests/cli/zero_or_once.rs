//! A task that must not run again by itself, on ZeroMQ workers without an identity and on HTTP workers: the broker is
//! killed in the moment in which a worker has the body.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::support::{Broker, TIMEOUT, eventually};

/// A DEALER of a few lines.
struct Dealer(TcpStream);

impl Dealer {
    fn connect(address: &str) -> Dealer {
        let stream = TcpStream::connect(address).expect("the door is open");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout can be set");
        let mut dealer = Dealer(stream);
        let mut greeting = vec![0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 1];
        greeting.extend_from_slice(b"NULL");
        greeting.resize(64, 0);
        dealer.write(&greeting);
        dealer.write(b"\x04\x1c\x05READY\x0bSocket-Type\0\0\0\x06DEALER");
        dealer.read(64);
        let (flags, _) = dealer.frame();
        assert_eq!(flags, 4, "a command: READY");
        dealer
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("the broker reads");
    }

    fn read(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.0.read_exact(&mut bytes).expect("the broker speaks");
        bytes
    }

    fn send(&mut self, parts: &[&str]) {
        for (index, part) in parts.iter().enumerate() {
            self.write(&[u8::from(index + 1 < parts.len()), part.len() as u8]);
            self.write(part.as_bytes());
        }
    }

    fn frame(&mut self) -> (u8, Vec<u8>) {
        let header = self.read(2);
        (header[0], self.read(header[1].into()))
    }

    /// The body of the next job, which is the last frame of a message with one.
    fn job(&mut self) -> String {
        loop {
            let (flags, body) = self.frame();
            // The last frame of a message; a heartbeat's is one byte long.
            if flags == 0 && body.len() > 1 {
                return String::from_utf8(body).expect("text");
            }
        }
    }
}

#[test]
fn kill_9_when_a_worker_has_a_careful_task_and_it_does_not_run_twice() {
    let doors = ["--mdp", "127.0.0.1:0", "--pingpong", "127.0.0.1:0,127.0.0.1:0", "--restart-grace", "1s"];
    let scratch = tempfile::tempdir().expect("a directory");
    let majordomo: &[&str] = &["", "MDPW01", "\x01", "echo"];
    for (queue, ready) in [("echo", majordomo), ("pingpong", &["", "READY"])] {
        let dir = scratch.path().join(queue);
        let worker = |broker: &Broker| {
            let door = if queue == "echo" { "mdp" } else { "pingpong" };
            let addresses = broker.doors[door].as_str().expect("an address").to_owned();
            let mut dealer = Dealer::connect(addresses.split(',').next_back().expect("one"));
            dealer.send(ready);
            dealer
        };
        let mut broker = Broker::start_in(&dir, &doors);
        let mut first = worker(&broker);
        let task = broker.submit(&["--queue", queue, "--on-lost", "pause", "careful"]);
        assert_eq!(first.job(), "careful");
        broker.child.kill().expect("it can be killed");
        drop(broker);

        let broker = Broker::start_in(&dir, &doors);
        let mut second = worker(&broker);
        broker.submit(&["--queue", queue, "next"]);
        assert_eq!(second.job(), "next", "{queue}: the first task does not run again");
        eventually("it is paused", || broker.state(&task) == "paused");
    }
}

/// The head and the body of the answer to a request.
fn http(broker: &Broker, method: &str, path: &str, body: &str) -> (String, String) {
    let address = broker.doors["http"].as_str().expect("an address");
    let mut stream = TcpStream::connect(address).expect("the door is open");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout can be set");
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).expect("the broker reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    (head.to_owned(), body.to_owned())
}

#[test]
fn kill_9_when_a_worker_has_fetched_a_careful_task_and_it_does_not_run_twice() {
    let doors = ["--http", "127.0.0.1:0", "--restart-grace", "1s"];
    let scratch = tempfile::tempdir().expect("a directory");
    let fetch = |broker: &Broker, worker: &str| {
        let (head, _) = http(broker, "PUT", &format!("/v1/work/{worker}"), r#"{"queues": ["scans"]}"#);
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        let (_, body) = http(broker, "POST", &format!("/v1/work/{worker}/fetch?wait=60"), "");
        let fetched: serde_json::Value = serde_json::from_str(&body).expect("a task");
        fetched["body"].as_str().expect("a body").to_owned()
    };
    for (policy, state) in [("pause", "paused"), ("fail", "failed")] {
        let dir = scratch.path().join(policy);
        let mut broker = Broker::start_in(&dir, &doors);
        let task = broker.submit(&["--queue", "scans", "--on-lost", policy, "careful"]);
        // The worker begins with the body that it has; it has not said so.
        assert_eq!(fetch(&broker, "first"), "careful");
        broker.child.kill().expect("it can be killed");
        drop(broker);

        let broker = Broker::start_in(&dir, &doors);
        broker.submit(&["--queue", "scans", "next"]);
        assert_eq!(fetch(&broker, "second"), "next", "{policy}: the first task does not run again");
        eventually("it follows its policy", || broker.state(&task) == state);
    }
}
