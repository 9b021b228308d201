//! The door without sockets and without a clock: sessions, worker actors and the hub's own logic in one thread, time by
//! hand.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tenure_door_kit::worker_actor::KeyHolder;
use tenure_door_resp::Settings;
use tenure_door_resp::testing::worker::{self, RespCallReply, RespWorker, RespWorkerCall};
use tenure_door_resp::testing::{
    ChannelAct, NamespaceTimer, RespAdmission, RespAuthenticator, Session, SessionOutput,
};
use tenure_hub::core::Core;
use tenure_hub::keyspace::{KeySaver, KeyspaceClient, KeyspaceSettings, Keyspaces, Round};
use tenure_hub::words::{Name, Peer, SessionId, Settings as EngineSettings, Timestamp};
use tenure_hub::{
    Ask, ClockReading, Delivery, Grant, HubRefusal, Keys, Mailbox, Principal, PrintedPage, Request, Response,
    Right, Rights, Stats,
};
use tenure_store::{MemoryDisk, Opened, Parts, Reader, Store, StoreSettings, Writer};

pub(crate) struct World {
    /// The time of day.
    pub(crate) now: Timestamp,
    /// How many milliseconds the time of day was set forward.
    ahead: i64,
    settings: EngineSettings,
    disk: MemoryDisk,
    core: Core,
    writer: Writer,
    reader: Reader,
    keyspaces: Keyspaces,
    key_saver: KeySaver,
    keys: Keys,
    next_session: u64,
    connections: BTreeMap<usize, Connection>,
    workers: BTreeMap<Name, Actor>,
    namespace_timer: Arc<NamespaceTimer>,
    /// How often something went to the disk.
    syncs: usize,
    /// The disk takes its time: nothing is on it before this ends.
    pub(crate) disk_stands_still: bool,
}

struct Connection {
    session: Session,
    inside: Option<(SessionId, Arc<Mailbox>)>,
    stored: Option<KeyspaceClient>,
    /// What the peer has not looked at yet.
    wire: Vec<u8>,
    closed: bool,
    /// How long the connection holds its answers back in all.
    held: Duration,
}

struct Actor {
    worker: RespWorker,
    /// None while no connection speaks as this worker.
    inside: Option<(SessionId, Arc<Mailbox>)>,
    grant: Arc<Grant>,
}

/// A store that is quickly made.
pub(crate) fn small_store() -> StoreSettings {
    StoreSettings { segment_bytes: 1 << 20, spare_segments: 0, ..StoreSettings::default() }
}

struct TestAuthenticator(Keys);

impl RespAuthenticator for TestAuthenticator {
    fn wants_keys(&self) -> bool {
        !self.0.is_empty()
    }

    fn may_work_as(&self, grant: &Grant, worker: &str) -> Result<(), HubRefusal> {
        self.0.may_work_as(grant, worker)
    }

    fn admit(&self, _: ClockReading, key: &[u8]) -> RespAdmission {
        self.0.admit(Some(key)).map_or(RespAdmission::Wrong, RespAdmission::Granted)
    }
}

impl World {
    pub(crate) fn new(with_keys: bool) -> World {
        let mut keys = Keys::default();
        if with_keys {
            for (digit, worker) in [("1", "worker-001"), ("2", "worker-002")] {
                let grant = Grant { name: worker.into(), worker: Some(worker.into()), ..Grant::everything() };
                keys.add(digit.repeat(64).as_bytes(), grant);
            }
            // And one that is no worker's.
            keys.add("3".repeat(64).as_bytes(), Grant { name: "anybody".into(), ..Grant::everything() });
            // And three with one right each.
            for (digit, right) in [("4", Right::Submit), ("5", Right::Read), ("6", Right::Work)] {
                let worker = (right == Right::Work).then(|| "worker-006".into());
                let rights = Rights::of(&[right]);
                let grant = Grant { name: right.as_str().into(), worker, rights, ..Grant::everything() };
                keys.add(digit.repeat(64).as_bytes(), grant);
            }
            // Two crews of workers without ids of their own, and one who may only submit and read.
            let some = |name: &str, rights: &[Right]| Grant {
                name: name.into(),
                rights: Rights::of(rights),
                ..Grant::everything()
            };
            keys.add("7".repeat(64).as_bytes(), some("crew", &[Right::Work]));
            keys.add("8".repeat(64).as_bytes(), some("other crew", &[Right::Work]));
            keys.add("9".repeat(64).as_bytes(), some("clerk", &[Right::Submit, Right::Read]));
        }
        World::begin(Timestamp(1_763_373_600_000), MemoryDisk::new(), keys, EngineSettings::default())
    }

    /// A broker that remembers only this many tasks that have ended.
    pub(crate) fn forgetful(ended_kept: usize) -> World {
        World::of(EngineSettings { ended_kept, ..EngineSettings::default() })
    }

    /// A broker with other settings of the engine.
    pub(crate) fn of(engine: EngineSettings) -> World {
        World::begin(Timestamp(1_763_373_600_000), MemoryDisk::new(), Keys::default(), engine)
    }

    fn begin(now: Timestamp, disk: MemoryDisk, keys: Keys, settings: EngineSettings) -> World {
        let engine = settings.clone();
        let opened = Store::open(Arc::new(disk.clone()), small_store(), engine, now);
        let Opened { engine, store, .. } = opened.expect("the store opens");
        let Parts { batches, writer, reader, maintenance, .. } = store.split();
        let (keyspaces, key_saver) =
            Keyspaces::open(&reader, KeyspaceSettings::default()).expect("the log of keys opens");
        World {
            now,
            ahead: 0,
            settings,
            disk,
            core: Core::new(engine, batches, maintenance, Stats::default()),
            writer,
            reader,
            keyspaces,
            key_saver,
            keys,
            next_session: 1,
            connections: BTreeMap::new(),
            workers: BTreeMap::new(),
            namespace_timer: Arc::default(),
            syncs: 0,
            disk_stands_still: false,
        }
    }

    /// The broker is killed and started again: all connections are gone, the disk is as it was.
    pub(crate) fn restart(self) -> World {
        let World {
            now, disk, keys, core, writer, reader, settings, keyspaces, key_saver, connections, ..
        } = self;
        drop((core, writer, reader, connections, keyspaces, key_saver));
        World::begin(now, disk, keys, settings)
    }

    /// Types a command and returns the lines that came, in the page's notation.
    pub(crate) fn ask(&mut self, client: usize, words: &str) -> Vec<String> {
        self.send(client, &super::transcript::as_array(words));
        self.heard(client)
    }

    /// Types several commands in one write. Returns the lines that came and how often the disk was asked meanwhile.
    pub(crate) fn ask_together(&mut self, client: usize, commands: &[&str]) -> (Vec<String>, usize) {
        let before = self.syncs;
        let bytes: Vec<Vec<u8>> = commands.iter().map(|words| super::transcript::as_array(words)).collect();
        self.send(client, &bytes.concat());
        (self.heard(client), self.syncs - before)
    }

    /// Two clients type at the same moment, so what they do takes turns.
    pub(crate) fn ask_at_once(&mut self, clients: [usize; 2], words: [&str; 2]) -> [Vec<String>; 2] {
        for client in clients {
            self.ask(client, "PING");
        }
        for (client, words) in clients.iter().zip(words) {
            let connection = self.connections.get_mut(client).expect("it has spoken");
            connection.session.input().extend_from_slice(&super::transcript::as_array(words));
        }
        self.settle();
        clients.map(|client| self.heard(client))
    }

    /// What has come for a client.
    pub(crate) fn heard(&mut self, client: usize) -> Vec<String> {
        let mut all = Vec::new();
        let wire = self.wire(client);
        while let Some((lines, length)) = super::transcript::lines(wire) {
            wire.drain(..length);
            all.extend(lines);
        }
        all
    }

    /// How long the answers for a client were held back in all. Here they come at once nevertheless.
    pub(crate) fn held_back(&self, client: usize) -> Duration {
        self.connections.get(&client).map_or(Duration::ZERO, |connection| connection.held)
    }

    pub(crate) fn send(&mut self, client: usize, bytes: &[u8]) {
        let authenticator = TestAuthenticator(self.keys.clone());
        let connection = self.connections.entry(client).or_insert_with(|| Connection {
            session: Session::new(
                client as u64,
                IpAddr::from([127, 0, 0, 1]),
                Arc::new(Settings::default()),
                Arc::clone(&self.namespace_timer),
                authenticator.wants_keys(),
            ),
            inside: None,
            stored: None,
            wire: Vec::new(),
            closed: false,
            held: Duration::ZERO,
        });
        connection.session.input().extend_from_slice(bytes);
        self.settle();
    }

    pub(crate) fn close(&mut self, client: usize) {
        let Some(connection) = self.connections.remove(&client) else { return };
        if let Some((session, _)) = connection.inside {
            self.core.close(self.now, session);
        }
        let names: Vec<Name> = self.workers.keys().cloned().collect();
        for name in names {
            let mut out = worker::RespWorkerOutput::default();
            self.workers.get_mut(&name).expect("it is open").worker.detach(client as u64, &mut out);
            self.tell(&name, out);
        }
        self.settle();
    }

    pub(crate) fn wire(&mut self, client: usize) -> &mut Vec<u8> {
        &mut self.connections.get_mut(&client).expect("it has spoken").wire
    }

    pub(crate) fn is_closed(&self, client: usize) -> bool {
        self.connections.get(&client).is_some_and(|connection| connection.closed)
    }

    pub(crate) fn clients(&self) -> Vec<usize> {
        self.connections.keys().copied().collect()
    }

    /// Every task that the broker has, also those that this door does not show.
    pub(crate) fn task_ids(&self) -> Vec<String> {
        let mut ids = Vec::new();
        self.core.engine().scan_tasks(None, usize::MAX, &mut |task, _, _| ids.push(task.id.to_string()));
        ids
    }

    /// The time of day is set forward or back; no time passes.
    pub(crate) fn set_clock(&mut self, millis: i64) {
        let before = self.now;
        self.now = shifted(self.now, millis);
        self.ahead += millis;
        self.core.clock_set(before, self.now);
        self.settle();
    }

    /// Lets time pass, stopping wherever something is due.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let sessions = self.connections.values().filter_map(|one| one.session.next_deadline());
            let workers = self.workers.values().filter_map(|actor| actor.worker.next_deadline());
            let of_doors = sessions.chain(workers).map(|at| shifted(at, self.ahead));
            let next = of_doors.chain(self.core.next_deadline()).filter(|at| *at > self.now).min();
            self.now = next.unwrap_or(end).min(end);
            self.settle();
            if self.now >= end {
                return;
            }
        }
    }

    /// Until no side has anything to say.
    fn settle(&mut self) {
        let mut quiet = 0;
        for _ in 0..1000 {
            let mut moved = false;
            for client in self.clients() {
                moved |= self.serve(client);
            }
            let names: Vec<Name> = self.workers.keys().cloned().collect();
            for name in names {
                moved |= self.attend(&name);
            }
            moved |= self.turn();
            moved |= self.write_keys();
            // What the hub said to a worker in its turn is taken in the next round.
            quiet = if moved { 0 } else { quiet + 1 };
            if quiet == 2 {
                return;
            }
        }
        panic!("the world does not come to rest");
    }

    fn serve(&mut self, client: usize) -> bool {
        let authenticator = TestAuthenticator(self.keys.clone());
        let connection = self.connections.get_mut(&client).expect("it is open");
        let mut out = SessionOutput::default();
        let mut mail = Vec::new();
        if let Some((_, mailbox)) = &connection.inside {
            mailbox.take(&mut mail);
        }
        let mut moved = !mail.is_empty();
        for delivery in mail {
            connection.session.deliver(moment(self.now, self.ahead), delivery, &mut out);
        }
        connection.session.tick(moment(self.now, self.ahead), &mut out);
        connection.session.receive(moment(self.now, self.ahead), &authenticator, &mut out);
        moved |= !out.bytes.is_empty()
            || !out.asks.is_empty()
            || !out.calls.is_empty()
            || !out.reads.is_empty()
            || !out.channels.is_empty()
            || !out.keys.is_empty();
        self.output(client, out);
        moved
    }

    fn output(&mut self, client: usize, mut out: SessionOutput) {
        let connection = self.connections.get_mut(&client).expect("it is open");
        connection.held += std::mem::take(&mut out.hold);
        while !out.asks.is_empty()
            || !out.calls.is_empty()
            || !out.reads.is_empty()
            || !out.channels.is_empty()
            || !out.keys.is_empty()
            || !out.bytes.is_empty()
            || out.close
        {
            let connection = self.connections.get_mut(&client).expect("it is open");
            connection.wire.extend_from_slice(&out.bytes.split());
            connection.closed |= std::mem::take(&mut out.close);
            let (logs, asks): (Vec<Ask>, Vec<Ask>) = std::mem::take(&mut out.asks)
                .into_iter()
                .partition(|ask| matches!(ask.request, Request::Logs { .. }));
            if !asks.is_empty() {
                let session = self.inside(client);
                self.take(session, asks);
            }
            for Ask { token, .. } in logs {
                // Jobs print nothing here.
                let reply = Ok(Response::Logs(PrintedPage::default()));
                let connection = self.connections.get_mut(&client).expect("it is open");
                let delivery = Delivery::Reply { token, reply };
                connection.session.deliver(moment(self.now, self.ahead), delivery, &mut out);
            }
            for (token, blobs) in std::mem::take(&mut out.reads) {
                let read = |blob| self.reader.read(blob).map_err(|_| HubRefusal::Unreadable { what: "body" });
                let read = blobs.into_iter().map(read).collect();
                let connection = self.connections.get_mut(&client).expect("it is open");
                connection.session.has_read(moment(self.now, self.ahead), token, read, &mut out);
            }
            for act in std::mem::take(&mut out.channels) {
                // There are no topics here, so no subscriber hears what is published.
                if let ChannelAct::Publish { token, .. } = act {
                    let connection = self.connections.get_mut(&client).expect("it is open");
                    connection.session.published(token, Ok(0), &mut out);
                }
            }
            self.call_keys(client, &mut out);
            let mut calls = VecDeque::from(std::mem::take(&mut out.calls));
            while !calls.is_empty() {
                self.call(client, &mut calls, &mut out);
            }
            for name in std::mem::take(&mut out.leaves) {
                let mut told = worker::RespWorkerOutput::default();
                if let Some(actor) = self.workers.get_mut(&name) {
                    actor.worker.detach(client as u64, &mut told);
                    self.tell(&name, told);
                }
            }
        }
    }

    /// Runs what is about stored keys.
    fn call_keys(&mut self, client: usize, out: &mut SessionOutput) {
        let calls = std::mem::take(&mut out.keys);
        if calls.is_empty() {
            return;
        }
        let connection = self.connections.get_mut(&client).expect("it is open");
        let namespace = connection.session.namespace().clone();
        let stored = connection
            .stored
            .get_or_insert_with(|| self.keyspaces.connect(&namespace).expect("there is room"));
        stored.run(self.now, calls);
    }

    /// Has what was changed written, and hands out the answers.
    fn write_keys(&mut self) -> bool {
        if self.disk_stands_still {
            return false;
        }
        let round = self.key_saver.round(&self.keyspaces, Duration::ZERO).expect("the disk works");
        self.syncs += usize::from(round == Round::Wrote);
        let mut moved = round == Round::Wrote;
        for client in self.clients() {
            let connection = self.connections.get_mut(&client).expect("it is open");
            let answers = connection.stored.as_mut().map(KeyspaceClient::take_answered).unwrap_or_default();
            moved |= !answers.is_empty();
            for (token, answer) in answers {
                let mut out = SessionOutput::default();
                let connection = self.connections.get_mut(&client).expect("it is open");
                connection.session.keys_answered(moment(self.now, self.ahead), token, answer, &mut out);
                self.output(client, out);
            }
        }
        moved
    }

    fn inside(&mut self, client: usize) -> SessionId {
        let identity = self.connections[&client].session.identity().clone();
        if self.connections[&client].inside.is_none() {
            let grant = self.connections[&client].session.grant();
            let inside = self.open(identity, grant);
            self.connections.get_mut(&client).expect("it is open").inside = Some(inside);
        }
        self.connections[&client].inside.as_ref().expect("as above").0
    }

    fn open(&mut self, identity: Name, grant: Arc<Grant>) -> (SessionId, Arc<Mailbox>) {
        let session = SessionId(self.next_session);
        self.next_session += 1;
        let mailbox = Arc::new(Mailbox::default());
        let peer = Peer { session, namespace: "default".into(), identity };
        let principal = Principal { grant, ..Principal::trusted("test") };
        let principal = principal.with(Right::Read);
        self.core.open(Arc::new(peer), principal, Arc::clone(&mailbox));
        (session, mailbox)
    }

    /// All calls from the first on that are for its worker.
    fn call(&mut self, client: usize, calls: &mut VecDeque<RespWorkerCall>, out: &mut SessionOutput) {
        let Some(RespWorkerCall { token, worker: name, open_as, .. }) = calls.front() else { return };
        let name = name.clone();
        if !self.workers.contains_key(&name) {
            let Some(kind) = *open_as else {
                let connection = self.connections.get_mut(&client).expect("it is open");
                connection.session.worker_answered(
                    moment(self.now, self.ahead),
                    *token,
                    RespCallReply::NotRegistered,
                    out,
                );
                calls.pop_front();
                return;
            };
            let grant = self.connections[&client].session.grant();
            let worker = RespWorker::new(
                name.clone(),
                grant.name.clone(),
                kind,
                Settings::default().heartbeats(),
                moment(self.now, self.ahead),
            );
            self.workers.insert(name.clone(), Actor { worker, inside: None, grant });
        }
        let mut told = worker::RespWorkerOutput::default();
        let of_this = RespWorkerCall::of_one_worker(calls, client as u64);
        let grant = self.connections[&client].session.grant();
        let actor = self.workers.get_mut(&name).expect("it is open");
        actor.worker.call_from(moment(self.now, self.ahead), &KeyHolder::from(&*grant), of_this, &mut told);
        if told.changes_owner {
            actor.grant = grant;
            if let Some((session, _)) = actor.inside.take() {
                self.core.close(self.now, session);
            }
        }
        self.tell(&name, told);
    }

    fn attend(&mut self, name: &Name) -> bool {
        let Some(actor) = self.workers.get_mut(name) else { return false };
        let mut out = worker::RespWorkerOutput::default();
        let mut mail = Vec::new();
        if let Some((_, mailbox)) = &actor.inside {
            mailbox.take(&mut mail);
        }
        let mut moved = !mail.is_empty();
        for delivery in mail {
            actor.worker.deliver(moment(self.now, self.ahead), delivery, &mut out);
        }
        actor.worker.tick(moment(self.now, self.ahead), &mut out);
        moved |= !out.asks.is_empty() || !out.answers.is_empty();
        let over = actor.worker.is_over(moment(self.now, self.ahead).steady);
        self.tell(name, out);
        if over && let Some(actor) = self.workers.remove(name) {
            if let Some((session, _)) = actor.inside {
                self.core.close(self.now, session);
            }
            return true;
        }
        moved
    }

    fn tell(&mut self, name: &Name, mut out: worker::RespWorkerOutput) {
        if let Some(actor) = self.workers.get_mut(name) {
            for (token, blob) in std::mem::take(&mut out.reads) {
                let bytes = self.reader.read(blob).map_err(|_| HubRefusal::Unreadable { what: "body" });
                actor.worker.has_read(token, bytes, &mut out);
            }
            self.ask_for(name, out.asks);
            if out.closes_session
                && let Some((session, _)) = self.workers.get_mut(name).and_then(|actor| actor.inside.take())
            {
                self.core.close(self.now, session);
            }
        }
        for (caller, answer) in out.answers {
            let client = caller.connection as usize;
            let Some(connection) = self.connections.get_mut(&client) else { continue };
            let mut said = SessionOutput::default();
            connection.session.worker_answered(moment(self.now, self.ahead), caller.token, answer, &mut said);
            self.output(client, said);
        }
        for (client, job, wanted) in out.wishes {
            let client = client as usize;
            let Some(connection) = self.connections.get_mut(&client) else { continue };
            let mut said = SessionOutput::default();
            connection.session.send_intent(&job, wanted, &mut said);
            self.output(client, said);
        }
    }

    /// What a worker actor asks, in its session.
    fn ask_for(&mut self, name: &Name, asks: Vec<Ask>) {
        if asks.is_empty() {
            return;
        }
        if self.workers[name].inside.is_none() {
            let inside = self.open(name.clone(), Arc::clone(&self.workers[name].grant));
            self.workers.get_mut(name).expect("it is open").inside = Some(inside);
        }
        let session = self.workers[name].inside.as_ref().expect("as above").0;
        self.take(session, asks);
    }

    fn take(&mut self, session: SessionId, asks: Vec<Ask>) {
        for ask in asks {
            self.core.take(self.now, session, ask);
        }
    }

    /// The hub's turn: whether anything was written.
    fn turn(&mut self) -> bool {
        self.core.tick(self.now);
        let sealed = if self.disk_stands_still { None } else { self.core.seal() };
        let mut frames: Vec<_> = sealed.into_iter().collect();
        let wrote = !frames.is_empty();
        if wrote {
            let position = self.writer.append(&mut frames, self.now).expect("the disk has room");
            self.core.synced(self.now, position);
            self.syncs += 1;
        }
        self.core.flush_outbox();
        for (watch, from) in self.core.take_to_read() {
            self.core.read_log(watch, from, &self.reader);
        }
        let mail = |mailbox: &Mailbox| {
            let mut peek = Vec::new();
            mailbox.take(&mut peek);
            peek
        };
        let mut waiting = wrote;
        for client in self.clients() {
            let inside = self.connections[&client].inside.clone();
            if let Some((_, mailbox)) = inside {
                for delivery in mail(&mailbox) {
                    waiting = true;
                    let mut out = SessionOutput::default();
                    let connection = self.connections.get_mut(&client).expect("it is open");
                    connection.session.deliver(moment(self.now, self.ahead), delivery, &mut out);
                    self.output(client, out);
                }
            }
        }
        waiting
    }
}

fn moment(wall: Timestamp, ahead: i64) -> ClockReading {
    ClockReading { wall, steady: shifted(wall, -ahead) }
}

fn shifted(at: Timestamp, millis: i64) -> Timestamp {
    Timestamp(at.0.saturating_add_signed(millis))
}
