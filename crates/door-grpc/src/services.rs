//! The services: map each method to a session. They check the rights of the key first.

mod broker;
mod schedules;
mod sidecar;
mod tasks;
mod topics;
mod workers;

use std::pin::Pin;
use std::time::Duration;

use futures::Stream;
use tenure_hub::HubHandle;
use tonic::{Request, Status};

use crate::authentication::AuthenticatedPeer;
use crate::flow::FlowTurn;
use crate::session::GrpcCall;
use crate::translate;

type Reply<T> = Result<tonic::Response<T>, Status>;
pub(crate) type ReplyStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// What all services share.
#[derive(Clone)]
pub(crate) struct GrpcService {
    pub(crate) hub: HubHandle,
    /// A subscriber gets a heartbeat after this much silence.
    pub(crate) heartbeat: Duration,
    /// Maximum number of topics in one reply to `GetTopics`.
    pub(crate) listed_topics_max: usize,
}

impl GrpcService {
    /// Returns the caller, which was authenticated before its message was read. Frees the turn, so that other calls
    /// are read.
    fn enter<T>(&self, request: &mut Request<T>) -> Result<AuthenticatedPeer, Status> {
        request.extensions_mut().remove::<FlowTurn>();
        request.extensions_mut().remove::<AuthenticatedPeer>().ok_or_else(translate::unexpected)
    }

    fn call(&self, peer: &AuthenticatedPeer) -> Result<GrpcCall, Status> {
        Ok(GrpcCall { session: peer.open(&self.hub)?, flow: peer.flow.clone() })
    }

    /// A query: allowed to every authenticated peer.
    fn query_call<T>(&self, request: &mut Request<T>) -> Result<GrpcCall, Status> {
        self.call(&self.enter(request)?)
    }

    /// A call that submits or controls tasks.
    fn control_call<T>(&self, request: &mut Request<T>) -> Result<GrpcCall, Status> {
        let peer = self.enter(request)?;
        peer.may_submit()?;
        self.call(&peer)
    }

    /// A call that manages the broker.
    fn manage<T>(&self, request: &mut Request<T>) -> Result<GrpcCall, Status> {
        let peer = self.enter(request)?;
        peer.may_manage()?;
        self.call(&peer)
    }
}
