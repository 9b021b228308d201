//! Actions: one plan run once per input.

use super::Command;
use super::arguments::Arguments;
use super::error::{CommandError, quoted};
use super::jobs::JobStatus;
use super::options::{PageOptions, is_option};
use crate::json::SubmittedAction;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ActionCommand {
    Submit(Box<SubmittedAction>),
    Get { action: String, page: PageOptions },
    Status { action: String },
    List { status: Option<JobStatus>, page: PageOptions },
}

pub(super) fn submit(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let action = SubmittedAction::parse(arguments.required()?)?;
    Ok(Command::Action(ActionCommand::Submit(Box::new(action))))
}

/// `ACTION.GET id [offset] [limit]`: the page is of its jobs.
pub(super) fn get(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let action = arguments.id("action id")?;
    Ok(Command::Action(ActionCommand::Get { action, page: PageOptions::rest(arguments)? }))
}

pub(super) fn status(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    Ok(Command::Action(ActionCommand::Status { action: arguments.id("action id")? }))
}

/// `ACTION.LIST [status] [offset] [limit]`.
pub(super) fn list(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let status = match arguments.peek() {
        Some(word) if word.is_empty() || word.eq_ignore_ascii_case(b"all") => {
            arguments.required()?;
            None
        }
        Some(word) if word[0].is_ascii_alphabetic() && !is_option(word) => {
            arguments.required()?;
            Some(JobStatus::parse(word).ok_or_else(|| CommandError::UnknownStatus(quoted(word)))?)
        }
        _ => None,
    };
    Ok(Command::Action(ActionCommand::List { status, page: PageOptions::rest(arguments)? }))
}
