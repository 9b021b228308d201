//! Authentication: reads key, namespace and identity from a call's metadata.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tenure_door_kit::{Door, LoginError};
use tenure_hub::words::{Name, Refusal};
use tenure_hub::{ClockReading, Grant, HubHandle, Needs, Principal, Right, Session, TopicAct};
use tonic::Status;
use tonic::codegen::http::HeaderMap;

use crate::flow::Flow;
use crate::translate;

const NAMESPACE_KEY: &str = "tenure-namespace";
const IDENTITY_KEY: &str = "tenure-identity";

/// An authenticated peer.
#[derive(Clone, Debug)]
pub(crate) struct AuthenticatedPeer {
    hub: HubHandle,
    principal: Principal,
    pub(crate) namespace: Name,
    /// The name under which its submissions can be watched.
    identity: Name,
    /// The memory limits of its connection.
    pub(crate) flow: Flow,
}

impl AuthenticatedPeer {
    /// Checks the metadata of a call. A refusal comes with its delay.
    pub(crate) fn enter(
        door: &Door,
        metadata: &HeaderMap,
        flow: Flow,
    ) -> Result<AuthenticatedPeer, (Status, Duration)> {
        let key = bearer(metadata).map_err(at_once)?;
        let login = door.authenticator.login(ClockReading::now(), flow.address, key.map(str::as_bytes));
        let principal = login.map_err(|no| match no {
            LoginError::NoKey => at_once(translate::unauthenticated()),
            LoginError::WrongKey { wait, ends } => {
                if ends {
                    flow.login.end();
                } else {
                    flow.login.hold(wait);
                }
                (translate::unknown_key(), wait)
            }
        })?;
        flow.login.admit();
        let asked = text(metadata, NAMESPACE_KEY).map_err(at_once)?;
        let namespace = principal.grant.namespace_for(asked.map(Into::into));
        let namespace = namespace.and_then(|namespace| {
            door.hub.check_placement(door.name, &namespace)?;
            Ok(namespace)
        });
        let namespace = namespace.map_err(|no| {
            if let Some(audit) = door.hub.audit() {
                audit.refused(&principal, None, "connect", &no);
            }
            at_once(translate::status(&no))
        })?;
        // Most calls stand alone, so an identity invented for each call would be useless.
        let identity = text(metadata, IDENTITY_KEY).map_err(at_once)?;
        let identity = identity.map_or_else(|| principal.grant.name.clone(), Name::from);
        Ok(AuthenticatedPeer { hub: door.hub.clone(), principal, namespace, identity, flow })
    }

    /// Opens the hub session for this peer.
    pub(crate) fn open(&self, hub: &HubHandle) -> Result<Session, Status> {
        hub.open(self.principal.clone(), self.namespace.clone(), self.identity.clone())
            .map_err(|no| translate::status(&no))
    }

    /// Resolves when its key is revoked or grants something else.
    pub(crate) fn revoked(&self, hub: &HubHandle) -> BoxFuture<'static, ()> {
        let (hub, grant) = (hub.clone(), Arc::clone(&self.principal.grant));
        async move { hub.revoked(&grant).await }.boxed()
    }

    pub(crate) fn grant(&self) -> &Arc<Grant> {
        &self.principal.grant
    }

    pub(crate) fn may_submit(&self) -> Result<(), Status> {
        self.check("submit", Needs::Right(Right::Submit))
    }

    pub(crate) fn may_manage(&self) -> Result<(), Status> {
        self.check("manage", Needs::Right(Right::Manage))
    }

    pub(crate) fn may_work(&self) -> Result<(), Status> {
        self.check("work", Needs::Right(Right::Work))
    }

    /// Whether it may do this with topics, which the hub does not check.
    pub(crate) fn may(&self, act: TopicAct) -> Result<(), Status> {
        self.check(act.as_str(), act.needs())
    }

    fn check(&self, act: &'static str, needs: Needs) -> Result<(), Status> {
        self.principal.grant.rights.check(needs).map_err(|no| {
            if let Some(audit) = self.hub.audit() {
                audit.refused(&self.principal, Some(&self.namespace), act, &no);
            }
            translate::status(&no)
        })
    }
}

fn at_once(no: Status) -> (Status, Duration) {
    (no, Duration::ZERO)
}

/// The key, if there is one. The scheme before it is case-insensitive.
fn bearer(metadata: &HeaderMap) -> Result<Option<&str>, Status> {
    let Some(value) = metadata.get("authorization") else { return Ok(None) };
    let value = value.to_str().map_err(|_| translate::no_key())?;
    match value.split_once(' ') {
        Some((scheme, key)) if scheme.eq_ignore_ascii_case("bearer") => Ok(Some(key.trim())),
        _ => Err(translate::no_key()),
    }
}

/// A name in the metadata: visible ASCII, not empty.
fn text<'a>(metadata: &'a HeaderMap, key: &'static str) -> Result<Option<&'a str>, Status> {
    let Some(value) = metadata.get(key) else { return Ok(None) };
    let why = match value.to_str() {
        Err(_) => "contains characters other than visible ASCII",
        Ok("") => "is empty",
        Ok(long) if long.len() > 255 => "is longer than 255 bytes",
        Ok(text) => return Ok(Some(text)),
    };
    Err(translate::status(&Refusal::BadName { what: key, why }))
}
