//! Which right each thing needs that a ZeroMQ peer can ask for. The hub checks every request again; but a session of this
//! door may read, so that its peer gets the replies to its own requests, and what else it may read is decided here.

use tenure_hub::words::{Command, Query, Refusal, TaskId};
use tenure_hub::{Needs, Request, Right, Rights};

use crate::mdp::{Mmi, Notify};

/// What a peer asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Verb<'a> {
    /// A request of a client, and the replies to it.
    Submit,
    /// To be told what becomes of its jobs, from now on.
    Notices,
    /// The replies to what was submitted under its identity before it is known to have used it.
    EarlierReplies,
    Question(&'a Mmi),
    /// To be told of jobs that are not its own.
    JobsOfOthers,
    /// To cancel what another client has queued.
    CancelForOthers,
    /// READY, PING, PROCESSES, and results.
    Work,
}

/// Refuses what these rights do not allow.
pub(crate) fn check(rights: Rights, verb: Verb<'_>) -> Result<(), Refusal> {
    rights.check(needs(rights, verb))
}

pub(crate) fn allow(rights: Rights, verb: Verb<'_>) -> bool {
    check(rights, verb).is_ok()
}

/// What it needs, of a peer with these rights: where one of two is enough, the one that it has.
fn needs(rights: Rights, verb: Verb<'_>) -> Needs {
    match verb {
        Verb::Submit | Verb::Notices => submit(),
        Verb::EarlierReplies | Verb::JobsOfOthers => read(),
        Verb::CancelForOthers => Needs::Right(Right::Manage),
        Verb::Work => Request::Command(Command::Leave).needs(),
        Verb::Question(question) => match question {
            // The answer to a submission says whether the service has a worker.
            Mmi::Service { .. } if rights.suffice(submit()) => submit(),
            // A client may ask for its own jobs, and is told of no others unless it may read.
            Mmi::Job { .. } if rights.suffice(submit()) => submit(),
            Mmi::Service { .. } | Mmi::Job { .. } => read(),
            Mmi::List { .. } | Mmi::ListServices | Mmi::Workers | Mmi::Health => read(),
            Mmi::Status | Mmi::Notify(Notify::On { after: None } | Notify::Off) => submit(),
            Mmi::Notify(Notify::On { after: Some(_) } | Notify::After(_)) => read(),
            Mmi::Cancel { .. } => {
                Request::Command(Command::Cancel { task: TaskId([0; 16]), reason: None }).needs()
            }
            Mmi::Malformed | Mmi::Unknown => Needs::Nothing,
        },
    }
}

fn submit() -> Needs {
    Request::Submit(Vec::new()).needs()
}

fn read() -> Needs {
    Request::Query(Query::Workers).needs()
}
