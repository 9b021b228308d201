//! `GetTopics` lists a limited number of topics and says that there are more.

mod support;

use support::Broker;
use tenure_door_grpc::Settings;
use tenure_door_grpc::proto::sidecar::GetTopicsRequest;
use tenure_door_grpc::proto::sidecar::sidecar_service_client::SidecarServiceClient;
use tenure_hub::Keys;
use tenure_hub::topics::{Publish, fresh_message_id};
use tenure_hub::words::Name;

#[tokio::test]
async fn a_list_that_is_too_long_ends_at_the_limit_and_says_so() {
    let settings = Settings { listed_topics_max: 3, ..Settings::default() };
    let broker = Broker::with(settings, Keys::default()).await;
    let mut client = SidecarServiceClient::new(broker.channel().await);
    for (number, truncated) in [(1, false), (2, false), (3, false), (4, true), (5, true)] {
        let topic = format!("topic.{number}");
        let publish = Publish::new(&topic, fresh_message_id(), "x");
        broker.hub.topics().publish(&Name::from("default"), publish).await.unwrap();
        let listed = client.get_topics(GetTopicsRequest::default()).await.unwrap().into_inner();
        assert_eq!((listed.topics.len(), listed.truncated), (number.min(3), truncated), "{number} topics");
    }
}
