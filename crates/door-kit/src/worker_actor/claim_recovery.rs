//! What a worker held before it or the broker was away, and what it reports about that.

use bytes::Bytes;
use tenure_hub::words::{Answer as HubAnswer, ListQuery, Query, StateName};
use tenure_hub::{HubRefusal, Request, Response};

use super::arrival::held_by;
use super::claims::{Claim, ClaimMap, checkpoint_of};
use super::requests::PendingRequest;
use super::{ActorOutput, ActorState, Dialect, Introduction, TaskOutputs as _, WorkerActor};

/// How many old claims one query asks for.
const PAGE: usize = 1000;

#[derive(Debug)]
pub(super) struct ClaimRecovery<D: Dialect> {
    /// What it held before it was away, until the hub has answered what is left of it.
    before: ClaimMap<D>,
    pub(super) prior_tasks: PriorTasks,
    /// Its list is complete: a task that it does not name is gone.
    pub(super) names_all: bool,
    /// It continues a task from before, and the hub does not know yet.
    pub(super) has_returned: bool,
}

impl<D: Dialect> Default for ClaimRecovery<D> {
    fn default() -> Self {
        ClaimRecovery {
            before: ClaimMap::default(),
            prior_tasks: PriorTasks::Unknown,
            names_all: false,
            has_returned: false,
        }
    }
}

/// What a registration says about the tasks that the worker had before.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum PriorTasks {
    /// Nothing: it may be the same process or another one.
    #[default]
    Unknown,
    /// It is the same process.
    All,
    Named(Vec<String>),
}

impl PriorTasks {
    pub(super) fn from_introduction(introduction: &Introduction, before: Option<&String>) -> PriorTasks {
        if let Some(tasks) = &introduction.holds {
            return PriorTasks::Named(tasks.clone());
        }
        match (&introduction.instance, before) {
            (Some(now), Some(before)) if now == before => PriorTasks::All,
            (Some(_), Some(_)) => PriorTasks::Named(Vec::new()),
            (None, _) | (_, None) => PriorTasks::Unknown,
        }
    }
}

impl<D: Dialect> WorkerActor<D> {
    /// Asks the hub what this worker held before.
    pub(super) fn begin_claim_recovery(&mut self, out: &mut ActorOutput<D>) {
        self.recovery.before = self.claims.take();
        self.ask_for_claims(self.claims_query(), out);
    }

    fn claims_query(&self) -> ListQuery {
        held_by(&self.presence.name, &[StateName::Assigned, StateName::Running], PAGE)
    }

    fn ask_for_claims(&mut self, query: ListQuery, out: &mut ActorOutput<D>) {
        self.ask(Request::Query(Query::List(Box::new(query))), PendingRequest::ListClaims, out);
    }

    pub(super) fn claims_listed(&mut self, reply: Result<Response, HubRefusal>, out: &mut ActorOutput<D>) {
        if let Ok(Response::Answer(HubAnswer::Tasks { tasks, next })) = reply {
            for task in tasks {
                let mut claim = Claim::recovered(&task, self.liveness.clock);
                let before = self.recovery.before.remove(&task.id).filter(|before| before.held == claim.held);
                claim.list = before.and_then(|before| before.list);
                if let Some(blob) = checkpoint_of(&task) {
                    let token = self.requests.expect(PendingRequest::Outputs { task: task.id });
                    out.reads.push((token, blob));
                }
                self.claims.insert(claim);
            }
            if next.is_some() {
                let more = ListQuery { cursor: next, ..self.claims_query() };
                return self.ask_for_claims(more, out);
            }
        }
        self.register_when_fetched(out);
    }

    /// The fetched bytes: what a task of the worker had saved before the interruption.
    pub fn has_read(&mut self, token: u64, bytes: Result<Bytes, HubRefusal>, out: &mut ActorOutput<D>) {
        let Some(PendingRequest::Outputs { task }) = self.requests.take(token) else { return };
        let outputs = bytes.ok().and_then(|bytes| D::Outputs::from_checkpoint(&bytes));
        if let (Some(claim), Some(outputs)) = (self.claims.get_mut(task), outputs) {
            claim.outputs = outputs;
        }
        self.register_when_fetched(out);
    }

    fn register_when_fetched(&mut self, out: &mut ActorOutput<D>) {
        let is_missing = |pending: &PendingRequest<D>| {
            matches!(pending, PendingRequest::ListClaims | PendingRequest::Outputs { .. })
        };
        if self.presence.state == ActorState::Joining && !self.requests.any(is_missing) {
            self.recovery.before.clear();
            self.apply_prior_tasks(out);
            self.register_with_hub(None, out);
        }
    }

    /// Applies what the worker said about the tasks it had before.
    pub(super) fn apply_prior_tasks(&mut self, out: &mut ActorOutput<D>) {
        match std::mem::take(&mut self.recovery.prior_tasks) {
            PriorTasks::Unknown => {}
            PriorTasks::All => {
                let started = self.claims.iter_mut().filter(|claim| claim.evidence.started);
                started.for_each(|claim| claim.evidence.known = true);
            }
            PriorTasks::Named(tasks) => {
                let is_named = |claim: &Claim<D>| tasks.iter().any(|task| claim.has_id(task));
                if self.presence.is_active() {
                    // It may not have read a task that it has just received.
                    self.forget_claims(|claim| !is_named(claim) && !claim.evidence.is_new(), out);
                } else {
                    // The registration reports it to the hub.
                    self.claims.retain(is_named);
                    self.recovery.names_all = true;
                }
                for claim in self.claims.iter_mut().filter(|claim| is_named(claim)) {
                    (claim.evidence.started, claim.evidence.known) = (true, true);
                }
            }
        }
    }
}
