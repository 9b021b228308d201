//! The saver: the thread that writes records. It never holds a namespace's lock while it writes.
//!
//! A round: take all decided records → append as one frame, one sync → release the answers. Between rounds it
//! removes expired keys and rewrites the log, a slice at a time.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tenure_keyspace::Timestamp as KeyTime;
use tenure_store::{AppendError, KeyLog, KeyRecords, StoreError, WriteError};

use super::pending::WriteQueue;
use super::sweep::KeySweep;
use super::{Keyspaces, Shared, locked};
use crate::clock::wall_clock;

/// How soon a full disk is retried.
const FULL_RETRY: Duration = Duration::from_millis(200);
/// How soon a replicated journal is asked again that did not answer, and how long a stop waits for it.
const AWAY_RETRY: Duration = Duration::from_millis(20);
const AWAY_STOP_MAX: Duration = Duration::from_secs(5);
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
    /// The place of the last record that was appended and is not durable yet.
    unsettled: Option<u64>,
    /// When a stop was asked for while the replicated journal was away.
    stops_since: Option<Instant>,
}

/// How a round ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// There was nothing to do.
    Idle,
    /// The records are on disk.
    Wrote,
    /// The disk is full; the saver tries again.
    DiskFull,
    /// The replicated journal does not answer, or another broker leads: nothing is acknowledged.
    Away,
    /// The broker stops, and everything is written.
    Over,
}

impl KeySaver {
    pub(super) fn new(keyspaces: &Keyspaces, log: KeyLog) -> KeySaver {
        KeySaver {
            keyspaces: Arc::downgrade(&keyspaces.shared),
            log,
            sweep: None,
            unwritten: None,
            unsettled: None,
            stops_since: None,
        }
    }

    /// Runs until the broker stops or is dropped. An error means that the disk failed and the process must
    /// end.
    pub fn run(mut self) -> Result<(), StoreError> {
        let _end = EndsWithThread(Weak::clone(&self.keyspaces));
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
                Ok(Round::Away) => {
                    if self.stops_too_late(&keyspaces) {
                        keyspaces.shared.pending.abandon();
                        return Ok(());
                    }
                    drop(keyspaces);
                    std::thread::sleep(AWAY_RETRY);
                }
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
        if self.unsettled.is_some() && !self.sync_and_reply(keyspaces)? {
            return Ok(Round::Away);
        }
        if let Some((records, last)) = self.unwritten.take()
            && !self.write(keyspaces, records, last)?
        {
            return Ok(Round::DiskFull);
        }
        if self.unsettled.is_some() {
            return Ok(Round::Away);
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
            if self.unsettled.is_some() {
                pending.restore_finish(finish);
                return Ok(Round::Away);
            }
        }
        if let Some(done) = finish {
            pending.end();
            let _ = done.send(());
            return Ok(Round::Over);
        }
        self.go_on_sweeping(keyspaces)?;
        if self.log.is_committing() {
            self.sync_and_reply(keyspaces)?;
        }
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
        self.unsettled = Some(last);
        self.sync_and_reply(keyspaces)?;
        Ok(true)
    }

    /// Makes everything appended durable, and releases the answers. What is not is neither acknowledged nor
    /// refused: it may be committed all the same. Returns whether it is.
    fn sync_and_reply(&mut self, keyspaces: &Keyspaces) -> Result<bool, StoreError> {
        match self.log.sync() {
            Ok(()) => {
                if let Some(last) = self.unsettled.take() {
                    keyspaces.shared.pending.written(last);
                }
                Ok(true)
            }
            Err(AppendError::Fatal(error)) => Err(error),
            Err(AppendError::Full { .. } | AppendError::Away { .. } | AppendError::Deposed { .. }) => {
                Ok(false)
            }
        }
    }

    /// Whether a stop has waited long enough for the replicated journal.
    fn stops_too_late(&mut self, keyspaces: &Keyspaces) -> bool {
        if !keyspaces.shared.pending.is_over() {
            return false;
        }
        self.stops_since.get_or_insert_with(Instant::now).elapsed() > AWAY_STOP_MAX
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
        if sweep.step(keyspaces) {
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

/// A thread that panics writes nothing more: a stop must not wait for it.
struct EndsWithThread(Weak<Shared>);

impl Drop for EndsWithThread {
    fn drop(&mut self) {
        if let Some(shared) = self.0.upgrade() {
            shared.pending.abandon();
        }
    }
}

impl Keyspaces {
    /// Removes expired keys.
    pub fn expire(&self, now: KeyTime) {
        for state in self.namespaces() {
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
        let weight: usize = self.namespaces().iter().map(|state| locked(state).space.bytes()).sum();
        log_bytes > limit + 2 * weight as u64
    }
}
