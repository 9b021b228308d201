//! Converts schedules in both directions.

use tenure_hub::limits::BODY_BYTES_MAX;
use tenure_hub::words::{
    CatchUp, Command, NewSchedule, Overlap, Refusal, ScheduleInfo, ScheduleState, SkipReason,
};
use tenure_wire::schedule;

use super::ask::Template;
use super::notice::terms;
use super::word::{from_span, span, task, time, unknown_word};

pub(crate) fn set_schedule(set: schedule::SetSchedule) -> Result<Command, Refusal> {
    if set.body.len() > BODY_BYTES_MAX {
        return Err(Refusal::TooMany { what: "bytes of body", limit: BODY_BYTES_MAX });
    }
    let mut new = Template::new(set.terms).into_task()?;
    new.priority = set.priority;
    Ok(Command::SetSchedule(Box::new(NewSchedule {
        zone: set.zone,
        catch_up: CatchUp::parse(set.catch_up.as_str()).ok_or(unknown_word("catch_up"))?,
        overlap: Overlap::parse(set.overlap.as_str()).ok_or(unknown_word("overlap"))?,
        jitter: from_span(set.jitter_ms),
        paused: set.paused,
        expires_after: set.expires_after_ms.map(from_span),
        body: set.body.as_ref().into(),
        ..NewSchedule::new(set.schedule, set.when, new)
    })))
}

pub(super) fn schedule_info(info: &ScheduleInfo) -> schedule::ScheduleInfo {
    let (set, progress) = (&info.schedule, &info.progress);
    schedule::ScheduleInfo {
        schedule: set.name.clone(),
        state: match progress.state {
            ScheduleState::Active => schedule::ScheduleState::Active,
            ScheduleState::Paused => schedule::ScheduleState::Paused,
            // The engine has none of these in its table.
            ScheduleState::Removed => schedule::ScheduleState::Other(progress.state.as_str().into()),
        },
        when: set.when.clone(),
        zone: set.zone.clone(),
        catch_up: match set.catch_up {
            CatchUp::None => schedule::CatchUp::None,
            CatchUp::Last => schedule::CatchUp::Last,
            CatchUp::All => schedule::CatchUp::All,
        },
        overlap: match set.overlap {
            Overlap::Skip => schedule::Overlap::Skip,
            Overlap::Queue => schedule::Overlap::Queue,
            Overlap::CancelOld => schedule::Overlap::CancelOld,
        },
        jitter_ms: span(set.jitter),
        created_at: time(set.created_at),
        next: info.next.iter().copied().map(time).collect(),
        last_due: progress.last_due.map(time),
        last_task: progress.last_task.map(task),
        fired: progress.fired,
        skipped: progress.skipped,
        terms: terms(&set.terms),
        priority: set.priority,
        expires_after_ms: set.expires_after.map(span),
        body_bytes: set.body.len() as u64,
    }
}

pub(super) fn skip_reason(reason: SkipReason) -> schedule::SkipReason {
    match reason {
        SkipReason::Missed => schedule::SkipReason::Missed,
        SkipReason::Overlap => schedule::SkipReason::Overlap,
        SkipReason::Exists => schedule::SkipReason::Exists,
        SkipReason::Refused => schedule::SkipReason::Refused,
    }
}
