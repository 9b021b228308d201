//! Which right each request of a ZeroMQ peer needs. The hub checks every request again. But sessions of this door have
//! the right to read, so that a peer gets the replies to its own requests; this file decides what else the peer may
//! read.

use tenure_hub::words::{Command, Query, TaskId};
use tenure_hub::{HubRefusal, Needs, Request, Right, Rights};

use crate::mdp::{Mmi, Notify};

/// What a peer asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Verb<'a> {
    /// A request of a client, and the replies to it.
    Submit,
    /// Notices about its jobs, from now on.
    Notices,
    /// The replies to what was submitted under its identity before its key is known to have used it.
    EarlierReplies,
    Question(&'a Mmi),
    /// Information about other clients' jobs.
    JobsOfOthers,
    /// Cancelling what another client has queued.
    CancelForOthers,
    /// READY, PING, PROCESSES, and results.
    Work,
}

/// Refuses what these rights do not allow.
pub(crate) fn check(rights: Rights, verb: Verb<'_>) -> Result<(), HubRefusal> {
    rights.check(needs(rights, verb))
}

pub(crate) fn allow(rights: Rights, verb: Verb<'_>) -> bool {
    check(rights, verb).is_ok()
}

/// The rights that it needs: where one of two is enough, the one that the peer has.
fn needs(rights: Rights, verb: Verb<'_>) -> Needs {
    match verb {
        Verb::Submit | Verb::Notices => submit(),
        Verb::EarlierReplies | Verb::JobsOfOthers => read(),
        Verb::CancelForOthers => Needs::Right(Right::Manage),
        Verb::Work => Request::Command(Command::Leave).needs(),
        Verb::Question(question) => match question {
            // The reply to a submission also says whether the service has a worker.
            Mmi::Service { .. } if rights.suffice(submit()) => submit(),
            // A client may ask for its own jobs, and learns of others only with the right to read.
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
