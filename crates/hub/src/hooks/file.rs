//! The file of a hook: JSON, written whole.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tenure_engine::Timestamp;

use super::{HookProgress, Undelivered};

const VERSION: u32 = 1;

#[derive(Debug, Deserialize, Serialize)]
struct HookFile {
    version: u32,
    next_event: u64,
    undelivered: Vec<Entry>,
}

#[derive(Debug, Deserialize, Serialize)]
struct Entry {
    seq: u64,
    kind: String,
    given_up_at: u64,
    attempts: u32,
    error: String,
    body: String,
}

impl HookProgress {
    /// The bytes to write now.
    pub fn encode(&self) -> Vec<u8> {
        let entry = |one: Undelivered| Entry {
            seq: one.seq,
            kind: one.kind.into(),
            given_up_at: one.given_up_at.millis(),
            attempts: one.attempts,
            error: one.error.into(),
            body: String::from_utf8_lossy(&one.body).into_owned(),
        };
        let undelivered = self.undelivered().into_iter().map(entry).collect();
        let file = HookFile { version: VERSION, next_event: self.next_event(), undelivered };
        serde_json::to_vec(&file).unwrap_or_default()
    }

    /// Takes over what an earlier broker has written. Returns whether it was readable.
    #[must_use]
    pub fn decode(&self, bytes: &[u8]) -> bool {
        let Ok(file) = serde_json::from_slice::<HookFile>(bytes) else { return false };
        if file.version != VERSION {
            return false;
        }
        let undelivered = file.undelivered.into_iter().map(|entry| Undelivered {
            seq: entry.seq,
            kind: entry.kind.into(),
            given_up_at: Timestamp(entry.given_up_at),
            attempts: entry.attempts,
            error: entry.error.into(),
            body: Bytes::from(entry.body),
            is_due: false,
        });
        self.restore(file.next_event, undelivered.collect());
        true
    }
}
