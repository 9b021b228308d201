//! Hashes: stored keys, and the metadata that clients store for a job or a plan.

use bytes::Bytes;
use tenure_hub::keyspace::{Command as KeyCommand, HashCommand, Page};
use tenure_plans::Plan;

use super::super::views::{self, HashPart};
use super::super::{Arguments, Command, CommandError, PlanAnswer, PlanCommand};
use super::{float, is_stored, key, next_is_stored, pairs, run, value, values};
use crate::key::RespKey;

type Parsed = Result<Command, CommandError>;

/// How long a job's metadata lives from its first field on, unless EXPIRE or PERSIST changes it. The metadata of a
/// plan ends with the plan.
const JOB_METADATA_MILLIS: u64 = 30 * 86_400 * 1000;
/// The field of a plan's hash in which the predecessor of this broker stored the plan.
const PLAN_FIELD: &[u8] = b"json";

pub(in super::super) fn hset(arguments: &mut Arguments<'_>) -> Parsed {
    let written = RespKey::parse(arguments.peek().unwrap_or_default());
    let (key, lasts) = changed_key(arguments)?;
    let fields = pairs(arguments)?;
    match (written, fields.as_slice()) {
        (RespKey::Plan { id }, [(field, json)]) if field == PLAN_FIELD => submit_plan(&id, json.clone()),
        _ => change(HashCommand::Set { key, fields }, lasts),
    }
}

pub(in super::super) fn hmset(arguments: &mut Arguments<'_>) -> Parsed {
    let (key, lasts) = changed_key(arguments)?;
    change(HashCommand::SetMany { key, fields: pairs(arguments)? }, lasts)
}

pub(in super::super) fn hsetnx(arguments: &mut Arguments<'_>) -> Parsed {
    let (key, lasts) = changed_key(arguments)?;
    change(HashCommand::SetNew { key, field: value(arguments)?, value: value(arguments)? }, lasts)
}

pub(in super::super) fn hget(arguments: &mut Arguments<'_>) -> Parsed {
    if !next_is_stored(arguments) {
        return views::hash_part(arguments, |arguments| Ok(HashPart::Field(value(arguments)?)));
    }
    hash(HashCommand::Get { key: key(arguments)?, field: value(arguments)? })
}

pub(in super::super) fn hmget(arguments: &mut Arguments<'_>) -> Parsed {
    if !next_is_stored(arguments) {
        return views::hash_part(arguments, |arguments| Ok(HashPart::Fields(values(arguments)?)));
    }
    hash(HashCommand::GetMany { key: key(arguments)?, fields: values(arguments)? })
}

pub(in super::super) fn hgetall(arguments: &mut Arguments<'_>) -> Parsed {
    if !next_is_stored(arguments) {
        return views::hash_part(arguments, |_| Ok(HashPart::All));
    }
    hash(HashCommand::GetAll { key: key(arguments)? })
}

pub(in super::super) fn hdel(arguments: &mut Arguments<'_>) -> Parsed {
    let (key, _) = changed_key(arguments)?;
    hash(HashCommand::Delete { key, fields: values(arguments)? })
}

pub(in super::super) fn hexists(arguments: &mut Arguments<'_>) -> Parsed {
    if !next_is_stored(arguments) {
        return views::hash_part(arguments, |arguments| Ok(HashPart::Has(value(arguments)?)));
    }
    hash(HashCommand::Exists { key: key(arguments)?, field: value(arguments)? })
}

pub(in super::super) fn hlen(arguments: &mut Arguments<'_>) -> Parsed {
    if !next_is_stored(arguments) {
        return views::hash_part(arguments, |_| Ok(HashPart::Count));
    }
    hash(HashCommand::Length { key: key(arguments)? })
}

pub(in super::super) fn hkeys(arguments: &mut Arguments<'_>) -> Parsed {
    if !next_is_stored(arguments) {
        return views::hash_part(arguments, |_| Ok(HashPart::Names));
    }
    hash(HashCommand::Fields { key: key(arguments)? })
}

pub(in super::super) fn hvals(arguments: &mut Arguments<'_>) -> Parsed {
    if !next_is_stored(arguments) {
        return views::hash_part(arguments, |_| Ok(HashPart::Values));
    }
    hash(HashCommand::Values { key: key(arguments)? })
}

pub(in super::super) fn hstrlen(arguments: &mut Arguments<'_>) -> Parsed {
    hash(HashCommand::ValueLength { key: key(arguments)?, field: value(arguments)? })
}

pub(in super::super) fn hincrby(arguments: &mut Arguments<'_>) -> Parsed {
    let ((key, lasts), field) = (changed_key(arguments)?, value(arguments)?);
    change(HashCommand::Increment { key, field, by: arguments.integer()? }, lasts)
}

pub(in super::super) fn hincrbyfloat(arguments: &mut Arguments<'_>) -> Parsed {
    let ((key, lasts), field) = (changed_key(arguments)?, value(arguments)?);
    change(HashCommand::IncrementFloat { key, field, by: float(arguments)? }, lasts)
}

pub(in super::super) fn hscan(arguments: &mut Arguments<'_>) -> Parsed {
    if !next_is_stored(arguments) {
        return views::hash_part(arguments, |arguments| Ok(HashPart::Scan(scan_page(arguments)?)));
    }
    let key = key(arguments)?;
    hash(HashCommand::Scan { key, page: scan_page(arguments)? })
}

fn hash(command: HashCommand) -> Parsed {
    Ok(run(KeyCommand::Hash(command)))
}

/// The hash that a command changes, and its time to live if the command creates it.
fn changed_key(arguments: &mut Arguments<'_>) -> Result<(Bytes, Option<u64>), CommandError> {
    let written = arguments.peek().unwrap_or_default();
    if is_stored(written) {
        return Ok((key(arguments)?, None));
    }
    let view = RespKey::parse(written);
    let Some(name) = view.metadata() else { return Ok((key(arguments)?, None)) };
    arguments.required()?;
    Ok((name, matches!(view, RespKey::Job { .. }).then_some(JOB_METADATA_MILLIS)))
}

fn change(command: HashCommand, lasts: Option<u64>) -> Parsed {
    match lasts {
        Some(millis) => Ok(run(KeyCommand::HashFor { command, millis })),
        None => hash(command),
    }
}

fn submit_plan(id: &str, json: Bytes) -> Parsed {
    let plan = Box::new(Plan::parse(&json)?);
    if plan.id != id {
        return Err(CommandError::Instead("the plan_id in the plan is not the one in the key"));
    }
    Ok(Command::Plan(PlanCommand::Submit { plan, json, answer: PlanAnswer::FieldsAdded }))
}

/// The cursor, MATCH and COUNT of HSCAN, SSCAN and ZSCAN.
pub(super) fn scan_page(arguments: &mut Arguments<'_>) -> Result<Page, CommandError> {
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
    Ok(Page { cursor, pattern, count })
}
