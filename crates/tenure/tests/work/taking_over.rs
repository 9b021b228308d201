//! The next worker of a name: it waits for what the one before has left, but not without end.

use std::fs::DirEntry;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::stage::{Process, eventually, is_running};
use crate::support::{program, run};

/// A server that accepts connections and never answers.
fn mute() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

fn work(broker: &str, args: &[&str]) -> Command {
    let mut command = program(&["work", "--id", "w", "--broker", broker]);
    command.args(args).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// The guard of a worker's process, once it holds the name.
fn guard_of(worker: u32) -> i32 {
    let mut guard = None;
    eventually("it has a guard", || {
        guard = std::fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
            let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            let parent = stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse::<u32>().ok()?;
            let command = std::fs::read(entry.path().join("cmdline")).ok()?;
            (parent == worker && command.windows(7).any(|part| part == b"--guard")).then_some(pid)
        });
        guard.is_some()
    });
    guard.unwrap()
}

/// A worker that has its name and looks for its broker.
fn first(broker: &str) -> (Process, i32) {
    let child = work(broker, &["--connect-timeout", "5m"]).spawn().unwrap();
    let guard = guard_of(child.id());
    // It says that it holds the name where it is found.
    eventually("the name is held", || {
        // Another program may have a pipe there, and reading it would never end.
        let is_file = |entry: &DirEntry| entry.file_type().is_ok_and(|kind| kind.is_file());
        let locks = std::fs::read_dir(std::env::temp_dir()).unwrap().flatten().filter(is_file);
        let wanted = [child.id().to_string(), guard.to_string(), "working".to_owned()];
        locks
            .map(|entry| std::fs::read_to_string(entry.path()).unwrap_or_default())
            .any(|lock| lock.split_whitespace().eq(wanted.iter().map(String::as_str)))
    });
    (Process { child }, guard)
}

#[test]
fn a_broker_that_does_not_answer_keeps_no_worker_from_its_name() {
    let (_broker, address) = mute();
    let (mut worker, _) = first(&address);
    worker.kill();
    let begun = Instant::now();
    let said = run(work(&address, &["--connect-timeout", "1s", "--takeover-timeout", "2m"]));
    // The broker is looked for only with the name in hand.
    said.fails(69, "tenure serve");
    assert!(begun.elapsed() < Duration::from_secs(20), "it took {:?}", begun.elapsed());
}

#[test]
fn a_stuck_guard_is_named_and_waited_for_a_limited_time() {
    let (_broker, address) = mute();
    let (mut worker, guard) = first(&address);
    let pid = Pid::from_raw(guard).unwrap();
    // A stopped process whose parent dies is sent on by the system: first the death, then the stop, while the guard
    // still looks for a broker that answers.
    worker.kill();
    kill_process(pid, Signal::STOP).unwrap();
    let said = run(work(&address, &["--connect-timeout", "1s", "--takeover-timeout", "3s"]));
    kill_process(pid, Signal::KILL).unwrap();
    let err = said.fails(71, &format!("process {guard}"));
    assert!(err.contains("is not free after 3s") && err.contains("--id"), "{err}");
    assert!(err.contains("worker w waits: another worker of this name is dead"), "{err}");
}

#[test]
fn a_worker_that_runs_under_the_name_is_named() {
    let (_broker, address) = mute();
    let (worker, _) = first(&address);
    let said = run(work(&address, &["--takeover-timeout", "1s"]));
    said.fails(71, &format!("kill {}", worker.child.id()));
}

#[test]
fn a_command_that_the_guard_was_not_told_of_dies_with_its_worker() {
    let (_broker, address) = mute();
    let mark = format!("run-{}", std::process::id());
    let mut guard = program(&["work", "--guard", "--id", "w", "--broker", &address]);
    guard.env("TENURE_WORKER_RUN", &mark).process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut guard = Process { child: guard.spawn().unwrap() };
    let mut ready = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(guard.child.stdout.take().unwrap()), &mut ready)
        .unwrap();
    let mut sleep = Command::new("sleep");
    let child = sleep.arg("300").env("TENURE_WORKER_RUN", &mark).process_group(0).spawn().unwrap();
    let command = Process { child };
    // The worker dies.
    drop(guard.child.stdin.take());
    eventually("the command dies", || !is_running(&command.child.id().to_string()));
}
