//! Requests to the hub that are not answered yet, and their purpose.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use tenure_hub::words::{Command, Reply, TaskId};
use tenure_hub::{Ask, HubRefusal, Request, Response};

use super::{ActorOutput, Caller, Dialect, WorkerActor};

/// The purpose of an unanswered request.
#[derive(Clone, Copy, Debug)]
pub(super) enum PendingRequest<D: Dialect> {
    /// Which tasks the hub counts as held by the worker.
    ListClaims,
    /// The saved outputs of one of these.
    Outputs {
        task: TaskId,
    },
    /// Whether the hub counts it as alive.
    Liveness,
    Join {
        caller: Option<Caller>,
    },
    Beat {
        caller: Option<Caller>,
    },
    Leave {
        caller: Caller,
    },
    /// A task for a pull that waits.
    Ask,
    /// Marks that the hub has sent everything that was available.
    Probe,
    Report {
        caller: Option<Caller>,
        task: TaskId,
        ends: bool,
    },
    Own(D::Pending),
    /// No caller waits for the answer.
    Nothing,
}

#[derive(Debug)]
pub(super) struct PendingRequests<D: Dialect> {
    pending: HashMap<u64, PendingRequest<D>, RandomState>,
    last_token: u64,
}

impl<D: Dialect> Default for PendingRequests<D> {
    fn default() -> Self {
        PendingRequests { pending: HashMap::default(), last_token: 0 }
    }
}

impl<D: Dialect> PendingRequests<D> {
    /// Returns the number of the next request.
    pub(super) fn expect(&mut self, pending: PendingRequest<D>) -> u64 {
        self.last_token += 1;
        self.pending.insert(self.last_token, pending);
        self.last_token
    }

    pub(super) fn take(&mut self, token: u64) -> Option<PendingRequest<D>> {
        self.pending.remove(&token)
    }

    pub(super) fn any(&self, is_it: impl Fn(&PendingRequest<D>) -> bool) -> bool {
        self.pending.values().any(is_it)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.pending.clear();
    }
}

impl<D: Dialect> WorkerActor<D> {
    /// A request of the door; the answer comes to [`Dialect::answered`].
    pub fn request(&mut self, request: Request, pending: D::Pending, out: &mut ActorOutput<D>) {
        self.ask(request, PendingRequest::Own(pending), out);
    }

    /// A command of the door whose reply it ignores.
    pub fn send_without_reply(&mut self, command: Command, out: &mut ActorOutput<D>) {
        self.command(command, PendingRequest::Nothing, out);
    }

    pub(super) fn ask(
        &mut self,
        request: Request,
        pending: PendingRequest<D>,
        out: &mut ActorOutput<D>,
    ) -> u64 {
        let token = self.requests.expect(pending);
        out.asks.push(Ask { token, request });
        token
    }

    pub(super) fn command(
        &mut self,
        command: Command,
        pending: PendingRequest<D>,
        out: &mut ActorOutput<D>,
    ) -> u64 {
        self.ask(Request::Command(command), pending, out)
    }
}

/// Some replies carry a refusal for one of several items. For a request with one item, that refusal is the reply.
pub fn refused(reply: Result<Response, HubRefusal>) -> Result<Response, HubRefusal> {
    let response = reply?;
    let refusal = match &response {
        Response::Command(Reply::Held(each)) => each.iter().find_map(|held| held.as_ref().err()),
        Response::Command(Reply::Submitted(each)) => each.iter().find_map(|task| task.as_ref().err()),
        _ => None,
    };
    match refusal {
        Some(refusal) => Err(refusal.clone().into()),
        None => Ok(response),
    }
}
