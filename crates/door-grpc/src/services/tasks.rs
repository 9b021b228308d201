//! `tenure.v1.Tasks`: for clients that submit, watch and control tasks.

use futures::StreamExt as _;
use tenure_hub::words::{Answer, Blob, Command, Query, Refusal, TaskId, TaskInfo};
use tonic::{Request, Response, Status, Streaming};

use super::{GrpcService, Reply, ReplyStream};
use crate::authentication::AuthenticatedPeer;
use crate::proto::tenure::v1 as pb;
use crate::session::{self, CallerTrace, Submitting, Watching};
use crate::translate;

/// Room for one task.
const SHOWN_BYTES: u32 = 4 << 10;

#[tonic::async_trait]
impl pb::tasks_server::Tasks for GrpcService {
    async fn submit(&self, mut request: Request<pb::SubmitRequest>) -> Reply<pb::SubmitResponse> {
        let call = self.control_call(&mut request)?;
        let trace = CallerTrace::of(request.metadata());
        session::submit(call, &trace, request.into_inner()).await.map(Response::new)
    }

    type SubmitStreamStream = ReplyStream<pb::SubmitResponse>;

    async fn submit_stream(
        &self,
        mut request: Request<Streaming<pb::SubmitRequest>>,
    ) -> Reply<Self::SubmitStreamStream> {
        let call = self.control_call(&mut request)?;
        let trace = CallerTrace::of(request.metadata());
        let submitting = Submitting::new(call.session, trace, request.into_inner());
        Ok(Response::new(session::stream(submitting).boxed()))
    }

    async fn submit_array(&self, mut request: Request<pb::SubmitArrayRequest>) -> Reply<pb::ArrayAccepted> {
        let call = self.control_call(&mut request)?;
        let submission =
            translate::array_submission(request.into_inner()).map_err(|no| translate::status(&no))?;
        match call.ask(tenure_hub::Request::SubmitArray(Box::new(submission))).await? {
            tenure_hub::Response::Command(tenure_hub::words::Reply::ArraySubmitted(accepted)) => {
                Ok(Response::new(translate::array_accepted(&accepted)))
            }
            _ => Err(translate::unexpected()),
        }
    }

    async fn show_array(&self, mut request: Request<pb::ArrayRequest>) -> Reply<pb::ArrayInfo> {
        let call = self.query_call(&mut request)?;
        let query = translate::array_query(request.into_inner()).map_err(|no| translate::status(&no))?;
        match call.query(query).await? {
            Answer::Array(info) => Ok(Response::new(translate::array_info(&info))),
            _ => Err(translate::unexpected()),
        }
    }

    async fn list_arrays(
        &self,
        mut request: Request<pb::ListArraysRequest>,
    ) -> Reply<pb::ListArraysResponse> {
        let call = self.query_call(&mut request)?;
        let query = translate::arrays_query(request.get_ref()).map_err(|no| translate::status(&no))?;
        let room = call.flow.list_room().await?;
        match call.query(query).await? {
            Answer::Arrays { arrays, next } => {
                let arrays = arrays.iter().map(translate::array_info).collect();
                let next = next.map(|cursor| cursor.to_string()).unwrap_or_default();
                call.flow.reply(room, pb::ListArraysResponse { arrays, next })
            }
            _ => Err(translate::unexpected()),
        }
    }

    async fn limit_array(&self, mut request: Request<pb::LimitArrayRequest>) -> Reply<pb::Done> {
        let call = self.control_call(&mut request)?;
        let pb::LimitArrayRequest { array, limit } = request.into_inner();
        call.command(Command::LimitArray { array: id(&array)?, limit }).await
    }

    async fn show(&self, mut request: Request<pb::TaskRequest>) -> Reply<pb::Task> {
        let call = self.query_call(&mut request)?;
        let task = id(&request.get_ref().task)?;
        let room = call.flow.room(SHOWN_BYTES).await;
        let info = call.task(Query::Show { task }).await?;
        call.flow.reply(room, translate::task_info(&info))
    }

    async fn find(&self, mut request: Request<pb::FindRequest>) -> Reply<pb::Task> {
        let call = self.query_call(&mut request)?;
        let room = call.flow.room(SHOWN_BYTES).await;
        let info = call.task(Query::Find { name: translate::name(request.into_inner().name) }).await?;
        call.flow.reply(room, translate::task_info(&info))
    }

    async fn list(&self, mut request: Request<pb::ListRequest>) -> Reply<pb::ListResponse> {
        let call = self.query_call(&mut request)?;
        let query = translate::list_query(request.into_inner()).map_err(|no| translate::status(&no))?;
        let room = call.flow.list_room().await?;
        match call.query(Query::List(Box::new(query))).await? {
            Answer::Tasks { tasks, next } => {
                call.flow.reply(room, translate::tasks(&tasks, next.map(|cursor| cursor.to_string())))
            }
            _ => Err(translate::unexpected()),
        }
    }

    async fn explain(&self, mut request: Request<pb::TaskRequest>) -> Reply<pb::Why> {
        let call = self.query_call(&mut request)?;
        match call.query(Query::Explain { task: id(&request.get_ref().task)? }).await? {
            Answer::Why { why, reconciliation } => {
                Ok(Response::new(translate::explanation(&why, reconciliation.as_deref())))
            }
            _ => Err(translate::unexpected()),
        }
    }

    async fn body(&self, mut request: Request<pb::TaskRequest>) -> Reply<pb::BytesResponse> {
        let peer = self.enter(&mut request)?;
        self.bytes(&peer, id(&request.get_ref().task)?, |info| Ok(info.body)).await
    }

    async fn result(&self, mut request: Request<pb::TaskRequest>) -> Reply<pb::BytesResponse> {
        let peer = self.enter(&mut request)?;
        self.bytes(&peer, id(&request.get_ref().task)?, result_of).await
    }

    async fn checkpoint(&self, mut request: Request<pb::TaskRequest>) -> Reply<pb::BytesResponse> {
        let peer = self.enter(&mut request)?;
        let checkpoint =
            |info: &TaskInfo| Ok(info.checkpoint.map_or(Blob::EMPTY, |checkpoint| checkpoint.blob));
        self.bytes(&peer, id(&request.get_ref().task)?, checkpoint).await
    }

    async fn logs(&self, mut request: Request<pb::LogsRequest>) -> Reply<pb::LogsResponse> {
        let call = self.query_call(&mut request)?;
        let request = request.into_inner();
        let asked = tenure_hub::Request::Logs { task: id(&request.task)?, after: request.after };
        let room = call.flow.list_room().await?;
        match call.ask(asked).await? {
            tenure_hub::Response::Logs(page) => call.flow.reply(room, translate::logs(page)),
            _ => Err(translate::unexpected()),
        }
    }

    async fn release(&self, mut request: Request<pb::TaskRequest>) -> Reply<pb::Done> {
        let call = self.control_call(&mut request)?;
        call.command(Command::Release { task: id(&request.get_ref().task)? }).await
    }

    async fn cancel(&self, mut request: Request<pb::SteerRequest>) -> Reply<pb::Done> {
        let call = self.control_call(&mut request)?;
        let pb::SteerRequest { task, reason, .. } = request.into_inner();
        call.command(Command::Cancel { task: id(&task)?, reason: translate::some_text(reason) }).await
    }

    async fn pause(&self, mut request: Request<pb::SteerRequest>) -> Reply<pb::Done> {
        let call = self.control_call(&mut request)?;
        let pb::SteerRequest { task, reason, terminate } = request.into_inner();
        let (task, reason) = (id(&task)?, translate::some_text(reason));
        call.command(Command::Pause { task, reason, terminate }).await
    }

    async fn resume(&self, mut request: Request<pb::TaskRequest>) -> Reply<pb::Done> {
        let call = self.control_call(&mut request)?;
        call.command(Command::Resume { task: id(&request.get_ref().task)? }).await
    }

    async fn retry(&self, mut request: Request<pb::TaskRequest>) -> Reply<pb::Done> {
        let call = self.control_call(&mut request)?;
        call.command(Command::Retry { task: id(&request.get_ref().task)? }).await
    }

    async fn r#move(&self, mut request: Request<pb::MoveRequest>) -> Reply<pb::Done> {
        let call = self.control_call(&mut request)?;
        let request = request.into_inner();
        call.command(Command::Move { task: id(&request.task)?, to: translate::moved(request) }).await
    }

    async fn reconcile(&self, mut request: Request<pb::ReconcileRequest>) -> Reply<pb::ReconcileResponse> {
        let call = self.query_call(&mut request)?;
        let page = translate::reconciliation(request.into_inner()).map_err(|no| translate::status(&no))?;
        let room = call.flow.list_room().await?;
        match call.ask(tenure_hub::Request::Reconcile(Box::new(page))).await? {
            tenure_hub::Response::Reconciled(answer) => call.flow.reply(room, translate::reconciled(&answer)),
            _ => Err(translate::unexpected()),
        }
    }

    async fn wait(&self, mut request: Request<pb::WaitRequest>) -> Reply<pb::WaitResponse> {
        let peer = self.enter(&mut request)?;
        let session = peer.open(&self.hub)?;
        let (answer, room) = session::wait(session, request.get_ref(), &peer.flow).await?;
        Ok(room.attach(answer))
    }

    type WatchStream = ReplyStream<pb::WatchResponse>;

    async fn watch(&self, mut request: Request<pb::WatchRequest>) -> Reply<Self::WatchStream> {
        let call = self.query_call(&mut request)?;
        let request = request.into_inner();
        // Events are numbered from 1: nothing is missing before it.
        let from = request.from_event.or(request.from).map(|from| from.max(1));
        let filter = translate::filter(request).map_err(|no| translate::status(&no))?;
        let watching = Watching::begin(call.session, filter, from).await?;
        Ok(Response::new(session::stream(watching).boxed()))
    }
}

impl GrpcService {
    /// The bytes of a task, as soon as the connection has room for them.
    async fn bytes(
        &self,
        peer: &AuthenticatedPeer,
        task: TaskId,
        wanted: fn(&TaskInfo) -> Result<Blob, Refusal>,
    ) -> Reply<pb::BytesResponse> {
        let call = self.call(peer)?;
        let look = async || {
            let info = call.task(Query::Show { task }).await?;
            wanted(&info).map_err(|no| translate::status(&no))
        };
        let mut blob = look().await?;
        let room = loop {
            if let Some(room) = peer.flow.room_now(blob.bytes()) {
                break room;
            }
            let room = peer.flow.room(blob.bytes()).await;
            // Meanwhile the task may have been retried, or be gone.
            let before = std::mem::replace(&mut blob, look().await?);
            if blob.bytes() <= before.bytes() {
                break room;
            }
        };
        let room = peer.flow.charge(room, blob.bytes() as usize)?;
        let bytes = self.hub.read(blob).await.map_err(|no| translate::status(&no))?;
        Ok(room.attach(pb::BytesResponse { bytes }))
    }
}

fn result_of(info: &TaskInfo) -> Result<Blob, Refusal> {
    let (task, state) = (info.id, info.state.name());
    let no = || Refusal::WrongState { task, state, verb: "fetch the result of" };
    info.state.end().map(|end| end.result).ok_or_else(no)
}

fn id(text: &str) -> Result<TaskId, Status> {
    translate::id(text).map_err(|no| translate::status(&no))
}
