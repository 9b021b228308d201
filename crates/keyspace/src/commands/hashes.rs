//! Hashes.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::scanning::{Page, scanned};
use super::{Decided, Decision, ReplySize, check_key, check_value, float_text, parse_float, parse_integer};
use crate::command::KeyAct;
use crate::effect::{Effect, Whole};
use crate::hashed::Hashed;
use crate::keyspace::Keyspace;
use crate::limits::HASH_FIELDS_MAX;
use crate::refusal::KeyspaceRefusal;
use crate::reply::Reply;
use crate::time::Timestamp;
use crate::value::Value;

/// Commands on hashes.
#[allow(missing_docs, reason = "the fields are the arguments of the Redis commands")]
#[derive(Clone, Debug, PartialEq)]
pub enum HashCommand {
    /// HSET: answers with the number of new fields.
    Set { key: Bytes, fields: Vec<(Bytes, Bytes)> },
    /// HMSET: answers OK.
    SetMany { key: Bytes, fields: Vec<(Bytes, Bytes)> },
    /// `HSETNX`.
    SetNew { key: Bytes, field: Bytes, value: Bytes },
    /// `HGET`.
    Get { key: Bytes, field: Bytes },
    /// `HMGET`.
    GetMany { key: Bytes, fields: Vec<Bytes> },
    /// `HGETALL`.
    GetAll { key: Bytes },
    /// `HDEL`.
    Delete { key: Bytes, fields: Vec<Bytes> },
    /// `HEXISTS`.
    Exists { key: Bytes, field: Bytes },
    /// `HLEN`.
    Length { key: Bytes },
    /// `HKEYS`.
    Fields { key: Bytes },
    /// `HVALS`.
    Values { key: Bytes },
    /// `HINCRBY`.
    Increment { key: Bytes, field: Bytes, by: i64 },
    /// `HINCRBYFLOAT`.
    IncrementFloat { key: Bytes, field: Bytes, by: f64 },
    /// `HSCAN`.
    Scan { key: Bytes, page: Page },
    /// `HSTRLEN`.
    ValueLength { key: Bytes, field: Bytes },
}

impl HashCommand {
    pub(crate) fn act(&self) -> KeyAct {
        KeyAct::read_if(matches!(
            self,
            Self::Get { .. }
                | Self::GetMany { .. }
                | Self::GetAll { .. }
                | Self::Exists { .. }
                | Self::Length { .. }
                | Self::Fields { .. }
                | Self::Values { .. }
                | Self::Scan { .. }
                | Self::ValueLength { .. }
        ))
    }

    #[expect(clippy::too_many_lines, reason = "a table")]
    pub(crate) fn decide(&self, space: &Keyspace, now: Timestamp) -> Decided {
        match self {
            HashCommand::Set { key, fields } => {
                let (added, effect) = set(space, key, fields, now)?;
                Ok(Decision::with(Reply::count(added), effect))
            }
            HashCommand::SetMany { key, fields } => {
                let (_, effect) = set(space, key, fields, now)?;
                Ok(Decision::with(Reply::Ok, effect))
            }
            HashCommand::SetNew { key, field, value } => {
                if space.hash(key, now)?.is_some_and(|hash| hash.contains_key(field)) {
                    return Ok(Decision::of(Reply::Integer(0)));
                }
                let (_, effect) = set(space, key, &[(field.clone(), value.clone())], now)?;
                Ok(Decision::with(Reply::Integer(1), effect))
            }
            HashCommand::Get { key, field } => {
                let found = space.hash(key, now)?.and_then(|hash| hash.get(field)).cloned();
                Ok(Decision::of(Reply::bulk_or_null(found)))
            }
            HashCommand::GetMany { key, fields } => {
                let hash = space.hash(key, now)?;
                let mut size = ReplySize::default();
                let mut values = Vec::with_capacity(fields.len());
                for field in fields {
                    let found = hash.and_then(|hash| hash.get(field));
                    found.map_or(Ok(()), |value| size.add(value))?;
                    values.push(Reply::bulk_or_null(found.cloned()));
                }
                Ok(Decision::of(Reply::Array(values)))
            }
            HashCommand::GetAll { key } => Ok(Decision::of(Reply::Map(pairs(space, key, now)?))),
            HashCommand::Delete { key, fields } => {
                let hash = space.hash(key, now)?;
                let there: BTreeSet<&Bytes> = fields
                    .iter()
                    .filter(|field| hash.is_some_and(|hash| hash.contains_key(*field)))
                    .collect();
                let reply = Reply::count(there.len());
                if there.is_empty() {
                    return Ok(Decision::of(reply));
                }
                let fields = there.into_iter().cloned().collect();
                Ok(Decision::with(reply, Effect::HashRemove { key: key.clone(), fields }))
            }
            HashCommand::Exists { key, field } => {
                let found = space.hash(key, now)?.is_some_and(|hash| hash.contains_key(field));
                Ok(Decision::of(found.into()))
            }
            HashCommand::Length { key } => {
                Ok(Decision::of(Reply::count(space.hash(key, now)?.map_or(0, BTreeMap::len))))
            }
            HashCommand::Fields { key } => {
                let fields = space.hash(key, now)?.into_iter().flat_map(BTreeMap::keys);
                Ok(Decision::of(Reply::bulks(ReplySize::collect(fields)?)))
            }
            HashCommand::Values { key } => {
                let values = space.hash(key, now)?.into_iter().flat_map(BTreeMap::values);
                Ok(Decision::of(Reply::bulks(ReplySize::collect(values)?)))
            }
            HashCommand::Increment { key, field, by } => {
                let before = match space.hash(key, now)?.and_then(|hash| hash.get(field)) {
                    Some(text) => parse_integer(text).ok_or(KeyspaceRefusal::FieldNotAnInteger)?,
                    None => 0,
                };
                let after = before.checked_add(*by).ok_or(KeyspaceRefusal::Overflow)?;
                let text = Bytes::from(after.to_string());
                let (_, effect) = set(space, key, &[(field.clone(), text)], now)?;
                Ok(Decision::with(Reply::Integer(after), effect))
            }
            HashCommand::IncrementFloat { key, field, by } => {
                let before = match space.hash(key, now)?.and_then(|hash| hash.get(field)) {
                    Some(text) => parse_float(text).ok_or(KeyspaceRefusal::FieldNotAFloat)?,
                    None => 0.0,
                };
                let after = before + by;
                if !after.is_finite() {
                    return Err(KeyspaceRefusal::Overflow);
                }
                let text = float_text(after);
                let (_, effect) = set(space, key, &[(field.clone(), text.clone())], now)?;
                Ok(Decision::with(Reply::Bulk(text), effect))
            }
            HashCommand::Scan { key, page } => scan(space, key, page, now),
            HashCommand::ValueLength { key, field } => {
                let found = space.hash(key, now)?.and_then(|hash| hash.get(field));
                Ok(Decision::of(Reply::count(found.map_or(0, Bytes::len))))
            }
        }
    }
}

impl Keyspace {
    pub(crate) fn hash(
        &self,
        key: &Bytes,
        now: Timestamp,
    ) -> Result<Option<&BTreeMap<Bytes, Bytes>>, KeyspaceRefusal> {
        self.typed(key, now, |value| match value {
            Value::Hash(hash) => Some(hash),
            _ => None,
        })
    }
}

/// The number of new fields, and the effect.
fn set(
    space: &Keyspace,
    key: &Bytes,
    fields: &[(Bytes, Bytes)],
    now: Timestamp,
) -> Result<(usize, Effect), KeyspaceRefusal> {
    check_key(key)?;
    for (field, value) in fields {
        check_value(field)?;
        check_value(value)?;
    }
    // If a field is named twice, the last value counts.
    let fields: BTreeMap<&Bytes, &Bytes> = fields.iter().map(|(field, value)| (field, value)).collect();
    let owned = |fields: BTreeMap<&Bytes, &Bytes>| {
        fields.into_iter().map(|(field, value)| (field.clone(), value.clone())).collect()
    };
    let Some(hash) = space.hash(key, now)? else {
        if fields.len() > HASH_FIELDS_MAX {
            return Err(KeyspaceRefusal::TooManyFields);
        }
        return Ok((fields.len(), Effect::put(key, Whole::Hash(owned(fields)))));
    };
    let added = fields.keys().filter(|field| !hash.contains_key(**field)).count();
    if added > 0 && hash.len() + added > HASH_FIELDS_MAX {
        return Err(KeyspaceRefusal::TooManyFields);
    }
    Ok((added, Effect::HashSet { key: key.clone(), fields: owned(fields) }))
}

fn pairs(space: &Keyspace, key: &Bytes, now: Timestamp) -> Result<Vec<(Bytes, Bytes)>, KeyspaceRefusal> {
    let (mut size, mut found) = (ReplySize::default(), Vec::new());
    for (field, value) in space.hash(key, now)?.into_iter().flatten() {
        size.add(field)?;
        size.add(value)?;
        found.push((field.clone(), value.clone()));
    }
    Ok(found)
}

/// A hash is ordered by its fields, not by their hashes. It has few, so each page reads all of them.
fn scan(space: &Keyspace, key: &Bytes, page: &Page, now: Timestamp) -> Decided {
    let fields = space.hash(key, now)?.into_iter().flatten();
    let mut left: Vec<(u64, (&Bytes, &Bytes))> = fields
        .map(|(field, value)| (Hashed::new(field).hash, (field, value)))
        .filter(|(hash, _)| *hash >= page.cursor)
        .collect();
    left.sort_unstable();
    let (mut found, mut size) = (Vec::new(), ReplySize::default());
    let next = page.walk(left.into_iter(), |(field, value)| {
        if page.wants(field) {
            size.add(field)?;
            size.add(value)?;
            found.extend([field.clone(), value.clone()]);
        }
        Ok(())
    })?;
    Ok(Decision::of(scanned(next, found)))
}
