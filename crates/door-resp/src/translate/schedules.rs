//! Schedules.

use serde_json::{Value, json};
use tenure_hub::Request;
use tenure_hub::words::{CatchUp, Command, NewSchedule, Overlap, Query, ScheduleInfo};

use super::CallerInfo;
use super::last::LastReply;
use super::render::time;
use super::submit::template;
use crate::codec::Reply;
use crate::command::ScheduleCommand;
use crate::flow::FlowStep;
use crate::json::ScheduleDocument;

pub(super) fn start(command: ScheduleCommand, speaker: &CallerInfo) -> FlowStep {
    let name = |schedule: String| schedule.into();
    match command {
        ScheduleCommand::Set { schedule, document } => set(schedule, *document, speaker),
        ScheduleCommand::Get { schedule } => {
            FlowStep::Last(Request::Query(Query::Schedule { schedule: name(schedule) }), LastReply::Schedule)
        }
        ScheduleCommand::List => FlowStep::Last(Request::Query(Query::Schedules), LastReply::Schedules),
        ScheduleCommand::Delete { schedule } => done(Command::RemoveSchedule { schedule: name(schedule) }),
        ScheduleCommand::Pause { schedule } => done(Command::PauseSchedule { schedule: name(schedule) }),
        ScheduleCommand::Resume { schedule } => done(Command::ResumeSchedule { schedule: name(schedule) }),
        ScheduleCommand::Run { schedule } => FlowStep::Last(
            Request::Command(Command::RunSchedule { schedule: name(schedule) }),
            LastReply::Submitted { name: None },
        ),
    }
}

fn done(command: Command) -> FlowStep {
    FlowStep::Last(Request::Command(command), LastReply::Done(Reply::OK))
}

fn set(schedule: String, document: ScheduleDocument, speaker: &CallerInfo) -> FlowStep {
    let ScheduleDocument { when, zone, catch_up, overlap, jitter, paused, start_within, job } = document;
    let wrong = |field: &str, words: &str| {
        FlowStep::error(format!("ERR Invalid schedule: {field} is none of {words}"))
    };
    let Some(catch_up) = catch_up.as_deref().map_or(Some(CatchUp::default()), CatchUp::parse) else {
        return wrong("catch_up", "none, last and all");
    };
    let Some(overlap) = overlap.as_deref().map_or(Some(Overlap::default()), Overlap::parse) else {
        return wrong("overlap", "skip, queue and cancel-old");
    };
    let submission = match template(job, speaker) {
        Ok(submission) => submission,
        Err(reply) => return FlowStep::Reply(reply),
    };
    done(Command::SetSchedule(Box::new(NewSchedule {
        zone: zone.map(Into::into),
        catch_up,
        overlap,
        jitter: jitter.unwrap_or_default(),
        paused,
        expires_after: start_within,
        body: submission.body.as_ref().into(),
        ..NewSchedule::new(schedule, when, submission.task)
    })))
}

pub(super) fn schedule_json(info: &ScheduleInfo) -> Value {
    let (set, progress) = (&info.schedule, &info.progress);
    json!({
        "schedule": &*set.name,
        "state": progress.state.as_str(),
        "when": set.when,
        "zone": set.zone.as_deref(),
        "catch_up": set.catch_up.as_str(),
        "overlap": set.overlap.as_str(),
        "queue": &*set.terms.queue,
        "next": info.next.iter().copied().map(time).collect::<Vec<_>>(),
        "last_due": progress.last_due.map(time),
        "last_job": progress.last_task.map(|task| task.to_string()),
        "fired": progress.fired,
        "skipped": progress.skipped,
    })
}
