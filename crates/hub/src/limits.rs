//! Every limit that the hub enforces on input from peers, by name.

/// How many tasks that weigh no slot a worker holds at once, unless it says otherwise.
pub use tenure_engine::limits::LIGHT_SLOTS_DEFAULT;

/// The largest body or result.
pub const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;
/// How many tasks one submission, or reports one request, may carry.
pub const MANY_MAX: usize = 10_000;
/// How many requests of all sessions together may wait for the hub.
pub const INBOX_REQUESTS_MAX: usize = 32_768;
/// How many requests of one session may be unanswered; a door stops reading until there are fewer.
pub const SESSION_REQUESTS_MAX: usize = 8_192;
/// How many list queries of one session may wait for their turn.
pub const QUERIES_WAITING_MAX: usize = 256;
/// How much a door may buffer unsent for one peer before it stops taking from the mailbox.
pub const UNSENT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// How much a door takes from a mailbox at a time.
pub const TAKE_BYTES_MAX: usize = 1024 * 1024;
/// How many bytes may wait in a mailbox before a watch stops adding to it and reads the log later.
pub const MAILBOX_EVENT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// How many bytes one session may leave unread before its queries are refused, and all sessions together
/// before the hub disconnects the one with the most, unless the settings say otherwise.
pub const UNREAD_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The bytes that all sessions together may leave unread.
pub const UNREAD_BYTES_TOTAL_MAX: usize = 256 * 1024 * 1024;
/// How many watches read the log at the same time.
pub const LOG_READS_AT_ONCE: usize = 2;
/// How many namespaces the sessions of one key may enter, unless the settings say otherwise.
pub const NAMESPACES_PER_KEY_MAX: usize = 1_000;
/// How many sessions may be open at once.
pub const SESSIONS_MAX: usize = 100_000;
/// With less free space than this, new tasks are refused; finishing work may use the rest.
pub const DISK_RESERVE_BYTES: u64 = 64 * 1024 * 1024;

pub use tenure_engine::limits::{AFTER_MAX, TRACESTATE_BYTES_MAX};

pub use crate::calls::{ADDRESSES_MAX, CALLS_MAX};
pub use crate::watches::{MAILBOX_EVENTS_MAX, SAME_WATCHES_MAX, WATCHES_MAX};
