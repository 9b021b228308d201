//! The output of tasks: pieces, kept by the broker for a while.

use bytes::Bytes;
use tenure_wire::Timestamp;
use tenure_wire::reply::{LogsReply, OutputRow};

/// Where a command writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LogStream {
    /// The standard output.
    Stdout,
    /// The standard error output.
    Stderr,
}

impl LogStream {
    /// Its name: `stdout` or `stderr`.
    pub fn as_str(self) -> &'static str {
        match self {
            LogStream::Stdout => "stdout",
            LogStream::Stderr => "stderr",
        }
    }

    /// The number on the wire.
    pub(crate) fn number(self) -> u8 {
        match self {
            LogStream::Stdout => 1,
            LogStream::Stderr => 2,
        }
    }
}

/// A piece of what an attempt printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogChunk {
    /// The attempt that printed it.
    pub attempt: u32,
    /// Where the command wrote it.
    pub stream: LogStream,
    /// Where it begins in its stream. A later one than the end of the previous piece means that bytes are missing.
    pub offset: u64,
    /// When the broker received it.
    pub at: Timestamp,
    /// At most 64 KB, as the command wrote them.
    pub bytes: Bytes,
}

/// Some of what a task printed, in the order in which it came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogChunks {
    /// The pieces, in the order in which they came.
    pub chunks: Vec<LogChunk>,
    /// Ask for what follows with this.
    pub next: u64,
    /// There is more already.
    pub more: bool,
}

impl From<LogsReply> for LogChunks {
    fn from(reply: LogsReply) -> LogChunks {
        let chunk = |row: OutputRow| LogChunk {
            attempt: row.attempt,
            // A newer broker may know other streams; to this program they are output.
            stream: if row.stream == 2 { LogStream::Stderr } else { LogStream::Stdout },
            offset: row.offset,
            at: row.at,
            bytes: row.bytes,
        };
        LogChunks {
            chunks: reply.pieces.into_iter().map(chunk).collect(),
            next: reply.next,
            more: reply.more,
        }
    }
}
