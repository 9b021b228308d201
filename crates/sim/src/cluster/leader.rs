//! The broker that leads, or believes that it does: the real hub logic and the real store on its own disk, with
//! the shared journal behind its writer.

use std::sync::Arc;

use tenure_hub::core::Core;
use tenure_hub::words::{Name, Peer, SessionId, Timestamp};
use tenure_hub::{Ask, Mailbox, Principal, Stats};
use tenure_store::{
    AppendError, JournalFrame, LeaderLease, MaintenanceThread, Opened, Parts, Reader, ReplicationMutation,
    StoreError, Writer,
};

#[derive(Debug)]
pub(super) struct Leader {
    core: Core,
    writer: Writer,
    lease: LeaderLease,
    maintenance_thread: MaintenanceThread,
    reader: Reader,
    under_way: Vec<JournalFrame>,
    next_session: u64,
    mutation: Option<ReplicationMutation>,
}

/// The outcome of the writer's work.
#[derive(Debug)]
pub(super) enum Wrote {
    Fine,
    /// The journal does not answer: try again.
    Away,
    Deposed,
    Failed(StoreError),
}

impl Leader {
    pub(super) fn new(opened: Opened, mutation: Option<ReplicationMutation>) -> Leader {
        let Parts { batches, writer, reader, maintenance, maintenance_thread } = opened.store.split();
        let core = Core::new(opened.engine, batches, maintenance, Stats::default());
        let lease = writer.lease().expect("a leader has a lease");
        let under_way = Vec::new();
        Leader { core, writer, lease, maintenance_thread, reader, under_way, next_session: 1, mutation }
    }

    pub(super) fn core(&self) -> &Core {
        &self.core
    }

    pub(super) fn refilled_bytes(&self) -> u64 {
        self.writer.refilled_bytes()
    }

    pub(super) fn open(&mut self, identity: &Name) -> (SessionId, Arc<Mailbox>) {
        let session = SessionId(self.next_session);
        self.next_session += 1;
        let mailbox = Arc::new(Mailbox::default());
        let peer = Peer { session, namespace: "default".into(), identity: identity.clone() };
        self.core.open(Arc::new(peer), Principal::trusted("simulator"), Arc::clone(&mailbox));
        (session, mailbox)
    }

    pub(super) fn close(&mut self, now: Timestamp, session: SessionId) {
        self.core.close(now, session);
        self.turn(now);
    }

    pub(super) fn take(&mut self, now: Timestamp, session: SessionId, asks: Vec<Ask>) {
        for ask in asks {
            self.core.take(now, session, ask);
        }
        self.turn(now);
    }

    /// What the hub does at the end of each turn.
    pub(super) fn turn(&mut self, now: Timestamp) {
        self.core.tick(now);
        if self.under_way.is_empty() {
            self.under_way.extend(self.core.seal());
        }
        if self.mutation == Some(ReplicationMutation::SpeakEarly)
            && let Some(frame) = self.under_way.last()
        {
            self.core.synced(now, frame.end());
        }
        self.flush_outbox(now);
    }

    /// Whether the writer has something to commit.
    pub(super) fn is_writing(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// The writer's thread does its work.
    pub(super) fn write(&mut self, now: Timestamp) -> Wrote {
        let written = match self.under_way.is_empty() {
            true => self.writer.tick(now).map(|_| None),
            false => self.writer.append(&mut self.under_way, now).map(Some),
        };
        match written {
            Ok(position) => {
                self.core.journal_is_back(now);
                if let Some(position) = position {
                    self.core.synced(now, position);
                }
                self.turn(now);
                Wrote::Fine
            }
            Err(AppendError::Full { .. } | AppendError::Away { .. }) => {
                self.core.journal_is_away(now);
                Wrote::Away
            }
            Err(AppendError::Deposed { .. }) => Wrote::Deposed,
            Err(AppendError::Fatal(error)) => Wrote::Failed(error),
        }
    }

    pub(super) fn wake(&mut self, stopped_at: Timestamp, now: Timestamp) {
        self.core.broker_stalled(stopped_at, now);
        self.turn(now);
    }

    pub(super) fn keep(&mut self) -> bool {
        self.maintenance_thread.turn()
    }

    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        self.core.next_deadline()
    }

    fn flush_outbox(&mut self, now: Timestamp) {
        let ignores_lease = self.mutation == Some(ReplicationMutation::IgnoreLease);
        self.core.set_lease(ignores_lease || self.lease.holds(now));
        self.core.flush_outbox();
        for (watch, from) in self.core.take_to_read() {
            self.core.read_log(watch, from, &self.reader);
        }
    }
}
