//! `/`: the state of the broker at a glance.

use maud::{Markup, html};
use tenure_hub::words::{
    Answer, Counts, EventFilter, PresenceName, Query, QueueInfo, StateName, Timestamp, WorkerInfo,
};
use tenure_hub::{HookInfo, Request, Response, Stats, wall_clock};

use super::format::{bytes, count, counted, escaped, span};
use super::frame::{self, Section};
use super::{attention, event_rows, group, recent};
use crate::call::HttpCall;
use crate::problem::ProblemDetails;
use crate::reply::HttpResult;

/// How many queues and events are shown.
const QUEUES_SHOWN: usize = 8;
const EVENTS_SHOWN: usize = 12;

pub(super) async fn page(call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    let now = wall_clock();
    let seen = Seen::of(&call).await?;
    let filter = EventFilter::default();
    let events = recent::last(call.peer()?, filter, seen.counts.last_event, EVENTS_SHOWN).await?;
    // A key that is bound to a namespace sees the figures of that namespace.
    let scope = call.peer()?.principal.grant.namespace.as_ref().map_or("whole broker", |_| "this namespace");
    let content = html! {
        h1.sr { "Overview" }
        div #tiles.tiles data-live { (tiles(&seen.counts)) }
        div #attention data-live { (attention::list(&seen.workers, &seen.queues, &seen.hooks, &seen.stats, now)) }
        div.charts {
            (chart("throughput", "Throughput", "tasks per second", scope,
                &[("submitted", "submitted"), ("completed", "completed"), ("failed", "failed"), ("crashed", "crashed")]))
            (chart("backlog", "Work", "tasks", scope, &[("ready", "ready"), ("running", "running")]))
        }
        section #figures.figures data-live aria-label="Figures" { (figures(&seen, now)) }
        (group::card(&seen.stats))
        div.columns {
            section #queues.card data-live aria-labelledby="queues-title" { (busiest(&seen.queues, now)) }
            section #recent.card data-live aria-labelledby="recent-title" {
                h2 #recent-title { "Recent events" a.more href="/events" { "All events" } }
                @if events.events.is_empty() { p.empty { "Nothing has happened yet." } }
                @else { ol.events { @for event in &events.events { (event_rows::row(event)) } } }
            }
        }
    };
    frame::page(&call, Section::Overview, "Overview", &content)
}

/// What the page is about.
struct Seen {
    counts: Counts,
    workers: Vec<WorkerInfo>,
    queues: Vec<QueueInfo>,
    hooks: Vec<HookInfo>,
    stats: Box<Stats>,
}

impl Seen {
    async fn of(call: &HttpCall) -> Result<Seen, ProblemDetails> {
        let asked = vec![
            Request::Query(Query::Counts),
            Request::Query(Query::Workers),
            Request::Query(Query::Queues),
            Request::Hooks,
            Request::Stats,
        ];
        let answers = call.hub()?.ask_many(asked).await;
        let answers = answers.and_then(|answers| answers.into_iter().collect::<Result<Vec<_>, _>>());
        let mut answers = answers.map_err(|no| crate::translate::problem(&no))?.into_iter();
        let (
            Some(Response::Answer(Answer::Counts(counts))),
            Some(Response::Answer(Answer::Workers(workers))),
            Some(Response::Answer(Answer::Queues(queues))),
            Some(Response::Hooks(hooks)),
            Some(Response::Stats(stats)),
        ) = (answers.next(), answers.next(), answers.next(), answers.next(), answers.next())
        else {
            return Err(ProblemDetails::unexpected());
        };
        Ok(Seen { counts: *counts, workers, queues, hooks, stats })
    }
}

fn tiles(counts: &Counts) -> Markup {
    html! {
        @for (state, number) in StateName::ALL.into_iter().zip(counts.by_state) {
            a.tile data-state=(state) data-zero[number == 0] href={ "/tasks?state=" (state) } {
                span.number { (count(number)) }
                span.label { (state) }
            }
        }
    }
}

fn chart(id: &str, title: &str, unit: &str, scope: &str, lines: &[(&str, &str)]) -> Markup {
    html! {
        figure.card.chart data-chart=(id) data-unit=(unit) {
            figcaption {
                h2 { (title) " " small { (unit) ", " (scope) } }
                ul.legend {
                    @for (name, label) in lines {
                        li data-line=(name) { span.swatch {} (label) " " output {} }
                    }
                }
            }
            div.plot {
                span.top aria-hidden="true" {}
                svg role="img" aria-label={ (title) " of the last minutes, " (unit) } viewBox="0 0 600 160"
                    preserveAspectRatio="none" {}
                div.axis aria-hidden="true" { span.past {} span { "now" } }
            }
            p.empty { "The chart fills while the page is open." }
        }
    }
}

fn figures(seen: &Seen, now: Timestamp) -> Markup {
    let oldest = seen.queues.iter().filter_map(|queue| queue.oldest_ready).min();
    let live = seen.workers.iter().filter(|worker| worker.presence == PresenceName::Live);
    let (slots, held) = live.fold((0u64, 0u64), |(slots, held), worker| {
        (slots + u64::from(worker.slots), held + u64::from(worker.slots_used))
    });
    let stats = &seen.stats;
    let cell = |name: &str, value: Markup, note: &str| {
        html! { div.figure { dt { (name) } dd { (value) @if !note.is_empty() { small { (note) } } } } }
    };
    let lost = seen.counts.lost_workers;
    html! {
        dl {
            (cell("Oldest ready task", html! { @match oldest {
                Some(at) => { (super::format::since(at, now)) }
                None => { "none" }
            } }, "since it became ready"))
            (cell("Workers", html! { (count(seen.counts.live_workers)) " live" },
                &if lost == 0 { "none lost".to_owned() } else { format!("{} lost", count(lost)) }))
            (cell("Slots in use", html! { (count(held)) " of " (count(slots)) }, "of live workers"))
            // A key that is bound to a namespace does not learn the figures of the whole broker.
            @if let Some(free) = stats.disk_free_bytes {
                (cell("Free disk space", html! { (bytes(free)) }, &format!("journal {}", bytes(stats.journal_bytes))))
                (cell("Sync", html! { (stats.sync) }, &format!("{} batches", count(stats.batches_total))))
                (cell("Up", html! { (span(now.since(Timestamp(stats.started_at_millis)))) },
                    &counted(stats.sessions, "session", "sessions")))
            } @else {
                (cell("Sync", html! { (stats.sync) }, ""))
                (cell("Up", html! { (span(now.since(Timestamp(stats.started_at_millis)))) }, ""))
            }
        }
    }
}

fn busiest(queues: &[QueueInfo], now: Timestamp) -> Markup {
    let in_state = |queue: &QueueInfo, state: StateName| queue.counts[state as usize];
    let running =
        |queue: &QueueInfo| in_state(queue, StateName::Running) + in_state(queue, StateName::Assigned);
    let mut busy: Vec<&QueueInfo> = queues.iter().collect();
    busy.sort_by_key(|queue| {
        std::cmp::Reverse((
            in_state(queue, StateName::Ready),
            running(queue),
            in_state(queue, StateName::Completed),
        ))
    });
    html! {
        h2 #queues-title { "Queues" a.more href="/queues" { "All queues" } }
        @if busy.is_empty() {
            p.empty { "No queue yet. Submit a task: " code { "tenure submit -- date" } }
        } @else {
            div.scroll {
                table {
                    thead { tr {
                        th scope="col" { "Queue" } th.n scope="col" { "Ready" } th.n scope="col" { "Running" }
                        th.n scope="col" { "Failed" } th.n scope="col" { "Workers" } th scope="col" { "Oldest ready" }
                    } }
                    tbody {
                        @for queue in busy.into_iter().take(QUEUES_SHOWN) {
                            tr data-href={ "/queues/" (escaped(&queue.queue)) } {
                                th scope="row" {
                                    a href={ "/queues/" (escaped(&queue.queue)) } { (queue.queue) }
                                    @if queue.paused { " " span.chip { "paused" } }
                                }
                                td.n { (count(in_state(queue, StateName::Ready))) }
                                td.n { (count(running(queue))) }
                                td.n { (count(in_state(queue, StateName::Failed))) }
                                td.n { (count(u64::from(queue.live_workers))) }
                                td { @if let Some(at) = queue.oldest_ready { (super::format::since(at, now)) } }
                            }
                        }
                    }
                }
            }
        }
    }
}
