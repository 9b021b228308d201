//! Mirrors the database's snapshot and event files, and the positions of hooks, into the data directory of a standby. The
//! database's list is the truth: what it does not name is removed.

use std::collections::BTreeMap;

use crc32c::crc32c;

use super::hook_files::{is_version, newest};
use super::{FileEntry, ReplicatedSession, ReplicationError};
use crate::disk::Disk;
use crate::error::{Damage, IoContext, StoreError};
use crate::files::{self, Named};

/// The files that are known to equal those of the database.
#[derive(Debug, Default)]
pub(crate) struct Mirror {
    equal: BTreeMap<String, FileEntry>,
}

impl Mirror {
    pub(crate) fn follow(
        &mut self,
        disk: &dyn Disk,
        session: &mut dyn ReplicatedSession,
        entries: &[FileEntry],
    ) -> Result<(), StoreError> {
        let (hooks, others): (Vec<&FileEntry>, Vec<&FileEntry>) =
            entries.iter().partition(|entry| is_version(&entry.name));
        for entry in others {
            self.follow_file(disk, session, entry, &entry.name)?;
        }
        if !hooks.is_empty() {
            for (name, (_, entry)) in newest(entries) {
                self.follow_file(disk, session, entry, name)?;
            }
        }
        let is_named = |name: &String| entries.iter().any(|entry| entry.name == *name);
        self.equal.retain(|name, _| is_named(name));
        let mut removed = false;
        for name in disk.list().doing("listing", "the directory")? {
            let is_mirrored =
                matches!(files::named(&name), Named::Snapshot(_) | Named::Events(_) | Named::Unfinished);
            if is_mirrored && !is_named(&name) {
                disk.remove(&name).doing("removing", &name)?;
                removed = true;
            }
        }
        if removed { disk.sync_dir().syncing("the directory") } else { Ok(()) }
    }

    /// Makes the local file equal to the database's.
    fn follow_file(
        &mut self,
        disk: &dyn Disk,
        session: &mut dyn ReplicatedSession,
        entry: &FileEntry,
        local: &str,
    ) -> Result<(), StoreError> {
        if self.equal.get(&entry.name) == Some(entry) {
            return Ok(());
        }
        if !is_equal(disk, entry, local)? {
            fetch(disk, session, entry, local)?;
        }
        self.equal.insert(entry.name.clone(), entry.clone());
        Ok(())
    }
}

fn is_equal(disk: &dyn Disk, entry: &FileEntry, local: &str) -> Result<bool, StoreError> {
    let file = match disk.open(local) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        other => other.doing("opening", local)?,
    };
    if file.len().doing("measuring", local)? != entry.bytes {
        return Ok(false);
    }
    Ok(crc32c(&read(disk, local)?) == entry.crc)
}

/// A fetched file gets its name when it is complete and synced, as every other file.
fn fetch(
    disk: &dyn Disk,
    session: &mut dyn ReplicatedSession,
    entry: &FileEntry,
    local: &str,
) -> Result<(), StoreError> {
    let bytes = session.get_file(&entry.name)?;
    if bytes.len() as u64 != entry.bytes || crc32c(&bytes) != entry.crc {
        // The leader replaces an event file by a longer one.
        if !session.look()?.files.contains(entry) {
            return Err(ReplicationError::Gone(entry.name.clone()).into());
        }
        let why = "the replicated journal holds other bytes than it says";
        return Err(Damage::new(&entry.name, 0, why).into());
    }
    let unfinished = files::unfinished(local);
    let file = disk.create(&unfinished).doing("creating", &unfinished)?;
    file.write_at(&bytes, 0).doing("writing", &unfinished)?;
    file.sync().syncing(&unfinished)?;
    disk.rename(&unfinished, local).doing("renaming", &unfinished)?;
    disk.sync_dir().syncing("the directory")
}

pub(crate) fn read(disk: &dyn Disk, name: &str) -> Result<Vec<u8>, StoreError> {
    let file = disk.open(name).doing("opening", name)?;
    let len = usize::try_from(file.len().doing("measuring", name)?).expect("a file fits into memory");
    let mut bytes = vec![0; len];
    let count = file.read_at(&mut bytes, 0).doing("reading", name)?;
    bytes.truncate(count);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::disk::MemoryDisk;
    use crate::replicated::{LeaderClaim, Member, MemoryJournal, ReplicatedJournal};

    #[test]
    fn a_file_that_is_replaced_while_it_is_fetched_is_fetched_in_the_next_round() {
        let journal = MemoryJournal::new(1);
        let mut session = journal.connect().unwrap();
        let member =
            Member { name: "b1".into(), instance: 1, lease: Duration::from_secs(9), doors: String::new() };
        let leadership = session.lead(&member, LeaderClaim::LeaseEnded).unwrap().expect("no member leads");
        let (name, disk) = (files::events(1), MemoryDisk::new());
        session.put_file(&leadership, &name, b"one").unwrap();
        let before = session.look().unwrap().files;
        session.put_file(&leadership, &name, b"one, two").unwrap();

        let mut mirror = Mirror::default();
        let error = mirror.follow(&disk, &mut *session, &before).unwrap_err();
        assert_eq!(error.to_string(), StoreError::from(ReplicationError::Gone(name.clone())).to_string());
        let now = session.look().unwrap().files;
        mirror.follow(&disk, &mut *session, &now).unwrap();
        assert_eq!(read(&disk, &name).unwrap(), b"one, two");
    }
}
