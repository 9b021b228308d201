//! A broker, a client that submits, and workers that can be killed.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tenure_client::{Client, Ended, Submission, TaskId, TaskInfo};
use tokio::runtime::Runtime;

use crate::support::{Broker, TIMEOUT, program};

pub(crate) struct Stage {
    pub(crate) broker: Broker,
    pub(crate) client: Client,
    pub(crate) dir: tempfile::TempDir,
    flags: Vec<String>,
    runtime: Runtime,
}

impl Stage {
    pub(crate) fn new() -> Stage {
        Stage::with(&[])
    }

    /// With further flags for the broker.
    pub(crate) fn with(flags: &[&str]) -> Stage {
        let dir = tempfile::tempdir().expect("a directory");
        let broker = Broker::start_in(&dir.path().join("data"), flags);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("threads");
        let connecting =
            Client::builder().address(&broker.address).identity("ada").connect_timeout(TIMEOUT).connect();
        let client = runtime.block_on(connecting).expect("the broker answers");
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        Stage { broker, client, dir, flags, runtime }
    }

    /// `kill -9` of the broker, and a new one in its place.
    pub(crate) fn restart_broker(&mut self, away: Duration) {
        self.kill_broker();
        std::thread::sleep(away);
        self.start_broker();
    }

    pub(crate) fn kill_broker(&mut self) {
        let _ = self.broker.child.kill();
        let _ = self.broker.child.wait();
    }

    /// A broker in the place of the one that was killed.
    pub(crate) fn start_broker(&mut self) {
        let address = self.broker.address.clone();
        let mut flags = vec!["--native", &address];
        flags.extend(self.flags.iter().map(String::as_str));
        self.broker = Broker::start_in(&self.dir.path().join("data"), &flags);
    }

    /// The broker's process does nothing for a while, as if its machine slept.
    pub(crate) fn stop_broker(&self, away: Duration) {
        send(&self.broker.child, Signal::STOP);
        std::thread::sleep(away);
        send(&self.broker.child, Signal::CONT);
    }

    pub(crate) fn worker(&self, id: &str, args: &[&str]) -> Process {
        self.worker_in(&std::env::temp_dir(), id, args)
    }

    /// A worker with a place for temporary files of its own.
    pub(crate) fn worker_in(&self, tmp: &Path, id: &str, args: &[&str]) -> Process {
        let mut all = vec![
            "work",
            "--id",
            id,
            "--broker",
            &self.broker.address,
            "--connect-timeout",
            "60s",
            "--heartbeat",
            "1s",
        ];
        all.extend(args);
        let log =
            std::fs::File::options().create(true).append(true).open(self.dir.path().join("workers.log"));
        let child = program(&all)
            .env("TMPDIR", tmp)
            // Of the worker, and of no task.
            .env("TRACEPARENT", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
            .stdout(Stdio::null())
            .stderr(log.expect("a log"))
            .spawn();
        Process { child: child.expect("the worker starts") }
    }

    pub(crate) fn submit(&self, submission: Submission) -> TaskId {
        self.block_on(self.client.submit(submission)).expect("accepted").task
    }

    /// Submits a script for `sh`.
    pub(crate) fn script(&self, script: &str) -> TaskId {
        self.submit(shell(script))
    }

    pub(crate) fn wait(&self, task: TaskId) -> Ended {
        let ended = self.block_on(self.client.wait_timeout(task, TIMEOUT)).expect("the broker answers");
        ended.unwrap_or_else(|| {
            let broker = self.broker.log.so_far();
            panic!("task {task} does not end: {:?}\n{}\nthe broker:\n{broker}", self.show(task), self.log())
        })
    }

    /// The end of a task, and its result as JSON.
    pub(crate) fn result(&self, task: TaskId) -> (Ended, Value) {
        let ended = self.wait(task);
        let result = ended.result.clone().unwrap_or_default();
        (ended, serde_json::from_slice(&result).unwrap_or_default())
    }

    pub(crate) fn show(&self, task: TaskId) -> TaskInfo {
        self.block_on(self.client.show(task)).expect("it is known")
    }

    /// How many tasks workers run.
    pub(crate) fn running(&self) -> u64 {
        let tasks = self.broker.tenure(&["list", "--state", "running,assigned", "-o", "json"]).json();
        tasks.as_array().map_or(0, |tasks| tasks.len() as u64)
    }

    /// A command begins before the broker hears of it, and what the broker takes for not begun it ends by itself.
    pub(crate) fn until_running(&self, task: TaskId) {
        eventually("the broker knows that it runs", || self.show(task).state.as_str() == "running");
    }

    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.path("workers.log")).unwrap_or_default()
    }
}

pub(crate) fn shell(script: &str) -> Submission {
    Submission::to("default").body(json!({ "command": ["sh", "-c", script] }).to_string())
}

/// A process that does not outlive its story.
pub(crate) struct Process {
    pub(crate) child: Child,
}

impl Process {
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub(crate) fn terminate(&self) {
        send(&self.child, Signal::TERM);
    }

    /// The process does nothing until it is killed.
    pub(crate) fn stop(&self) {
        send(&self.child, Signal::STOP);
    }

    pub(crate) fn interrupt(&self) {
        send(&self.child, Signal::INT);
    }

    pub(crate) fn ended(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("it can be waited for") {
                return status;
            }
            assert!(begun.elapsed() < TIMEOUT, "the process does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn send(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(child.id().cast_signed()).expect("a process");
    kill_process(pid, signal).expect("it is there");
}

/// Waits until something is so.
#[track_caller]
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < TIMEOUT, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether a process runs: a zombie does not.
pub(crate) fn is_running(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// What a file holds, or nothing.
pub(crate) fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Lets a script go on that waits for this file.
pub(crate) fn touch(path: &Path) {
    std::fs::File::create(path).and_then(|mut file| file.write_all(b"x")).expect("a file");
}
