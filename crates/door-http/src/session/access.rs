//! Single requests to the hub, one after the other.

use std::sync::Arc;

use tenure_hub::words::{Answer, Command, Query, TaskInfo};
use tenure_hub::{Ask, Delivery, HubRefusal, Request, Response, Session};

use crate::authentication::HttpPeer;
use crate::problem::ProblemDetails;
use crate::server::HttpConnection;
use crate::translate;

/// A session that asks the hub one thing at a time. It goes back to its connection's pool when it is dropped, unless
/// an answer is still to come.
#[derive(Debug)]
pub(crate) struct HubAccess {
    peer: HttpPeer,
    connection: Arc<HttpConnection>,
    session: Option<Session>,
    /// Requests whose answer has not come.
    unanswered: usize,
}

impl HubAccess {
    pub(crate) fn open(
        peer: &HttpPeer,
        connection: &Arc<HttpConnection>,
    ) -> Result<HubAccess, ProblemDetails> {
        let session = match connection.sessions.take(peer) {
            Some(session) => session,
            None => peer.open()?,
        };
        let (peer, connection) = (peer.clone(), Arc::clone(connection));
        Ok(HubAccess { peer, connection, session: Some(session), unanswered: 0 })
    }

    /// Sends a request and waits for its reply.
    pub(crate) async fn ask(&mut self, request: Request) -> Result<Response, ProblemDetails> {
        self.ask_raw(request).await.map_err(|no| translate::problem(&no))
    }

    /// The same with the refusal as the hub gives it.
    pub(crate) async fn ask_raw(&mut self, request: Request) -> Result<Response, HubRefusal> {
        let mut replies = self.ask_many(vec![request]).await?;
        replies.pop().unwrap_or(Err(HubRefusal::Draining))
    }

    /// Sends several requests at once. The replies come in the same order.
    pub(crate) async fn ask_many(
        &mut self,
        requests: Vec<Request>,
    ) -> Result<Vec<Result<Response, HubRefusal>>, HubRefusal> {
        let count = requests.len();
        let session = self.session.as_ref().expect("it is there until this is dropped");
        let asks = requests.into_iter().map(|request| Ask { token: 0, request }).collect();
        self.unanswered += count;
        session.send(asks).await.map_err(|_| HubRefusal::Draining)?;
        let mut replies = Vec::with_capacity(count);
        let mut arrived = Vec::new();
        while replies.len() < count {
            session.mailbox().arrived().await;
            let is_closed = session.mailbox().is_closed();
            session.mailbox().take(&mut arrived);
            for delivery in arrived.drain(..) {
                match delivery {
                    Delivery::Reply { reply, .. } => {
                        self.unanswered -= 1;
                        replies.push(reply);
                    }
                    Delivery::Ended(why) => return Err(why),
                    // The hub stops, but still answers what it was asked before.
                    Delivery::Goodbye => {}
                    // This session has asked for nothing else.
                    Delivery::Notice(_)
                    | Delivery::Event { .. }
                    | Delivery::Gap { .. }
                    | Delivery::Live { .. }
                    | Delivery::Call { .. }
                    | Delivery::CallAnswered { .. }
                    | Delivery::CallGivenUp { .. }
                    | Delivery::Broadcast(_) => {}
                }
            }
            if is_closed {
                return Err(HubRefusal::Draining);
            }
        }
        Ok(replies)
    }

    pub(crate) async fn query(&mut self, query: Query) -> Result<Answer, ProblemDetails> {
        match self.ask(Request::Query(query)).await? {
            Response::Answer(answer) => Ok(answer),
            _ => Err(ProblemDetails::unexpected()),
        }
    }

    pub(crate) async fn task(&mut self, query: Query) -> Result<TaskInfo, ProblemDetails> {
        match self.query(query).await? {
            Answer::Task(info) => Ok(*info),
            _ => Err(ProblemDetails::unexpected()),
        }
    }

    pub(crate) async fn command(&mut self, command: Command) -> Result<(), ProblemDetails> {
        self.ask(Request::Command(command)).await.map(drop)
    }
}

impl Drop for HubAccess {
    fn drop(&mut self) {
        let Some(session) = self.session.take() else { return };
        // An answer that is still to come would be taken for the answer to the next request.
        if self.unanswered == 0 && !session.mailbox().is_closed() {
            self.connection.sessions.put_back(self.peer.clone(), session);
        }
    }
}
