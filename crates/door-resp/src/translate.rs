//! Translates between this door's terms and the broker's; no other module knows both. Pure.
//!
//! [`start`] turns a command into the first step of its flow. One file per subject; `render` converts tasks, workers
//! and
//! events to JSON, `names` maps the names of queues, plans and actions, and `refusals` has a text for every refusal.

mod actions;
mod arrays;
mod envelope;
mod events;
mod jobs;
mod keyspace;
mod last;
mod lists;
mod logs;
mod lookup;
mod metadata;
mod names;
mod plans;
mod ranges;
mod reconcile;
mod refusals;
mod render;
mod results;
mod schedules;
mod stored;
mod submit;
mod views;
mod workers;

use std::sync::Arc;

use tenure_hub::words::{Name, Timestamp};

pub(crate) use actions::ActionFlow;
pub(crate) use events::{event_entry, event_json, is_of_jobs};
pub(crate) use jobs::JobFlow;
pub(crate) use keyspace::KeyspaceFlow;
pub(crate) use last::LastReply;
pub(crate) use lists::ListFlow;
pub(crate) use logs::LogFlow;
pub(crate) use lookup::Lookup;
pub(crate) use names::{itself, progress_note};
pub(crate) use plans::PlanFlow;
pub(crate) use ranges::RangeFlow;
pub(crate) use refusals::{refusal, shortened, wanted};
pub(crate) use results::outcome;
pub(crate) use stored::{key_replies, key_reply};
pub(crate) use submit::pushed;
pub(crate) use views::ViewFlow;
pub(crate) use workers::{WorkerFlow, pinged};

use crate::codec::{Reply, Version};
use crate::command::{Command, EventsCommand};
use crate::flow::FlowStep;
use crate::rights::JobReader;
use crate::settings::Settings;

/// What a translation may know about the connection.
#[derive(Clone, Debug)]
pub(crate) struct CallerInfo {
    pub now: Timestamp,
    pub version: Version,
    /// It has sent a Redis library's greeting, so it expects Redis replies.
    pub is_library: bool,
    /// It has named its worker.
    pub is_introduced: bool,
    /// It is a worker that only pings, and has not asked for a job by its id.
    pub may_read_jobs_only: bool,
    /// Its worker, for error messages.
    pub worker: Option<Name>,
    /// The worker is nameless and exists only for this connection.
    pub is_nameless: bool,
    /// A connection without a worker may name it in a report.
    pub may_claim: bool,
    pub settings: Arc<Settings>,
    /// Whose jobs it may read.
    pub reader: JobReader,
    /// This command must also clean up actions that are no longer needed.
    pub tidies: bool,
}

/// The first step of a command's flow. Commands about the connection itself never come here.
pub(crate) fn start(command: Command, speaker: &CallerInfo) -> FlowStep {
    match command {
        Command::Connection(_) | Command::Keyspace(_) => {
            FlowStep::Reply(Reply::error("ERR not a command for the broker"))
        }
        Command::List(command) => lists::start(command, speaker),
        Command::View(command) => views::start(command, speaker),
        Command::Worker(command) => workers::start(command, speaker),
        Command::Job(command) => jobs::start(command, speaker),
        Command::Plan(command) => plans::start(command),
        Command::Action(command) => actions::start(command, speaker),
        Command::Queue(command) => lists::start_queue(command),
        Command::Schedule(command) => schedules::start(command, speaker),
        Command::Array(command) => arrays::start(command, speaker),
        Command::Reconcile(command) => reconcile::start(command, speaker),
        Command::Events(EventsCommand::Logs(command)) => logs::start(command, speaker.version),
        Command::Events(command) => events::start(command),
    }
}
