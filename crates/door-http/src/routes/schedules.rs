//! `/v1/schedules`: tasks that the broker submits again and again.

use http::StatusCode;
use serde_json::{Value, json};
use tenure_hub::words::{Answer, Command, Name, Query, Reply};
use tenure_hub::{Request, Response};

use super::acts::NoInput;
use crate::call::HttpCall;
use crate::problem::ProblemDetails;
use crate::reply::{self, HttpResult};
use crate::translate::{self, ScheduleInput};

pub(crate) async fn list(call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    match call.hub()?.query(Query::Schedules).await? {
        Answer::Schedules(schedules) => {
            let schedules: Vec<Value> = schedules.iter().map(translate::schedule).collect();
            Ok(reply::json(&json!({ "schedules": schedules })))
        }
        _ => Err(ProblemDetails::unexpected()),
    }
}

pub(crate) async fn show(call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    let schedule = call.name("schedule")?;
    match call.hub()?.query(Query::Schedule { schedule }).await? {
        Answer::Schedules(found) if found.len() == 1 => Ok(reply::json(&translate::schedule(&found[0]))),
        _ => Err(ProblemDetails::unexpected()),
    }
}

pub(crate) async fn set(mut call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    let input: ScheduleInput = call.json().await?;
    let command = input.command(call.name("schedule")?).map_err(|no| translate::problem(&no))?;
    call.hub()?.command(command).await?;
    Ok(reply::no_content())
}

pub(crate) async fn remove(call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    let schedule = call.name("schedule")?;
    call.hub()?.command(Command::RemoveSchedule { schedule }).await?;
    Ok(reply::no_content())
}

pub(crate) async fn pause(call: HttpCall) -> HttpResult {
    steer(call, |schedule| Command::PauseSchedule { schedule }).await
}

pub(crate) async fn resume(call: HttpCall) -> HttpResult {
    steer(call, |schedule| Command::ResumeSchedule { schedule }).await
}

async fn steer(mut call: HttpCall, command: impl FnOnce(Name) -> Command) -> HttpResult {
    call.query.only(&[])?;
    let _: NoInput = call.json_or_default().await?;
    let schedule = call.name("schedule")?;
    call.hub()?.command(command(schedule)).await?;
    Ok(reply::no_content())
}

pub(crate) async fn run(mut call: HttpCall) -> HttpResult {
    call.query.only(&[])?;
    let _: NoInput = call.json_or_default().await?;
    let schedule = call.name("schedule")?;
    let reply = call.hub()?.ask(Request::Command(Command::RunSchedule { schedule })).await?;
    let Response::Command(Reply::Submitted(mut each)) = reply else {
        return Err(ProblemDetails::unexpected());
    };
    let accepted =
        each.pop().ok_or_else(ProblemDetails::unexpected)?.map_err(|no| translate::problem(&no))?;
    let status = if accepted.known { StatusCode::OK } else { StatusCode::CREATED };
    Ok(reply::json_with(status, &translate::accepted(&accepted)))
}
