//! The audit log: what is in it, when it is written, and that it never stands in the hub's way.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::Value;
use tenure_hub::core::Core;
use tenure_hub::words::{
    Command, Held, Move, NewTask, Peer, Query, SessionId, Settings, TaskId, Timestamp, WorkerSpec,
};
use tenure_hub::{
    Ask, Audit, AuditLevel, Delivery, Done, Grant, HubRefusal, Keys, LogFile, Mailbox, Principal, Request,
    Response, Right, Rights, Stats, Submission,
};
use tenure_store::{JournalFrame, MemoryDisk, Opened, Parts, Store, StoreSettings, Writer};

/// A log in memory. It can be full, or hang.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    text: String,
    is_full: bool,
}

impl Log {
    fn set_full(&self, is_full: bool) {
        self.0.lock().unwrap().is_full = is_full;
    }

    fn text(&self) -> String {
        self.0.lock().unwrap().text.clone()
    }

    fn lines(&self) -> Vec<Value> {
        self.text().lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect()
    }

    fn acts(&self) -> Vec<String> {
        self.lines().iter().map(|line| format!("{} {}", word(line, "act"), word(line, "outcome"))).collect()
    }
}

impl LogFile for Log {
    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let mut inner = self.0.lock().unwrap();
        if inner.is_full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        inner.text.push_str(std::str::from_utf8(lines).expect("it is text"));
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A log whose disk never answers.
struct Hanging;

impl LogFile for Hanging {
    fn append(&mut self, _: &[u8]) -> io::Result<()> {
        loop {
            std::thread::park();
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn word<'a>(line: &'a Value, field: &str) -> &'a str {
    line[field].as_str().unwrap_or_default()
}

struct Bench {
    core: Core,
    writer: Writer,
    audit: Audit,
    now: Timestamp,
}

impl Bench {
    fn new(audit: Audit) -> Bench {
        let disk = Arc::new(MemoryDisk::new());
        let now = Timestamp(1_769_860_800_000);
        let opened = Store::open(disk, StoreSettings::default(), Settings::default(), now)
            .expect("an empty disk opens");
        let Opened { engine, store, .. } = opened;
        let Parts { batches, writer, maintenance, .. } = store.split();
        let mut core = Core::new(engine, batches, maintenance, Stats::default());
        core.audit_to(audit.clone());
        Bench { core, writer, audit, now }
    }

    fn session(&mut self, number: u64, key: &str, rights: Rights) -> Arc<Mailbox> {
        let mut keys = Keys::default();
        keys.add(key.as_bytes(), Grant { name: key.into(), rights, ..Grant::everything() });
        let grant = keys.admit(Some(key.as_bytes())).expect("it is known");
        self.open(number, grant)
    }

    fn open(&mut self, number: u64, grant: Arc<Grant>) -> Arc<Mailbox> {
        let mailbox = Arc::new(Mailbox::default());
        let peer = Peer { session: SessionId(number), namespace: "lab".into(), identity: "someone".into() };
        let principal =
            Principal { grant, door: "test", address: Some([10, 0, 0, 7].into()), is_broker: false };
        self.core.open(Arc::new(peer), principal, Arc::clone(&mailbox));
        mailbox
    }

    fn ask(&mut self, session: u64, request: Request) {
        self.core.take(self.now, SessionId(session), Ask { token: 1, request });
    }

    fn seal(&mut self) -> Option<JournalFrame> {
        let frame = self.core.seal();
        self.core.flush_outbox();
        frame
    }

    fn write(&mut self) {
        if let Some(frame) = self.seal() {
            let position = self.writer.append(&mut vec![frame], self.now).expect("the disk is fine");
            self.core.synced(self.now, position);
            self.core.flush_outbox();
        }
    }
}

fn submission(id: u128, queue: &str) -> Submission {
    Submission::new(NewTask::new(TaskId::from_u128(id), queue), Bytes::from_static(b"a secret body"))
}

fn last_reply(mailbox: &Mailbox) -> Result<Response, HubRefusal> {
    let mut deliveries = Vec::new();
    mailbox.take(&mut deliveries);
    let replies = deliveries.into_iter().filter_map(|delivery| match delivery {
        Delivery::Reply { reply, .. } => Some(reply),
        _ => None,
    });
    replies.last().expect("an answer")
}

#[test]
fn an_act_is_audited_with_who_did_it_once_it_is_on_disk() {
    let log = Log::default();
    let mut bench = Bench::new(Audit::with(Box::new(log.clone()), AuditLevel::Acts));
    bench.session(1, "ada", Rights::ALL);
    bench.ask(1, Request::Submit(vec![submission(7, "q")]));
    let frame = bench.seal().expect("a record");
    // Everything the log was given is in it now, and the task is not.
    let is_logged = || log.text().contains("submit");
    bench.audit.started("1.2.3");
    until("the log has the start", || log.text().contains("start"));
    assert!(!is_logged(), "{}", log.text());
    let position = bench.writer.append(&mut vec![frame], bench.now).expect("the disk is fine");
    bench.core.synced(bench.now, position);
    bench.core.flush_outbox();
    bench.audit.stopped();
    let lines = log.lines();
    let line = lines.iter().find(|line| line["act"] == "submit").expect("the log has the submission");
    let expected = serde_json::json!({
        "at": "2026-01-31T12:00:00.000Z", "act": "submit", "outcome": "done", "door": "test",
        "from": "10.0.0.7", "key": "ada", "namespace": "lab", "identity": "someone",
        "queue": "q", "task": TaskId::from_u128(7).to_string(),
    });
    assert_eq!(*line, expected);
    assert!(!log.text().contains("secret"), "{}", log.text());
}

#[test]
fn every_command_that_changes_something_is_audited_and_questions_are_not() {
    let log = Log::default();
    let mut bench = Bench::new(Audit::with(Box::new(log.clone()), AuditLevel::Acts));
    bench.session(1, "ada", Rights::ALL);
    let task = TaskId::from_u128(7);
    bench.ask(1, Request::Submit(vec![submission(7, "q"), submission(8, "r"), submission(7, "other")]));
    for command in [
        Command::Pause { task, reason: Some("a secret reason".into()), terminate: false },
        Command::Resume { task },
        Command::Move { task, to: Move { queue: Some("r".into()), ..Move::default() } },
        Command::Release { task },
        Command::Cancel { task, reason: None },
        Command::Retry { task },
        Command::SetLimit { tag: "gpu".into(), limit: Some(2) },
        Command::PauseQueue { queue: "q".into() },
        Command::ResumeQueue { queue: "q".into() },
        Command::SetThresholds { queue: "q".into(), thresholds: None },
        Command::DrainWorker { worker: "w".into() },
        Command::ClearWorker { worker: "w".into() },
        Command::Register(Box::new(WorkerSpec::new("w", vec!["z".into()], 1))),
        Command::Heartbeat { held: None, stats: None },
        Command::Drain,
        Command::Leave,
    ] {
        bench.ask(1, Request::Command(command));
    }
    bench.ask(1, Request::Query(Query::Workers));
    bench.ask(1, Request::Stats);
    bench.write();
    bench.audit.stopped();
    assert_eq!(
        log.acts(),
        [
            "submit partly",
            "pause done",
            "resume done",
            "move done",
            "release refused",
            "cancel done",
            "retry done",
            "set-limit done",
            "pause-queue done",
            "resume-queue done",
            "set-thresholds done",
            "drain-worker refused",
            "clear-worker refused",
            "register done",
            "drain done",
            "leave done",
            "stop done",
        ]
    );
    let lines = log.lines();
    assert_eq!(
        (&lines[0]["count"], &lines[0]["refused"], word(&lines[0], "code")),
        (&2.into(), &1.into(), "id-taken")
    );
    assert_eq!((word(&lines[3], "queue"), word(&lines[3], "task")), ("r", &*task.to_string()));
    assert_eq!((word(&lines[7], "tag"), &lines[7]["limit"]), ("gpu", &2.into()));
    assert_eq!((word(&lines[11], "target"), word(&lines[11], "code")), ("w", "unknown-worker"));
    assert_eq!((word(&lines[13], "target"), word(&lines[15], "worker")), ("w", "w"));
    assert!(!log.text().contains("secret"), "{}", log.text());
}

#[test]
fn reports_of_workers_are_audited_at_the_level_that_asks_for_them() {
    for (level, told) in
        [(AuditLevel::Acts, vec!["register"]), (AuditLevel::All, vec!["register", "start", "complete"])]
    {
        let log = Log::default();
        let mut bench = Bench::new(Audit::with(Box::new(log.clone()), level));
        bench.session(1, "worker", Rights::of(&[Right::Work]));
        bench.session(2, "client", Rights::of(&[Right::Submit]));
        bench
            .ask(1, Request::Command(Command::Register(Box::new(WorkerSpec::new("w", vec!["q".into()], 1)))));
        bench.ask(2, Request::Submit(vec![submission(7, "q")]));
        bench.write();
        let held = Held { task: TaskId::from_u128(7), attempt: 1 };
        bench.ask(1, Request::Command(Command::Start(vec![held])));
        bench.ask(1, Request::Complete(vec![Done { held, result: Bytes::from_static(b"a secret result") }]));
        bench.write();
        bench.audit.stopped();
        let lines = log.lines();
        let of_worker: Vec<&str> = lines
            .iter()
            .filter(|line| line["worker"] == "w" || line["target"] == "w")
            .map(|line| word(line, "act"))
            .collect();
        assert_eq!(of_worker, told);
        assert!(!log.text().contains("secret"), "{}", log.text());
    }
}

#[test]
fn a_missing_right_is_audited_whatever_was_asked_for() {
    let log = Log::default();
    let mut bench = Bench::new(Audit::with(Box::new(log.clone()), AuditLevel::Acts));
    bench.session(1, "nothing", Rights::NONE);
    for request in [
        Request::Query(Query::Workers),
        Request::Stats,
        Request::Submit(vec![submission(1, "q")]),
        Request::Command(Command::Heartbeat { held: None, stats: None }),
        Request::Backup { directory: "monday".into() },
    ] {
        bench.ask(1, request);
    }
    bench.write();
    bench.audit.stopped();
    let refused: Vec<_> = log.lines().into_iter().filter(|line| line["code"] == "not-allowed").collect();
    let acts: Vec<&str> = refused.iter().map(|line| word(line, "act")).collect();
    assert_eq!(acts, ["query", "stats", "submit", "heartbeat", "backup"]);
    assert_eq!(word(&refused[0], "why"), "this key may not read tasks, results and events");
    assert_eq!((word(&refused[0], "key"), word(&refused[0], "door")), ("nothing", "test"));
}

#[test]
fn an_address_that_a_door_keeps_for_itself_is_no_other_doors() {
    let log = Log::default();
    let mut bench = Bench::new(Audit::with(Box::new(log.clone()), AuditLevel::Acts));
    let mailbox = bench.session(1, "ada", Rights::ALL);
    let address: tenure_hub::words::Name = "mdp.partial/client-7".into();
    let call = Request::Call { address: address.clone(), body: Bytes::from_static(b"forged") };
    for request in [Request::Listen { address }, call] {
        bench.ask(1, request);
        bench.write();
        let refusal = last_reply(&mailbox).expect_err("it is the door's");
        assert_eq!(refusal.code(), "not-allowed");
    }
    bench.ask(1, Request::Listen { address: "client-7".into() });
    bench.write();
    assert!(last_reply(&mailbox).is_ok());
    bench.audit.stopped();
    assert_eq!(log.acts(), ["listen refused", "call refused", "stop done"]);
}

#[test]
fn a_log_that_is_full_or_hangs_costs_lines_and_nothing_else() {
    let log = Log::default();
    let mut bench = Bench::new(Audit::with(Box::new(log.clone()), AuditLevel::Acts));
    let mailbox = bench.session(1, "ada", Rights::ALL);
    log.set_full(true);
    bench.ask(1, Request::Submit(vec![submission(1, "q")]));
    bench.write();
    assert!(last_reply(&mailbox).is_ok());
    let counters = Arc::clone(bench.audit.counters());
    until("the writer has tried", || counters.get("lost") > 0);
    log.set_full(false);
    bench.audit.stopped();
    assert_eq!(log.acts(), ["lines-lost done", "stop done"]);
    assert_eq!((counters.get("lost"), &log.lines()[0]["count"]), (1, &1.into()));

    // More than fits into its queue.
    let mut bench = Bench::new(Audit::with(Box::new(Hanging), AuditLevel::Acts));
    let mailbox = bench.session(1, "ada", Rights::ALL);
    for number in 0..20_000 {
        let command = Command::SetLimit { tag: "t".into(), limit: Some(number) };
        bench.ask(1, Request::Command(command));
    }
    bench.write();
    assert!(last_reply(&mailbox).is_ok());
    let begun = Instant::now();
    bench.audit.stopped();
    assert!(begun.elapsed() < Duration::from_secs(30), "it does not wait for a disk that hangs");
}

#[test]
fn the_queues_of_a_key_are_limited_and_forgotten_ones_do_not_count() {
    let log = Log::default();
    let mut bench = Bench::new(Audit::with(Box::new(log), AuditLevel::Acts));
    let mut keys = Keys::default();
    keys.add(b"few", Grant { name: "few".into(), queues_max: Some(2), ..Grant::everything() });
    keys.add(b"many", Grant { name: "many".into(), ..Grant::everything() });
    let few = bench.open(1, keys.admit(Some(b"few")).unwrap());
    let many = bench.open(2, keys.admit(Some(b"many")).unwrap());
    let submit = |bench: &mut Bench, session, id, queue: &str| {
        bench.now = bench.now + Duration::from_millis(1);
        bench.ask(session, Request::Submit(vec![submission(id, queue)]));
        bench.write();
    };
    for (id, queue) in [(1, "a"), (2, "b"), (3, "a")] {
        submit(&mut bench, 1, id, queue);
        assert!(last_reply(&few).is_ok(), "{queue}");
    }
    submit(&mut bench, 1, 4, "c");
    let refusal = last_reply(&few).expect_err("it has two");
    assert_eq!(refusal.to_string(), "the broker is full: at most 2 queues of this key");
    let spec = WorkerSpec::new("w", vec!["a".into(), "d".into()], 1);
    bench.ask(1, Request::Command(Command::Register(Box::new(spec))));
    bench.write();
    assert_eq!(last_reply(&few).expect_err("it has two").code(), "full");
    submit(&mut bench, 2, 5, "c");
    assert!(last_reply(&many).is_ok(), "another key is not affected");
}

/// Looks again until it is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
