//! The topics and stored keys of a namespace move to the logs of another group: whole, once, and again if the move was
//! interrupted.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tenure_hub::keyspace::{
    Command, KeyspaceCall, KeyspaceSettings, Keyspaces, SetCondition, SetExpiry, StringCommand,
};
use tenure_hub::topics::{
    Publish, ShardSettings, SteppedTopics, Subscribe, SubscriptionId, TopicFilter, TopicSettings, TopicTime,
    fresh_message_id,
};
use tenure_hub::words::{Name, Settings, Timestamp};
use tenure_hub::{IdleLogs, LogContents, in_logs};
use tenure_store::{AppendError, IdleJournal, MemoryDisk, Opened, Store, StoreSettings};

const NOON: u64 = 1_700_000_000_000;

fn opened(disk: &MemoryDisk) -> Opened {
    let settings = StoreSettings { spare_segments: 0, ..StoreSettings::default() };
    Store::open(Arc::new(disk.clone()), settings, Settings::default(), Timestamp(NOON)).expect("it opens")
}

fn lab() -> Name {
    Name::from("lab")
}

/// A broker whose topics and keys the story writes.
struct Broker {
    topics: SteppedTopics,
}

impl Broker {
    fn start(disk: &MemoryDisk) -> Broker {
        let reader = opened(disk).store.split().reader;
        let settings = TopicSettings {
            durable: vec![TopicFilter::parse("audit.>").expect("a filter")],
            topics: ShardSettings { topics: 3, ..ShardSettings::default() },
            ..TopicSettings::default()
        };
        Broker { topics: SteppedTopics::open(&reader, settings, TopicTime(NOON)).expect("the log is sound") }
    }

    /// Publishes, and returns the number that the topic has then.
    fn publish(&mut self, topic: &str) -> u64 {
        let message = Publish::new(topic, fresh_message_id(), "payload");
        drop(self.topics.topics().publish_now(&lab(), message));
        self.topics.save().expect("the disk works");
        self.number(topic).expect("it was published just now")
    }

    fn number(&self, topic: &str) -> Option<u64> {
        let listed = self.topics.topics().topics("lab", 0, 100, None).items;
        listed.into_iter().find(|one| &*one.name == topic).map(|one| one.sequence.0)
    }

    fn kept(&self, topic: &str) -> usize {
        let listed = self.topics.topics().topics("lab", 0, 100, None).items;
        listed.into_iter().find(|one| &*one.name == topic).map_or(0, |one| one.kept)
    }

    fn subscribe(&mut self, id: &str) {
        let id = SubscriptionId::parse(id).expect("an id");
        let filters = vec![TopicFilter::parse("audit.>").expect("a filter")];
        drop(self.topics.topics().subscribe(&lab(), Subscribe::new(id, filters)).expect("it is new"));
        self.topics.save().expect("the disk works");
    }

    fn stop(self) {
        self.topics.stop().expect("the disk works");
    }
}

/// Writes keys, and stops.
fn set_keys(disk: &MemoryDisk, count: usize) {
    let reader = opened(disk).store.split().reader;
    let (keyspaces, mut saver) = Keyspaces::open(&reader, KeyspaceSettings::default()).expect("a sound log");
    let mut client = keyspaces.connect(&lab()).expect("there are few namespaces");
    for number in 0..count {
        let set = Command::String(StringCommand::Set {
            key: Bytes::from(format!("key{number}")),
            value: Bytes::from_static(b"value"),
            condition: SetCondition::Always,
            expiry: SetExpiry::None,
            get: false,
        });
        client.run(Timestamp(NOON), [(1, KeyspaceCall::Run(set))]);
        saver.round(&keyspaces, Duration::ZERO).expect("the disk works");
    }
}

fn logs(disk: &MemoryDisk) -> (IdleJournal, IdleLogs) {
    let journal = IdleJournal::new(opened(disk), || Timestamp(0));
    let logs = IdleLogs::open(&journal).expect("the logs are sound");
    (journal, logs)
}

fn contents(disk: &MemoryDisk) -> LogContents {
    logs(disk).1.contents_of("lab").expect("the logs are sound")
}

/// Adds the namespace; the program ends before the commit with this number. Returns whether it was done before.
fn add(from: &MemoryDisk, to: &MemoryDisk, commits: usize) -> bool {
    let ((_old, old), (_new, mut new)) = (logs(from), logs(to));
    let mut left = commits;
    let added = new.add_namespace(&old, "lab", 7, &mut || {
        left = left.checked_sub(1).ok_or(AppendError::Away { why: "killed".to_owned() })?;
        Ok(())
    });
    added.is_ok()
}

fn drop_lab(disk: &MemoryDisk) {
    let (_journal, mut logs) = logs(disk);
    logs.drop_namespace("lab", &mut || Ok(())).expect("the disk works");
}

#[test]
fn a_move_can_end_at_any_commit_and_be_repeated() {
    let old = MemoryDisk::new();
    let mut broker = Broker::start(&old);
    broker.subscribe("archive");
    for _ in 0..3 {
        broker.publish("audit.a");
    }
    broker.publish("plain");
    broker.stop();
    set_keys(&old, 5);
    let whole = LogContents { topics: 2, subscriptions: 1, messages: 3, keys: 5 };
    assert_eq!(contents(&old), whole);
    let new = MemoryDisk::new();
    Broker::start(&new).stop();
    let mut commits = 0;
    while !add(&old, &new, commits) {
        // The next leader of the group removes what it finds of a namespace that the table places elsewhere.
        let has_some = contents(&new) != LogContents::default();
        let found = in_logs(&opened(&new), &["lab", "other"].into()).expect("the logs are sound");
        assert_eq!(found.contains("lab"), has_some, "after {commits} commits");
        if commits % 2 == 0 {
            drop_lab(&new);
            assert_eq!(contents(&new), LogContents::default(), "after {commits} commits");
        }
        assert_eq!(contents(&old), whole, "the group that has it keeps it");
        commits += 1;
    }
    assert!(commits >= 3, "{commits}");
    assert_eq!(contents(&new), whole);
    drop_lab(&old);
    assert_eq!(contents(&old), LogContents::default());
    assert!(in_logs(&opened(&old), &["lab"].into()).expect("sound").is_empty());
    let mut broker = Broker::start(&new);
    assert_eq!((broker.kept("audit.a"), broker.publish("audit.a")), (3, 4));
    assert_eq!(broker.publish("plain"), 2, "both logs were closed cleanly");
    broker.stop();

    // Back into a log whose files still have the old messages, and which was used meanwhile.
    assert!(add(&new, &old, usize::MAX));
    drop_lab(&new);
    let mut broker = Broker::start(&old);
    assert_eq!((broker.kept("audit.a"), broker.publish("audit.a")), (4, 5), "each message once");
    broker.stop();
    let broker = Broker::start(&old);
    assert_eq!(broker.kept("audit.a"), 5, "it stays so when the file is written again");
}

#[test]
fn no_number_is_given_out_twice_however_the_logs_were_closed() {
    for is_killed in [false, true] {
        let old = MemoryDisk::new();
        let mut broker = Broker::start(&old);
        // Three topics are kept; the first one is forgotten, and its number stays as a floor.
        let mut highest = 0;
        for _ in 0..20 {
            highest = broker.publish("gone");
        }
        for topic in ["a", "b", "c", "d"] {
            broker.publish(topic);
        }
        assert_eq!(broker.number("gone"), None, "it is forgotten");
        for _ in 0..40 {
            broker.publish("d");
        }
        let last = broker.number("d").expect("it is there");
        let mut unsaved = 0;
        if is_killed {
            // The log knows nothing of a topic that got its numbers just before.
            for _ in 0..30 {
                let message = Publish::new("unsaved", fresh_message_id(), "payload");
                drop(broker.topics.topics().publish_now(&lab(), message).expect("it is published"));
            }
            unsaved = broker.number("unsaved").expect("it is there");
            drop(broker);
        } else {
            broker.stop();
        }
        let new = MemoryDisk::new();
        Broker::start(&new).stop();
        assert!(add(&old, &new, usize::MAX));
        let mut broker = Broker::start(&new);
        let next = broker.publish("d");
        assert!(next > last && (is_killed || next == last + 1), "{next} after {last}");
        let next = broker.publish("gone");
        assert!(next > highest, "{next} after {highest}");
        let next = broker.publish("unsaved");
        assert!(next > unsaved, "{next} after {unsaved}");
    }
}
