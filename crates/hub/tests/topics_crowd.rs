//! Topics in a crowd: one that stopped reading troubles no other, and an idle one costs little.

mod support;

use std::time::{Duration, Instant};

use support::{TIMEOUT, id, numbers, publish, start, subscribe};
use tenure_hub::store::MemoryDisk;
use tenure_hub::topics::{
    Delivery, Policy, Publish, Subscribe, SubscriptionHandle, TopicFilter, TopicSettings, fresh_message_id,
};
use tenure_hub::words::Name;

const MESSAGES: u64 = 2_000;

fn default() -> Name {
    Name::from("default")
}

/// Reads until the last message, and says what it heard.
async fn read_all(mut subscription: SubscriptionHandle) -> Vec<u64> {
    let mut heard = Vec::new();
    while heard.last() != Some(&MESSAGES) {
        let mut out = Vec::new();
        subscription.take(256, 1 << 20, &mut out).await.unwrap();
        heard.extend(numbers(&out));
    }
    heard
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_subscriber_of_a_hundred_that_stops_reading_delays_no_other_and_uses_bounded_memory() {
    let mut settings = TopicSettings::default();
    settings.topics.queue_messages = 100;
    settings.topics.ring_messages = 10;
    let hub = start(&MemoryDisk::default(), settings);
    let topics = hub.handle().topics();
    let mut stopped = subscribe(topics, "stopped", &["news"]);
    let mut readers = Vec::new();
    for number in 0..99 {
        let mut subscribe =
            Subscribe::new(id(&format!("reader-{number}")), vec![TopicFilter::parse("news").unwrap()]);
        // The readers must not lose anything: the publisher waits for them, and not for the one that stopped.
        subscribe.policy = Some(Policy::Block);
        readers.push(tokio::spawn(read_all(topics.subscribe(&default(), subscribe).unwrap().0)));
    }
    let begun = Instant::now();
    for _ in 0..MESSAGES {
        let publishing = publish(topics, "news", "something new every time");
        tokio::time::timeout(TIMEOUT, publishing).await.expect("no subscriber holds it up").unwrap();
    }
    for reader in readers {
        let heard = tokio::time::timeout(TIMEOUT, reader).await.expect("it hears all").unwrap();
        assert_eq!(heard, (1..=MESSAGES).collect::<Vec<_>>());
    }
    assert!(begun.elapsed() < TIMEOUT);
    let info = topics.subscription("default", &id("stopped")).unwrap();
    assert_eq!(u64::from(info.stats.depth), 100);
    assert_eq!(info.stats.dropped.oldest, MESSAGES - 100);
    let mut out = Vec::new();
    stopped.take(10_000, usize::MAX, &mut out).await.unwrap();
    assert_eq!(numbers(&out), (MESSAGES - 99..=MESSAGES).collect::<Vec<_>>(), "the latest are there");
    let gap = out.iter().find_map(|delivery| match delivery {
        Delivery::Gap(gap) => Some((gap.first_missed.0, gap.last_missed.0)),
        _ => None,
    });
    assert_eq!(gap, Some((1, MESSAGES - 100)), "and what is lost is said exactly");
}

#[tokio::test]
async fn an_idle_subscriber_costs_less_than_twenty_kilobytes() {
    const SUBSCRIBERS: usize = 5_000;
    let hub = start(&MemoryDisk::default(), TopicSettings::default());
    let topics = hub.handle().topics();
    let before = resident_bytes();
    let all: Vec<SubscriptionHandle> = (0..SUBSCRIBERS)
        .map(|number| subscribe(topics, &format!("s{number}"), &[&format!("topic.{number}"), "to.all"]))
        .collect();
    publish(topics, "to.all", "x").await.unwrap();
    let each = (resident_bytes().saturating_sub(before)) / SUBSCRIBERS;
    assert!(each < 20 * 1024, "{each} bytes each");
    drop(all);
}

#[tokio::test]
async fn the_figures_count_what_was_published_and_heard() {
    let mut settings = TopicSettings::default();
    settings.topics.reap_interval = Duration::from_millis(10);
    let hub = start(&MemoryDisk::default(), settings);
    let topics = hub.handle().topics();
    let mut reader = subscribe(topics, "reader", &["a"]);
    let messages = (0..5).map(|_| Publish::new("a", fresh_message_id(), "x")).collect();
    assert!(topics.publish_many(&default(), messages).iter().all(Result::is_ok));
    reader.take(3, 1 << 20, &mut Vec::new()).await.unwrap();
    let deadline = Instant::now() + TIMEOUT;
    while topics.figures().delivered != 3 {
        assert!(Instant::now() < deadline, "{:?}", topics.figures());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let figures = topics.figures();
    assert_eq!((figures.published, figures.enqueued, figures.subscriptions), (5, 5, 1));
}

fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").expect("Linux tells");
    let pages: usize =
        status.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number of pages");
    pages * 4096
}
