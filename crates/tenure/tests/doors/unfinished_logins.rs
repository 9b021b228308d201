//! Strangers that never log in: every door disconnects them, whatever they send instead of a key.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::peers::{ALL_DOORS, address};
use crate::support::Broker;

const KEY: &str = "00112233445566778899aabbccddeeff";
/// The pages promise ten seconds. The rest is for a busy machine.
const CLOSED_WITHIN: Duration = Duration::from_secs(45);

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";
const ACKNOWLEDGED: u8 = 1;

/// What a stranger sends at each door.
const STRANGERS: [(&str, &[&[u8]]); 16] = [
    ("native", &[b""]),
    ("native", &[b"\0"]),
    ("xmessage", &[b""]),
    ("xmessage", &[b"\0"]),
    ("resp", &[b""]),
    ("resp", &[b"*"]),
    ("mdp", &[b""]),
    ("mdp", &[b"\xff"]),
    ("grpc", &[b""]),
    ("grpc", &[b"P"]),
    ("grpc", &[PREFACE, SETTINGS]),
    ("http", &[b""]),
    ("http", &[b"G"]),
    ("http", &[b"GET /v1/counts HTTP/1.1\r\nhost: here"]),
    ("http", &[PREFACE, SETTINGS]),
    ("http", &[b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"]),
];

#[test]
fn a_stranger_without_a_login_is_disconnected_at_every_door() {
    let directory = tempfile::tempdir().unwrap();
    let keys = format!("[[keys]]\nname = \"right\"\nkey = \"{KEY}\"\n");
    std::fs::write(directory.path().join("tenure.toml"), keys).unwrap();
    let broker = Broker::start_in(directory.path(), &ALL_DOORS);
    let begun = Instant::now();
    let strangers: Vec<_> = STRANGERS
        .iter()
        .map(|(door, pieces)| {
            let mut stream = TcpStream::connect(address(&broker, door)).expect("the door is open");
            let bytes = pieces.concat();
            stream.write_all(&bytes).expect("the broker takes it");
            let is_http2 = bytes.starts_with(PREFACE);
            std::thread::spawn(move || if is_http2 { answers_pings(stream) } else { only_listens(stream) })
        })
        .collect();
    for ((door, pieces), stranger) in STRANGERS.iter().zip(strangers) {
        let sent = String::from_utf8_lossy(&pieces.concat()).into_owned();
        let ended = stranger.join().expect("it only reads");
        let after = begun.elapsed();
        assert!(ended, "{door}: a stranger that sent {sent:?} is still connected after {after:?}");
    }
}

/// Whether the broker closes the connection.
fn only_listens(mut stream: TcpStream) -> bool {
    stream.set_read_timeout(Some(CLOSED_WITHIN)).expect("a timeout can be set");
    let mut piece = [0; 4096];
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

/// The same for a peer that is alive and wants nothing.
fn answers_pings(mut stream: TcpStream) -> bool {
    const SETTINGS_KIND: u8 = 4;
    const PING: u8 = 6;
    let until = Instant::now() + CLOSED_WITHIN;
    while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        stream.set_read_timeout(Some(left)).expect("a timeout can be set");
        let mut head = [0; 9];
        let mut payload = Vec::new();
        let read = stream.read_exact(&mut head).and_then(|()| {
            payload.resize(u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize, 0);
            stream.read_exact(&mut payload)
        });
        match read {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return false,
            Err(_) => return true,
        }
        if matches!(head[3], SETTINGS_KIND | PING) && head[4] & ACKNOWLEDGED == 0 {
            head[4] |= ACKNOWLEDGED;
            if head[3] == SETTINGS_KIND {
                payload.clear();
                head[..3].fill(0);
            }
            let _ = stream.write_all(&[&head[..], &payload].concat());
        }
    }
    false
}
