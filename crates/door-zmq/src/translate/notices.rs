//! Converts task events into notices for the submitting client.

use std::time::Duration;

use tenure_hub::HubRefusal;
use tenure_hub::words::{Event, EventData, EventSubject, Next, Timestamp};

use crate::mdp::{Notice, NoticeJob, NoticeKind};
use crate::settings::Settings;

/// The kinds of events that can become notices.
pub(crate) const NOTICE_KINDS: [&str; 6] =
    ["submitted", "crashed", "failed", "expired", "cancelled", "paused"];

/// The notices for an event: none, one, or a crash and the end of the job.
#[expect(clippy::too_many_lines, reason = "a table")]
pub(crate) fn notices(event: &Event, job_id: Option<&str>, settings: &Settings) -> Vec<Notice> {
    let EventSubject::Task { id, attempt, terms } = &event.about else { return Vec::new() };
    let notice = |kind, message: String, worker: Option<&str>, reason: &str, next: &'static str| Notice {
        kind,
        service: terms.queue.to_string(),
        message,
        at: Duration::from_millis(event.at.millis()),
        event: event.seq,
        job: Some(NoticeJob {
            job_id: job_id.map_or_else(|| id.to_string(), str::to_owned),
            task: id.to_string(),
            worker: worker.map(str::to_owned),
            attempt: *attempt,
            reason: reason.to_owned(),
            next,
        }),
    };
    let failed = |message: String, worker: Option<&str>, reason: &str| {
        notice(NoticeKind::JobFailed, message, worker, reason, Next::Failed.as_str())
    };
    match &event.kind {
        EventData::Submitted { unserved: Some(why), .. } if settings.notify_no_workers => {
            let message = format!("The job waits: {why}.");
            vec![notice(NoticeKind::NoWorkers, message, None, why.code(), "waiting")]
        }
        EventData::Crashed { worker, reason, next, budget_left } => {
            let mut told = Vec::new();
            if settings.notify_worker_crash {
                let message = crash_message(worker, reason.as_str(), *next, *budget_left);
                told.push(notice(
                    NoticeKind::WorkerCrashed,
                    message,
                    Some(worker),
                    reason.as_str(),
                    next.as_str(),
                ));
            }
            if *next == Next::Failed {
                let crashes = terms.crash_budget;
                let message =
                    format!("The job failed: its workers crashed {crashes} times and it is not tried again.");
                told.push(failed(message, Some(worker), "crash-budget"));
            }
            if *next == Next::Cancelled {
                let message = "The job was cancelled; its worker crashed before it confirmed.".to_owned();
                told.push(notice(
                    NoticeKind::JobCancelled,
                    message,
                    Some(worker),
                    reason.as_str(),
                    next.as_str(),
                ));
            }
            told
        }
        EventData::Failed { worker, exit_code, message, next: Next::Failed, .. } => {
            let why = message.as_deref().map_or_else(String::new, |message| format!(": {message}"));
            let reason = format!("exit-code {exit_code}");
            vec![failed(
                format!("The job failed with exit code {exit_code}{why}."),
                worker.as_deref(),
                &reason,
            )]
        }
        EventData::Expired => {
            let message = "The job expired before a worker started it.".to_owned();
            vec![notice(NoticeKind::JobExpired, message, None, "expired", Next::Failed.as_str())]
        }
        EventData::Cancelled { reason, .. } => {
            let why = reason.as_deref().map_or_else(String::new, |reason| format!(": {reason}"));
            let reason = reason.as_deref().unwrap_or("cancelled");
            let next = Next::Cancelled.as_str();
            vec![notice(NoticeKind::JobCancelled, format!("The job was cancelled{why}."), None, reason, next)]
        }
        EventData::Submitted { .. }
        | EventData::Failed { .. }
        | EventData::Paused { .. }
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
        | EventData::HolderLost { .. }
        | EventData::HolderReturned { .. }
        | EventData::CancelRequested { .. }
        | EventData::PauseRequested { .. }
        | EventData::IntentDelivered { .. }
        | EventData::Resumed
        | EventData::Retried
        | EventData::Moved
        | EventData::Completed { .. }
        | EventData::WorkerRegistered
        | EventData::WorkerLost { .. }
        | EventData::WorkerReturned
        | EventData::WorkerLeft
        | EventData::WorkerDraining
        | EventData::WorkerQuarantined { .. }
        | EventData::WorkerCleared
        | EventData::QueuePaused
        | EventData::QueueResumed
        | EventData::QueueUnserved { .. }
        | EventData::QueueServed { .. }
        | EventData::QueueBacklog { .. }
        | EventData::QueueBacklogCleared { .. }
        | EventData::QueueThresholdsSet { .. }
        | EventData::LimitSet { .. }
        | EventData::ScheduleSet
        | EventData::ScheduleFired { .. }
        | EventData::ScheduleSkipped { .. }
        | EventData::SchedulePaused
        | EventData::ScheduleResumed
        | EventData::ScheduleRemoved
        | EventData::ArraySubmitted { .. }
        | EventData::ArrayEnded { .. }
        | EventData::ArrayLimitSet { .. }
        | EventData::QueueRateSet { .. }
        | EventData::RateSet { .. }
        | EventData::ShareSet { .. } => Vec::new(),
    }
}

/// Events that a client asked for are no longer kept.
pub(crate) fn gap_notice(now: Timestamp, from: u64, oldest: u64) -> Notice {
    Notice {
        kind: NoticeKind::Gap,
        service: String::new(),
        message: if oldest < from {
            format!("The log ends before event {from}. It begins again with event {oldest}.")
        } else {
            format!("Events {from} to {} are no longer kept.", oldest.saturating_sub(1))
        },
        at: Duration::from_millis(now.millis()),
        event: oldest.saturating_sub(1),
        job: None,
    }
}

/// A refused job, by its client's name for it. If one call of a batch caused the refusal of the whole, which one.
pub(crate) fn refused(
    now: Timestamp,
    service: &str,
    job_id: &str,
    call: Option<usize>,
    refusal: &HubRefusal,
) -> Notice {
    let message = match call {
        None => format!("The job was refused: {refusal}."),
        Some(call) => format!("The whole batch was refused because of call {}: {refusal}.", call + 1),
    };
    Notice {
        kind: NoticeKind::JobRefused,
        service: service.to_owned(),
        message,
        at: Duration::from_millis(now.millis()),
        event: 0,
        job: Some(NoticeJob {
            job_id: job_id.to_owned(),
            task: String::new(),
            worker: None,
            attempt: 0,
            reason: refusal.code().to_owned(),
            next: "refused",
        }),
    }
}

fn crash_message(worker: &str, reason: &str, next: Next, budget_left: u16) -> String {
    let what = match next {
        Next::Requeued => format!("It will be tried again. Crash budget left: {budget_left}."),
        Next::RetriedAt(_) => "It will be tried again later.".to_owned(),
        Next::Paused => "It is paused until a client resumes it.".to_owned(),
        Next::Failed => "It is not tried again.".to_owned(),
        Next::Cancelled => "A cancel was requested, so it is cancelled.".to_owned(),
    };
    format!("Worker {worker} crashed while it ran the job ({reason}). {what}")
}
