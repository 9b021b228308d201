//! Events as rows of a list: when, what kind, about what, and a sentence.

use maud::{Markup, html};
use tenure_hub::words::{Event, EventData, EventSubject, Next, Wanted};

use super::format::{bytes, clock, counted, escaped, said_beside, short, span, why_lost};

/// One event. `with_subject` is left out on the page of the task itself.
pub(super) fn row(event: &Event) -> Markup {
    html! {
        li.event data-level=(level(&event.kind)) data-seq=(event.seq) {
            (clock(event.at))
            span.kind { (event.kind.as_str()) }
            span.about { (subject(event)) }
            span.says { (sentence(event)) }
        }
    }
}

/// An event on the page of its task.
pub(super) fn row_of_task(event: &Event) -> Markup {
    let attempt = match &event.about {
        EventSubject::Task { attempt, .. } if *attempt > 0 => Some(*attempt),
        _ => None,
    };
    html! {
        li.event data-level=(level(&event.kind)) data-seq=(event.seq) {
            (clock(event.at))
            span.kind { (event.kind.as_str()) }
            span.about { @if let Some(attempt) = attempt { "attempt " (attempt) } }
            span.says { (sentence(event)) }
        }
    }
}

fn subject(event: &Event) -> Markup {
    match &event.about {
        EventSubject::Task { id, attempt: _, terms } => html! {
            a.mono href={ "/tasks/" (id) } { (short(*id)) } " "
            a.muted href={ "/tasks?queue=" (escaped(&terms.queue)) } { (terms.queue) }
        },
        EventSubject::Worker { worker, .. } => {
            html! { "worker " a href={ "/workers/" (escaped(worker)) } { (worker) } }
        }
        EventSubject::Queue { queue, .. } => {
            html! { "queue " a href={ "/queues/" (escaped(queue)) } { (queue) } }
        }
        EventSubject::Schedule { schedule, .. } => {
            html! { "schedule " a href="/schedules" { (schedule) } }
        }
        EventSubject::Array { id, queue, .. } => html! {
            "array " span.mono { (short(*id)) } " "
            a.muted href={ "/tasks?queue=" (escaped(queue)) } { (queue) }
        },
        EventSubject::Share { share, .. } => html! { "share " (share) },
        EventSubject::Tag { tag, .. } => html! { "tag " a href={ "/tasks?tag=" (escaped(tag)) } { (tag) } },
    }
}

/// How much an event matters to an operator who looks for trouble.
pub(super) fn level(kind: &EventData) -> &'static str {
    match kind {
        EventData::Crashed { .. }
        | EventData::Failed { .. }
        | EventData::Expired
        | EventData::WorkerLost { .. }
        | EventData::WorkerQuarantined { .. } => "bad",
        EventData::HolderLost { .. }
        | EventData::QueueUnserved { .. }
        | EventData::QueueBacklog { .. }
        | EventData::Paused { .. }
        | EventData::ScheduleSkipped { .. }
        | EventData::Cancelled { .. } => "warn",
        EventData::Completed { .. }
        | EventData::HolderReturned { .. }
        | EventData::WorkerReturned
        | EventData::WorkerCleared
        | EventData::QueueServed { .. }
        | EventData::QueueBacklogCleared { .. } => "good",
        EventData::Submitted { .. }
        | EventData::Released
        | EventData::DependenciesMet
        | EventData::Due
        | EventData::Assigned { .. }
        | EventData::Started { .. }
        | EventData::Progress { .. }
        | EventData::Checkpoint { .. }
        | EventData::Suspended { .. }
        | EventData::Continued { .. }
        | EventData::GivenBack { .. }
        | EventData::TakenBack { .. }
        | EventData::CancelRequested { .. }
        | EventData::PauseRequested { .. }
        | EventData::IntentDelivered { .. }
        | EventData::Resumed
        | EventData::Retried
        | EventData::Moved
        | EventData::WorkerRegistered
        | EventData::WorkerLeft
        | EventData::WorkerDraining
        | EventData::QueuePaused
        | EventData::QueueResumed
        | EventData::QueueThresholdsSet { .. }
        | EventData::ScheduleSet
        | EventData::ScheduleFired { .. }
        | EventData::SchedulePaused
        | EventData::ScheduleResumed
        | EventData::ScheduleRemoved
        | EventData::LimitSet { .. }
        | EventData::ArraySubmitted { .. }
        | EventData::ArrayEnded { .. }
        | EventData::ArrayLimitSet { .. }
        | EventData::QueueRateSet { .. }
        | EventData::RateSet { .. }
        | EventData::ShareSet { .. } => "plain",
    }
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn sentence(event: &Event) -> String {
    let because = |reason: &Option<Box<str>>| reason.as_deref().map(str::to_owned).unwrap_or_default();
    match &event.kind {
        EventData::Submitted { unserved, reconciliation } => {
            let by = reconciliation.as_deref().map(|prefix| format!("by the reconciliation of {prefix}*"));
            let why = unserved.as_ref().map(ToString::to_string);
            [by, why].into_iter().flatten().collect::<Vec<_>>().join("; ")
        }
        EventData::Assigned { worker } | EventData::Started { worker } => format!("on {worker}"),
        EventData::Progress { percent, note } => {
            let percent = percent.map(|percent| format!("{percent} %"));
            let parts = [percent, note.as_deref().map(str::to_owned)];
            parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
        }
        EventData::Checkpoint { bytes: length } => format!("{} saved", bytes(u64::from(*length))),
        EventData::GivenBack { worker, reason } => format!("by {worker} {}", because(reason)),
        EventData::TakenBack { worker } => format!("from {worker}"),
        EventData::HolderLost { worker, reason, lease_until } => {
            let left = span(lease_until.since(event.at));
            format!("{worker}: {}; it may return within {left}", why_lost(*reason))
        }
        EventData::HolderReturned { worker } => format!("{worker} continues"),
        EventData::Crashed { worker, reason, next, budget_left } => {
            let left = counted(u64::from(*budget_left), "crash", "crashes");
            format!("{worker}: {}; {}; {left} left", why_lost(*reason), then(*next))
        }
        EventData::CancelRequested { reason }
        | EventData::PauseRequested { reason }
        | EventData::Paused { reason } => because(reason),
        EventData::Cancelled { reason, forced } => {
            let forced = if *forced { "without waiting for the worker " } else { "" };
            format!("{forced}{}", because(reason))
        }
        EventData::Suspended { worker, open } => {
            format!("on {worker}, waits for {}", counted(u64::from(*open), "task", "tasks"))
        }
        EventData::Continued { worker } => format!("on {worker}"),
        EventData::IntentDelivered { wanted, worker } => {
            let wanted = match wanted {
                Wanted::Cancel => "cancel",
                Wanted::Pause => "pause",
            };
            format!("{worker} knows that it should {wanted}")
        }
        EventData::Completed { worker, result } => {
            format!("on {worker}, result of {}", bytes(u64::from(result.bytes())))
        }
        EventData::Failed { worker, exit_code, message, next, .. } => {
            let on = worker.as_deref().map(|worker| format!(" on {worker}")).unwrap_or_default();
            let message =
                said_beside(message, *exit_code).map(|message| format!(": {message}")).unwrap_or_default();
            format!("exit code {exit_code}{on}{message}; {}", then(*next))
        }
        EventData::WorkerLost { reason } => why_lost(*reason).to_owned(),
        EventData::WorkerQuarantined { until, crashes } => {
            let crashes = counted(u64::from(*crashes), "crash", "crashes");
            format!("for {} after {crashes}", span(until.since(event.at)))
        }
        EventData::QueueUnserved { needs } | EventData::QueueServed { needs } if needs.is_empty() => {
            String::new()
        }
        EventData::QueueUnserved { needs } | EventData::QueueServed { needs } => {
            format!("needs {}", needs.iter().map(|need| &**need).collect::<Vec<_>>().join(", "))
        }
        EventData::QueueBacklog { threshold, depth, age }
        | EventData::QueueBacklogCleared { threshold, depth, age } => {
            let tasks = counted(*depth, "task", "tasks");
            format!("{}: {tasks} ready, the oldest for {}", threshold.as_str(), span(*age))
        }
        EventData::QueueThresholdsSet { depth, age } => {
            let depth = depth.map(|depth| counted(u64::from(depth), "task", "tasks"));
            let parts: Vec<String> = depth.into_iter().chain(age.map(span)).collect();
            if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
        }
        EventData::ScheduleFired { due, task } => format!("{} for {}", short(*task), due.rfc3339()),
        EventData::ScheduleSkipped { reason, from, to } if from == to => {
            format!("{}: {}", from.rfc3339(), reason.as_str())
        }
        EventData::ScheduleSkipped { reason, from, to } => {
            format!("{} to {}: {}", from.rfc3339(), to.rfc3339(), reason.as_str())
        }
        EventData::ArraySubmitted { size } => counted(u64::from(*size), "task", "tasks"),
        EventData::ArrayEnded { completed, failed, cancelled } => {
            format!("{completed} completed, {failed} failed, {cancelled} cancelled")
        }
        EventData::QueueRateSet { rate } | EventData::RateSet { rate } => {
            rate.map_or("removed".to_owned(), |rate| rate.to_string())
        }
        EventData::ShareSet { weight } => {
            weight.map_or("the default weight".to_owned(), |weight| format!("weight {weight}"))
        }
        EventData::LimitSet { limit } | EventData::ArrayLimitSet { limit } => {
            limit.map_or("removed".to_owned(), |limit| format!("at most {limit} at once"))
        }
        EventData::Released
        | EventData::DependenciesMet
        | EventData::Due
        | EventData::Resumed
        | EventData::Retried
        | EventData::Moved
        | EventData::Expired
        | EventData::WorkerRegistered
        | EventData::WorkerReturned
        | EventData::WorkerLeft
        | EventData::WorkerDraining
        | EventData::WorkerCleared
        | EventData::QueuePaused
        | EventData::QueueResumed
        | EventData::ScheduleSet
        | EventData::SchedulePaused
        | EventData::ScheduleResumed
        | EventData::ScheduleRemoved => String::new(),
    }
}

/// What becomes of the task.
fn then(next: Next) -> String {
    match next {
        Next::Requeued => "it waits for another worker".to_owned(),
        Next::RetriedAt(at) => format!("it is tried again at {}", at.rfc3339()),
        Next::Paused => "it is paused".to_owned(),
        Next::Failed => "it has failed".to_owned(),
        Next::Cancelled => "it is cancelled".to_owned(),
    }
}
