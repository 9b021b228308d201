//! Pure sessions around the hub's core: no socket, no thread, no clock. The disk is memory, and time stands still
//! unless a test moves it.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tenure_door_kit::LoginError;
use tenure_door_msgpack::Settings;
use tenure_door_msgpack::session::{ConnectionAccess, Protocol, Turn};
use tenure_hub::core::Core;
use tenure_hub::topics::Topics;
use tenure_hub::words::{Blob, Name, Peer, SessionId, Timestamp};
use tenure_hub::{ClockReading, Delivery, Grant, Hub, HubRefusal, Keys, Mailbox, Principal, Stats};
use tenure_store::{MemoryDisk, Opened, Parts, Reader, Store, StoreSettings, Writer};
use tenure_wire::value::Value;

use super::{Heard, Stage, WaitFor};

pub(crate) struct PureStage<T> {
    begin: fn(Arc<Settings>) -> T,
    broker: SmallBroker,
    peers: BTreeMap<String, OnStage<T>>,
}

/// The hub's core and a disk, driven by hand.
pub(crate) struct SmallBroker {
    pub(crate) now: Timestamp,
    pub(crate) keys: Keys,
    core: Core,
    writer: Writer,
    reader: Reader,
    next_session: u64,
    /// For its topics, which are shared memory.
    hub: Hub,
    runtime: tokio::runtime::Runtime,
}

struct OnStage<T> {
    session: T,
    met_at: Timestamp,
    arrived: BytesMut,
    hub_side: Option<(SessionId, Arc<Mailbox>)>,
    unheard: BytesMut,
    closed: bool,
}

struct TestAccess<'a> {
    broker: &'a mut SmallBroker,
    opened: &'a mut Option<(SessionId, Arc<Mailbox>)>,
}

impl ConnectionAccess for TestAccess<'_> {
    fn wants_keys(&self) -> bool {
        !self.broker.keys.is_empty()
    }

    fn login(&mut self, _: ClockReading, key: Option<&[u8]>) -> Result<Principal, LoginError> {
        let no = if key.is_some() {
            LoginError::WrongKey { wait: Duration::ZERO, ends: false }
        } else {
            LoginError::NoKey
        };
        let grant = self.broker.keys.admit(key).ok_or(no)?;
        Ok(Principal { grant, ..Principal::trusted("native") })
    }

    fn open(
        &mut self,
        principal: Principal,
        namespace: Name,
        identity: Name,
    ) -> Result<SessionId, HubRefusal> {
        self.broker.next_session += 1;
        let session = SessionId(self.broker.next_session);
        let mailbox = Arc::new(Mailbox::default());
        let peer = Peer { session, namespace, identity };
        self.broker.core.open(Arc::new(peer), principal, Arc::clone(&mailbox));
        *self.opened = Some((session, mailbox));
        Ok(session)
    }

    fn may_work_as(&self, grant: &Grant, worker: &str) -> Result<(), HubRefusal> {
        self.broker.keys.may_work_as(grant, worker)
    }

    fn topics(&self) -> Topics {
        self.broker.hub.handle().topics().clone()
    }
}

impl SmallBroker {
    fn new() -> SmallBroker {
        let now = Timestamp(1_800_000_000_000);
        let opened =
            Store::open(Arc::new(MemoryDisk::new()), StoreSettings::default(), Default::default(), now)
                .unwrap();
        let Opened { engine, store, .. } = opened;
        let Parts { batches, writer, reader, maintenance, .. } = store.split();
        let core = Core::new(engine, batches, maintenance, Stats::default());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let hub = runtime.block_on(async {
            let disk = Arc::new(MemoryDisk::new());
            Hub::start(disk, StoreSettings::default(), Default::default(), Keys::default()).unwrap()
        });
        SmallBroker { now, keys: Keys::default(), core, writer, reader, next_session: 0, hub, runtime }
    }

    /// Writes what was decided and says what may be said.
    fn turn(&mut self) {
        self.core.tick(self.now);
        if let Some(frame) = self.core.seal() {
            let mut frames = vec![frame];
            let position = self.writer.append(&mut frames, self.now).unwrap();
            self.core.synced(self.now, position);
        }
        self.core.flush_outbox();
        for (watch, from) in self.core.take_to_read() {
            self.core.read_log(watch, from, &self.reader);
        }
    }

    fn read(&self, blob: Blob) -> Result<Bytes, HubRefusal> {
        self.reader.read(blob).map_err(|_| HubRefusal::Unreadable { what: "body" })
    }
}

impl<T: Protocol> PureStage<T> {
    pub(crate) fn new(begin: fn(Arc<Settings>) -> T) -> PureStage<T> {
        PureStage { begin, broker: SmallBroker::new(), peers: BTreeMap::new() }
    }

    pub(crate) fn broker(&mut self) -> &mut SmallBroker {
        &mut self.broker
    }

    /// Time passes.
    pub(crate) fn wait(&mut self, millis: u64) {
        self.broker.now = Timestamp(self.broker.now.0 + millis);
        let mut turns = Vec::new();
        for (name, peer) in &mut self.peers {
            let mut turn = Turn::default();
            // The kit's loop has the clock for this.
            let login_by = peer.met_at + Settings::default().door.login_within;
            if !peer.closed && !peer.session.is_known() && login_by <= self.broker.now {
                peer.session.login_is_late(&mut turn);
                turn.close = true;
            }
            if peer.session.next_deadline().is_some_and(|deadline| deadline <= self.broker.now) {
                peer.session.tick(ClockReading::both(self.broker.now), &mut turn);
            }
            turns.push((name.clone(), turn));
        }
        for (name, turn) in turns {
            self.settle(&name, turn);
        }
        self.run();
    }

    fn meet(&mut self, name: &str) {
        if self.peers.contains_key(name) {
            return;
        }
        let session = (self.begin)(Arc::new(Settings::default()));
        let on_stage = OnStage {
            session,
            met_at: self.broker.now,
            arrived: BytesMut::new(),
            hub_side: None,
            unheard: BytesMut::new(),
            closed: false,
        };
        self.peers.insert(name.to_owned(), on_stage);
        let mut turn = Turn::default();
        self.peers.get_mut(name).unwrap().session.begin(&mut turn);
        self.settle(name, turn);
    }

    /// Lets the broker and all sessions talk until there is nothing to say.
    fn run(&mut self) {
        loop {
            self.broker.turn();
            let mut anything = false;
            let names: Vec<String> = self.peers.keys().cloned().collect();
            for name in names {
                anything |= self.take_topics(&name);
                let peer = self.peers.get_mut(&name).unwrap();
                let Some((_, mailbox)) = &peer.hub_side else { continue };
                let mut deliveries: Vec<Delivery> = Vec::new();
                if !mailbox.take(&mut deliveries) {
                    continue;
                }
                anything = true;
                let mut turn = Turn::default();
                for delivery in deliveries {
                    let bytes = peer.session.needs(&delivery).map(|blob| self.broker.read(blob));
                    peer.session.deliver(ClockReading::both(self.broker.now), delivery, bytes, &mut turn);
                }
                peer.session.flush(&mut turn);
                self.settle(&name, turn);
            }
            if !anything {
                return;
            }
        }
    }

    /// Lets a session take what there is for it on topics. Says whether there was anything.
    fn take_topics(&mut self, name: &str) -> bool {
        let runtime = self.broker.runtime.handle().clone();
        let _inside = runtime.enter();
        let session = &mut self.peers.get_mut(name).unwrap().session;
        let Some(event) = session.has_happened(true) else { return false };
        let mut turn = Turn::default();
        {
            let happened = pin!(session.happened(ClockReading::both(self.broker.now), event, &mut turn));
            let mut context = Context::from_waker(Waker::noop());
            assert!(happened.poll(&mut context).is_ready(), "it waits for nothing");
        }
        self.settle(name, turn);
        true
    }

    /// Does what a session wants done.
    fn settle(&mut self, name: &str, turn: Turn) {
        let peer = self.peers.get_mut(name).unwrap();
        peer.unheard.extend_from_slice(&turn.out);
        if let Some((session, _)) = &peer.hub_side {
            for ask in turn.asks {
                self.broker.core.take(self.broker.now, *session, ask);
            }
        } else {
            assert!(turn.asks.is_empty(), "a stranger asks nothing of the hub");
        }
        if turn.close {
            self.leave(name);
        }
    }

    fn leave(&mut self, name: &str) {
        let peer = self.peers.get_mut(name).unwrap();
        peer.closed = true;
        // What it was subscribed to goes with the session.
        peer.session = (self.begin)(Arc::new(Settings::default()));
        if let Some((session, _)) = peer.hub_side.take() {
            self.broker.core.close(self.broker.now, session);
        }
    }
}

impl<T: Protocol> Stage for PureStage<T> {
    fn say(&mut self, name: &str, bytes: &[u8]) {
        self.meet(name);
        let runtime = self.broker.runtime.handle().clone();
        let _inside = runtime.enter();
        let peer = self.peers.get_mut(name).unwrap();
        peer.arrived.extend_from_slice(bytes);
        let mut turn = Turn::default();
        let mut opened = peer.hub_side.take();
        let mut access = TestAccess { broker: &mut self.broker, opened: &mut opened };
        peer.session.receive(
            ClockReading::both(access.broker.now),
            &mut peer.arrived,
            &mut access,
            &mut turn,
        );
        peer.hub_side = opened;
        self.settle(name, turn);
        self.run();
    }

    fn close(&mut self, name: &str) {
        self.leave(name);
        self.run();
    }

    fn hear(&mut self, name: &str, _wait_for: WaitFor) -> Heard {
        self.meet(name);
        self.run();
        let peer = self.peers.get_mut(name).unwrap();
        let frames =
            tenure_wire::split_frames(&mut peer.unheard, tenure_wire::limits::FRAME_BYTES_MAX).unwrap();
        Heard { frames: frames.map(|frame| Value::read(&frame).unwrap()).collect(), closed: peer.closed }
    }
}
