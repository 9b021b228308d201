//! The gRPC door: a worker's whole conversation is one call.

use std::collections::VecDeque;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::channel::mpsc;
use prost::Message as _;
use tenure_door_grpc::proto::tenure::v1 as pb;
use tenure_door_grpc::proto::tenure::v1::broker_message::Message as Said;
use tenure_door_grpc::proto::tenure::v1::worker_message::Message;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Endpoint;

use super::super::raw_codec::Raw;
use super::{Attempt, LateWorker, Verdict, queue_of};

pub(in super::super) struct GrpcWorker {
    says: mpsc::UnboundedSender<Bytes>,
    hears: tonic::Streaming<Bytes>,
    number: u64,
    assigned: VecDeque<Attempt>,
}

impl LateWorker for GrpcWorker {
    const DOOR: &'static str = "grpc";

    async fn connect(port: u16) -> Option<GrpcWorker> {
        let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{port}")).ok()?;
        let mut client = tonic::client::Grpc::new(endpoint.connect().await.ok()?);
        client.ready().await.ok()?;
        let (says, said) = mpsc::unbounded();
        let register = pb::Register {
            worker: "late-grpc".into(),
            instance: 1,
            queues: vec![queue_of(Self::DOOR)],
            slots: 1,
            on_close: "tasks-die".into(),
            ..pb::Register::default()
        };
        says.unbounded_send(encoded(1, Message::Register(register))).ok()?;
        let path = PathAndQuery::from_static("/tenure.v1.Workers/Work");
        let hears = client.streaming(tonic::Request::new(said), path, Raw).await.ok()?.into_inner();
        let mut worker = GrpcWorker { says, hears, number: 1, assigned: VecDeque::new() };
        worker.answer().await.filter(|answer| *answer == Verdict::Accepted)?;
        Some(worker)
    }

    async fn take(&mut self) -> Option<Attempt> {
        while self.assigned.is_empty() {
            self.hear().await?;
        }
        self.assigned.pop_front()
    }

    async fn fail(&mut self, (task, attempt): Attempt) -> Option<Verdict> {
        self.ask(Message::Fail(pb::Fail { task: task.to_string(), attempt, ..pb::Fail::default() })).await
    }

    async fn complete(&mut self, (task, attempt): Attempt, result: &str) -> Option<Verdict> {
        let done = pb::Completion { task: task.to_string(), attempt, result: result.to_owned().into() };
        self.ask(Message::Complete(pb::Complete { done: vec![done] })).await
    }
}

impl GrpcWorker {
    async fn ask(&mut self, message: Message) -> Option<Verdict> {
        self.number += 1;
        self.says.unbounded_send(encoded(self.number, message)).ok()?;
        self.answer().await
    }

    async fn answer(&mut self) -> Option<Verdict> {
        loop {
            let heard = self.hear().await?;
            if heard.number == self.number {
                return Some(verdict(heard.message));
            }
        }
    }

    async fn hear(&mut self) -> Option<pb::BrokerMessage> {
        let bytes = self.hears.next().await?.ok()?;
        let heard = pb::BrokerMessage::decode(bytes).expect("a message of this conversation");
        if let Some(Said::Assign(assign)) = &heard.message {
            self.assigned.push_back((assign.task.parse().expect("an id"), assign.attempt));
        }
        Some(heard)
    }
}

fn encoded(number: u64, message: Message) -> Bytes {
    pb::WorkerMessage { number, message: Some(message) }.encode_to_vec().into()
}

fn verdict(said: Option<Said>) -> Verdict {
    let refusal = match said {
        Some(Said::Held(held)) => held.refused.into_iter().next().and_then(|refused| refused.refusal),
        Some(Said::Refused(refusal)) => Some(refusal),
        _ => None,
    };
    match refusal {
        None => Verdict::Accepted,
        Some(refusal) if refusal.code == "stale-attempt" => Verdict::Stale,
        Some(refusal) => Verdict::Refused(refusal.message),
    }
}
