//! `tenure report`: what happened since yesterday.
//!
//! `tally.rs` counts the events, `text.rs` tells people, `html.rs` makes a page with the plots of `plot.rs`.

mod html;
mod plot;
mod tally;
mod text;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use tenure_client::wire::request::Watch;
use tenure_client::{Client, EventKind, TaskId};

use super::history::{self, Past};
use super::labels::Labels;
use crate::args::Global;
use crate::exit::{Failure, OK, Outcome};
use crate::output::times::{parse_past, rfc3339};
use crate::output::{Screen, remark};
use tally::{Group, ReportTotals, Run};

/// How long the log of events is read.
const READING_MAX: Duration = Duration::from_secs(60);

/// Report what happened: how tasks ended, durations, the slowest, failures by message, machine use
#[derive(Args, Debug)]
#[command(after_help = "\
The report counts events, as far back as the broker keeps them. An attempt that started before the time of the report
counts, but has no duration. Messages that differ only in numbers and ids are one group.

Examples:
  tenure report                                  since midnight yesterday
  tenure report --since 8h --queue images
  tenure report --since 2026-01-31 --html report.html
  tenure report -o json | jq .ended.failed")]
pub(crate) struct Report {
    /// Since this time: 8h, yesterday, 23:30, 2026-01-31
    #[arg(long, value_name = "TIME", default_value = "yesterday")]
    since: String,
    /// Until this time
    #[arg(long, value_name = "TIME", default_value = "now")]
    until: String,
    /// Only tasks of this queue
    #[arg(short, long, value_name = "NAME")]
    queue: Option<String>,
    /// Only tasks of this submitter
    #[arg(long, value_name = "NAME")]
    submitter: Option<String>,
    /// Write a page with plots to this file; it needs no other file and no network
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Everything that a report says.
#[derive(Debug)]
pub(crate) struct Findings {
    since: u64,
    until: u64,
    /// Events before this moment are no longer kept.
    kept_from: Option<u64>,
    tally: ReportTotals,
    slowest: Vec<Slow>,
    failures: Vec<FailureGroup>,
    workers: Vec<WorkerUse>,
}

#[derive(Debug)]
struct Slow {
    run: Run,
    label: String,
}

#[derive(Debug)]
struct FailureGroup {
    message: String,
    group: Group,
    label: String,
}

#[derive(Debug)]
struct WorkerUse {
    worker: String,
    attempts: u64,
    busy: Duration,
    /// Of the time that its slots had, if it is still known how many there are.
    share: Option<f64>,
}

impl Report {
    pub(crate) async fn run(&self, client: &Client, global: &Global, screen: &Screen) -> Outcome {
        let time = |text: &str| parse_past(text, screen.now).map_err(Failure::usage);
        let (since, until) = (time(&self.since)?, time(&self.until)?);
        if since >= until {
            return Err(Failure::usage("--since must be before --until"));
        }
        let (tally, kept_from) = self.read(client, global, since, until).await?;
        let findings = found(client, tally, since, until, kept_from).await?;
        if let Some(file) = &self.html {
            std::fs::write(file, html::page(&findings))
                .map_err(|error| Failure::system(format!("{} cannot be written: {error}", file.display())))?;
            remark(format!("the page is in {}", file.display()));
        }
        screen.one(|| text::render(&findings, screen), || value(&findings))?;
        Ok(OK)
    }

    async fn read(
        &self,
        client: &Client,
        global: &Global,
        since: u64,
        until: u64,
    ) -> Result<(ReportTotals, Option<u64>), Failure> {
        let from = history::number_at(global, client, since).await?;
        let name = |text: &Option<String>| text.as_deref().map(Into::into);
        let watch = Watch {
            from: Some(from),
            queue: name(&self.queue),
            submitter: name(&self.submitter),
            kinds: vec![
                EventKind::Submitted,
                EventKind::Started,
                EventKind::Completed,
                EventKind::Failed,
                EventKind::Crashed,
                EventKind::Cancelled,
                EventKind::Expired,
                EventKind::Suspended,
                EventKind::Continued,
                EventKind::Paused,
                EventKind::GivenBack,
            ],
            ..Watch::default()
        };
        let mut tally = ReportTotals::new(since, until);
        let reading = history::read(global, watch, async |past| {
            if let Past::Event(event) = past {
                if event.at.0 > until {
                    return Ok(ControlFlow::Break(()));
                }
                tally.add(&event);
            }
            Ok(ControlFlow::Continue(()))
        });
        if tokio::time::timeout(READING_MAX, reading).await.transpose_failure()?.is_none() {
            remark("the log is long: the report is about what could be read in a minute");
        }
        // A log that begins later than the report was cut off.
        let first = tally.first_event().filter(|first| first.0 == from && from > 1);
        let kept_from = first.map(|(_, at)| at).filter(|at| *at > since + CUT_OFF_MILLIS);
        Ok((tally, kept_from))
    }
}

/// Events that begin this much later than the report may have been cut off.
const CUT_OFF_MILLIS: u64 = 3_600_000;

trait TransposeFailure<T> {
    fn transpose_failure(self) -> Result<Option<T>, Failure>;
}

impl<T> TransposeFailure<T> for Result<Result<T, Failure>, tokio::time::error::Elapsed> {
    fn transpose_failure(self) -> Result<Option<T>, Failure> {
        match self {
            Ok(read) => read.map(Some),
            Err(_) => Ok(None),
        }
    }
}

/// Looks up what the events do not say: names, and how many slots workers have.
async fn found(
    client: &Client,
    tally: ReportTotals,
    since: u64,
    until: u64,
    kept_from: Option<u64>,
) -> Result<Findings, Failure> {
    let mut labels = Labels::default();
    let mut label = async |task: TaskId| labels.find(client, task).await.to_owned();
    let mut slowest = Vec::new();
    for run in tally.slowest() {
        slowest.push(Slow { label: label(run.task).await, run });
    }
    let mut failures = Vec::new();
    for (message, group) in tally.failures() {
        failures.push(FailureGroup { label: label(group.example).await, message, group });
    }
    let slots = client.workers().await?;
    let span = Duration::from_millis(until - since);
    let workers = tally.workers().into_iter().map(|(worker, attempts, busy)| {
        let known = slots.iter().find(|info| *info.worker == *worker);
        let share = known.map(|info| {
            // A worker has its slots since it is there.
            let there = Duration::from_millis(until.saturating_sub(info.since.0.max(since))).min(span);
            busy.as_secs_f64() / (there.as_secs_f64() * f64::from(info.slots.max(1))).max(f64::MIN_POSITIVE)
        });
        WorkerUse { worker, attempts, busy, share: share.map(|share| share.min(1.0)) }
    });
    let workers = workers.collect();
    Ok(Findings { since, until, kept_from, tally, slowest, failures, workers })
}

fn value(findings: &Findings) -> Value {
    let Findings { tally, .. } = findings;
    let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    let slowest = findings.slowest.iter().map(|slow| {
        json!({
            "task": slow.run.task.to_string(), "attempt": slow.run.attempt, "name": slow.label,
            "worker": slow.run.worker, "duration_ms": millis(slow.run.took),
        })
    });
    let failures = findings.failures.iter().map(|failure| {
        json!({
            "message": failure.message, "count": failure.group.count, "exit_code": failure.group.exit_code,
            "example": failure.group.example.to_string(), "name": failure.label,
        })
    });
    let workers = findings.workers.iter().map(|used| {
        json!({ "worker": used.worker, "attempts": used.attempts, "busy_ms": millis(used.busy), "share": used.share })
    });
    let durations = tally.durations().map(|durations| {
        json!({
            "count": durations.count, "mean_ms": millis(durations.mean), "p50_ms": millis(durations.p50),
            "p90_ms": millis(durations.p90), "max_ms": millis(durations.max), "sum_ms": millis(durations.sum),
        })
    });
    json!({
        "since": rfc3339(findings.since),
        "until": rfc3339(findings.until),
        "kept_from": findings.kept_from.map(rfc3339),
        "submitted": tally.submitted,
        "ended": {
            "completed": tally.completed, "failed": tally.failed, "cancelled": tally.cancelled,
            "expired": tally.expired,
        },
        "retried": tally.retried,
        "crashed": tally.crashed,
        "durations": durations,
        "slowest": slowest.collect::<Vec<_>>(),
        "failures": failures.collect::<Vec<_>>(),
        "workers": workers.collect::<Vec<_>>(),
    })
}
