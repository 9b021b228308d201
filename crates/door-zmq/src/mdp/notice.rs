//! Notices: unrequested messages to a client about its jobs.

use std::time::Duration;

use bytes::Bytes;

use super::cbor::{self, CborWriter, wrote};
use super::timestamp::iso8601;

/// Maximum number of jobs in one notice. Many crashes at once need several.
pub const NOTICE_JOBS_MAX: usize = 1000;

/// One piece of news.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub kind: NoticeKind,
    pub service: String,
    /// A sentence for a person.
    pub message: String,
    /// When it happened, since 1970.
    pub at: Duration,
    /// The number of its event: a returning client asks for everything after the last one it saw.
    pub event: u64,
    pub job: Option<NoticeJob>,
}

/// What happened, by its name on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NoticeKind {
    /// The worker died while it ran the job.
    WorkerCrashed,
    /// No worker serves the service now; the job waits.
    NoWorkers,
    /// The job is over without a result.
    JobFailed,
    /// The job waited longer than it may.
    JobExpired,
    /// A client cancelled the job.
    JobCancelled,
    /// The broker refused the job.
    JobRefused,
    /// Events before this one are no longer kept.
    Gap,
}

/// The job a notice is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoticeJob {
    /// The client's own `JobID`, or the task's id where it gave none.
    pub job_id: String,
    /// The task's id in this broker.
    pub task: String,
    pub worker: Option<String>,
    pub attempt: u32,
    pub reason: String,
    /// What happens next to the job: `requeued`, `paused`, `failed`.
    pub next: &'static str,
}

/// The content of the service frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SlotStyle {
    /// Nothing: what `_PL` clients expect.
    #[default]
    Empty,
    /// The command byte of the notice.
    Command,
}

impl NoticeKind {
    pub fn name(self) -> &'static str {
        match self {
            NoticeKind::WorkerCrashed => "WORKER_CRASHED",
            NoticeKind::NoWorkers => "NO_WORKERS",
            NoticeKind::JobFailed => "JOB_FAILED",
            NoticeKind::JobExpired => "JOB_EXPIRED",
            NoticeKind::JobCancelled => "JOB_CANCELLED",
            NoticeKind::JobRefused => "JOB_REFUSED",
            NoticeKind::Gap => "GAP",
        }
    }

    /// The command byte, for the two kinds that have one.
    fn command(self) -> &'static [u8] {
        match self {
            NoticeKind::WorkerCrashed => &[8],
            NoticeKind::NoWorkers => &[9],
            NoticeKind::JobFailed
            | NoticeKind::JobExpired
            | NoticeKind::JobCancelled
            | NoticeKind::JobRefused
            | NoticeKind::Gap => &[],
        }
    }
}

impl SlotStyle {
    pub(super) fn slot(self, kind: NoticeKind) -> &'static [u8] {
        match self {
            SlotStyle::Empty => &[],
            SlotStyle::Command => kind.command(),
        }
    }
}

/// Encodes one notice, or several of one kind as one. The first is at the top, where a client without support for
/// batches reads it; `count` and `jobs` describe all of them.
pub(crate) fn encode(notices: &[Notice]) -> Bytes {
    let mut out = cbor::writer();
    let Some(first) = notices.first() else { return Bytes::new() };
    let batch = notices.len() > 1;
    wrote(out.map(1 + fields(first) + if batch { 2 } else { 0 }));
    text(&mut out, "error", first.kind.name());
    write_fields(&mut out, first);
    if batch {
        wrote(wrote(out.str("count")).u64(notices.len() as u64));
        wrote(wrote(out.str("jobs")).array(notices.len() as u64));
        for notice in notices {
            wrote(out.map(fields(notice)));
            write_fields(&mut out, notice);
        }
    }
    out.into_writer().into()
}

/// How many entries [`write_fields`] writes.
fn fields(notice: &Notice) -> u64 {
    4 + notice.job.as_ref().map_or(0, |job| 5 + u64::from(job.worker.is_some()))
}

fn write_fields(out: &mut CborWriter, notice: &Notice) {
    text(out, "service", &notice.service);
    text(out, "message", &notice.message);
    text(out, "timestamp", &iso8601(notice.at));
    wrote(wrote(out.str("event")).u64(notice.event));
    if let Some(job) = &notice.job {
        text(out, "job_id", &job.job_id);
        text(out, "task", &job.task);
        if let Some(worker) = &job.worker {
            text(out, "worker", worker);
        }
        wrote(wrote(out.str("attempt")).u32(job.attempt));
        text(out, "reason", &job.reason);
        text(out, "next", job.next);
    }
}

fn text(out: &mut CborWriter, key: &str, value: &str) {
    wrote(wrote(out.str(key)).str(value));
}
