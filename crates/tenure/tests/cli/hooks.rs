//! Hooks: the configuration, the deliveries of a real broker, and the receiver of the documentation in Python.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Broker, TIMEOUT, program, run};

const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// The example in Python. It ends with the story.
struct Script {
    child: Child,
    lines: Receiver<String>,
}

impl Script {
    /// `None` on a machine without Python.
    fn start(secret: &str) -> Option<Script> {
        let python = std::env::var_os("TENURE_THIRD_PARTY_PYTHON").unwrap_or_else(|| "python3".into());
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/python/webhook/receiver.py");
        let mut command = Command::new(python);
        command.arg("-B").arg(file).arg(secret).stdout(Stdio::piped()).stderr(Stdio::null());
        let Ok(mut child) = command.spawn() else {
            eprintln!("there is no Python, so the example does not run");
            return None;
        };
        let stdout = child.stdout.take().expect("piped");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|line| sender.send(line).ok());
        });
        Some(Script { child, lines })
    }

    fn says(&self) -> String {
        self.lines.recv_timeout(TIMEOUT).expect("it says something")
    }

    fn url(&self) -> String {
        let line = self.says();
        format!("http://127.0.0.1:{}/hook", line.strip_prefix("listening ").expect("a port"))
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A broker with this configuration.
fn broker(dir: &Path, config: &str) -> Broker {
    let data = dir.join("data");
    std::fs::create_dir_all(&data).expect("a directory");
    std::fs::write(data.join("tenure.toml"), config).expect("it is written");
    Broker::start_in(&data, &["--http", "127.0.0.1:0"])
}

fn hooks(broker: &Broker) -> Value {
    broker.tenure(&["hooks", "-o", "json"]).json()
}

/// Waits until the first hook is so.
fn until(broker: &Broker, is_so: impl Fn(&Value) -> bool) -> Value {
    let begun = Instant::now();
    loop {
        let all = hooks(broker);
        let first = all[0].clone();
        if is_so(&first) {
            return first;
        }
        assert!(begun.elapsed() < TIMEOUT, "{all}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn begun(broker: &Broker) {
    until(broker, |hook| hook["next_event"].as_u64() > Some(0));
}

#[test]
fn a_receiver_in_python_checks_the_signature_and_a_killed_broker_forgets_no_event() {
    let Some(script) = Script::start(SECRET) else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let config = format!(
        "[[webhooks]]\nname = \"ops\"\nurl = \"{}\"\nevents = [\"submitted\"]\nqueues = [\"gpu\"]\nsecret = \"{SECRET}\"\n",
        script.url()
    );
    let mut first = broker(dir.path(), &config);
    begun(&first);
    first.tenure(&["submit", "--queue", "cpu", "--", "true"]).ok();
    first.tenure(&["submit", "--queue", "gpu", "--", "true"]).ok();
    assert!(script.says().starts_with("event submitted gpu ops-"));
    let hook = until(&first, |hook| hook["delivered"] == 1);
    assert_eq!((&hook["kind"], &hook["undelivered"]), (&"webhook".into(), &0.into()));
    assert!(!hook.to_string().contains(SECRET));

    // It may die before it has delivered, or before it has written down that it has.
    first.tenure(&["submit", "--queue", "gpu", "--", "true"]).ok();
    first.child.kill().expect("it dies");
    first.child.wait().expect("it is gone");
    drop(first);
    let second = broker(dir.path(), &config);
    second.tenure(&["submit", "--queue", "gpu", "--", "true"]).ok();
    let mut seen = std::collections::BTreeSet::new();
    while seen.len() < 2 {
        seen.insert(script.says());
    }
    assert!(seen.iter().all(|line| line.starts_with("event submitted gpu ops-")), "{seen:?}");
}

#[test]
fn what_a_hook_gave_up_is_listed_and_sent_again_by_the_command_line() {
    let dir = tempfile::tempdir().expect("a directory");
    let (flag, out) = (dir.path().join("flag"), dir.path().join("out"));
    let script = format!("test -e {} && cat > {}", flag.display(), out.display());
    let config = format!(
        "[[on_event]]\nname = \"local\"\ncommand = [\"/bin/sh\", \"-c\", \"{script}\"]\nevents = [\"submitted\"]\n\
         attempts = 2\nbackoff_first = \"1ms\"\n"
    );
    let broker = broker(dir.path(), &config);
    begun(&broker);
    broker.tenure(&["submit", "--", "true"]).ok();
    let hook = until(&broker, |hook| hook["undelivered"] == 1);
    assert_eq!((&hook["failed_attempts"], &hook["given_up"]), (&2.into(), &1.into()));
    assert!(broker.tenure(&["hooks"]).ok().contains("local"));
    let given_up = broker.tenure(&["hooks", "undelivered", "local", "-o", "json"]).json();
    assert_eq!(given_up[0]["body"]["event"]["kind"], "submitted");
    assert!(
        given_up[0]["error"].as_str().is_some_and(|error| error.contains("exit status: 1")),
        "{given_up}"
    );
    assert!(broker.log.so_far().contains("a hook gave up an event"), "{}", broker.log.so_far());

    broker.tenure(&["hooks", "redeliver", "local", "--event", "999999"]).fails(76, "undelivered");
    broker.tenure(&["hooks", "redeliver", "nothing"]).fails(76, "there is no hook nothing");
    std::fs::write(&flag, "").expect("it is written");
    let seq = given_up[0]["seq"].to_string();
    let again = broker.tenure(&["hooks", "redeliver", "local", "--event", &seq, "-o", "json"]).json();
    assert_eq!(again["events"], 1);
    until(&broker, |hook| hook["undelivered"] == 0 && hook["delivered"] == 1);
    assert!(std::fs::read_to_string(&out).expect("the command ran").contains("\"submitted\""));
}

#[test]
fn the_configuration_of_hooks_is_checked_and_shown_without_secrets() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("my.toml");
    let path = file.to_str().expect("a path");
    std::fs::write(&file, "[[webhooks]]\nname = \"ops\"\nurl = \"ops.example.org\"\nevents = [\"crash\"]\n")
        .unwrap();
    run(program(&["config", "check", "--config", path])).fails(64, "webhooks, entry 1");
    let config =
        format!("[[webhooks]]\nname = \"ops\"\nurl = \"http://h/?t=t0ken\"\nsecret = \"{SECRET}\"\n");
    std::fs::write(&file, config).unwrap();
    run(program(&["config", "check", "--config", path])).ok();
    let shown = run(program(&["config", "show", "--config", path])).ok();
    assert!(shown.contains("hook: ops (webhook) to http://h/ in namespace default"), "{shown}");
    assert!(!shown.contains(SECRET) && !shown.contains("t0ken"), "{shown}");
}
