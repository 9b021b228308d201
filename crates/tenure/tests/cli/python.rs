//! The Python examples of the native door and of the older message dialect, written from the pages of the protocols
//! alone.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use crate::support::{Broker, TIMEOUT};

/// One script as a process of its own. It ends with the story.
struct Script {
    child: Child,
    lines: Receiver<String>,
}

impl Script {
    fn start(python: &OsString, name: &str, arguments: &[&str]) -> Script {
        Script::start_in("native", python, name, arguments)
    }

    /// The same in another folder of the examples.
    fn start_in(folder: &str, python: &OsString, name: &str, arguments: &[&str]) -> Script {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/python").join(folder);
        let mut command = Command::new(python);
        command.args(["-B", "-u"]).arg(folder.join(name)).args(arguments).stdout(Stdio::piped());
        let mut child = command.spawn().expect("Python starts");
        let stdout = child.stdout.take().expect("piped");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|line| sender.send(line).ok());
        });
        Script { child, lines }
    }

    /// The next line.
    #[track_caller]
    fn says(&self, beginning: &str) -> String {
        let line = self.lines.recv_timeout(TIMEOUT).expect("it says something");
        assert!(line.starts_with(beginning), "{line:?} does not begin with {beginning:?}");
        line
    }

    /// All that is left to say, and a good end.
    #[track_caller]
    fn ends(mut self) -> Vec<String> {
        let rest = self.lines.iter().collect();
        assert!(self.child.wait().expect("it ends").success());
        rest
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn python() -> Option<OsString> {
    let python = std::env::var_os("TENURE_THIRD_PARTY_PYTHON");
    if python.is_none() {
        eprintln!("TENURE_THIRD_PARTY_PYTHON is not set, so no third-party client is run");
    }
    python
}

#[test]
fn a_client_a_worker_and_a_watcher_in_python() {
    let Some(python) = python() else { return };
    let broker = Broker::start();
    let start = |name: &str, arguments: &[&str]| {
        Script::start(&python, name, &[&[broker.address.as_str()], arguments].concat())
    };
    let watcher = start("watch.py", &["shout", "--until", "completed"]);
    watcher.says("watching");
    watcher.says("live");
    let worker = start("worker.py", &["shout", "--tasks", "3"]);
    worker.says("registered");
    let client = start("submit.py", &["shout", "hello", "fail"]);
    client.says("submitted");
    client.says("submitted");
    worker.says("running 1 hello");
    worker.says("completed 1");
    worker.says("running 1 fail");
    let ended = client.ends();
    assert!(ended.iter().any(|line| line.ends_with("completed HELLO")), "{ended:?}");
    assert!(ended.iter().any(|line| line.ends_with("failed ")), "{ended:?}");
    // What the watcher heard live, another one hears from the first event on.
    let events = |script: Script| -> Vec<String> {
        script.ends().into_iter().filter(|line| line.starts_with("event")).collect()
    };
    let live = events(watcher);
    let kinds: Vec<&str> = live.iter().filter_map(|line| line.split(' ').nth(2)).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "submitted").count(), 2, "{live:?}");
    assert_eq!(kinds.last(), Some(&"completed"));
    assert!(live.last().unwrap().ends_with("python-worker"), "{live:?}");
    assert_eq!(events(start("watch.py", &["shout", "--from", "1", "--until", "completed"])), live);
    // The third task is cancelled under way.
    drop(worker);
    let worker = start("worker.py", &["shout", "--tasks", "1", "--seconds", "60", "--name", "another"]);
    worker.says("registered");
    let task = broker.tenure(&["submit", "--queue", "shout", "endless"]).ok();
    worker.says("running 1 endless");
    broker.tenure(&["cancel", task.trim()]).ok();
    assert_eq!(worker.ends(), ["wanted cancel"]);
    assert!(broker.tenure(&["show", task.trim()]).ok().contains("cancelled"));
}

#[test]
fn peers_in_python_call_each_other_and_broadcast() {
    let Some(python) = python() else { return };
    let broker = Broker::start();
    let start = |arguments: &[&str]| {
        Script::start(&python, "talk.py", &[&[broker.address.as_str()], arguments].concat())
    };
    assert_eq!(start(&["call", "desk", "hello"]).ends(), ["refused nobody-there"]);
    let desk = start(&["listen", "desk"]);
    desk.says("listening");
    assert_eq!(start(&["call", "desk", "hello"]).ends(), ["pending", "result HELLO"]);
    desk.says("called by python-call hello");
    assert_eq!(start(&["broadcast", "weather", "rain"]).ends(), ["receivers 0"]);
    let listener = start(&["hear", "weather"]);
    listener.says("hearing");
    assert_eq!(start(&["broadcast", "news", "none"]).ends(), ["receivers 1"]);
    assert_eq!(start(&["broadcast", "weather", "rain"]).ends(), ["receivers 1"]);
    assert_eq!(listener.ends(), ["broadcast weather python-broadcast rain"]);
}

#[test]
fn topics_in_python_and_a_subscriber_that_comes_back() {
    let Some(python) = python() else { return };
    let broker = Broker::start();
    let start = |arguments: &[&str]| {
        Script::start(&python, "topics.py", &[&[broker.address.as_str()], arguments].concat())
    };
    let subscriber = start(&["sub", "sensor.*", "--id", "archive", "--count", "2"]);
    subscriber.says("subscribed archive missed 0");
    assert_eq!(
        start(&["pub", "sensor.kitchen", "21.5", "22.0", "22.5"]).ends(),
        ["published 1 receivers 1", "published 2 receivers 1", "published 3 receivers 1"]
    );
    assert_eq!(subscriber.ends(), ["live sensor.kitchen 1 21.5", "live sensor.kitchen 2 22.0"]);
    // It had acknowledged the first, and neither the second nor the third, which it may have been sent.
    start(&["pub", "sensor.kitchen", "23.0"]).ends();
    let back = start(&["sub", "sensor.*", "--id", "archive", "--count", "3"]).ends();
    let replayed = |number: u64, payload: &str| format!("replay sensor.kitchen {number} {payload}");
    assert_eq!(back[1..], [replayed(2, "22.0"), replayed(3, "22.5"), replayed(4, "23.0")], "{back:?}");
    assert_eq!(start(&["pub", "bad.*", "x"]).ends(), ["refused topic-name-wildcard"]);
    assert_eq!(start(&["ask", "time"]).ends(), ["refused no-responders"]);
    let clock = start(&["answer", "time", "noon"]);
    clock.says("subscribed");
    assert_eq!(start(&["ask", "time"]).ends(), ["answer noon"]);
}

#[test]
fn a_worker_and_an_actioner_of_the_older_dialect_in_python() {
    let Some(python) = python() else { return };
    let broker = Broker::start_with(&["--xmessage", "127.0.0.1:0"]);
    let address = broker.doors["xmessage"].as_str().unwrap();
    let start = |name: &str, arguments: &[&str]| {
        Script::start_in("xmessage", &python, name, &[&[address], arguments].concat())
    };
    let actioner = |arguments: &[&str]| start("actioner.py", arguments).ends();
    let add = |arguments: &[&str]| {
        let said = actioner(&[&["add"], arguments].concat()).concat();
        said["Add task id=".len()..][..36].to_owned()
    };
    let asynchronous = add(&["a", "--type", "async"]);
    let good = add(&["b", "--type", "sync", "--priority", "7"]);
    let bad = add(&["fail:3"]);
    assert_eq!(actioner(&["play", "-a"]), ["Launching all 3 created tasks."]);
    let worker = start("worker.py", &["--name", "node-1", "--slots", "1", "--type", "sync", "--tasks", "2"]);
    worker.says("ready");
    worker.says(&format!("running {good} b"));
    worker.says(&format!("ended {good} 0"));
    worker.says(&format!("running {bad} fail:3"));
    assert_eq!(worker.ends(), [format!("ended {bad} 3")]);
    let table = actioner(&["list", "Terminated=0", "Terminated=3", "Ready"]).join("\n");
    for (task, state) in [(&good, "Terminated(0)"), (&bad, "Terminated(3)"), (&asynchronous, "Ready")] {
        let row = table.lines().find(|line| line.starts_with(task.as_str())).unwrap_or_default();
        assert!(row.contains(state), "{table}");
    }

    // A worker that says nothing but its role takes every type, and obeys a kill.
    let worker = start("worker.py", &["--seconds", "60", "--tasks", "1"]);
    worker.says("ready");
    worker.says(&format!("running {asynchronous} a"));
    crate::support::eventually("it runs", || broker.state(&asynchronous) == "running");
    assert_eq!(actioner(&["kill", &asynchronous]), [format!("Kill task uuid={asynchronous}.")]);
    assert_eq!(worker.ends(), [format!("ended {asynchronous} -1")]);
    assert_eq!(broker.state(&asynchronous), "cancelled");
}
