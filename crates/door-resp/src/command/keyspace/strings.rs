//! Strings and counters.

use bytes::Bytes;
use tenure_hub::keyspace::{Command as KeyCommand, SetCondition, SetExpiry, StringCommand};

use super::super::{Arguments, Command, CommandError, views};
use super::{float, is_stored, key, keys, next_is_stored, pairs, run, value};

type Parsed = Result<Command, CommandError>;

pub(in super::super) fn get(arguments: &mut Arguments<'_>) -> Parsed {
    if !next_is_stored(arguments) {
        return views::get(arguments);
    }
    string(StringCommand::Get { key: key(arguments)? })
}

pub(in super::super) fn mget(arguments: &mut Arguments<'_>) -> Parsed {
    if !arguments.all(is_stored) {
        return views::mget(arguments);
    }
    string(StringCommand::GetMany { keys: keys(arguments)? })
}

pub(in super::super) fn set(arguments: &mut Arguments<'_>) -> Parsed {
    if !next_is_stored(arguments) {
        return views::set(arguments);
    }
    let (key, value) = (key(arguments)?, value(arguments)?);
    let (mut condition, mut expiry, mut get) = (SetCondition::Always, None, false);
    while arguments.left() > 0 {
        if arguments.keyword("NX") && condition == SetCondition::Always {
            condition = SetCondition::IfMissing;
        } else if arguments.keyword("XX") && condition == SetCondition::Always {
            condition = SetCondition::IfThere;
        } else if arguments.keyword("GET") {
            get = true;
        } else if expiry.is_none() {
            expiry = Some(set_expiry(arguments)?);
        } else {
            return Err(CommandError::Syntax);
        }
    }
    let expiry = expiry.unwrap_or(SetExpiry::None);
    string(StringCommand::Set { key, value, condition, expiry, get })
}

pub(in super::super) fn setnx(arguments: &mut Arguments<'_>) -> Parsed {
    string(StringCommand::SetNew { key: key(arguments)?, value: value(arguments)? })
}

pub(in super::super) fn setex(arguments: &mut Arguments<'_>) -> Parsed {
    set_for(arguments, 1000)
}

pub(in super::super) fn psetex(arguments: &mut Arguments<'_>) -> Parsed {
    set_for(arguments, 1)
}

pub(in super::super) fn mset(arguments: &mut Arguments<'_>) -> Parsed {
    string(StringCommand::SetMany { pairs: stored_pairs(arguments)? })
}

pub(in super::super) fn msetnx(arguments: &mut Arguments<'_>) -> Parsed {
    string(StringCommand::SetManyNew { pairs: stored_pairs(arguments)? })
}

pub(in super::super) fn getset(arguments: &mut Arguments<'_>) -> Parsed {
    string(StringCommand::GetSet { key: key(arguments)?, value: value(arguments)? })
}

pub(in super::super) fn getdel(arguments: &mut Arguments<'_>) -> Parsed {
    string(StringCommand::GetDelete { key: key(arguments)? })
}

pub(in super::super) fn getex(arguments: &mut Arguments<'_>) -> Parsed {
    let key = key(arguments)?;
    let expiry = match arguments.left() {
        0 => SetExpiry::Keep,
        _ if arguments.keyword("PERSIST") => SetExpiry::None,
        _ => set_expiry(arguments)?,
    };
    arguments.end()?;
    string(StringCommand::GetExpire { key, expiry })
}

pub(in super::super) fn append(arguments: &mut Arguments<'_>) -> Parsed {
    string(StringCommand::Append { key: key(arguments)?, bytes: value(arguments)? })
}

pub(in super::super) fn incr(arguments: &mut Arguments<'_>) -> Parsed {
    string(StringCommand::Increment { key: key(arguments)?, by: 1 })
}

pub(in super::super) fn decr(arguments: &mut Arguments<'_>) -> Parsed {
    string(StringCommand::Increment { key: key(arguments)?, by: -1 })
}

pub(in super::super) fn incrby(arguments: &mut Arguments<'_>) -> Parsed {
    string(StringCommand::Increment { key: key(arguments)?, by: arguments.integer()? })
}

pub(in super::super) fn decrby(arguments: &mut Arguments<'_>) -> Parsed {
    let key = key(arguments)?;
    let by = arguments.integer()?.checked_neg().ok_or(CommandError::NotAnInteger)?;
    string(StringCommand::Increment { key, by })
}

pub(in super::super) fn incrbyfloat(arguments: &mut Arguments<'_>) -> Parsed {
    string(StringCommand::IncrementFloat { key: key(arguments)?, by: float(arguments)? })
}

pub(in super::super) fn strlen(arguments: &mut Arguments<'_>) -> Parsed {
    string(StringCommand::Length { key: key(arguments)? })
}

pub(in super::super) fn getrange(arguments: &mut Arguments<'_>) -> Parsed {
    let key = key(arguments)?;
    string(StringCommand::Range { key, start: arguments.integer()?, stop: arguments.integer()? })
}

fn string(command: StringCommand) -> Parsed {
    Ok(run(KeyCommand::String(command)))
}

fn set_for(arguments: &mut Arguments<'_>, millis_per_unit: i64) -> Parsed {
    let key = key(arguments)?;
    let millis = arguments.integer()?.saturating_mul(millis_per_unit);
    let (condition, expiry) = (SetCondition::Always, SetExpiry::After(millis));
    string(StringCommand::Set { key, value: value(arguments)?, condition, expiry, get: false })
}

/// EX, PX, EXAT, PXAT or KEEPTTL.
fn set_expiry(arguments: &mut Arguments<'_>) -> Result<SetExpiry, CommandError> {
    if arguments.keyword("KEEPTTL") {
        return Ok(SetExpiry::Keep);
    }
    for (word, millis_per_unit, is_point) in
        [("EX", 1000, false), ("PX", 1, false), ("EXAT", 1000, true), ("PXAT", 1, true)]
    {
        if arguments.keyword(word) {
            if arguments.left() == 0 {
                return Err(CommandError::Syntax);
            }
            let millis = arguments.integer()?.saturating_mul(millis_per_unit);
            return Ok(if is_point { SetExpiry::At(millis) } else { SetExpiry::After(millis) });
        }
    }
    Err(CommandError::Syntax)
}

fn stored_pairs(arguments: &mut Arguments<'_>) -> Result<Vec<(Bytes, Bytes)>, CommandError> {
    let pairs = pairs(arguments)?;
    match pairs.iter().find(|(key, _)| !is_stored(key)) {
        Some((view, _)) => Err(CommandError::IsView(super::quoted(view))),
        None => Ok(pairs),
    }
}
