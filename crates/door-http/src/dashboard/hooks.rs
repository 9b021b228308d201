//! `/hooks`: where events leave the broker, and those that could not be delivered.

use std::cmp::Reverse;

use maud::{Markup, html};
use tenure_hub::words::{Name, TaskId, Timestamp};
use tenure_hub::{HookInfo, Request, Response, Undelivered, wall_clock};

use super::format::{ago, count, counted, escaped, short};
use super::frame::{self, Allowed, Section};
use crate::call::HttpCall;
use crate::problem::ProblemDetails;
use crate::reply::HttpResult;
use crate::session::HubAccess;

/// How many undelivered events of a hook are shown.
const UNDELIVERED_SHOWN: usize = 20;

pub(super) async fn page(call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    let now = wall_clock();
    let mut hub = call.hub()?;
    let Response::Hooks(hooks) = hub.ask(Request::Hooks).await? else {
        return Err(ProblemDetails::unexpected());
    };
    let mut given_up = Vec::new();
    for hook in hooks.iter().filter(|hook| hook.undelivered > 0) {
        given_up.push((hook.about.name.clone(), undelivered(&mut hub, &hook.about.name).await?));
    }
    let allowed = Allowed::of(call.peer()?);
    let content = html! {
        div.head { h1 { "Hooks" } p #summary.muted data-live { (counted(hooks.len() as u64, "hook", "hooks")) } }
        div #list.card data-live {
            @if hooks.is_empty() { p.empty { "No hook: " code { "[[webhooks]]" } " in the configuration makes one." } }
            @else { (table(&hooks, allowed, now)) }
        }
        div #undelivered data-live {
            @for (hook, events) in &given_up { (given_up_by(hook, events, now)) }
        }
    };
    frame::page(&call, Section::Hooks, "Hooks", &content)
}

async fn undelivered(hub: &mut HubAccess, hook: &Name) -> Result<Vec<Undelivered>, ProblemDetails> {
    match hub.ask(Request::Undelivered { hook: hook.clone() }).await? {
        Response::Undelivered(events) => Ok(events),
        _ => Err(ProblemDetails::unexpected()),
    }
}

fn table(hooks: &[HookInfo], allowed: Allowed, now: Timestamp) -> Markup {
    html! {
        div.scroll {
            table {
                caption.sr { "Hooks" }
                thead { tr {
                    th scope="col" { "Hook" } th scope="col" { "Target" } th.n scope="col" { "Delivered" }
                    th.n scope="col" { "Failed attempts" } th.n scope="col" { "Undelivered" } th scope="col" { "Last delivered" }
                    th scope="col" { "Last error" }
                    @if allowed.manage { th scope="col" { "Acts" } }
                } }
                tbody { @for hook in hooks { (row(hook, allowed, now)) } }
            }
        }
    }
}

fn row(hook: &HookInfo, allowed: Allowed, now: Timestamp) -> Markup {
    let name = &hook.about.name;
    html! {
        tr {
            th scope="row" { (name) }
            td { (hook.about.kind.as_str()) " " span.mono { (hook.about.target) } }
            td.n { (count(hook.counts.delivered)) }
            td.n { (count(hook.counts.failed_attempts)) }
            td.n { (count(hook.undelivered as u64)) }
            td.nowrap { @if let Some(at) = hook.last_delivered_at { (ago(at, now)) } @else { "never" } }
            td.note { @if let Some(error) = &hook.last_error { (error) } }
            @if allowed.manage { td { @if hook.undelivered > 0 {
                button type="button" data-act="redeliver" data-path={ "/v1/hooks/" (escaped(name)) "/redeliver" }
                    data-what={ "the events of hook " (name) }
                    data-text="The broker sends the events that the hook has given up again." { "redeliver" }
            } } }
        }
    }
}

/// The events that a hook has given up, the newest first.
fn given_up_by(hook: &Name, events: &[Undelivered], now: Timestamp) -> Markup {
    let mut newest: Vec<&Undelivered> = events.iter().collect();
    newest.sort_unstable_by_key(|event| Reverse(event.seq));
    html! {
        section.card {
            h2 { "Undelivered by " (hook) " " small { (counted(events.len() as u64, "event", "events")) } }
            div.scroll {
                table {
                    caption.sr { "Undelivered events of " (hook) }
                    thead { tr {
                        th.n scope="col" { "Event" } th scope="col" { "Kind" } th scope="col" { "Task" } th scope="col" { "Given up" }
                        th.n scope="col" { "Attempts" } th scope="col" { "Error" }
                    } }
                    tbody { @for event in newest.into_iter().take(UNDELIVERED_SHOWN) {
                        tr {
                            td.n { (event.seq) } td { (event.kind) }
                            td { @if let Some(task) = task(event) { a.mono href={ "/tasks/" (task) } { (short(task)) } } }
                            td.nowrap { (ago(event.given_up_at, now)) }
                            td.n { (event.attempts) } td.note { (event.error) }
                        }
                    } }
                }
            }
            @if events.len() > UNDELIVERED_SHOWN {
                p.muted { "and " (counted((events.len() - UNDELIVERED_SHOWN) as u64, "older event", "older events")) }
            }
        }
    }
}

/// The task that an undelivered event is about.
fn task(event: &Undelivered) -> Option<TaskId> {
    let body: serde_json::Value = serde_json::from_slice(&event.body).ok()?;
    body["event"]["task"].as_str()?.parse().ok()
}
