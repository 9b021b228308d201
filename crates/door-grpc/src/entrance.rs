//! Who comes in: the key, the namespace and the name that a call's metadata show.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tenure_hub::words::{Name, Refusal};
use tenure_hub::{Grant, HubHandle, Needs, Principal, Right, Session, TopicAct};
use tonic::Status;
use tonic::codegen::http::HeaderMap;

use crate::flow::Flow;
use crate::translate;

const NAMESPACE_KEY: &str = "tenure-namespace";
const IDENTITY_KEY: &str = "tenure-identity";

/// A peer that was let in.
#[derive(Clone, Debug)]
pub(crate) struct Visitor {
    pub(crate) grant: Arc<Grant>,
    pub(crate) namespace: Name,
    /// The name under which its submissions can be watched.
    identity: Name,
    /// What its connection may make the broker hold.
    pub(crate) flow: Flow,
}

impl Visitor {
    /// Looks at the metadata of a call.
    pub(crate) fn enter(hub: &HubHandle, metadata: &HeaderMap, flow: Flow) -> Result<Visitor, Status> {
        let key = bearer(metadata)?;
        let no = if key.is_some() { translate::unknown_key } else { translate::stranger };
        let grant = hub.admit(key.map(str::as_bytes)).ok_or_else(no)?;
        let asked = text(metadata, NAMESPACE_KEY)?;
        let namespace = grant.namespace_for(asked.map(Into::into)).map_err(|no| translate::status(&no))?;
        // Most calls are alone, so a name that is made up for each would be a name for nobody.
        let identity = text(metadata, IDENTITY_KEY)?.map_or_else(|| grant.name.clone(), Name::from);
        Ok(Visitor { grant, namespace, identity, flow })
    }

    /// Begins the hub's session for this peer.
    pub(crate) fn open(&self, hub: &HubHandle) -> Result<Session, Status> {
        let principal = Principal { grant: Arc::clone(&self.grant), door: "grpc", address: None };
        hub.open(principal, self.namespace.clone(), self.identity.clone())
            .map_err(|no| translate::status(&no))
    }

    /// Ready when its key is revoked or grants something else.
    pub(crate) fn revoked(&self, hub: &HubHandle) -> BoxFuture<'static, ()> {
        let (hub, grant) = (hub.clone(), Arc::clone(&self.grant));
        async move { hub.revoked(&grant).await }.boxed()
    }

    pub(crate) fn may_submit(&self) -> Result<(), Status> {
        self.check(Needs::Right(Right::Submit))
    }

    pub(crate) fn may_manage(&self) -> Result<(), Status> {
        self.check(Needs::Right(Right::Manage))
    }

    pub(crate) fn may_publish(&self) -> Result<(), Status> {
        self.check(TopicAct::Publish.needs())
    }

    pub(crate) fn may_work(&self) -> Result<(), Status> {
        self.check(Needs::Right(Right::Work))
    }

    fn check(&self, needs: Needs) -> Result<(), Status> {
        self.grant.rights.check(needs).map_err(|no| translate::status(&no))
    }
}

/// The key, if one is shown. The word before it may be written in any case.
fn bearer(metadata: &HeaderMap) -> Result<Option<&str>, Status> {
    let Some(value) = metadata.get("authorization") else { return Ok(None) };
    let value = value.to_str().map_err(|_| translate::no_key())?;
    match value.split_once(' ') {
        Some((scheme, key)) if scheme.eq_ignore_ascii_case("bearer") => Ok(Some(key.trim())),
        _ => Err(translate::no_key()),
    }
}

/// A name in the metadata. They are text of visible ASCII characters, and not empty.
fn text<'a>(metadata: &'a HeaderMap, key: &'static str) -> Result<Option<&'a str>, Status> {
    let Some(value) = metadata.get(key) else { return Ok(None) };
    let why = match value.to_str() {
        Err(_) => "holds other than visible ASCII characters",
        Ok("") => "is empty",
        Ok(long) if long.len() > 255 => "is longer than 255 bytes",
        Ok(text) => return Ok(Some(text)),
    };
    Err(translate::status(&Refusal::BadName { what: key, why }))
}
