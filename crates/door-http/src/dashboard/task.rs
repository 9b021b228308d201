//! `/tasks/{task}`: everything about one task.

use maud::{Markup, html};
use tenure_hub::wall_clock;
use tenure_hub::words::{Answer, EventFilter, Query, StateName, TaskId, TaskInfo, Timestamp, Why};

use super::format::{ago, bytes, counted, escaped, short, span};
use super::frame::{self, Allowed, Section};
use super::recent::{self, PastEvents};
use super::{attempts, event_rows, family, preview, task_rows, timeline};
use crate::call::HttpCall;
use crate::problem::ProblemDetails;
use crate::reply::HttpResult;
use crate::session::HubAccess;

/// How many events are shown.
const EVENTS_SHOWN: usize = 200;

pub(super) async fn page(call: HttpCall) -> HttpResult {
    call.query.only(&["first"])?;
    let now = wall_clock();
    let mut hub = call.hub()?;
    let id = call.task(&mut hub).await?;
    let task = hub.task(Query::Show { task: id }).await?;
    let why = explain(&mut hub, &task).await?;
    let family = family::gather(&mut hub, &task).await?;
    let past = history(&call, &mut hub, &task).await?;
    let spans = attempts::from_events(task.submitted_at, &past.events);
    let allowed = Allowed::of(call.peer()?);
    let title = task.name.as_deref().map_or_else(|| short(id), str::to_owned);
    let path = |part: &str| format!("/v1/tasks/{id}/{part}");
    let body = preview::of(&call.door.hub, "Body", task.body, &path("body")).await;
    let result = match task.state.end() {
        Some(end) => Some(preview::of(&call.door.hub, "Result", end.result, &path("result")).await),
        None => None,
    };
    let checkpoint = match &task.checkpoint {
        Some(saved) => Some(preview::of(&call.door.hub, "Checkpoint", saved.blob, &path("checkpoint")).await),
        None => None,
    };
    let content = html! {
        div.head {
            h1 { (title) }
            div #state data-live { (task_rows::badge(task.state.name())) }
            div #acts-of-task.buttons data-live { @if allowed.steer { (acts(&task)) } }
        }
        p.mono.muted { (id) }
        div #situation data-live { (situation(&task, why.as_ref(), now)) }
        section #attempts.card data-live aria-labelledby="attempts-title" {
            h2 #attempts-title { "Attempts" small { (counted(u64::from(task.attempt), "attempt", "attempts")) } }
            (timeline::draw(&spans, now))
        }
        div.columns.wide {
            div.stack {
                div #contents.stack data-live {
                    @if let Some(result) = &result { (result) }
                    @if let Some(checkpoint) = &checkpoint { (checkpoint) }
                    (body)
                }
                @if task.attempt > 0 || !task.state.name().has_ended() { (output(id)) }
                section #history.card data-live data-first=[past.events.first().map(|event| event.seq)]
                    aria-labelledby="history-title" { (events(&past)) }
            }
            div.stack {
                section #facts.card data-live aria-labelledby="facts-title" { (facts(&task, now)) }
                section #dependencies.card data-live aria-labelledby="dependencies-title" hidden[task.after.is_empty()] {
                    (dependencies(&task))
                }
                section #family.card data-live aria-labelledby="family-title" { (family.card(&task, now)) }
            }
        }
    };
    frame::page(&call, Section::Tasks, &title, &content)
}

async fn explain(hub: &mut HubAccess, task: &TaskInfo) -> Result<Option<Why>, ProblemDetails> {
    if task.state.name().has_ended() || task.state.name() == StateName::Running {
        return Ok(None);
    }
    match hub.query(Query::Explain { task: task.id }).await? {
        Answer::Why { why, .. } => Ok(Some(why)),
        _ => Err(ProblemDetails::unexpected()),
    }
}

async fn history(
    call: &HttpCall,
    hub: &mut HubAccess,
    task: &TaskInfo,
) -> Result<PastEvents, ProblemDetails> {
    let peer = call.peer()?;
    // A page that is fetched again knows where the task begins.
    let Answer::Counts(counts) = hub.query(Query::Counts).await? else {
        return Err(ProblemDetails::unexpected());
    };
    let first = match call.query.number("first")? {
        Some(first) => first,
        None => recent::first_since(peer, task.submitted_at, counts.last_event).await?,
    };
    let filter = EventFilter { task: Some(task.id), ..EventFilter::default() };
    recent::of_task(peer, filter, first, counts.last_event, EVENTS_SHOWN).await
}

fn acts(task: &TaskInfo) -> Markup {
    use StateName::{
        Assigned, Cancelled, Created, Delayed, Failed, Paused, Ready, Running, Suspended, Waiting,
    };
    let state = task.state.name();
    let offered = [
        ("release", state == Created, false, "The task becomes ready and runs as soon as a worker takes it."),
        ("resume", state == Paused, false, "The task becomes ready again."),
        ("retry", matches!(state, Failed | Cancelled), false, "The task runs again, with fresh budgets."),
        (
            "pause",
            matches!(state, Created | Waiting | Delayed | Ready | Assigned | Running | Suspended),
            true,
            "A worker that runs it is asked to stop; the task waits until it is resumed.",
        ),
        (
            "cancel",
            !state.has_ended(),
            true,
            "A worker that runs it is asked to stop. The task ends as cancelled.",
        ),
    ];
    let what = task.name.as_deref().map_or_else(|| format!("task {}", short(task.id)), str::to_owned);
    html! {
        @for (verb, _, has_reason, text) in offered.into_iter().filter(|offer| offer.1) {
            button type="button" data-act=(verb) data-path={ "/v1/tasks/" (task.id) "/" (verb) } data-what=(what)
                data-text=(text) data-reason=[has_reason.then_some("true")] { (verb) }
        }
    }
}

/// What the task is doing, or why it is not running.
fn situation(task: &TaskInfo, why: Option<&Why>, now: Timestamp) -> Markup {
    html! {
        p.situation data-state=(task.state.name()) {
            @match why {
                Some(why) => { strong { "Not running: " } (why) "." }
                None => { strong { (task.state.name()) } " " (task_rows::note(&task.state, now)) }
            }
        }
    }
}

fn events(past: &PastEvents) -> Markup {
    html! {
        h2 #history-title { "Events" }
        @if let Some(oldest) = past.kept_from { p.muted { "Events before number " (oldest) " are no longer kept." } }
        @if past.is_cut { p.muted { "The log is long: the first and the last events are shown, and not all in between." } }
        @if past.left_out > 0 { p.muted { (counted(past.left_out as u64, "event", "events")) " in between left out." } }
        @if past.events.is_empty() { p.empty { "No event of this task is kept." } }
        @else { ol.events.narrow { @for event in &past.events { (event_rows::row_of_task(event)) } } }
    }
}

fn facts(task: &TaskInfo, now: Timestamp) -> Markup {
    let terms = &task.terms;
    let names =
        |list: &[tenure_hub::words::Name]| list.iter().map(|name| &**name).collect::<Vec<_>>().join(", ");
    html! {
        h2 #facts-title { "Facts" }
        dl.facts {
            dt { "Queue" } dd { a href={ "/queues/" (escaped(&terms.queue)) } { (terms.queue) } }
            dt { "Submitted" }
            dd {
                (ago(task.submitted_at, now)) " by " (terms.submitter)
                @if let Some(prefix) = &task.reconciliation { ", in the reconciliation of " (prefix) "*" }
            }
            dt { "Priority" } dd { (task.priority) }
            @if !terms.needs.is_empty() { dt { "Needs" } dd { (names(&terms.needs)) } }
            @if let Some(share) = &terms.share {
                dt { "Share" }
                dd { (share) }
            }
            @if !terms.tags.is_empty() {
                dt { "Tags" }
                dd { @for tag in &terms.tags { a href={ "/tasks?tag=" (escaped(tag)) } { (tag) } " " } }
            }
            @if let Some(holding) = task.state.holding() {
                dt { "Worker" } dd { a href={ "/workers/" (escaped(&holding.worker)) } { (holding.worker) } }
            }
            @if let Some(at) = task.not_before { dt { "Not before" } dd { (ago(at, now)) } }
            @if let Some(at) = task.expires_at { dt { "Expires" } dd { (ago(at, now)) } }
            dt { "If its worker is lost" } dd { (terms.on_lost.as_str()) ", crash budget " (terms.crash_budget) }
            @if task.crashes > 0 { dt { "Crashes" } dd { (task.crashes) " on " (names(&task.crashed_on)) } }
            dt { "Retries" } dd { (terms.retries) @if task.failures > 0 { ", " (task.failures) " failed" } }
            @if let Some(limit) = terms.run_limit { dt { "Run limit" } dd { (span(limit)) } }
            @if let Some(saved) = &task.checkpoint {
                dt { "Checkpoint" }
                dd {
                    (bytes(u64::from(saved.blob.bytes()))) " by attempt " (saved.attempt) ", " (ago(saved.at, now))
                }
            }
            @if let Some(end) = task.state.end() {
                dt { "Ended" } dd { (ago(end.at, now)) }
                dt { "Exit code" } dd { (end.exit_code) }
                @if let Some(message) = &end.message { dt { "Message" } dd { (message) } }
            }
        }
    }
}

/// What the task prints. A script fills it in as it comes.
fn output(id: TaskId) -> Markup {
    html! {
        section #output.card aria-labelledby="output-title" {
            h2 #output-title { "Output" }
            p #output-note.empty { "Nothing yet." }
            pre #output-text.preview tabindex="0" role="log" aria-labelledby="output-title" hidden
                data-stream={ "/v1/tasks/" (id) "/logs" } {}
        }
    }
}

/// The tasks that this one waits or waited for.
fn dependencies(task: &TaskInfo) -> Markup {
    html! {
        h2 #dependencies-title { "Runs after" small { "if broken: " (task.terms.on_broken.as_str()) } }
        ul.children {
            @for dependency in &task.after {
                li {
                    @if let Some(state) = dependency.state { (task_rows::badge(state)) " " }
                    a href={ "/tasks/" (dependency.task) } {
                        @match &dependency.name {
                            Some(name) => { (name) }
                            None => { span.mono { (short(dependency.task)) } }
                        }
                    }
                    " " span.muted { (dependency.condition.as_str()) ": " (dependency.progress.as_str()) }
                }
            }
        }
    }
}
