//! Commands with typed arguments. Parsing is pure: it knows the grammar and nothing of the broker.
//!
//! [`Entry::find`] looks a name up in the [`TABLE`]; [`Entry::parse`] turns the arguments into a [`Command`].
//! The two steps are apart because a peer that has not authenticated is told so before its arguments are
//! looked at.

mod actions;
mod arguments;
mod connection;
mod error;
mod events;
mod jobs;
mod lists;
mod options;
mod plans;
mod queues;
mod table;
mod views;
mod workers;

pub use actions::ActionCommand;
pub use connection::{ClientCommand, CommandQuery, ConnectionCommand, Credentials, Hello, LibraryFact};
pub use error::CommandError;
pub use events::{Block, EventsCommand, ReadFrom, XRead};
pub use jobs::{JobCommand, JobFilter, JobStatus, JobVerb};
pub use lists::{Claim, ListCommand, PopReply, Wait};
pub use options::{PAGE_LIMIT_DEFAULT, PAGE_LIMIT_MAX, Page};
pub use plans::PlanCommand;
pub use queues::QueueCommand;
pub use table::{Entry, TABLE};
pub use views::{Scan, ViewCommand};
pub use workers::WorkerCommand;

use crate::codec::Request;

/// Everything a peer can ask for, by subject.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    Connection(ConnectionCommand),
    List(ListCommand),
    View(ViewCommand),
    Worker(WorkerCommand),
    Job(JobCommand),
    Plan(PlanCommand),
    Action(ActionCommand),
    Queue(QueueCommand),
    Events(EventsCommand),
}

impl Command {
    /// Both steps at once.
    pub fn parse(request: &Request<'_>) -> Result<Self, CommandError> {
        Entry::find(request.name())?.parse(request)
    }
}
