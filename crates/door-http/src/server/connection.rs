//! One connection: HTTP/1.1 or HTTP/2, one request after the other or several at once.

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tenure_door_kit::{DoorStream, LoginDeadline, LoginStream};
use tokio::time::{Instant, timeout};

use super::HttpDoor;
use super::request_activity::{ActiveBody, RequestActivity};
use super::stream::WriteTimeoutStream;
use crate::guard;
use crate::memory::ResponseMemory;
use crate::session::SessionPool;

/// How long requests may go on after the hub has begun to stop, or the connection to end, to send what is left.
const GOODBYE: Duration = Duration::from_secs(2);
/// How many bytes the head of a request may have.
const HEAD_BYTES_MAX: usize = 32 << 10;
/// How many header fields a request may have.
const HEADERS_MAX: usize = 100;
/// How many requests of an HTTP/2 connection may be under way at once.
const STREAMS_MAX: u32 = 100;
/// How many unread bytes of a request may be on their way, for each request and for the connection.
const STREAM_WINDOW: u32 = 128 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;
/// How often an HTTP/2 peer is asked for a sign of life, and how long it may take to answer.
const PING: Duration = Duration::from_secs(20);

/// What the requests of one connection share.
#[derive(Debug)]
pub(crate) struct HttpConnection {
    pub(crate) address: Option<IpAddr>,
    /// The time for its first admitted request.
    pub(crate) login: LoginDeadline,
    /// Sessions with the hub that wait for the next request.
    pub(crate) sessions: SessionPool,
    /// What its responses hold.
    pub(crate) memory: ResponseMemory,
}

pub(super) async fn run(door: Arc<HttpDoor>, stream: DoorStream, address: Option<IpAddr>, login_by: Instant) {
    let login = LoginDeadline::by(login_by);
    let stream = LoginStream::new(stream, login.clone());
    let stream = WriteTimeoutStream::new(stream, door.settings.door.read_within);
    let memory = ResponseMemory::new(&door.settings.door.budget);
    let connection = Arc::new(HttpConnection { address, login, sessions: SessionPool::default(), memory });
    let activity = RequestActivity::new();
    let service = service_fn({
        let (door, activity) = (Arc::clone(&door), activity.clone());
        move |request| answer(Arc::clone(&door), Arc::clone(&connection), activity.clone(), request)
    });
    let builder = builder(&door);
    let mut serving = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let served = tokio::select! {
        served = serving.as_mut() => Some(served),
        () = door.hub.stopped() => None,
        () = activity.none_for(door.settings.idle) => None,
    };
    let served = match served {
        Some(served) => served,
        None => {
            serving.as_mut().graceful_shutdown();
            timeout(GOODBYE, serving).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = served {
        door.door.counters.count("broken");
        tracing::debug!(door = "http", %error, "a connection broke");
    }
}

fn builder(door: &HttpDoor) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(door.settings.idle)
        .max_headers(HEADERS_MAX)
        // Answers to pipelined requests are not gathered: there would be no limit to what the server copies for them.
        .max_buf_size(HEAD_BYTES_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(HEAD_BYTES_MAX as u32)
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING);
    builder
}

/// A request always has an answer, so the library never sees an error.
async fn answer(
    door: Arc<HttpDoor>,
    connection: Arc<HttpConnection>,
    activity: RequestActivity,
    request: Request<Incoming>,
) -> Result<Response<ActiveBody>, Infallible> {
    let open = activity.begin();
    Ok(guard::answer(door, connection, request).await.map(|body| open.answered(body)))
}
