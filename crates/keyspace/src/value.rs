//! The values of keys.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::commands::streams::StreamId;
use crate::hashed::Hashed;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    String(Bytes),
    List(VecDeque<Bytes>),
    Hash(BTreeMap<Bytes, Bytes>),
    Set(BTreeSet<Hashed>),
    Sorted(Box<SortedSet>),
    Stream(Box<KeyStream>),
}

/// A type of value, as named by TYPE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// A string of bytes.
    String,
    /// A list.
    List,
    /// A hash.
    Hash,
    /// A set.
    Set,
    /// A sorted set.
    Sorted,
    /// A stream.
    Stream,
}

impl ValueKind {
    /// Redis' name of the type.
    pub const fn as_str(self) -> &'static str {
        match self {
            ValueKind::String => "string",
            ValueKind::List => "list",
            ValueKind::Hash => "hash",
            ValueKind::Set => "set",
            ValueKind::Sorted => "zset",
            ValueKind::Stream => "stream",
        }
    }
}

impl Value {
    pub(crate) fn kind(&self) -> ValueKind {
        match self {
            Value::String(_) => ValueKind::String,
            Value::List(_) => ValueKind::List,
            Value::Hash(_) => ValueKind::Hash,
            Value::Set(_) => ValueKind::Set,
            Value::Sorted(_) => ValueKind::Sorted,
            Value::Stream(_) => ValueKind::Stream,
        }
    }

    /// A key is removed with its last element. A stream without entries stays, because it knows its last id.
    pub(crate) fn is_over(&self) -> bool {
        match self {
            Value::List(list) => list.is_empty(),
            Value::Hash(hash) => hash.is_empty(),
            Value::Set(set) => set.is_empty(),
            Value::Sorted(sorted) => sorted.scores.is_empty(),
            Value::String(_) | Value::Stream(_) => false,
        }
    }
}

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ListEnd {
    /// The head.
    Left,
    /// The tail.
    Right,
}

/// A score with a total order. Never a NaN.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Score(pub(crate) f64);

impl PartialEq for Score {
    fn eq(&self, other: &Score) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Score {}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Score) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Score {
    fn cmp(&self, other: &Score) -> std::cmp::Ordering {
        // Zero has no sign here, as in Redis.
        (self.0 + 0.0).total_cmp(&(other.0 + 0.0))
    }
}

/// Members by name, and ordered by score.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SortedSet {
    pub(crate) scores: BTreeMap<Hashed, Score>,
    pub(crate) order: BTreeSet<(Score, Bytes)>,
}

impl SortedSet {
    pub(crate) fn score(&self, member: &Bytes) -> Option<Score> {
        self.scores.get(&Hashed::new(member)).copied()
    }

    /// Returns whether the member is new.
    pub(crate) fn insert(&mut self, member: &Bytes, score: Score) -> bool {
        let before = self.scores.insert(Hashed::new(member), score);
        if let Some(before) = before {
            self.order.remove(&(before, member.clone()));
        }
        self.order.insert((score, member.clone()));
        before.is_none()
    }

    pub(crate) fn remove(&mut self, member: &Bytes) -> bool {
        let Some(score) = self.scores.remove(&Hashed::new(member)) else { return false };
        self.order.remove(&(score, member.clone()));
        true
    }
}

/// Entries by their ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyStream {
    pub(crate) entries: BTreeMap<StreamId, Vec<(Bytes, Bytes)>>,
    pub(crate) last: StreamId,
}
