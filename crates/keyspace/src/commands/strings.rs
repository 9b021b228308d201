//! Strings and counters.

use bytes::Bytes;

use super::{
    Decided, Decision, check_key, check_length, check_value, float_text, parse_float, parse_integer,
};
use crate::command::KeyAct;
use crate::commands::ReplySize;
use crate::commands::keys::checked_expiry;
use crate::effect::Effect;
use crate::keyspace::Keyspace;
use crate::refusal::KeyspaceRefusal;
use crate::reply::Reply;
use crate::time::Timestamp;
use crate::value::Value;

/// Commands on strings.
#[allow(missing_docs, reason = "the fields are the arguments of the Redis commands")]
#[derive(Clone, Debug, PartialEq)]
pub enum StringCommand {
    /// `GET`.
    Get { key: Bytes },
    /// `MGET`.
    GetMany { keys: Vec<Bytes> },
    /// `SET` with its options.
    Set { key: Bytes, value: Bytes, condition: SetCondition, expiry: SetExpiry, get: bool },
    /// SETNX: answers with a number.
    SetNew { key: Bytes, value: Bytes },
    /// `MSET`.
    SetMany { pairs: Vec<(Bytes, Bytes)> },
    /// MSETNX: all or none.
    SetManyNew { pairs: Vec<(Bytes, Bytes)> },
    /// `GETSET`.
    GetSet { key: Bytes, value: Bytes },
    /// `GETDEL`.
    GetDelete { key: Bytes },
    /// GETEX: reads, and changes the time to live.
    GetExpire { key: Bytes, expiry: SetExpiry },
    /// `APPEND`.
    Append { key: Bytes, bytes: Bytes },
    /// `INCR`, `DECR` and their forms with an amount.
    Increment { key: Bytes, by: i64 },
    /// `INCRBYFLOAT`.
    IncrementFloat { key: Bytes, by: f64 },
    /// `STRLEN`.
    Length { key: Bytes },
    /// `GETRANGE`.
    Range { key: Bytes, start: i64, stop: i64 },
}

/// The condition of SET.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetCondition {
    /// Without an option.
    Always,
    /// `NX`: the key does not exist.
    IfMissing,
    /// `XX`: the key exists.
    IfThere,
}

/// What happens to the time to live. In milliseconds, validated when the command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetExpiry {
    /// The key does not expire.
    None,
    /// `KEEPTTL`: the expiry stays as it is.
    Keep,
    /// After this many milliseconds.
    After(i64),
    /// At this moment, in milliseconds since 1970.
    At(i64),
}

impl SetExpiry {
    fn resolve(
        self,
        command: &'static str,
        before: Timestamp,
        now: Timestamp,
    ) -> Result<Timestamp, KeyspaceRefusal> {
        match self {
            SetExpiry::None => Ok(Timestamp::NEVER),
            SetExpiry::Keep => Ok(before),
            SetExpiry::After(millis) if millis <= 0 => Err(KeyspaceRefusal::ExpireTime(command)),
            SetExpiry::After(millis) => checked_expiry(millis.saturating_add(now.0 as i64), command, now),
            SetExpiry::At(millis) if millis <= 0 => Err(KeyspaceRefusal::ExpireTime(command)),
            SetExpiry::At(millis) => checked_expiry(millis, command, now),
        }
    }
}

impl StringCommand {
    pub(crate) fn act(&self) -> KeyAct {
        KeyAct::read_if(matches!(
            self,
            Self::Get { .. } | Self::GetMany { .. } | Self::Length { .. } | Self::Range { .. }
        ))
    }

    #[expect(clippy::too_many_lines, reason = "a table")]
    pub(crate) fn decide(&self, space: &Keyspace, now: Timestamp) -> Decided {
        match self {
            StringCommand::Get { key } => {
                Ok(Decision::of(Reply::bulk_or_null(space.string(key, now)?.cloned())))
            }
            StringCommand::GetMany { keys } => get_many(keys, space, now),
            StringCommand::Set { key, value, condition, expiry, get } => {
                check_pair(key, value)?;
                let before = if *get { space.string(key, now)?.cloned() } else { None };
                let is_there = space.get(key, now).is_some();
                let sets = match condition {
                    SetCondition::Always => true,
                    SetCondition::IfMissing => !is_there,
                    SetCondition::IfThere => is_there,
                };
                let expires = expiry.resolve("set", space.expires(key, now), now)?;
                let reply = match (get, sets) {
                    (true, _) => Reply::bulk_or_null(before),
                    (false, true) => Reply::Ok,
                    (false, false) => Reply::Null,
                };
                let effects =
                    if sets { vec![Effect::string(key, value.clone(), expires)] } else { Vec::new() };
                Ok(Decision { reply, effects })
            }
            StringCommand::SetNew { key, value } => {
                check_pair(key, value)?;
                if space.get(key, now).is_some() {
                    return Ok(Decision::of(Reply::Integer(0)));
                }
                Ok(Decision::with(Reply::Integer(1), Effect::string(key, value.clone(), Timestamp::NEVER)))
            }
            StringCommand::SetMany { pairs } => Ok(Decision { reply: Reply::Ok, effects: set_all(pairs)? }),
            StringCommand::SetManyNew { pairs } => {
                if pairs.iter().any(|(key, _)| space.get(key, now).is_some()) {
                    return Ok(Decision::of(Reply::Integer(0)));
                }
                Ok(Decision { reply: Reply::Integer(1), effects: set_all(pairs)? })
            }
            StringCommand::GetSet { key, value } => {
                check_pair(key, value)?;
                let before = Reply::bulk_or_null(space.string(key, now)?.cloned());
                Ok(Decision::with(before, Effect::string(key, value.clone(), Timestamp::NEVER)))
            }
            StringCommand::GetDelete { key } => Ok(match space.string(key, now)? {
                Some(value) => {
                    Decision::with(Reply::Bulk(value.clone()), Effect::Delete { key: key.clone() })
                }
                None => Decision::of(Reply::Null),
            }),
            StringCommand::GetExpire { key, expiry } => {
                let Some(value) = space.string(key, now)?.cloned() else {
                    return Ok(Decision::of(Reply::Null));
                };
                let before = space.expires(key, now);
                let expires = expiry.resolve("getex", before, now)?;
                let effects = match expires == before {
                    true => Vec::new(),
                    false => vec![Effect::Expire { key: key.clone(), expires }],
                };
                Ok(Decision { reply: Reply::Bulk(value), effects })
            }
            StringCommand::Append { key, bytes } => {
                check_pair(key, bytes)?;
                let Some(before) = space.string(key, now)? else {
                    let effect = Effect::string(key, bytes.clone(), Timestamp::NEVER);
                    return Ok(Decision::with(Reply::count(bytes.len()), effect));
                };
                let length = before.len() + bytes.len();
                check_length(length)?;
                let effect = Effect::Append { key: key.clone(), bytes: bytes.clone() };
                Ok(Decision::with(Reply::count(length), effect))
            }
            StringCommand::Increment { key, by } => {
                check_key(key)?;
                let before = match space.string(key, now)? {
                    Some(text) => parse_integer(text).ok_or(KeyspaceRefusal::NotAnInteger)?,
                    None => 0,
                };
                let after = before.checked_add(*by).ok_or(KeyspaceRefusal::Overflow)?;
                let text = Bytes::from(after.to_string());
                Ok(Decision::with(Reply::Integer(after), Effect::string(key, text, space.expires(key, now))))
            }
            StringCommand::IncrementFloat { key, by } => {
                check_key(key)?;
                let before = match space.string(key, now)? {
                    Some(text) => parse_float(text).ok_or(KeyspaceRefusal::NotAFloat)?,
                    None => 0.0,
                };
                let after = before + by;
                if !after.is_finite() {
                    return Err(KeyspaceRefusal::Overflow);
                }
                let text = float_text(after);
                let effect = Effect::string(key, text.clone(), space.expires(key, now));
                Ok(Decision::with(Reply::Bulk(text), effect))
            }
            StringCommand::Length { key } => {
                Ok(Decision::of(Reply::count(space.string(key, now)?.map_or(0, Bytes::len))))
            }
            StringCommand::Range { key, start, stop } => {
                let text = space.string(key, now)?.cloned().unwrap_or_default();
                let range = super::index_range(*start, *stop, text.len());
                Ok(Decision::of(Reply::Bulk(text.slice(range))))
            }
        }
    }
}

impl Keyspace {
    pub(crate) fn string(&self, key: &Bytes, now: Timestamp) -> Result<Option<&Bytes>, KeyspaceRefusal> {
        self.typed(key, now, |value| match value {
            Value::String(bytes) => Some(bytes),
            _ => None,
        })
    }
}

/// MGET: a key of another type counts as missing.
fn get_many(keys: &[Bytes], space: &Keyspace, now: Timestamp) -> Decided {
    let mut size = ReplySize::default();
    let mut values = Vec::with_capacity(keys.len());
    for key in keys {
        let found = space.string(key, now).unwrap_or_default();
        found.map_or(Ok(()), |value| size.add(value))?;
        values.push(Reply::bulk_or_null(found.cloned()));
    }
    Ok(Decision::of(Reply::Array(values)))
}

fn set_all(pairs: &[(Bytes, Bytes)]) -> Result<Vec<Effect>, KeyspaceRefusal> {
    let effect = |(key, value): &(Bytes, Bytes)| {
        check_pair(key, value)?;
        Ok(Effect::string(key, value.clone(), Timestamp::NEVER))
    };
    pairs.iter().map(effect).collect()
}

fn check_pair(key: &Bytes, value: &Bytes) -> Result<(), KeyspaceRefusal> {
    check_key(key)?;
    check_value(value)
}
