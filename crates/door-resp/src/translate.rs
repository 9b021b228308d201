//! Between this door's words and the broker's: the only bilingual place. Pure.
//!
//! [`start`] turns a command into the first step of its flow. One file per subject; `render` puts tasks, workers and
//! events into JSON, `names` says how queues, plans and actions are called on the other side, `refusals` spells out
//! every "no".

mod actions;
mod envelope;
mod events;
mod jobs;
mod keyspace;
mod last;
mod lists;
mod lookup;
mod metadata;
mod names;
mod plans;
mod ranges;
mod refusals;
mod render;
mod results;
mod stored;
mod submit;
mod views;
mod workers;

use tenure_hub::words::{Name, Timestamp};

pub(crate) use actions::ActionFlow;
pub(crate) use events::{event_entry, event_json, is_of_jobs};
pub(crate) use jobs::JobFlow;
pub(crate) use keyspace::KeyspaceFlow;
pub(crate) use last::LastReply;
pub(crate) use lists::ListFlow;
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
use crate::command::Command;
use crate::flow::FlowStep;
use crate::rights::JobReader;
use crate::settings::Settings;

/// What a translation may know about the connection.
#[derive(Clone, Debug)]
pub(crate) struct Speaker {
    pub now: Timestamp,
    pub version: Version,
    /// It has greeted like a Redis library, so it reads what Redis would answer.
    pub is_library: bool,
    /// It has said which worker it is.
    pub is_introduced: bool,
    /// It is a worker that only pings, and has not asked for a job by its id.
    pub may_read_jobs_only: bool,
    /// The worker that speaks, for error messages.
    pub worker: Option<Name>,
    /// That worker is this connection alone.
    pub is_nameless: bool,
    /// A connection that is nobody yet may say in a report which worker it is.
    pub may_claim: bool,
    pub settings: Settings,
    /// Whose jobs it may read.
    pub reader: JobReader,
    /// It falls to this command to look after what nobody needs any more.
    pub tidies: bool,
}

/// The first step of a command's flow. Commands about the connection itself never come here.
pub(crate) fn start(command: Command, speaker: &Speaker) -> FlowStep {
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
        Command::Events(command) => events::start(command),
    }
}
