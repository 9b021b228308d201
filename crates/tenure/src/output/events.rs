//! Events as lines for people: when, what, and what happens next.

use std::time::Duration;

use tenure_client::wire::event::Detail;
use tenure_client::wire::words::{LostReason, Next};
use tenure_client::{Event, EventKind, SkipReason, Timestamp};
use unicode_width::UnicodeWidthStr;

use super::Screen;
use super::paint::{Color, Paint, escape_line};
use super::table::cut;
use super::times::{clock, date_and_clock, relative, rfc3339};
use crate::units::{counted, show_duration};

/// A sentence is never cut shorter.
const SENTENCE_WIDTH_MIN: usize = 20;

/// The reconciliation of the names that begin so.
pub(crate) fn reconciliation(prefix: &str) -> String {
    format!("the reconciliation of {}*", escape_line(prefix))
}

/// One line.
pub(crate) fn line(event: &Event, now: u64, paint: Paint) -> String {
    let time = paint.apply(Color::Dim, clock(event.at.0));
    format!("{time}  {}", paint.apply(color(event), sentence(event, now)))
}

/// One line of a stream of many tasks, no wider than the terminal. `called` names the task.
pub(crate) fn line_of_many(event: &Event, called: Option<&str>, with_date: bool, screen: &Screen) -> String {
    let (at, paint) = (event.at.0, screen.paint);
    let time = if with_date { date_and_clock(at) } else { clock(at) };
    let called = called.map(|called| format!("{called}  ")).unwrap_or_default();
    let room = screen.line_width().saturating_sub(time.width() + 2 + called.width());
    let sentence = sentence(event, at);
    let sentence = cut(&sentence, room.max(SENTENCE_WIDTH_MIN));
    format!("{}  {called}{}", paint.apply(Color::Dim, time), paint.apply(color(event), sentence))
}

/// The event in a few words.
#[expect(clippy::too_many_lines, reason = "a table")]
pub(crate) fn sentence(event: &Event, now: u64) -> String {
    let nothing = Detail::default();
    let more = event.more.as_deref().unwrap_or(&nothing);
    let worker = event.worker.as_deref().map(escape_line).unwrap_or_default();
    let attempt = event.attempt;
    let because =
        more.reason.as_deref().map(|reason| format!(": {}", escape_line(reason))).unwrap_or_default();
    match &event.kind {
        EventKind::Submitted => {
            let queue = event.queue.as_deref().map(escape_line).unwrap_or_default();
            let by = more.reconciliation.as_deref().map(reconciliation);
            let by = by.map(|by| format!(" by {by}")).unwrap_or_default();
            match &more.unserved {
                Some(why) => format!("submitted{by} to queue {queue}, but {}", escape_line(&why.message)),
                None => format!("submitted{by} to queue {queue}"),
            }
        }
        EventKind::DependenciesMet => "what it waited for has ended".to_owned(),
        EventKind::Assigned => format!("attempt {attempt} assigned to worker {worker}"),
        EventKind::Started => format!("attempt {attempt} started by worker {worker}"),
        EventKind::Progress => {
            let percent = more.percent.map(|percent| format!(" {percent} %")).unwrap_or_default();
            let note = more.note.as_deref().map(|note| format!(" {}", escape_line(note))).unwrap_or_default();
            format!("progress{percent}{note}")
        }
        EventKind::Checkpoint => match more.bytes {
            0 => "checkpoint removed".to_owned(),
            bytes => format!("attempt {attempt} saved a checkpoint of {}", counted(bytes, "byte", "bytes")),
        },
        EventKind::Suspended => {
            let open = u64::from(more.open.unwrap_or(0));
            format!("attempt {attempt} waits for {}", counted(open, "task", "tasks"))
        }
        EventKind::Continued => format!("attempt {attempt} continues on worker {worker}"),
        EventKind::GivenBack => format!("given back by worker {worker}{because}"),
        EventKind::TakenBack => format!("taken back from worker {worker}"),
        EventKind::HolderLost => {
            let until = more.lease_until.map(|until| relative(until.0, now)).unwrap_or_default();
            format!("worker {worker} lost: {}; its lease ends {until}", lost(more))
        }
        EventKind::HolderReturned => format!("worker {worker} reconnected and continues"),
        EventKind::Crashed => {
            let budget =
                more.budget_left.map(|left| format!(", crash budget left: {left}")).unwrap_or_default();
            let (lost, next) = (lost(more), next(more, now));
            format!("attempt {attempt} crashed on worker {worker}: {lost}; {next}{budget}")
        }
        EventKind::CancelRequested => format!("cancel requested{because}"),
        EventKind::PauseRequested => format!("pause requested{because}"),
        EventKind::IntentDelivered => {
            let wanted = more.wanted.as_ref().map_or("stop", |wanted| wanted.as_str());
            format!("worker {worker} received the request to {wanted}")
        }
        EventKind::Paused => format!("paused{because}"),
        EventKind::Completed => {
            format!("completed by worker {worker}, {} of result", counted(more.result_bytes, "byte", "bytes"))
        }
        EventKind::Failed => {
            let code = more.exit_code.unwrap_or_default();
            let next = next(more, now);
            match more.message.as_deref().map(escape_line) {
                // The shell worker's messages begin with the code.
                Some(message) if message.contains("exit code") => format!("failed with {message}; {next}"),
                Some(message) => format!("failed with exit code {code} ({message}): {next}"),
                None => format!("failed with exit code {code}: {next}"),
            }
        }
        EventKind::Expired => "expired: it did not start in time".to_owned(),
        EventKind::Cancelled => {
            let forced = if more.forced { " without confirmation by the worker" } else { "" };
            format!("cancelled{forced}{because}")
        }
        EventKind::RateSet => {
            let tag = more.tag.as_deref().map(escape_line).unwrap_or_default();
            format!(
                "rate of tag {tag} is now {}",
                more.rate.map_or("none".to_owned(), |rate| rate.to_string())
            )
        }
        EventKind::QueueRateSet => {
            let queue = event.queue.as_deref().map(escape_line).unwrap_or_default();
            let rate = more.rate.map_or("none".to_owned(), |rate| rate.to_string());
            format!("rate of queue {queue} is now {rate}")
        }
        EventKind::ShareSet => {
            let share = more.share.as_deref().map(escape_line).unwrap_or_default();
            let weight = more.weight.map_or("the default".to_owned(), |weight| weight.to_string());
            format!("weight of share {share} is now {weight}")
        }
        EventKind::LimitSet => {
            let tag = more.tag.as_deref().map(escape_line).unwrap_or_default();
            let limit = more.limit.map_or("none".to_owned(), |limit| limit.to_string());
            format!("limit of tag {tag} is now {limit}")
        }
        EventKind::ArraySubmitted => {
            let size = counted(u64::from(more.size.unwrap_or_default()), "task", "tasks");
            format!("array of {size} submitted")
        }
        EventKind::ArrayEnded => {
            let [completed, failed, cancelled] =
                [more.completed, more.failed, more.cancelled].map(Option::unwrap_or_default);
            format!("array ended: {completed} completed, {failed} failed, {cancelled} cancelled")
        }
        EventKind::ArrayLimitSet => {
            let limit = more.limit.map_or("none".to_owned(), |limit| limit.to_string());
            format!("limit of the array is now {limit}")
        }
        _ => schedule_sentence(event, more)
            .or_else(|| worker_or_queue_sentence(event, more, now))
            .unwrap_or_else(|| format!("{}{because}", event.kind.as_str())),
    }
}

/// The sentence of an event about a schedule.
fn schedule_sentence(event: &Event, more: &Detail) -> Option<String> {
    let schedule = more.schedule.as_deref().map(escape_line)?;
    let time = |at: Option<Timestamp>| at.map(|at| rfc3339(at.0)).unwrap_or_default();
    Some(match &event.kind {
        EventKind::ScheduleFired => {
            let task = more.task.map(|task| task.to_string()).unwrap_or_default();
            format!("schedule {schedule} submitted task {task} for {}", time(more.due))
        }
        EventKind::ScheduleSkipped => {
            let why = match &more.skipped {
                Some(SkipReason::Missed) => "they were missed",
                Some(SkipReason::Overlap) => "its last task has not ended",
                Some(SkipReason::Exists) => "there is a task of that name",
                Some(SkipReason::Refused) => "the broker could not accept the task",
                Some(other) => other.as_str(),
                None => "unknown reason",
            };
            let (from, to) = (time(more.from), time(more.to));
            let times = if from == to { from } else { format!("{from} to {to}") };
            format!("schedule {schedule} skipped {times}: {why}")
        }
        kind => format!("schedule {schedule} was {}", kind.as_str().trim_start_matches("schedule-")),
    })
}

/// The sentence of an event about a worker or a queue.
fn worker_or_queue_sentence(event: &Event, more: &Detail, now: u64) -> Option<String> {
    let worker = event.worker.as_deref().map(escape_line).unwrap_or_default();
    let sentence = match &event.kind {
        EventKind::WorkerRegistered => format!("worker {worker} registered"),
        EventKind::WorkerLost => format!("worker {worker} lost: {}", lost(more)),
        EventKind::WorkerReturned => format!("worker {worker} reconnected"),
        EventKind::WorkerLeft => format!("worker {worker} left"),
        EventKind::WorkerDraining => format!("worker {worker} is draining"),
        EventKind::WorkerQuarantined => {
            let until = more.until.map(|until| relative(until.0, now)).unwrap_or_default();
            format!(
                "worker {worker} is quarantined after {}, ends {until}",
                counted(u64::from(more.crashes.unwrap_or_default()), "crash", "crashes")
            )
        }
        EventKind::WorkerCleared => format!("worker {worker}: quarantine lifted"),
        EventKind::QueuePaused
        | EventKind::QueueResumed
        | EventKind::QueueUnserved
        | EventKind::QueueServed => {
            let queue = event.queue.as_deref().map(escape_line).unwrap_or_default();
            format!("queue {queue} is {}", event.kind.as_str().trim_start_matches("queue-"))
        }
        EventKind::QueueBacklog | EventKind::QueueBacklogCleared => {
            let queue = event.queue.as_deref().map(escape_line).unwrap_or_default();
            let age = show_duration(Duration::from_millis(more.age_ms.unwrap_or_default()));
            let ready = match more.depth.unwrap_or_default() {
                0 => "no task is ready".to_owned(),
                depth => format!("{} ready, one for {age}", counted(depth, "task is", "tasks are")),
            };
            let by = more.threshold.as_ref().map_or("unknown", |threshold| threshold.as_str());
            let what = if event.kind == EventKind::QueueBacklog { "has a" } else { "has cleared its" };
            format!("queue {queue} {what} backlog (by {by}): {ready}")
        }
        EventKind::QueueThresholdsSet => {
            let queue = event.queue.as_deref().map(escape_line).unwrap_or_default();
            let depth = more.depth.map_or("no depth".to_owned(), |depth| format!("depth {depth}"));
            let age = more.age_ms.map(|age| show_duration(Duration::from_millis(age)));
            let age = age.map_or("no age".to_owned(), |age| format!("age {age}"));
            format!("thresholds of queue {queue} are now {depth}, {age}")
        }
        _ => return None,
    };
    Some(sentence)
}

/// Why the broker considers a worker or an attempt lost.
pub(crate) fn lost(more: &Detail) -> &str {
    match &more.lost {
        Some(LostReason::ConnectionClosed) => "connection closed",
        Some(LostReason::HeartbeatMissed) => "heartbeats missed",
        Some(LostReason::RunLimit) => "run limit exceeded",
        Some(LostReason::WorkerSaidSo) => "reported by the worker",
        Some(LostReason::Forgotten) => "the worker no longer has the task",
        Some(LostReason::NotBackAfterRestart) => "the worker did not reconnect after the broker restart",
        Some(other) => other.as_str(),
        None => "unknown reason",
    }
}

fn next(more: &Detail, now: u64) -> String {
    match (&more.next, more.retry_at) {
        (Some(Next::Requeued), _) => "requeued".to_owned(),
        // A delay of less than a second is shown as it is, because it would be rounded to "now".
        (Some(Next::Retried), Some(at)) if at.0 > now && at.0 - now < 1_000 => {
            format!("retry in {}", show_duration(Duration::from_millis(at.0 - now)))
        }
        (Some(Next::Retried), Some(at)) => format!("retry {}", relative(at.0, now)),
        (Some(Next::Paused), _) => "paused until resumed".to_owned(),
        (Some(Next::Failed), _) => "the task failed".to_owned(),
        (Some(next), _) => next.as_str().to_owned(),
        (None, _) => "ended".to_owned(),
    }
}

fn color(event: &Event) -> Color {
    match event.kind {
        EventKind::Completed => Color::Green,
        EventKind::Failed | EventKind::Crashed | EventKind::Expired | EventKind::WorkerQuarantined => {
            Color::Red
        }
        EventKind::HolderLost
        | EventKind::WorkerLost
        | EventKind::QueueUnserved
        | EventKind::QueueBacklog
        | EventKind::Cancelled
        | EventKind::Paused => Color::Yellow,
        _ => Color::Plain,
    }
}
