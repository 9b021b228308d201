//! Commands with typed arguments. Parsing is pure: it knows the grammar and nothing of the broker.
//!
//! [`Entry::find`] looks a name up in the [`TABLE`]; [`Entry::parse`] turns the arguments into a [`Command`]. They are
//! separate steps because a peer that has not authenticated is refused before its arguments are parsed.

mod actions;
mod arguments;
mod arrays;
mod connection;
mod error;
mod events;
mod hints;
mod jobs;
mod keyspace;
mod lists;
mod options;
mod plans;
mod queues;
mod reconcile;
mod schedules;
mod table;
#[cfg(test)]
mod tests;
mod views;
mod workers;

pub(crate) use actions::ActionCommand;
pub(crate) use arrays::ArrayCommand;
pub(crate) use connection::{
    ClientCommand, CommandQuery, ConnectionCommand, Credentials, Hello, LibraryFact,
};
pub(crate) use error::CommandError;
pub(crate) use events::{BlockFor, EventsCommand, LogsCommand, LogsRead, ReadFrom, XRead};
pub(crate) use jobs::{JobCommand, JobFilter, JobStatus, JobVerb};
pub(crate) use keyspace::{KeyListing, KeyspaceCommand, keys::STORED_CURSOR};
pub(crate) use lists::{ClaimCommand, PopReply, RespListCommand, Wait};
pub(crate) use options::PageOptions;
pub(crate) use plans::{PlanAnswer, PlanCommand};
pub(crate) use queues::{MetricsFormat, OwnThresholds, QueueCommand, RateArgument};
pub(crate) use reconcile::ReconcileCommand;
pub(crate) use schedules::ScheduleCommand;
pub(crate) use table::{Entry, TABLE};
pub(crate) use views::{AskedKey, HashPart, ScanOptions, ViewCommand};
pub(crate) use workers::{WORDS_BYTES_MAX, WorkerCommand};

use crate::codec::RawCommand;
use arguments::Arguments;

/// All commands, by subject.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Command {
    Connection(ConnectionCommand),
    List(RespListCommand),
    View(ViewCommand),
    Worker(WorkerCommand),
    Job(JobCommand),
    Plan(PlanCommand),
    Action(ActionCommand),
    Queue(QueueCommand),
    Schedule(ScheduleCommand),
    Array(ArrayCommand),
    Reconcile(ReconcileCommand),
    Events(EventsCommand),
    Keyspace(KeyspaceCommand),
}

impl Command {
    /// What it is about, for the audit log.
    pub(crate) const fn subject(&self) -> &'static str {
        match self {
            Command::Connection(_) => "connection",
            Command::List(_) => "list",
            Command::View(_) => "view",
            Command::Worker(_) => "worker",
            Command::Job(_) => "job",
            Command::Plan(_) => "plan",
            Command::Action(_) => "action",
            Command::Queue(_) => "queue",
            Command::Schedule(_) => "schedule",
            Command::Array(_) => "array",
            Command::Reconcile(_) => "reconciliation",
            Command::Events(_) => "events",
            Command::Keyspace(_) => "stored-keys",
        }
    }

    /// Both steps at once.
    pub(crate) fn parse(request: &RawCommand<'_>) -> Result<Self, CommandError> {
        Entry::find(request.name())?.parse(request)
    }
}
