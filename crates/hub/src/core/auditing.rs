//! The audit log in the core: a line waits in the outbox, like a reply, until what it reports is on disk.

use tenure_engine::{Name, SessionId};

use super::{Core, SessionEntry};
use crate::audit::{Audit, AuditAct, AuditLine, AuditOutcome, Who};
use crate::outbox::OutboxItem;
use crate::refusal::HubRefusal;
use crate::request::{Request, Response};

impl SessionEntry {
    fn who(&self) -> Who {
        Who {
            namespace: Some(self.peer.namespace.clone()),
            identity: Some(self.peer.identity.clone()),
            worker: self.worker.clone(),
            ..Who::of(&self.principal)
        }
    }
}

impl Core {
    /// Sets the audit log.
    pub fn audit_to(&mut self, audit: Audit) {
        self.audit = Some(audit);
    }

    /// The audit entry for a request that the runtime answers later, if there is an audit log.
    pub(crate) fn act(&self, request: &Request) -> Option<AuditAct> {
        self.audit.as_ref().map(|_| AuditAct::of(request))
    }

    /// Replies to such a request.
    pub(crate) fn reply_to_act(
        &mut self,
        session: SessionId,
        token: u64,
        act: Option<AuditAct>,
        reply: Result<Response, HubRefusal>,
    ) {
        let reply = match reply {
            // It counts as unread like every answer to a query.
            Ok(page @ Response::Logs(_)) => self.answer(session, |_| Ok(page)),
            other => other,
        };
        self.note(session, act, &reply);
        self.reply(session, token, reply);
    }

    /// A session has registered a worker: its later acts are logged as that worker's.
    pub(super) fn note_worker(
        &mut self,
        session: SessionId,
        worker: Option<Name>,
        reply: &Result<Response, HubRefusal>,
    ) {
        if let (Some(worker), Ok(_), Some(entry)) = (worker, reply, self.sessions.get_mut(&session)) {
            entry.worker = Some(worker);
        }
    }

    /// The hub ends a session.
    pub(super) fn note_end(&mut self, session: SessionId, why: &HubRefusal) {
        if self.audit.is_some() {
            let who = self.sessions.get(&session).map(SessionEntry::who);
            let line = AuditLine::new(self.now, who, "end-session", AuditOutcome::of(why));
            self.outbox.push(OutboxItem::Audit(Box::new(line)));
        }
    }

    /// Adds a line for a decided act.
    pub(super) fn note(
        &mut self,
        session: SessionId,
        act: Option<AuditAct>,
        reply: &Result<Response, HubRefusal>,
    ) {
        if let Some(line) = self.line(session, act, reply) {
            self.outbox.push(OutboxItem::Audit(line));
        }
    }

    /// Adds a line for a request that was answered without the outbox, because nothing about it waits for the
    /// disk.
    pub(super) fn audit_immediate_reply(
        &self,
        session: SessionId,
        request: &Request,
        reply: &Result<Response, HubRefusal>,
    ) {
        if let Some(line) = self.line(session, self.act(request), reply) {
            self.send_audit_line(line);
        }
    }

    pub(super) fn send_audit_line(&self, line: Box<AuditLine>) {
        if let Some(audit) = &self.audit {
            audit.add_boxed(line);
        }
    }

    fn line(
        &self,
        session: SessionId,
        act: Option<AuditAct>,
        reply: &Result<Response, HubRefusal>,
    ) -> Option<Box<AuditLine>> {
        let (audit, act) = (self.audit.as_ref()?, act?);
        if !act.is_logged(audit.level(), reply) {
            return None;
        }
        let (name, outcome, fields) = act.end(reply);
        let who = self.sessions.get(&session).map(SessionEntry::who);
        let mut line = AuditLine::new(self.now, who, name, outcome);
        line.fields = fields;
        Some(Box::new(line))
    }
}
