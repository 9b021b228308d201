//! `/metrics` for Prometheus, and `/v1/queues/{queue}/scaling` for autoscalers.

use std::time::Duration;

use http::header::HeaderValue;
use serde_json::json;
use tenure_hub::words::{Query, StateName};
use tenure_hub::{Request, Response, Stats, wall_clock};

use super::health::unless_journal_away;
use super::queues::queues;
use crate::call::HttpCall;
use crate::codec;
use crate::problem::ProblemDetails;
use crate::reply::{self, HttpResult};
use crate::session::HubAccess;
use crate::translate;

/// The wait that a queue should hold unless the client says otherwise.
const WAIT: Duration = Duration::from_secs(60);

pub(crate) async fn metrics(call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    let (hub, mut access) = (&call.door.hub, call.hub_of_broker()?);
    let text = match unless_journal_away(hub, stats(&mut access)).await {
        Some(stats) => stats?.metrics(),
        // What is known without the hub: that is enough for an alarm.
        None => hub.leader_status().unwrap_or_default().metrics(true),
    };
    let media_type = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    Ok(reply::text(text, media_type))
}

async fn stats(hub: &mut HubAccess) -> Result<Box<Stats>, ProblemDetails> {
    match hub.ask(Request::Stats).await? {
        Response::Stats(stats) => Ok(stats),
        _ => Err(ProblemDetails::unexpected()),
    }
}

/// What an autoscaler needs to know about one queue. A queue that does not exist needs nothing.
pub(crate) async fn scaling(call: HttpCall) -> HttpResult {
    call.query.only(&["wait"])?;
    let wait = call.query.one("wait")?.map(codec::seconds).transpose()?.unwrap_or(WAIT);
    let name = call.name("queue")?;
    tenure_hub::words::check_name("queue", &name).map_err(|no| translate::problem(&no))?;
    let mut hub = call.hub()?;
    let found = queues(&mut hub, Query::Queue { queue: name.clone() }).await?;
    let namespace = &call.peer()?.namespace;
    let figures = stats(&mut hub).await?.queues;
    // A queue that is too small to be among those with figures has few tasks: each counts as a slot.
    let flow = figures.into_iter().find(|one| one.queue == name && one.namespace == *namespace);
    let flow = flow.map(|one| one.flow).unwrap_or_default();
    let now = wall_clock();
    let (ready, held, oldest, live_workers) = found.first().map_or((0, 0, None, 0), |queue| {
        let count = |state: StateName| queue.counts[state as usize];
        let held = count(StateName::Assigned) + count(StateName::Running);
        (count(StateName::Ready), held, queue.oldest_ready, queue.live_workers)
    });
    Ok(reply::json(&json!({
        "queue": &*name,
        "backlog": ready,
        "held": held,
        "oldest_ready_seconds": oldest.map_or(0.0, |at| now.since(at).as_secs_f64()),
        "live_workers": live_workers,
        "arrival_rate": flow.arrival_rate(now),
        "run_seconds": flow.run_seconds,
        "wait": wait.as_secs_f64(),
        "slots_needed": flow.slots_needed(now, ready, held, wait),
    })))
}
