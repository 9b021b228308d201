//! `/healthz` and `/readyz`: for load balancers and supervisors. They need no key and say nothing about tasks.

use std::future::Future;
use std::time::Duration;

use http::StatusCode;
use serde_json::json;
use tenure_hub::words::DEFAULT_NAMESPACE;
use tenure_hub::{HubHandle, Principal};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::call::HttpCall;
use crate::reply::{self, HttpResult};
use crate::server::HttpDoor;
use crate::session::ask_stats;

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

/// How long the hub of a leader may take: it answers only while its lease holds, and its journal may be away for long.
const ANSWERED_WITHIN: Duration = Duration::from_secs(1);

/// Something that the hub of a leader answers soon. `None`: the journal of its group is away. A broker without a group
/// always answers.
pub(super) async fn unless_journal_away<T>(hub: &HubHandle, asked: impl Future<Output = T>) -> Option<T> {
    if hub.leader_status().is_none() {
        return Some(asked.await);
    }
    if hub.is_journal_away() {
        return None;
    }
    tokio::time::timeout(ANSWERED_WITHIN, asked).await.ok()
}

/// Why the broker takes nothing new.
async fn reasons(door: &HttpDoor) -> Vec<&'static str> {
    let asked = async {
        let session =
            door.hub.open(Principal::trusted("http"), DEFAULT_NAMESPACE.into(), "readiness".into()).ok()?;
        ask_stats(&session).await
    };
    match unless_journal_away(&door.hub, asked).await {
        None => vec!["journal-away"],
        Some(None) => vec!["draining"],
        Some(Some(stats)) if stats.disk_full => vec!["disk-full"],
        Some(Some(_)) => Vec::new(),
    }
}
