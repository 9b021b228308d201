//! Commands of workers.

use super::Command;
use super::arguments::Arguments;
use super::error::CommandError;
use super::options::PageOptions;
use crate::json::{Challenge, Statistics, WorkerRegistration, check_worker_id};

/// Maximum length of a search text.
pub(crate) const WORDS_BYTES_MAX: usize = 4096;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum WorkerCommand {
    Register(Box<WorkerRegistration>),
    Heartbeat {
        worker: String,
        statistics: Option<Statistics>,
    },
    Unregister {
        worker: String,
    },
    /// A challenge asked or answered, see [`Challenge`].
    Verify {
        capability: String,
        challenge: Challenge,
    },
    List,
    /// Finds capabilities by their descriptions.
    Search {
        words: String,
        page: PageOptions,
    },
}

pub(super) fn register(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let registration = WorkerRegistration::parse(arguments.required()?)?;
    Ok(Command::Worker(WorkerCommand::Register(Box::new(registration))))
}

pub(super) fn heartbeat(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let worker = worker_id(arguments)?;
    let statistics = arguments.optional().map(Statistics::parse).transpose()?;
    if arguments.left() > 0 {
        return Err(CommandError::WrongNumberOfArguments(arguments.name()));
    }
    Ok(Command::Worker(WorkerCommand::Heartbeat { worker, statistics }))
}

pub(super) fn unregister(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    Ok(Command::Worker(WorkerCommand::Unregister { worker: worker_id(arguments)? }))
}

pub(super) fn verify(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let capability = arguments.id("capability")?;
    let challenge = Challenge::parse(arguments.required()?)?;
    Ok(Command::Worker(WorkerCommand::Verify { capability, challenge }))
}

pub(super) fn list(_: &mut Arguments<'_>) -> Result<Command, CommandError> {
    Ok(Command::Worker(WorkerCommand::List))
}

/// `CAPABILITY.SEARCH words [LIMIT n] [OFFSET n]`.
pub(super) fn search(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let (mut words, mut page) = (String::new(), PageOptions::default());
    while arguments.left() > 0 {
        if !page.take_option(arguments)? {
            words.push_str(&arguments.text()?);
            words.push(' ');
        }
    }
    if words.len() > WORDS_BYTES_MAX {
        return Err(CommandError::TooMany { what: "bytes in a search", max: WORDS_BYTES_MAX });
    }
    Ok(Command::Worker(WorkerCommand::Search { words, page }))
}

fn worker_id(arguments: &mut Arguments<'_>) -> Result<String, CommandError> {
    let id = arguments.text()?;
    check_worker_id(&id)?;
    Ok(id)
}
