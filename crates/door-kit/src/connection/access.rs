//! The connection's session with the hub, once it has one.

use std::future::{Future, pending};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use tenure_hub::topics::Topics;
use tenure_hub::words::{Name, SessionId};
use tenure_hub::{ClockReading, Grant, HubRefusal, Principal};

use super::ConnectionAccess;
use crate::accept::Door;
use crate::authenticator::LoginError;
use crate::stream::StreamEnds;

pub(super) struct DoorAccess {
    pub(super) door: Arc<Door>,
    address: Option<IpAddr>,
    pub(super) ends: Option<StreamEnds>,
    /// What the peer's key allows, once it has authenticated.
    grant: Option<Arc<Grant>>,
    has_new_grant: bool,
    pub(super) session: Option<tenure_hub::Session>,
}

impl DoorAccess {
    pub(super) fn new(door: Arc<Door>, address: Option<IpAddr>) -> DoorAccess {
        DoorAccess { door, address, ends: None, grant: None, has_new_grant: false, session: None }
    }

    pub(super) async fn mail_arrived(&self) {
        match &self.session {
            Some(session) => session.mailbox().arrived().await,
            None => pending().await,
        }
    }

    /// Whether the peer has authenticated since the last call.
    pub(super) fn takes_new_grant(&mut self) -> bool {
        std::mem::take(&mut self.has_new_grant)
    }

    /// Waits until a peer without a mailbox has to go. Created once for many rounds of the loop.
    pub(super) fn wait_for_disconnect(
        &self,
    ) -> Pin<Box<dyn Future<Output = DisconnectReason> + Send + 'static>> {
        let (hub, grant) = (self.door.hub.clone(), self.grant.clone());
        Box::pin(async move {
            let revoked = async {
                match &grant {
                    Some(grant) => hub.revoked(grant).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                () = hub.stopped() => DisconnectReason::Stopped,
                () = revoked => DisconnectReason::Revoked,
            }
        })
    }
}

/// Why a peer has to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DisconnectReason {
    /// The broker stops.
    Stopped,
    /// Its key was removed, or now grants something else.
    Revoked,
}

impl ConnectionAccess for DoorAccess {
    fn wants_keys(&self) -> bool {
        self.door.authenticator.wants_keys()
    }

    fn login(&mut self, now: ClockReading, key: Option<&[u8]>) -> Result<Principal, LoginError> {
        let principal = self.door.authenticator.login(now, self.address, key)?;
        self.grant = Some(Arc::clone(&principal.grant));
        self.has_new_grant = true;
        Ok(principal)
    }

    fn open(
        &mut self,
        principal: Principal,
        namespace: Name,
        identity: Name,
    ) -> Result<SessionId, HubRefusal> {
        let session = self.door.hub.open(principal, namespace, identity)?;
        let id = session.id();
        self.session = Some(session);
        Ok(id)
    }

    fn may_work_as(&self, grant: &Grant, worker: &str) -> Result<(), HubRefusal> {
        self.door.hub.may_work_as(grant, worker)
    }

    fn check_placement(&self, namespace: &Name) -> Result<(), HubRefusal> {
        self.door.hub.check_placement(self.door.name, namespace)
    }

    fn topics(&self) -> Topics {
        self.door.hub.topics().clone()
    }

    fn ends(&self) -> Option<StreamEnds> {
        self.ends
    }

    fn note_refusal(&self, principal: &Principal, act: &'static str, no: &HubRefusal) {
        if let Some(audit) = self.door.hub.audit() {
            audit.refused(principal, None, act, no);
        }
    }
}
