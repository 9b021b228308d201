//! `/workers` and `/workers/{worker}`: who is there, what they hold, how often they crashed.

use maud::{Markup, html};
use tenure_hub::wall_clock;
use tenure_hub::words::{
    Amount, Answer, EventFilter, ListQuery, Name, PresenceName, Query, Refusal, ResourceInfo, StateName,
    Timestamp, WorkerInfo,
};

use super::format::{ago, bytes, count, counted, escaped, span};
use super::frame::{self, Allowed, Section};
use super::{event_rows, recent, task_rows};
use crate::call::HttpCall;
use crate::problem::ProblemDetails;
use crate::reply::HttpResult;
use crate::session::HubAccess;
use crate::translate;

/// How many workers, held tasks and events a page shows.
const WORKERS_SHOWN: usize = 500;
const HELD_SHOWN: usize = 50;
const EVENTS_SHOWN: usize = 50;

pub(super) async fn list(call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    let now = wall_clock();
    let mut workers = ask(&mut call.hub()?, Query::Workers).await?;
    // Those that need a person come first.
    workers.sort_by_cached_key(|worker| (rank(worker, now), worker.worker.clone()));
    let allowed = Allowed::of(call.peer()?);
    let content = html! {
        div.head { h1 { "Workers" } p #summary.muted data-live { (summary(&workers)) } }
        div #list.card data-live="always" {
            @if workers.is_empty() {
                p.empty { "No worker has registered. Start one: " code { "tenure work --slots 4" } }
            } @else { (table(&workers, allowed, now)) }
        }
    };
    frame::page(&call, Section::Workers, "Workers", &content)
}

async fn ask(hub: &mut HubAccess, query: Query) -> Result<Vec<WorkerInfo>, ProblemDetails> {
    match hub.query(query).await? {
        Answer::Workers(workers) => Ok(workers),
        _ => Err(ProblemDetails::unexpected()),
    }
}

fn rank(worker: &WorkerInfo, now: Timestamp) -> u8 {
    match worker.presence {
        PresenceName::Lost => 0,
        PresenceName::Live if is_quarantined(worker, now) => 1,
        PresenceName::Live => 2,
        PresenceName::Gone => 3,
    }
}

fn is_quarantined(worker: &WorkerInfo, now: Timestamp) -> bool {
    worker.quarantined_until.is_some_and(|until| until > now)
}

fn summary(workers: &[WorkerInfo]) -> String {
    let of = |presence| workers.iter().filter(|worker| worker.presence == presence).count() as u64;
    let (live, lost, gone) = (of(PresenceName::Live), of(PresenceName::Lost), of(PresenceName::Gone));
    format!("{} live, {} lost, {} gone", count(live), count(lost), count(gone))
}

fn table(workers: &[WorkerInfo], allowed: Allowed, now: Timestamp) -> Markup {
    html! {
        div.scroll {
            table.cards.workers {
                caption.sr { "Workers" }
                thead { tr {
                    th scope="col" { "Presence" } th scope="col" { "Worker" } th scope="col" { "Queues" }
                    th scope="col" { "Slots" } th scope="col" { "Last sign of life" } th.n scope="col" { "Crashes" }
                    th scope="col" { "Machine" } @if allowed.manage { th scope="col" { "Acts" } }
                } }
                tbody { @for worker in workers.iter().take(WORKERS_SHOWN) { (row(worker, allowed, now)) } }
            }
        }
        @if workers.len() > WORKERS_SHOWN {
            p.muted { "and " (counted((workers.len() - WORKERS_SHOWN) as u64, "worker", "workers")) " more" }
        }
    }
}

fn row(worker: &WorkerInfo, allowed: Allowed, now: Timestamp) -> Markup {
    let path = format!("/workers/{}", escaped(&worker.worker));
    html! {
        tr data-href=(path) {
            td { (presence(worker, now)) }
            th scope="row" { a href=(path) { (worker.worker) } }
            td.note.queues { (names(&worker.queues)) }
            td { (slots(worker)) }
            td { (heartbeat(worker, now)) }
            td.n.crashes data-zero[worker.crashes == 0] {
                (worker.crashes)
                @if let Some(at) = worker.last_crash { " " span.muted { "(" (ago(at, now)) ")" } }
            }
            td.note.machine { (machine(worker)) }
            @if allowed.manage { td { div.buttons { (acts(worker, now)) } } }
        }
    }
}

fn names(list: &[Name]) -> String {
    list.iter().map(|name| &**name).collect::<Vec<_>>().join(", ")
}

fn presence(worker: &WorkerInfo, now: Timestamp) -> Markup {
    let (state, word) = match worker.presence {
        PresenceName::Live => ("completed", "live"),
        PresenceName::Lost => ("failed", "lost"),
        PresenceName::Gone => ("cancelled", "gone"),
    };
    html! {
        span.state data-state=(state) { (word) }
        @if worker.draining { " " span.chip { "draining" } }
        @if is_quarantined(worker, now) { " " span.chip.bad { "quarantine" } }
    }
}

/// How much of a resource is in use.
fn in_use(resource: &ResourceInfo) -> String {
    let amount = |quantity| Amount { of: &resource.name, quantity };
    format!("{}: {} of {}", resource.name, amount(resource.used), amount(resource.total))
}

fn slots(worker: &WorkerInfo) -> Markup {
    html! {
        meter min="0" max=(worker.slots.max(1)) value=(worker.slots_used) aria-label="Slots in use" {}
        " " span.nowrap { (worker.slots_used) " of " (worker.slots) }
        @for resource in &worker.resources { br; span.note { (in_use(resource)) } }
    }
}

/// How long it has been silent, and whether that is unusual.
fn heartbeat(worker: &WorkerInfo, now: Timestamp) -> Markup {
    let silence = now.since(worker.last_seen);
    let is_late = worker.presence == PresenceName::Live && silence > worker.heartbeat * 2;
    html! {
        (ago(worker.last_seen, now))
        @if is_late { " " span.chip { "late" } }
        " " span.muted.nowrap { "every " (span(worker.heartbeat)) }
    }
}

fn machine(worker: &WorkerInfo) -> Markup {
    let about = &worker.about;
    let parts: Vec<&str> = [about.host.as_deref(), about.door].into_iter().flatten().collect();
    html! {
        (parts.join(" · "))
        @if let Some(stats) = &worker.stats {
            @if let Some(cpu) = stats.cpu_percent { " · " (format!("{cpu:.0}")) " % CPU" }
            @if let Some(used) = stats.memory_used { " · " (bytes(used)) }
        }
    }
}

fn acts(worker: &WorkerInfo, now: Timestamp) -> Markup {
    let path = |verb: &str| format!("/v1/workers/{}/{verb}", escaped(&worker.worker));
    let what = format!("worker {}", worker.worker);
    html! {
        @if worker.presence == PresenceName::Live && !worker.draining {
            button type="button" data-act="drain" data-path=(path("drain")) data-what=(what)
                data-text="It takes nothing new, finishes what it holds, and leaves." { "drain" }
        }
        @if is_quarantined(worker, now) || worker.presence != PresenceName::Live || worker.crashes > 0 {
            button type="button" data-act="clear" data-path=(path("clear")) data-what=(what)
                data-text="Its quarantine ends and its crashes are forgotten." {
                @if is_quarantined(worker, now) { "lift quarantine" } @else { "clear" }
            }
        }
    }
}

pub(super) async fn show(call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    let now = wall_clock();
    let name = call.name("worker")?;
    let mut hub = call.hub()?;
    let found = ask(&mut hub, Query::Worker { worker: name.clone() }).await?;
    let events = of_worker(&call, &mut hub, &name).await?;
    let Some(worker) = found.first() else {
        if events.is_empty() {
            return Err(translate::problem(&Refusal::UnknownWorker { worker: name }));
        }
        return frame::page(&call, Section::Workers, &name, &departed(&name, &events));
    };
    let states = vec![StateName::Assigned, StateName::Running, StateName::Suspended];
    let query = ListQuery { states, worker: Some(name.clone()), limit: HELD_SHOWN, ..ListQuery::default() };
    let Answer::Tasks { tasks, .. } = hub.query(Query::List(Box::new(query))).await? else {
        return Err(ProblemDetails::unexpected());
    };
    let allowed = Allowed::of(call.peer()?);
    let content = html! {
        div.head {
            h1 { (name) }
            div #presence data-live { (presence(worker, now)) }
            div #acts-of-worker.buttons data-live { @if allowed.manage { (acts(worker, now)) } }
        }
        section #facts.card data-live="always" aria-label="Facts" { (facts(worker, now)) }
        section #held.card data-live aria-labelledby="held-title" {
            h2 #held-title { "Tasks it holds" a.more href={ "/tasks?state=all&worker=" (escaped(&name)) } { "All its tasks" } }
            @if tasks.is_empty() { p.empty { "It holds no task." } }
            @else { (task_rows::table("Tasks it holds", &tasks, false, now)) }
        }
        (history(&events))
    };
    frame::page(&call, Section::Workers, &name, &content)
}

/// The page of a worker that has left. It has the same parts as before, so that a page that is open shows it.
fn departed(name: &Name, events: &[std::sync::Arc<tenure_hub::words::Event>]) -> Markup {
    html! {
        div.head {
            h1 { (name) }
            div #presence data-live { span.state data-state="cancelled" { "gone" } }
            div #acts-of-worker.buttons data-live {}
        }
        section #facts.card data-live="always" aria-label="Facts" {
            p { "The broker does not know this worker any more: it has left, or was gone for long." }
        }
        section #held.card data-live aria-labelledby="held-title" {
            h2 #held-title { "Tasks it holds" a.more href={ "/tasks?state=all&worker=" (escaped(name)) } { "All its tasks" } }
            p.empty { "It holds no task." }
        }
        (history(events))
    }
}

/// What happened to it, the newest first: when it came and went, and its crashes.
async fn of_worker(
    call: &HttpCall,
    hub: &mut HubAccess,
    worker: &Name,
) -> Result<Vec<std::sync::Arc<tenure_hub::words::Event>>, ProblemDetails> {
    const KINDS: [&str; 9] = [
        "worker-registered",
        "worker-lost",
        "worker-returned",
        "worker-left",
        "worker-draining",
        "worker-quarantined",
        "worker-cleared",
        "crashed",
        "holder-lost",
    ];
    let Answer::Counts(counts) = hub.query(Query::Counts).await? else {
        return Err(ProblemDetails::unexpected());
    };
    let kinds = KINDS.iter().map(|kind| (*kind).into()).collect();
    let filter = EventFilter { worker: Some(worker.clone()), kinds, ..EventFilter::default() };
    Ok(recent::last(call.peer()?, filter, counts.last_event, EVENTS_SHOWN).await?.events)
}

fn history(events: &[std::sync::Arc<tenure_hub::words::Event>]) -> Markup {
    html! {
        section #history.card data-live aria-labelledby="history-title" {
            h2 #history-title { "Comings, goings and crashes" }
            @if events.is_empty() { p.empty { "Nothing is kept in the log." } }
            @else { ol.events { @for event in events { (event_rows::row(event)) } } }
        }
    }
}

fn facts(worker: &WorkerInfo, now: Timestamp) -> Markup {
    let about = &worker.about;
    html! {
        dl.facts.wide {
            dt { "Last sign of life" } dd { (heartbeat(worker, now)) }
            dt { "Since" } dd { (ago(worker.since, now)) }
            dt { "Slots" } dd { (slots(worker)) @if worker.pulls { ", asks for tasks itself" } }
            @if worker.light_used > 0 {
                dt { "Light slots" } dd { (worker.light_used) " of " (worker.light_slots) }
            }
            dt { "Queues" }
            dd { @for queue in &worker.queues { a href={ "/queues/" (escaped(queue)) } { (queue) } " " } }
            @if !worker.capabilities.is_empty() { dt { "Capabilities" } dd { (names(&worker.capabilities)) } }
            dt { "Lost after" } dd { (span(worker.lost_after)) " of silence, lease " (span(worker.lease)) }
            dt { "Crashes" }
            dd { (worker.crashes) @if let Some(at) = worker.last_crash { ", the last " (ago(at, now)) } }
            @if let Some(until) = worker.quarantined_until.filter(|until| *until > now) {
                dt { "Quarantine" } dd { "ends " (ago(until, now)) }
            }
            @if let Some(host) = &about.host { dt { "Host" } dd { (host) } }
            @if let Some(platform) = &about.platform { dt { "Platform" } dd { (platform) } }
            @if let Some(version) = &about.version { dt { "Version" } dd { (version) } }
            @if let Some(door) = about.door { dt { "Door" } dd { (door) } }
            @if let Some(stats) = &worker.stats {
                @if let Some(cpu) = stats.cpu_percent { dt { "CPU" } dd { (format!("{cpu:.0} %")) } }
                @if let Some(used) = stats.memory_used {
                    dt { "Memory" }
                    dd { (bytes(used)) @if let Some(total) = stats.memory_total { " of " (bytes(total)) } }
                }
                @for (name, value) in &stats.more { dt { (name) } dd { (value) } }
            }
        }
    }
}
