//! `/queues` and `/queues/{queue}`: how much waits, who serves it, and the limits of tags.

use maud::{Markup, html};
use tenure_hub::wall_clock;
use tenure_hub::words::{
    Answer, EventFilter, LimitInfo, Query, QueueInfo, Rate, Refusal, StateName, Timestamp,
};

use super::format::{count, counted, escaped, since, span};
use super::frame::{self, Allowed, Section};
use super::{event_rows, recent};
use crate::call::HttpCall;
use crate::problem::ProblemDetails;
use crate::reply::HttpResult;
use crate::session::HubAccess;
use crate::translate;

/// How many queues, tags and events a page shows.
const QUEUES_SHOWN: usize = 500;
const LIMITS_SHOWN: usize = 200;
const EVENTS_SHOWN: usize = 30;

pub(super) async fn list(call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    let now = wall_clock();
    let mut hub = call.hub()?;
    let mut queues = ask(&mut hub, Query::Queues).await?;
    queues.sort_by(|one, other| ready(other).cmp(&ready(one)).then_with(|| one.queue.cmp(&other.queue)));
    let Answer::Limits(limits) = hub.query(Query::Limits).await? else {
        return Err(ProblemDetails::unexpected());
    };
    let allowed = Allowed::of(call.peer()?);
    let content = html! {
        div.head { h1 { "Queues" } p #summary.muted data-live { (counted(queues.len() as u64, "queue", "queues")) } }
        div #list.card data-live {
            @if queues.is_empty() { p.empty { "No queue yet: a queue begins with its first task or worker." } }
            @else { (table(&queues, allowed, now)) }
        }
        section.card aria-labelledby="limits-title" {
            h2 #limits-title { "Limits of tags" }
            div #limits data-live { (tags(&limits, allowed)) }
            @if allowed.manage {
                form.inline data-put="/v1/limits/{tag}" data-title="Set the limit of the tag?" {
                    div.field { label for="limit-tag" { "Tag" } input #limit-tag data-name required maxlength="255" autocomplete="off"; }
                    div.field {
                        label for="limit-value" { "Tasks at once; empty removes the limit" }
                        input #limit-value name="limit" type="number" min="0" max="4294967295";
                    }
                    button type="submit" { "Set" }
                }
                (tag_rate_form())
            }
        }
    };
    frame::page(&call, Section::Queues, "Queues", &content)
}

async fn ask(hub: &mut HubAccess, query: Query) -> Result<Vec<QueueInfo>, ProblemDetails> {
    match hub.query(query).await? {
        Answer::Queues(queues) => Ok(queues),
        _ => Err(ProblemDetails::unexpected()),
    }
}

fn ready(queue: &QueueInfo) -> u64 {
    queue.counts[StateName::Ready as usize]
}

fn running(queue: &QueueInfo) -> u64 {
    queue.counts[StateName::Running as usize] + queue.counts[StateName::Assigned as usize]
}

fn table(queues: &[QueueInfo], allowed: Allowed, now: Timestamp) -> Markup {
    let deepest = queues.iter().map(ready).max().unwrap_or(0).max(1);
    html! {
        div.scroll {
            table {
                caption.sr { "Queues" }
                thead { tr {
                    th scope="col" { "Queue" } th scope="col" { "Ready" } th.n scope="col" { "Running" }
                    th.n scope="col" { "Paused" } th.n scope="col" { "Completed" } th.n scope="col" { "Failed" }
                    th.n scope="col" { "Workers" } th scope="col" { "Oldest ready" } th scope="col" { "Thresholds" }
                    @if allowed.manage { th scope="col" { "Acts" } }
                } }
                tbody {
                    @for queue in queues.iter().take(QUEUES_SHOWN) {
                        @let path = format!("/queues/{}", escaped(&queue.queue));
                        tr data-href=(path) {
                            th scope="row" { a href=(path) { (queue.queue) } " " (flags(queue)) }
                            td.nowrap {
                                meter.depth min="0" max=(deepest) value=(ready(queue)) aria-label="Ready tasks, next to other queues" {}
                                " " (count(ready(queue)))
                            }
                            td.n { (count(running(queue))) }
                            td.n { (count(queue.counts[StateName::Paused as usize])) }
                            td.n { (count(queue.counts[StateName::Completed as usize])) }
                            td.n { (count(queue.counts[StateName::Failed as usize])) }
                            td.n { (queue.live_workers) }
                            td { @if let Some(at) = queue.oldest_ready { (since(at, now)) } }
                            td.note { (thresholds(queue)) }
                            @if allowed.manage { td { div.buttons { (acts(queue)) } } }
                        }
                    }
                }
            }
        }
        @if queues.len() > QUEUES_SHOWN {
            p.muted { "and " (counted((queues.len() - QUEUES_SHOWN) as u64, "queue", "queues")) " more" }
        }
    }
}

fn flags(queue: &QueueInfo) -> Markup {
    html! {
        @if queue.paused { span.chip { "paused" } " " }
        @if queue.passed.depth || queue.passed.age { span.chip.bad { "backlog" } " " }
        @if ready(queue) > 0 && queue.live_workers == 0 && !queue.paused { span.chip.bad { "no worker" } }
    }
}

fn thresholds(queue: &QueueInfo) -> String {
    let depth = queue.thresholds.depth.map(|depth| counted(u64::from(depth), "task", "tasks"));
    let parts: Vec<String> = depth.into_iter().chain(queue.thresholds.age.map(span)).collect();
    parts.join(", ")
}

fn acts(queue: &QueueInfo) -> Markup {
    let (verb, text) = if queue.paused {
        ("resume", "Workers get tasks of this queue again.")
    } else {
        ("pause", "Workers get no more tasks of this queue. Tasks that run go on.")
    };
    html! {
        button type="button" data-act=(verb) data-path={ "/v1/queues/" (escaped(&queue.queue)) "/" (verb) }
            data-what={ "queue " (queue.queue) } data-text=(text) { (verb) }
    }
}

fn tags(limits: &[LimitInfo], allowed: Allowed) -> Markup {
    html! {
        @if limits.is_empty() { p.empty { "No tag has a limit." } }
        @else {
            div.scroll {
                table {
                    caption.sr { "Limits of tags" }
                    thead { tr {
                        th scope="col" { "Tag" } th scope="col" { "In use" } th.n scope="col" { "Limit" } th scope="col" { "Rate" }
                        @if allowed.manage { th scope="col" { "Acts" } }
                    } }
                    tbody { @for limit in limits.iter().take(LIMITS_SHOWN) {
                        tr {
                            th scope="row" { a href={ "/tasks?tag=" (escaped(&limit.tag)) } { (limit.tag) } }
                            td.nowrap {
                                meter min="0" max=(limit.limit.unwrap_or(0).max(1)) value=(limit.in_use) aria-label="In use" {}
                                " " (limit.in_use)
                            }
                            td.n { @match limit.limit { Some(limit) => { (limit) } None => { "none" } } }
                            td.nowrap { @match limit.rate { Some(rate) => { (rate) } None => { "none" } } }
                            @if allowed.manage { td { div.buttons { (tag_acts(limit)) } } }
                        }
                    } }
                }
            }
        }
    }
}

fn tag_acts(limit: &LimitInfo) -> Markup {
    let path = format!("/v1/limits/{}", escaped(&limit.tag));
    html! {
        @if limit.limit.is_some() {
            button type="button" data-act="remove" data-method="DELETE" data-path=(path)
                data-what={ "the limit of " (limit.tag) }
                data-text="Any number of tasks with this tag may run at once." { "Remove limit" }
        }
        @if limit.rate.is_some() {
            button type="button" data-act="remove" data-method="DELETE" data-path={ (path) "/rate" }
                data-what={ "the rate of " (limit.tag) }
                data-text="Tasks with this tag start as soon as a worker is free." { "Remove rate" }
        }
    }
}

fn tag_rate_form() -> Markup {
    html! {
        form.inline data-put="/v1/limits/{tag}/rate" data-title="Set the rate of the tag?" {
            div.field { label for="tag-rate-tag" { "Tag" } input #tag-rate-tag data-name required maxlength="255" autocomplete="off"; }
            (rate_fields("tag-rate", None))
            button type="submit" { "Set rate" }
        }
    }
}

pub(super) async fn show(call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    let now = wall_clock();
    let name = call.name("queue")?;
    let mut hub = call.hub()?;
    let found = ask(&mut hub, Query::Queue { queue: name.clone() }).await?;
    let Some(queue) = found.first() else {
        return Err(translate::problem(&Refusal::UnknownQueue { queue: name }));
    };
    let Answer::Counts(counts) = hub.query(Query::Counts).await? else {
        return Err(ProblemDetails::unexpected());
    };
    let filter = EventFilter { queue: Some(name.clone()), ..EventFilter::default() };
    let past = recent::last(call.peer()?, filter, counts.last_event, EVENTS_SHOWN).await?;
    let allowed = Allowed::of(call.peer()?);
    let content = html! {
        div.head {
            h1 { (name) }
            div #flags data-live { (flags(queue)) }
            div #acts-of-queue.buttons data-live { @if allowed.manage { (acts(queue)) } }
        }
        div #tiles.tiles data-live {
            @for (state, number) in StateName::ALL.into_iter().zip(queue.counts) {
                a.tile data-state=(state) data-zero[number == 0] href={ "/tasks?state=" (state) "&queue=" (escaped(&name)) } {
                    span.number { (count(number)) } span.label { (state) }
                }
            }
        }
        div.columns {
            div.stack {
                section.card aria-labelledby="facts-title" {
                    h2 #facts-title { "Facts" }
                    div #facts data-live { (facts(queue, now)) }
                    @if allowed.manage { (thresholds_form(queue)) (rate_form(queue)) }
                }
                section.card aria-labelledby="priorities-title" {
                    h2 #priorities-title { "Ready by priority" }
                    div #priorities data-live { (priorities(queue)) }
                }
            }
            section #history.card data-live aria-labelledby="history-title" {
                h2 #history-title { "Recent events" a.more href={ "/events?queue=" (escaped(&name)) } { "Follow" } }
                @if past.events.is_empty() { p.empty { "Nothing is kept in the log." } }
                @else { ol.events { @for event in &past.events { (event_rows::row(event)) } } }
            }
        }
    };
    frame::page(&call, Section::Queues, &name, &content)
}

fn facts(queue: &QueueInfo, now: Timestamp) -> Markup {
    html! {
        dl.facts {
            dt { "Live workers" } dd { (queue.live_workers) @if !queue.ever_served { ", never had one" } }
            dt { "Oldest ready task" }
            dd { @match queue.oldest_ready { Some(at) => { (since(at, now)) } None => { "none" } } }
            @if let Some(at) = queue.unserved_since { dt { "Without a worker for" } dd { (since(at, now)) } }
            dt { "Rate" } dd { @match queue.rate { Some(rate) => { (rate) } None => { "none" } } }
            dt { "Backlog from" }
            dd { @if thresholds(queue).is_empty() { "no threshold" } @else { (thresholds(queue)) } }
        }
    }
}

/// How much is ready of each priority, the highest first.
fn priorities(queue: &QueueInfo) -> Markup {
    let deepest = queue.ready_by_priority.iter().map(|(_, count)| *count).max().unwrap_or(0).max(1);
    let shown: u64 = queue.ready_by_priority.iter().map(|(_, count)| *count).sum();
    html! {
        @if queue.ready_by_priority.is_empty() { p.empty { "No task is ready." } }
        @else {
            div.scroll {
                table {
                    caption.sr { "Ready tasks by priority" }
                    thead { tr { th scope="col" { "Priority" } th scope="col" { "Ready" } } }
                    tbody { @for (priority, number) in &queue.ready_by_priority {
                        tr {
                            th scope="row" { (priority) }
                            td.nowrap {
                                meter.depth min="0" max=(deepest) value=(number)
                                    aria-label="Ready tasks, next to other priorities" {}
                                " " (count(*number))
                            }
                        }
                    } }
                }
            }
        }
        @if ready(queue) > shown {
            p.muted { "and " (counted(ready(queue) - shown, "task", "tasks")) " of other priorities" }
        }
    }
}

fn rate_form(queue: &QueueInfo) -> Markup {
    html! {
        form.inline data-put={ "/v1/queues/" (escaped(&queue.queue)) "/rate" } data-title={ "Set the rate of queue " (queue.queue) "?" } {
            (rate_fields("rate", queue.rate))
            button type="submit" { "Set" }
        }
    }
}

/// The fields of a rate. Empty fields remove it.
fn rate_fields(id: &str, rate: Option<Rate>) -> Markup {
    html! {
        div.field {
            label for={ (id) "-count" } { "Start at most this many tasks" }
            input id={ (id) "-count" } name="count" type="number" min="1" max="1000000" value=[rate.map(|rate| rate.count)];
        }
        div.field {
            label for={ (id) "-period" } { "in this many seconds" }
            input id={ (id) "-period" } name="period_ms" data-times="1000" type="number" min="0.001" step="any"
                value=[rate.map(|rate| rate.period.as_secs_f64())];
        }
        div.field {
            label for={ (id) "-burst" } { "with a burst of" }
            input id={ (id) "-burst" } name="burst" type="number" min="1" max="1000000" value=[rate.map(|rate| rate.burst)];
        }
    }
}

fn thresholds_form(queue: &QueueInfo) -> Markup {
    let age = queue.thresholds.age.map(|age| age.as_secs());
    html! {
        form.inline data-put={ "/v1/queues/" (escaped(&queue.queue)) "/thresholds" } data-title={ "Set the thresholds of queue " (queue.queue) "?" } {
            div.field {
                label for="threshold-depth" { "Backlog from this many ready tasks" }
                input #threshold-depth name="depth" type="number" min="1" max="4294967295" value=[queue.thresholds.depth];
            }
            div.field {
                label for="threshold-age" { "or from an age in seconds" }
                input #threshold-age name="age_ms" data-times="1000" type="number" min="1" value=[age];
            }
            button type="submit" { "Set" }
        }
    }
}
