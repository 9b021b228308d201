//! The streams of a replicated journal. Each is a journal of its own, with its own positions, chain and
//! segments; the epoch and the lease are common to all.

use std::ops::{Index, IndexMut};

use crate::files::{self, Named};
use crate::header::{JOURNAL_MAGIC, KEYS_MAGIC, TOPICS_MAGIC};

/// One stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stream {
    /// The journal of tasks.
    Tasks,
    /// The topic log.
    Topics,
    /// The key log.
    Keys,
}

impl Stream {
    /// All streams.
    pub const ALL: [Stream; 3] = [Stream::Tasks, Stream::Topics, Stream::Keys];

    /// The name that a database stores.
    pub fn name(self) -> &'static str {
        match self {
            Stream::Tasks => "tasks",
            Stream::Topics => "topics",
            Stream::Keys => "keys",
        }
    }

    /// The local file of a segment.
    pub(crate) fn file_name(self, start: u64) -> String {
        match self {
            Stream::Tasks => files::journal(start),
            Stream::Topics => files::topics(start),
            Stream::Keys => files::keys(start),
        }
    }

    pub(crate) fn magic(self) -> [u8; 8] {
        match self {
            Stream::Tasks => JOURNAL_MAGIC,
            Stream::Topics => TOPICS_MAGIC,
            Stream::Keys => KEYS_MAGIC,
        }
    }

    /// The start of the segment in a local file, if the file belongs to this stream.
    pub(crate) fn start_of(self, name: &str) -> Option<u64> {
        match (self, files::named(name)) {
            (Stream::Tasks, Named::Journal(start))
            | (Stream::Topics, Named::Topics(start))
            | (Stream::Keys, Named::Keys(start)) => Some(start),
            _ => None,
        }
    }
}

/// One value for each stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerStream<T> {
    /// The value for the journal of tasks.
    pub tasks: T,
    /// The value for the topic log.
    pub topics: T,
    /// The value for the key log.
    pub keys: T,
}

impl<T> PerStream<T> {
    /// Computes the value of each stream.
    pub fn new(mut of: impl FnMut(Stream) -> T) -> PerStream<T> {
        PerStream { tasks: of(Stream::Tasks), topics: of(Stream::Topics), keys: of(Stream::Keys) }
    }
}

impl<T> Index<Stream> for PerStream<T> {
    type Output = T;

    fn index(&self, stream: Stream) -> &T {
        match stream {
            Stream::Tasks => &self.tasks,
            Stream::Topics => &self.topics,
            Stream::Keys => &self.keys,
        }
    }
}

impl<T> IndexMut<Stream> for PerStream<T> {
    fn index_mut(&mut self, stream: Stream) -> &mut T {
        match stream {
            Stream::Tasks => &mut self.tasks,
            Stream::Topics => &mut self.topics,
            Stream::Keys => &mut self.keys,
        }
    }
}
