//! The saver: the thread that writes records. It never holds a namespace's lock while it writes.
//!
//! A round: take all decided records → append as one frame, one sync → release the answers. Between rounds it
//! removes expired keys and rewrites the log, a slice at a time.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tenure_keyspace::Timestamp as KeyTime;
use tenure_store::{KeyLog, KeyRecords, StoreError, WriteError};

use super::pending::WriteQueue;
use super::sweep::KeySweep;
use super::{Keyspaces, Shared, locked};
use crate::clock::wall_clock;

/// How soon a full disk is retried.
const FULL_RETRY: Duration = Duration::from_millis(200);
/// How often expired keys are searched for.
const EXPIRE_EVERY: Duration = Duration::from_millis(250);
/// How many expired keys are removed before the namespace's lock is released.
const EXPIRE_MAX: usize = 1_000;

/// The state of the saver thread.
#[derive(Debug)]
pub struct KeySaver {
    keyspaces: Weak<Shared>,
    log: KeyLog,
    sweep: Option<KeySweep>,
    /// The records that did not fit on a full disk, and the place of the last one.
    unwritten: Option<(KeyRecords, u64)>,
}

/// How a round ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// There was nothing to do.
    Idle,
    Wrote,
    DiskFull,
    /// The broker stops, and everything is written.
    Over,
}

impl KeySaver {
    pub(super) fn new(keyspaces: &Keyspaces, log: KeyLog) -> KeySaver {
        KeySaver { keyspaces: Arc::downgrade(&keyspaces.shared), log, sweep: None, unwritten: None }
    }

    /// Runs until the broker stops or is dropped. An error means that the disk failed and the process must
    /// end.
    pub fn run(mut self) -> Result<(), StoreError> {
        let mut expired_at = KeyTime::default();
        loop {
            let Some(shared) = self.keyspaces.upgrade() else { return Ok(()) };
            let keyspaces = Keyspaces { shared };
            let now = KeyTime(wall_clock().millis());
            if now.0.abs_diff(expired_at.0) >= EXPIRE_EVERY.as_millis() as u64 {
                keyspaces.expire(now);
                expired_at = now;
            }
            let wait = if self.sweep.is_some() { Duration::ZERO } else { EXPIRE_EVERY };
            match self.round(&keyspaces, wait) {
                Ok(Round::Over) => return Ok(()),
                Ok(Round::DiskFull) => std::thread::sleep(FULL_RETRY),
                Ok(Round::Idle | Round::Wrote) => {}
                Err(error) => {
                    keyspaces.shared.pending.end();
                    return Err(error);
                }
            }
        }
    }

    /// Writes decided records, waiting up to `wait` for them, and a slice of a sweep.
    pub fn round(&mut self, keyspaces: &Keyspaces, wait: Duration) -> Result<Round, StoreError> {
        let pending = &keyspaces.shared.pending;
        if let Some((records, last)) = self.unwritten.take()
            && !self.write(keyspaces, records, last)?
        {
            return Ok(Round::DiskFull);
        }
        let WriteQueue { records, last, finish, .. } = pending.take(wait);
        let is_idle = records.is_empty();
        if !is_idle {
            let mut rows = KeyRecords::default();
            let mut encoded = Vec::new();
            for (namespace, record) in &records {
                encoded.clear();
                rmp_serde::encode::write(&mut encoded, record).expect("a record can be written");
                rows.add(namespace.as_bytes(), &encoded);
            }
            if !self.write(keyspaces, rows, last)? {
                return Ok(Round::DiskFull);
            }
        }
        if let Some(done) = finish {
            pending.end();
            let _ = done.send(());
            return Ok(Round::Over);
        }
        self.go_on_sweeping(keyspaces)?;
        Ok(if is_idle { Round::Idle } else { Round::Wrote })
    }

    /// Returns `false` if the disk is full: then the records are kept and tried again.
    fn write(&mut self, keyspaces: &Keyspaces, records: KeyRecords, last: u64) -> Result<bool, StoreError> {
        match self.log.append(&records) {
            Ok(()) => {}
            Err(WriteError::Full { .. }) => {
                if !keyspaces.shared.pending.is_full() {
                    tracing::warn!("the disk is full; keys cannot be changed until space is free");
                }
                keyspaces.shared.pending.full();
                self.unwritten = Some((records, last));
                return Ok(false);
            }
            Err(WriteError::Fatal(error)) => return Err(error),
        }
        self.log.sync()?;
        keyspaces.shared.pending.written(last);
        Ok(true)
    }

    /// Begins a sweep of a long log, continues it, and deletes old files.
    fn go_on_sweeping(&mut self, keyspaces: &Keyspaces) -> Result<(), StoreError> {
        let Some(sweep) = &mut self.sweep else {
            self.log.delete_unused_files()?;
            if keyspaces.log_is_long(self.log.bytes()) && self.log.begin_sweep()? {
                self.sweep = Some(KeySweep::new(keyspaces));
            }
            return Ok(());
        };
        if sweep.go_on(keyspaces) {
            return Ok(());
        }
        match self.log.end_sweep() {
            Ok(()) => self.sweep = None,
            Err(WriteError::Full { .. }) => {}
            Err(WriteError::Fatal(error)) => return Err(error),
        }
        Ok(())
    }
}

impl Keyspaces {
    /// Removes expired keys.
    pub fn expire(&self, now: KeyTime) {
        for state in self.spaces() {
            loop {
                let mut state = locked(&state);
                let record = state.space.expire(now, EXPIRE_MAX);
                let is_done = record.0.len() < EXPIRE_MAX;
                self.record(&mut state, record, Vec::new());
                if is_done {
                    break;
                }
            }
        }
    }

    fn log_is_long(&self, log_bytes: u64) -> bool {
        let limit = self.shared.settings.log_bytes;
        if log_bytes <= limit {
            return false;
        }
        let weight: usize = self.spaces().iter().map(|state| locked(state).space.bytes()).sum();
        log_bytes > limit + 2 * weight as u64
    }
}
