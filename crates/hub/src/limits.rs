//! Every maximum the hub keeps at the edge where strangers' numbers come in, by name.

/// The largest body or result.
pub const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;
/// How many tasks one submission, or reports one request, may carry.
pub const MANY_MAX: usize = 10_000;
/// How many requests may wait for the hub, of all sessions together.
pub const INBOX_REQUESTS_MAX: usize = 32_768;
/// How many requests of one session may be unanswered; a door reads no further until some are.
pub const SESSION_REQUESTS_MAX: usize = 8_192;
/// How many queries for lists of one session may wait for their turn.
pub const QUERIES_WAITING_MAX: usize = 256;
/// How much a door may hold unsent for one peer before it takes no more from the mailbox.
pub const UNSENT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// How much a door takes from a mailbox at a time.
pub const TAKE_BYTES_MAX: usize = 1024 * 1024;
/// How many bytes may wait in a mailbox before a watch stops adding to it and reads the log later.
pub const MAILBOX_EVENT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// How many bytes may wait for one session before its queries are refused, and for all sessions together before the
/// largest holder is disconnected, unless the settings say otherwise.
pub const UNREAD_BYTES_MAX: usize = 16 * 1024 * 1024;
pub const UNREAD_BYTES_TOTAL_MAX: usize = 256 * 1024 * 1024;
/// How many watches read the log at the same time.
pub const LOG_READS_AT_ONCE: usize = 2;
/// How many namespaces the sessions of one key may enter, unless the settings say otherwise.
pub const NAMESPACES_PER_KEY_MAX: usize = 1_000;
/// How many sessions may be open at once.
pub const SESSIONS_MAX: usize = 100_000;
/// Below so much free space, new tasks are refused; finishing work may use what is left.
pub const DISK_RESERVE_BYTES: u64 = 64 * 1024 * 1024;

pub use crate::calls::{ADDRESSES_MAX, CALLS_MAX};
pub use crate::watches::{MAILBOX_EVENTS_MAX, SAME_WATCHES_MAX, WATCHES_MAX};
