//! Every refusal, by name and with the error texts that Redis clients know. A refused command changes
//! nothing.

use thiserror::Error;

use crate::limits::{
    ELEMENTS_BYTES_MAX, HASH_FIELDS_MAX, KEY_BYTES_MAX, REPLY_BYTES_MAX, VALUE_BYTES_MAX, WAITERS_MAX,
    WATCHES_MAX,
};

/// Why a command on stored keys is refused.
#[allow(missing_docs, reason = "the message of each variant says what it is")]
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeyspaceRefusal {
    #[error("WRONGTYPE Operation against a key holding the wrong kind of value")]
    WrongType,
    #[error("ERR value is not an integer or out of range")]
    NotAnInteger,
    #[error("ERR hash value is not an integer")]
    FieldNotAnInteger,
    #[error("ERR hash value is not a float")]
    FieldNotAFloat,
    #[error("ERR value is not a valid float")]
    NotAFloat,
    #[error("ERR increment or decrement would overflow")]
    Overflow,
    #[error("ERR no such key")]
    NoSuchKey,
    #[error("ERR index out of range")]
    IndexOutOfRange,
    #[error("ERR resulting score is not a finite number")]
    ScoreNotFinite,
    #[error("ERR invalid expire time in '{0}' command")]
    ExpireTime(&'static str),
    #[error("ERR The ID specified in XADD is equal or smaller than the target stream top item")]
    StreamIdTooSmall,
    #[error("ERR a key has {0} bytes, the limit is {KEY_BYTES_MAX}")]
    KeyTooLong(usize),
    #[error("ERR a value has {0} bytes, the limit is {VALUE_BYTES_MAX}")]
    ValueTooLong(usize),
    #[error("ERR a hash has at most {HASH_FIELDS_MAX} fields")]
    TooManyFields,
    #[error("ERR the elements of one key have at most {ELEMENTS_BYTES_MAX} bytes: use several keys")]
    ElementsTooLong,
    #[error("ERR the answer would have more than {REPLY_BYTES_MAX} bytes: ask for less at a time")]
    ReplyTooLong,
    #[error(
        "OOM the keys of this namespace hold {used} of {limit} bytes: delete keys, let them expire, or raise keyspace_bytes_max"
    )]
    Full { used: usize, limit: usize },
    #[error("OOM this namespace has {limit} keys: delete keys, let them expire, or raise keyspace_keys_max")]
    TooManyKeys { limit: usize },
    #[error("ERR {WAITERS_MAX} commands wait for elements already: try again later")]
    TooManyWaiters,
    #[error("ERR {WATCHES_MAX} keys are watched already: try again later")]
    TooManyWatches,
    #[error("ERR this script was called with other keys or arguments than it takes")]
    ScriptArguments,
}
