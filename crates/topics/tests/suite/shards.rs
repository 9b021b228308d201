//! Stories of several shards that behave like one.

use crate::common::{Stage, filters, id, spell};
use tenure_topics::{
    MessageId, Publish, Recovery, Resume, Resumed, Settings, Shard, ShutdownKind, Snapshot, Subscribe,
    SubscriptionStats, Timestamp, shard_of,
};

const NOW: Timestamp = Timestamp(1_000);

/// What a runtime does: it asks the right shard, or all of them.
struct Shards(Vec<Shard>);

impl Shards {
    fn new(count: usize) -> Shards {
        Shards((0..count).map(|_| Shard::new(Settings::default().for_one_of(count))).collect())
    }

    fn say(&mut self, topic: &str, payload: &'static str) {
        let shard = shard_of(topic, self.0.len());
        let publish = Publish::new(topic, MessageId(0), payload);
        self.0[shard].publish(publish, NOW, &mut Vec::new()).unwrap();
    }

    fn join(&mut self, name: &str, topics: &[&str]) {
        let count = self.0.len();
        for (index, shard) in self.0.iter_mut().enumerate() {
            let mut filters = filters(topics);
            filters.retain(|filter| filter.belongs_to(index, count));
            if !filters.is_empty() {
                shard.subscribe(Subscribe::new(id(name), filters), NOW).unwrap();
            }
        }
    }

    fn hear(&mut self, name: &str) -> Vec<String> {
        let mut out = Vec::new();
        for shard in &mut self.0 {
            if let Some(key) = shard.find(&id(name)) {
                while shard.take(key, 10, NOW, &mut out).unwrap().more {}
            }
        }
        let mut heard: Vec<String> = out.iter().map(spell).collect();
        heard.sort_unstable();
        heard
    }

    fn resume(&mut self, name: &str) -> Resumed {
        let mut joined: Option<Resumed> = None;
        for shard in &mut self.0 {
            if shard.find(&id(name)).is_some() {
                let part =
                    shard.resume(&Resume::new(id(name), Recovery::Replay), NOW, &mut Vec::new()).unwrap();
                match &mut joined {
                    Some(joined) => joined.add(&part),
                    None => joined = Some(part),
                }
            }
        }
        joined.unwrap()
    }

    fn restart(&self, count: usize) -> Shards {
        let mut saved = Snapshot::default();
        for shard in &self.0 {
            saved.join(shard.snapshot(ShutdownKind::Clean, NOW));
        }
        let mut again = Shards::new(count);
        for (index, shard) in again.0.iter_mut().enumerate() {
            shard.restore(saved.part(index, count), ShutdownKind::Clean, NOW).unwrap();
        }
        again
    }
}

const TOPICS: [&str; 6] = ["a", "b", "s.1", "s.2", "s.3", "t.1"];

#[test]
fn a_subscriber_hears_the_same_from_many_shards_as_from_one() {
    let mut one = Stage::new();
    let mut many = Shards::new(3);
    one.join("eve", &["a", "t.1", "s.*"]);
    many.join("eve", &["a", "t.1", "s.*"]);
    for topic in TOPICS.into_iter().chain(TOPICS) {
        one.say(topic, "x");
        many.say(topic, "x");
    }
    let mut expected = one.hear("eve");
    expected.sort_unstable();
    assert_eq!(expected.len(), 10);
    assert_eq!(many.hear("eve"), expected);
    let mut stats = SubscriptionStats::default();
    for shard in &many.0 {
        if let Some(key) = shard.find(&id("eve")) {
            stats.add(shard.subscription(key, NOW).unwrap().stats);
        }
    }
    assert_eq!((stats.delivered, stats.enqueued), (10, 10));
}

#[test]
fn the_number_of_shards_may_change_between_two_runs() {
    let mut shards = Shards::new(3);
    shards.join("eve", &["a", "t.1", "s.*"]);
    for topic in TOPICS {
        shards.say(topic, "heard");
    }
    shards.hear("eve");
    for topic in TOPICS {
        shards.say(topic, "x");
    }
    let mut shards = shards.restart(2);
    for topic in TOPICS {
        shards.say(topic, "y");
    }
    let resumed = shards.resume("eve");
    assert_eq!((resumed.missed, resumed.lost), (Some(10), 5));
    let heard = shards.hear("eve");
    for topic in ["a", "t.1", "s.1", "s.2", "s.3"] {
        assert!(heard.contains(&format!("gap {topic}#2-2 kept 3")), "{topic}");
        assert!(heard.contains(&format!("replay {topic}#3 y")), "{topic}");
    }
    assert_eq!(shards.0.iter().map(|shard| shard.stats().topics).sum::<usize>(), TOPICS.len());
}

#[test]
fn a_shard_and_its_messages_may_go_to_another_thread() {
    fn goes_anywhere<T: Send + Sync + 'static>() {}
    goes_anywhere::<Shard>();
    goes_anywhere::<tenure_topics::Delivery>();
    goes_anywhere::<tenure_topics::Requests>();
}

#[test]
fn what_is_in_all_is_divided_among_the_shards() {
    let settings = Settings { ring_bytes: 1000, retained_bytes: 500, topics: 10, ..Settings::default() };
    let part = settings.for_one_of(4);
    assert_eq!((part.ring_bytes, part.retained_bytes, part.topics), (250, 125, 3));
    assert_eq!(part.queue_messages, settings.queue_messages);
}
