//! The file of a hook: how far it has come in the events, and what it could not deliver. The store keeps the bytes and
//! does not interpret them.
//!
//! A new version is written beside the old one and takes its name, so that a power failure leaves one of the two.

use crate::disk::Disk;
use crate::error::{IoContext, StoreError};
use crate::files;
use crate::reader::Reader;

/// The largest file of a hook.
const HOOK_FILE_BYTES_MAX: u64 = 16 << 20;

impl Reader {
    /// The bytes that were written last for the hook; `None` if there are none.
    pub fn read_hook_file(&self, hook: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(name) = files::hook(hook) else { return Ok(None) };
        let disk: &dyn Disk = &*self.shared.disk;
        let file = match disk.open(&name) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            other => other.doing("opening", &name)?,
        };
        let bytes = file.len().doing("measuring", &name)?.min(HOOK_FILE_BYTES_MAX);
        let mut read = vec![0; bytes as usize];
        let count = file.read_at(&mut read, 0).doing("reading", &name)?;
        read.truncate(count);
        Ok(Some(read))
    }

    /// Replaces what is kept for the hook, and syncs it.
    pub fn write_hook_file(&self, hook: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let Some(name) = files::hook(hook) else {
            return Err(StoreError::Io {
                doing: "naming",
                file: hook.to_owned(),
                source: std::io::ErrorKind::InvalidFilename.into(),
            });
        };
        // In a group the next leader continues where this one was. A local file is a copy.
        if let Some(leader) = &self.shared.leader {
            leader.put_hook_file(&name, bytes)?;
        }
        let disk: &dyn Disk = &*self.shared.disk;
        let unfinished = files::unfinished(&name);
        let file = disk.create(&unfinished).doing("creating", &unfinished)?;
        file.write_at(bytes, 0).doing("writing", &unfinished)?;
        file.sync().syncing(&unfinished)?;
        disk.rename(&unfinished, &name).doing("renaming", &unfinished)?;
        disk.sync_dir().syncing("the directory")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tenure_engine::{Settings, Timestamp};

    use crate::backup::restore;
    use crate::{MemoryDisk, Opened, Reader, Store, StoreSettings};

    fn reader(disk: &MemoryDisk) -> Reader {
        let opened =
            Store::open(Arc::new(disk.clone()), StoreSettings::default(), Settings::default(), Timestamp(1));
        let Opened { store, .. } = opened.expect("the store opens");
        store.split().reader
    }

    #[test]
    fn what_a_hook_has_written_is_there_after_a_restart_and_in_a_backup() {
        let disk = MemoryDisk::new();
        let store = reader(&disk);
        assert_eq!(store.read_hook_file("ops").expect("it is readable"), None);
        store.write_hook_file("ops", b"12345").expect("it is written");
        store.write_hook_file("ops", b"67").expect("it is written");
        let backup = MemoryDisk::new();
        store.backup(&backup).expect("a backup");
        let after = disk.crash(7);
        assert_eq!(reader(&after).read_hook_file("ops").expect("it is readable"), Some(b"67".to_vec()));
        let other = MemoryDisk::new();
        restore(&backup, &other).expect("the backup is whole");
        assert_eq!(reader(&other).read_hook_file("ops").expect("it is readable"), Some(b"67".to_vec()));
    }

    #[test]
    fn a_hook_cannot_choose_another_file() {
        let store = reader(&MemoryDisk::new());
        assert!(store.write_hook_file("../lock", b"x").is_err());
        assert_eq!(store.read_hook_file("../lock").expect("nothing is read"), None);
    }
}
