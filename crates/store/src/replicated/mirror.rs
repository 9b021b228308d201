//! Mirrors the engine's snapshot and event files into the data directory of a standby. The engine's list is the
//! truth: what it does not name is removed.

use std::collections::BTreeMap;

use crc32c::crc32c;

use super::{FileEntry, ReplicatedSession};
use crate::disk::Disk;
use crate::error::{Damage, Doing, StoreError};
use crate::files::{self, Named};

/// The files that are known to equal those of the engine.
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
        for entry in entries {
            if self.equal.get(&entry.name) != Some(entry) {
                if !is_equal(disk, entry)? {
                    fetch(disk, session, entry)?;
                }
                self.equal.insert(entry.name.clone(), entry.clone());
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
}

fn is_equal(disk: &dyn Disk, entry: &FileEntry) -> Result<bool, StoreError> {
    let file = match disk.open(&entry.name) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        other => other.doing("opening", &entry.name)?,
    };
    if file.len().doing("measuring", &entry.name)? != entry.bytes {
        return Ok(false);
    }
    Ok(crc32c(&read(disk, &entry.name)?) == entry.crc)
}

/// A fetched file gets its name when it is complete and synced, as every other file.
fn fetch(disk: &dyn Disk, session: &mut dyn ReplicatedSession, entry: &FileEntry) -> Result<(), StoreError> {
    let bytes = session.get_file(&entry.name)?;
    if bytes.len() as u64 != entry.bytes || crc32c(&bytes) != entry.crc {
        let why = "the replicated journal holds other bytes than it says";
        return Err(Damage::new(&entry.name, 0, why).into());
    }
    let unfinished = files::unfinished(&entry.name);
    let file = disk.create(&unfinished).doing("creating", &unfinished)?;
    file.write_at(&bytes, 0).doing("writing", &unfinished)?;
    file.sync().syncing(&unfinished)?;
    disk.rename(&unfinished, &entry.name).doing("renaming", &unfinished)?;
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
