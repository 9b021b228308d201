//! The saved state as keys and values of the topic log. `spec/journal.md` shows them.
//!
//! A key is one letter for its kind, the namespace, a zero byte, and the name. Values are MessagePack maps,
//! so that a later version can add fields.

use std::collections::HashMap;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tenure_engine::Name;
use tenure_store::{Damage, StoreError, TopicRows};
use tenure_topics::{
    Changes, SavedFloor, SavedMessage, SavedSubscription, SavedTopic, Sequence, Snapshot, SubscriptionId,
    TopicFilter,
};

const TOPIC: u8 = b'T';
/// The exact latest number of a durable topic.
const NUMBER: u8 = b'N';
const SUBSCRIPTION: u8 = b'S';
const FLOOR: u8 = b'F';
/// Where a namespace begins in this log: it has left the broker before, or has arrived from another group.
const START: u8 = b'M';
/// The floor of all namespaces.
const GLOBAL_FLOOR: &[u8] = b"G";
/// How many messages may be published before a change is written, in any namespace.
const ALLOWANCE: &[u8] = b"A";
/// The durable topics that begin at 1 if they are unknown.
const EXACT: &[u8] = b"E";
/// Present while the broker is stopped and all saved numbers are exact.
const CLEAN: &[u8] = b"C";

/// A decoded row.
#[derive(Debug)]
pub(super) enum TopicRow {
    Topic(Name, SavedTopic),
    Number(Name, SavedTopic),
    Subscription(Name, Box<SubscriptionRow>),
    Floor(Name, SavedFloor),
    /// Messages of the namespace before this position do not count.
    Start(Name, u64),
    GlobalFloor(u64),
    Allowance(u64),
    /// Filters, as spelled in the configuration.
    Exact(Vec<String>),
    Clean,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SubscriptionRow {
    pub(super) saved: SavedSubscription,
    /// The first event that it has not taken, if the subscription is about events.
    #[serde(default)]
    pub(super) events_from: Option<u64>,
    /// The place of the last durable message that had been published at this save.
    #[serde(default)]
    pub(super) shown: u64,
}

/// The context for the rows of a namespace, besides the shard's own state.
pub(super) struct Saving<'a> {
    pub(super) positions: HashMap<SubscriptionId, u64>,
    /// The place of the last durable message that has been published.
    pub(super) shown: u64,
    pub(super) is_durable: &'a dyn Fn(&str) -> bool,
}

/// Encodes the rows of one namespace.
pub(super) struct Namespace<'a>(pub(super) &'a str);

impl Namespace<'_> {
    pub(super) fn topic(&self, topic: &SavedTopic) -> (Vec<u8>, Vec<u8>) {
        (self.key(TOPIC, topic.name.as_bytes()), encode(topic))
    }

    pub(super) fn subscription(&self, row: &SubscriptionRow) -> (Vec<u8>, Vec<u8>) {
        (self.key(SUBSCRIPTION, row.saved.id.as_str().as_bytes()), encode(row))
    }

    pub(super) fn floor(&self, floor: &SavedFloor) -> (Vec<u8>, Vec<u8>) {
        (self.key(FLOOR, &floor.floor.to_be_bytes()), floor.sequence.0.to_le_bytes().to_vec())
    }

    pub(super) fn number(&self, topic: &str, sequence: Sequence) -> (Vec<u8>, Vec<u8>) {
        (self.number_key(topic), sequence.0.to_le_bytes().to_vec())
    }

    pub(super) fn number_key(&self, topic: &str) -> Vec<u8> {
        self.key(NUMBER, topic.as_bytes())
    }

    pub(super) fn start(&self, position: u64) -> (Vec<u8>, Vec<u8>) {
        (self.key(START, b""), position.to_le_bytes().to_vec())
    }

    /// Whether a key is that of a topic, a subscription or a floor of this namespace.
    pub(super) fn has_key(&self, key: &[u8]) -> bool {
        let Some((kind, rest)) = key.split_first() else { return false };
        [TOPIC, NUMBER, SUBSCRIPTION, FLOOR].contains(kind) && self.is_of(rest)
    }

    /// Whether a message with this key belongs to this namespace.
    pub(super) fn has_message(&self, key: &[u8]) -> bool {
        self.is_of(key)
    }

    fn is_of(&self, key: &[u8]) -> bool {
        key.strip_prefix(self.0.as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
    }

    /// The key of a topic's messages.
    pub(super) fn message_key(&self, topic: &str) -> Vec<u8> {
        [self.0.as_bytes(), &[0], topic.as_bytes()].concat()
    }

    /// Deletions go first: the same name may be among the new rows.
    pub(super) fn add_changes(&self, changes: &Changes, saving: &Saving<'_>, to: &mut TopicRows) {
        for name in &changes.forgotten {
            to.delete(&self.key(TOPIC, name.as_bytes()));
            to.delete(&self.key(NUMBER, name.as_bytes()));
        }
        for id in &changes.ended {
            to.delete(&self.key(SUBSCRIPTION, id.as_str().as_bytes()));
        }
        for (key, value) in self.all(&changes.saved, saving) {
            to.put(&key, &value);
        }
    }

    pub(super) fn all<'s>(
        &'s self,
        snapshot: &'s Snapshot,
        saving: &'s Saving<'_>,
    ) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> + 's {
        let topics = snapshot.topics.iter().map(|topic| {
            // A durable topic has a row with its exact number; reserving numbers would only make a gap after
            // a crash.
            if (saving.is_durable)(&topic.name) {
                return self.topic(&SavedTopic { sequence: Sequence::ZERO, ..topic.clone() });
            }
            self.topic(topic)
        });
        let subscriptions = snapshot.subscriptions.iter().map(|saved| {
            let events_from = saving.positions.get(&saved.id).copied();
            self.subscription(&SubscriptionRow { saved: saved.clone(), events_from, shown: saving.shown })
        });
        let floors = snapshot.floors.iter().map(|floor| self.floor(floor));
        topics.chain(subscriptions).chain(floors)
    }

    fn key(&self, kind: u8, name: &[u8]) -> Vec<u8> {
        [&[kind], self.0.as_bytes(), &[0], name].concat()
    }
}

pub(super) fn clean() -> (Vec<u8>, Vec<u8>) {
    (CLEAN.to_vec(), Vec::new())
}

pub(super) fn not_clean(to: &mut TopicRows) {
    to.delete(CLEAN);
}

pub(super) fn global_floor(floor: u64) -> (Vec<u8>, Vec<u8>) {
    (GLOBAL_FLOOR.to_vec(), floor.to_le_bytes().to_vec())
}

pub(super) fn allowance(messages: u64) -> (Vec<u8>, Vec<u8>) {
    (ALLOWANCE.to_vec(), messages.to_le_bytes().to_vec())
}

pub(super) fn exact(filters: &[TopicFilter]) -> (Vec<u8>, Vec<u8>) {
    let texts: Vec<&str> = filters.iter().map(TopicFilter::as_str).collect();
    exact_texts(&texts)
}

/// The same, as spelled in the configuration.
pub(super) fn exact_texts(texts: &[&str]) -> (Vec<u8>, Vec<u8>) {
    (EXACT.to_vec(), encode(&texts))
}

pub(super) fn encode_message(message: &SavedMessage) -> Vec<u8> {
    encode(message)
}

pub(super) fn decode_message(key: &[u8], value: &[u8]) -> Result<(Name, Arc<str>, SavedMessage), StoreError> {
    let (namespace, topic) = split(key)?;
    Ok((namespace, Arc::from(text(topic)?), decode(value)?))
}

pub(super) fn decode_row(key: &[u8], value: &[u8]) -> Result<TopicRow, StoreError> {
    let number =
        || value.try_into().map(u64::from_le_bytes).map_err(|_| damaged("a number is not of eight bytes"));
    let (kind, rest) = key.split_first().ok_or_else(|| damaged("a key is empty"))?;
    match *kind {
        TOPIC => Ok(TopicRow::Topic(split(rest)?.0, decode(value)?)),
        NUMBER => {
            let (namespace, topic) = split(rest)?;
            let saved = SavedTopic {
                name: text(topic)?.to_owned(),
                sequence: Sequence(number()?),
                retained: None,
                skipped_to: Sequence::ZERO,
            };
            Ok(TopicRow::Number(namespace, saved))
        }
        SUBSCRIPTION => Ok(TopicRow::Subscription(split(rest)?.0, decode(value)?)),
        FLOOR => {
            let (namespace, floor) = split(rest)?;
            let floor = floor.try_into().map(u32::from_be_bytes);
            let floor = floor.map_err(|_| damaged("the number of a floor is not of four bytes"))?;
            Ok(TopicRow::Floor(namespace, SavedFloor { floor, sequence: Sequence(number()?) }))
        }
        START => Ok(TopicRow::Start(split(rest)?.0, number()?)),
        _ if key == GLOBAL_FLOOR => Ok(TopicRow::GlobalFloor(number()?)),
        _ if key == ALLOWANCE => Ok(TopicRow::Allowance(number()?)),
        _ if key == EXACT => Ok(TopicRow::Exact(decode(value)?)),
        _ if key == CLEAN => Ok(TopicRow::Clean),
        _ => Err(damaged("a key is of a kind that is not known; a later version may have written it")),
    }
}

fn split(key: &[u8]) -> Result<(Name, &[u8]), StoreError> {
    let zero = key.iter().position(|byte| *byte == 0).ok_or_else(|| damaged("a key has no namespace"))?;
    Ok((Name::from(text(&key[..zero])?), &key[zero + 1..]))
}

fn text(bytes: &[u8]) -> Result<&str, StoreError> {
    std::str::from_utf8(bytes).map_err(|_| damaged("a name is not text"))
}

fn encode(value: &impl Serialize) -> Vec<u8> {
    rmp_serde::to_vec_named(value).expect("plain data can be written")
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, StoreError> {
    rmp_serde::from_slice(bytes).map_err(|error| damaged(&format!("a value cannot be read: {error}")))
}

fn damaged(why: &str) -> StoreError {
    Damage::new("the topic log", 0, why).into()
}
