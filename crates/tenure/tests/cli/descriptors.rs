//! Strangers that only connect: they leave the broker enough file descriptors to go on working.

use std::io::Read as _;
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::support::TIMEOUT;

/// More than the broker below has descriptors for.
const STRANGERS: usize = 300;

#[test]
fn silent_unauthenticated_connections_do_not_block_clients_for_long() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let (ready, log) = (directory.path().join("ready"), directory.path().join("log"));
    let program = env!("CARGO_BIN_EXE_tenure");
    let mut broker = Command::new("sh")
        .args(["-c", "ulimit -n 200; exec \"$0\" \"$@\"", program, "serve", "--native", "127.0.0.1:0"])
        .args([
            "--xmessage",
            "off",
            "--resp",
            "off",
            "--mdp",
            "off",
            "--pingpong",
            "off",
            "--grpc",
            "off",
            "--http",
            "off",
        ])
        .arg("--data-dir")
        .arg(&data)
        .arg("--ready-file")
        .arg(&ready)
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let address = loop {
        if let Ok(text) = std::fs::read_to_string(&ready)
            && let Ok(said) = serde_json::from_str::<serde_json::Value>(&text)
        {
            break said["doors"]["native"].as_str().unwrap().to_owned();
        }
        assert!(begun.elapsed() < TIMEOUT, "the broker starts");
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    let clients: Vec<TcpStream> = (0..STRANGERS).filter_map(|_| TcpStream::connect(&address).ok()).collect();
    // Those that were let in are sent away because they do not log in; then there is room again.
    let submitted = loop {
        let run = Command::new(program)
            .args(["submit", "--broker", &address, "--connect-timeout", "2s", "--", "true"])
            .env_remove("TENURE_KEY")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        if run.status.success() || begun.elapsed() > TIMEOUT {
            break run;
        }
    };
    let is_alive = broker.try_wait().unwrap().is_none();
    broker.kill().unwrap();
    broker.wait().unwrap();
    drop(clients);
    let mut said = String::new();
    std::fs::File::open(&log).unwrap().read_to_string(&mut said).unwrap();
    assert!(is_alive, "{said}");
    assert!(submitted.status.success(), "{submitted:?}\n{said}");
    assert!(said.contains("connections_max=100"), "{said}");
}
