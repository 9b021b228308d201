//! Queries for tasks, workers and plans through keys, and the two changes that keys allow.

use bytes::Bytes;
use tenure_hub::keyspace::Page;

use super::Command;
use super::arguments::{Arguments, parse_text};
use super::error::{CommandError, quoted};
use crate::key::{JobField, RespKey, WorkerField};

/// How many keys one command may ask for.
const KEYS_ASKED_MAX: usize = 1000;
pub(crate) const SCAN_COUNT_DEFAULT: usize = 10;
pub(crate) const SCAN_COUNT_MAX: usize = 1000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ViewCommand {
    Get(RespKey),
    GetMany(Vec<AskedKey>),
    /// SET of a field that old workers use for reports.
    Set {
        key: RespKey,
        value: Bytes,
    },
    Hash {
        key: RespKey,
        part: HashPart,
    },
    Keys {
        pattern: Bytes,
    },
    Scan(ScanOptions),
    TimeToLive {
        key: RespKey,
        milliseconds: bool,
    },
    Exists(Vec<AskedKey>),
    Type(RespKey),
    Members(RespKey),
    IsMember {
        key: RespKey,
        member: String,
    },
    MemberCount(RespKey),
}

/// One of several keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AskedKey {
    View(RespKey),
    Stored(Bytes),
}

/// Which fields of a view a command reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HashPart {
    All,
    Field(Bytes),
    Fields(Vec<Bytes>),
    Has(Bytes),
    Count,
    Names,
    Values,
    Scan(Page),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScanOptions {
    pub cursor: u64,
    pub pattern: Option<Bytes>,
    pub count: usize,
    /// `string`, `list`, `set` or `stream`.
    pub kind: Option<String>,
}

pub(super) fn get(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    Ok(Command::View(ViewCommand::Get(typed_key(arguments, "string")?)))
}

pub(super) fn mget(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    Ok(Command::View(ViewCommand::GetMany(keys(arguments)?)))
}

pub(super) fn set(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let written = arguments.peek().unwrap_or_default();
    let key = arguments.key()?;
    match key {
        RespKey::Job {
            field: JobField::Status | JobField::Stdout | JobField::Stderr | JobField::Result,
            ..
        }
        | RespKey::Worker { field: WorkerField::Tools | WorkerField::Tags | WorkerField::Alive, .. } => {}
        _ => return Err(CommandError::NotWritable(quoted(written))),
    }
    let value = arguments.bytes()?;
    set_options(arguments)?;
    Ok(Command::View(ViewCommand::Set { key, value }))
}

/// A view that is read field by field. The arguments after the key select the fields.
pub(super) fn hash_part(
    arguments: &mut Arguments<'_>,
    part: impl FnOnce(&mut Arguments<'_>) -> Result<HashPart, CommandError>,
) -> Result<Command, CommandError> {
    let key = hash_key(arguments)?;
    Ok(Command::View(ViewCommand::Hash { key, part: part(arguments)? }))
}

pub(super) fn keys_matching(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    Ok(Command::View(ViewCommand::Keys { pattern: arguments.bytes()? }))
}

pub(super) fn scan(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let cursor = parse_text(arguments.required()?).ok_or(CommandError::Cursor)?;
    let mut scan = ScanOptions { cursor, pattern: None, count: SCAN_COUNT_DEFAULT, kind: None };
    while arguments.left() >= 2 {
        if arguments.keyword("MATCH") {
            scan.pattern = Some(arguments.bytes()?);
        } else if arguments.keyword("COUNT") {
            scan.count = match arguments.integer()? {
                count if count < 1 => return Err(CommandError::Syntax),
                count => usize::try_from(count).unwrap_or(SCAN_COUNT_MAX).min(SCAN_COUNT_MAX),
            };
        } else if arguments.keyword("TYPE") {
            scan.kind = Some(arguments.text()?.to_ascii_lowercase());
        } else {
            return Err(CommandError::Syntax);
        }
    }
    arguments.end()?;
    Ok(Command::View(ViewCommand::Scan(scan)))
}

pub(super) fn ttl(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    Ok(Command::View(ViewCommand::TimeToLive { key: arguments.key()?, milliseconds: false }))
}

pub(super) fn pttl(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    Ok(Command::View(ViewCommand::TimeToLive { key: arguments.key()?, milliseconds: true }))
}

pub(super) fn exists(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    Ok(Command::View(ViewCommand::Exists(keys(arguments)?)))
}

pub(super) fn key_type(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    Ok(Command::View(ViewCommand::Type(arguments.key()?)))
}

pub(super) fn smembers(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    Ok(Command::View(ViewCommand::Members(typed_key(arguments, "set")?)))
}

pub(super) fn sismember(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let key = typed_key(arguments, "set")?;
    Ok(Command::View(ViewCommand::IsMember { key, member: arguments.text()? }))
}

pub(super) fn scard(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    Ok(Command::View(ViewCommand::MemberCount(typed_key(arguments, "set")?)))
}

fn keys(arguments: &mut Arguments<'_>) -> Result<Vec<AskedKey>, CommandError> {
    if arguments.left() > KEYS_ASKED_MAX {
        return Err(CommandError::TooMany { what: "keys", max: KEYS_ASKED_MAX });
    }
    let mut keys = Vec::with_capacity(arguments.left());
    while arguments.left() > 0 {
        let is_stored = super::keyspace::next_is_stored(arguments);
        keys.push(match is_stored {
            true => AskedKey::Stored(arguments.bytes()?),
            false => AskedKey::View(arguments.key()?),
        });
    }
    Ok(keys)
}

/// A key of this type or of none: a key that cannot exist has no value.
fn typed_key(arguments: &mut Arguments<'_>, kind: &str) -> Result<RespKey, CommandError> {
    let key = arguments.key()?;
    match key.redis_type() {
        Some(found) if found != kind => Err(CommandError::WrongType),
        _ => Ok(key),
    }
}

/// A whole job, plan, action or worker can be read as JSON or field by field.
fn hash_key(arguments: &mut Arguments<'_>) -> Result<RespKey, CommandError> {
    let key = arguments.key()?;
    match key {
        RespKey::Job { field: JobField::Whole, .. }
        | RespKey::Plan { .. }
        | RespKey::Action { field: crate::key::ActionField::Whole, .. }
        | RespKey::Worker { field: WorkerField::Metadata | WorkerField::Stats, .. }
        | RespKey::Unknown => Ok(key),
        RespKey::Queue(_)
        | RespKey::Job { .. }
        | RespKey::Action { .. }
        | RespKey::Worker { .. }
        | RespKey::Capability { .. }
        | RespKey::Events(_) => Err(CommandError::WrongType),
    }
}

/// The broker decides the time to live of views, so a worker's option is parsed and ignored.
fn set_options(arguments: &mut Arguments<'_>) -> Result<(), CommandError> {
    while arguments.left() > 0 {
        if ["EX", "PX", "EXAT", "PXAT"].iter().any(|option| arguments.keyword(option)) {
            if arguments.left() == 0 {
                return Err(CommandError::Syntax);
            }
            if arguments.integer()? < 1 {
                return Err(CommandError::NotPositive);
            }
        } else if !arguments.keyword("KEEPTTL") {
            return Err(CommandError::Syntax);
        }
    }
    Ok(())
}
