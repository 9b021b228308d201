//! The maintenance thread's end of a replicated journal: stores the snapshot and the event files in the database,
//! and only then drops the segments that they replace.

use std::collections::BTreeSet;
use std::sync::Arc;

use crc32c::crc32c;

use super::hook_files::is_version;
use super::leader::LeaderState;
use super::mirror::read;
use super::{Leadership, ReplicatedSession, ReplicationError, ReplicationMutation, Stream};
use crate::disk::Disk;
use crate::error::StoreError;

#[derive(Debug)]
pub(crate) struct Uploads {
    leader: Arc<LeaderState>,
    session: Option<Box<dyn ReplicatedSession>>,
}

/// How often one change is tried. Each is harmless if it is done twice.
const TRIES: usize = 2;

impl Uploads {
    pub(crate) fn of(leader: Arc<LeaderState>) -> Uploads {
        Uploads { leader, session: None }
    }

    pub(crate) fn drops_early(&self) -> bool {
        self.leader.has_mutation(ReplicationMutation::DropEarly)
    }

    /// Stores the files that the database does not have in this form.
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

    /// Removes the files and segments that the leader no longer has. The database keeps its newest segment.
    pub(crate) fn drop_obsolete(
        &mut self,
        files: &[String],
        segments: &BTreeSet<u64>,
    ) -> Result<(), StoreError> {
        let state = self.call(&mut |session, _| session.look())?;
        let is_obsolete = |name: &String| !files.contains(name) && !is_version(name);
        for entry in state.files.iter().filter(|entry| is_obsolete(&entry.name)) {
            self.call(&mut |session, leadership| session.remove_file(leadership, &entry.name))?;
        }
        let newest = state.streams.tasks.segments.last().map_or(0, |place| place.position);
        let starts = state.streams.tasks.segments.iter().map(|place| place.position);
        let dropped: Vec<u64> = starts.filter(|start| *start < newest && !segments.contains(start)).collect();
        if dropped.is_empty() {
            return Ok(());
        }
        Ok(self.call(&mut |session, leadership| session.drop_segments(leadership, Stream::Tasks, &dropped))?)
    }

    fn call<T>(
        &mut self,
        work: &mut dyn FnMut(&mut dyn ReplicatedSession, &Leadership) -> Result<T, ReplicationError>,
    ) -> Result<T, ReplicationError> {
        let mut last = ReplicationError::Doubt;
        for _ in 0..TRIES {
            // The writer begins a new epoch whenever it connects again.
            let leadership = self.leader.leadership();
            let mut session = match self.session.take() {
                Some(session) => session,
                None => self.leader.journal.connect()?,
            };
            match work(&mut *session, &leadership) {
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
