//! The limits on everything that a client can grow.

/// The size of one string, element, field or member.
pub const VALUE_BYTES_MAX: usize = 10 << 20;
/// The longest key.
pub const KEY_BYTES_MAX: usize = 64 << 10;
/// The most fields of a hash.
pub const HASH_FIELDS_MAX: usize = 10_000;
/// The size of all elements of one key. A key is rewritten as one frame of the log, so it must fit into one.
pub const ELEMENTS_BYTES_MAX: usize = 512 << 20;
/// The size of one command's reply.
pub const REPLY_BYTES_MAX: usize = 64 << 20;
/// The longest time to live: ten years.
pub const TTL_MILLIS_MAX: u64 = 10 * 365 * 86_400_000;
/// Blocked commands of one namespace, and the keys that one of them waits for.
pub const WAITERS_MAX: usize = 100_000;
/// Keys that all connections of a namespace watch together.
pub const WATCHES_MAX: usize = 100_000;
