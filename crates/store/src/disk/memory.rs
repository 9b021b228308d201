//! A disk in memory with the faults of a real one: on a power failure, unsynced writes vanish or tear and
//! unsynced names change independently; on request it is full, fails to sync, or flips bits.
//!
//! Everything follows from a seed, so a failing run can be repeated.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use super::{Disk, DiskFile, DiskLock};
use crate::error::StoreError;
use crate::random::Random;

/// A handle: clones share the same disk.
#[derive(Clone, Debug, Default)]
pub struct MemoryDisk {
    state: Arc<Mutex<State>>,
    locked: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct State {
    /// The files behind the names. Never removed, because a handle may still be open.
    nodes: Vec<Node>,
    names: BTreeMap<String, usize>,
    /// The names on the platter, and the changes to them since.
    synced_names: BTreeMap<String, usize>,
    name_changes: Vec<NameChange>,
    faults: Faults,
    /// The number of changes: the power may fail at each of them.
    changes: u64,
}

#[derive(Clone, Debug, Default)]
struct Node {
    /// The contents that a reader sees.
    now: Content,
    /// The contents on the platter, and the writes that are pending.
    synced: Content,
    pending: Vec<Pending>,
}

/// The bytes of a file. Trailing zeros that were never written take no memory.
#[derive(Clone, Debug, Default)]
struct Content {
    written: Vec<u8>,
    len: usize,
}

#[derive(Clone, Debug)]
enum Pending {
    Write { offset: usize, bytes: Vec<u8> },
    SetLen { len: usize },
}

#[derive(Clone, Debug)]
enum NameChange {
    Create { name: String, node: usize },
    Rename { from: String, to: String },
    Remove { name: String },
}

#[derive(Debug, Default)]
struct Faults {
    capacity: Option<u64>,
    syncs_until_failure: Option<u64>,
    changes_until_power_fails: Option<u64>,
    power_is_gone: bool,
    /// Syncs of files with this name prefix do nothing; an empty prefix matches all files.
    ignores_sync_of: Option<String>,
}

/// A power failure can tear a write at any byte, or between the sectors of a page that was written out of
/// order.
const SECTOR_BYTES: usize = 64;

impl MemoryDisk {
    /// An empty disk without faults.
    pub fn new() -> MemoryDisk {
        MemoryDisk::default()
    }

    /// Simulates a power failure. Returns the disk as found afterwards; open handles stay with the old one.
    pub fn crash(&self, seed: u64) -> MemoryDisk {
        let mut random = Random::new(seed);
        let state = self.state();
        let names = surviving_names(&state, &mut random);
        let mut after = State::default();
        for (name, node) in names {
            let bytes = state.nodes[node].after_crash(&mut random);
            after.names.insert(name, after.nodes.len());
            after.nodes.push(Node::synced(bytes));
        }
        after.synced_names = after.names.clone();
        MemoryDisk { state: Arc::new(Mutex::new(after)), locked: Arc::default() }
    }

    /// Simulates the end of the process on a machine that keeps running: no write is lost. Returns an
    /// independent copy for the new process.
    pub fn reopen(&self) -> MemoryDisk {
        let state = self.state();
        let mut after = State::default();
        for (name, node) in &state.names {
            after.names.insert(name.clone(), after.nodes.len());
            after.nodes.push(state.nodes[*node].clone());
        }
        after.synced_names = after.names.clone();
        MemoryDisk { state: Arc::new(Mutex::new(after)), locked: Arc::default() }
    }

    /// The number of changes so far: writes, truncations, syncs and name changes.
    pub fn changes(&self) -> u64 {
        self.state().changes
    }

    /// Fails the power after this many more changes: the next change happens in part, and all later ones are
    /// refused.
    pub fn fail_power_after(&self, changes: u64) {
        self.state().faults.changes_until_power_fails = Some(changes);
    }

    /// Limits the capacity in bytes; `None` removes the limit.
    pub fn limit_capacity(&self, bytes: Option<u64>) {
        self.state().faults.capacity = bytes;
    }

    /// Fails one sync after this many more. What that sync should have written is never synced.
    pub fn fail_sync_after(&self, syncs: u64) {
        self.state().faults.syncs_until_failure = Some(syncs);
    }

    /// Makes every sync succeed without doing anything: a durability test must notice.
    pub fn ignore_sync(&self, ignore: bool) {
        self.state().faults.ignores_sync_of = ignore.then(String::new);
    }

    /// The same for files whose name has this prefix. The directory itself is called `directory`.
    pub fn ignore_sync_of(&self, prefix: &str) {
        self.state().faults.ignores_sync_of = Some(prefix.to_owned());
    }

    /// Flips bits of a byte, on the platter and for every reader.
    pub fn flip(&self, name: &str, offset: u64, mask: u8) {
        let mut state = self.state();
        let node = state.names[name];
        let offset = usize::try_from(offset).expect("a file fits into memory");
        let node = &mut state.nodes[node];
        node.now.flip(offset, mask);
        node.synced.flip(offset, mask);
    }

    /// The whole content of a file, as a reader sees it.
    pub fn content(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.state();
        state.names.get(name).map(|node| state.nodes[*node].now.whole())
    }

    /// Creates a file that is synced from the start.
    pub fn put(&self, name: &str, bytes: &[u8]) {
        let mut state = self.state();
        let node = state.nodes.len();
        state.nodes.push(Node::synced(Content::new(bytes)));
        state.names.insert(name.to_owned(), node);
        state.synced_names.insert(name.to_owned(), node);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of the lock panics")
    }

    fn file(&self, node: usize) -> Arc<dyn DiskFile> {
        Arc::new(MemoryFile { disk: self.clone(), node })
    }
}

impl Disk for MemoryDisk {
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.state();
        state.change()?;
        if let Some(node) = state.names.get(name).copied() {
            state.nodes[node].set_len(0);
            return Ok(self.file(node));
        }
        let node = state.nodes.len();
        state.nodes.push(Node::default());
        state.names.insert(name.to_owned(), node);
        state.name_changes.push(NameChange::Create { name: name.to_owned(), node });
        Ok(self.file(node))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let node = self.state().names.get(name).copied();
        node.map(|node| self.file(node)).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        state.change()?;
        let node = state.names.remove(from).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        state.names.insert(to.to_owned(), node);
        state.name_changes.push(NameChange::Rename { from: from.to_owned(), to: to.to_owned() });
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        state.change()?;
        state.names.remove(name).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        state.name_changes.push(NameChange::Remove { name: name.to_owned() });
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.state().names.keys().cloned().collect())
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut state = self.state();
        state.change()?;
        if !state.sync_fails("directory")? {
            state.synced_names = state.names.clone();
            state.name_changes.clear();
        }
        Ok(())
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let state = self.state();
        Ok(state.faults.capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(state.used())))
    }

    fn lock(&self) -> Result<DiskLock, StoreError> {
        if self.locked.swap(true, Ordering::SeqCst) {
            return Err(StoreError::Locked { pid: std::process::id().to_string() });
        }
        Ok(DiskLock::new(Unlock(self.locked.clone())))
    }
}

#[derive(Debug)]
struct Unlock(Arc<AtomicBool>);

impl Drop for Unlock {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

#[derive(Debug)]
struct MemoryFile {
    disk: MemoryDisk,
    node: usize,
}

impl DiskFile for MemoryFile {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let state = self.disk.state();
        let content = &state.nodes[self.node].now;
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(content.len);
        let count = into.len().min(content.len - start);
        let written = content.written.get(start..).unwrap_or_default();
        let (here, beyond) = into[..count].split_at_mut(written.len().min(count));
        here.copy_from_slice(&written[..here.len()]);
        beyond.fill(0);
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        let offset = usize::try_from(offset).expect("a file fits into memory");
        let had_power = !state.faults.power_is_gone;
        if let Err(error) = state.change() {
            if had_power {
                // The power fails in the middle of this write.
                state.nodes[self.node].write(&bytes[..bytes.len() / 2], offset);
            }
            return Err(error);
        }
        let grows = (offset + bytes.len()).saturating_sub(state.nodes[self.node].now.written.len()) as u64;
        let room = state.faults.capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(state.used()));
        if grows > room {
            let fits = bytes.len().saturating_sub((grows - room) as usize);
            state.nodes[self.node].write(&bytes[..fits], offset);
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.nodes[self.node].write(bytes, offset);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        state.change()?;
        let named = state.names.iter().find(|(_, node)| **node == self.node).map(|(name, _)| name.clone());
        match state.sync_fails(&named.unwrap_or_default()) {
            Ok(true) => Ok(()),
            Ok(false) => {
                let node = &mut state.nodes[self.node];
                for pending in node.pending.drain(..) {
                    match pending {
                        Pending::Write { offset, bytes } => node.synced.write(&bytes, offset),
                        Pending::SetLen { len } => node.synced.set_len(len),
                    }
                }
                Ok(())
            }
            Err(error) => {
                // Like a kernel that marks the pages clean: a later sync succeeds although they are still
                // missing.
                state.nodes[self.node].pending.clear();
                Err(error)
            }
        }
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.state().nodes[self.node].now.len as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        state.change()?;
        state.nodes[self.node].set_len(usize::try_from(len).expect("a file fits into memory"));
        Ok(())
    }
}

impl State {
    fn used(&self) -> u64 {
        self.names.values().map(|node| self.nodes[*node].now.written.len() as u64).sum()
    }

    /// Counts a change, or fails if the power is off.
    fn change(&mut self) -> io::Result<()> {
        if let Some(left) = &mut self.faults.changes_until_power_fails {
            if *left == 0 {
                self.faults.power_is_gone = true;
                return Err(io::Error::other("the power has failed"));
            }
            *left -= 1;
        }
        self.changes += 1;
        Ok(())
    }

    /// `Ok(true)`: skip this sync.
    fn sync_fails(&mut self, name: &str) -> io::Result<bool> {
        if let Some(left) = &mut self.faults.syncs_until_failure {
            if *left == 0 {
                self.faults.syncs_until_failure = None;
                return Err(io::Error::other("the disk could not write"));
            }
            *left -= 1;
        }
        Ok(self.faults.ignores_sync_of.as_ref().is_some_and(|prefix| name.starts_with(prefix)))
    }
}

impl Node {
    fn synced(content: Content) -> Node {
        Node { now: content.clone(), synced: content, pending: Vec::new() }
    }

    fn write(&mut self, bytes: &[u8], offset: usize) {
        self.now.write(bytes, offset);
        self.pending.push(Pending::Write { offset, bytes: bytes.to_vec() });
    }

    fn set_len(&mut self, len: usize) {
        self.now.set_len(len);
        self.pending.push(Pending::SetLen { len });
    }

    /// The platter's content with a random part of the pending writes.
    fn after_crash(&self, random: &mut Random) -> Content {
        let mut found = self.synced.clone();
        let fate = random.below(4);
        for pending in &self.pending {
            match pending {
                Pending::SetLen { len } => {
                    if fate == 1 || random.below(2) == 0 {
                        found.set_len(*len);
                    }
                }
                Pending::Write { offset, bytes } => match fate {
                    // All lost, all there, cut somewhere, or some sectors of each.
                    0 => {}
                    1 => found.write(bytes, *offset),
                    2 => {
                        let cut = random.below(bytes.len() as u64 + 1) as usize;
                        found.write(&bytes[..cut], *offset);
                        if cut < bytes.len() {
                            break;
                        }
                    }
                    _ => {
                        for (index, sector) in bytes.chunks(SECTOR_BYTES).enumerate() {
                            if random.below(2) == 0 {
                                found.write(sector, offset + index * SECTOR_BYTES);
                            }
                        }
                    }
                },
            }
        }
        found
    }
}

/// The names on the platter, with either a prefix or a random subset of the changes since.
fn surviving_names(state: &State, random: &mut Random) -> BTreeMap<String, usize> {
    let mut names = state.synced_names.clone();
    let in_order = random.below(2) == 0;
    let upto = random.below(state.name_changes.len() as u64 + 1) as usize;
    for (index, change) in state.name_changes.iter().enumerate() {
        let survives = if in_order { index < upto } else { random.below(2) == 0 };
        if !survives {
            continue;
        }
        match change {
            NameChange::Create { name, node } => {
                names.insert(name.clone(), *node);
            }
            NameChange::Rename { from, to } => {
                if let Some(node) = names.remove(from) {
                    names.insert(to.clone(), node);
                }
            }
            NameChange::Remove { name } => {
                names.remove(name);
            }
        }
    }
    names
}

impl Content {
    fn new(bytes: &[u8]) -> Content {
        Content { written: bytes.to_vec(), len: bytes.len() }
    }

    fn write(&mut self, bytes: &[u8], offset: usize) {
        if bytes.is_empty() {
            return;
        }
        let end = offset + bytes.len();
        if self.written.len() < end {
            self.written.resize(end, 0);
        }
        self.written[offset..end].copy_from_slice(bytes);
        self.len = self.len.max(end);
    }

    fn set_len(&mut self, len: usize) {
        self.written.truncate(len);
        self.len = len;
    }

    fn flip(&mut self, offset: usize, mask: u8) {
        if offset < self.len && offset >= self.written.len() {
            self.written.resize(offset + 1, 0);
        }
        if let Some(byte) = self.written.get_mut(offset) {
            *byte ^= mask;
        }
    }

    fn whole(&self) -> Vec<u8> {
        let mut bytes = self.written.clone();
        bytes.resize(self.len, 0);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_synced_survives_every_crash() {
        let disk = MemoryDisk::new();
        let file = disk.create("a").unwrap();
        file.write_at(b"certain", 0).unwrap();
        file.sync().unwrap();
        disk.sync_dir().unwrap();
        file.write_at(b"perhaps", 7).unwrap();
        let found: Vec<_> = (0..100).map(|seed| disk.crash(seed).content("a").unwrap()).collect();
        assert!(found.iter().all(|bytes| bytes.starts_with(b"certain")));
        assert!(found.iter().any(|bytes| bytes == b"certain"), "sometimes the rest is lost");
        assert!(found.iter().any(|bytes| bytes == b"certainperhaps"), "sometimes it is there");
        assert!(found.iter().any(|bytes| bytes == b"certainper"), "sometimes it is torn");
    }

    #[test]
    fn a_name_that_was_not_synced_may_vanish() {
        let disk = MemoryDisk::new();
        disk.create("a").unwrap().sync().unwrap();
        let found: Vec<_> = (0..50).map(|seed| disk.crash(seed).content("a").is_some()).collect();
        assert!(found.contains(&true) && found.contains(&false));
    }

    #[test]
    fn a_disk_that_ignores_syncs_forgets() {
        let disk = MemoryDisk::new();
        disk.ignore_sync(true);
        let file = disk.create("a").unwrap();
        disk.sync_dir().unwrap();
        file.write_at(b"gone", 0).unwrap();
        file.sync().unwrap();
        assert!((0..50).any(|seed| disk.crash(seed).content("a").is_none_or(|bytes| bytes.is_empty())));
    }

    #[test]
    fn a_full_disk_takes_what_fits_and_says_so() {
        let disk = MemoryDisk::new();
        disk.limit_capacity(Some(10));
        let file = disk.create("a").unwrap();
        file.write_at(b"12345", 0).unwrap();
        let error = file.write_at(b"6789012345", 5).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(disk.content("a").unwrap(), b"1234567890");
        assert_eq!(disk.free_bytes().unwrap(), 0);
    }

    #[test]
    fn a_failed_sync_loses_what_it_should_have_kept_even_if_the_next_says_yes() {
        let disk = MemoryDisk::new();
        let file = disk.create("a").unwrap();
        disk.sync_dir().unwrap();
        disk.fail_sync_after(0);
        file.write_at(b"lost", 0).unwrap();
        assert!(file.sync().is_err());
        assert!(file.sync().is_ok());
        assert!((0..20).all(|seed| disk.crash(seed).content("a").unwrap().is_empty()));
    }
}
