//! Errors of the store: each says which file, where in it, and what to do.

use std::fmt;
use std::io;

use crate::replicated::ReplicationError;

/// Why the store cannot do what it was asked.
#[allow(missing_docs, reason = "the message of each variant says what it is")]
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{doing} {file}: {source}")]
    Io { doing: &'static str, file: String, source: io::Error },
    /// The disk may or may not hold what was written. The store can guarantee nothing any more, so the
    /// process must end.
    #[error("syncing {file} failed, its content is uncertain: {source}")]
    Sync { file: String, source: io::Error },
    #[error(transparent)]
    Damaged(#[from] Damage),
    #[error("{file} has format version {found}; this program reads versions up to {known}")]
    Version { file: String, found: u32, known: u32 },
    #[error("the directory is in use by process {pid}")]
    Locked { pid: String },
    #[error("{what} is not empty")]
    NotEmpty { what: &'static str },
    #[error("this is not a backup: {missing} is missing")]
    NoBackup { missing: String },
    #[error(transparent)]
    Replication(#[from] ReplicationError),
    /// The local copy holds other frames than the replicated journal.
    #[error(
        "the local copy and the replicated journal differ at position {position}; stop all brokers of the group, \
         keep a copy of this data directory, and start this broker with an empty one"
    )]
    Diverged { position: u64 },
    /// An earlier failure made the store unusable; the process should have ended.
    #[error("the store has failed and accepts no more writes")]
    Failed,
}

impl StoreError {
    /// Whether the disk is full.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, StoreError::Io { source, .. } if is_full(source))
    }
}

/// Bytes that differ from what was written, or a missing file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The name of the file.
    pub file: String,
    /// In bytes from the start of the file.
    pub offset: u64,
    /// Why it counts as damaged.
    pub why: String,
    /// The whole file is missing.
    pub is_missing: bool,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Damage { file, offset, why, is_missing } = self;
        if *is_missing {
            return write!(f, "{file} is missing: {why}");
        }
        write!(f, "{file} is damaged at byte {offset}: {why}")
    }
}

impl std::error::Error for Damage {}

impl Damage {
    /// Damage in a file that exists.
    pub fn new(file: &str, offset: u64, why: impl Into<String>) -> Damage {
        Damage { file: file.to_owned(), offset, why: why.into(), is_missing: false }
    }

    pub(crate) fn missing(file: &str, why: impl Into<String>) -> Damage {
        Damage { file: file.to_owned(), offset: 0, why: why.into(), is_missing: true }
    }
}

/// Why the writer of a log did not write.
#[allow(missing_docs, reason = "the message of each variant says what it is")]
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The disk is full. The remaining frames stay with the caller, which tries again later.
    #[error("the disk is full: {needed} more bytes are needed")]
    Full { needed: u64 },
    #[error(transparent)]
    Fatal(#[from] StoreError),
}

/// Why the journal's writer did not append.
#[allow(missing_docs, reason = "the message of each variant says what it is")]
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// The disk is full. The remaining frames stay with the caller, which tries again later.
    #[error("the disk is full: {needed} more bytes are needed")]
    Full { needed: u64 },
    /// The replicated journal does not answer. The frames stay with the caller, which tries again later.
    #[error("the replicated journal does not answer: {why}")]
    Away { why: String },
    /// Another broker leads. Nothing more can be written, and nothing may be said.
    #[error("{holder} leads with epoch {epoch}")]
    Deposed { holder: String, epoch: u64 },
    #[error(transparent)]
    Fatal(#[from] StoreError),
}

/// Why bytes cannot be read.
#[allow(missing_docs, reason = "the message of each variant says what it is")]
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The bytes belonged to a task that is no longer kept.
    #[error("position {at} is no longer kept")]
    Gone { at: u64 },
    #[error(transparent)]
    Damaged(#[from] Damage),
    #[error("reading {file}: {source}")]
    Io { file: String, source: io::Error },
}

/// Adds the failed operation and the file to an I/O error.
pub(crate) trait IoContext<T> {
    fn doing(self, doing: &'static str, file: &str) -> Result<T, StoreError>;
    fn syncing(self, file: &str) -> Result<T, StoreError>;
}

impl<T> IoContext<T> for io::Result<T> {
    fn doing(self, doing: &'static str, file: &str) -> Result<T, StoreError> {
        self.map_err(|source| StoreError::Io { doing, file: file.to_owned(), source })
    }

    fn syncing(self, file: &str) -> Result<T, StoreError> {
        self.map_err(|source| StoreError::Sync { file: file.to_owned(), source })
    }
}

/// Whether this error means that the disk is full.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
