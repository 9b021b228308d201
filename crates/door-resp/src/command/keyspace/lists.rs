//! Lists on stored keys. A list at `queue:…` is a queue of tasks and is handled elsewhere.

use bytes::Bytes;
use tenure_hub::keyspace::{Blocking, Command as KeyCommand, Insert, ListCommand, ListEnd};

use super::super::lists::{self, Wait};
use super::super::{Arguments, Command, CommandError};
use super::{KeyspaceCommand, key, next_is_stored, run, value, values};

type Parsed = Result<Command, CommandError>;

/// How many elements one pop may take.
const POP_COUNT_MAX: usize = 1_000_000;
/// How many keys one command may wait for.
const WAIT_KEYS_MAX: usize = 256;
const USE_RPOP: &str = "the oldest job of a queue is at the right end: use RPOP";
const USE_BRPOP: &str = "the oldest job of a queue is at the right end: use BRPOP";
const USE_LPUSH: &str = "jobs enter a queue at the left end: use LPUSH";

pub(in super::super) fn lpush(arguments: &mut Arguments<'_>) -> Parsed {
    if !next_is_stored(arguments) {
        return lists::lpush(arguments);
    }
    list(ListCommand::Push { key: key(arguments)?, end: ListEnd::Left, elements: values(arguments)? })
}

pub(in super::super) fn rpush(arguments: &mut Arguments<'_>) -> Parsed {
    no_view(arguments, USE_LPUSH)?;
    list(ListCommand::Push { key: key(arguments)?, end: ListEnd::Right, elements: values(arguments)? })
}

pub(in super::super) fn lpushx(arguments: &mut Arguments<'_>) -> Parsed {
    no_view(arguments, USE_LPUSH)?;
    list(ListCommand::PushToExisting {
        key: key(arguments)?,
        end: ListEnd::Left,
        elements: values(arguments)?,
    })
}

pub(in super::super) fn rpushx(arguments: &mut Arguments<'_>) -> Parsed {
    no_view(arguments, USE_LPUSH)?;
    list(ListCommand::PushToExisting {
        key: key(arguments)?,
        end: ListEnd::Right,
        elements: values(arguments)?,
    })
}

pub(in super::super) fn lpop(arguments: &mut Arguments<'_>) -> Parsed {
    no_view(arguments, USE_RPOP)?;
    pop(arguments, ListEnd::Left)
}

pub(in super::super) fn rpop(arguments: &mut Arguments<'_>) -> Parsed {
    if !next_is_stored(arguments) {
        return lists::rpop(arguments);
    }
    pop(arguments, ListEnd::Right)
}

pub(in super::super) fn llen(arguments: &mut Arguments<'_>) -> Parsed {
    if !next_is_stored(arguments) {
        return lists::llen(arguments);
    }
    list(ListCommand::Length { key: key(arguments)? })
}

pub(in super::super) fn lrange(arguments: &mut Arguments<'_>) -> Parsed {
    if !next_is_stored(arguments) {
        return lists::lrange(arguments);
    }
    list(ListCommand::Range { key: key(arguments)?, start: arguments.integer()?, stop: arguments.integer()? })
}

pub(in super::super) fn lindex(arguments: &mut Arguments<'_>) -> Parsed {
    list(ListCommand::Index { key: key(arguments)?, index: arguments.integer()? })
}

pub(in super::super) fn lrem(arguments: &mut Arguments<'_>) -> Parsed {
    if !next_is_stored(arguments) {
        return lists::lrem(arguments);
    }
    let (key, count) = (key(arguments)?, arguments.integer()?);
    list(ListCommand::Remove { key, count, element: value(arguments)? })
}

pub(in super::super) fn ltrim(arguments: &mut Arguments<'_>) -> Parsed {
    list(ListCommand::Trim { key: key(arguments)?, start: arguments.integer()?, stop: arguments.integer()? })
}

pub(in super::super) fn lset(arguments: &mut Arguments<'_>) -> Parsed {
    let (key, index) = (key(arguments)?, arguments.integer()?);
    list(ListCommand::Set { key, index, element: value(arguments)? })
}

pub(in super::super) fn linsert(arguments: &mut Arguments<'_>) -> Parsed {
    let key = key(arguments)?;
    let place = match () {
        () if arguments.keyword("BEFORE") => Insert::Before,
        () if arguments.keyword("AFTER") => Insert::After,
        () => return Err(CommandError::Syntax),
    };
    list(ListCommand::Insert { key, place, pivot: value(arguments)?, element: value(arguments)? })
}

pub(in super::super) fn lpos(arguments: &mut Arguments<'_>) -> Parsed {
    let (key, element) = (key(arguments)?, value(arguments)?);
    let (mut rank, mut count, mut max_compared) = (1, None, 0);
    while arguments.left() >= 2 {
        if arguments.keyword("RANK") {
            rank = arguments.integer()?;
        } else if arguments.keyword("COUNT") {
            count = Some(arguments.size()?);
        } else if arguments.keyword("MAXLEN") {
            max_compared = arguments.size()?;
        } else {
            return Err(CommandError::Syntax);
        }
    }
    arguments.end()?;
    if rank == 0 {
        return Err(CommandError::Syntax);
    }
    list(ListCommand::Position { key, element, rank, count, max_compared })
}

pub(in super::super) fn rpoplpush(arguments: &mut Arguments<'_>) -> Parsed {
    if !next_is_stored(arguments) {
        return lists::rpoplpush(arguments);
    }
    let (from, to) = (key(arguments)?, key(arguments)?);
    list(ListCommand::Move { from, to, from_end: ListEnd::Right, to_end: ListEnd::Left })
}

pub(in super::super) fn lmove(arguments: &mut Arguments<'_>) -> Parsed {
    if !next_is_stored(arguments) {
        return lists::lmove(arguments);
    }
    let (from, to) = (key(arguments)?, key(arguments)?);
    list(ListCommand::Move { from, to, from_end: end(arguments)?, to_end: end(arguments)? })
}

pub(in super::super) fn blpop(arguments: &mut Arguments<'_>) -> Parsed {
    no_view(arguments, USE_BRPOP)?;
    wait_for(arguments, ListEnd::Left)
}

pub(in super::super) fn brpop(arguments: &mut Arguments<'_>) -> Parsed {
    if !next_is_stored(arguments) {
        return lists::brpop(arguments);
    }
    wait_for(arguments, ListEnd::Right)
}

pub(in super::super) fn brpoplpush(arguments: &mut Arguments<'_>) -> Parsed {
    if !next_is_stored(arguments) {
        return lists::brpoplpush(arguments);
    }
    let (from, to) = (key(arguments)?, key(arguments)?);
    let command = Blocking::Move { from, to, from_end: ListEnd::Right, to_end: ListEnd::Left };
    wait(command, arguments)
}

pub(in super::super) fn blmove(arguments: &mut Arguments<'_>) -> Parsed {
    if !next_is_stored(arguments) {
        return lists::blmove(arguments);
    }
    let (from, to) = (key(arguments)?, key(arguments)?);
    let command = Blocking::Move { from, to, from_end: end(arguments)?, to_end: end(arguments)? };
    wait(command, arguments)
}

fn list(command: ListCommand) -> Parsed {
    Ok(run(KeyCommand::List(command)))
}

/// A command that queues do not support.
fn no_view(arguments: &Arguments<'_>, instead: &'static str) -> Result<(), CommandError> {
    if next_is_stored(arguments) { Ok(()) } else { Err(CommandError::Instead(instead)) }
}

fn pop(arguments: &mut Arguments<'_>, end: ListEnd) -> Parsed {
    let key = key(arguments)?;
    if arguments.left() == 0 {
        return list(ListCommand::Pop { key, end });
    }
    let count = arguments.size()?.min(POP_COUNT_MAX);
    arguments.end()?;
    list(ListCommand::PopMany { key, end, count })
}

fn wait_for(arguments: &mut Arguments<'_>, end: ListEnd) -> Parsed {
    let mut keys: Vec<Bytes> = Vec::new();
    while arguments.left() > 1 {
        if keys.len() == WAIT_KEYS_MAX {
            return Err(CommandError::TooMany { what: "keys", max: WAIT_KEYS_MAX });
        }
        keys.push(key(arguments)?);
    }
    wait(Blocking::Pop { keys, end }, arguments)
}

fn wait(command: Blocking, arguments: &mut Arguments<'_>) -> Parsed {
    let wait = arguments.timeout_seconds()?.map_or(Wait::ForEver, Wait::AtMost);
    Ok(Command::Keyspace(KeyspaceCommand::Wait { command, wait }))
}

fn end(arguments: &mut Arguments<'_>) -> Result<ListEnd, CommandError> {
    match () {
        () if arguments.keyword("LEFT") => Ok(ListEnd::Left),
        () if arguments.keyword("RIGHT") => Ok(ListEnd::Right),
        () => Err(CommandError::Syntax),
    }
}
