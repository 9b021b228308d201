//! Jobs that the broker submits again and again.

use super::Command;
use super::arguments::Arguments;
use super::error::CommandError;
use crate::json::ScheduleDocument;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ScheduleCommand {
    Set { schedule: String, document: Box<ScheduleDocument> },
    Get { schedule: String },
    List,
    Delete { schedule: String },
    Pause { schedule: String },
    Resume { schedule: String },
    Run { schedule: String },
}

pub(super) fn set(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let schedule = arguments.text()?;
    let document = Box::new(ScheduleDocument::parse(arguments.required()?)?);
    Ok(Command::Schedule(ScheduleCommand::Set { schedule, document }))
}

pub(super) fn get(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    Ok(Command::Schedule(ScheduleCommand::Get { schedule: arguments.text()? }))
}

pub(super) fn list(_: &mut Arguments<'_>) -> Result<Command, CommandError> {
    Ok(Command::Schedule(ScheduleCommand::List))
}

pub(super) fn delete(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    Ok(Command::Schedule(ScheduleCommand::Delete { schedule: arguments.text()? }))
}

pub(super) fn pause(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    Ok(Command::Schedule(ScheduleCommand::Pause { schedule: arguments.text()? }))
}

pub(super) fn resume(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    Ok(Command::Schedule(ScheduleCommand::Resume { schedule: arguments.text()? }))
}

pub(super) fn run(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    Ok(Command::Schedule(ScheduleCommand::Run { schedule: arguments.text()? }))
}
