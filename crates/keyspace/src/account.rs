//! The memory that a key takes. The figures are upper bounds for a 64-bit machine: the structure itself, the
//! rounding of allocations, the reference count of shared bytes, and the unused part of half-empty tree
//! nodes.

use bytes::Bytes;

use crate::effect::{Effect, Whole};
use crate::keyspace::Keyspace;
use crate::value::Value;

/// Shared bytes: their allocation and its reference count.
const BLOB: usize = 48;
/// A key: its entry in the table of keys with its hash, value and time to live.
const KEY: usize = 192 + BLOB;
/// A time to live has an entry in the expiry index.
const EXPIRY: usize = 72;
const LIST_ELEMENT: usize = 48 + BLOB;
const HASH_FIELD: usize = 104 + 2 * BLOB;
const SET_MEMBER: usize = 72 + BLOB;
/// A member is in two trees.
const SORTED_MEMBER: usize = 192 + BLOB;
const STREAM_ENTRY: usize = 112;
const STREAM_FIELD: usize = 64 + 2 * BLOB;

pub(crate) fn key(name: &Bytes, expires: bool) -> usize {
    KEY + name.len() + if expires { EXPIRY } else { 0 }
}

pub(crate) fn string(bytes: &Bytes) -> usize {
    bytes.len() + BLOB
}

pub(crate) fn element(element: &Bytes) -> usize {
    element.len() + LIST_ELEMENT
}

pub(crate) fn field(field: &Bytes, value: &Bytes) -> usize {
    field.len() + value.len() + HASH_FIELD
}

pub(crate) fn member(member: &Bytes) -> usize {
    member.len() + SET_MEMBER
}

pub(crate) fn sorted_member(member: &Bytes) -> usize {
    member.len() + SORTED_MEMBER
}

pub(crate) fn entry(fields: &[(Bytes, Bytes)]) -> usize {
    fields.iter().fold(STREAM_ENTRY, |sum, (field, value)| sum + field.len() + value.len() + STREAM_FIELD)
}

/// All elements of a value.
pub(crate) fn value(value: &Value) -> usize {
    match value {
        Value::String(bytes) => string(bytes),
        Value::List(list) => list.iter().map(element).sum(),
        Value::Hash(hash) => hash.iter().map(|(name, value)| field(name, value)).sum(),
        Value::Set(set) => set.iter().map(|found| member(&found.bytes)).sum(),
        Value::Sorted(sorted) => sorted.scores.keys().map(|member| sorted_member(&member.bytes)).sum(),
        Value::Stream(stream) => stream.entries.values().map(|fields| entry(fields)).sum(),
    }
}

fn whole(value: &Whole) -> usize {
    match value {
        Whole::String(bytes) => string(bytes),
        Whole::List(list) => list.iter().map(element).sum(),
        Whole::Hash(fields) => fields.iter().map(|(name, value)| field(name, value)).sum(),
        Whole::Set(members) => members.iter().map(member).sum(),
        Whole::Sorted(members) => members.iter().map(|(_, member)| sorted_member(member)).sum(),
        Whole::Stream { entries, .. } => entries.iter().map(|(_, fields)| entry(fields)).sum(),
    }
}

impl Effect {
    /// The approximate size on disk.
    pub fn weight(&self) -> usize {
        let fields = |fields: &[(Bytes, Bytes)]| -> usize {
            fields.iter().map(|(field, value)| field.len() + value.len() + 10).sum()
        };
        let texts = |texts: &[Bytes]| -> usize { texts.iter().map(|text| text.len() + 5).sum() };
        let rest = match self {
            Effect::Put { value, .. } => whole(value),
            Effect::Append { bytes, .. } => bytes.len(),
            Effect::ListPush { elements, .. } => texts(elements),
            Effect::ListSet { element, .. } | Effect::ListInsert { element, .. } => element.len(),
            Effect::ListRemove { indexes, .. } => indexes.len() * 8,
            Effect::HashSet { fields: set, .. } | Effect::StreamAdd { fields: set, .. } => fields(set),
            Effect::HashRemove { fields, .. } => texts(fields),
            Effect::SetAdd { members, .. }
            | Effect::SetRemove { members, .. }
            | Effect::SortedRemove { members, .. } => texts(members),
            Effect::SortedAdd { members, .. } => members.iter().map(|(_, member)| member.len() + 14).sum(),
            Effect::StreamRemove { ids, .. } => ids.len() * 18,
            Effect::Delete { .. } | Effect::Expire { .. } | Effect::ListPop { .. } => 0,
        };
        rest + self.key().len() + 32
    }
}

/// How much an effect adds: bytes, keys, and bytes of the one key that it changes. An upper bound.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Growth {
    pub(crate) bytes: usize,
    pub(crate) keys: usize,
    pub(crate) elements: usize,
}

impl Growth {
    pub(crate) fn of(effect: &Effect, space: &Keyspace) -> Growth {
        let elements = match effect {
            Effect::Put { key: name, value, expires } => {
                let (before, keys) = space.held(name).map_or((0, 1), |before| (before, 0));
                let elements = whole(value);
                let after = elements + key(name, *expires != crate::Timestamp::NEVER);
                return Growth { bytes: after.saturating_sub(before), keys, elements };
            }
            Effect::Expire { .. } => return Growth { bytes: EXPIRY, ..Growth::default() },
            Effect::Append { bytes, .. } => bytes.len(),
            Effect::ListPush { elements, .. } => elements.iter().map(element).sum(),
            Effect::ListSet { element: bytes, .. } | Effect::ListInsert { element: bytes, .. } => {
                element(bytes)
            }
            Effect::HashSet { key, fields } => fields
                .iter()
                .map(|(name, value)| match space.field(key, name) {
                    Some(before) => value.len().saturating_sub(before.len()),
                    None => field(name, value),
                })
                .sum(),
            Effect::SetAdd { members, .. } => members.iter().map(member).sum(),
            Effect::SortedAdd { key, members } => members
                .iter()
                .filter(|(_, member)| !space.has_sorted_member(key, member))
                .map(|(_, member)| sorted_member(member))
                .sum(),
            Effect::StreamAdd { fields, .. } => entry(fields),
            Effect::Delete { .. }
            | Effect::ListPop { .. }
            | Effect::ListRemove { .. }
            | Effect::HashRemove { .. }
            | Effect::SetRemove { .. }
            | Effect::SortedRemove { .. }
            | Effect::StreamRemove { .. } => return Growth::default(),
        };
        Growth { bytes: elements, keys: 0, elements: elements + space.elements(effect.key()) }
    }
}
