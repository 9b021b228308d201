//! Majordomo programs from package registries, unchanged, against a real broker: `majortomo` speaks MDP/0.2 with a
//! leading empty frame.

mod support;

use std::ffi::OsString;
use std::time::Duration;

use support::broker::Broker;
use support::python::{Script, python};
use tenure_door_zmq::{PingPongSettings, Settings};

/// Serves one service. A request `parts` is answered in three parts.
const WORKER: &str = "
import sys
from majortomo import Worker, error
worker = Worker(sys.argv[1], sys.argv[2], heartbeat_interval=0.2, heartbeat_timeout=2.0)
worker.connect()
print('ready')
while True:
    try:
        client, request = worker.wait_for_request()
    except error.Disconnected:
        worker.connect()
        continue
    print('working', len(request))
    if request == [b'parts']:
        worker.send_reply_from_iterable(client, [[b'one'], [b'two', b'2']], final=[b'three'])
    else:
        worker.send_reply_final(client, [frame.upper() for frame in request])
";

/// Sends each argument as a request and prints the frames of each part of its reply.
const CLIENT: &str = "
import sys
from majortomo import Client
with Client(sys.argv[1]) as client:
    for request in sys.argv[3:]:
        client.send(sys.argv[2], *(frame.encode() for frame in request.split('/')))
        print('|'.join(','.join(frame.decode() for frame in part) for part in client.recv_all(timeout=15)))
";

/// The interpreter, if it has the package.
fn majortomo() -> Option<OsString> {
    let python = python()?;
    assert!(
        Script::run(&python, "import majortomo", &[]).end().0,
        "the package is among the third-party clients"
    );
    Some(python)
}

fn start(python: &OsString, program: &str, broker: &Broker, arguments: &[&str]) -> Script {
    let address = format!("tcp://{}", broker.mdp);
    Script::run(python, program, &[&[address.as_str()], arguments].concat())
}

#[test]
fn majortomo_clients_and_workers_understand_the_broker_and_each_other() {
    let Some(python) = majortomo() else { return };
    let broker = Broker::start();
    let mut worker = start(&python, WORKER, &broker, &["echo"]);
    worker.line("ready");
    let (went_well, said) = start(&python, CLIENT, &broker, &["echo", "hello", "a/b/c", "parts"]).end();
    assert!(went_well);
    assert_eq!(said, ["HELLO", "A,B,C", "one|two,2|three"]);
    let (went_well, said) = start(&python, CLIENT, &broker, &["mmi.service", "echo", "nothing"]).end();
    assert!(went_well);
    assert_eq!(said, ["200", "404"]);
}

#[test]
fn majortomo_and_the_older_version_serve_each_other() {
    let Some(python) = majortomo() else { return };
    let broker = Broker::start();
    let address = format!("tcp://{}", broker.mdp);
    let mut worker = start(&python, WORKER, &broker, &["new"]);
    worker.line("ready");
    let (went_well, said) =
        Script::start(&python, "mdp_client.py", &["new", "hello", "--broker", &address]).end();
    assert!(went_well);
    assert_eq!(said, ["HELLO"]);
    let mut older = Script::start(&python, "mdp_worker.py", &["old", "--broker", &address]);
    older.line("ready");
    let (went_well, said) = start(&python, CLIENT, &broker, &["old", "hello"]).end();
    assert!(went_well);
    assert_eq!(said, ["HELLO"]);
}

#[test]
fn majortomo_workers_come_back_after_a_restart_of_the_broker_and_crash_without_losing_a_request() {
    let Some(python) = majortomo() else { return };
    let settings = Settings { heartbeat: Duration::from_millis(200), ..Settings::default() };
    let broker = Broker::with(settings, PingPongSettings::default());
    let mut worker = start(&python, WORKER, &broker, &["echo"]);
    worker.line("ready");
    let broker = broker.restart();
    let (went_well, said) = start(&python, CLIENT, &broker, &["echo", "hello"]).end();
    assert!(went_well);
    assert_eq!(said, ["HELLO"]);
    worker.kill();
    let client = start(&python, CLIENT, &broker, &["echo", "again"]);
    let mut next = start(&python, WORKER, &broker, &["echo"]);
    next.line("working");
    let (went_well, said) = client.end();
    assert!(went_well);
    assert_eq!(said, ["AGAIN"]);
}
