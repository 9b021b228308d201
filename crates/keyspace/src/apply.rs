//! Applies effects: the only place where keys change, for commands and for a replayed log.

use std::collections::btree_map::Entry as Slot;

use bytes::{Bytes, BytesMut};

use crate::account;
use crate::effect::{Effect, Record, Whole};
use crate::hashed::Hashed;
use crate::keyspace::{KeyEntry, Keyspace};
use crate::time::Timestamp;
use crate::value::{KeyStream, ListEnd, SortedSet, Value};

impl Keyspace {
    /// Replays a record of the log. Skips an effect on an unknown key, unless it is a whole value: the log
    /// was rewritten, and the key's whole value follows.
    pub fn restore(&mut self, record: &Record) {
        for effect in &record.0 {
            self.apply(effect);
        }
    }

    pub(crate) fn apply(&mut self, effect: &Effect) {
        let key = effect.key();
        self.watches.touch(key);
        match effect {
            Effect::Put { key, value, expires } => self.put(key, value, *expires),
            Effect::Delete { key } => self.remove(key),
            Effect::Expire { key, expires } => self.set_expiry(key, *expires),
            Effect::Append { .. }
            | Effect::ListPush { .. }
            | Effect::ListPop { .. }
            | Effect::ListSet { .. }
            | Effect::ListInsert { .. }
            | Effect::ListRemove { .. }
            | Effect::HashSet { .. }
            | Effect::HashRemove { .. }
            | Effect::SetAdd { .. }
            | Effect::SetRemove { .. }
            | Effect::SortedAdd { .. }
            | Effect::SortedRemove { .. }
            | Effect::StreamAdd { .. }
            | Effect::StreamRemove { .. } => self.change(key, effect),
        }
    }

    fn put(&mut self, key: &Bytes, whole: &Whole, expires: Timestamp) {
        self.remove(key);
        let value = build(whole);
        let bytes = account::value(&value);
        self.bytes += bytes + account::key(key, expires != Timestamp::NEVER);
        if expires != Timestamp::NEVER {
            self.expiring.insert((expires, key.clone()));
        }
        self.keys.insert(Hashed::new(key), KeyEntry { value, expires, bytes });
    }

    fn remove(&mut self, key: &Bytes) {
        if let Some(entry) = self.keys.remove(&Hashed::new(key)) {
            self.bytes -= entry.bytes + account::key(key, entry.expires != Timestamp::NEVER);
            if entry.expires != Timestamp::NEVER {
                self.expiring.remove(&(entry.expires, key.clone()));
            }
        }
    }

    fn set_expiry(&mut self, key: &Bytes, expires: Timestamp) {
        let Some(entry) = self.keys.get_mut(&Hashed::new(key)) else { return };
        let before = std::mem::replace(&mut entry.expires, expires);
        self.bytes -= account::key(key, before != Timestamp::NEVER);
        self.bytes += account::key(key, expires != Timestamp::NEVER);
        if before != Timestamp::NEVER {
            self.expiring.remove(&(before, key.clone()));
        }
        if expires != Timestamp::NEVER {
            self.expiring.insert((expires, key.clone()));
        }
    }

    fn change(&mut self, key: &Bytes, effect: &Effect) {
        let Slot::Occupied(mut slot) = self.keys.entry(Hashed::new(key)) else { return };
        let entry = slot.get_mut();
        let before = entry.bytes;
        alter(entry, effect);
        self.bytes = self.bytes - before + entry.bytes;
        if entry.value.is_over() {
            self.remove(key);
        }
    }
}

fn build(whole: &Whole) -> Value {
    match whole {
        Whole::String(bytes) => Value::String(bytes.clone()),
        Whole::List(elements) => Value::List(elements.iter().cloned().collect()),
        Whole::Hash(fields) => Value::Hash(fields.iter().cloned().collect()),
        Whole::Set(members) => Value::Set(members.iter().map(Hashed::new).collect()),
        Whole::Sorted(members) => {
            let mut sorted = SortedSet::default();
            for (score, member) in members {
                sorted.insert(member, *score);
            }
            Value::Sorted(Box::new(sorted))
        }
        Whole::Stream { last, entries } => {
            Value::Stream(Box::new(KeyStream { last: *last, entries: entries.iter().cloned().collect() }))
        }
    }
}

/// Changes a value and updates its size. A command cannot produce an effect on a value of another kind.
#[expect(clippy::too_many_lines, reason = "a table")]
fn alter(entry: &mut KeyEntry, effect: &Effect) {
    let weight = &mut entry.bytes;
    match (&mut entry.value, effect) {
        (Value::String(text), Effect::Append { bytes, .. }) => {
            let mut longer = BytesMut::with_capacity(text.len() + bytes.len());
            longer.extend_from_slice(text);
            longer.extend_from_slice(bytes);
            *text = longer.freeze();
            *weight = account::string(text);
        }
        (Value::List(list), Effect::ListPush { end, elements, .. }) => {
            for element in elements {
                *weight += account::element(element);
                match end {
                    ListEnd::Left => list.push_front(element.clone()),
                    ListEnd::Right => list.push_back(element.clone()),
                }
            }
        }
        (Value::List(list), Effect::ListPop { end, count, .. }) => {
            for _ in 0..*count {
                let popped = match end {
                    ListEnd::Left => list.pop_front(),
                    ListEnd::Right => list.pop_back(),
                };
                *weight -= popped.as_ref().map_or(0, account::element);
            }
            if list.capacity() > 64 && list.len() < list.capacity() / 4 {
                list.shrink_to(list.len() * 2);
            }
        }
        (Value::List(list), Effect::ListSet { index, element, .. }) => {
            if let Some(place) = list.get_mut(*index as usize) {
                *weight = *weight - account::element(place) + account::element(element);
                *place = element.clone();
            }
        }
        (Value::List(list), Effect::ListInsert { index, element, .. }) => {
            *weight += account::element(element);
            list.insert((*index as usize).min(list.len()), element.clone());
        }
        (Value::List(list), Effect::ListRemove { indexes, .. }) => {
            let (mut at, mut gone) = (0, indexes.iter().peekable());
            list.retain(|element| {
                let goes = gone.next_if(|index| **index == at).is_some();
                at += 1;
                *weight -= if goes { account::element(element) } else { 0 };
                !goes
            });
        }
        (Value::Hash(hash), Effect::HashSet { fields, .. }) => {
            for (name, value) in fields {
                *weight += account::field(name, value);
                if let Some(before) = hash.insert(name.clone(), value.clone()) {
                    *weight -= account::field(name, &before);
                }
            }
        }
        (Value::Hash(hash), Effect::HashRemove { fields, .. }) => {
            for name in fields {
                *weight -= hash.remove(name).map_or(0, |value| account::field(name, &value));
            }
        }
        (Value::Set(set), Effect::SetAdd { members, .. }) => {
            for member in members {
                *weight += if set.insert(Hashed::new(member)) { account::member(member) } else { 0 };
            }
        }
        (Value::Set(set), Effect::SetRemove { members, .. }) => {
            for member in members {
                *weight -= if set.remove(&Hashed::new(member)) { account::member(member) } else { 0 };
            }
        }
        (Value::Sorted(sorted), Effect::SortedAdd { members, .. }) => {
            for (score, member) in members {
                *weight += if sorted.insert(member, *score) { account::sorted_member(member) } else { 0 };
            }
        }
        (Value::Sorted(sorted), Effect::SortedRemove { members, .. }) => {
            for member in members {
                *weight -= if sorted.remove(member) { account::sorted_member(member) } else { 0 };
            }
        }
        (Value::Stream(stream), Effect::StreamAdd { id, fields, .. }) => {
            *weight += account::entry(fields);
            stream.last = stream.last.max(*id);
            if let Some(before) = stream.entries.insert(*id, fields.clone()) {
                *weight -= account::entry(&before);
            }
        }
        (Value::Stream(stream), Effect::StreamRemove { ids, .. }) => {
            for id in ids {
                *weight -= stream.entries.remove(id).map_or(0, |fields| account::entry(&fields));
            }
        }
        _ => debug_assert!(false, "{effect:?} on another kind of value"),
    }
}
