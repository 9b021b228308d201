//! The broker under test: the real hub logic and the real store, on a simulated disk, without threads, so that the
//! world decides when each part runs.

use std::sync::Arc;
use std::time::Duration;

use tenure_hub::core::Core;
use tenure_hub::words::{Name, Peer, SessionId, Settings, Thresholds, Timestamp};
use tenure_hub::{Ask, Mailbox, Principal, Stats};
use tenure_store::{
    AppendError, JournalFrame, MaintenanceThread, MemoryDisk, Opened, Parts, Reader, Store, StoreError,
    StoreSettings, Writer,
};

use crate::plan::Mutation;

#[derive(Debug)]
pub(crate) struct Broker {
    pub(crate) disk: MemoryDisk,
    core: Core,
    writer: Writer,
    maintenance_thread: MaintenanceThread,
    reader: Reader,
    under_way: Vec<JournalFrame>,
    next_session: u64,
    mutation: Mutation,
}

/// The outcome of a step of the broker.
#[derive(Debug)]
pub(crate) enum Step {
    Fine,
    /// A batch is on its way to the disk: call `sync` some time later.
    Writing,
    /// The disk failed: the process is gone.
    Dead,
}

impl Broker {
    pub(crate) fn start(
        disk: MemoryDisk,
        seed: u64,
        now: Timestamp,
        mutation: Mutation,
    ) -> Result<Broker, StoreError> {
        disk.ignore_sync(mutation == Mutation::ForgetSync);
        let settings = store_settings(seed);
        let Opened { engine, store, .. } =
            Store::open(Arc::new(disk.clone()), settings, engine_settings(), now)?;
        let Parts { batches, writer, reader, maintenance, maintenance_thread } = store.split();
        let core = Core::new(engine, batches, maintenance, Stats::default());
        Ok(Broker {
            disk,
            core,
            writer,
            maintenance_thread,
            reader,
            under_way: Vec::new(),
            next_session: 1,
            mutation,
        })
    }

    pub(crate) fn core(&self) -> &Core {
        &self.core
    }

    /// A peer connects.
    pub(crate) fn open(&mut self, identity: &Name) -> (SessionId, Arc<Mailbox>) {
        let session = SessionId(self.next_session);
        self.next_session += 1;
        let mailbox = Arc::new(Mailbox::default());
        let peer = Peer { session, namespace: "default".into(), identity: identity.clone() };
        self.core.open(Arc::new(peer), Principal::trusted("simulator"), Arc::clone(&mailbox));
        (session, mailbox)
    }

    pub(crate) fn close(&mut self, now: Timestamp, session: SessionId) -> Step {
        self.core.close(now, session);
        self.turn(now)
    }

    pub(crate) fn take(&mut self, now: Timestamp, session: SessionId, asks: Vec<Ask>) -> Step {
        for ask in asks {
            self.core.take(now, session, ask);
        }
        self.turn(now)
    }

    /// What the hub does at the end of each turn.
    pub(crate) fn turn(&mut self, now: Timestamp) -> Step {
        self.core.tick(now);
        if self.under_way.is_empty() {
            self.under_way.extend(self.core.seal());
        }
        if matches!(self.mutation, Mutation::SpeakEarly | Mutation::StartClocksEarly)
            && let Some(frame) = self.under_way.last()
        {
            self.core.synced(now, frame.end());
        }
        self.flush_outbox();
        if self.under_way.is_empty() { Step::Fine } else { Step::Writing }
    }

    /// The writer's thread does its work.
    pub(crate) fn sync(&mut self, now: Timestamp) -> Step {
        match self.writer.append(&mut self.under_way, now) {
            Ok(position) => {
                self.core.synced(now, position);
                self.flush_outbox();
                if self.mutation == Mutation::StartClocksEarly { Step::Fine } else { self.turn(now) }
            }
            Err(AppendError::Full { .. } | AppendError::Away { .. }) => Step::Writing,
            Err(AppendError::Fatal(_) | AppendError::Deposed { .. }) => Step::Dead,
        }
    }

    /// A mistake: the core takes what it decided for sent, and the messages wait for the disk.
    pub(crate) fn keeps_messages_back(&self) -> bool {
        self.mutation == Mutation::StartClocksEarly && !self.under_way.is_empty()
    }

    /// The broker continues after it was stopped: no worker may be lost because of that.
    pub(crate) fn wake(&mut self, stopped_at: Timestamp, now: Timestamp) -> Step {
        if self.mutation != Mutation::ForgetAbsence {
            self.core.broker_stalled(stopped_at, now);
        }
        self.turn(now)
    }

    /// The broker's clock was set, and the broker noticed it.
    pub(crate) fn set_clock(&mut self, from: Timestamp, to: Timestamp) {
        self.core.clock_set(from, to);
    }

    /// The maintenance thread does one of its jobs.
    pub(crate) fn keep(&mut self) -> bool {
        self.maintenance_thread.turn()
    }

    pub(crate) fn read_hook_file(&self, hook: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.reader.read_hook_file(hook)
    }

    pub(crate) fn write_hook_file(&self, hook: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.reader.write_hook_file(hook, bytes)
    }

    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        self.core.next_deadline()
    }

    fn flush_outbox(&mut self) {
        self.core.flush_outbox();
        for (watch, from) in self.core.take_to_read() {
            self.core.read_log(watch, from, &self.reader);
        }
    }
}

/// Small, so that segments, snapshots and cleanup all happen within a short simulation.
pub(crate) fn store_settings(seed: u64) -> StoreSettings {
    StoreSettings {
        segment_bytes: 8 << 10,
        snapshot_bytes: 16 << 10,
        snapshot_slice: 7,
        clean_slice_bytes: 512,
        cache_bytes: 4 << 10,
        seed,
        ..StoreSettings::default()
    }
}

pub(crate) fn engine_settings() -> Settings {
    Settings {
        restart_grace: Duration::from_secs(20),
        accept_timeout: Duration::from_secs(10),
        quarantine_for: Duration::from_secs(30),
        reserve_after: Duration::from_secs(5),
        backlog: Thresholds { depth: Some(10), age: Some(Duration::from_secs(15)) },
        ..Settings::default()
    }
}
