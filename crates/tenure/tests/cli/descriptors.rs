//! Strangers that only connect: they leave the broker enough file descriptors to go on working.

use std::io::Write as _;
use std::net::TcpStream;
use std::process::Command;
use std::time::Instant;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use crate::support::{Broker, TIMEOUT, eventually, run, serve};

const KEY: &str = "00112233445566778899aabbccddeeff";
/// More than the brokers below have places for.
const STRANGERS: usize = 120;
/// What a stranger sends, so that it is not silent.
const BEGINNINGS: [(&str, &[u8]); 6] = [
    ("native", b"\0"),
    ("xmessage", b"\0"),
    ("resp", b"*"),
    ("mdp", b"\xff"),
    ("grpc", b"P"),
    ("http", b"G"),
];

#[test]
fn strangers_at_any_door_do_not_block_clients_for_long() {
    std::thread::scope(|scope| {
        for (door, beginning) in BEGINNINGS {
            scope.spawn(move || fill(door, beginning));
        }
    });
}

/// Strangers take all the places of a broker through one of its doors, and a right key gets in all the same.
fn fill(door: &str, beginning: &[u8]) {
    let directory = tempfile::tempdir().unwrap();
    let keys = format!("[[keys]]\nname = \"right\"\nkey = \"{KEY}\"\n");
    std::fs::write(directory.path().join("tenure.toml"), keys).unwrap();
    let other = format!("--{door}");
    let args: &[&str] = if door == "native" { &[] } else { &[&other, "127.0.0.1:0"] };
    let whole = serve(directory.path(), args);
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -n 200 && exec \"$0\" \"$@\""])
        .arg(whole.get_program())
        .args(whole.get_args());
    for (name, value) in whole.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let mut broker = Broker::start_from(command, directory.path());
    let address = broker.doors[door].as_str().unwrap().to_owned();
    let strangers: Vec<TcpStream> = (0..STRANGERS)
        .filter_map(|_| TcpStream::connect(&address).ok())
        .map(|mut stranger| {
            let _ = stranger.write_all(beginning);
            stranger
        })
        .collect();
    // Those that were let in are sent away because they do not log in; then there is room again.
    let begun = Instant::now();
    let submitted = loop {
        let mut submit = broker.command(&["submit", "--connect-timeout", "2s", "--", "true"]);
        submit.env("TENURE_KEY", KEY);
        let said = run(submit);
        if said.code == 0 || begun.elapsed() > TIMEOUT {
            break said;
        }
    };
    assert!(broker.child.try_wait().unwrap().is_none(), "{door}: {}", broker.log.so_far());
    assert_eq!(submitted.code, 0, "{door}: {submitted:?}\n{}", broker.log.so_far());
    assert!(broker.log.so_far().contains("connections_max=100"), "{}", broker.log.so_far());
    drop(strangers);
}

#[test]
fn a_broker_without_a_descriptor_for_a_new_connection_waits_and_says_so_once_a_second() {
    let broker = Broker::start();
    let pid = Pid::from_raw(i32::try_from(broker.child.id()).unwrap());
    let open = || std::fs::read_dir(format!("/proc/{}/fd", broker.child.id())).unwrap().count() as u64;
    broker.submit(&["--", "true"]);
    let before = getrlimit(Resource::Nofile);
    let limit = |current| Rlimit { current, maximum: before.maximum };
    let told = || broker.log.so_far().matches("cannot accept connections").count();
    // Descriptors are numbers below the limit; what is open already stays.
    let begun = Instant::now();
    prlimit(pid, Resource::Nofile, limit(Some(open()))).expect("it is our own process");
    let _waiting = TcpStream::connect(&broker.address).expect("the kernel takes it");
    eventually("the broker says that it cannot accept", || told() >= 2);
    let seconds = usize::try_from(begun.elapsed().as_secs()).unwrap();
    assert!(told() <= seconds + 2, "{} lines in {seconds} s", told());
    prlimit(pid, Resource::Nofile, limit(before.maximum)).expect("it is our own process");
    broker.submit(&["--", "true"]);
}
