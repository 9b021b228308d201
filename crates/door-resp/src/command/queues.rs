//! Queries about queues that take nothing out, and the settings of queues and tags.

use std::time::Duration;

use super::Command;
use super::arguments::Arguments;
use super::error::CommandError;
use crate::key::RespQueueKey;

const PEEK_COUNT_DEFAULT: usize = 10;
const PEEK_COUNT_MAX: usize = 1000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum QueueCommand {
    /// Of one queue, or of all together.
    Stats {
        queue: Option<RespQueueKey>,
    },
    Peek {
        queue: RespQueueKey,
        count: usize,
    },
    /// The broker's figures.
    Metrics(MetricsFormat),
    /// The backlog thresholds of a queue; `None` for those of all queues.
    Threshold {
        queue: RespQueueKey,
        own: Option<OwnThresholds>,
    },
    /// How many tasks with a tag run at once; `None` for any number.
    Limit {
        tag: String,
        limit: Option<u32>,
    },
    Limits,
    /// How often a task with a tag is handed out; `None` for any rate.
    TagRate {
        tag: String,
        rate: Option<RateArgument>,
    },
    /// The same for the tasks of a queue.
    QueueRate {
        queue: RespQueueKey,
        rate: Option<RateArgument>,
    },
    /// The weight of a share key; `None` for the default.
    Share {
        share: String,
        weight: Option<u32>,
    },
    Shares,
}

/// A rate as it was written, `10/m`, and its burst.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RateArgument {
    pub text: String,
    pub burst: Option<u32>,
}

/// The thresholds that a queue has of its own; without one there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnThresholds {
    pub depth: Option<u32>,
    pub age: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetricsFormat {
    Prometheus,
    Json,
}

/// `METRICS [prometheus|json]`.
pub(super) fn metrics(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let format = if arguments.left() == 0 || arguments.keyword("PROMETHEUS") {
        MetricsFormat::Prometheus
    } else if arguments.keyword("JSON") {
        MetricsFormat::Json
    } else {
        return Err(CommandError::Syntax);
    };
    arguments.end()?;
    Ok(Command::Queue(QueueCommand::Metrics(format)))
}

pub(super) fn stats(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let queue = if arguments.left() > 0 { Some(arguments.queue_name()?) } else { None };
    if arguments.left() > 0 {
        return Err(CommandError::WrongNumberOfArguments(arguments.name()));
    }
    Ok(Command::Queue(QueueCommand::Stats { queue }))
}

pub(super) fn peek(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let queue = arguments.queue_name()?;
    let count = if arguments.left() > 0 { arguments.size()? } else { PEEK_COUNT_DEFAULT };
    if arguments.left() > 0 {
        return Err(CommandError::WrongNumberOfArguments(arguments.name()));
    }
    Ok(Command::Queue(QueueCommand::Peek { queue, count: count.min(PEEK_COUNT_MAX) }))
}

/// `QUEUE.THRESHOLD q [DEPTH n] [AGE seconds] | NONE | DEFAULT`.
pub(super) fn threshold(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let queue = arguments.queue_name()?;
    let own = if arguments.keyword("DEFAULT") {
        None
    } else if arguments.keyword("NONE") {
        Some(OwnThresholds::default())
    } else {
        let mut own = OwnThresholds::default();
        loop {
            if own.depth.is_none() && arguments.keyword("DEPTH") {
                own.depth = Some(count(arguments)?);
            } else if own.age.is_none() && arguments.keyword("AGE") {
                own.age = arguments.timeout_seconds()?;
            } else {
                break;
            }
        }
        if own == OwnThresholds::default() {
            return Err(CommandError::Syntax);
        }
        Some(own)
    };
    arguments.end()?;
    Ok(Command::Queue(QueueCommand::Threshold { queue, own }))
}

pub(super) fn set_limit(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let tag = arguments.text()?;
    let limit = Some(count(arguments)?);
    Ok(Command::Queue(QueueCommand::Limit { tag, limit }))
}

pub(super) fn delete_limit(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    Ok(Command::Queue(QueueCommand::Limit { tag: arguments.text()?, limit: None }))
}

pub(super) fn limits(_: &mut Arguments<'_>) -> Result<Command, CommandError> {
    Ok(Command::Queue(QueueCommand::Limits))
}

/// `LIMIT.RATE tag 10/m [BURST n] | NONE`.
pub(super) fn tag_rate(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let tag = arguments.text()?;
    Ok(Command::Queue(QueueCommand::TagRate { tag, rate: rate(arguments)? }))
}

/// `QUEUE.RATE q 100/s [BURST n] | NONE`.
pub(super) fn queue_rate(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let queue = arguments.queue_name()?;
    Ok(Command::Queue(QueueCommand::QueueRate { queue, rate: rate(arguments)? }))
}

fn rate(arguments: &mut Arguments<'_>) -> Result<Option<RateArgument>, CommandError> {
    if arguments.keyword("NONE") {
        arguments.end()?;
        return Ok(None);
    }
    let text = arguments.text()?;
    let burst = if arguments.keyword("BURST") { Some(count(arguments)?) } else { None };
    arguments.end()?;
    Ok(Some(RateArgument { text, burst }))
}

pub(super) fn set_share(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let share = arguments.text()?;
    let weight = Some(count(arguments)?);
    Ok(Command::Queue(QueueCommand::Share { share, weight }))
}

pub(super) fn delete_share(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    Ok(Command::Queue(QueueCommand::Share { share: arguments.text()?, weight: None }))
}

pub(super) fn shares(_: &mut Arguments<'_>) -> Result<Command, CommandError> {
    Ok(Command::Queue(QueueCommand::Shares))
}

fn count(arguments: &mut Arguments<'_>) -> Result<u32, CommandError> {
    u32::try_from(arguments.size()?).map_err(|_| CommandError::Syntax)
}
