//! Streams on stored keys. The streams `events` and `events:…` are the broker's own log.

use bytes::Bytes;
use tenure_hub::keyspace::{Blocking, Command as KeyCommand, NewId, StreamCommand, StreamId, Trim};

use super::super::arguments::parse_text;
use super::super::lists::Wait;
use super::super::{Arguments, Command, CommandError, events};
use super::{KeyspaceCommand, is_stored, key, next_is_stored, pairs, run, value};

type Parsed = Result<Command, CommandError>;

const STREAMS_MAX: usize = 256;

pub(in super::super) fn xadd(arguments: &mut Arguments<'_>) -> Parsed {
    if !next_is_stored(arguments) {
        return Err(CommandError::Instead("the broker alone writes events: use PUBLISH for messages"));
    }
    if arguments.peek().is_some_and(|key| events::logged_job(key).is_some()) {
        return Err(CommandError::Instead("streams logs:<job> are what jobs print: choose another key"));
    }
    let key = key(arguments)?;
    let only_existing = arguments.keyword("NOMKSTREAM");
    let trim = trim(arguments)?;
    let id = match arguments.required()? {
        b"*" => NewId::Fresh,
        text => match text.strip_suffix(b"-*") {
            Some(millis) => NewId::FreshAt(parse_text(millis).ok_or(CommandError::StreamId)?),
            None => NewId::Given(id(text, 0)?),
        },
    };
    let fields = pairs(arguments)?;
    stream(StreamCommand::Add { key, id, fields, trim, only_existing })
}

pub(in super::super) fn xlen(arguments: &mut Arguments<'_>) -> Parsed {
    if arguments.peek().is_some_and(|key| events::logged_job(key).is_some()) {
        return events::count_logs(arguments);
    }
    stream(StreamCommand::Length { key: key(arguments)? })
}

pub(in super::super) fn xrange(arguments: &mut Arguments<'_>) -> Parsed {
    if !next_is_stored(arguments) {
        return events::xrange(arguments);
    }
    if arguments.peek().is_some_and(|key| events::logged_job(key).is_some()) {
        return events::range_logs(arguments);
    }
    let key = key(arguments)?;
    let (from, to) = (from(arguments)?, to(arguments)?);
    range(arguments, key, from, to, false)
}

pub(in super::super) fn xrevrange(arguments: &mut Arguments<'_>) -> Parsed {
    let key = key(arguments)?;
    let (to, from) = (to(arguments)?, from(arguments)?);
    range(arguments, key, from, to, true)
}

pub(in super::super) fn xdel(arguments: &mut Arguments<'_>) -> Parsed {
    let key = key(arguments)?;
    let ids = super::all(arguments, |arguments| id(arguments.required()?, 0))?;
    stream(StreamCommand::Delete { key, ids })
}

pub(in super::super) fn xtrim(arguments: &mut Arguments<'_>) -> Parsed {
    let key = key(arguments)?;
    let trim = trim(arguments)?.ok_or(CommandError::Syntax)?;
    arguments.end()?;
    stream(StreamCommand::Trim { key, trim })
}

/// The keys come last, so their kind is checked before any argument is taken.
pub(in super::super) fn xread(arguments: &mut Arguments<'_>) -> Parsed {
    let first = arguments.after_keyword("STREAMS");
    if !first.is_some_and(is_stored) {
        return events::xread(arguments);
    }
    if first.is_some_and(|key| events::logged_job(key).is_some()) {
        return events::read_logs(arguments);
    }
    let (mut count, mut block) = (usize::MAX, None);
    loop {
        if arguments.keyword("COUNT") {
            count = arguments.size()?.max(1);
        } else if arguments.keyword("BLOCK") {
            block = Some(arguments.timeout_millis()?);
        } else if arguments.keyword("STREAMS") {
            break;
        } else {
            return Err(CommandError::Syntax);
        }
    }
    let streams = streams(arguments)?;
    let Some(block) = block else { return stream(StreamCommand::Read { streams, count }) };
    let wait = block.map_or(Wait::ForEver, Wait::AtMost);
    Ok(Command::Keyspace(KeyspaceCommand::Wait { command: Blocking::ReadStreams { streams, count }, wait }))
}

fn streams(arguments: &mut Arguments<'_>) -> Result<Vec<(Bytes, StreamId)>, CommandError> {
    let words = arguments.left();
    if words == 0 || words % 2 == 1 {
        return Err(CommandError::UnbalancedStreams);
    }
    if words / 2 > STREAMS_MAX {
        return Err(CommandError::TooMany { what: "streams", max: STREAMS_MAX });
    }
    let mut keys = Vec::with_capacity(words / 2);
    for _ in 0..words / 2 {
        keys.push(key(arguments)?);
    }
    let after = |key| match arguments.required()? {
        // From now on: every existing entry has a lower id than this.
        b"$" => Ok((key, StreamId::LAST)),
        text => Ok((key, id(text, 0)?)),
    };
    keys.into_iter().map(after).collect()
}

fn stream(command: StreamCommand) -> Parsed {
    Ok(run(KeyCommand::Stream(command)))
}

fn range(arguments: &mut Arguments<'_>, key: Bytes, from: StreamId, to: StreamId, reverse: bool) -> Parsed {
    let count = if arguments.keyword("COUNT") { arguments.size()? } else { usize::MAX };
    arguments.end()?;
    stream(StreamCommand::Range { key, from, to, count, reverse })
}

fn from(arguments: &mut Arguments<'_>) -> Result<StreamId, CommandError> {
    match arguments.required()? {
        b"-" => Ok(StreamId(0, 0)),
        text => match text.strip_prefix(b"(") {
            Some(text) => Ok(id(text, 0)?.next()),
            None => id(text, 0),
        },
    }
}

fn to(arguments: &mut Arguments<'_>) -> Result<StreamId, CommandError> {
    match arguments.required()? {
        b"+" => Ok(StreamId::LAST),
        text => match text.strip_prefix(b"(") {
            Some(text) => id(text, 0)?.before().ok_or(CommandError::StreamId),
            None => id(text, u64::MAX),
        },
    }
}

/// `<millis>-<number>`, or the first part alone.
fn id(text: &[u8], number: u64) -> Result<StreamId, CommandError> {
    let parse = |text| parse_text::<u64>(text).ok_or(CommandError::StreamId);
    match text.iter().position(|byte| *byte == b'-') {
        Some(dash) => Ok(StreamId(parse(&text[..dash])?, parse(&text[dash + 1..])?)),
        None => Ok(StreamId(parse(text)?, number)),
    }
}

/// MAXLEN or MINID, exact whatever sign stands before the number. LIMIT is read and not needed.
fn trim(arguments: &mut Arguments<'_>) -> Result<Option<Trim>, CommandError> {
    let by_length = arguments.keyword("MAXLEN");
    if !by_length && !arguments.keyword("MINID") {
        return Ok(None);
    }
    let _ = arguments.keyword("~") || arguments.keyword("=");
    let trim = match by_length {
        true => Trim::MaxLength(arguments.size()?),
        false => Trim::MinId(id(&value(arguments)?, 0)?),
    };
    if arguments.keyword("LIMIT") {
        arguments.size()?;
    }
    Ok(Some(trim))
}
