//! Plans: stored lists of steps that run on one worker, one after the other.

use bytes::Bytes;
use tenure_plans::Plan;

use super::Command;
use super::arguments::Arguments;
use super::error::CommandError;
use super::options::{PageOptions, is_number, is_option};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PlanCommand {
    /// The plan and its original JSON, which workers receive.
    Submit {
        plan: Box<Plan>,
        json: Bytes,
        answer: PlanAnswer,
    },
    Get {
        plan: String,
    },
    List {
        pattern: Option<Bytes>,
        page: PageOptions,
    },
    Delete {
        plan: String,
    },
}

/// The form of the reply to a stored plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlanAnswer {
    /// PLAN.SUBMIT: with its id.
    Id,
    /// HSET: with the number of new fields.
    FieldsAdded,
}

pub(super) fn submit(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let json = arguments.bytes()?;
    let plan = Box::new(Plan::parse(&json)?);
    Ok(Command::Plan(PlanCommand::Submit { plan, json, answer: PlanAnswer::Id }))
}

pub(super) fn get(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    Ok(Command::Plan(PlanCommand::Get { plan: arguments.id("plan id")? }))
}

/// `PLAN.LIST [pattern] [LIMIT n] [OFFSET n]` or `PLAN.LIST [offset] [limit]`.
pub(super) fn list(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let pattern = match arguments.peek() {
        Some(word) if !is_option(word) && !is_number(word) => Some(arguments.bytes()?),
        _ => None,
    };
    Ok(Command::Plan(PlanCommand::List { pattern, page: PageOptions::rest(arguments)? }))
}

pub(super) fn delete(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    Ok(Command::Plan(PlanCommand::Delete { plan: arguments.id("plan id")? }))
}
