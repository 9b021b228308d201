//! A program that repeats a wrong key: every door slows it down, logs it once, counts it, and admits right keys.

use std::time::{Duration, Instant};

use crate::peers::zmtp::Wire;
use crate::peers::{ALL_DOORS, Grpc, MessagePack, Resp, address, calls, http};
use crate::support::{Broker, eventually};

const RIGHT: &str = "00112233445566778899aabbccddeeff";
const WRONG: &str = "deadbeefdeadbeefdeadbeefdeadbeef";
const DOORS: [&str; 6] = ["native", "xmessage", "resp", "mdp", "grpc", "http"];
/// This many wrong keys are answered at once, the next one after this time.
const FREE: u32 = 3;
const WAIT: Duration = Duration::from_millis(250);

/// Comes to a door with a key, and returns when the broker has admitted or refused it.
fn knock(broker: &Broker, door: &str, key: &str) {
    match door {
        "native" => {
            let mut peer = MessagePack::connect(&broker.address);
            peer.ask(1, &format!(r#"[1, "hello", {{"version": 1, "key": "{key}"}}]"#));
        }
        "xmessage" => {
            let mut peer = MessagePack::older(address(broker, door), "actioner", Some(key));
            peer.say(r#""Over""#);
            assert!(peer.is_closed());
        }
        "resp" => {
            Resp::connect(address(broker, door)).ask(&format!("AUTH {key}"));
        }
        "mdp" => {
            let mdp = address(broker, door).parse().unwrap();
            match key {
                WRONG => assert!(Wire::plain_refused(mdp, "x", key)),
                _ => drop(Wire::plain(mdp, "x", key)),
            }
        }
        "grpc" => {
            let mut call = Grpc::call(broker, Some(key), "/tenure.v1.Broker/Counts", b"");
            while !call.frame().1 {}
        }
        "http" => {
            let status = http(broker, Some(key), "GET", "/v1/counts", b"").status;
            assert_eq!(status, if key == WRONG { 401 } else { 200 });
        }
        other => panic!("{other}"),
    }
}

fn broker() -> (tempfile::TempDir, Broker) {
    let directory = tempfile::tempdir().unwrap();
    let keys = format!("[[keys]]\nname = \"right\"\nkey = \"{RIGHT}\"\n");
    std::fs::write(directory.path().join("tenure.toml"), keys).unwrap();
    let broker = Broker::start_in(directory.path(), &ALL_DOORS);
    (directory, broker)
}

#[test]
fn wrong_keys_are_slowed_logged_and_counted_at_every_door() {
    let (_directory, broker) = broker();
    for door in DOORS {
        for _ in 0..FREE {
            knock(&broker, door, WRONG);
        }
        let begun = Instant::now();
        knock(&broker, door, WRONG);
        assert!(begun.elapsed() >= WAIT, "{door}: the answer came after {:?}", begun.elapsed());
        knock(&broker, door, RIGHT);
        let lines = || {
            let log = broker.log.so_far();
            let refused = log.lines().filter(|line| line.contains("login refused: invalid key"));
            refused.filter(|line| line.contains(door)).count()
        };
        eventually(&format!("{door} is in the log: {}", broker.log.so_far()), || lines() > 0);
        assert_eq!(lines(), 1, "{door}: {}", broker.log.so_far());
    }
    let metrics = http(&broker, Some(RIGHT), "GET", "/metrics", b"").text();
    for door in DOORS {
        let counted = format!("tenure_door_total{{door=\"{door}\",what=\"wrong_key\"}} {}\n", FREE + 1);
        assert!(metrics.contains(&counted), "{counted} in {metrics}");
    }
    assert!(!broker.log.so_far().contains(WRONG));
}

#[test]
fn right_keys_are_admitted_at_once_while_wrong_ones_wait_at_every_door() {
    // The last of them waits the longest, eight seconds.
    const WRONG_KEYS: u32 = FREE + 6;
    let (_directory, broker) = broker();
    let broker = &broker;
    std::thread::scope(|scope| {
        for door in DOORS {
            scope.spawn(move || {
                let knock_wrong = || {
                    let begun = Instant::now();
                    knock(broker, door, WRONG);
                    begun.elapsed()
                };
                let wrong: Vec<_> = (0..WRONG_KEYS).map(|_| scope.spawn(knock_wrong)).collect();
                let counted = format!("door=\"{door}\",what=\"wrong_key\"}} {WRONG_KEYS}\n");
                eventually(&format!("{door} has all wrong keys"), || {
                    http(broker, Some(RIGHT), "GET", "/metrics", b"").text().contains(&counted)
                });
                let begun = Instant::now();
                knock(broker, door, RIGHT);
                let right = begun.elapsed();
                let others_wait = wrong.iter().any(|wrong| !wrong.is_finished());
                assert!(others_wait, "{door}: the right key waited {right:?}");
                let slowest = wrong.into_iter().map(|wrong| wrong.join().unwrap()).max().unwrap();
                assert!(right * 2 < slowest, "{door}: a right key took {right:?}, a wrong one {slowest:?}");
            });
        }
    });
}

#[test]
fn a_storm_of_wrong_keys_on_one_connection_ends_it() {
    const CALLS: u32 = 60;
    let (_directory, broker) = broker();
    let mut stream = std::net::TcpStream::connect(address(&broker, "grpc")).unwrap();
    std::io::Write::write_all(&mut stream, &calls("/tenure.v1.Broker/Counts", WRONG, &[0; 5], CALLS))
        .unwrap();
    let mut storm = Grpc::on(stream);
    let mut answered = 0;
    while let Some((_, ends)) = storm.next_frame() {
        answered += u32::from(ends);
    }
    // Those that were held back are not answered any more.
    assert!(answered < CALLS, "{answered}");
}
