//! The changes that commands make. Effects are what is written to disk.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::commands::streams::StreamId;
use crate::time::Timestamp;
use crate::value::{ListEnd, Score, Value};

/// The effects of one command or transaction. A record is written atomically.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record(pub Vec<Effect>);

/// One change of one key. It depends neither on another key nor on the time at which it is applied.
#[allow(missing_docs, reason = "the fields are a key and what changes in its value")]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Effect {
    /// Replaces the value of the key.
    Put { key: Bytes, value: Whole, expires: Timestamp },
    /// The key is gone.
    Delete { key: Bytes },
    /// The key has another expiry.
    Expire { key: Bytes, expires: Timestamp },
    /// Bytes are added to a string.
    Append { key: Bytes, bytes: Bytes },
    /// Elements are added to an end of a list.
    ListPush { key: Bytes, end: ListEnd, elements: Vec<Bytes> },
    /// Elements are removed from an end of a list.
    ListPop { key: Bytes, end: ListEnd, count: u64 },
    /// An element of a list is replaced.
    ListSet { key: Bytes, index: u64, element: Bytes },
    /// An element is inserted into a list.
    ListInsert { key: Bytes, index: u64, element: Bytes },
    /// Elements by their positions before the removal, in order.
    ListRemove { key: Bytes, indexes: Vec<u64> },
    /// Fields of a hash are set.
    HashSet { key: Bytes, fields: Vec<(Bytes, Bytes)> },
    /// Fields of a hash are removed.
    HashRemove { key: Bytes, fields: Vec<Bytes> },
    /// Members are added to a set.
    SetAdd { key: Bytes, members: Vec<Bytes> },
    /// Members are removed from a set.
    SetRemove { key: Bytes, members: Vec<Bytes> },
    /// Members of a sorted set are added or get another score.
    SortedAdd { key: Bytes, members: Vec<(Score, Bytes)> },
    /// Members are removed from a sorted set.
    SortedRemove { key: Bytes, members: Vec<Bytes> },
    /// An entry is added to a stream.
    StreamAdd { key: Bytes, id: StreamId, fields: Vec<(Bytes, Bytes)> },
    /// Entries are removed from a stream.
    StreamRemove { key: Bytes, ids: Vec<StreamId> },
}

impl Effect {
    /// The key that changes.
    pub fn key(&self) -> &Bytes {
        match self {
            Effect::Put { key, .. }
            | Effect::Delete { key }
            | Effect::Expire { key, .. }
            | Effect::Append { key, .. }
            | Effect::ListPush { key, .. }
            | Effect::ListPop { key, .. }
            | Effect::ListSet { key, .. }
            | Effect::ListInsert { key, .. }
            | Effect::ListRemove { key, .. }
            | Effect::HashSet { key, .. }
            | Effect::HashRemove { key, .. }
            | Effect::SetAdd { key, .. }
            | Effect::SetRemove { key, .. }
            | Effect::SortedAdd { key, .. }
            | Effect::SortedRemove { key, .. }
            | Effect::StreamAdd { key, .. }
            | Effect::StreamRemove { key, .. } => key,
        }
    }

    pub(crate) fn put(key: &Bytes, value: Whole) -> Effect {
        Effect::Put { key: key.clone(), value, expires: Timestamp::NEVER }
    }

    pub(crate) fn string(key: &Bytes, bytes: Bytes, expires: Timestamp) -> Effect {
        Effect::Put { key: key.clone(), value: Whole::String(bytes), expires }
    }
}

/// A whole value as it is written to disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Whole {
    String(Bytes),
    List(Vec<Bytes>),
    Hash(Vec<(Bytes, Bytes)>),
    Set(Vec<Bytes>),
    Sorted(Vec<(Score, Bytes)>),
    Stream { last: StreamId, entries: Vec<StreamEntry> },
}

type StreamEntry = (StreamId, Vec<(Bytes, Bytes)>);

impl Whole {
    pub(crate) fn of(value: &Value) -> Whole {
        match value {
            Value::String(bytes) => Whole::String(bytes.clone()),
            Value::List(list) => Whole::List(list.iter().cloned().collect()),
            Value::Hash(hash) => {
                Whole::Hash(hash.iter().map(|(field, value)| (field.clone(), value.clone())).collect())
            }
            Value::Set(set) => Whole::Set(set.iter().map(|member| member.bytes.clone()).collect()),
            Value::Sorted(sorted) => Whole::Sorted(sorted.order.iter().cloned().collect()),
            Value::Stream(stream) => Whole::Stream {
                last: stream.last,
                entries: stream.entries.iter().map(|(id, fields)| (*id, fields.clone())).collect(),
            },
        }
    }
}
