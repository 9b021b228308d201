//! `/healthz` and `/readyz`: for load balancers and supervisors. They need no key and say nothing about tasks.

use std::time::Duration;

use http::StatusCode;
use serde_json::json;
use tenure_hub::words::DEFAULT_NAMESPACE;
use tenure_hub::{Ask, Delivery, Principal, Request, Response};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::call::HttpCall;
use crate::reply::{self, HttpResult};
use crate::server::HttpDoor;

/// The process answers.
pub(crate) async fn live(_: HttpCall) -> HttpResult {
    Ok(reply::json(&json!({ "status": "ok" })))
}

/// The broker takes new tasks, or the reasons why it does not.
pub(crate) async fn ready(call: HttpCall) -> HttpResult {
    let reasons = call.door.readiness.reasons(&call.door).await;
    let status = if reasons.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Ok(reply::json_with(status, &json!({ "ready": reasons.is_empty(), "reasons": reasons })))
}

/// How long an answer about the readiness holds: peers without a key must not make the hub count all the time.
const FRESH: Duration = Duration::from_secs(1);

/// The latest answer about the readiness.
#[derive(Debug, Default)]
pub(crate) struct Readiness {
    latest: Mutex<Option<(Instant, Vec<&'static str>)>>,
}

impl Readiness {
    async fn reasons(&self, door: &HttpDoor) -> Vec<&'static str> {
        let mut latest = self.latest.lock().await;
        if let Some((at, reasons)) = &*latest
            && at.elapsed() < FRESH
        {
            return reasons.clone();
        }
        let reasons = reasons(door).await;
        *latest = Some((Instant::now(), reasons.clone()));
        reasons
    }
}

/// Why the broker takes nothing new.
async fn reasons(door: &HttpDoor) -> Vec<&'static str> {
    let asked = async {
        let session =
            door.hub.open(Principal::trusted("http"), DEFAULT_NAMESPACE.into(), "readiness".into()).ok()?;
        session.send(vec![Ask { token: 0, request: Request::Stats }]).await.ok()?;
        let mut arrived = Vec::new();
        loop {
            session.mailbox().arrived().await;
            let is_closed = session.mailbox().is_closed();
            session.mailbox().take(&mut arrived);
            for delivery in arrived.drain(..) {
                match delivery {
                    Delivery::Reply { reply: Ok(Response::Stats(stats)), .. } => return Some(stats),
                    Delivery::Goodbye | Delivery::Ended(_) => return None,
                    _ => {}
                }
            }
            if is_closed {
                return None;
            }
        }
    };
    match asked.await {
        None => vec!["draining"],
        Some(stats) if stats.disk_full => vec!["disk-full"],
        Some(_) => Vec::new(),
    }
}
