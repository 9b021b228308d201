//! Events: the numbered log as streams, and live events as channels.

use std::time::Duration;

use bytes::Bytes;

use super::Command;
use super::arguments::{Arguments, parse_text};
use super::error::{CommandError, shown};
use crate::key::{EventsKey, RespKey};

/// Streams one XREAD may follow.
const STREAMS_MAX: usize = 64;
const READ_COUNT_DEFAULT: usize = 100;
const READ_COUNT_MAX: usize = 10_000;
/// Channels one SUBSCRIBE may name.
const CHANNELS_MAX: usize = 1000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EventsCommand {
    Read(XRead),
    /// XRANGE: a slice of a stream, both ends included.
    Range {
        stream: EventsKey,
        from: u64,
        to: u64,
        count: usize,
    },
    Subscribe(Vec<Bytes>),
    /// None named means all.
    Unsubscribe(Vec<Bytes>),
    SubscribePattern(Vec<Bytes>),
    UnsubscribePattern(Vec<Bytes>),
    Publish {
        channel: Bytes,
        message: Bytes,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct XRead {
    /// Each stream: its key as written, its meaning, and where to start.
    pub streams: Vec<(Bytes, EventsKey, ReadFrom)>,
    pub count: usize,
    pub block: Option<BlockFor>,
}

/// `None` for `BLOCK 0`, which waits without a limit.
pub(crate) type BlockFor = Option<Duration>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadFrom {
    /// Everything after this event number.
    After(u64),
    /// `$`: only later events.
    Now,
}

pub(super) fn xread(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let (mut count, mut block) = (READ_COUNT_DEFAULT, None);
    loop {
        if arguments.keyword("COUNT") {
            count = positive_count(arguments)?;
        } else if arguments.keyword("BLOCK") {
            block = Some(arguments.timeout_millis()?);
        } else if arguments.keyword("STREAMS") {
            break;
        } else {
            return Err(CommandError::Syntax);
        }
    }
    Ok(Command::Events(EventsCommand::Read(XRead { streams: streams(arguments)?, count, block })))
}

pub(super) fn xrange(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let stream = stream(arguments)?;
    let from = match arguments.required()? {
        b"-" => 0,
        id => event_number(id)?,
    };
    let to = match arguments.required()? {
        b"+" => u64::MAX,
        id => event_number(id)?,
    };
    let count = if arguments.keyword("COUNT") { positive_count(arguments)? } else { READ_COUNT_MAX };
    arguments.end()?;
    Ok(Command::Events(EventsCommand::Range { stream, from, to, count }))
}

pub(super) fn subscribe(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    Ok(Command::Events(EventsCommand::Subscribe(channels(arguments)?)))
}

pub(super) fn unsubscribe(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    Ok(Command::Events(EventsCommand::Unsubscribe(channels(arguments)?)))
}

pub(super) fn psubscribe(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    Ok(Command::Events(EventsCommand::SubscribePattern(channels(arguments)?)))
}

pub(super) fn punsubscribe(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    Ok(Command::Events(EventsCommand::UnsubscribePattern(channels(arguments)?)))
}

pub(super) fn publish(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let (channel, message) = (arguments.bytes()?, arguments.bytes()?);
    Ok(Command::Events(EventsCommand::Publish { channel, message }))
}

/// First all keys, then as many ids.
fn streams(arguments: &mut Arguments<'_>) -> Result<Vec<(Bytes, EventsKey, ReadFrom)>, CommandError> {
    let words = arguments.left();
    if words == 0 || words % 2 == 1 {
        return Err(CommandError::UnbalancedStreams);
    }
    if words / 2 > STREAMS_MAX {
        return Err(CommandError::TooMany { what: "streams", max: STREAMS_MAX });
    }
    let mut keys = Vec::with_capacity(words / 2);
    for _ in 0..words / 2 {
        let written = arguments.peek().map(Bytes::copy_from_slice).unwrap_or_default();
        keys.push((written, stream(arguments)?));
    }
    let mut streams = Vec::with_capacity(keys.len());
    for (written, key) in keys {
        let from = match arguments.required()? {
            b"$" => ReadFrom::Now,
            id => ReadFrom::After(event_number(id)?),
        };
        streams.push((written, key, from));
    }
    Ok(streams)
}

fn stream(arguments: &mut Arguments<'_>) -> Result<EventsKey, CommandError> {
    let written = arguments.required()?;
    match RespKey::parse(written) {
        RespKey::Events(events) => Ok(events),
        RespKey::Unknown => Err(CommandError::NoSuchStream(shown(written))),
        _ => Err(CommandError::WrongType),
    }
}

/// `<number>` or `<number>-0`. An event has one number; Redis' second part is always 0 here.
fn event_number(id: &[u8]) -> Result<u64, CommandError> {
    let number = match id.iter().position(|&byte| byte == b'-') {
        None => id,
        Some(dash) => {
            parse_text::<u64>(&id[dash + 1..]).ok_or(CommandError::StreamId)?;
            &id[..dash]
        }
    };
    parse_text(number).ok_or(CommandError::StreamId)
}

fn positive_count(arguments: &mut Arguments<'_>) -> Result<usize, CommandError> {
    match arguments.size()? {
        // Redis reads 0 and less as no count at all.
        0 => Ok(READ_COUNT_MAX),
        count => Ok(count.min(READ_COUNT_MAX)),
    }
}

fn channels(arguments: &mut Arguments<'_>) -> Result<Vec<Bytes>, CommandError> {
    if arguments.left() > CHANNELS_MAX {
        return Err(CommandError::TooMany { what: "channels", max: CHANNELS_MAX });
    }
    let mut channels = Vec::with_capacity(arguments.left());
    while arguments.left() > 0 {
        channels.push(arguments.bytes()?);
    }
    Ok(channels)
}
