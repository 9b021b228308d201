//! Many jobs as one.

use super::Command;
use super::arguments::Arguments;
use super::error::CommandError;
use super::jobs::JobVerb;
use crate::json::ArrayDocument;

/// How many arrays a list has, unless the client says otherwise, and at most.
const LIST_DEFAULT: usize = 100;
const LIST_MAX: usize = 1000;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ArrayCommand {
    Submit(Box<ArrayDocument>),
    /// By its id or its name.
    Get {
        array: String,
    },
    /// The newest ones.
    List {
        count: usize,
    },
    /// How many elements run at once; `None` for any number.
    Limit {
        array: String,
        limit: Option<u32>,
    },
    Steer {
        array: String,
        verb: JobVerb,
        reason: Option<String>,
    },
}

pub(super) fn submit(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let document = Box::new(ArrayDocument::parse(arguments.required()?)?);
    Ok(Command::Array(ArrayCommand::Submit(document)))
}

pub(super) fn get(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    Ok(Command::Array(ArrayCommand::Get { array: arguments.id("array id")? }))
}

/// `ARRAY.LIST [n]`.
pub(super) fn list(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let count = if arguments.left() > 0 { arguments.size()?.min(LIST_MAX) } else { LIST_DEFAULT };
    arguments.end()?;
    Ok(Command::Array(ArrayCommand::List { count }))
}

/// `ARRAY.LIMIT id n | NONE`.
pub(super) fn limit(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let array = arguments.id("array id")?;
    let limit = if arguments.keyword("NONE") {
        None
    } else {
        Some(u32::try_from(arguments.integer()?).map_err(|_| CommandError::NotAnInteger)?)
    };
    arguments.end()?;
    Ok(Command::Array(ArrayCommand::Limit { array, limit }))
}

pub(super) fn cancel(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    steer(arguments, JobVerb::Cancel)
}

pub(super) fn pause(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    steer(arguments, JobVerb::Pause)
}

pub(super) fn resume(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    steer(arguments, JobVerb::Resume)
}

pub(super) fn retry(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    steer(arguments, JobVerb::Retry)
}

fn steer(arguments: &mut Arguments<'_>, verb: JobVerb) -> Result<Command, CommandError> {
    let array = arguments.id("array id")?;
    let ends = verb == JobVerb::Pause && arguments.keyword("TERMINATE");
    let verb = if ends { JobVerb::PauseAndTerminate } else { verb };
    let reason = if arguments.left() > 0 { Some(arguments.text()?) } else { None };
    arguments.end()?;
    Ok(Command::Array(ArrayCommand::Steer { array, verb, reason }))
}
