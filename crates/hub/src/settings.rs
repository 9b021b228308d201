//! Settings of the hub itself, beside those of the engine and the store.

use crate::limits::{UNREAD_BYTES_MAX, UNREAD_BYTES_TOTAL_MAX};
use crate::topics::TopicSettings;

#[derive(Clone, Debug, Default)]
pub struct HubSettings {
    pub topics: TopicSettings,
    pub unread: UnreadLimits,
}

/// How many bytes may wait for peers that do not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnreadLimits {
    /// Queries of a session that has more than this are refused.
    pub session: usize,
    /// With more than this in all mailboxes together, the largest holder is disconnected.
    pub total: usize,
}

impl Default for UnreadLimits {
    fn default() -> UnreadLimits {
        UnreadLimits { session: UNREAD_BYTES_MAX, total: UNREAD_BYTES_TOTAL_MAX }
    }
}
