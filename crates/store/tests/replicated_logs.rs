//! The logs of topics and keys in a group: what the leader has committed, every later leader has.

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use support::{Broker, NOW, few_ended, small};
use tenure_engine::Timestamp;
use tenure_store::{
    AppendError, JournalFaults, KeyLog, KeyRecords, Member, MemoryDisk, MemoryJournal, Replica,
    ReplicaSettings, StoreError, Stream, TopicLog, TopicLogSettings, TopicRows,
};

const LEASE: Duration = Duration::from_secs(3);

fn replica(journal: &MemoryJournal, disk: &MemoryDisk, name: &str, instance: u64) -> Replica {
    let member = Member { name: name.to_owned(), instance, lease: LEASE, doors: String::new() };
    let settings = ReplicaSettings { member, store: small(), mutation: None };
    Replica::open(Arc::new(disk.clone()), Arc::new(journal.clone()), settings).expect("the disk is free")
}

fn settings() -> TopicLogSettings {
    let kept_for = Duration::from_secs(u64::from(u32::MAX));
    TopicLogSettings { segment_bytes: 2_000, kept_bytes: 1 << 30, kept_for }
}

/// A member that leads, with both logs open.
struct Led {
    broker: Broker,
    topics: TopicLog,
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
    keys: KeyLog,
}

impl Led {
    fn take_over(journal: &MemoryJournal, disk: &MemoryDisk, name: &str, instance: u64) -> Option<Led> {
        let mut standby = replica(journal, disk, name, instance);
        let opened = Led::try_to_lead(&mut standby).unwrap_or_else(|error| match error {
            StoreError::Replication(error) => {
                println!("{name} does not lead: {error}");
                None
            }
            error => panic!("{name}: {error}"),
        })?;
        drop(standby);
        let broker = Broker::of(disk, opened);
        let opened = broker.parts.reader.open_topics(settings()).expect("the copy is sound");
        let keys = broker.parts.reader.open_keys().expect("the copy is sound").log;
        Some(Led { broker, topics: opened.log, rows: opened.rows, keys })
    }

    fn try_to_lead(standby: &mut Replica) -> Result<Option<tenure_store::Opened>, StoreError> {
        let followed = standby.follow()?;
        let Some(claim) = standby.claim(&followed.state) else { return Ok(None) };
        standby.lead(claim, few_ended(), NOW, NOW)
    }

    fn publish(&mut self, number: u64) {
        let mut rows = TopicRows::default();
        rows.message(Timestamp(number), b"audit", &number.to_le_bytes());
        rows.put(b"last", &number.to_le_bytes());
        rows.put(format!("row {}", number % 7).as_bytes(), &[number as u8; 40]);
        if number.is_multiple_of(5) {
            rows.delete(format!("row {}", (number + 3) % 7).as_bytes());
        }
        self.topics.append(&rows).expect("nothing is written yet");
    }

    fn messages(&self) -> Vec<u64> {
        let mut messages = Vec::new();
        self.topics
            .messages(|at, key, value| {
                assert_eq!((key, value), (&b"audit"[..], &at.0.to_le_bytes()[..]));
                messages.push(at.0);
            })
            .expect("the files are sound");
        messages
    }

    fn set(&mut self, number: u64) {
        let mut records = KeyRecords::default();
        records.add(b"default", &number.to_le_bytes());
        self.keys.append(&records).expect("nothing is written yet");
    }

    fn values(&self) -> Vec<u64> {
        let mut values = Vec::new();
        self.keys
            .records(|namespace, record| {
                assert_eq!(namespace, b"default");
                values.push(u64::from_le_bytes(record.try_into().expect("a number")));
            })
            .expect("the files are sound");
        values
    }
}

#[test]
fn another_leader_with_an_empty_disk_has_every_message_row_and_key() {
    let journal = MemoryJournal::new(1);
    let mut first = Led::take_over(&journal, &MemoryDisk::new(), "b1", 1).expect("the group is free");
    assert!(first.rows.is_empty() && first.messages().is_empty() && first.values().is_empty());
    for number in 1..=200 {
        first.publish(number);
        first.topics.sync().expect("the journal answers");
        first.topics.rotate_if_due(NOW).unwrap();
        first.set(number);
        first.keys.sync().expect("the journal answers");
    }
    assert!(journal.end(Stream::Topics) > 10_000, "the log has several files");
    journal.set_now(NOW + LEASE);
    let mut second = Led::take_over(&journal, &MemoryDisk::new(), "b2", 2).expect("the lease has ended");
    let all: Vec<u64> = (1..=200).collect();
    assert_eq!((second.messages(), second.values()), (all.clone(), all));
    assert_eq!(second.rows[&b"last"[..]], 200_u64.to_le_bytes());
    assert!(!second.rows.contains_key(&b"row 0"[..]) || second.rows.len() > 2);
    first.publish(201);
    assert!(matches!(first.topics.sync(), Err(AppendError::Deposed { holder, .. }) if holder == "b2"));
    first.set(201);
    assert!(matches!(first.keys.sync(), Err(AppendError::Deposed { .. })));
    second.publish(201);
    second.topics.sync().expect("it leads");
    assert_eq!(second.messages().len(), 201);
}

#[test]
fn the_next_leader_knows_how_far_each_hook_has_come() {
    let journal = MemoryJournal::new(4);
    let disk = MemoryDisk::new();
    let first = Led::take_over(&journal, &MemoryDisk::new(), "b1", 1).expect("the group is free");
    let mut standby = replica(&journal, &disk, "b2", 2);
    let reader = &first.broker.parts.reader;
    for written in ["event 7, two undelivered", "event 9", "event 12, one undelivered", "event 13"] {
        reader.write_hook_file("ops", written.as_bytes()).expect("the journal answers");
        standby.follow().expect("the journal answers");
    }
    reader.write_hook_file("mail", b"event 3").expect("the journal answers");
    assert_eq!(standby.follow().unwrap().state.files.len(), 2, "older versions are removed");
    drop(standby);
    journal.set_now(NOW + LEASE);
    let second = Led::take_over(&journal, &disk, "b2", 2).expect("the lease has ended");
    let read = |hook| second.broker.parts.reader.read_hook_file(hook).unwrap().unwrap_or_default();
    assert_eq!((&read("ops")[..], &read("mail")[..]), (&b"event 13"[..], &b"event 3"[..]));
    assert!(reader.write_hook_file("ops", b"too late").is_err(), "the first is fenced");
    assert_eq!(read("ops"), b"event 13");
    let empty = Led::take_over(&journal, &MemoryDisk::new(), "b2", 3);
    let reader = empty.expect("an earlier process of this member led").broker.parts.reader;
    assert_eq!(reader.read_hook_file("ops").unwrap().unwrap(), b"event 13", "on an empty disk as well");
}

#[test]
fn old_segments_are_dropped_in_the_journal_and_on_standbys() {
    let journal = MemoryJournal::new(2);
    let disk = MemoryDisk::new();
    let mut first = Led::take_over(&journal, &MemoryDisk::new(), "b1", 1).expect("the group is free");
    let mut standby = replica(&journal, &disk, "b2", 2);
    for number in 1..=300 {
        first.set(number);
        first.keys.sync().unwrap();
        if number % 100 == 0 {
            assert!(first.keys.begin_sweep().unwrap());
            first.set(1_000 + number);
            first.keys.end_sweep().unwrap();
            first.keys.sync().unwrap();
            first.keys.delete_unused_files().unwrap();
        }
        standby.follow().expect("the journal answers");
    }
    let segments = standby.follow().unwrap().state.streams.keys.segments;
    assert_eq!(segments.len(), 1, "a sweep replaces everything before it: {segments:?}");
    drop(standby);
    journal.set_now(NOW + LEASE);
    let second = Led::take_over(&journal, &disk, "b2", 2).expect("the lease has ended");
    assert_eq!(second.values(), [1_300]);
}

#[test]
fn a_leader_that_dies_while_it_begins_a_file_leaves_the_rows_of_the_one_before() {
    for calls in 0..6 {
        let journal = MemoryJournal::new(3);
        let mut first = Led::take_over(&journal, &MemoryDisk::new(), "b1", 1).expect("the group is free");
        first.publish(1);
        first.topics.sync().unwrap();
        // The rows are committed in several groups.
        let wide = |index: u64| (format!("wide {index}").into_bytes(), vec![index as u8; 700_000]);
        assert!(first.topics.begin((0..4).map(wide)).unwrap());
        journal.go_away_after(calls, NOW + LEASE);
        let is_done = first.topics.sync().is_ok();
        drop(first);
        let disk = MemoryDisk::new();
        let mut now = NOW;
        for (name, instance) in [("b2", 2), ("b3", 3)] {
            // The journal may go away only now, or a late claim of the first leader may have to end.
            let next = (0..5).find_map(|_| {
                now = now + LEASE;
                journal.set_now(now);
                Led::take_over(&journal, &disk, name, instance)
            });
            let mut next = next.expect("the lease has ended");
            assert_eq!(next.messages(), [1], "{calls} calls");
            let has_wide = next.rows.keys().filter(|key| key.starts_with(b"wide")).count();
            assert!(has_wide == 0 && next.rows.contains_key(&b"last"[..]) || has_wide == 4, "{calls} calls");
            assert!(!is_done || has_wide == 4, "{calls} calls");
            next.topics.sync().expect("the file is completed");
            next.topics.rotate_if_due(NOW).unwrap();
            next.topics.sync().unwrap();
            next.broker.parts.writer.close(NOW).unwrap();
        }
        assert!(calls > 0 || !is_done, "the first call fails");
    }
}

#[test]
fn nothing_acknowledged_is_lost_or_doubled_through_faults_failovers_and_takeovers() {
    let mut takeovers = 0;
    for seed in 0..120 {
        takeovers += Story::new(seed).run();
    }
    assert!(takeovers > 400, "{takeovers} takeovers");
}

/// One seed: three members, random faults, and what each log must hold.
struct Story {
    journal: MemoryJournal,
    disks: [MemoryDisk; 3],
    random: u64,
    now: Timestamp,
    instance: u64,
    next: u64,
    topics: Acknowledged,
    keys: Acknowledged,
}

#[derive(Default)]
struct Acknowledged {
    /// In order.
    certain: Vec<u64>,
    /// Was appended, and is not acknowledged.
    doubtful: Vec<u64>,
}

impl Acknowledged {
    fn settle(&mut self) {
        self.certain.append(&mut self.doubtful);
    }

    /// A new leader has all that is certain, and a beginning of what is not.
    fn compare(&mut self, seed: u64, what: &str, found: &[u64]) {
        let sent: Vec<u64> = self.certain.iter().chain(&self.doubtful).copied().collect();
        assert!(found.len() >= self.certain.len(), "seed {seed}: {what} lost {:?}", &sent[found.len()..]);
        assert_eq!(found, &sent[..found.len()], "seed {seed}: {what}");
        (self.certain, self.doubtful) = (found.to_vec(), Vec::new());
    }
}

impl Story {
    fn new(seed: u64) -> Story {
        let journal = MemoryJournal::new(seed);
        let disks = [MemoryDisk::new(), MemoryDisk::new(), MemoryDisk::new()];
        let (topics, keys) = (Acknowledged::default(), Acknowledged::default());
        let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Story { journal, disks, random, now: NOW, instance: 0, next: 1, topics, keys }
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % limit
    }

    fn run(&mut self) -> u64 {
        let mut takeovers = 0;
        for _ in 0..8 {
            let member = self.below(3) as usize;
            self.now = self.now + LEASE;
            self.journal.set_now(self.now);
            self.journal.set_faults(JournalFaults::default());
            self.instance += 1;
            let name = format!("b{member}");
            let disk = self.disks[member].clone();
            let Some(mut led) = Led::take_over(&self.journal, &disk, &name, self.instance) else { continue };
            takeovers += 1;
            let seed = self.random;
            self.topics.compare(seed, "topics", &led.messages());
            self.keys.compare(seed, "keys", &led.values());
            self.lead(&mut led);
            if self.below(4) == 0 {
                self.journal.fail_over();
            }
        }
        takeovers
    }

    /// The journal loses what it has acknowledged. The leader notices when it renews its lease or writes a task, and
    /// puts it back for all streams.
    fn lose_and_restore(&mut self, led: &mut Led) {
        self.journal.set_faults(JournalFaults::default());
        self.journal.fail_over_losing(2);
        led.broker.submit(b"a task");
        led.broker.commit().expect("the journal answers");
    }

    fn lead(&mut self, led: &mut Led) {
        let percent = self.below(12);
        self.journal.set_faults(JournalFaults {
            cut: percent,
            answer_lost: percent,
            late: percent,
            doubt: percent / 2,
        });
        for _ in 0..40 {
            match self.below(20) {
                0 => self.journal.fail_over(),
                1 => self.lose_and_restore(led),
                2 => {
                    led.broker.submit(b"a task");
                    let _ = led.broker.commit();
                }
                3..=11 => {
                    led.publish(self.next);
                    self.topics.doubtful.push(self.next);
                    self.next += 1;
                }
                _ => {
                    led.set(self.next);
                    self.keys.doubtful.push(self.next);
                    self.next += 1;
                }
            }
            match led.topics.sync() {
                Ok(()) => {
                    self.topics.settle();
                    led.topics.rotate_if_due(NOW).expect("the disk is sound");
                }
                Err(AppendError::Away { .. }) => {}
                Err(error) => panic!("topics: {error}"),
            }
            match led.keys.sync() {
                Ok(()) => self.keys.settle(),
                Err(AppendError::Away { .. }) => {}
                Err(error) => panic!("keys: {error}"),
            }
        }
    }
}
