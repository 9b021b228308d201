//! Tasks as rows of a table.

use maud::{Markup, html};
use tenure_hub::words::{PauseCause, StateName, TaskInfo, TaskState, Timestamp, Wanted};

use super::format::{ago, counted, escaped, said_beside, short};

pub(super) fn badge(state: StateName) -> Markup {
    html! { span.state data-state=(state) { (state) } }
}

/// A table of tasks; with boxes to select them, if the viewer may act on them.
pub(super) fn table(caption: &str, tasks: &[TaskInfo], is_selectable: bool, now: Timestamp) -> Markup {
    html! {
        div.scroll {
            table.cards.tasks {
                caption.sr { (caption) }
                thead { tr {
                    @if is_selectable {
                        th.box scope="col" { input #select-all type="checkbox" aria-label="Select all tasks of this page"; }
                    }
                    th scope="col" { "State" } th scope="col" { "Task" } th scope="col" { "Queue" }
                    th.n scope="col" { "Priority" } th.n scope="col" { "Attempt" } th scope="col" { "Notes" }
                    th scope="col" { "Submitted" }
                } }
                tbody { @for task in tasks { (row(task, is_selectable, now)) } }
            }
        }
    }
}

fn row(task: &TaskInfo, is_selectable: bool, now: Timestamp) -> Markup {
    let label = task.name.as_deref().map_or_else(|| short(task.id), str::to_owned);
    html! {
        tr data-href={ "/tasks/" (task.id) } {
            @if is_selectable {
                td.box {
                    input type="checkbox" name="task" value=(task.id) aria-label={ "Select " (label) };
                }
            }
            td { (badge(task.state.name())) }
            td.task {
                a href={ "/tasks/" (task.id) } {
                    @if let Some(name) = &task.name { strong { (name) } " " }
                    span.mono { (short(task.id)) }
                }
            }
            td.queue { a.quiet href={ "/tasks?queue=" (escaped(&task.terms.queue)) } { (task.terms.queue) } }
            td.n { (task.priority) }
            td.n {
                (task.attempt)
                @if task.crashes > 0 { " " span.chip.bad title="Crashes" { (task.crashes) " crashed" } }
            }
            td.note { (note(&task.state, now)) }
            td.submitted { (ago(task.submitted_at, now)) }
        }
    }
}

/// What to know about a task in its state.
pub(super) fn note(state: &TaskState, now: Timestamp) -> Markup {
    match state {
        TaskState::Created => html! { "held back until it is released" },
        TaskState::Waiting { open } => {
            html! { "after " (counted(u64::from(*open), "other task", "other tasks")) }
        }
        TaskState::Delayed { until } => html! { "due " (ago(*until, now)) },
        TaskState::Ready { since } => html! { "ready for " (super::format::since(*since, now)) },
        TaskState::Assigned(holding) | TaskState::Running(holding) => html! {
            "on " a.quiet href={ "/workers/" (escaped(&holding.worker)) } { (holding.worker) }
            @if let Some(started) = holding.started_at { " for " (super::format::since(started, now)) }
            @if let Some(intent) = &holding.intent {
                @match intent.wanted {
                    Wanted::Cancel => { ", asked to cancel" }
                    Wanted::Pause => { ", asked to pause" }
                }
            }
            @if let Some(progress) = &holding.progress {
                @if let Some(percent) = progress.percent {
                    " " progress max="100" value=(percent) aria-label="Progress" {} " " (percent) " %"
                }
                @if let Some(note) = &progress.note { " " span.muted { (note) } }
            }
        },
        TaskState::Suspended(suspension) => {
            let (holding, open) = (&suspension.holding, u64::from(suspension.open()));
            html! {
                @if suspension.is_paused() {
                    "paused, kept"
                } @else if open > 0 {
                    "waits for " (counted(open, "other task", "other tasks"))
                } @else {
                    "waits for room"
                }
                " on " a.quiet href={ "/workers/" (escaped(&holding.worker)) } { (holding.worker) }
                " since " (ago(suspension.since, now))
            }
        }
        TaskState::Paused(pause) => html! {
            @match pause.why {
                PauseCause::Asked => { "paused" }
                PauseCause::WorkerLost => { "its worker was lost" }
                PauseCause::CrashBudget => { "it crashed too often" }
                PauseCause::DependencyBroken => { "a task it waits for ended otherwise" }
            }
            " " (ago(pause.since, now))
            @if let Some(reason) = &pause.reason { ": " (reason) }
        },
        TaskState::Completed(end) => html! { (ago(end.at, now)) },
        TaskState::Failed(end) | TaskState::Cancelled(end) => html! {
            (ago(end.at, now))
            @if let TaskState::Failed(_) = state { ", exit code " (end.exit_code) }
            @if let Some(message) = said_beside(&end.message, end.exit_code) { ": " (message) }
        },
    }
}
