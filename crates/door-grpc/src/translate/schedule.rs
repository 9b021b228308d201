//! Converts schedules in both directions.

use std::time::Duration;

use tenure_hub::limits::BODY_BYTES_MAX;
use tenure_hub::words::{CatchUp, Command, NewSchedule, Overlap, Refusal, ScheduleInfo};

use super::ask::SubmitTemplate;
use super::notice::terms;
use super::word::{millis, name, some_name};
use crate::proto::tenure::v1 as pb;

pub(crate) fn set_schedule(set: pb::SetScheduleRequest) -> Result<Command, Refusal> {
    if set.body.len() > BODY_BYTES_MAX {
        return Err(Refusal::TooMany { what: "bytes of body", limit: BODY_BYTES_MAX });
    }
    let why = "is none of none, last and all";
    let catch_up = word("catch_up", why, &set.catch_up, CatchUp::parse)?;
    let why = "is none of skip, queue and cancel-old";
    let overlap = word("overlap", why, &set.overlap, Overlap::parse)?;
    let mut task = SubmitTemplate::new(set.terms.unwrap_or_default()).into_task()?;
    task.priority = set.priority;
    Ok(Command::SetSchedule(Box::new(NewSchedule {
        zone: some_name(set.zone),
        catch_up,
        overlap,
        jitter: Duration::from_millis(set.jitter_ms),
        paused: set.paused,
        expires_after: set.expires_after_ms.map(Duration::from_millis),
        body: set.body.as_ref().into(),
        ..NewSchedule::new(name(set.schedule), set.when, task)
    })))
}

fn word<T: Default>(
    what: &'static str,
    why: &'static str,
    text: &str,
    parse: fn(&str) -> Option<T>,
) -> Result<T, Refusal> {
    if text.is_empty() { Ok(T::default()) } else { parse(text).ok_or(Refusal::BadValue { what, why }) }
}

pub(crate) fn schedules(all: &[ScheduleInfo]) -> pb::ListSchedulesResponse {
    pb::ListSchedulesResponse { schedules: all.iter().map(schedule).collect() }
}

pub(crate) fn schedule(info: &ScheduleInfo) -> pb::Schedule {
    let (set, progress) = (&info.schedule, &info.progress);
    pb::Schedule {
        schedule: set.name.to_string(),
        state: progress.state.as_str().to_owned(),
        when: set.when.to_string(),
        zone: set.zone.as_deref().unwrap_or_default().to_owned(),
        catch_up: set.catch_up.as_str().to_owned(),
        overlap: set.overlap.as_str().to_owned(),
        jitter_ms: millis(set.jitter),
        created_at: set.created_at.0,
        next: info.next.iter().map(|time| time.0).collect(),
        last_due: progress.last_due.map(|time| time.0),
        last_task: progress.last_task.map(|task| task.to_string()).unwrap_or_default(),
        fired: progress.fired,
        skipped: progress.skipped,
        terms: Some(terms(&set.terms)),
        priority: set.priority,
        expires_after_ms: set.expires_after.map(millis),
        body_bytes: set.body.len() as u64,
    }
}
