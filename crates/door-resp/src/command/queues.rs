//! Queries about queues that take nothing out.

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
