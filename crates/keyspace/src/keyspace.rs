//! The keys of one namespace.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::account;
use crate::effect::{Effect, Record, Whole};
use crate::hashed::Hashed;
use crate::refusal::KeyspaceRefusal;
use crate::settings::Settings;
use crate::time::Timestamp;
use crate::value::Value;
use crate::waiting::Waiters;
use crate::watching::KeyWatches;

/// The stored keys of one namespace.
#[derive(Debug, Default)]
pub struct Keyspace {
    pub(crate) settings: Settings,
    pub(crate) keys: BTreeMap<Hashed, KeyEntry>,
    /// Keys with a time to live, by expiry.
    pub(crate) expiring: BTreeSet<(Timestamp, Bytes)>,
    pub(crate) bytes: usize,
    pub(crate) waiters: Waiters,
    pub(crate) watches: KeyWatches,
    /// The number of random draws so far, so that they differ.
    pub(crate) draws: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KeyEntry {
    pub(crate) value: Value,
    /// [`Timestamp::NEVER`] without a time to live.
    pub(crate) expires: Timestamp,
    /// The size of its elements.
    pub(crate) bytes: usize,
}

/// Where a sweep over all keys continues.
#[derive(Clone, Debug, Default)]
pub struct SweepPlace(Option<Hashed>);

impl Keyspace {
    /// An empty key space.
    pub fn new(settings: Settings) -> Keyspace {
        Keyspace { settings, ..Keyspace::default() }
    }

    /// The number of keys, including expired ones until they are removed.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The total size.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many keys have a time to live.
    pub fn expiring(&self) -> usize {
        self.expiring.len()
    }

    /// When the next key expires.
    pub fn next_expiry(&self) -> Option<Timestamp> {
        self.expiring.first().map(|(expires, _)| *expires)
    }

    /// Removes up to `max` expired keys.
    pub fn expire(&mut self, now: Timestamp, max: usize) -> Record {
        let mut record = Record::default();
        while record.0.len() < max
            && let Some((expires, key)) = self.expiring.first()
            && *expires <= now
        {
            let effect = Effect::Delete { key: key.clone() };
            self.apply(&effect);
            record.0.push(effect);
        }
        record
    }

    /// Whole values from a position on, up to a size of `bytes`, and where to continue. A log that contains
    /// all of them needs nothing that was written before the first.
    pub fn sweep(&self, place: &SweepPlace, bytes: usize) -> (Record, Option<SweepPlace>) {
        let (mut record, mut weight) = (Record::default(), 0);
        let from = match &place.0 {
            Some(last) => std::ops::Bound::Excluded(last),
            None => std::ops::Bound::Unbounded,
        };
        for (key, entry) in self.keys.range((from, std::ops::Bound::Unbounded)) {
            let (value, expires) = (Whole::of(&entry.value), entry.expires);
            record.0.push(Effect::Put { key: key.bytes.clone(), value, expires });
            weight += entry.bytes;
            if weight >= bytes {
                return (record, Some(SweepPlace(Some(key.clone()))));
            }
        }
        (record, None)
    }

    /// The entry of a key that has not expired.
    pub(crate) fn get(&self, key: &Bytes, now: Timestamp) -> Option<&KeyEntry> {
        self.keys.get(&Hashed::new(key)).filter(|entry| entry.expires > now)
    }

    /// The same; refuses another type of value.
    pub(crate) fn typed<'a, T>(
        &'a self,
        key: &Bytes,
        now: Timestamp,
        as_kind: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, KeyspaceRefusal> {
        match self.get(key, now) {
            None => Ok(None),
            Some(entry) => as_kind(&entry.value).map(Some).ok_or(KeyspaceRefusal::WrongType),
        }
    }

    pub(crate) fn expires(&self, key: &Bytes, now: Timestamp) -> Timestamp {
        self.get(key, now).map_or(Timestamp::NEVER, |entry| entry.expires)
    }

    /// The size of a key, expired or not.
    pub(crate) fn held(&self, key: &Bytes) -> Option<usize> {
        let entry = self.keys.get(&Hashed::new(key))?;
        Some(entry.bytes + account::key(key, entry.expires != Timestamp::NEVER))
    }

    pub(crate) fn elements(&self, key: &Bytes) -> usize {
        self.keys.get(&Hashed::new(key)).map_or(0, |entry| entry.bytes)
    }

    pub(crate) fn field(&self, key: &Bytes, field: &Bytes) -> Option<&Bytes> {
        match &self.keys.get(&Hashed::new(key))?.value {
            Value::Hash(hash) => hash.get(field),
            _ => None,
        }
    }

    pub(crate) fn has_sorted_member(&self, key: &Bytes, member: &Bytes) -> bool {
        match self.keys.get(&Hashed::new(key)).map(|entry| &entry.value) {
            Some(Value::Sorted(sorted)) => sorted.score(member).is_some(),
            _ => false,
        }
    }
}

/// Two key spaces are equal if their keys are. Waiters and watches are soft state.
impl PartialEq for Keyspace {
    fn eq(&self, other: &Keyspace) -> bool {
        self.keys == other.keys && self.expiring == other.expiring && self.bytes == other.bytes
    }
}
