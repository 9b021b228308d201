//! Single requests, one after the other.

use tenure_hub::words::{Answer, Command, Query, TaskInfo};
use tenure_hub::{Ask, Delivery, Request, Response, Session};
use tonic::Status;

use crate::flow::Flow;
use crate::proto::tenure::v1 as pb;
use crate::translate;

/// A session that asks one thing at a time.
pub(crate) struct GrpcCall {
    pub(crate) session: Session,
    /// The memory limits of its connection.
    pub(crate) flow: Flow,
}

impl GrpcCall {
    /// Sends a request and waits for the reply. Ignores notices that arrive meanwhile.
    pub(crate) async fn ask(&self, request: Request) -> Result<Response, Status> {
        self.session.send(vec![Ask { token: 0, request }]).await.map_err(|_| translate::unavailable())?;
        let mut arrived = Vec::new();
        loop {
            self.session.mailbox().arrived().await;
            let is_closed = self.session.mailbox().is_closed();
            self.session.mailbox().take(&mut arrived);
            for delivery in arrived.drain(..) {
                match delivery {
                    Delivery::Reply { reply, .. } => return reply.map_err(|no| translate::status(&no)),
                    Delivery::Ended(why) => return Err(translate::status(&why)),
                    _ => {}
                }
            }
            if is_closed {
                return Err(translate::unavailable());
            }
        }
    }

    pub(crate) async fn query(&self, query: Query) -> Result<Answer, Status> {
        match self.ask(Request::Query(query)).await? {
            Response::Answer(answer) => Ok(answer),
            _ => Err(translate::unexpected()),
        }
    }

    pub(crate) async fn task(&self, query: Query) -> Result<TaskInfo, Status> {
        match self.query(query).await? {
            Answer::Task(info) => Ok(*info),
            _ => Err(translate::unexpected()),
        }
    }

    pub(crate) async fn command(&self, command: Command) -> Result<tonic::Response<pb::Done>, Status> {
        self.ask(Request::Command(command)).await?;
        Ok(tonic::Response::new(pb::Done {}))
    }
}
