//! `/schedules`: which tasks come again, and when.

use maud::{Markup, html};
use tenure_hub::wall_clock;
use tenure_hub::words::{Answer, Query, ScheduleInfo, ScheduleState, Timestamp};

use super::format::{count, counted, escaped, since};
use super::frame::{self, Allowed, Section};
use crate::call::HttpCall;
use crate::problem::ProblemDetails;
use crate::reply::HttpResult;

/// How many schedules a page shows.
const SCHEDULES_SHOWN: usize = 500;

pub(super) async fn page(call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    let now = wall_clock();
    let Answer::Schedules(schedules) = call.hub()?.query(Query::Schedules).await? else {
        return Err(ProblemDetails::unexpected());
    };
    let allowed = Allowed::of(call.peer()?);
    let content = html! {
        div.head {
            h1 { "Schedules" }
            p #summary.muted data-live { (counted(schedules.len() as u64, "schedule", "schedules")) }
        }
        div #list.card data-live {
            @if schedules.is_empty() { p.empty { "No schedule yet: tenure schedules add makes one." } }
            @else { (table(&schedules, allowed, now)) }
        }
    };
    frame::page(&call, Section::Schedules, "Schedules", &content)
}

fn table(schedules: &[ScheduleInfo], allowed: Allowed, now: Timestamp) -> Markup {
    html! {
        div.scroll {
            table {
                caption.sr { "Schedules" }
                thead { tr {
                    th scope="col" { "Schedule" } th scope="col" { "When" } th scope="col" { "Queue" }
                    th scope="col" { "Next" } th scope="col" { "Last" } th.n scope="col" { "Fired" }
                    th.n scope="col" { "Skipped" } th scope="col" { "Policies" }
                    @if allowed.steer { th scope="col" { "Acts" } }
                } }
                tbody { @for info in schedules.iter().take(SCHEDULES_SHOWN) { (row(info, allowed, now)) } }
            }
        }
        @if schedules.len() > SCHEDULES_SHOWN {
            p.muted { "and " (counted((schedules.len() - SCHEDULES_SHOWN) as u64, "schedule", "schedules")) " more" }
        }
    }
}

fn row(info: &ScheduleInfo, allowed: Allowed, now: Timestamp) -> Markup {
    let (set, progress) = (&info.schedule, &info.progress);
    let paused = progress.state == ScheduleState::Paused;
    html! {
        tr {
            th scope="row" { (set.name) " " @if paused { span.chip { "paused" } } }
            td { span.mono { (set.when) } @if let Some(zone) = &set.zone { " " (zone) } }
            td { a href={ "/queues/" (escaped(&set.terms.queue)) } { (set.terms.queue) } }
            td.nowrap { @if let Some(next) = info.next.first() { (next.rfc3339()) } }
            td.nowrap {
                @if let (Some(due), Some(task)) = (progress.last_due, progress.last_task) {
                    a href={ "/tasks/" (task) } { (since(due, now)) }
                }
            }
            td.n { (count(progress.fired)) }
            td.n { (count(progress.skipped)) }
            td.note { "catch up " (set.catch_up) ", overlap " (set.overlap) }
            @if allowed.steer { td { div.buttons { (acts(info, paused)) } } }
        }
    }
}

fn acts(info: &ScheduleInfo, paused: bool) -> Markup {
    let name = &info.schedule.name;
    let path = |verb: &str| format!("/v1/schedules/{}/{verb}", escaped(name));
    let (verb, text) = if paused {
        ("resume", "It submits tasks again; due times that it missed follow its policy.")
    } else {
        ("pause", "It submits no task until it is resumed.")
    };
    html! {
        button type="button" data-act=(verb) data-path=(path(verb))
            data-what={ "schedule " (name) } data-text=(text) { (verb) }
        button type="button" data-act="run" data-path=(path("run"))
            data-what={ "schedule " (name) } data-text="It submits its task now, whatever its times." { "run now" }
    }
}
