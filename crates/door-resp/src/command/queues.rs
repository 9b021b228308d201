//! Looking into queues without taking anything out.

use super::Command;
use super::arguments::Arguments;
use super::error::CommandError;
use crate::key::QueueKey;

const PEEK_COUNT_DEFAULT: usize = 10;
const PEEK_COUNT_MAX: usize = 1000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum QueueCommand {
    /// Of one queue, or of all together.
    Stats {
        queue: Option<QueueKey>,
    },
    Peek {
        queue: QueueKey,
        count: usize,
    },
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
