//! The key space of one namespace: keys with strings, lists, hashes, sets, sorted sets and streams, for Redis clients.
//! Pure: no clock, no disk, no socket.
//!
//! ```text
//! Command → decide (reads the space, changes nothing) → Reply + effects → apply (changes the space) → record
//! ```
//!
//! An [`Effect`] says what changed and not why, so replaying a log of effects gives the same key space, whatever the
//! clock says. The first effect of a key is always its whole value. So a log can be rewritten key by key while the key
//! space changes: an effect on a key that the replay does not know yet is older than the key's whole value, which
//! follows, and is skipped (`apply.rs`).
//!
//! `keyspace` holds the keys, `commands/` has one file per type of value, `run` runs commands and transactions,
//! `waiting` holds blocked commands, `watching` detects changes for WATCH, `account` computes the size of a key.

#![warn(clippy::too_many_lines)]
#![warn(missing_docs)]

mod account;
mod apply;
mod command;
mod commands;
mod effect;
mod glob;
mod hashed;
mod keyspace;
mod limits;
mod refusal;
mod reply;
mod run;
mod settings;
mod time;
mod value;
mod waiting;
mod watching;

pub use command::{Command, KeyAct};
pub use commands::hashes::HashCommand;
pub use commands::keys::{ExpireCondition, KeyCommand, KeyScan};
pub use commands::lists::{Insert, ListCommand};
pub use commands::scanning::Page;
pub use commands::scripts::{Script, ScriptCall};
pub use commands::sets::{Combine, SetCommand};
pub use commands::sorted::{AddCondition, Bound, Limit, Only, RangeBy, ScoreCondition, SortedCommand};
pub use commands::streams::{NewId, StreamCommand, StreamId, Trim};
pub use commands::strings::{SetCondition, SetExpiry, StringCommand};
pub use effect::{Effect, Record};
pub use glob::{glob, literal_prefix};
pub use keyspace::{Keyspace, SweepPlace};
pub use limits::{
    ELEMENTS_BYTES_MAX, HASH_FIELDS_MAX, KEY_BYTES_MAX, REPLY_BYTES_MAX, TTL_MILLIS_MAX, VALUE_BYTES_MAX,
    WAITERS_MAX, WATCHES_MAX,
};
pub use refusal::KeyspaceRefusal;
pub use reply::Reply;
pub use run::{CommandOutcome, Transaction, UnblockedCommand};
pub use settings::Settings;
pub use time::Timestamp;
pub use value::{ListEnd, ValueKind};
pub use waiting::{Blocking, WaiterId};
pub use watching::KeyWatch;
