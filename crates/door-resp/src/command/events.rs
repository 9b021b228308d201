//! Events: the numbered log as streams, and live events as channels.

use std::time::Duration;

use bytes::Bytes;

use super::Command;
use super::arguments::{Arguments, parse_text};
use super::error::{CommandError, quoted};
use crate::key::{EventsKey, RespKey, job_id_of};

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
    /// What a job prints, as a stream.
    Logs(LogsCommand),
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
pub(crate) struct LogsCommand {
    /// The key as written.
    pub key: Bytes,
    pub job: String,
    pub read: LogsRead,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LogsRead {
    /// XREAD.
    From { from: ReadFrom, count: usize, block: Option<BlockFor> },
    /// XRANGE, both ends included.
    Range { from: u64, to: u64, count: usize },
    /// XLEN.
    Count,
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
    let (count, block) = read_options(arguments)?;
    Ok(Command::Events(EventsCommand::Read(XRead { streams: streams(arguments)?, count, block })))
}

/// The options of XREAD before its streams: how many entries, and how long to wait for one.
fn read_options(arguments: &mut Arguments<'_>) -> Result<(usize, Option<BlockFor>), CommandError> {
    let (mut count, mut block) = (READ_COUNT_DEFAULT, None);
    loop {
        if arguments.keyword("COUNT") {
            count = positive_count(arguments)?;
        } else if arguments.keyword("BLOCK") {
            block = Some(arguments.timeout_millis()?);
        } else if arguments.keyword("STREAMS") {
            return Ok((count, block));
        } else {
            return Err(CommandError::Syntax);
        }
    }
}

pub(super) fn xrange(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let stream = stream(arguments)?;
    let (from, to) = range_ends(arguments)?;
    let count = if arguments.keyword("COUNT") { positive_count(arguments)? } else { READ_COUNT_MAX };
    arguments.end()?;
    Ok(Command::Events(EventsCommand::Range { stream, from, to, count }))
}

/// The job of `logs:<job>`.
pub(super) fn logged_job(key: &[u8]) -> Option<String> {
    let job = std::str::from_utf8(key).ok()?.strip_prefix("logs:")?;
    (!job.is_empty()).then(|| job_id_of(job).into_owned())
}

/// XREAD of one such stream.
pub(super) fn read_logs(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let (count, block) = read_options(arguments)?;
    if arguments.left() != 2 {
        return Err(CommandError::Instead(
            "one XREAD reads what one job prints: use one connection for each job",
        ));
    }
    let (key, job) = logs_key(arguments)?;
    let from = match arguments.required()? {
        b"$" => ReadFrom::Now,
        id => ReadFrom::After(event_number(id)?),
    };
    Ok(logs(key, job, LogsRead::From { from, count, block }))
}

pub(super) fn range_logs(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let (key, job) = logs_key(arguments)?;
    let (from, to) = range_ends(arguments)?;
    let count = if arguments.keyword("COUNT") { positive_count(arguments)? } else { READ_COUNT_MAX };
    arguments.end()?;
    Ok(logs(key, job, LogsRead::Range { from, to, count }))
}

pub(super) fn count_logs(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let (key, job) = logs_key(arguments)?;
    arguments.end()?;
    Ok(logs(key, job, LogsRead::Count))
}

fn logs(key: Bytes, job: String, read: LogsRead) -> Command {
    Command::Events(EventsCommand::Logs(LogsCommand { key, job, read }))
}

fn logs_key(arguments: &mut Arguments<'_>) -> Result<(Bytes, String), CommandError> {
    let key = Bytes::copy_from_slice(arguments.required()?);
    let job = logged_job(&key).ok_or(CommandError::Syntax)?;
    Ok((key, job))
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
        RespKey::Unknown => Err(CommandError::NoSuchStream(quoted(written))),
        _ => Err(CommandError::WrongType),
    }
}

fn range_ends(arguments: &mut Arguments<'_>) -> Result<(u64, u64), CommandError> {
    let from = match arguments.required()? {
        b"-" => 0,
        id => event_number(id)?,
    };
    let to = match arguments.required()? {
        b"+" => u64::MAX,
        id => event_number(id)?,
    };
    Ok((from, to))
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
