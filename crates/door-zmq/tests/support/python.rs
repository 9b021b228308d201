//! The Python examples as child processes: started, read line by line, killed if need be.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How long a line or an end may take.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The interpreter with pyzmq, or nothing: then the test is skipped.
pub(crate) fn python() -> Option<OsString> {
    let python = std::env::var_os("TENURE_THIRD_PARTY_PYTHON");
    if python.is_none() {
        eprintln!("TENURE_THIRD_PARTY_PYTHON is not set, so pyzmq is not asked");
    }
    python
}

pub(crate) struct Script {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl Script {
    pub(crate) fn start(python: &OsString, name: &str, arguments: &[&str]) -> Script {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/python/zmq");
        Script::spawn(Command::new(python).args(["-B", "-u"]).arg(folder.join(name)).args(arguments))
    }

    /// A program that is not among the examples.
    pub(crate) fn run(python: &OsString, program: &str, arguments: &[&str]) -> Script {
        Script::spawn(Command::new(python).args(["-B", "-u", "-c", program]).args(arguments))
    }

    fn spawn(command: &mut Command) -> Script {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("Python starts");
        let stdout = child.stdout.take().expect("its output");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Script { child, lines, seen: Vec::new() }
    }

    /// The next line that begins with this.
    pub(crate) fn line(&mut self, beginning: &str) -> String {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else {
                panic!("no line begins with {beginning:?}; there were {:?}", self.seen);
            };
            self.seen.push(line.clone());
            if line.starts_with(beginning) {
                return line;
            }
        }
    }

    /// Waits for the end: whether it went well, and everything it said.
    pub(crate) fn end(mut self) -> (bool, Vec<String>) {
        let deadline = Instant::now() + TIMEOUT;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().expect("it can be asked") {
                while let Ok(line) = self.lines.recv_timeout(Duration::from_secs(1)) {
                    self.seen.push(line);
                }
                return (status.success(), std::mem::take(&mut self.seen));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("it does not end; it said {:?}", self.seen);
    }

    /// `kill -9`.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it is gone");
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
