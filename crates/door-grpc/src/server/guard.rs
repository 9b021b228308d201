//! Authenticates calls by their metadata alone: nothing of an untrusted peer's message is read. The message of an
//! admitted call is read when it is its turn on its connection.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tenure_door_kit::{Door, LoginDeadline};
use tonic::body::Body;
use tonic::codegen::http::{HeaderValue, Request, Response};
use tonic::codegen::{BoxFuture, Service};
use tonic::server::NamedService;
use tonic::{Code, Status};

use crate::authentication::AuthenticatedPeer;
use crate::flow::{Flow, FlowPermit};
use crate::server::incoming::Incoming;
use crate::server::outgoing::Outgoing;

/// The error for an unknown method.
pub(super) const NO_METHOD: &str = "this broker has no such service or method";

/// A service behind authentication.
#[derive(Clone)]
pub(super) struct Guarded<S> {
    service: S,
    door: Arc<Door>,
    /// The status code for an unauthenticated call.
    unauthenticated: Code,
}

impl<S> Guarded<S> {
    pub(super) fn new(service: S, door: &Arc<Door>) -> Guarded<S> {
        Guarded { service, door: Arc::clone(door), unauthenticated: Code::Unauthenticated }
    }

    /// Existing clients give up at `PERMISSION_DENIED` and retry on every code they do not know.
    pub(super) fn for_existing_clients(service: S, door: &Arc<Door>) -> Guarded<S> {
        Guarded { unauthenticated: Code::PermissionDenied, ..Guarded::new(service, door) }
    }

    /// Admits a call, or refuses it, after a delay if its peer has sent too many wrong keys.
    fn enter(&self, request: &mut Request<Body>) -> Result<Flow, (Status, Duration)> {
        let flow = Flow::of(request.extensions()).unwrap_or_else(|| {
            let settings = &self.door.settings;
            Flow::new(None, LoginDeadline::new(settings.login_within), settings)
        });
        let peer = AuthenticatedPeer::enter(&self.door, request.headers(), flow.clone())
            .map_err(|(no, wait)| (self.log_refusal(no), wait))?;
        request.extensions_mut().insert(peer);
        Ok(flow)
    }

    fn log_refusal(&self, no: Status) -> Status {
        if no.code() != Code::Unauthenticated {
            return no;
        }
        let details = bytes::Bytes::copy_from_slice(no.details());
        Status::with_details_and_metadata(self.unauthenticated, no.message(), details, no.metadata().clone())
    }
}

impl<S: NamedService> NamedService for Guarded<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for Guarded<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Response<Body>, Infallible>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let flow = match self.enter(&mut request) {
            Ok(flow) => flow,
            Err((no, wait)) => {
                return Box::pin(async move {
                    tokio::time::sleep(wait).await;
                    Ok(no.into_http())
                });
            }
        };
        let mut service = self.service.clone();
        let door = Arc::clone(&self.door);
        Box::pin(async move {
            request.extensions_mut().insert(flow.turn().await);
            let request = request.map(|body| Body::new(Incoming::new(body, &door)));
            service.call(request).await.map(named).map(with_flow_permit)
        })
    }
}

/// Attaches the reserved room to a reply, which holds it from here on.
fn with_flow_permit(mut answer: Response<Body>) -> Response<Body> {
    match answer.extensions_mut().remove::<FlowPermit>() {
        Some(room) => answer.map(|body| Body::new(Outgoing::new(body, room))),
        None => answer,
    }
}

/// Generated code answers an unknown method, and leaves the message out.
fn named(mut answer: Response<Body>) -> Response<Body> {
    let status = answer.headers().get(Status::GRPC_STATUS);
    if status.is_some_and(|status| *status == (Code::Unimplemented as i32).to_string().as_str()) {
        let message = HeaderValue::from_static(NO_METHOD);
        answer.headers_mut().entry(Status::GRPC_MESSAGE).or_insert(message);
    }
    answer
}
