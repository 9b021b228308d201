//! Settings of the hub itself, beside those of the engine and the store.

use crate::audit::Audit;
use crate::keyspace::KeyspaceSettings;
use crate::limits::{NAMESPACES_PER_KEY_MAX, UNREAD_BYTES_MAX, UNREAD_BYTES_TOTAL_MAX};
use crate::spans::SpanSink;
use crate::topics::TopicSettings;
use tenure_store::TaskLogSettings;

/// The settings of the hub.
#[derive(Clone, Debug)]
pub struct HubSettings {
    /// The settings of topics.
    pub topics: TopicSettings,
    /// The settings of stored keys.
    pub keyspace: KeyspaceSettings,
    /// How much is kept of what tasks print.
    pub task_log: TaskLogSettings,
    /// The bytes that peers may leave unread.
    pub unread: UnreadLimits,
    /// How many namespaces the sessions of one key may enter.
    pub namespaces_per_key_max: usize,
    /// The audit log, if enabled.
    pub audit: Option<Audit>,
    /// Where spans go, if they are exported.
    pub spans: Option<SpanSink>,
}

impl Default for HubSettings {
    fn default() -> HubSettings {
        HubSettings {
            topics: TopicSettings::default(),
            keyspace: KeyspaceSettings::default(),
            task_log: TaskLogSettings::default(),
            unread: UnreadLimits::default(),
            namespaces_per_key_max: NAMESPACES_PER_KEY_MAX,
            audit: None,
            spans: None,
        }
    }
}

/// How many bytes peers may leave unread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnreadLimits {
    /// Queries of a session with more unread bytes than this are refused.
    pub session: usize,
    /// With more than this in all mailboxes together, the hub disconnects the session with the most.
    pub total: usize,
}

impl Default for UnreadLimits {
    fn default() -> UnreadLimits {
        UnreadLimits { session: UNREAD_BYTES_MAX, total: UNREAD_BYTES_TOTAL_MAX }
    }
}
