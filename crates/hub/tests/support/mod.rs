//! What the stories share.
#![allow(dead_code, reason = "each story uses a part of it")]

pub(crate) mod bench;
pub(crate) mod test_client;

use std::sync::Arc;
use std::time::Duration;

use tenure_hub::store::{MemoryDisk, StoreSettings};
use tenure_hub::topics::{
    Delivery, Publish, PublishResult, Subscribe, SubscriptionHandle, SubscriptionId, TopicFilter,
    TopicRefusal, TopicSettings, Topics, fresh_message_id,
};
use tenure_hub::words::{Name, Settings};
use tenure_hub::{Hub, Keys};

/// Longer than anything here takes, so that a mistake ends the test instead of holding it.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) fn start(disk: &MemoryDisk, topics: TopicSettings) -> Hub {
    let disk = Arc::new(disk.clone());
    let store = StoreSettings::default();
    Hub::start_with_topics(disk, store, Settings::default(), topics, Keys::default()).expect("the disk opens")
}

pub(crate) fn id(text: &str) -> SubscriptionId {
    SubscriptionId::parse(text).expect("a short text")
}

pub(crate) fn subscribe(topics: &Topics, name: &str, filters: &[&str]) -> SubscriptionHandle {
    let filters = filters.iter().map(|text| TopicFilter::parse(text).expect("a good filter")).collect();
    topics.subscribe(&Name::from("default"), Subscribe::new(id(name), filters)).expect("it is new").0
}

pub(crate) async fn publish(
    topics: &Topics,
    topic: &str,
    payload: &'static str,
) -> Result<PublishResult, TopicRefusal> {
    topics.publish(&Name::from("default"), Publish::new(topic, fresh_message_id(), payload)).await
}

/// Everything that is there, and at least one item. It counts as read.
pub(crate) async fn take(subscription: &mut SubscriptionHandle) -> Vec<Delivery> {
    let out = send(subscription).await;
    let read = out.iter().filter_map(|delivery| match delivery {
        Delivery::Message { message, .. } => Some((Arc::clone(&message.topic), message.sequence)),
        Delivery::Gap(gap) => Some((Arc::clone(&gap.topic), gap.last_missed)),
        Delivery::ReplayComplete(_) | Delivery::Warning(_) => None,
    });
    subscription.acknowledge(&read.collect::<Vec<_>>()).expect("the stream goes on");
    out
}

/// The same for a peer of which nothing is known but that its connection took everything.
pub(crate) async fn send(subscription: &mut SubscriptionHandle) -> Vec<Delivery> {
    let mut out = Vec::new();
    let taking = subscription.take(10_000, usize::MAX, &mut out);
    tokio::time::timeout(TIMEOUT, taking).await.expect("something comes").expect("the stream goes on");
    out
}

pub(crate) fn numbers(deliveries: &[Delivery]) -> Vec<u64> {
    let messages = deliveries.iter().filter_map(|delivery| match delivery {
        Delivery::Message { message, .. } => Some(message.sequence.0),
        _ => None,
    });
    messages.collect()
}

/// Waits until everything about topics is on disk, as it is a moment after it happened.
pub(crate) async fn until_saved(disk: &MemoryDisk) {
    let mut changes = disk.changes();
    loop {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let now = disk.changes();
        if now == changes {
            return;
        }
        changes = now;
    }
}
