//! A broker of its own for each story, and the program with its arguments.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;
use tenure_client::{Failure, Outcome, Worker, WorkerHandle};

/// Nothing here takes longer, even on a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// No run of the program takes longer.
const RUN_TIMEOUT: Duration = Duration::from_secs(240);

/// What a run of the program said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    /// The answer of a run that went well.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.out
    }

    #[track_caller]
    pub(crate) fn json(self) -> Value {
        let text = self.ok();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"))
    }

    /// Each line as JSON.
    #[track_caller]
    pub(crate) fn lines(&self) -> Vec<Value> {
        let parse =
            |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}"));
        self.out.lines().map(parse).collect()
    }

    /// A refusal by the program: the code, and what is said about it.
    #[track_caller]
    pub(crate) fn fails(self, code: i32, hint: &str) -> String {
        assert_eq!(self.code, code, "{self:?}");
        assert!(self.err.contains(hint), "{self:?}");
        self.err
    }
}

impl Said {
    /// The same where the finding itself is the answer, on stdout.
    #[track_caller]
    pub(crate) fn fails_with_out(self, code: i32, hint: &str) {
        assert_eq!(self.code, code, "{self:?}");
        assert!(self.out.contains(hint), "{self:?}");
    }
}

/// The program, without anything from the surroundings of the test.
pub(crate) fn program(args: &[&str]) -> Command {
    program_at(Path::new(env!("CARGO_BIN_EXE_tenure")), args)
}

/// The same with another build of the program.
#[allow(dead_code, reason = "other tests use only the build that they belong to")]
pub(crate) fn program_at(path: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(path);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TENURE_") {
            command.env_remove(name);
        }
    }
    command.env("USER", "ada").args(args).stdin(Stdio::null());
    command
}

#[track_caller]
pub(crate) fn run(mut command: Command) -> Said {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let said = said_by(command.spawn().expect("the program starts"));
    said.unwrap_or_else(|so_far| panic!("{command:?} does not end: {so_far:?}"))
}

/// What a program says until it ends, or what it has said so far, if it does not end in time: a program that waits
/// for something that never comes fails its own test, and does not stop all the others.
fn said_by(mut child: Child) -> Result<Said, Said> {
    let mut out = Log::of(child.stdout.take().expect("piped"));
    let mut err = Log::of(child.stderr.take().expect("piped"));
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("it can be waited for") {
            return Ok(Said { code: status.code().unwrap_or(-1), out: out.whole(), err: err.whole() });
        }
        if begun.elapsed() > RUN_TIMEOUT {
            let _ = child.kill();
            let _ = child.wait();
            return Err(Said { code: -1, out: out.so_far(), err: err.so_far() });
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The doors that most stories do not need.
pub(crate) const NATIVE_ONLY: [(&str, &str); 7] = [
    ("TENURE_NATIVE", "127.0.0.1:0"),
    ("TENURE_XMESSAGE", "off"),
    ("TENURE_RESP", "off"),
    ("TENURE_MDP", "off"),
    ("TENURE_PINGPONG", "off"),
    ("TENURE_GRPC", "off"),
    ("TENURE_HTTP", "off"),
];

/// A running broker. It ends with the story.
pub(crate) struct Broker {
    pub(crate) child: Child,
    pub(crate) doors: Value,
    pub(crate) address: String,
    pub(crate) dir: PathBuf,
    pub(crate) log: Log,
    _scratch: Option<tempfile::TempDir>,
}

/// What a process writes into a pipe, read as it comes: a pipe that is not read fills up and stops its writer.
pub(crate) struct Log {
    text: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Log {
    pub(crate) fn of(mut pipe: impl Read + Send + 'static) -> Log {
        let text = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&text);
        let reader = std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = pipe.read(&mut piece) {
                shared.lock().expect("no panic").extend_from_slice(&piece[..count]);
            }
        });
        Log { text, reader: Some(reader) }
    }

    /// What was written until now.
    pub(crate) fn so_far(&self) -> String {
        String::from_utf8_lossy(&self.text.lock().expect("no panic")).into_owned()
    }

    /// Everything, once the process has ended.
    pub(crate) fn whole(&mut self) -> String {
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        self.so_far()
    }
}

impl Broker {
    pub(crate) fn start() -> Broker {
        Broker::start_with(&[])
    }

    pub(crate) fn start_with(args: &[&str]) -> Broker {
        let scratch = tempfile::tempdir().expect("a directory");
        let mut broker = Broker::start_in(&scratch.path().join("data"), args);
        broker._scratch = Some(scratch);
        broker
    }

    /// A broker in a directory that outlives it.
    pub(crate) fn start_in(dir: &Path, args: &[&str]) -> Broker {
        Broker::start_from(serve(dir, args), dir)
    }

    /// A broker of this command.
    pub(crate) fn start_from(mut command: Command, dir: &Path) -> Broker {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the broker starts");
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        out.read_line(&mut line).expect("the broker speaks");
        let mut log = Log::of(child.stderr.take().expect("piped"));
        if line.is_empty() {
            panic!("the broker did not start: {}", log.whole());
        }
        let ready: Value = serde_json::from_str(&line).expect("one line of JSON");
        let doors = ready["doors"].clone();
        let address = doors["native"].as_str().unwrap_or_default().to_owned();
        Broker { child, doors, address, dir: dir.to_owned(), log, _scratch: None }
    }

    /// The program as a client of this broker.
    pub(crate) fn tenure(&self, args: &[&str]) -> Said {
        run(self.command(args))
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = program(args);
        command.env("TENURE_BROKER", &self.address);
        command
    }

    /// The same with something on stdin.
    pub(crate) fn tenure_fed(&self, args: &[&str], stdin: &[u8]) -> Said {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        // Both pipes at once: neither side may wait for the other.
        let mut pipe = child.stdin.take().expect("piped");
        let said = std::thread::scope(|scope| {
            // A program may end before it has read everything.
            scope.spawn(move || drop(pipe.write_all(stdin)));
            said_by(child)
        });
        said.unwrap_or_else(|so_far| panic!("{command:?} does not end: {so_far:?}"))
    }

    /// Submits and returns the id.
    #[track_caller]
    pub(crate) fn submit(&self, args: &[&str]) -> String {
        let mut all = vec!["submit", "-o", "json"];
        all.extend(args);
        self.tenure(&all).json()["task"].as_str().expect("an id").to_owned()
    }

    #[track_caller]
    pub(crate) fn state(&self, task: &str) -> String {
        let shown = self.tenure(&["show", "--no-timeline", "-o", "json", task]).json();
        shown["state"].as_str().expect("a state").to_owned()
    }

    pub(crate) fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(status.expect("kill is there").success());
    }

    /// Waits for the end: the exit code and the log.
    pub(crate) fn ended(mut self) -> (Option<i32>, String) {
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it can be waited for") {
                break status;
            }
            assert!(begun.elapsed() < TIMEOUT, "the broker does not end");
            std::thread::sleep(Duration::from_millis(20));
        };
        (status.code(), self.log.whole())
    }

    /// A worker of a queue that does what each task's body says: `fail N`, `wait`, `until FILE` (is there,
    /// whatever is asked of it), or anything else as its result.
    pub(crate) fn worker(&self, id: &str, queue: &str) -> TestWorker {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("threads");
        let builder =
            Worker::builder(&self.address).id(id).queues([queue]).slots(2).handle(|context| async move {
                let body = String::from_utf8_lossy(context.body()).into_owned();
                if let Some(file) = body.strip_prefix("until ") {
                    while !Path::new(file).exists() {
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                    return Outcome::cancelled("");
                }
                match body.strip_prefix("fail ") {
                    Some(code) => {
                        Outcome::fail(Failure::new(code.parse().expect("a code"), "as the body says"))
                    }
                    None if body == "wait" => {
                        context.progress(Some(50), "halfway");
                        context.interrupted().await;
                        Outcome::cancelled("")
                    }
                    None => Outcome::complete(format!("did {body}")),
                }
            });
        let handle = runtime.block_on(builder.start()).expect("the worker registers");
        TestWorker { handle, runtime: Some(runtime) }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) struct TestWorker {
    pub(crate) handle: WorkerHandle,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Drop for TestWorker {
    fn drop(&mut self) {
        self.handle.stop();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

pub(crate) fn serve(dir: &Path, args: &[&str]) -> Command {
    let mut command = program(&["serve", "--print-addresses", "json"]);
    command.envs(NATIVE_ONLY).arg("--data-dir").arg(dir).args(args);
    command
}

/// Looks again until it is so.
#[track_caller]
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < TIMEOUT, "never: {what}");
        std::thread::sleep(Duration::from_millis(30));
    }
}
