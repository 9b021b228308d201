//! Arrays.

use serde_json::{Map, Value, json};
use tenure_hub::words::{ArrayInfo, Command, NewArray, Query, StateName, TaskId};
use tenure_hub::{ArraySubmission, Request};

use super::CallerInfo;
use super::last::LastReply;
use super::render::time;
use super::submit::template;
use crate::codec::Reply;
use crate::command::{ArrayCommand, JobVerb};
use crate::flow::FlowStep;
use crate::json::ArrayDocument;

pub(super) fn start(command: ArrayCommand, speaker: &CallerInfo) -> FlowStep {
    match command {
        ArrayCommand::Submit(document) => submit(*document, speaker),
        ArrayCommand::Get { array } => {
            let query = match array.parse() {
                Ok(array) => Query::Array { array },
                Err(_) => Query::FindArray { name: array.into() },
            };
            FlowStep::Last(Request::Query(query), LastReply::Array)
        }
        ArrayCommand::List { count } => {
            FlowStep::Last(Request::Query(Query::Arrays { cursor: None, limit: count }), LastReply::Arrays)
        }
        ArrayCommand::Limit { array, limit } => {
            with_id(&array, |array| Command::LimitArray { array, limit }, "OK")
        }
        ArrayCommand::Steer { array, verb, reason } => {
            let reason = reason.map(String::into_boxed_str);
            match verb {
                JobVerb::Cancel => {
                    with_id(&array, |task| Command::Cancel { task, reason }, "OK cancellation requested")
                }
                JobVerb::Pause | JobVerb::PauseAndTerminate => {
                    let terminate = verb == JobVerb::PauseAndTerminate;
                    with_id(&array, |task| Command::Pause { task, reason, terminate }, "OK pause requested")
                }
                JobVerb::Resume => with_id(&array, |task| Command::Resume { task }, "OK array resumed"),
                JobVerb::Retry => with_id(&array, |task| Command::Retry { task }, "OK jobs re-queued"),
            }
        }
    }
}

/// A command about an array, and the reply if the broker accepts it.
fn with_id(array: &str, command: impl FnOnce(TaskId) -> Command, done: &'static str) -> FlowStep {
    match array.parse() {
        Ok(id) => FlowStep::Last(Request::Command(command(id)), LastReply::Done(Reply::simple(done))),
        Err(_) => FlowStep::error("ERR Invalid array id: give the id that ARRAY.SUBMIT has returned"),
    }
}

fn submit(document: ArrayDocument, speaker: &CallerInfo) -> FlowStep {
    let ArrayDocument { job, size, first, step, limit, bodies } = document;
    let submission = match template(job, speaker) {
        Ok(submission) => submission,
        Err(reply) => return FlowStep::Reply(reply),
    };
    let array = NewArray { task: submission.task, size, first, step, limit, bodies: Vec::new() };
    let submission = ArraySubmission::new(array, submission.body, bodies);
    FlowStep::Last(Request::SubmitArray(Box::new(submission)), LastReply::ArraySubmitted)
}

pub(super) fn array_json(array: &ArrayInfo) -> Value {
    let counts: Map<String, Value> = StateName::ALL
        .into_iter()
        .filter(|state| array.counts[*state as usize] > 0)
        .map(|state| (state.as_str().to_owned(), array.counts[state as usize].into()))
        .collect();
    json!({
        "array_id": array.id.to_string(),
        "name": array.name.as_deref(),
        "state": array.state.as_str(),
        "queue": &*array.queue,
        "size": array.size,
        "first": array.first,
        "step": array.step,
        "limit": array.limit,
        "submitted_at": time(array.submitted_at),
        "ended_at": array.ended_at.map(time),
        "counts": counts,
    })
}
