//! Majordomo and READY/PING/PONG. Many of their messages have no answer, so the broker is asked what came of them: a
//! task, a worker, or one refusal more.

use std::net::SocketAddr;
use std::time::Instant;

use tenure_door_zmq::mdp::{Mmi, Notify, WorkerMessage};
use tenure_door_zmq::pingpong::FromWorker;
use tenure_hub::words::Command;
use tenure_wire::value::Value;

use super::what::{TASK, What, names};
use super::{Findings, Holder, Row, Verdict};
use crate::peers::MessagePack;
use crate::peers::zmtp::Wire;
use crate::support::{Broker, TIMEOUT};

/// What is sent, and how it is found out what came of it.
enum Example {
    /// Answered: 403 is a refusal.
    Question(&'static [&'static str]),
    /// What a client says; `QUEUE` stands for the queue in which its task turns up.
    Submission(Door, &'static [&'static str]),
    /// Messages of a worker, of which the last registers it.
    Worker(Door, &'static [&'static [&'static str]]),
}

#[derive(Clone, Copy)]
enum Door {
    Majordomo,
    PingPongClients,
    PingPongWorkers,
}

names!(QUESTIONS, question_name(Mmi) {
    Mmi::Service { .. } => "mmi.service",
    Mmi::List { .. } => "mmi.list",
    Mmi::Status => "mmi.status",
    Mmi::Job { .. } => "mmi.job",
    Mmi::Cancel { .. } => "mmi.cancel",
    Mmi::ListServices => "mmi.list_services",
    Mmi::Workers => "mmi.workers",
    Mmi::Health => "mmi.health",
    Mmi::Notify(Notify::On { after: None }) => "mmi.notify on",
    Mmi::Notify(Notify::On { after: Some(_) }) => "mmi.notify on, with what was missed",
    Mmi::Notify(Notify::Off) => "mmi.notify off",
    Mmi::Notify(Notify::After(_)) => "mmi.notify after",
    Mmi::Malformed => "a malformed question",
    Mmi::Unknown => "an unknown question",
});

names!(MAJORDOMO_WORKERS, worker_message_name(WorkerMessage) {
    WorkerMessage::Ready { .. } => "READY",
    WorkerMessage::Partial { .. } => "PARTIAL",
    WorkerMessage::Reply { .. } => "REPLY",
    WorkerMessage::Heartbeat { .. } => "HEARTBEAT",
    WorkerMessage::Disconnect => "DISCONNECT",
    WorkerMessage::Joining => "READY with processes",
    WorkerMessage::Processes(_) => "PROCESSES",
    WorkerMessage::Finished { .. } => "READY with a thread",
});

names!(PING_PONG_WORKERS, ping_pong_name(FromWorker) {
    FromWorker::Ready => "READY (PING/PONG)",
    FromWorker::Ping => "PING (PING/PONG)",
    FromWorker::Result { .. } => "a result (PING/PONG)",
});

/// A request of a client, in each dialect.
const REQUESTS: [&str; 4] = ["a request (0.1)", "a request (0.2)", "a request (_PL)", "work (PING/PONG)"];

pub(super) fn examine(broker: &Broker, findings: &mut Findings) {
    // The compiler sees to it that the lists are whole.
    let _ = (question_name, worker_message_name, ping_pong_name);
    let verbs: Vec<String> = [QUESTIONS, MAJORDOMO_WORKERS, PING_PONG_WORKERS, &REQUESTS]
        .concat()
        .into_iter()
        .map(str::to_owned)
        .collect();
    let mut scene = Scene::new(broker);
    findings.examine("ZeroMQ", &verbs, &rows(), |holder, example| scene.play(holder, example));
}

struct Scene {
    majordomo: SocketAddr,
    clients: SocketAddr,
    workers: SocketAddr,
    /// Sees everything, through another door.
    observer: MessagePack,
    number: u64,
}

impl Scene {
    fn new(broker: &Broker) -> Scene {
        let all = super::holders().pop().expect("a key with all rights");
        let (clients, workers) = broker.doors["pingpong"].as_str().unwrap().split_once(',').unwrap();
        Scene {
            majordomo: broker.doors["mdp"].as_str().unwrap().parse().unwrap(),
            clients: clients.parse().unwrap(),
            workers: workers.parse().unwrap(),
            observer: MessagePack::native(&broker.address, &all.key),
            number: 0,
        }
    }

    fn play(&mut self, holder: &Holder, example: &Example) -> Result<Verdict, String> {
        self.number += 1;
        let identity = format!("zmq-{}", self.number);
        let connect = |address| Wire::plain_named(address, holder.name, &holder.key, identity.as_bytes());
        match example {
            Example::Question(frames) => {
                let mut wire = connect(self.majordomo);
                wire.send(frames);
                let answer = wire.texts();
                if answer.last().is_some_and(|code| code == "400" || code == "501")
                    != frames.contains(&"wrong")
                {
                    return Err(format!("this is no example: {answer:?}"));
                }
                Ok(if answer.iter().any(|part| part == "403") { Verdict::Refused } else { Verdict::Allowed })
            }
            Example::Submission(door, frames) => {
                let mut wire = connect(self.address(*door));
                let before = self.tasks(&identity);
                let refused = self.refused();
                // The ping-pong door has one queue, so the submitter identifies its work.
                let frames: Vec<Vec<u8>> = frames.iter().map(|part| spell(part, &identity)).collect();
                wire.send(&frames);
                self.find_out(refused, |scene| scene.tasks(&identity) > before)
            }
            Example::Worker(door, messages) => {
                let mut wire = connect(self.address(*door));
                let refused = self.refused();
                messages.iter().for_each(|frames| wire.send(frames));
                let verdict = self.find_out(refused, |scene| scene.has_worker(&identity));
                drop(wire);
                verdict
            }
        }
    }

    fn address(&self, door: Door) -> SocketAddr {
        match door {
            Door::Majordomo => self.majordomo,
            Door::PingPongClients => self.clients,
            Door::PingPongWorkers => self.workers,
        }
    }

    /// Waits until it was done, or until one refusal more was counted.
    fn find_out(
        &mut self,
        refused: f64,
        mut is_done: impl FnMut(&mut Scene) -> bool,
    ) -> Result<Verdict, String> {
        let begun = Instant::now();
        while begun.elapsed() < TIMEOUT {
            if is_done(self) {
                return Ok(Verdict::Allowed);
            }
            if self.refused() > refused {
                return Ok(Verdict::Refused);
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        Err("neither done nor refused".to_owned())
    }

    fn tasks(&mut self, submitter: &str) -> usize {
        let answer = self.observer.ask(2, &format!(r#"[2, "list", {{"submitter": "{submitter}"}}]"#));
        answer.to_string().matches("\"queue\"").count()
    }

    fn has_worker(&mut self, identity: &str) -> bool {
        let answer = self.observer.ask(3, r#"[3, "workers", {}]"#);
        answer.to_string().contains(&format!("\"{identity}\""))
    }

    /// How many messages the doors have refused.
    fn refused(&mut self) -> f64 {
        let answer = self.observer.ask(4, r#"[4, "stats", {}]"#);
        let Value::List(parts) = answer else { panic!("{answer}") };
        let Some(Value::Map(fields)) = parts.into_iter().nth(2) else { panic!("no figures") };
        let Some((_, Value::List(figures))) = fields.into_iter().next() else { panic!("no figures") };
        let counts = figures.into_iter().filter_map(|figure| match figure {
            Value::List(pair) => match &pair[..] {
                [Value::Text(name), Value::Float(count)] if counts_refusals(name) => Some(*count),
                _ => None,
            },
            _ => None,
        });
        counts.sum()
    }
}

/// A frame as it travels. The table of keys and the call are CBOR.
fn spell(part: &str, queue: &str) -> Vec<u8> {
    match part {
        "TABLE" => b"\xa1\x01eJobID".to_vec(),
        "CALL" => b"\xa1\x01ax".to_vec(),
        _ => part.replace("QUEUE", queue).into_bytes(),
    }
}

fn counts_refusals(figure: &str) -> bool {
    ["mdp", "pingpong"].iter().any(|door| figure.contains(door)) && figure.contains("not-allowed")
}

fn rows() -> Vec<Row<Example>> {
    use Door::{Majordomo, PingPongClients, PingPongWorkers};
    use Example::{Question, Submission, Worker};
    const READY: &[&str] = &["", "MDPW01", "\x01", "nothing"];
    let cancel = || What::command(Command::Cancel { task: TASK, reason: None });
    let manage = || What::command(Command::ClearWorker { worker: "w".into() });
    let beat = || What::command(Command::Heartbeat { held: None, stats: None });
    let rows = [
        (
            "mmi.service",
            What::either(What::submit(), What::read()),
            Question(&["", "MDPC01", "mmi.service", "s"]),
        ),
        ("mmi.list", What::read(), Question(&["", "MDPC01", "mmi.list"])),
        ("mmi.list", What::read(), Question(&["", "MDPC01", "mmi.list", "s"])),
        ("mmi.status", What::submit(), Question(&["", "MDPC01", "mmi.status"])),
        // With `submit` alone it answers for jobs of this client.
        ("mmi.job", What::either(What::submit(), What::read()), Question(&["", "MDPC01", "mmi.job", "j"])),
        ("mmi.cancel", cancel(), Question(&["", "MDPC01", "mmi.cancel"])),
        ("mmi.cancel", What::both(cancel(), manage()), Question(&["", "MDPC01", "mmi.cancel", "other"])),
        ("mmi.list_services", What::read(), Question(&["", "MDPC01", "mmi.list_services"])),
        ("mmi.workers", What::read(), Question(&["", "MDPC01", "mmi.workers"])),
        ("mmi.health", What::read(), Question(&["", "MDPC01", "mmi.health"])),
        ("mmi.notify on", What::submit(), Question(&["", "MDPC01", "mmi.notify", "on"])),
        (
            "mmi.notify on, with what was missed",
            What::watch(),
            Question(&["", "MDPC01", "mmi.notify", "on", "0"]),
        ),
        ("mmi.notify off", What::submit(), Question(&["", "MDPC01", "mmi.notify", "off"])),
        ("mmi.notify after", What::watch(), Question(&["", "MDPC01", "mmi.notify", "0"])),
        ("a malformed question", What::Protocol, Question(&["", "MDPC01", "mmi.notify", "wrong"])),
        ("an unknown question", What::Protocol, Question(&["", "MDPC01", "mmi.nothing", "wrong"])),
        ("a request (0.1)", What::submit(), Submission(Majordomo, &["", "MDPC01", "QUEUE", "x"])),
        ("a request (0.2)", What::submit(), Submission(Majordomo, &["MDPC02", "\x01", "QUEUE", "x"])),
        (
            "a request (_PL)",
            What::submit(),
            Submission(Majordomo, &["", "MDPC01_PL", "QUEUE", "TABLE", "CALL"]),
        ),
        ("READY", What::register(), Worker(Majordomo, &[READY])),
        ("READY", What::register(), Worker(Majordomo, &[&["MDPW02", "\x01", "nothing"]])),
        (
            "PROCESSES",
            What::register(),
            Worker(Majordomo, &[&["", "MDPW01_PL", "\x06", "1", "name", r#"{"Path":"nothing"}"#]]),
        ),
        // None of these is a way around READY.
        ("PARTIAL", What::complete(), Worker(Majordomo, &[&["MDPW02", "\x03", "a", "", "x"], READY])),
        ("REPLY", What::complete(), Worker(Majordomo, &[&["", "MDPW01", "\x03", "a", "", "x"], READY])),
        ("HEARTBEAT", beat(), Worker(Majordomo, &[&["", "MDPW01", "\x04"], READY])),
        ("DISCONNECT", What::command(Command::Leave), Worker(Majordomo, &[&["", "MDPW01", "\x05"], READY])),
        (
            "READY with processes",
            What::register(),
            Worker(Majordomo, &[&["", "MDPW01_PL", "\x01", "processes"], READY]),
        ),
        (
            "READY with a thread",
            What::complete(),
            Worker(Majordomo, &[&["", "MDPW01_PL", "\x01", "c", "0", "x"], READY]),
        ),
        ("READY (PING/PONG)", What::register(), Worker(PingPongWorkers, &[&["", "READY"]])),
        ("PING (PING/PONG)", What::register(), Worker(PingPongWorkers, &[&["", "PING"]])),
        ("a result (PING/PONG)", What::complete(), Worker(PingPongWorkers, &[&["", "x"]])),
        // After its workers have come and gone: a worker that leaves with a job must say READY when it comes back.
        ("work (PING/PONG)", What::submit(), Submission(PingPongClients, &["", "x"])),
    ];
    rows.into_iter().map(|(verb, what, example)| Row { verb, what, example }).collect()
}
