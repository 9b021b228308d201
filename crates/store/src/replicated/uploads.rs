//! The maintenance thread's end of a replicated journal: stores the snapshot and the event files in the engine,
//! and only then drops the segments that they replace.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crc32c::crc32c;

use super::mirror::read;
use super::mutation::mistaken;
use super::target::ReplicatedTarget;
use super::{Leadership, ReplicatedJournal, ReplicatedSession, ReplicationError, ReplicationMutation};
use crate::disk::Disk;
use crate::error::StoreError;

#[derive(Debug)]
pub(crate) struct Uploads {
    journal: Arc<dyn ReplicatedJournal>,
    session: Option<Box<dyn ReplicatedSession>>,
    /// The writer's epoch. It changes whenever the writer connects again.
    epoch: Arc<AtomicU64>,
    leadership: Leadership,
    mutation: Option<ReplicationMutation>,
}

/// How often one change is tried. Each is harmless if it is done twice.
const TRIES: usize = 2;

impl Uploads {
    pub(crate) fn of(target: &ReplicatedTarget) -> Uploads {
        Uploads {
            journal: target.journal(),
            session: None,
            epoch: target.epoch(),
            leadership: target.leadership().clone(),
            mutation: target.mutation,
        }
    }

    pub(crate) fn drops_early(&self) -> bool {
        mistaken(self.mutation, ReplicationMutation::DropEarly)
    }

    /// Stores the files that the engine does not have in this form.
    pub(crate) fn put_files(&mut self, disk: &dyn Disk, names: &[String]) -> Result<(), StoreError> {
        let state = self.call(&mut |session, _| session.look())?;
        for name in names {
            let bytes = read(disk, name)?;
            let (len, crc) = (bytes.len() as u64, crc32c(&bytes));
            let is_there =
                |entry: &super::FileEntry| entry.name == *name && entry.bytes == len && entry.crc == crc;
            if !state.files.iter().any(is_there) {
                self.call(&mut |session, leadership| session.put_file(leadership, name, &bytes))?;
            }
        }
        Ok(())
    }

    /// Removes the files and segments that the leader no longer has. The engine keeps its newest segment.
    pub(crate) fn drop_obsolete(
        &mut self,
        files: &[String],
        segments: &BTreeSet<u64>,
    ) -> Result<(), StoreError> {
        let state = self.call(&mut |session, _| session.look())?;
        for entry in state.files.iter().filter(|entry| !files.contains(&entry.name)) {
            self.call(&mut |session, leadership| session.remove_file(leadership, &entry.name))?;
        }
        let newest = state.segments.last().map_or(0, |place| place.position);
        let starts = state.segments.iter().map(|place| place.position);
        let dropped: Vec<u64> = starts.filter(|start| *start < newest && !segments.contains(start)).collect();
        if dropped.is_empty() {
            return Ok(());
        }
        Ok(self.call(&mut |session, leadership| session.drop_segments(leadership, &dropped))?)
    }

    fn call<T>(
        &mut self,
        work: &mut dyn FnMut(&mut dyn ReplicatedSession, &Leadership) -> Result<T, ReplicationError>,
    ) -> Result<T, ReplicationError> {
        let mut last = ReplicationError::Doubt;
        for _ in 0..TRIES {
            self.leadership.epoch = self.epoch.load(Ordering::Acquire);
            let mut session = match self.session.take() {
                Some(session) => session,
                None => self.journal.connect()?,
            };
            match work(&mut *session, &self.leadership) {
                Err(error) if error.is_passing() => last = error,
                // The writer may have begun a new epoch meanwhile.
                Err(error @ ReplicationError::Fenced { .. }) => {
                    self.session = Some(session);
                    last = error;
                }
                other => {
                    self.session = Some(session);
                    return other;
                }
            }
        }
        Err(last)
    }
}
