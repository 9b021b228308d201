//! The core of a hub and its disk, step by step: a test says when a batch is sealed and when it is on disk.

use std::sync::Arc;
use std::time::Duration;

use tenure_hub::core::Core;
use tenure_hub::words::{Peer, SessionId, Settings, Timestamp};
use tenure_hub::{Ask, Mailbox, Principal, Request, Stats};
use tenure_store::{JournalFrame, MemoryDisk, Opened, Parts, Store, StoreSettings, Writer};

pub(crate) struct Bench {
    pub(crate) core: Core,
    pub(crate) writer: Writer,
    pub(crate) now: Timestamp,
}

impl Bench {
    pub(crate) fn new() -> Bench {
        let now = Timestamp(1_000);
        let disk = Arc::new(MemoryDisk::new());
        let opened = Store::open(disk, StoreSettings::default(), Settings::default(), now);
        let Opened { engine, store, .. } = opened.expect("an empty disk opens");
        let Parts { batches, writer, maintenance, .. } = store.split();
        Bench { core: Core::new(engine, batches, maintenance, Stats::default()), writer, now }
    }

    pub(crate) fn session(&mut self, number: u64) -> Arc<Mailbox> {
        let mailbox = Arc::new(Mailbox::default());
        let peer = Peer { session: SessionId(number), namespace: "default".into(), identity: "ada".into() };
        self.core.open(Arc::new(peer), Principal::trusted("test"), Arc::clone(&mailbox));
        mailbox
    }

    pub(crate) fn ask(&mut self, session: u64, token: u64, request: Request) {
        self.core.take(self.now, SessionId(session), Ask { token, request });
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        self.core.tick(self.now);
        self.core.flush_outbox();
    }

    /// Writes what is decided.
    pub(crate) fn commit(&mut self) {
        if let Some(frame) = self.seal() {
            self.sync(frame);
        }
        self.core.flush_outbox();
    }

    pub(crate) fn seal(&mut self) -> Option<JournalFrame> {
        let frame = self.core.seal();
        self.core.flush_outbox();
        frame
    }

    pub(crate) fn sync(&mut self, frame: JournalFrame) {
        let position = self.writer.append(&mut vec![frame], self.now).expect("the disk is fine");
        self.core.synced(self.now, position);
        self.core.flush_outbox();
    }
}
