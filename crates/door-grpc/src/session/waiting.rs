//! A wait: answered when all tasks have ended, or after its timeout.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use foldhash::fast::RandomState;
use tenure_hub::limits::MANY_MAX;
use tenure_hub::words::{Answer, Blob, EventFilter, Query, Refusal, TaskId, TaskInfo};
use tenure_hub::{Ask, Delivery, Request, Response, Session, Watch};
use tonic::Status;

use crate::flow::{Flow, Room};
use crate::proto::tenure::v1 as pb;
use crate::translate;

/// How many bytes of results one reply contains; clients can fetch the others.
const RESULT_BYTES: usize = 8 << 20;

/// The reply, and room for the results in it.
pub(crate) async fn wait(
    session: Session,
    request: &pb::WaitRequest,
    flow: &Flow,
) -> Result<(pb::WaitResponse, Room), Status> {
    if request.tasks.len() > MANY_MAX {
        return Err(translate::status(&Refusal::TooMany { what: "tasks waited for", limit: MANY_MAX }));
    }
    let tasks = translate::ids(&request.tasks).map_err(|no| translate::status(&no))?;
    let mut waiting = WaitSession { session, left: tasks.iter().copied().collect(), ended: Vec::new() };
    let all_ended = waiting.until_all_ended(&tasks);
    match request.timeout_ms.map(Duration::from_millis) {
        None => all_ended.await?,
        // After a timeout the reply lists what has ended, and what has not.
        Some(timeout) => tokio::time::timeout(timeout, all_ended).await.unwrap_or(Ok(()))?,
    }
    waiting.answer(&tasks, request.results, flow).await
}

struct WaitSession {
    session: Session,
    left: HashSet<TaskId, RandomState>,
    ended: Vec<(pb::Ended, Blob)>,
}

impl WaitSession {
    async fn until_all_ended(&mut self, tasks: &[TaskId]) -> Result<(), Status> {
        self.watch_and_look(tasks).await?;
        let mut arrived = Vec::new();
        while !self.left.is_empty() {
            self.session.mailbox().arrived().await;
            let is_closed = self.session.mailbox().is_closed();
            if !self.session.mailbox().take(&mut arrived) && is_closed {
                return Err(translate::unavailable());
            }
            let mut look_at = VecDeque::new();
            for delivery in arrived.drain(..) {
                match delivery {
                    Delivery::Reply { reply: Ok(Response::Answer(Answer::Task(info))), .. } => {
                        self.looked(&info);
                    }
                    Delivery::Reply { reply: Ok(_), .. } | Delivery::Live { .. } => {}
                    Delivery::Reply { reply: Err(no), .. } => return Err(translate::status(&no)),
                    Delivery::Event { event, .. } => {
                        look_at.extend(event.task().filter(|_| event.kind.is_end()));
                    }
                    // Events may have been missed: checks all remaining tasks again.
                    Delivery::Gap { .. } => look_at.extend(&self.left),
                    Delivery::Goodbye => return Err(translate::unavailable()),
                    Delivery::Ended(why) => return Err(translate::status(&why)),
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
    async fn watch_and_look(&self, tasks: &[TaskId]) -> Result<(), Status> {
        let kinds: Vec<_> = translate::KINDS_OF_ENDS.iter().map(|kind| (*kind).into()).collect();
        let mut asks = Vec::with_capacity(2 * tasks.len());
        for (index, task) in tasks.iter().enumerate() {
            let filter = EventFilter { task: Some(*task), kinds: kinds.clone(), ..EventFilter::default() };
            let watch = Watch { watch: index as u64, filter, from: None };
            asks.push(Ask { token: 0, request: Request::Watch(watch) });
        }
        asks.extend(tasks.iter().copied().map(look));
        self.send(asks).await
    }

    fn looked(&mut self, info: &TaskInfo) {
        if let Some(ended) = translate::has_ended(info)
            && self.left.remove(&info.id)
        {
            self.ended.push(ended);
        }
    }

    async fn answer(
        self,
        tasks: &[TaskId],
        results: bool,
        flow: &Flow,
    ) -> Result<(pb::WaitResponse, Room), Status> {
        let WaitSession { session, left, ended } = self;
        let mut left_over = if results { RESULT_BYTES } else { 0 };
        let mut brought = Vec::new();
        for (index, (_, blob)) in ended.iter().enumerate() {
            let bytes = blob.bytes() as usize;
            if results && bytes <= left_over {
                left_over -= bytes;
                brought.push((index, *blob));
            }
        }
        let mut ended: Vec<pb::Ended> = ended.into_iter().map(|(row, _)| row).collect();
        let room = flow.room(brought.iter().map(|(_, blob)| blob.bytes()).sum()).await;
        let blobs = brought.iter().map(|(_, blob)| *blob).collect();
        for ((index, _), read) in brought.iter().zip(session.hub().read_many(blobs).await) {
            // A result that cannot be read is missing here; a client that fetches it learns why.
            ended[*index].result = read.ok();
        }
        let pending = tasks.iter().filter(|task| left.contains(task)).map(ToString::to_string).collect();
        Ok((pb::WaitResponse { ended, pending }, room))
    }

    async fn send(&self, asks: Vec<Ask>) -> Result<(), Status> {
        self.session.send(asks).await.map_err(|_| translate::unavailable())
    }
}

fn look(task: TaskId) -> Ask {
    Ask { token: 0, request: Request::Query(Query::Show { task }) }
}
