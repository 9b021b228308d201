//! Hashes on stored keys.

use bytes::Bytes;
use tenure_hub::keyspace::{Command as KeyCommand, HashCommand};

use super::super::{Arguments, Command, CommandError, views};
use super::{float, key, next_is_stored, pairs, run, value, values};

type Parsed = Result<Command, CommandError>;

pub(in super::super) fn hset(arguments: &mut Arguments<'_>) -> Parsed {
    hash(HashCommand::Set { key: key(arguments)?, fields: pairs(arguments)? })
}

pub(in super::super) fn hmset(arguments: &mut Arguments<'_>) -> Parsed {
    hash(HashCommand::SetMany { key: key(arguments)?, fields: pairs(arguments)? })
}

pub(in super::super) fn hsetnx(arguments: &mut Arguments<'_>) -> Parsed {
    hash(HashCommand::SetNew { key: key(arguments)?, field: value(arguments)?, value: value(arguments)? })
}

pub(in super::super) fn hget(arguments: &mut Arguments<'_>) -> Parsed {
    if !next_is_stored(arguments) {
        return views::hget(arguments);
    }
    hash(HashCommand::Get { key: key(arguments)?, field: value(arguments)? })
}

pub(in super::super) fn hmget(arguments: &mut Arguments<'_>) -> Parsed {
    hash(HashCommand::GetMany { key: key(arguments)?, fields: values(arguments)? })
}

pub(in super::super) fn hgetall(arguments: &mut Arguments<'_>) -> Parsed {
    if !next_is_stored(arguments) {
        return views::hgetall(arguments);
    }
    hash(HashCommand::GetAll { key: key(arguments)? })
}

pub(in super::super) fn hdel(arguments: &mut Arguments<'_>) -> Parsed {
    hash(HashCommand::Delete { key: key(arguments)?, fields: values(arguments)? })
}

pub(in super::super) fn hexists(arguments: &mut Arguments<'_>) -> Parsed {
    hash(HashCommand::Exists { key: key(arguments)?, field: value(arguments)? })
}

pub(in super::super) fn hlen(arguments: &mut Arguments<'_>) -> Parsed {
    hash(HashCommand::Length { key: key(arguments)? })
}

pub(in super::super) fn hkeys(arguments: &mut Arguments<'_>) -> Parsed {
    hash(HashCommand::Fields { key: key(arguments)? })
}

pub(in super::super) fn hvals(arguments: &mut Arguments<'_>) -> Parsed {
    hash(HashCommand::Values { key: key(arguments)? })
}

pub(in super::super) fn hstrlen(arguments: &mut Arguments<'_>) -> Parsed {
    hash(HashCommand::ValueLength { key: key(arguments)?, field: value(arguments)? })
}

pub(in super::super) fn hincrby(arguments: &mut Arguments<'_>) -> Parsed {
    let (key, field) = (key(arguments)?, value(arguments)?);
    hash(HashCommand::Increment { key, field, by: arguments.integer()? })
}

pub(in super::super) fn hincrbyfloat(arguments: &mut Arguments<'_>) -> Parsed {
    let (key, field) = (key(arguments)?, value(arguments)?);
    hash(HashCommand::IncrementFloat { key, field, by: float(arguments)? })
}

pub(in super::super) fn hscan(arguments: &mut Arguments<'_>) -> Parsed {
    let key = key(arguments)?;
    let (_, pattern, _) = scan_options(arguments)?;
    hash(HashCommand::Scan { key, pattern })
}

fn hash(command: HashCommand) -> Parsed {
    Ok(run(KeyCommand::Hash(command)))
}

/// The cursor, MATCH and COUNT of HSCAN, SSCAN and ZSCAN.
pub(super) fn scan_options(
    arguments: &mut Arguments<'_>,
) -> Result<(u64, Option<Bytes>, usize), CommandError> {
    let cursor = super::super::arguments::parse_text(arguments.required()?).ok_or(CommandError::Cursor)?;
    let (mut pattern, mut count) = (None, views::SCAN_COUNT_DEFAULT);
    while arguments.left() >= 2 {
        if arguments.keyword("MATCH") {
            pattern = Some(arguments.bytes()?);
        } else if arguments.keyword("COUNT") {
            count = arguments.size()?.clamp(1, views::SCAN_COUNT_MAX);
        } else {
            return Err(CommandError::Syntax);
        }
    }
    arguments.end()?;
    Ok((cursor, pattern, count))
}
