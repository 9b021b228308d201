//! Which worker a connection may act as.

use tenure_hub::{Ask, Right};

use super::{RespAuthenticator, Session, SessionOutput};
use crate::codec::Reply;
use crate::command::{Command, ViewCommand, WorkerCommand};
use crate::key::RespKey;
use crate::translate::refusal;

impl Session {
    /// A worker id may have its own key; then no other key may act as that worker. A key that manages workers may
    /// remove any.
    pub(super) fn refuse_foreign_key(
        &self,
        authenticator: &dyn RespAuthenticator,
        command: &Command,
        out: &mut SessionOutput,
    ) -> Option<Reply> {
        let grant = self.identity.grant.as_ref()?;
        let named = match command {
            Command::Worker(WorkerCommand::Register(registration)) => &registration.worker,
            Command::Worker(WorkerCommand::Unregister { .. })
                if grant.worker.is_none() && grant.rights.contains(Right::Manage) =>
            {
                return None;
            }
            Command::Worker(
                WorkerCommand::Heartbeat { worker, .. } | WorkerCommand::Unregister { worker },
            ) => worker,
            Command::View(ViewCommand::Set { key: RespKey::Worker { id, .. }, .. }) => id,
            _ => return None,
        };
        let reason = authenticator.may_work_as(grant, named).err()?;
        out.asks.push(Ask::refused(command.subject(), &reason));
        Some(match &grant.worker {
            Some(bound) => Reply::error(format!("ERR This key belongs to worker {bound}")),
            None => refusal(&reason),
        })
    }

    /// Whether its key allows it to work.
    pub(super) fn may_work(&self) -> bool {
        self.identity.grant.as_ref().is_some_and(|grant| grant.rights.contains(Right::Work))
    }

    /// Whether this connection may act as that worker.
    pub(super) fn may_speak_as(&self, authenticator: &dyn RespAuthenticator, worker: &str) -> bool {
        self.identity.grant.as_ref().is_some_and(|grant| {
            grant.rights.contains(Right::Work) && authenticator.may_work_as(grant, worker).is_ok()
        })
    }
}
