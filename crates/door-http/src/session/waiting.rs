//! A wait: over when all tasks have ended, or after its timeout.

use std::collections::HashSet;
use std::time::Duration;

use foldhash::fast::RandomState;
use tenure_hub::limits::MANY_MAX;
use tenure_hub::words::{Answer, EventFilter, Query, Refusal, TaskId};
use tenure_hub::{Ask, Delivery, HubRefusal, Request, Response, Session, Watch};

use crate::authentication::HttpPeer;
use crate::problem::ProblemDetails;
use crate::translate::{self, KINDS_OF_ENDS};

/// Waits until all tasks have ended, or for this long. Returns those that have not ended.
pub(crate) async fn wait(
    peer: &HttpPeer,
    tasks: &[TaskId],
    patience: Duration,
) -> Result<Vec<TaskId>, ProblemDetails> {
    if tasks.len() > MANY_MAX {
        return Err(translate::problem(&Refusal::TooMany { what: "tasks waited for", limit: MANY_MAX }));
    }
    let mut waiting = Waiting { session: peer.open()?, left: tasks.iter().copied().collect() };
    // After the timeout, what has not ended is the answer.
    let ended = tokio::time::timeout(patience, waiting.until_all_ended(tasks)).await;
    ended.unwrap_or(Ok(())).map_err(|no| translate::problem(&no))?;
    Ok(tasks.iter().copied().filter(|task| waiting.left.contains(task)).collect())
}

struct Waiting {
    session: Session,
    left: HashSet<TaskId, RandomState>,
}

impl Waiting {
    async fn until_all_ended(&mut self, tasks: &[TaskId]) -> Result<(), HubRefusal> {
        self.watch_and_look(tasks).await?;
        let mut arrived = Vec::new();
        while !self.left.is_empty() {
            self.session.mailbox().arrived().await;
            let is_closed = self.session.mailbox().is_closed();
            if !self.session.mailbox().take(&mut arrived) && is_closed {
                return Err(HubRefusal::Draining);
            }
            let mut look_at = Vec::new();
            for delivery in arrived.drain(..) {
                match delivery {
                    Delivery::Reply { reply: Ok(Response::Answer(Answer::Task(info))), .. } => {
                        if info.state.end().is_some() {
                            self.left.remove(&info.id);
                        }
                    }
                    Delivery::Reply { reply: Ok(_), .. } | Delivery::Live { .. } => {}
                    Delivery::Reply { reply: Err(no), .. } | Delivery::Ended(no) => return Err(no),
                    Delivery::Event { event, .. } => {
                        look_at.extend(event.task().filter(|_| event.kind.is_end()));
                    }
                    // Events may have been missed: looks at all that are left.
                    Delivery::Gap { .. } => look_at.extend(&self.left),
                    Delivery::Goodbye => return Err(HubRefusal::Draining),
                    // This session has asked for nothing else.
                    Delivery::Notice(_)
                    | Delivery::Call { .. }
                    | Delivery::CallAnswered { .. }
                    | Delivery::CallGivenUp { .. }
                    | Delivery::Broadcast(_) => {}
                }
            }
            let asks = look_at.into_iter().filter(|task| self.left.contains(task)).map(look).collect();
            self.send(asks).await?;
        }
        Ok(())
    }

    /// First the watches, then a query for each: an end in between is seen twice, and counted once.
    async fn watch_and_look(&self, tasks: &[TaskId]) -> Result<(), HubRefusal> {
        let kinds: Vec<_> = KINDS_OF_ENDS.iter().map(|kind| (*kind).into()).collect();
        let mut asks = Vec::with_capacity(2 * tasks.len());
        for (index, task) in tasks.iter().enumerate() {
            let filter = EventFilter { task: Some(*task), kinds: kinds.clone(), ..EventFilter::default() };
            let watch = Watch { watch: index as u64, filter, from: None };
            asks.push(Ask { token: 0, request: Request::Watch(watch) });
        }
        asks.extend(tasks.iter().copied().map(look));
        self.send(asks).await
    }

    async fn send(&self, asks: Vec<Ask>) -> Result<(), HubRefusal> {
        self.session.send(asks).await.map_err(|_| HubRefusal::Draining)
    }
}

fn look(task: TaskId) -> Ask {
    Ask { token: 0, request: Request::Query(Query::Show { task }) }
}
