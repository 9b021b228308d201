//! Topics on the running hub, as doors use them: publish, subscribe, take over, block, share, ask and answer.

mod support;

use std::sync::Arc;
use std::time::Duration;

use support::{TIMEOUT, id, numbers, publish, start, subscribe, take};
use tenure_hub::store::MemoryDisk;
use tenure_hub::topics::{
    Delivery, DeliveryKind, Ended, Policy, Publish, PublishReceipt, Recovery, Resume, Sequence, Subscribe,
    TopicFilter, TopicRefusal, TopicSettings, fresh_message_id,
};
use tenure_hub::words::Name;

fn default() -> Name {
    Name::from("default")
}

#[tokio::test]
async fn a_message_reaches_its_subscribers_and_none_in_another_namespace() {
    let hub = start(&MemoryDisk::default(), TopicSettings::default());
    let topics = hub.handle().topics();
    let mut exact = subscribe(topics, "exact", &["news.city"]);
    let mut wild = subscribe(topics, "wild", &["news.*"]);
    let (mut elsewhere, _) = topics
        .subscribe(
            &Name::from("other"),
            Subscribe::new(id("exact"), vec![TopicFilter::parse("news.*").unwrap()]),
        )
        .unwrap();
    let published = publish(topics, "news.city", "hello").await.unwrap();
    assert_eq!((published.sequence, published.receivers), (Sequence(1), 2));
    assert_eq!(numbers(&take(&mut exact).await), [1]);
    assert_eq!(numbers(&take(&mut wild).await), [1]);
    let mut out = Vec::new();
    assert_eq!(elsewhere.try_take(10, 1000, &mut out), Ok(false));
}

#[tokio::test]
async fn many_messages_keep_their_order_and_come_in_batches_of_the_size_asked_for() {
    let hub = start(&MemoryDisk::default(), TopicSettings::default());
    let topics = hub.handle().topics();
    let mut subscription = subscribe(topics, "s", &["a"]);
    let messages = (0..200).map(|_| Publish::new("a", fresh_message_id(), vec![7; 100])).collect();
    let receipts = topics.publish_many(&default(), messages);
    assert!(receipts.iter().all(|receipt| receipt.as_ref().is_ok_and(PublishReceipt::is_settled)));
    let mut seen = Vec::new();
    while seen.len() < 200 {
        let mut out = Vec::new();
        subscription.take(64, 5_000, &mut out).await.unwrap();
        assert!(out.len() <= 5_000 / 100, "{}", out.len());
        seen.extend(numbers(&out));
    }
    assert_eq!(seen, (1..=200).collect::<Vec<u64>>());
}

#[tokio::test]
async fn a_newcomer_takes_over_and_gets_what_the_other_stream_had_not_sent() {
    let hub = start(&MemoryDisk::default(), TopicSettings::default());
    let topics = hub.handle().topics();
    let mut old = subscribe(topics, "s", &["a"]);
    for _ in 0..5 {
        publish(topics, "a", "x").await.unwrap();
    }
    let mut out = Vec::new();
    old.take(2, 1_000_000, &mut out).await.unwrap();
    let unsent = out.split_off(1);
    old.acknowledge(&[("a".into(), Sequence(1))]).unwrap();
    old.put_back(unsent);
    let (mut new, resumed) =
        topics.resume(&default(), &Resume::new(id("s"), Recovery::Replay)).expect("it is known");
    assert!(resumed.took_over);
    assert_eq!(resumed.missed, Some(4));
    let replayed = take(&mut new).await;
    assert_eq!(numbers(&replayed), [2, 3, 4, 5]);
    assert!(matches!(replayed[0], Delivery::Message { kind: DeliveryKind::Replay, .. }));
    assert_eq!(old.take(1, 1, &mut Vec::new()).await, Err(Ended::TakenOver));
    drop(old);
    publish(topics, "a", "x").await.unwrap();
    assert_eq!(numbers(&take(&mut new).await), [6], "the old stream's end pauses nothing");
}

#[tokio::test]
async fn a_stream_that_breaks_is_paused_and_comes_back() {
    let hub = start(&MemoryDisk::default(), TopicSettings::default());
    let topics = hub.handle().topics();
    drop(subscribe(topics, "s", &["a"]));
    assert!(topics.subscription("default", &id("s")).unwrap().paused_until.is_some());
    publish(topics, "a", "x").await.unwrap();
    let (mut back, resumed) = topics.resume(&default(), &Resume::new(id("s"), Recovery::Replay)).unwrap();
    assert_eq!(resumed.missed, Some(1));
    assert_eq!(numbers(&take(&mut back).await), [1]);
    topics.unsubscribe("default", &id("s")).unwrap();
    assert_eq!(back.take(1, 1, &mut Vec::new()).await, Err(Ended::Unsubscribed));
    assert_eq!(topics.unsubscribe("default", &id("s")), Err(TopicRefusal::UnknownSubscription));
}

#[tokio::test]
async fn a_publisher_waits_for_a_blocking_subscriber_until_it_takes() {
    let hub = start(&MemoryDisk::default(), TopicSettings::default());
    let topics = hub.handle().topics();
    let mut subscription = blocking(topics, 1);
    publish(topics, "a", "1").await.unwrap();
    let receipt = topics.publish_now(&default(), Publish::new("a", fresh_message_id(), "2")).unwrap();
    assert!(!receipt.is_settled());
    let settled = tokio::spawn(receipt.settled());
    let mut out = Vec::new();
    subscription.take(1, 1, &mut out).await.unwrap();
    assert_eq!(numbers(&out), [1]);
    let published = tokio::time::timeout(TIMEOUT, settled).await.unwrap().unwrap().unwrap();
    assert_eq!((published.blocked, published.dropped), (1, 0));
    assert_eq!(numbers(&take(&mut subscription).await), [2]);
}

#[tokio::test]
async fn a_publisher_times_out_and_the_oldest_makes_room() {
    let mut settings = TopicSettings::default();
    settings.topics.block_timeout = Duration::from_millis(50);
    let hub = start(&MemoryDisk::default(), settings);
    let topics = hub.handle().topics();
    let mut subscription = blocking(topics, 1);
    publish(topics, "a", "1").await.unwrap();
    let published = publish(topics, "a", "2").await.unwrap();
    assert_eq!((published.blocked, published.dropped), (1, 1));
    let taken = take(&mut subscription).await;
    assert_eq!(numbers(&taken), [2]);
    assert!(taken.iter().any(|delivery| matches!(delivery, Delivery::Gap(_))), "{taken:?}");
}

#[tokio::test]
async fn a_group_shares_and_what_a_broken_member_leaves_goes_to_the_others() {
    let hub = start(&MemoryDisk::default(), TopicSettings::default());
    let topics = hub.handle().topics();
    let join = |name: &str| {
        let mut subscribe = Subscribe::new(id(name), vec![TopicFilter::parse("work").unwrap()]);
        subscribe.group = Some(Arc::from("team"));
        topics.subscribe(&default(), subscribe).unwrap().0
    };
    let (one, mut two) = (join("one"), join("two"));
    for _ in 0..10 {
        assert_eq!(publish(topics, "work", "x").await.unwrap().receivers, 1);
    }
    drop(one);
    let mut got = numbers(&take(&mut two).await);
    got.sort_unstable();
    assert_eq!(got, (1..=10).collect::<Vec<u64>>());
}

#[tokio::test]
async fn a_request_is_answered_through_the_name_it_carries() {
    let hub = start(&MemoryDisk::default(), TopicSettings::default());
    let topics = hub.handle().topics().clone();
    let ask = |topic: &'static str, timeout| {
        let topics = topics.clone();
        async move {
            let publish = Publish::new(topic, fresh_message_id(), "how much?");
            topics.request(&default(), publish, timeout).await
        }
    };
    assert_eq!(ask("price", TIMEOUT).await, Err(TopicRefusal::NoResponders));
    let mut responder = subscribe(&topics, "shop", &["price"]);
    let asking = tokio::spawn(ask("price", TIMEOUT));
    let taken = take(&mut responder).await;
    let Delivery::Message { message, .. } = &taken[0] else { panic!("{taken:?}") };
    let reply_to = message.reply_to.clone().expect("it is a request");
    let answer = |namespace: &str| {
        topics.publish_now(&Name::from(namespace), Publish::new(&reply_to, fresh_message_id(), "5"))
    };
    assert_eq!(
        answer("other").map(drop),
        Err(TopicRefusal::UnknownRequest),
        "another namespace sees nothing"
    );
    answer("default").unwrap().settled().await.unwrap();
    assert_eq!(asking.await.unwrap().unwrap().payload, "5");
    assert_eq!(answer("default").map(drop), Err(TopicRefusal::UnknownRequest), "the first answer closes it");
    assert_eq!(ask("price", Duration::from_millis(20)).await, Err(TopicRefusal::NoAnswer));
}

#[tokio::test]
async fn names_of_the_broker_are_not_for_publishing() {
    let hub = start(&MemoryDisk::default(), TopicSettings::default());
    for name in ["task.1", "queue.q", "worker.w.x"] {
        let refusal = publish(hub.handle().topics(), name, "x").await.unwrap_err();
        assert_eq!(refusal.code(), "topic-read-only");
    }
    publish(hub.handle().topics(), "tasks.1", "x").await.unwrap();
    publish(hub.handle().topics(), "task", "x").await.unwrap();
}

#[tokio::test]
async fn streams_end_when_the_broker_stops() {
    let hub = start(&MemoryDisk::default(), TopicSettings::default());
    let topics = hub.handle().topics().clone();
    let mut subscription = subscribe(&topics, "s", &["a"]);
    let waiting = tokio::spawn(async move { subscription.take(1, 1, &mut Vec::new()).await });
    hub.handle().stop();
    hub.ended().await.unwrap();
    assert_eq!(tokio::time::timeout(TIMEOUT, waiting).await.unwrap().unwrap(), Err(Ended::Stopping));
    assert_eq!(publish(&topics, "a", "x").await, Err(TopicRefusal::Stopping));
}

fn blocking(topics: &tenure_hub::topics::Topics, limit: u32) -> tenure_hub::topics::SubscriptionHandle {
    let mut subscribe = Subscribe::new(id("slow"), vec![TopicFilter::parse("a").unwrap()]);
    subscribe.policy = Some(Policy::Block);
    subscribe.queue_limit = Some(limit);
    topics.subscribe(&default(), subscribe).unwrap().0
}

#[test]
fn topics_and_all_other_names_are_held_to_one_rule() {
    for c in '\0'..=char::MAX {
        assert_eq!(tenure_hub::topics::is_invisible(c), tenure_hub::words::is_invisible(c), "{c:?}");
    }
}
