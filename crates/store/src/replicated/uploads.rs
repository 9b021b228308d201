//! The maintenance thread's end of a replicated journal: stores the snapshot and the event files in the database,
//! and only then drops the segments that they replace.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crc32c::crc32c;

use super::hook_files::is_version;
use super::leader::LeaderState;
use super::mirror::read;
use super::{FileEntry, Leadership, ReplicatedSession, ReplicationError, ReplicationMutation, Stream};
use crate::disk::Disk;
use crate::error::{IoContext, StoreError};

#[derive(Debug)]
pub(crate) struct Uploads {
    leader: Arc<LeaderState>,
    session: Option<Box<dyn ReplicatedSession>>,
    /// Files of which the database has the same bytes. A file is replaced only by a longer one.
    stored: BTreeMap<String, FileEntry>,
}

/// How often one change is tried. Each is harmless if it is done twice.
const TRIES: usize = 2;

impl Uploads {
    pub(crate) fn of(leader: Arc<LeaderState>) -> Uploads {
        Uploads { leader, session: None, stored: BTreeMap::new() }
    }

    pub(crate) fn drops_early(&self) -> bool {
        self.leader.has_mutation(ReplicationMutation::DropEarly)
    }

    /// Stores the files that the database does not have in this form.
    pub(crate) fn put_files(&mut self, disk: &dyn Disk, names: &[String]) -> Result<(), StoreError> {
        let state = self.call(&mut |session, _| session.look())?;
        self.stored.retain(|name, entry| names.contains(name) && state.files.contains(entry));
        for name in names {
            let len = disk.open(name).doing("opening", name)?.len().doing("measuring", name)?;
            if self.stored.get(name).is_some_and(|entry| entry.bytes == len) {
                continue;
            }
            let bytes = read(disk, name)?;
            let entry = FileEntry { name: name.clone(), bytes: bytes.len() as u64, crc: crc32c(&bytes) };
            if !state.files.contains(&entry) {
                self.call(&mut |session, leadership| session.put_file(leadership, name, &bytes))?;
            }
            self.stored.insert(name.clone(), entry);
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::disk::MemoryDisk;
    use crate::files;
    use crate::replicated::{LeaderClaim, Member, MemoryJournal, ReplicatedJournal};

    #[test]
    fn a_file_that_is_stored_is_read_again_only_when_it_has_grown() {
        let journal = MemoryJournal::new(1);
        let member =
            Member { name: "b1".into(), instance: 1, lease: Duration::from_secs(9), doors: String::new() };
        let mut session = journal.connect().unwrap();
        let leadership = session.lead(&member, LeaderClaim::LeaseEnded).unwrap().expect("no member leads");
        let leader = LeaderState::new(Arc::new(journal.clone()), session, member, leadership, None);
        let mut uploads = Uploads::of(Arc::new(leader));
        let (disk, name) = (MemoryDisk::new(), files::events(1));
        let names = [name.clone()];
        let stored = || journal.connect().unwrap().get_file(&name).unwrap();
        disk.put(&name, b"one");
        uploads.put_files(&disk, &names).unwrap();
        assert_eq!(stored(), b"one");
        // Other bytes of the same length show whether it is read.
        disk.put(&name, b"two");
        uploads.put_files(&disk, &names).unwrap();
        assert_eq!(stored(), b"one", "it is not read again");
        disk.put(&name, b"one, two");
        uploads.put_files(&disk, &names).unwrap();
        assert_eq!(stored(), b"one, two");
        // The database has lost it.
        let mut session = journal.connect().unwrap();
        session.remove_file(&uploads.leader.leadership(), &name).unwrap();
        uploads.put_files(&disk, &names).unwrap();
        assert_eq!(stored(), b"one, two");
    }
}
