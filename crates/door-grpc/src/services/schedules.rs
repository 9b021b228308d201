//! `tenure.v1.Schedules`: tasks that the broker submits again and again.

use tenure_hub::words::{Answer, Command, Query, Reply as HubReply};
use tonic::{Request, Response};

use super::{GrpcService, Reply};
use crate::proto::tenure::v1 as pb;
use crate::translate;

#[tonic::async_trait]
impl pb::schedules_server::Schedules for GrpcService {
    async fn set(&self, mut request: Request<pb::SetScheduleRequest>) -> Reply<pb::Done> {
        let call = self.control_call(&mut request)?;
        let command = translate::set_schedule(request.into_inner()).map_err(|no| translate::status(&no))?;
        call.command(command).await
    }

    async fn list(&self, mut request: Request<pb::ListSchedulesRequest>) -> Reply<pb::ListSchedulesResponse> {
        let call = self.query_call(&mut request)?;
        let room = call.flow.list_room().await?;
        match call.query(Query::Schedules).await? {
            Answer::Schedules(schedules) => call.flow.reply(room, translate::schedules(&schedules)),
            _ => Err(translate::unexpected()),
        }
    }

    async fn show(&self, mut request: Request<pb::ScheduleRequest>) -> Reply<pb::Schedule> {
        let call = self.query_call(&mut request)?;
        let schedule = translate::name(request.into_inner().schedule);
        match call.query(Query::Schedule { schedule }).await? {
            Answer::Schedules(found) if found.len() == 1 => Ok(Response::new(translate::schedule(&found[0]))),
            _ => Err(translate::unexpected()),
        }
    }

    async fn pause(&self, mut request: Request<pb::ScheduleRequest>) -> Reply<pb::Done> {
        let call = self.control_call(&mut request)?;
        let schedule = translate::name(request.into_inner().schedule);
        call.command(Command::PauseSchedule { schedule }).await
    }

    async fn resume(&self, mut request: Request<pb::ScheduleRequest>) -> Reply<pb::Done> {
        let call = self.control_call(&mut request)?;
        let schedule = translate::name(request.into_inner().schedule);
        call.command(Command::ResumeSchedule { schedule }).await
    }

    async fn remove(&self, mut request: Request<pb::ScheduleRequest>) -> Reply<pb::Done> {
        let call = self.control_call(&mut request)?;
        let schedule = translate::name(request.into_inner().schedule);
        call.command(Command::RemoveSchedule { schedule }).await
    }

    async fn run(&self, mut request: Request<pb::ScheduleRequest>) -> Reply<pb::Accepted> {
        let call = self.control_call(&mut request)?;
        let schedule = translate::name(request.into_inner().schedule);
        let asked = tenure_hub::Request::Command(Command::RunSchedule { schedule });
        let tenure_hub::Response::Command(HubReply::Submitted(each)) = call.ask(asked).await? else {
            return Err(translate::unexpected());
        };
        match each.first().map(translate::accepted).and_then(|verdict| verdict.verdict) {
            Some(pb::verdict::Verdict::Accepted(accepted)) => Ok(Response::new(accepted)),
            Some(pb::verdict::Verdict::Refused(_)) => {
                Err(each[0].as_ref().err().map_or_else(translate::unexpected, translate::status))
            }
            None => Err(translate::unexpected()),
        }
    }
}
