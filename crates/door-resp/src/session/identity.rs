//! The identity of a connection: its key, its namespace and its worker.

use std::sync::Arc;

use tenure_hub::Grant;
use tenure_hub::words::{DEFAULT_NAMESPACE, Name, Timestamp};

use crate::command::{Command, JobCommand, ViewCommand, WorkerCommand};
use crate::key::RespKey;

/// Maximum number of workers that one connection may ping for.
pub(super) const PINGED_MAX: usize = 64;

#[derive(Debug)]
pub(super) struct SessionIdentity {
    /// The name of the connection, and of its worker if that has none.
    pub(super) unnamed: Name,
    /// What it may do; none before it has authenticated.
    pub(super) grant: Option<Arc<Grant>>,
    /// Where its tasks live.
    pub(super) namespace: Name,
    /// The worker of this connection, and the one that a ping named.
    pub(super) worker: Option<Name>,
    pub(super) hinted: Option<Name>,
    /// It named its worker itself, with a ping, a registration or its tools.
    pub(super) introduced: bool,
    /// The workers that were pinged here.
    pinged: Vec<Name>,
    /// It registers, or asks for jobs by their ids.
    reads_ids: bool,
    /// When its worker actor last got a sign of life.
    pub(super) showed_life: Timestamp,
}

impl SessionIdentity {
    pub(super) fn new(unnamed: Name, grant: Option<Arc<Grant>>) -> Self {
        Self {
            unnamed,
            grant,
            namespace: DEFAULT_NAMESPACE.into(),
            worker: None,
            hinted: None,
            introduced: false,
            pinged: Vec::new(),
            reads_ids: false,
            showed_life: Timestamp::ZERO,
        }
    }

    /// Records what a command tells about the generation of the worker.
    pub(super) fn note(&mut self, command: &Command) {
        self.reads_ids |= matches!(
            command,
            Command::Worker(WorkerCommand::Register(_))
                | Command::Job(JobCommand::Get { .. } | JobCommand::Update { .. })
                | Command::View(ViewCommand::Get(RespKey::Job { .. }))
        );
    }

    /// Whether it may be a worker of the generation that only reads whole jobs.
    pub(super) fn may_read_jobs_only(&self) -> bool {
        !self.pinged.is_empty() && !self.reads_ids
    }

    /// Whether one more worker may be pinged here.
    pub(super) fn pings_as(&mut self, worker: &Name) -> bool {
        if self.pinged.contains(worker) {
            return true;
        }
        let fits = self.pinged.len() < PINGED_MAX;
        if fits {
            self.pinged.push(worker.clone());
        }
        fits
    }

    /// The rights determine its name and its namespace.
    pub(super) fn set_grant(&mut self, grant: Option<Arc<Grant>>) {
        let granted = |of: fn(&Grant) -> Option<Name>| grant.as_deref().and_then(of);
        self.worker = granted(|grant| grant.worker.clone());
        self.namespace = granted(|grant| grant.namespace.clone()).unwrap_or_else(|| DEFAULT_NAMESPACE.into());
        self.grant = grant;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_says_who_speaks_and_where_until_it_is_taken_back() {
        let mut identity = SessionIdentity::new("resp.1".into(), None);
        let grant = Grant { worker: Some("w".into()), namespace: Some("n".into()), ..Grant::everything() };
        identity.set_grant(Some(Arc::new(grant)));
        assert_eq!((identity.worker.as_deref(), &*identity.namespace), (Some("w"), "n"));
        identity.set_grant(None);
        assert_eq!((identity.worker.as_deref(), &*identity.namespace), (None, DEFAULT_NAMESPACE));
    }
}
