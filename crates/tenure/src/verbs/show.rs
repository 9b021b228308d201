//! `tenure show`: shows everything about one task, with the history of its attempts.

use std::ops::ControlFlow;
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use tenure_client::wire::request::Watch;
use tenure_client::{
    Client, Condition, DependencyInfo, DependencyProgress, Event, Quantity, StateName, TaskInfo,
};

use unicode_width::UnicodeWidthStr;

use super::arrays;
use super::history::{self, Past};
use super::list::note;
use super::which::{Found, show};
use crate::args::Global;
use crate::exit::{Failure, OK, Outcome};
use crate::output::paint::{Color, escape_line, of_state};
use crate::output::table::cut;
use crate::output::times::{relative, rfc3339};
use crate::output::{self, Screen, events, json, label};
use crate::units::{counted, show_duration, show_size};
use crate::work::output::Output;

/// Events of one task that are shown: a task that reports progress every second for days has many.
const EVENTS_SHOWN_MAX: usize = 200;
/// Dependencies of one task that are shown.
const AFTER_SHOWN_MAX: usize = 10;
/// The column in which the values begin.
const LABEL_WIDTH: usize = 12;
/// No name is cut shorter.
const NAME_WIDTH_MIN: usize = 10;
/// How long the log is read for one timeline.
const READING_MAX: Duration = Duration::from_secs(10);

/// The largest body or result that is read to describe a task.
const READ_BYTES_MAX: u64 = 4 << 20;

/// Show a task with the timeline of its attempts, or an array
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tenure show 0190b5a2-77f0-7cc3-98b4-dc0c0c07398f
  tenure show name:scan-7 -o json
  tenure show name:scan-7 --body > body.bin
  tenure show name:scan-7 --result")]
pub(crate) struct Show {
    /// Task or array: its id (the last digits are enough) or name:NAME; ARRAY[INDEX] for a task of an array
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
        let task = match show(client, &self.task).await? {
            Found::Task(task) => *task,
            Found::Array(array) if self.body || self.result => {
                let hint = format!("name an element, such as '{}[{}]'", array.id, array.first);
                return Err(Failure::usage(format!("an array has many bodies and results: {hint}")));
            }
            Found::Array(array) => {
                arrays::show(&array, screen)?;
                return Ok(OK);
            }
        };
        if self.body || self.result {
            let bytes = if self.body { client.body(task.id).await? } else { client.result(task.id).await? };
            output::text::write(&mut std::io::stdout().lock(), &bytes)?;
            return Ok(OK);
        }
        let work = Work::read(client, &task).await;
        let timeline = if self.no_timeline { Timeline::default() } else { read(global, &task).await? };
        let value = || {
            let mut value = json::task(&task);
            value["command"] = work.command.as_deref().into();
            value["cwd"] = work.cwd.as_deref().into();
            value["timeline"] = timeline.events.iter().map(json::event).collect::<Vec<Value>>().into();
            value
        };
        screen.one(|| text(&task, &work, &timeline, screen), value)?;
        Ok(OK)
    }
}

/// What a shell task does and where, as its body and its result tell.
#[derive(Debug, Default)]
struct Work {
    command: Option<String>,
    /// Where it ran.
    cwd: Option<String>,
    /// Where it is to run.
    wanted: Option<String>,
    /// Where it is to run if the worker has that directory.
    submitted_from: Option<String>,
}

impl Work {
    /// Reads both. What cannot be read (a key may not allow it) is not shown.
    async fn read(client: &Client, task: &TaskInfo) -> Work {
        let mut work = Work::default();
        if task.body_bytes <= READ_BYTES_MAX
            && let Ok(body) = client.body(task.id).await
        {
            work.command = label::command_of(&body);
            let body: Value = serde_json::from_slice(&body).unwrap_or_default();
            let text = |field: &str| body.get(field).and_then(Value::as_str).map(str::to_owned);
            if work.command.is_some() {
                (work.wanted, work.submitted_from) = (text("cwd"), text("submitted_from"));
            }
        }
        let has_result =
            task.end.as_ref().is_some_and(|end| (1..=READ_BYTES_MAX).contains(&end.result_bytes));
        if work.command.is_some()
            && has_result
            && let Ok(result) = client.result(task.id).await
        {
            work.cwd = serde_json::from_slice::<Output>(&result).ok().and_then(|output| output.cwd);
        }
        work
    }

    fn directory(&self) -> Option<String> {
        match (&self.cwd, &self.wanted, &self.submitted_from) {
            (Some(ran), _, Some(from)) if ran == from => Some(format!("{ran} (where it was submitted)")),
            (Some(ran), _, Some(from)) => Some(format!("{ran} (private: the worker does not have {from})")),
            (Some(ran), Some(_), None) => Some(ran.clone()),
            (Some(ran), None, None) => Some(format!("{ran} (private)")),
            (None, Some(wanted), _) => Some(wanted.clone()),
            (None, None, Some(from)) => {
                Some(format!("{from} (where it was submitted), if the worker has it"))
            }
            (None, None, None) if self.command.is_some() => Some("private".to_owned()),
            (None, None, None) => None,
        }
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
    let watch = Watch { from: Some(1), task: Some(task.id), ..Watch::default() };
    let reading = history::read(global, watch, async |past| {
        match past {
            Past::Event(event) => timeline.add(event),
            Past::Gap { to, .. } => timeline.kept_from = Some(to + 1),
        }
        Ok(ControlFlow::Continue(()))
    });
    match tokio::time::timeout(READING_MAX, reading).await {
        Ok(result) => result?,
        Err(_) => output::remark("the log is long: the timeline shows what could be read in 10 s"),
    }
    Ok(timeline)
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

fn text(task: &TaskInfo, work: &Work, timeline: &Timeline, screen: &Screen) -> String {
    let now = screen.now;
    let mut lines: Vec<(&str, String)> = Vec::new();
    let state = task.state.as_str();
    let note = label::with_short_ids(&note(task, now));
    let state_line = screen.paint.apply(of_state(state), state).into_owned();
    lines.push(("task", task.id.to_string()));
    lines.extend(task.name.as_deref().map(|name| ("name", escape_line(name).into_owned())));
    lines.push((
        "state",
        if note.is_empty() { state_line } else { format!("{state_line} ({})", escape_line(&note)) },
    ));
    lines.extend(work.command.as_deref().map(|command| ("command", escape_line(command).into_owned())));
    lines.extend(work.directory().map(|directory| ("directory", escape_line(&directory).into_owned())));
    lines.push(("queue", escape_line(&task.terms.queue).into_owned()));
    lines.push(("priority", task.priority.to_string()));
    if !task.terms.needs.is_empty() {
        lines.push(("needs", escape_line(&task.terms.needs.join(", ")).into_owned()));
    }
    if !task.terms.tags.is_empty() {
        lines.push(("tags", escape_line(&task.terms.tags.join(", ")).into_owned()));
    }
    if let Some(share) = &task.terms.share {
        lines.push(("share", escape_line(share).into_owned()));
    }
    lines.extend(task.parent.map(|parent| ("parent", parent.to_string())));
    if task.children > 0 {
        lines.push(("children", task.children.to_string()));
    }
    lines.extend(task.after.iter().take(AFTER_SHOWN_MAX).map(|info| ("after", dependency(info, screen))));
    if task.after.len() > AFTER_SHOWN_MAX {
        lines.push(("", format!("and {} more; -o json lists all", task.after.len() - AFTER_SHOWN_MAX)));
    }
    if !task.after.is_empty() {
        lines.push(("if broken", task.terms.on_broken.to_string()));
    }
    let by =
        task.terms.submitter.as_deref().map(|name| format!(" by {}", escape_line(name))).unwrap_or_default();
    lines.push(("submitted", format!("{}{by}", when(task.submitted_at.0, now))));
    lines.extend(
        task.reconciliation.as_deref().map(|prefix| ("", format!("by {}", events::reconciliation(prefix)))),
    );
    lines.extend(task.not_before.map(|at| ("not before", when(at.0, now))));
    lines.extend(task.expires_at.map(|at| ("expires", when(at.0, now))));
    lines.extend(demand(task));
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
        lines.push(("worker", escape_line(&holding.worker).into_owned()));
        lines.push(("since", when(holding.since.0, now)));
    }
    if let Some(holding) = &task.holding {
        lines.extend(devices("cpus", &holding.cpus));
        lines.extend(devices("gpus", &holding.gpus));
    }
    if let Some(since) = task.suspended_since {
        let waits = match task.open.unwrap_or(0) {
            _ if task.pause.is_some() => "stopped in place until it is resumed".to_owned(),
            0 => "for room on its worker".to_owned(),
            open => format!("for {}", counted(open.into(), "task", "tasks")),
        };
        lines.push(("suspended", format!("{}, {waits}", when(since.0, now))));
    }
    if let Some(end) = &task.end {
        lines.push(("ended", when(end.at.0, now)));
        lines.push(("exit code", end.exit_code.to_string()));
        lines.push(("result", show_size(end.result_bytes)));
        lines.extend(end.message.as_deref().map(|message| ("message", escape_line(message).into_owned())));
    }
    let mut text: String =
        lines.iter().map(|(label, line)| format!("{label:<LABEL_WIDTH$}{line}\n")).collect();
    text += &story(timeline, screen);
    text
}

/// What the task occupies, unless it is one slot.
fn demand(task: &TaskInfo) -> Option<(&'static str, String)> {
    let terms = &task.terms;
    if terms.slots == 1 && terms.resources.is_empty() {
        return None;
    }
    let slots = counted(u64::from(terms.slots), "slot", "slots");
    let resources = terms.resources.iter().map(|resource| {
        format!("{} {}", Quantity(resource.quantity).of(&resource.name), escape_line(&resource.name))
    });
    Some(("occupies", std::iter::once(slots).chain(resources).collect::<Vec<_>>().join(", ")))
}

/// The numbers of the cpus or gpus of the attempt.
fn devices(label: &'static str, numbers: &[u16]) -> Option<(&'static str, String)> {
    let numbers: Vec<String> = numbers.iter().map(u16::to_string).collect();
    (!numbers.is_empty()).then(|| (label, numbers.join(", ")))
}

/// A task that this one waits or waited for.
fn dependency(info: &DependencyInfo, screen: &Screen) -> String {
    let state = info.state.as_ref().map_or("no longer kept", StateName::as_str);
    let condition = match &info.condition {
        Condition::Completed => String::new(),
        condition => format!(", until {condition}"),
    };
    let broken = if info.progress == DependencyProgress::Broken { ", broken" } else { "" };
    let how = format!("({state}{condition}{broken})");
    let Some(name) = info.name.as_deref() else { return format!("{} {how}", label::short(info.task)) };
    let used = LABEL_WIDTH + label::SHORT_DIGITS + how.width() + 2;
    let name = cut(&escape_line(name), screen.line_width().saturating_sub(used).max(NAME_WIDTH_MIN));
    format!("{} {name} {how}", label::short(info.task))
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
            text += &format!("  … {} left out …\n", counted(timeline.left_out as u64, "event", "events"));
        }
        text += &format!("  {}\n", events::line_of_many(event, None, false, &screen.indented(2)));
    }
    text
}

fn when(millis: u64, now: u64) -> String {
    format!("{} ({})", rfc3339(millis), relative(millis, now))
}

fn policy(task: &TaskInfo) -> String {
    let terms = &task.terms;
    let mut text = format!("{}, fails at crash {}", terms.on_lost.as_str(), terms.crash_budget);
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
            escape_line(&task.crashed_on.join(", "))
        );
    }
    if task.failures > 0 {
        text += &format!(", {}", counted(task.failures.into(), "failure", "failures"));
    }
    text
}
