//! A bare tonic server: what is published is broadcast to all subscribers, and nothing else is promised.

use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll};

use futures::stream::BoxStream;
use futures::{StreamExt as _, stream};
use tenure_door_grpc::proto::sidecar as pb;
use tokio::net::TcpListener;
use tokio::sync::broadcast;
use tonic::codegen::{Service, http};
use tonic::server::{Grpc, NamedService, ServerStreamingService, UnaryService};
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

/// How many messages it keeps for subscribers that lag.
const KEPT: usize = 16_384;

pub(crate) async fn start() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let bare = Bare { messages: broadcast::channel(KEPT).0, number: Arc::default() };
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    tokio::spawn(tonic::transport::Server::builder().add_service(bare).serve_with_incoming(incoming));
    address
}

#[derive(Clone)]
struct Bare {
    messages: broadcast::Sender<pb::MessageEvent>,
    number: Arc<AtomicI64>,
}

impl NamedService for Bare {
    const NAME: &'static str = "nexusd.sidecar.SidecarService";
}

impl Service<http::Request<tonic::body::Body>> for Bare {
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        let bare = self.clone();
        Box::pin(async move {
            if request.uri().path().ends_with("/Publish") {
                let codec = ProstCodec::<pb::PublishResponse, pb::PublishRequest>::default();
                return Ok(Grpc::new(codec).unary(bare, request).await);
            }
            let codec = ProstCodec::<pb::MessageEvent, pb::SubscribeRequest>::default();
            Ok(Grpc::new(codec).server_streaming(bare, request).await)
        })
    }
}

impl UnaryService<pb::PublishRequest> for Bare {
    type Response = pb::PublishResponse;
    type Future = Ready<Result<Response<pb::PublishResponse>, Status>>;

    fn call(&mut self, request: Request<pb::PublishRequest>) -> Self::Future {
        let request = request.into_inner();
        let sequence_number = self.number.fetch_add(1, Ordering::Relaxed);
        let message = pb::Message {
            message_id: uuid::Uuid::now_v7().to_string(),
            topic: request.topic,
            payload: request.payload,
            timestamp_ms: sequence_number,
            sequence_number,
            ..pb::Message::default()
        };
        let event = pb::message_event::Event::Message(message);
        let heard = self.messages.send(pb::MessageEvent { event: Some(event) }).unwrap_or(0);
        let subscriber_count = heard as i32;
        ready(Ok(Response::new(pb::PublishResponse {
            success: true,
            subscriber_count,
            sequence_number,
            ..pb::PublishResponse::default()
        })))
    }
}

impl ServerStreamingService<pb::SubscribeRequest> for Bare {
    type Response = pb::MessageEvent;
    type ResponseStream = BoxStream<'static, Result<pb::MessageEvent, Status>>;
    type Future = Ready<Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, _: Request<pb::SubscribeRequest>) -> Self::Future {
        let messages = self.messages.subscribe();
        let stream = stream::unfold(messages, |mut messages| async move {
            let event = messages.recv().await.expect("no subscriber lags behind the window");
            Some((Ok(event), messages))
        });
        ready(Ok(Response::new(stream.boxed())))
    }
}
