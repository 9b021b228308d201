//! The doors without sockets and without a clock: conversations and the hub's own logic in one thread, time by hand.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tenure_door_zmq::session::{
    Majordomo, OrphanedJobs, PeerIdentity, PeerOutput, PeerSession, PingPongClient, PingPongWorker,
};
use tenure_door_zmq::{PingPongSettings, Registry, Settings};
use tenure_hub::core::Core;
use tenure_hub::words::{
    Command, Held, Name, NewTask, Notice, OnLost, Peer, SessionId, StateName, Timestamp, WorkerSpec,
};
use tenure_hub::{
    Ask, ClockReading, Delivery, Grant, HubRefusal, Mailbox, Principal, Request, Right, Rights, Stats,
    Submission, fresh_id,
};
use tenure_store::{MemoryDisk, Opened, Parts, Reader, Store, StoreSettings, Writer};

pub(crate) struct World {
    /// The time of day.
    now: Timestamp,
    /// How many milliseconds the time of day was set forward.
    ahead: i64,
    disk: Arc<MemoryDisk>,
    core: Core,
    writer: Writer,
    reader: Reader,
    settings: Arc<Settings>,
    ping_pong: Arc<PingPongSettings>,
    registry: Arc<Registry>,
    unseen: Arc<OrphanedJobs>,
    next_session: u64,
    peers: BTreeMap<String, ConnectedPeer>,
    /// The broker dies as soon as a message with these bytes has left.
    dies_after: Option<Vec<u8>>,
    is_dead: bool,
}

struct ConnectedPeer {
    conversation: Box<dyn PeerSession>,
    session: SessionId,
    mailbox: Arc<Mailbox>,
    heard: VecDeque<Vec<Bytes>>,
    /// It takes nothing from the hub: its socket is full.
    is_deaf: bool,
}

impl World {
    pub(crate) fn new(settings: Settings) -> World {
        World::with_settings(settings, PingPongSettings::default())
    }

    pub(crate) fn with_settings(settings: Settings, ping_pong: PingPongSettings) -> World {
        let now = Timestamp(1_763_373_600_000);
        let disk = Arc::new(MemoryDisk::new());
        let (core, writer, reader) = open_store(&disk, now);
        World {
            now,
            ahead: 0,
            disk,
            core,
            writer,
            reader,
            settings: Arc::new(settings),
            ping_pong: Arc::new(ping_pong),
            registry: Arc::default(),
            unseen: Arc::default(),
            next_session: 1,
            peers: BTreeMap::new(),
            dies_after: None,
            is_dead: false,
        }
    }

    /// From the moment a message with these bytes leaves through the door, nothing more reaches the disk.
    pub(crate) fn dies_after(&mut self, bytes: &str) {
        self.dies_after = Some(bytes.as_bytes().to_vec());
    }

    /// Starts the broker that died on what is on its disk. Every connection is gone.
    pub(crate) fn restarts(&mut self) {
        assert!(std::mem::take(&mut self.is_dead), "the broker has died");
        self.peers.clear();
        self.disk = Arc::new(self.disk.crash(7));
        (self.core, self.writer, self.reader) = open_store(&self.disk, self.now);
        (self.registry, self.unseen) = Default::default();
        if self.tasks_in(StateName::Assigned) + self.tasks_in(StateName::Running) > 0 {
            self.registry.expect_lost_workers();
        }
    }

    /// A Majordomo peer without an identity of its own.
    pub(crate) fn majordomo(&mut self, peer: &str) {
        self.arrive(peer, false, |world, me| {
            Box::new(Majordomo::new(me, Arc::clone(&world.settings), Arc::clone(&world.registry)))
        });
    }

    /// A Majordomo peer that chose its identity.
    pub(crate) fn named(&mut self, peer: &str) {
        self.arrive(peer, true, |world, me| {
            Box::new(Majordomo::new(me, Arc::clone(&world.settings), Arc::clone(&world.registry)))
        });
    }

    /// A Majordomo peer that chose its identity and has only these rights. `is_known` if its key had the identity
    /// before.
    pub(crate) fn named_with(&mut self, peer: &str, rights: &[Right], is_known: bool) {
        let grant = Grant { rights: Rights::of(rights), ..Grant::everything() };
        let me = PeerIdentity { name: peer.into(), is_chosen: true, is_known, grant: Arc::new(grant) };
        let conversation = Majordomo::new(me, Arc::clone(&self.settings), Arc::clone(&self.registry));
        self.connect_peer(peer, Box::new(conversation));
    }

    pub(crate) fn ping_pong_client(&mut self, peer: &str) {
        self.arrive(peer, false, |world, me| Box::new(PingPongClient::new(me, Arc::clone(&world.ping_pong))));
    }

    pub(crate) fn ping_pong_worker(&mut self, peer: &str) {
        self.arrive(peer, false, |world, me| {
            Box::new(PingPongWorker::new(me, Arc::clone(&world.ping_pong), Arc::clone(&world.unseen)))
        });
    }

    fn arrive(
        &mut self,
        peer: &str,
        is_chosen: bool,
        begin: impl FnOnce(&World, PeerIdentity) -> Box<dyn PeerSession>,
    ) {
        let name: Name = peer.into();
        let me = PeerIdentity { name, is_chosen, is_known: false, grant: Arc::new(Grant::everything()) };
        let conversation = begin(self, me);
        self.connect_peer(peer, conversation);
    }

    fn connect_peer(&mut self, peer: &str, conversation: Box<dyn PeerSession>) {
        let (session, mailbox) = self.open(peer.into());
        self.peers.insert(
            peer.to_owned(),
            ConnectedPeer { conversation, session, mailbox, heard: VecDeque::new(), is_deaf: false },
        );
        self.with(peer, |conversation, now, out| conversation.begin(now, out));
        self.settle();
    }

    fn open(&mut self, identity: Name) -> (SessionId, Arc<Mailbox>) {
        let session = SessionId(self.next_session);
        self.next_session += 1;
        let mailbox = Arc::new(Mailbox::default());
        let peer = Peer { session, namespace: "default".into(), identity };
        self.core.open(Arc::new(peer), Principal::trusted("mdp"), Arc::clone(&mailbox));
        (session, mailbox)
    }

    pub(crate) fn knows(&self, peer: &str) -> bool {
        self.peers.contains_key(peer)
    }

    pub(crate) fn says(&mut self, peer: &str, frames: Vec<Bytes>) {
        self.with(peer, |conversation, now, out| conversation.receive(now, frames, out));
        self.settle();
    }

    /// The next message to this peer, if there is one.
    pub(crate) fn hears(&mut self, peer: &str) -> Option<Vec<Bytes>> {
        self.peers.get_mut(peer).expect("it is there").heard.pop_front()
    }

    /// Whether this peer takes what is for it, from now on.
    pub(crate) fn takes(&mut self, peer: &str, takes: bool) {
        self.peers.get_mut(peer).expect("it is there").is_deaf = !takes;
        self.settle();
    }

    /// Whether nothing more is read from this peer.
    pub(crate) fn is_held_back(&self, peer: &str) -> bool {
        self.peers.get(peer).expect("it is there").conversation.is_held_back()
    }

    pub(crate) fn closes(&mut self, peer: &str) {
        let Some(mut peer_state) = self.peers.remove(peer) else { return };
        let mut last = PeerOutput::default();
        peer_state.conversation.end(moment(self.now, self.ahead), &mut last);
        for ask in last.asks {
            self.core.take(self.now, peer_state.session, ask);
        }
        self.core.close(self.now, peer_state.session);
        self.settle();
    }

    /// Asks the hub as a client behind another door.
    pub(crate) fn elsewhere(&mut self, request: Request) {
        let (session, _) = self.open("elsewhere".into());
        self.core.take(self.now, session, Ask { token: 1, request });
        self.core.close(self.now, session);
        self.settle();
    }

    /// Submits a task through another door.
    pub(crate) fn submits_elsewhere(&mut self, queue: &str, on_lost: OnLost, body: &[u8]) {
        let task = NewTask { on_lost, ..NewTask::new(fresh_id(), queue) };
        self.elsewhere(Request::Submit(vec![Submission::new(task, Bytes::copy_from_slice(body))]));
    }

    /// A worker behind another door takes everything of a queue and holds it.
    pub(crate) fn works_elsewhere(&mut self, queue: &str) {
        let (session, mailbox) = self.open("elsewhere".into());
        let spec = WorkerSpec::new("elsewhere", vec![queue.into()], 8);
        let register = Request::Command(Command::Register(Box::new(spec)));
        self.core.take(self.now, session, Ask { token: 1, request: register });
        self.settle();
        let mut mail = Vec::new();
        mailbox.take(&mut mail);
        for delivery in mail {
            if let Delivery::Notice(Notice::Assign(assignment)) = delivery {
                let held = Held { task: assignment.task, attempt: assignment.attempt };
                let start = Request::Command(Command::Start(vec![held]));
                self.core.take(self.now, session, Ask { token: 2, request: start });
            }
        }
        self.settle();
    }

    /// The broker is killed and started again. Every connection is gone.
    pub(crate) fn is_restarted(&mut self) {
        self.is_dead = true;
        self.restarts();
    }

    /// How many tasks are in this state.
    pub(crate) fn tasks_in(&self, state: StateName) -> u64 {
        self.figures().gauges.by_state[state as usize]
    }

    pub(crate) fn figures(&self) -> Stats {
        self.core.stats(self.now)
    }

    /// The time of day is set forward or back; no time passes.
    pub(crate) fn set_clock(&mut self, millis: i64) {
        let before = self.now;
        self.now = shifted(self.now, millis);
        self.ahead += millis;
        self.core.clock_set(before, self.now);
        for peer in self.peers() {
            self.with(&peer, |conversation, now, out| conversation.tick(now, out));
        }
        self.settle();
    }

    /// Lets time pass, stopping wherever something is due.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            let due = self.peers.values().filter_map(|peer_state| peer_state.conversation.deadline());
            let due = due.map(|at| shifted(at, self.ahead));
            let next = due.chain(self.core.next_deadline()).filter(|at| *at > self.now).min();
            self.now = next.unwrap_or(end).min(end);
            for peer in self.peers() {
                self.with(&peer, |conversation, now, out| conversation.tick(now, out));
            }
            self.settle();
        }
    }

    pub(crate) fn peers(&self) -> Vec<String> {
        self.peers.keys().cloned().collect()
    }

    /// Until no side has anything to say.
    fn settle(&mut self) {
        for _ in 0..1_000 {
            if self.is_dead {
                return;
            }
            let wrote = self.turn();
            let mut moved = false;
            for peer in self.peers() {
                moved |= self.deliver(&peer);
            }
            if !wrote && !moved {
                return;
            }
        }
        panic!("the world does not come to rest");
    }

    /// Gives a peer's conversation what has arrived for it.
    fn deliver(&mut self, peer: &str) -> bool {
        let mut mail = Vec::new();
        let Some(peer_state) = self.peers.get(peer) else { return false };
        if peer_state.is_deaf || !peer_state.mailbox.take(&mut mail) {
            return false;
        }
        for delivery in mail {
            let Some(peer_state) = self.peers.get(peer) else { return true };
            let bytes = match peer_state.conversation.needs(&delivery) {
                Some(blob) => self.reader.read(blob).map_err(|_| HubRefusal::Unreadable { what: "body" }),
                None => Ok(Bytes::new()),
            };
            self.with(peer, |conversation, now, out| conversation.deliver(now, delivery, bytes, out));
        }
        self.with(peer, |conversation, now, out| conversation.all_delivered(now, out));
        true
    }

    /// One turn of a conversation, with all that it asks for.
    fn with(&mut self, peer: &str, turn: impl FnOnce(&mut dyn PeerSession, ClockReading, &mut PeerOutput)) {
        let mut out = PeerOutput::default();
        let Some(peer_state) = self.peers.get_mut(peer) else { return };
        turn(&mut *peer_state.conversation, moment(self.now, self.ahead), &mut out);
        if let Some(bytes) = &self.dies_after {
            let has_them = |frame: &Bytes| frame.windows(bytes.len()).any(|some| some == bytes);
            self.is_dead |= out.messages.iter().flatten().any(has_them);
        }
        peer_state.heard.extend(out.messages);
        if self.is_dead {
            self.dies_after = None;
            return;
        }
        let session = peer_state.session;
        for ask in out.asks {
            self.core.take(self.now, session, ask);
        }
        if out.close {
            self.closes(peer);
        }
    }

    /// The hub's turn: whether anything was written.
    fn turn(&mut self) -> bool {
        self.core.tick(self.now);
        let mut frames: Vec<_> = self.core.seal().into_iter().collect();
        let wrote = !frames.is_empty();
        if wrote {
            let position = self.writer.append(&mut frames, self.now).expect("the disk has room");
            self.core.synced(self.now, position);
        }
        self.core.flush_outbox();
        for (watch, from) in self.core.take_to_read() {
            self.core.read_log(watch, from, &self.reader);
        }
        wrote
    }
}

fn open_store(disk: &Arc<MemoryDisk>, now: Timestamp) -> (Core, Writer, Reader) {
    let store = StoreSettings { segment_bytes: 1 << 20, spare_segments: 0, ..StoreSettings::default() };
    let engine = tenure_hub::words::Settings::default();
    let opened = Store::open(Arc::<MemoryDisk>::clone(disk), store, engine, now);
    let Opened { engine, store, .. } = opened.expect("the store opens");
    let Parts { batches, writer, reader, maintenance, .. } = store.split();
    (Core::new(engine, batches, maintenance, Stats::default()), writer, reader)
}

fn moment(wall: Timestamp, ahead: i64) -> ClockReading {
    ClockReading { wall, steady: shifted(wall, -ahead) }
}

fn shifted(at: Timestamp, millis: i64) -> Timestamp {
    Timestamp(at.0.saturating_add_signed(millis))
}
