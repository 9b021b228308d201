//! `tenure show`: shows everything about one task, with the history of its attempts.

use std::time::Duration;

use clap::Args;
use serde_json::Value;
use tenure_client::{Client, Event, TaskInfo};

use super::history;
use super::list::note;
use super::which::show;
use crate::args::Global;
use crate::exit::{Failure, OK, Outcome};
use crate::output::paint::{Color, harmless, of_state};
use crate::output::times::{relative, rfc3339};
use crate::output::{self, Screen, events, json};
use crate::units::{counted, show_duration, show_size};

/// Events of one task that are shown: a task that reports progress every second for days has many.
const EVENTS_SHOWN_MAX: usize = 200;
/// How long the log is read for one timeline.
const READING_MAX: Duration = Duration::from_secs(10);

/// Show a task with the timeline of its attempts
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tenure show 0190b5a2-77f0-7cc3-98b4-dc0c0c07398f
  tenure show name:scan-7 -o json
  tenure show name:scan-7 --body > body.bin
  tenure show name:scan-7 --result")]
pub(crate) struct Show {
    /// Task id (at least 6 digits) or name:NAME
    #[arg(value_name = "TASK")]
    task: String,
    /// Write only the body to stdout, unchanged
    #[arg(long, conflicts_with = "result")]
    body: bool,
    /// Write only the result to stdout, unchanged
    #[arg(long)]
    result: bool,
    /// Do not print the timeline
    #[arg(long)]
    no_timeline: bool,
}

impl Show {
    pub(crate) async fn run(&self, client: &Client, global: &Global, screen: &Screen) -> Outcome {
        let task = show(client, &self.task).await?;
        if self.body || self.result {
            let bytes = if self.body { client.body(task.id).await? } else { client.result(task.id).await? };
            output::text::write(&mut std::io::stdout().lock(), &bytes)?;
            return Ok(OK);
        }
        let timeline = if self.no_timeline { Timeline::default() } else { read(global, &task).await? };
        let value = || {
            let mut value = json::task(&task);
            value["timeline"] = timeline.events.iter().map(json::event).collect::<Vec<Value>>().into();
            value
        };
        screen.one(|| text(&task, &timeline, screen), value)?;
        Ok(OK)
    }
}

#[derive(Debug, Default)]
struct Timeline {
    events: Vec<Event>,
    /// Events before this one are no longer kept.
    kept_from: Option<u64>,
    left_out: usize,
}

/// Reads what is kept of the task's events.
async fn read(global: &Global, task: &TaskInfo) -> Result<Timeline, Failure> {
    let mut timeline = Timeline::default();
    let reading = history::of_task(global, task.id, &mut timeline);
    match tokio::time::timeout(READING_MAX, reading).await {
        Ok(result) => result?,
        Err(_) => output::remark("the log is long: the timeline is what could be read in 10 s"),
    }
    Ok(timeline)
}

impl history::Reading for Timeline {
    fn event(&mut self, event: Event) {
        self.add(event);
    }

    fn gap(&mut self, oldest: u64) {
        self.kept_from = Some(oldest);
    }
}

impl Timeline {
    /// Keeps the first half and the newest of what would be too many.
    fn add(&mut self, event: Event) {
        if self.events.len() == EVENTS_SHOWN_MAX {
            self.events.remove(EVENTS_SHOWN_MAX / 2);
            self.left_out += 1;
        }
        self.events.push(event);
    }
}

fn text(task: &TaskInfo, timeline: &Timeline, screen: &Screen) -> String {
    let now = screen.now;
    let mut lines: Vec<(&str, String)> = Vec::new();
    let state = task.state.as_str();
    let note = note(task, now);
    let state_line = screen.paint.apply(of_state(state), state).into_owned();
    lines.push(("task", task.id.to_string()));
    lines.extend(task.name.as_deref().map(|name| ("name", harmless(name).into_owned())));
    lines.push((
        "state",
        if note.is_empty() { state_line } else { format!("{state_line} ({})", harmless(&note)) },
    ));
    lines.push(("queue", harmless(&task.terms.queue).into_owned()));
    lines.push(("priority", task.priority.to_string()));
    if !task.terms.needs.is_empty() {
        lines.push(("needs", harmless(&task.terms.needs.join(", ")).into_owned()));
    }
    if !task.terms.tags.is_empty() {
        lines.push(("tags", harmless(&task.terms.tags.join(", ")).into_owned()));
    }
    lines.extend(task.parent.map(|parent| ("parent", parent.to_string())));
    if task.children > 0 {
        lines.push(("children", task.children.to_string()));
    }
    let by =
        task.terms.submitter.as_deref().map(|name| format!(" by {}", harmless(name))).unwrap_or_default();
    lines.push(("submitted", format!("{}{by}", when(task.submitted_at.0, now))));
    lines.extend(task.not_before.map(|at| ("not before", when(at.0, now))));
    lines.extend(task.expires_at.map(|at| ("expires", when(at.0, now))));
    lines.push(("body", show_size(task.body_bytes)));
    lines.extend(task.checkpoint.as_ref().map(|checkpoint| {
        let (size, at) = (show_size(checkpoint.bytes), when(checkpoint.at.0, now));
        ("checkpoint", format!("{size}, saved by attempt {} {at}", checkpoint.attempt))
    }));
    lines.push(("if lost", policy(task)));
    if task.attempt > 0 {
        lines.push(("attempt", attempts(task)));
    }
    if let Some(holding) = &task.holding {
        lines
            .push(("worker", format!("{}, since {}", harmless(&holding.worker), when(holding.since.0, now))));
    }
    if let Some(end) = &task.end {
        lines.push(("ended", when(end.at.0, now)));
        lines.push(("exit code", end.exit_code.to_string()));
        lines.push(("result", show_size(end.result_bytes)));
        lines.extend(end.message.as_deref().map(|message| ("message", harmless(message).into_owned())));
    }
    let mut text: String = lines.iter().map(|(label, line)| format!("{label:<12}{line}\n")).collect();
    text += &story(timeline, screen);
    text
}

fn story(timeline: &Timeline, screen: &Screen) -> String {
    if timeline.events.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{}\n", screen.paint.apply(Color::Bold, "timeline (UTC)"));
    if let Some(kept_from) = timeline.kept_from {
        text += &format!("  events before number {kept_from} are no longer kept\n");
    }
    for (index, event) in timeline.events.iter().enumerate() {
        if index == EVENTS_SHOWN_MAX / 2 && timeline.left_out > 0 {
            text += &format!("  … {} events left out …\n", timeline.left_out);
        }
        text += &format!("  {}\n", events::line(event, false, event.at.0, screen.paint));
    }
    text
}

fn when(millis: u64, now: u64) -> String {
    format!("{} ({})", rfc3339(millis), relative(millis, now))
}

fn policy(task: &TaskInfo) -> String {
    let terms = &task.terms;
    let mut text = format!("{}, crash {} is one too many", terms.on_lost.as_str(), terms.crash_budget);
    if terms.retries > 0 {
        text += &format!("; {} if it fails", counted(terms.retries.into(), "retry", "retries"));
    }
    if let Some(limit) = terms.run_limit_ms {
        text += &format!("; runs at most {}", show_duration(Duration::from_millis(limit)));
    }
    match terms.cancel_timeout_ms {
        Some(0) => text += "; has as long as it takes to cancel",
        Some(timeout) => {
            text += &format!("; has {} to cancel", show_duration(Duration::from_millis(timeout)));
        }
        None => {}
    }
    text
}

fn attempts(task: &TaskInfo) -> String {
    let mut text = task.attempt.to_string();
    if task.crashes > 0 {
        text += &format!(
            ", {} ({})",
            counted(task.crashes.into(), "crash", "crashes"),
            harmless(&task.crashed_on.join(", "))
        );
    }
    if task.failures > 0 {
        text += &format!(", {}", counted(task.failures.into(), "failure", "failures"));
    }
    text
}
