//! A client of the gRPC door: it submits one task after the other, at the door of any member that answers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use prost::Message as _;
use tenure_client::TaskId;
use tenure_door_grpc::proto::tenure::v1 as pb;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};

use super::ExpectedState;
use super::raw_codec::Raw;

/// A client of a frozen leader must come back by itself.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);

pub(super) async fn submit(ports: Vec<u16>, expected: Arc<Mutex<ExpectedState>>, is_over: Arc<AtomicBool>) {
    let (mut connected, mut next) = (None, 0);
    while !is_over.load(Ordering::Acquire) {
        let asking = async {
            if connected.is_none() {
                let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{}", ports[next])).ok()?;
                connected = Some(endpoint.connect().await.ok()?);
            }
            submit_one(connected.clone()?).await
        };
        match tokio::time::timeout(ANSWERED_WITHIN, asking).await {
            Ok(Some(task)) => expected.lock().expect("no panic").accepted_by_grpc.push(task),
            // It may or may not be done; nothing was promised.
            Ok(None) | Err(_) => {
                (connected, next) = (None, (next + 1) % ports.len());
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn submit_one(channel: Channel) -> Option<TaskId> {
    let request = pb::SubmitRequest {
        terms: vec![pb::Terms { queue: "load".into(), ..Default::default() }],
        tasks: vec![pb::NewTask { body: "grpc".into(), ..Default::default() }],
    };
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.ok()?;
    let path = PathAndQuery::from_static("/tenure.v1.Tasks/Submit");
    let request = tonic::Request::new(Bytes::from(request.encode_to_vec()));
    let answer = client.unary(request, path, Raw).await.ok()?.into_inner();
    let answer = pb::SubmitResponse::decode(answer).expect("the answer of this method");
    match answer.tasks.into_iter().next()?.verdict? {
        pb::verdict::Verdict::Accepted(accepted) => Some(accepted.task.parse().expect("an id")),
        pb::verdict::Verdict::Refused(_) => None,
    }
}
