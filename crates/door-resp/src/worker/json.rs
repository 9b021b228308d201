//! Converts the JSON documents of this protocol for the worker actor.

use std::time::Duration;

use bytes::Bytes;
use tenure_door_kit::worker_actor::{self as actor, Figures, Introduction, Status};
use tenure_hub::words::{EXIT_CANCELLED, EXIT_CRASHED, EXIT_EXPIRED, Wanted, WorkerAbout, WorkerStats};

use crate::json::{JobReport, JobUpdate, Outputs, Statistics, WorkerRegistration};

/// The exit code of a failure that names none.
const EXIT_FAILED: i32 = 1;

/// `WORKER.REGISTER`.
pub(crate) fn introduction(registration: &WorkerRegistration) -> Box<Introduction> {
    let text = |text: &str| Some(Box::<str>::from(text));
    Box::new(Introduction {
        slots: registration.slots,
        resources: registration.resources.clone(),
        capabilities: registration.offers().into_iter().map(Into::into).collect(),
        is_specific: registration.capabilities.all().next().is_some(),
        instance: registration.instance.clone(),
        holds: registration.jobs.clone(),
        about: WorkerAbout {
            host: text(&registration.hostname),
            platform: registration.platform.as_deref().and_then(text),
            version: text(&registration.version),
            ..WorkerAbout::default()
        },
        profile: Some(as_text(&registration.json)),
    })
}

/// `WORKER.HEARTBEAT`.
pub(crate) fn figures(statistics: &Statistics) -> Box<Figures> {
    Box::new(Figures {
        stats: WorkerStats {
            cpu_percent: statistics.cpu_percent.map(|percent| percent as f32),
            memory_used: statistics.memory_mb.map(|megabytes| (megabytes * 1_048_576.0) as u64),
            more: vec![("stats".into(), as_text(&statistics.json))],
            ..WorkerStats::default()
        },
        uptime: statistics.uptime_seconds.map(Duration::from_secs),
        tasks: statistics.active_jobs,
    })
}

/// `JOB.UPDATE`.
pub(crate) fn report(update: JobUpdate) -> Box<actor::TaskReport<Outputs>> {
    let JobUpdate { report, attempt, progress_percent, current_task, error, exit_code, outputs, .. } = update;
    let stopped = |wanted, error| {
        let last = Outputs { exit_code, error, ..Outputs::default() };
        Status::Stopped { wanted, last }
    };
    let status = match report {
        None | Some(JobReport::Running) => Status::Running {
            percent: progress_percent.map(|percent| percent.round() as u8),
            note: current_task.map(|task| crate::translate::progress_note(task).into_boxed_str()),
        },
        Some(JobReport::Completed) => Status::Completed,
        Some(JobReport::Failed) => {
            let failure = exit_code.filter(|code| is_failure(*code));
            // A code that means another end to the broker is stored with the outputs.
            let other = if failure.is_none() { exit_code } else { None };
            Status::Failed {
                exit_code: failure.unwrap_or(EXIT_FAILED),
                message: error.map(|error| crate::translate::shortened(error).into_boxed_str()),
                last: Outputs { exit_code: other, ..Outputs::default() },
            }
        }
        Some(JobReport::Cancelled) => stopped(Wanted::Cancel, error),
        Some(JobReport::Paused) => stopped(Wanted::Pause, error),
    };
    Box::new(actor::TaskReport { attempt, outputs, status })
}

/// Whether the broker accepts this as the code of a failure. Other codes mean other ends.
fn is_failure(code: i32) -> bool {
    ![0, EXIT_CANCELLED, EXIT_CRASHED, EXIT_EXPIRED].contains(&code)
}

fn as_text(bytes: &Bytes) -> Box<str> {
    String::from_utf8_lossy(bytes).into_owned().into_boxed_str()
}
