//! The broker as a program of its own, killed with `kill -9` while pyzmq workers compute and pyzmq clients ask.

mod support;

use std::ffi::OsString;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use support::python::{Script, python};

/// Within this time a broker has noted that a worker is at a job it was sent.
const NOTED: Duration = Duration::from_secs(1);

struct Program {
    child: Child,
}

impl Program {
    fn start(binary: &OsString, data: &Path, mdp: &str) -> Program {
        let ready = data.join("ready");
        let _ = std::fs::remove_file(&ready);
        let doors = ["--native", "--xmessage", "--resp", "--pingpong", "--grpc", "--http"];
        let off = doors.into_iter().flat_map(|door| [door, "off"]);
        let child = Command::new(binary)
            .arg("serve")
            .arg("--data-dir")
            .arg(data.join("broker"))
            .arg("--ready-file")
            .arg(&ready)
            .args(["--mdp", mdp, "--mdp-heartbeat", "300ms", "--log", "error"])
            .args(off)
            .stdout(Stdio::null())
            .spawn()
            .expect("the broker starts");
        let program = Program { child };
        let deadline = Instant::now() + Duration::from_secs(20);
        while !ready.exists() {
            assert!(Instant::now() < deadline, "the broker does not open its doors");
            std::thread::sleep(Duration::from_millis(10));
        }
        program
    }

    fn kill(mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it is gone");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn kill_9_the_broker_and_the_computation_goes_on() {
    let (Some(python), Some(binary)) = (python(), std::env::var_os("TENURE_BINARY")) else {
        eprintln!("TENURE_BINARY or TENURE_THIRD_PARTY_PYTHON is not set, so nothing is killed");
        return;
    };
    let data = tempfile::tempdir().expect("a directory");
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    let mdp = free.to_string();
    let broker = format!("tcp://{mdp}");
    let start = |name: &str, arguments: &[&str]| {
        Script::start(&python, name, &[arguments, &["--broker", &broker]].concat())
    };

    let program = Program::start(&binary, data.path(), &mdp);
    let mut plugin = start(
        "pl_worker.py",
        &["Tools/Count", "--seconds", "4", "--identity", "node-1", "--heartbeat", "0.3"],
    );
    plugin.line("ready");
    while start("mdp_client.py", &["mmi.service", "Tools/Count"]).end().1 != ["200"] {}
    let submit = start("pl_client.py", &["Tools/Count", "5", "6", "--identity", "lab", "--leave"]);
    plugin.line("working");
    plugin.line("working");
    assert!(submit.end().0);
    std::thread::sleep(NOTED);

    program.kill();
    let _program = Program::start(&binary, data.path(), &mdp);
    plugin.line("done");
    plugin.line("done");
    // A job that is new, and is done by the worker that was there all the time.
    let mut client = start("pl_client.py", &["Tools/Count", "7", "--identity", "office"]);
    plugin.line("working job-7 attempt 1");
    assert!(client.line("1 of 1").contains("finished"));
    let (_, missed) = start("pl_client.py", &["--identity", "lab", "--after", "0"]).end();
    assert_eq!(missed.len(), 1, "no worker crashed and nothing was run again: {missed:?}");
    let (_, status) = start("mdp_client.py", &["mmi.workers"]).end();
    assert!(
        !status.iter().any(|line| line.starts_with("Pending") || line.starts_with("Running")),
        "{status:?}"
    );

    // When the worker is killed, the waiting client learns it at once.
    let mut client = start("pl_client.py", &["Tools/Count", "8"]);
    plugin.line("working job-8 attempt 1");
    std::thread::sleep(NOTED);
    plugin.kill();
    let told = client.line("WORKER_CRASHED");
    assert!(told.starts_with("WORKER_CRASHED job-8 attempt 1 requeued"), "{told}");
}

#[test]
fn kill_9_the_broker_twice_under_load_and_every_request_is_answered() {
    const REQUESTS: usize = 120;
    let (Some(python), Some(binary)) = (python(), std::env::var_os("TENURE_BINARY")) else {
        eprintln!("TENURE_BINARY or TENURE_THIRD_PARTY_PYTHON is not set, so nothing is killed");
        return;
    };
    let data = tempfile::tempdir().expect("a directory");
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    let mdp = free.to_string();
    let broker = format!("tcp://{mdp}");
    let start = |name: &str, arguments: &[&str]| {
        Script::start(&python, name, &[arguments, &["--broker", &broker]].concat())
    };

    let mut program = Program::start(&binary, data.path(), &mdp);
    let mut workers: Vec<Script> = (0..3)
        .map(|_| start("mdp_worker.py", &["echo", "--heartbeat", "0.3", "--seconds", "0.01"]))
        .collect();
    workers.iter_mut().for_each(|worker| drop(worker.line("ready")));
    let count = REQUESTS.to_string();
    let mut clients: Vec<Script> = (0..4)
        .map(|_| {
            start("mdp_client.py", &["echo", "x", "--count", &count, "--timeout", "1", "--retries", "20"])
        })
        .collect();
    for number in [REQUESTS / 3, 2 * REQUESTS / 3] {
        // In the middle of it: this client has its answer, the others have whatever they have.
        clients[0].line(&number.to_string());
        program.kill();
        program = Program::start(&binary, data.path(), &mdp);
    }
    for client in clients {
        let (went_well, said) = client.end();
        let numbers: Vec<usize> = said.iter().filter_map(|line| line.parse().ok()).collect();
        assert!(went_well, "{said:?}");
        assert_eq!(numbers, (0..REQUESTS).collect::<Vec<_>>());
    }
}
