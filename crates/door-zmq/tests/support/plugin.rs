//! A `_PL` client and worker of a few lines, for stories.

use std::net::SocketAddr;
use std::time::Duration;

use super::cbor::Item;
use super::wire::{TIMEOUT, Wire};

pub(crate) struct PluginWorker {
    pub(crate) wire: Wire,
}

impl PluginWorker {
    pub(crate) fn start(address: SocketAddr, identity: &str, threads: usize, path: &str) -> PluginWorker {
        let mut worker = PluginWorker { wire: Wire::named(address, identity.as_bytes()) };
        worker.wire.send(&["", "MDPW01_PL", "\x01", "processes"]);
        worker.register(threads, path);
        worker.wire.send(&["", "MDPW01_PL", "\x04", &threads.to_string()]);
        worker
    }

    pub(crate) fn register(&mut self, threads: usize, path: &str) {
        let plugin = format!("{{\"Path\": {path:?}, \"PluginVersion\": \"v7\"}}");
        self.wire.send(&["", "MDPW01_PL", "\x06", &threads.to_string(), "node", &plugin]);
    }

    /// The parameters of the next call.
    pub(crate) fn call(&mut self) -> Item {
        loop {
            let frames = self.wire.receive(TIMEOUT).expect("a call");
            if frames[2] == [2] {
                return Item::decode(&frames[4]).expect("parameters");
            }
        }
    }

    pub(crate) fn finish(&mut self, call: &Item, result: &[&str]) {
        let (Some(Item::Text(client)), Some(Item::Integer(thread))) =
            (call.get("Client"), call.get("ThreadID"))
        else {
            panic!("{call:?}");
        };
        let thread = thread.to_string();
        let frames = ["", "MDPW01_PL", "\x01", client, &thread];
        self.wire.send(&[&frames[..], result].concat());
    }
}

pub(crate) struct PluginClient {
    pub(crate) wire: Wire,
}

impl PluginClient {
    pub(crate) fn start(address: SocketAddr, identity: &str) -> PluginClient {
        PluginClient { wire: Wire::named(address, identity.as_bytes()) }
    }

    /// Submits calls with these `JobID`s.
    pub(crate) fn submit(&mut self, path: &str, jobs: &[&str]) {
        let mut frames: Vec<Vec<u8>> = vec![vec![], b"MDPC01_PL".to_vec(), path.into()];
        frames.push(Item::read("{1: \"JobID\", 2: \"CommitName\", 3: \"Project\"}").0.encode().to_vec());
        for job in jobs {
            frames.push(
                Item::read(&format!("{{1: {job:?}, 2: \"batch-1\", 3: \"cells\"}}")).0.encode().to_vec(),
            );
        }
        self.wire.send(&frames);
    }

    pub(crate) fn ask(&mut self, service: &str, body: &[&str]) -> Vec<Vec<u8>> {
        self.wire.send(&[&["", "MDPC01_PL", service], body].concat());
        loop {
            let mut frames = self.wire.receive(TIMEOUT).expect("an answer");
            if frames[2] == service.as_bytes() {
                return frames.split_off(3);
            }
        }
    }

    /// The same, as text.
    pub(crate) fn lines(&mut self, service: &str, body: &[&str]) -> Vec<String> {
        self.ask(service, body).iter().map(|frame| String::from_utf8_lossy(frame).into_owned()).collect()
    }

    /// The next notice.
    pub(crate) fn notice(&mut self) -> Item {
        self.notice_within(TIMEOUT).expect("a notice")
    }

    pub(crate) fn notice_within(&mut self, timeout: Duration) -> Option<Item> {
        let frames = self.wire.receive(timeout)?;
        assert_eq!((frames.len(), &frames[2][..]), (4, &b""[..]), "{frames:?}");
        let notice = Item::decode(&frames[3]).expect("a map");
        assert!(notice.get("error").is_some(), "{notice:?}");
        Some(notice)
    }
}

/// Whether a notice says these things.
pub(crate) fn says(notice: &Item, expected: &str) -> bool {
    Item::read(expected).0.covers(notice)
}
