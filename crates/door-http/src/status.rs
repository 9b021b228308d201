//! The door of a broker that does not serve: while it recovers, while it stands by for the leader of its group, and while
//! it drains.
//!
//! There is no hub then, or none that takes requests. `/healthz`, `/readyz` and `/metrics` say how this broker is. While it recovers, it
//! refuses every other request with 503 and `Retry-After`; a standby forwards the request to the leader instead.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::header::{CACHE_CONTROL, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Request, Response, StatusCode};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use tenure_door_kit::forward::StandbyDoor;
use tenure_door_kit::{DoorStream, Tls};
use tenure_hub::Keys;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use crate::authentication::bearer;
use crate::dashboard;
use crate::guard::check_host;
use crate::problem::{NO_KEY, ProblemDetails};
use crate::reply::{self, HttpBody, HttpResult};

/// How many connections are answered at once. Others wait.
const CONNECTIONS_MAX: usize = 64;
/// How long a peer may take for its request and the answer.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);
/// What a browser does after this many seconds.
const REFRESH: (HeaderName, HeaderValue) =
    (HeaderName::from_static("refresh"), HeaderValue::from_static("2"));
/// The first line of a request that a standby answers itself is not longer.
const FIRST_BYTES_MAX: usize = 64;
/// The requests that a standby answers itself.
const STATUS_METHODS: [&str; 2] = ["GET ", "HEAD "];
const STATUS_PATHS: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

/// How a broker without a hub is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BrokerStatus {
    /// It reads its journal.
    Recovering,
    /// Another member of its group leads.
    Standby(StandbyStatus),
    /// It stops, and finishes what is under way.
    Draining,
}

/// A member of a group that does not lead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StandbyStatus {
    /// The group.
    pub group: String,
    /// This member.
    pub name: String,
    /// Who leads, if the member knows it.
    pub leader: Option<String>,
    /// The number of the last leadership.
    pub epoch: u64,
    /// Where the copy of the journal ends.
    pub position: u64,
    /// How many bytes of the journal are not copied yet.
    pub lag_bytes: u64,
    /// The replicated journal cannot be followed now.
    pub is_cut_off: bool,
}

/// Answers for a broker that has no hub.
#[derive(Clone)]
pub struct StatusDoor {
    shared: Arc<Shared>,
}

struct Shared {
    status: watch::Receiver<BrokerStatus>,
    hosts: Vec<String>,
    keys: watch::Receiver<Keys>,
    tls: Option<Tls>,
    places: Arc<Semaphore>,
}

impl std::fmt::Debug for StatusDoor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StatusDoor").field("status", &*self.shared.status.borrow()).finish_non_exhaustive()
    }
}

impl StatusDoor {
    /// A door with the settings of the one that serves later. Its keys may change.
    pub fn new(
        status: watch::Receiver<BrokerStatus>,
        settings: &crate::Settings,
        keys: watch::Receiver<Keys>,
    ) -> StatusDoor {
        let tls = settings.door.tls.as_ref().map(|tls| tls.with_protocols(&[b"http/1.1"]));
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        StatusDoor { shared: Arc::new(Shared { status, hosts: settings.hosts.clone(), keys, tls, places }) }
    }

    /// Answers every connection until `stopped`. Connections that come after that wait for the next door on the socket.
    pub async fn run(self, listener: TcpListener, stopped: impl Future<Output = ()>) {
        let mut stopped = std::pin::pin!(stopped);
        loop {
            let accepted = tokio::select! {
                accepted = accept(&listener, &self.shared.places) => accepted,
                () = &mut stopped => return,
            };
            if let Ok((stream, place)) = accepted {
                let door = self.clone();
                tokio::spawn(async move {
                    door.secure_and_answer(stream).await;
                    drop(place);
                });
            } else {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }

    async fn secure_and_answer(&self, stream: tokio::net::TcpStream) {
        let stream = match &self.shared.tls {
            None => DoorStream::Tcp(stream),
            Some(tls) => match timeout(ANSWERED_WITHIN, tls.acceptor().accept(stream)).await {
                Ok(Ok(stream)) => DoorStream::Tls(Box::new(stream)),
                _ => return,
            },
        };
        self.answer_one(stream).await;
    }

    /// Answers one request and closes the connection.
    async fn answer_one(&self, stream: DoorStream) {
        let service = service_fn(|request: Request<hyper::body::Incoming>| async move {
            let (head, _) = request.into_parts();
            Ok::<_, Infallible>(self.answer(&head))
        });
        let mut builder = hyper::server::conn::http1::Builder::new();
        builder.keep_alive(false).timer(TokioTimer::new()).header_read_timeout(ANSWERED_WITHIN);
        let served = timeout(ANSWERED_WITHIN, builder.serve_connection(TokioIo::new(stream), service)).await;
        if let Ok(Err(error)) = served {
            tracing::debug!(door = "http", %error, "a connection broke");
        }
    }

    fn answer(&self, head: &Parts) -> Response<HttpBody> {
        let mut response = self.handle(head).unwrap_or_else(|problem| {
            if !dashboard::is_for_a_person(head) {
                return problem.response();
            }
            let mut page = dashboard::problem_page(&problem);
            page.headers_mut().insert(REFRESH.0, REFRESH.1);
            page
        });
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }

    fn handle(&self, head: &Parts) -> HttpResult {
        let keys = self.shared.keys.borrow().clone();
        check_host(&self.shared.hosts, !keys.is_empty(), head)?;
        let status = self.shared.status.borrow().clone();
        match head.uri.path() {
            "/healthz" => Ok(reply::json(&json!({ "status": "ok" }))),
            "/readyz" => Ok(reply::json_with(StatusCode::SERVICE_UNAVAILABLE, &status.json())),
            "/metrics" => {
                let key = bearer(&head.headers)?;
                if keys.admit(key.map(str::as_bytes)).is_none() {
                    return Err(ProblemDetails::unauthenticated(NO_KEY));
                }
                let media_type = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
                Ok(reply::text(status.metrics(), media_type))
            }
            _ => Err(status.problem()),
        }
    }
}

/// A standby asks for each connection, by its first bytes, whether this door answers it.
impl StandbyDoor for StatusDoor {
    fn first_bytes_max(&self) -> usize {
        FIRST_BYTES_MAX
    }

    fn answers(&self, first: &[u8]) -> Option<bool> {
        // The standby does not end TLS, so it cannot see what a request is about.
        if self.shared.tls.is_some() {
            return Some(false);
        }
        let Some(target) = STATUS_METHODS.iter().find_map(|method| first.strip_prefix(method.as_bytes()))
        else {
            let is_begun = STATUS_METHODS.iter().any(|method| method.as_bytes().starts_with(first));
            return if is_begun { None } else { Some(false) };
        };
        let Some(end) = target.iter().position(|byte| matches!(byte, b' ' | b'?')) else {
            let is_begun = |path: &&str| path.as_bytes().starts_with(target);
            return if STATUS_PATHS.iter().any(is_begun) { None } else { Some(false) };
        };
        Some(STATUS_PATHS.iter().any(|path| path.as_bytes() == &target[..end]))
    }

    fn answer(&self, stream: DoorStream) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.answer_one(stream))
    }
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> io::Result<(tokio::net::TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, place))
}

impl BrokerStatus {
    fn json(&self) -> Value {
        match self {
            BrokerStatus::Recovering => json!({ "ready": false, "reasons": ["recovering"] }),
            BrokerStatus::Draining => json!({ "ready": false, "reasons": ["draining"] }),
            BrokerStatus::Standby(standby) => {
                let mut reasons = vec!["standby"];
                if standby.leader.is_none() {
                    reasons.push("no-leader");
                }
                if standby.is_cut_off {
                    reasons.push("journal-away");
                }
                json!({
                    "ready": false,
                    "reasons": reasons,
                    "group": standby.group,
                    "name": standby.name,
                    "leader": standby.leader,
                    "epoch": standby.epoch,
                    "position": standby.position,
                    "lag_bytes": standby.lag_bytes,
                })
            }
        }
    }

    fn metrics(&self) -> String {
        let gauges = match self {
            BrokerStatus::Recovering => {
                vec![("recovering", "Whether the broker reads its journal before it serves.", 1)]
            }
            BrokerStatus::Draining => {
                vec![("draining", "Whether the broker stops and takes nothing new.", 1)]
            }
            BrokerStatus::Standby(standby) => vec![
                ("standby", "Whether the broker stands by for the leader of its group.", 1),
                ("group_epoch", "The number of the last leadership of the group.", standby.epoch),
                ("group_has_leader", "Whether the broker knows who leads.", standby.leader.is_some().into()),
                (
                    "standby_cut_off",
                    "Whether the group's journal cannot be followed.",
                    standby.is_cut_off.into(),
                ),
                ("standby_position_bytes", "Where the copy of the journal ends.", standby.position),
                ("standby_lag_bytes", "Bytes of the journal that are not copied yet.", standby.lag_bytes),
            ],
        };
        let mut out = String::new();
        for (name, help, value) in gauges {
            let name = format!("tenure_{name}");
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}");
        }
        out
    }

    fn problem(&self) -> ProblemDetails {
        let (code, detail) = match self {
            BrokerStatus::Recovering => ("recovering", "the broker has just started and reads its journal"),
            BrokerStatus::Standby(_) => ("standby", "another member of the group leads"),
            BrokerStatus::Draining => ("draining", "the broker stops and takes no new requests"),
        };
        ProblemDetails::new(StatusCode::SERVICE_UNAVAILABLE, code, detail, "wait, then try again")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn door(status: BrokerStatus, keys: Keys) -> StatusDoor {
        StatusDoor::new(watch::channel(status).1, &crate::Settings::default(), watch::channel(keys).1)
    }

    fn standby() -> BrokerStatus {
        BrokerStatus::Standby(StandbyStatus {
            group: "lab".to_owned(),
            name: "b2".to_owned(),
            leader: Some("b1".to_owned()),
            epoch: 7,
            position: 4_096,
            lag_bytes: 12,
            is_cut_off: false,
        })
    }

    #[test]
    fn a_standby_answers_what_is_asked_about_itself_and_nothing_else() {
        let door = door(standby(), Keys::default());
        for (first, answers) in [
            (&b"GET /readyz HTTP/1.1\r\n"[..], Some(true)),
            (b"HEAD /healthz HTTP/1.1\r\n", Some(true)),
            (b"GET /metrics?x=1 HTTP", Some(true)),
            (b"G", None),
            (b"HEAD", None),
            (b"GET /rea", None),
            (b"GET /readyzz", Some(false)),
            (b"GET / HTTP/1.1", Some(false)),
            (b"GET /v1/tasks HTTP/1.1", Some(false)),
            (b"POST /readyz HTTP/1.1", Some(false)),
            (b"PRI * HTTP/2.0", Some(false)),
        ] {
            assert_eq!(door.answers(first), answers, "{}", String::from_utf8_lossy(first));
        }
    }

    #[test]
    fn a_standby_names_the_leader_and_how_far_behind_it_is() {
        let json = standby().json();
        assert_eq!(json["reasons"], json!(["standby"]));
        assert_eq!((&json["leader"], &json["lag_bytes"]), (&json!("b1"), &json!(12)));
        let lost = BrokerStatus::Standby(StandbyStatus { is_cut_off: true, ..StandbyStatus::default() });
        assert_eq!(lost.json()["reasons"], json!(["standby", "no-leader", "journal-away"]));
        assert!(standby().metrics().contains("tenure_standby_lag_bytes 12\n"));
    }

    #[test]
    fn with_keys_the_metrics_need_one_and_the_health_does_not() {
        let mut keys = Keys::default();
        keys.add(b"secret", tenure_hub::Grant::everything());
        let door = door(BrokerStatus::Recovering, keys);
        let status = |path: &str, key: Option<&str>| {
            let mut request = Request::builder().uri(path).header("host", "localhost");
            if let Some(key) = key {
                request = request.header("authorization", format!("Bearer {key}"));
            }
            door.answer(&request.body(()).unwrap().into_parts().0).status().as_u16()
        };
        assert_eq!((status("/healthz", None), status("/readyz", None)), (200, 503));
        assert_eq!((status("/metrics", None), status("/metrics", Some("wrong"))), (401, 401));
        assert_eq!((status("/metrics", Some("secret")), status("/v1/tasks", Some("secret"))), (200, 503));
    }
}
