//! Commands for keys of any type: delete, time to live, rename, and scan.

use bytes::Bytes;

use super::scanning::{Page, scanned};
use super::{Decided, Decision, ReplySize, check_key};
use crate::command::KeyAct;
use crate::effect::{Effect, Whole};
use crate::glob::glob;
use crate::hashed::Hashed;
use crate::keyspace::{KeyEntry, Keyspace};
use crate::limits::TTL_MILLIS_MAX;
use crate::refusal::KeyspaceRefusal;
use crate::reply::Reply;
use crate::time::Timestamp;

/// Commands on keys of any type.
#[allow(missing_docs, reason = "the fields are the arguments of the Redis commands")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyCommand {
    /// `DEL` and `UNLINK`.
    Delete { keys: Vec<Bytes> },
    /// `EXISTS`.
    Exists { keys: Vec<Bytes> },
    /// `TYPE`.
    Type { key: Bytes },
    /// The expiry in milliseconds since the epoch. One in the past deletes the key.
    Expire { key: Bytes, at: i64, condition: ExpireCondition, command: &'static str },
    /// The same, relative to now.
    ExpireAfter { key: Bytes, millis: i64, condition: ExpireCondition, command: &'static str },
    /// `PERSIST`.
    Persist { key: Bytes },
    /// TTL and PTTL.
    TimeToLive { key: Bytes, millis_per_unit: u64 },
    /// EXPIRETIME and PEXPIRETIME.
    ExpireTime { key: Bytes, millis_per_unit: u64 },
    /// `KEYS`.
    Matching { pattern: Bytes },
    /// `SCAN`.
    Scan(KeyScan),
    /// DBSIZE
    Count,
    /// `RENAME`.
    Rename { from: Bytes, to: Bytes },
    /// RENAMENX
    RenameNew { from: Bytes, to: Bytes },
}

/// When EXPIRE sets a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpireCondition {
    /// Without an option.
    Always,
    /// `NX`: the key has no expiry.
    IfNone,
    /// `XX`: the key has an expiry.
    IfAny,
    /// `GT`: the new expiry is later.
    IfLater,
    /// `LT`: the new expiry is earlier.
    IfEarlier,
}

/// The arguments of `SCAN`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyScan {
    /// Which page to return.
    pub page: Page,
    /// Only keys of this type, as named by TYPE.
    pub kind: Option<String>,
}

impl KeyCommand {
    pub(crate) fn act(&self) -> KeyAct {
        KeyAct::read_if(matches!(
            self,
            Self::Exists { .. }
                | Self::Type { .. }
                | Self::TimeToLive { .. }
                | Self::ExpireTime { .. }
                | Self::Matching { .. }
                | Self::Scan(_)
                | Self::Count
        ))
    }

    pub(crate) fn decide(&self, space: &Keyspace, now: Timestamp) -> Decided {
        match self {
            KeyCommand::Delete { keys } => {
                let mut there: Vec<&Bytes> =
                    keys.iter().filter(|key| space.get(key, now).is_some()).collect();
                there.sort_unstable();
                there.dedup();
                let effects = there.iter().map(|key| Effect::Delete { key: (*key).clone() }).collect();
                Ok(Decision { reply: Reply::count(there.len()), effects })
            }
            KeyCommand::Exists { keys } => {
                let there = keys.iter().filter(|key| space.get(key, now).is_some());
                Ok(Decision::of(Reply::count(there.count())))
            }
            KeyCommand::Type { key } => {
                let kind = space.get(key, now).map_or("none", |entry| entry.value.kind().as_str());
                Ok(Decision::of(Reply::Simple(kind)))
            }
            KeyCommand::Expire { key, at, condition, command } => {
                expire(space, key, *at, *condition, command, now)
            }
            KeyCommand::ExpireAfter { key, millis, condition, command } => {
                expire(space, key, millis.saturating_add(now.0 as i64), *condition, command, now)
            }
            KeyCommand::Persist { key } => Ok(match space.get(key, now) {
                Some(entry) if entry.expires != Timestamp::NEVER => Decision::with(
                    Reply::Integer(1),
                    Effect::Expire { key: key.clone(), expires: Timestamp::NEVER },
                ),
                _ => Decision::of(Reply::Integer(0)),
            }),
            KeyCommand::TimeToLive { key, millis_per_unit } => {
                // Rounded up: an existing key has some time left.
                Ok(Decision::of(time_of(space, key, now, |expires| {
                    expires.left(now).div_ceil(*millis_per_unit)
                })))
            }
            KeyCommand::ExpireTime { key, millis_per_unit } => {
                Ok(Decision::of(time_of(space, key, now, |expires| expires.0.div_ceil(*millis_per_unit))))
            }
            KeyCommand::Matching { pattern } => {
                let alive =
                    space.keys.iter().filter(|(key, entry)| entry.expires > now && glob(pattern, &key.bytes));
                Ok(Decision::of(Reply::bulks(ReplySize::collect(alive.map(|(key, _)| &key.bytes))?)))
            }
            KeyCommand::Scan(scan) => Ok(Decision::of(scan.decide(space, now)?)),
            KeyCommand::Count => Ok(Decision::of(Reply::count(space.len()))),
            KeyCommand::Rename { from, to } => match rename(space, from, to, now)? {
                Some(effects) => Ok(Decision { reply: Reply::Ok, effects }),
                None => Err(KeyspaceRefusal::NoSuchKey),
            },
            KeyCommand::RenameNew { from, to } => {
                let effects = rename(space, from, to, now)?.ok_or(KeyspaceRefusal::NoSuchKey)?;
                if space.get(to, now).is_some() {
                    return Ok(Decision::of(Reply::Integer(0)));
                }
                Ok(Decision { reply: Reply::Integer(1), effects })
            }
        }
    }
}

/// Validates an expiry: it must be at most ten years away.
pub(crate) fn checked_expiry(
    at: i64,
    command: &'static str,
    now: Timestamp,
) -> Result<Timestamp, KeyspaceRefusal> {
    match u64::try_from(at) {
        Ok(at) if at <= now.0.saturating_add(TTL_MILLIS_MAX) => Ok(Timestamp(at)),
        Ok(_) | Err(_) => Err(KeyspaceRefusal::ExpireTime(command)),
    }
}

fn expire(
    space: &Keyspace,
    key: &Bytes,
    at: i64,
    condition: ExpireCondition,
    command: &'static str,
    now: Timestamp,
) -> Decided {
    // A time before the epoch is in the past as well.
    let expires = checked_expiry(at.max(0), command, now)?;
    let Some(KeyEntry { expires: before, .. }) = space.get(key, now) else {
        return Ok(Decision::of(Reply::Integer(0)));
    };
    let has_one = *before != Timestamp::NEVER;
    let sets = match condition {
        ExpireCondition::Always => true,
        ExpireCondition::IfNone => !has_one,
        ExpireCondition::IfAny => has_one,
        ExpireCondition::IfLater => has_one && expires > *before,
        ExpireCondition::IfEarlier => expires < *before,
    };
    if !sets {
        return Ok(Decision::of(Reply::Integer(0)));
    }
    let effect = match expires > now {
        true => Effect::Expire { key: key.clone(), expires },
        false => Effect::Delete { key: key.clone() },
    };
    Ok(Decision::with(Reply::Integer(1), effect))
}

fn time_of(space: &Keyspace, key: &Bytes, now: Timestamp, units: impl Fn(Timestamp) -> u64) -> Reply {
    Reply::Integer(match space.get(key, now) {
        None => -2,
        Some(entry) if entry.expires == Timestamp::NEVER => -1,
        Some(entry) => i64::try_from(units(entry.expires)).unwrap_or(i64::MAX),
    })
}

/// The effect carries the whole value: a replay may start where only one of the two names is known.
fn rename(
    space: &Keyspace,
    from: &Bytes,
    to: &Bytes,
    now: Timestamp,
) -> Result<Option<Vec<Effect>>, KeyspaceRefusal> {
    check_key(to)?;
    let Some(entry) = space.get(from, now) else { return Ok(None) };
    if from == to {
        return Ok(Some(Vec::new()));
    }
    let put = Effect::Put { key: to.clone(), value: Whole::of(&entry.value), expires: entry.expires };
    Ok(Some(vec![Effect::Delete { key: from.clone() }, put]))
}

impl KeyScan {
    fn decide(&self, space: &Keyspace, now: Timestamp) -> Result<Reply, KeyspaceRefusal> {
        let (mut found, mut size) = (Vec::new(), ReplySize::default());
        let keys = space.keys.range(Hashed::from_cursor(self.page.cursor)..);
        let next = self.page.walk(keys.map(|(key, entry)| (key.hash, (key, entry))), |(key, entry)| {
            if entry.expires > now && self.wants(&key.bytes, entry) {
                size.add(&key.bytes)?;
                found.push(key.bytes.clone());
            }
            Ok(())
        })?;
        Ok(scanned(next, found))
    }

    fn wants(&self, key: &Bytes, entry: &KeyEntry) -> bool {
        let kind = entry.value.kind().as_str();
        self.page.wants(key) && self.kind.as_ref().is_none_or(|wanted| wanted == kind)
    }
}
