//! The log that a file belongs to. The logs differ in their names and magic numbers, not in their format.

use std::sync::Mutex;

use super::TopicFile;
use crate::files::{self, Named};
use crate::header::{KEYS_MAGIC, TOPICS_MAGIC};
use crate::replicated::Stream;
use crate::shared::Shared;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFamily {
    Topics,
    Keys,
}

impl LogFamily {
    pub(crate) fn file_name(self, start: u64) -> String {
        match self {
            LogFamily::Topics => files::topics(start),
            LogFamily::Keys => files::keys(start),
        }
    }

    /// The temporary name until the file is complete. There is one writer, so there is one such file.
    pub(super) fn unfinished(self) -> &'static str {
        match self {
            LogFamily::Topics => "topics-unfinished",
            LogFamily::Keys => "keys-unfinished",
        }
    }

    pub(super) fn magic(self) -> [u8; 8] {
        match self {
            LogFamily::Topics => TOPICS_MAGIC,
            LogFamily::Keys => KEYS_MAGIC,
        }
    }

    pub(super) fn start_of(self, name: &str) -> Option<u64> {
        match (self, files::named(name)) {
            (LogFamily::Topics, Named::Topics(start)) | (LogFamily::Keys, Named::Keys(start)) => Some(start),
            _ => None,
        }
    }

    /// The stream of a replicated journal.
    pub(super) fn stream(self) -> Stream {
        match self {
            LogFamily::Topics => Stream::Topics,
            LogFamily::Keys => Stream::Keys,
        }
    }

    /// The files of this log, oldest first.
    pub(crate) fn files(self, shared: &Shared) -> &Mutex<Vec<TopicFile>> {
        match self {
            LogFamily::Topics => &shared.topics,
            LogFamily::Keys => &shared.keys,
        }
    }
}
