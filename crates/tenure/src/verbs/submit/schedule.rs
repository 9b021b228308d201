//! The command-line options of a schedule, for `tenure submit --schedule` and `tenure schedules add`.

use std::time::Duration;

use clap::{Args, ValueEnum};
use tenure_client::{CatchUp, NewSchedule, Overlap, Submission};

use crate::units::parse_duration;

#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Schedule")]
pub(crate) struct ScheduleOptions {
    /// Time zone of the cron expression, such as Europe/Zurich [default: UTC]
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,
    /// What to do about due times that were missed [default: none]
    #[arg(long, value_enum, value_name = "WHICH")]
    catch_up: Option<Missed>,
    /// What to do if the last task has not ended [default: queue]
    #[arg(long, value_enum, value_name = "POLICY")]
    overlap: Option<Overlapping>,
    /// Delay each firing by a part of this time that depends on the schedule and the due time
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    jitter: Option<Duration>,
    /// Fail a task of a schedule if it has not started this long after it was due
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    expires_after: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Missed {
    /// Skip them
    None,
    /// Run the last of them
    Last,
    /// Run all of them, at most 100
    All,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Overlapping {
    /// Skip the due time
    Skip,
    /// Let the new task wait until the last one has ended
    Queue,
    /// Cancel the last task
    CancelOld,
}

impl ScheduleOptions {
    /// Whether anything was said about a schedule.
    pub(crate) fn is_given(&self) -> bool {
        let ScheduleOptions { zone, catch_up, overlap, jitter, expires_after } = self;
        zone.is_some()
            || catch_up.is_some()
            || overlap.is_some()
            || jitter.is_some()
            || expires_after.is_some()
    }

    pub(crate) fn schedule(&self, name: &str, when: &str, task: Submission) -> NewSchedule {
        let mut schedule = NewSchedule::new(name, when, task);
        if let Some(zone) = &self.zone {
            schedule = schedule.zone(zone.as_str());
        }
        if let Some(missed) = self.catch_up {
            schedule = schedule.catch_up(match missed {
                Missed::None => CatchUp::None,
                Missed::Last => CatchUp::Last,
                Missed::All => CatchUp::All,
            });
        }
        if let Some(overlapping) = self.overlap {
            schedule = schedule.overlap(match overlapping {
                Overlapping::Skip => Overlap::Skip,
                Overlapping::Queue => Overlap::Queue,
                Overlapping::CancelOld => Overlap::CancelOld,
            });
        }
        if let Some(jitter) = self.jitter {
            schedule = schedule.jitter(jitter);
        }
        if let Some(span) = self.expires_after {
            schedule = schedule.expires_after(span);
        }
        schedule
    }
}
