//! The sockets: accepts connections, dispatches calls to their service, and stops with the hub.

mod connection;
mod guard;
mod incoming;
mod outgoing;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tenure_door_kit::{Door, DoorSettings};
use tenure_hub::{Counters, HubHandle};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::body::Body;
use tonic::service::Routes;
use tonic::service::interceptor::{InterceptedService, Interceptor};
use tonic::transport::Server;
use tonic::{Request, Status};
use tonic_health::ServingStatus;

use crate::codec::MESSAGE_BYTES_MAX;
use crate::flow::Flow;
use crate::proto::DESCRIPTORS;
use crate::proto::sidecar::sidecar_service_server::SidecarServiceServer;
use crate::proto::tenure::v1::broker_server::BrokerServer;
use crate::proto::tenure::v1::schedules_server::SchedulesServer;
use crate::proto::tenure::v1::tasks_server::TasksServer;
use crate::proto::tenure::v1::topics_server::TopicsServer;
use crate::proto::tenure::v1::workers_server::WorkersServer;
use crate::server::guard::{Guarded, NO_METHOD};
use crate::services::GrpcService;
use crate::settings::Settings;

/// How long calls may continue after the hub has begun to stop, to send what is left.
const GOODBYE: Duration = Duration::from_secs(2);
/// How many bytes of metadata a call may bring.
const METADATA_BYTES_MAX: u32 = 16 << 10;
/// How many unread bytes of a call may be in flight to the broker. Each call of a connection has its own window;
/// otherwise calls that wait for their turn would block those whose turn it is.
const STREAM_WINDOW: u32 = 128 << 10;
const WINDOW_MAX: u32 = i32::MAX as u32;
/// Maximum length of requests to health and reflection, which need no key.
const QUESTION_BYTES_MAX: usize = 16 << 10;

/// Serves gRPC until the hub stops, then waits a moment for the calls to end.
pub async fn serve(listener: TcpListener, hub: HubHandle, settings: Settings) -> io::Result<()> {
    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_serving::<TasksServer<GrpcService>>().await;
    health.set_serving::<WorkersServer<GrpcService>>().await;
    health.set_serving::<BrokerServer<GrpcService>>().await;
    health.set_serving::<SchedulesServer<GrpcService>>().await;
    health.set_serving::<TopicsServer<GrpcService>>().await;
    health.set_serving::<SidecarServiceServer<GrpcService>>().await;
    let health_service = health_service.max_decoding_message_size(QUESTION_BYTES_MAX);
    let counters = Arc::new(Counters::new("grpc"));
    hub.show(Arc::clone(&counters)).await;
    let tls = settings.door.tls.as_ref().map(|tls| tls.with_protocols(&[b"h2"]));
    let for_door = DoorSettings { tls, ..settings.door.clone() };
    let door = Arc::new(Door::new("grpc", hub.clone(), for_door, counters));
    let router = server(&settings).add_routes(with_services(
        Routes::new(for_all(health_service, &door)),
        &door,
        &settings,
    )?);
    // Dropped when this future ends or is aborted.
    let (_open, is_open) = watch::channel(());
    let places = connection::incoming(listener, door, is_open);
    let stopping = hub.clone();
    let serving = router.serve_with_incoming_shutdown(places, async move { stopping.stopped().await });
    let overdue = async {
        hub.stopped().await;
        health.set_service_status("", ServingStatus::NotServing).await;
        tokio::time::sleep(GOODBYE).await;
    };
    tokio::select! {
        served = serving => served.map_err(io::Error::other),
        // A client still watches the health, or does not read.
        () = overdue => Ok(()),
    }
}

fn server(settings: &Settings) -> Server {
    Server::builder()
        .max_concurrent_streams(settings.streams_max)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(STREAM_WINDOW.saturating_mul(settings.streams_max).min(WINDOW_MAX))
        .http2_max_header_list_size(METADATA_BYTES_MAX)
        .http2_keepalive_interval(Some(settings.ping))
        .http2_keepalive_timeout(Some(settings.ping_timeout))
}

fn with_services(routes: Routes, door: &Arc<Door>, settings: &Settings) -> io::Result<Routes> {
    let service = GrpcService {
        hub: door.hub.clone(),
        heartbeat: settings.heartbeat,
        listed_topics_max: settings.listed_topics_max,
    };
    let v1 = reflection().build_v1().map_err(io::Error::other)?;
    let v1alpha = reflection().build_v1alpha().map_err(io::Error::other)?;
    let tasks = TasksServer::new(service.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX);
    let workers = WorkersServer::new(service.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX);
    let broker = BrokerServer::new(service.clone());
    let schedules = SchedulesServer::new(service.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX);
    let topics = TopicsServer::new(service.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX);
    let sidecar = SidecarServiceServer::new(service).max_decoding_message_size(MESSAGE_BYTES_MAX);
    let routes = routes
        .add_service(for_all(v1.max_decoding_message_size(QUESTION_BYTES_MAX), door))
        .add_service(for_all(v1alpha.max_decoding_message_size(QUESTION_BYTES_MAX), door))
        .add_service(Guarded::new(tasks, door))
        .add_service(Guarded::new(workers, door))
        .add_service(Guarded::new(broker, door))
        .add_service(Guarded::new(schedules, door))
        .add_service(Guarded::new(topics, door))
        .add_service(Guarded::for_existing_clients(sidecar, door));
    let unknown = async || Status::unimplemented(NO_METHOD).into_http::<Body>();
    Ok(routes.into_axum_router().fallback(unknown).into())
}

/// A service that needs no key. Its calls are a login only if the broker has no keys.
fn for_all<S>(service: S, door: &Arc<Door>) -> InterceptedService<S, impl Interceptor + Clone + use<S>> {
    let door = Arc::clone(door);
    InterceptedService::new(service, move |call: Request<()>| {
        if !door.authenticator.wants_keys()
            && let Some(flow) = Flow::of(call.extensions())
        {
            flow.login.admit();
        }
        Ok(call)
    })
}

fn reflection() -> tonic_reflection::server::Builder<'static> {
    tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
}
