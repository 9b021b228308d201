//! `RECONCILE prefix page`: compares the tasks here with another store of them.

use super::Command;
use super::arguments::Arguments;
use super::error::CommandError;
use crate::json::ReconciliationDocument;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ReconcileCommand {
    pub prefix: String,
    pub page: Box<ReconciliationDocument>,
}

pub(super) fn reconcile(arguments: &mut Arguments<'_>) -> Result<Command, CommandError> {
    let prefix = arguments.text()?;
    let page = Box::new(ReconciliationDocument::parse(arguments.required()?)?);
    Ok(Command::Reconcile(ReconcileCommand { prefix, page }))
}
