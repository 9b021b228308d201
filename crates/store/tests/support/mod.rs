//! A small broker around a store: the real engine, a hub of a few lines, and a memory of what was acknowledged, so that
//! a story can crash it anywhere and then ask whether everything that was promised is there.
#![allow(dead_code, unreachable_pub, reason = "each story uses a part of it")]

pub mod lived;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tenure_engine::command::Completion;
use tenure_engine::notice::Notice;
use tenure_engine::{
    Blob, Change, Command, Engine, Event, Held, NewTask, Output, Peer, SessionId, Settings, StateName,
    TaskId, Timestamp, Which, WorkerSpec,
};
use tenure_store::{
    AppendError, Batches, Disk, JournalFrame, MemoryDisk, OpenReport, Opened, Pace, Parts, Store, StoreError,
    StoreSettings,
};

pub const NOW: Timestamp = Timestamp(1_700_000_000_000);

/// One task as an outsider sees it, with its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub state: StateName,
    pub attempt: u32,
    pub body: Vec<u8>,
    pub result: Vec<u8>,
}

/// All tasks at one moment.
pub type Picture = BTreeMap<TaskId, Seen>;

pub struct Broker {
    pub disk: MemoryDisk,
    pub engine: Engine,
    pub parts: Parts,
    pub report: OpenReport,
    pub now: Timestamp,
    /// Sealed, not yet appended.
    pub frames: Vec<JournalFrame>,
    /// What workers have been given and have not finished.
    pub held: VecDeque<Held>,
    /// The bytes of every task that was ever submitted here.
    known: BTreeMap<TaskId, (Vec<u8>, Vec<u8>)>,
    next_id: u128,
}

/// Small files, so that a short story passes through everything.
pub fn small() -> StoreSettings {
    StoreSettings {
        segment_bytes: 1500,
        snapshot_bytes: 3000,
        snapshot_slice: 3,
        clean_slice_bytes: 200,
        cache_bytes: 600,
        seed: 7,
        ..StoreSettings::default()
    }
}

pub fn few_ended() -> Settings {
    Settings { ended_kept: 4, ..Settings::default() }
}

impl Broker {
    pub fn open(disk: &MemoryDisk) -> Result<Broker, StoreError> {
        Broker::open_with(disk, small(), few_ended())
    }

    pub fn open_with(
        disk: &MemoryDisk,
        settings: StoreSettings,
        engine: Settings,
    ) -> Result<Broker, StoreError> {
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        Store::open(shared, settings, engine, NOW).map(|opened| Broker::of(disk, opened))
    }

    /// The broker of a store that is open already.
    pub fn of(disk: &MemoryDisk, opened: Opened) -> Broker {
        let Opened { engine, store, report } = opened;
        let next_id = u128::from(engine.last_event()) << 32;
        Broker {
            disk: disk.clone(),
            engine,
            parts: store.split(),
            report,
            now: NOW,
            frames: Vec::new(),
            held: VecDeque::new(),
            known: BTreeMap::new(),
            next_id,
        }
    }

    /// A worker that takes whatever comes.
    pub fn register_worker(&mut self) {
        let spec = WorkerSpec::new("w1", vec!["q".into()], 3);
        self.ask(1, Command::Register(Box::new(spec)));
    }

    pub fn submit(&mut self, body: &[u8]) -> TaskId {
        self.next_id += 1;
        let id = TaskId::from_u128(self.next_id);
        self.known.insert(id, (body.to_vec(), Vec::new()));
        let body = self.parts.batches.blob(body);
        self.ask(2, Command::Submit(vec![NewTask { body, ..NewTask::new(id, "q") }]));
        id
    }

    /// The worker starts what it was given first.
    pub fn start(&mut self) -> Option<Held> {
        let held = self.held.front().copied()?;
        self.ask(1, Command::Start(vec![held]));
        Some(held)
    }

    /// The worker completes what it was given first.
    pub fn complete(&mut self, result: &[u8]) -> Option<TaskId> {
        let held = self.held.pop_front()?;
        self.known.get_mut(&held.task)?.1 = result.to_vec();
        let result = self.parts.batches.blob(result);
        self.ask(1, Command::Complete(vec![Completion { held, result }]));
        Some(held.task)
    }

    pub fn ask(&mut self, session: u64, command: Command) {
        let peer = Peer { session: SessionId(session), namespace: "default".into(), identity: "lab".into() };
        let mut out = Journaling { batches: &mut self.parts.batches, held: &mut self.held };
        self.engine.handle(self.now, &peer, command, &mut out).expect("the story asks for what is allowed");
    }

    pub fn tick(&mut self, later: Duration) {
        self.now = self.now + later;
        let mut out = Journaling { batches: &mut self.parts.batches, held: &mut self.held };
        self.engine.tick(self.now, &mut out);
    }

    /// Seals the open batch without writing it.
    pub fn seal(&mut self) {
        self.frames.extend(self.parts.batches.seal());
    }

    /// Seals, appends and syncs.
    pub fn commit(&mut self) -> Result<(), AppendError> {
        self.seal();
        self.parts.writer.append(&mut self.frames, self.now).map(|_| ())
    }

    /// One turn of maintenance and of the maintenance thread.
    pub fn maintain(&mut self) -> Pace {
        let pace = self.parts.maintenance.turn(&mut self.engine, &mut self.parts.batches, self.now);
        self.parts.maintenance_thread.turn();
        pace
    }

    /// Lets maintenance come to rest.
    pub fn rest(&mut self) {
        for _ in 0..100_000 {
            let pace = self.maintain();
            if !self.parts.batches.is_empty() {
                self.commit().expect("nothing fails here");
            }
            self.parts.writer.tick(self.now).expect("nothing fails here");
            if pace == Pace::Idle {
                return;
            }
        }
        panic!("maintenance never comes to rest");
    }

    pub fn take_snapshot(&mut self) {
        self.commit().expect("nothing fails here");
        self.parts.maintenance.ask_for_snapshot();
        self.rest();
    }

    /// How long the file of the first segment is without the zeros behind its frames, if it is the only one.
    pub fn journal_len(&self) -> usize {
        40 + usize::try_from(self.parts.batches.position()).unwrap()
    }

    /// Every task with its bytes. Only for what is acknowledged: the rest cannot be read yet.
    pub fn picture(&self) -> Picture {
        self.try_picture().expect("what is acknowledged can be read")
    }

    /// The same from memory alone, whether it is written yet or not. For tasks that were submitted to this very broker.
    pub fn expected(&self) -> Picture {
        let mut picture = Picture::new();
        self.engine.scan_tasks(None, usize::MAX, &mut |task, _, _| {
            let (body, result) = self.known[&task.id].clone();
            let result = if task.state.end().is_some() { result } else { Vec::new() };
            picture.insert(task.id, Seen { state: task.state.name(), attempt: task.attempt, body, result });
        });
        picture
    }

    pub fn try_picture(&self) -> Result<Picture, tenure_store::ReadError> {
        let mut tasks = Vec::new();
        self.engine.scan_tasks(None, usize::MAX, &mut |task, _, _| {
            let (body, result) = (Which::Body.of(task), Which::Result.of(task));
            tasks.push((task.id, task.state.name(), task.attempt, body, result));
        });
        let mut picture = Picture::new();
        for (id, state, attempt, body, result) in tasks {
            let body = self.parts.reader.read(body)?.to_vec();
            let result = self.parts.reader.read(result)?.to_vec();
            picture.insert(id, Seen { state, attempt, body, result });
        }
        Ok(picture)
    }

    /// All events that are kept, with the number of the first.
    pub fn history(&self, from: u64) -> (u64, Vec<Event>) {
        let (mut first, mut next, mut all) = (from, from, Vec::new());
        loop {
            match self.parts.reader.events(next, 7).expect("the history can be read") {
                tenure_store::Events::Gap { oldest } => {
                    assert!(all.is_empty() && oldest > next, "a gap is only at the beginning");
                    (first, next) = (oldest, oldest);
                }
                tenure_store::Events::Some { events, next: after } => {
                    if events.is_empty() {
                        return (first, all);
                    }
                    assert_eq!(after, events.last().unwrap().seq + 1);
                    next = after;
                    all.extend(events);
                }
            }
        }
    }
}

/// The hub's way of listening: records are journaled at once, assignments go to the worker.
struct Journaling<'a> {
    batches: &'a mut Batches,
    held: &'a mut VecDeque<Held>,
}

impl Output for Journaling<'_> {
    fn record(&mut self, event: Event, change: Change<'_>) {
        self.batches.record(&event, change);
    }

    fn notice(&mut self, _: SessionId, notice: Notice) {
        if let Notice::Assign(assignment) = notice {
            self.held.push_back(Held { task: assignment.task, attempt: assignment.attempt });
        }
    }

    fn body(&mut self, bytes: &[u8]) -> Blob {
        self.batches.blob(bytes)
    }

    fn freed(&mut self, blob: Blob) {
        self.batches.dead(blob);
    }
}

/// Bytes that tell where they come from.
pub fn body(number: usize, length: usize) -> Vec<u8> {
    format!("<{number}>").bytes().cycle().take(length).collect()
}
