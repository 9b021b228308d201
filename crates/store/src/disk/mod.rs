//! The disk as the store sees it: one directory with files, and nothing else. Real files implement it, and so does
//! memory that forgets what was not synced, which is how the promises of this crate are tested.

mod memory;
mod real;

use std::any::Any;
use std::fmt;
use std::io;
use std::sync::Arc;

pub use memory::MemoryDisk;
pub use real::RealDisk;

use crate::error::StoreError;

/// One directory. What happens to names is synced only after [`Disk::sync_dir`].
pub trait Disk: Send + Sync + fmt::Debug {
    /// An empty file of that name; one that was there is emptied.
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// A file that exists, for reading and writing.
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// Takes the place of `to` at once, if there is one.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    fn remove(&self, name: &str) -> io::Result<()>;
    /// The names of all files, sorted.
    fn list(&self) -> io::Result<Vec<String>>;
    fn sync_dir(&self) -> io::Result<()>;
    /// How much more can be written.
    fn free_bytes(&self) -> io::Result<u64>;
    /// Keeps other processes out for as long as the value lives.
    fn lock(&self) -> Result<DiskLock, StoreError>;
}

/// An open file. What is written is synced only after [`DiskFile::sync`].
pub trait DiskFile: Send + Sync + fmt::Debug {
    /// Reads until the buffer is full or the file ends; says how much it read.
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize>;
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Syncs what was written so far, and the length with it.
    fn sync(&self) -> io::Result<()>;
    fn len(&self) -> io::Result<u64>;
    fn is_empty(&self) -> io::Result<bool> {
        self.len().map(|len| len == 0)
    }
    /// Cuts the file, or makes it longer with zeros that take no room.
    fn set_len(&self, len: u64) -> io::Result<()>;
}

/// The right to use a directory, given back when it is dropped.
#[derive(Debug)]
pub struct DiskLock {
    _held: Box<dyn Held>,
}

trait Held: Any + Send + Sync + fmt::Debug {}
impl<T: Any + Send + Sync + fmt::Debug> Held for T {}

impl DiskLock {
    pub fn new(held: impl Any + Send + Sync + fmt::Debug) -> DiskLock {
        DiskLock { _held: Box::new(held) }
    }
}
