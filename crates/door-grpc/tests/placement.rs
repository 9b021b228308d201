//! A namespace of another group is refused with the addresses of that group, for tasks and for topics.

mod support;

use std::collections::HashMap;

use support::Broker;
use tenure_door_grpc::proto::sidecar::GetTopicsRequest;
use tenure_door_grpc::proto::sidecar::sidecar_service_client::SidecarServiceClient;
use tenure_door_grpc::proto::tenure::v1 as pb;
use tenure_door_grpc::proto::tenure::v1::tasks_client::TasksClient;
use tenure_hub::{MemberDoors, PlacedNamespace, Placement};
use tonic::{Code, Request, Status};

fn in_lab<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("tenure-namespace", "lab".parse().unwrap());
    request
}

fn is_elsewhere(no: &Status) {
    assert_eq!(no.code(), Code::FailedPrecondition, "{no:?}");
    assert_eq!(no.metadata().get("tenure-code").unwrap(), "elsewhere");
    assert_eq!(no.message(), "the namespace lab belongs to the group g2: connect to c1:50051 or c2:50051");
    let details = String::from_utf8_lossy(no.details()).into_owned();
    assert!(details.contains("addresses") && details.contains("c1:50051 c2:50051"), "{details}");
}

#[tokio::test]
async fn a_call_in_a_namespace_of_another_group_is_refused_with_its_addresses() {
    let broker = Broker::start().await;
    let member = |name: &str| MemberDoors::from([("grpc".to_owned(), format!("{name}:50051").into())]);
    broker.hub.set_placement(Some(Placement {
        group: "g1".into(),
        default_group: "g1".into(),
        namespaces: HashMap::from([(
            "lab".into(),
            PlacedNamespace { group: "g2".into(), ..PlacedNamespace::default() },
        )]),
        members: HashMap::from([("g2".into(), vec![member("c1"), member("c2")])]),
    }));
    let mut tasks = TasksClient::new(broker.channel().await);
    is_elsewhere(&tasks.list(in_lab(pb::ListRequest::default())).await.unwrap_err());
    let mut topics = SidecarServiceClient::new(broker.channel().await);
    is_elsewhere(&topics.get_topics(in_lab(GetTopicsRequest::default())).await.unwrap_err());
    topics.get_topics(GetTopicsRequest::default()).await.expect("the default namespace is here");
}
