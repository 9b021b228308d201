//! The disk as the store sees it: one directory with files. There is an implementation for real files and one
//! in memory that loses what was not synced; the tests use the latter to check the durability of this crate.

mod memory;
mod real;

use std::any::Any;
use std::fmt;
use std::io;
use std::sync::Arc;

pub use memory::MemoryDisk;
pub use real::RealDisk;

use crate::error::StoreError;

/// One directory. Changes to names are durable only after [`Disk::sync_dir`].
pub trait Disk: Send + Sync + fmt::Debug {
    /// Creates an empty file; truncates an existing one.
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// Opens an existing file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// Replaces `to` atomically if it exists.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Deletes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// The names of all files, sorted.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Makes all changes of names durable.
    fn sync_dir(&self) -> io::Result<()>;
    /// How much more can be written.
    fn free_bytes(&self) -> io::Result<u64>;
    /// Keeps other processes out while the value lives.
    fn lock(&self) -> Result<DiskLock, StoreError>;
}

/// An open file. Writes are durable only after [`DiskFile::sync`].
pub trait DiskFile: Send + Sync + fmt::Debug {
    /// Reads until the buffer is full or the file ends. Returns how much it read.
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all bytes, and extends the file if necessary.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Syncs all writes so far, including the file length.
    fn sync(&self) -> io::Result<()>;
    /// The length of the file.
    fn len(&self) -> io::Result<u64>;
    /// Whether the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        self.len().map(|len| len == 0)
    }
    /// Truncates the file, or extends it with sparse zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;
}

/// The lock on a directory, released on drop.
#[derive(Debug)]
pub struct DiskLock {
    _held: Box<dyn Held>,
}

trait Held: Any + Send + Sync + fmt::Debug {}
impl<T: Any + Send + Sync + fmt::Debug> Held for T {}

impl DiskLock {
    /// A lock that lasts as long as `held` lives.
    pub fn new(held: impl Any + Send + Sync + fmt::Debug) -> DiskLock {
        DiskLock { _held: Box::new(held) }
    }
}
