//! Pub/sub for the broker: topics, sequences, ring buffers, retained values, subscriber queues, TTL.
//!
//! Pure: no clock, no I/O, no randomness, no logging. Time and ids are arguments, and everything the runtime has to do
//! comes back as data: which subscribers to wake, which of them block, what expired, what to save.
//!
//! # The path of a message
//! ```text
//!   publish ─▶ topic: next number ─▶ ring buffer ─┬▶ exact subscribers (a list in the topic)
//!                       │                         └▶ patterns (a tree by level)
//!                       └▶ retained value                     │
//!                                                             ▼
//!   take ◀─ warning, retained values, replay from the ring ◀─ queue of each subscriber
//! ```
//! A message is one allocation, shared by the ring, the retained value and all queues. A delivery is a reference count
//! and a push; it allocates nothing.
//!
//! # Where to look
//! [`Shard`] is the entry point, with one file per verb under `shard/`. `topics` finds topics by name, `patterns` finds
//! wildcard subscribers, `queue` implements the three policies, `catch_up` is what a subscriber receives before it is
//! live, `deadlines` says when the reaper has work. [`Requests`] is independent of the shards.
//!
//! # Several shards
//! A shard has no global state, and two shards share nothing, so a runtime may hold any number of them, each behind its
//! own lock or task, and assign a topic to shard [`shard_of`]`(name, n)`:
//!
//! - Publishing, and everything else about one topic, goes to that topic's shard alone.
//! - A subscription is split with [`TopicFilter::belongs_to`]: an exact name goes to the shard of its topic, a pattern
//!   goes to every shard, because any shard may hold a matching topic. The parts have the same id and a queue each; the
//!   subscriber takes from all of them. Order is guaranteed only within a topic, so the split does not weaken it.
//! - The statistics of the parts are added with [`SubscriptionStats::add`] and [`Resumed::add`].
//! - Limits on totals are divided with [`Settings::for_one_of`]. The limit of a queue applies to each part. A group
//!   chooses its member by the state in the topic's shard.
//! - What the shards saved is merged with [`Snapshot::join`] and split with [`Snapshot::part`], so the number of shards
//!   may change between two runs. Rows of [`Changes`] about subscriptions are kept per shard, because each shard knows
//!   only its own part.
//!
//! Each namespace has its own set of shards.

#![warn(clippy::too_many_lines)]
#![warn(missing_docs)]

mod buffer;
mod catch_up;
mod changes;
mod deadlines;
mod delivery;
mod filter;
mod groups;
mod in_flight;
mod losses;
mod message;
mod name;
mod patterns;
mod queue;
mod refusal;
mod requests;
mod ring;
mod saved;
mod settings;
mod shard;
mod stats;
mod subscription;
mod subscriptions;
mod tickets;
mod time;
mod topic;
mod topics;
mod unconfirmed;

pub use changes::SEQUENCE_BLOCK;
pub use delivery::{Delivery, DeliveryKind, Gap, GapReason, ReplayComplete, Warning, WarningReason};
pub use filter::TopicFilter;
pub use in_flight::IN_FLIGHT_MESSAGES_MAX;
pub use losses::GAPS_MAX;
pub use message::{
    ENCODINGS_MAX, MESSAGE_OVERHEAD_BYTES, Message, MessageId, Publish, Sequence, TEXT_BYTES_MAX, Ttl,
};
pub use name::{
    LEVEL_SEPARATOR, NAME_BYTES_MAX, NAME_LEVELS_MAX, ONE_LEVEL, REPLY_PREFIX, REST, check_name,
    is_invisible, shard_of,
};
pub use queue::Ticket;
pub use refusal::TopicRefusal;
pub use requests::{REQUESTS_MAX, RequestId, Requests, is_reply};
pub use saved::{
    Changes, SavedFloor, SavedMessage, SavedRange, SavedSegment, SavedSubscription, SavedTopic, Snapshot,
};
pub use settings::{Policy, Settings};
pub use shard::{
    PAGE_MAX, Prepared, Published, Reaped, Recovery, Resume, Resumed, Shard, ShutdownKind, SubscriptionInfo,
    Taken, TopicInfo, TopicPage,
};
pub use stats::{Dropped, ShardStats, SubscriptionStats};
pub use subscription::{SUBSCRIPTION_ID_BYTES_MAX, Subscribe, SubscriptionId, WARNING_INTERVAL};
pub use subscriptions::SubscriptionKey;
pub use time::Timestamp;
pub use topics::FLOORS;
pub use unconfirmed::{LastRead, UNCONFIRMED_RANGES_MAX, UNREAD_BYTES_MAX, Unconfirmed, Unread};
