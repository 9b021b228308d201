//! The key space with its log: what was answered is there after a crash at any write, whole transactions or nothing,
//! and the log is rewritten meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tenure_hub::keyspace::{
    Blocking, Command, ExpireCondition, KeyCommand, KeySaver, KeyTime, KeyspaceAnswer, KeyspaceCall,
    KeyspaceClient, KeyspaceFailure, KeyspaceRefusal, KeyspaceSettings, Keyspaces, ListCommand, ListEnd,
    Reply, Round, SetCondition, SetExpiry, StringCommand,
};
use tenure_hub::words::{Settings, Timestamp};
use tenure_store::{MemoryDisk, Opened, Reader, Store, StoreError, StoreSettings};

const NOW: Timestamp = Timestamp(1_700_000_000_000);

fn settings() -> KeyspaceSettings {
    KeyspaceSettings { log_bytes: 600, sweep_bytes: 100, ..KeyspaceSettings::default() }
}

struct Broker {
    keyspaces: Keyspaces,
    saver: KeySaver,
    _reader: Reader,
}

impl Broker {
    fn start(disk: &MemoryDisk, settings: KeyspaceSettings) -> Result<Broker, StoreError> {
        let store = StoreSettings { segment_bytes: 1 << 20, spare_segments: 0, ..StoreSettings::default() };
        let Opened { store, .. } = Store::open(Arc::new(disk.clone()), store, Settings::default(), NOW)?;
        let reader = store.split().reader;
        let (keyspaces, saver) = Keyspaces::open(&reader, settings)?;
        Ok(Broker { keyspaces, saver, _reader: reader })
    }

    fn client(&self) -> KeyspaceClient {
        self.keyspaces.connect(&"default".into()).expect("there are few namespaces")
    }

    fn round(&mut self) -> Result<Round, StoreError> {
        self.saver.round(&self.keyspaces, Duration::ZERO)
    }

    /// Runs one call and has it written.
    fn ask(&mut self, client: &mut KeyspaceClient, call: KeyspaceCall) -> KeyspaceAnswer {
        client.run(NOW, [(1, call)]);
        self.round().expect("the disk works");
        let mut answers = client.take_answered();
        assert_eq!(answers.len(), 1, "{answers:?}");
        answers.remove(0).1
    }
}

fn set(key: &str, value: u64) -> Command {
    Command::String(StringCommand::Set {
        key: Bytes::from(key.to_owned()),
        value: Bytes::from(value.to_string()),
        condition: SetCondition::Always,
        expiry: SetExpiry::None,
        get: false,
    })
}

fn get(key: &str) -> Command {
    Command::String(StringCommand::Get { key: Bytes::from(key.to_owned()) })
}

fn push(key: &str, element: &str) -> Command {
    let elements = vec![Bytes::from(element.to_owned())];
    Command::List(ListCommand::Push { key: Bytes::from(key.to_owned()), end: ListEnd::Left, elements })
}

fn delete(key: &str) -> Command {
    Command::Key(KeyCommand::Delete { keys: vec![Bytes::from(key.to_owned())] })
}

fn length(key: &str) -> Command {
    Command::List(ListCommand::Length { key: Bytes::from(key.to_owned()) })
}

fn pop(key: &str) -> Blocking {
    Blocking::Pop { keys: vec![Bytes::from(key.to_owned())], end: ListEnd::Right }
}

fn bulk(text: &str) -> Reply {
    Reply::Bulk(Bytes::from(text.to_owned()))
}

fn number(reply: &KeyspaceAnswer) -> u64 {
    match reply {
        KeyspaceAnswer::Reply(Reply::Bulk(bytes)) => std::str::from_utf8(bytes).unwrap().parse().unwrap(),
        KeyspaceAnswer::Reply(Reply::Null) => 0,
        other => panic!("{other:?}"),
    }
}

/// The last numbers that were answered, and the last that were tried.
#[derive(Default)]
struct Told {
    answered: u64,
    tried: u64,
    finished: bool,
}

const PAIRS: u64 = 3;

/// Pairs of keys are set together, in one transaction each, on three pairs in turn, and the log is rewritten meanwhile.
fn tell(disk: &MemoryDisk) -> Told {
    let mut told = Told::default();
    let Ok(mut broker) = Broker::start(disk, settings()) else { return told };
    let mut client = broker.client();
    for round in 1..=90_u64 {
        let pair = round % PAIRS;
        let log = if round % 20 == 0 { delete("log") } else { push("log", "entry") };
        let both = vec![set(&format!("a{pair}"), round), set(&format!("b{pair}"), round), log];
        told.tried = round;
        client.run(NOW, [(round, KeyspaceCall::Transaction(both))]);
        assert!(client.take_answered().is_empty(), "nothing is on disk yet");
        if broker.round().is_err() {
            return told;
        }
        let answers = client.take_answered();
        if answers.is_empty() {
            return told;
        }
        assert!(
            matches!(&answers[0], (token, KeyspaceAnswer::Transaction(Some(_))) if *token == round),
            "{answers:?}"
        );
        told.answered = round;
    }
    told.finished = true;
    told
}

#[test]
fn an_answered_transaction_is_there_and_none_is_torn_at_whichever_write_the_power_fails() {
    let whole = MemoryDisk::new();
    assert!(tell(&whole).finished);
    let changes = whole.changes();
    assert!(changes > 150, "{changes}");
    let names = tenure_store::Disk::list(&whole).unwrap();
    assert!(!names.contains(&format!("keys-{:020}", 0)), "the log was rewritten: {names:?}");
    for cut in 0..changes {
        let disk = MemoryDisk::new();
        disk.fail_power_after(cut);
        let told = tell(&disk);
        for seed in 0..2 {
            let mut broker = Broker::start(&disk.crash(seed), settings()).expect("it comes back");
            let mut client = broker.client();
            let mut highest = 0;
            for pair in 0..PAIRS {
                let a = number(&broker.ask(&mut client, KeyspaceCall::Run(get(&format!("a{pair}")))));
                let b = number(&broker.ask(&mut client, KeyspaceCall::Run(get(&format!("b{pair}")))));
                assert_eq!(a, b, "after {cut}: a transaction is torn");
                highest = highest.max(a);
            }
            assert!((told.answered..=told.tried).contains(&highest), "after {cut}: {highest}");
            let entries = broker.ask(&mut client, KeyspaceCall::Run(length("log")));
            assert_eq!(entries, KeyspaceAnswer::Reply(Reply::Integer((highest % 20) as i64)), "after {cut}");
        }
    }
}

#[test]
fn the_log_is_rewritten_and_stays_short() {
    let disk = MemoryDisk::new();
    let mut broker = Broker::start(&disk, settings()).unwrap();
    let mut client = broker.client();
    for round in 0..2_000_u64 {
        broker.ask(&mut client, KeyspaceCall::Run(set(&format!("key{}", round % 7), round)));
    }
    let bytes = |disk: &MemoryDisk| -> usize {
        let names = tenure_store::Disk::list(disk).unwrap();
        let keys = names.iter().filter(|name| name.starts_with("keys-"));
        keys.map(|name| disk.content(name).unwrap().len()).sum()
    };
    assert!(bytes(&disk) < 20_000, "{} bytes", bytes(&disk));
    drop((client, broker));
    let mut broker = Broker::start(&disk.reopen(), settings()).unwrap();
    let mut client = broker.client();
    let found: BTreeMap<u64, u64> = (0..7)
        .map(|key| (key, number(&broker.ask(&mut client, KeyspaceCall::Run(get(&format!("key{key}")))))))
        .collect();
    assert_eq!((found[&4], found[&3]), (1_999, 1_998));
    assert_eq!(found.len(), 7);
}

#[test]
fn a_reader_does_not_see_what_is_not_on_disk() {
    let mut broker = Broker::start(&MemoryDisk::new(), settings()).unwrap();
    let (mut writer, mut reader) = (broker.client(), broker.client());
    writer.run(NOW, [(1, KeyspaceCall::Run(set("k", 5)))]);
    reader.run(NOW, [(2, KeyspaceCall::Run(get("k")))]);
    assert!(reader.take_answered().is_empty());
    broker.round().unwrap();
    assert_eq!(reader.take_answered(), [(2, KeyspaceAnswer::Reply(bulk("5")))]);
}

#[test]
fn many_writers_share_one_sync() {
    let disk = MemoryDisk::new();
    let mut broker = Broker::start(&disk, KeyspaceSettings::default()).unwrap();
    let mut clients: Vec<KeyspaceClient> = (0..100).map(|_| broker.client()).collect();
    let before = disk.changes();
    for (index, client) in clients.iter_mut().enumerate() {
        client.run(NOW, (0..10).map(|at| (at, KeyspaceCall::Run(set(&format!("k{index}-{at}"), at)))));
    }
    broker.round().unwrap();
    assert!(clients.iter_mut().all(|client| client.take_answered().len() == 10));
    assert!(disk.changes() - before <= 3, "{} changes", disk.changes() - before);
}

#[test]
fn a_blocked_pop_is_served_in_order_and_returned_if_its_client_is_gone() {
    let mut broker = Broker::start(&MemoryDisk::new(), settings()).unwrap();
    let (mut first, mut second, mut producer) = (broker.client(), broker.client(), broker.client());
    first.run(NOW, [(7, KeyspaceCall::Wait(pop("q")))]);
    second.run(NOW, [(8, KeyspaceCall::Wait(pop("q")))]);
    assert_eq!(
        broker.ask(&mut producer, KeyspaceCall::Run(push("q", "x"))),
        KeyspaceAnswer::Reply(Reply::Integer(1))
    );
    assert_eq!(first.take_answered(), [(7, KeyspaceAnswer::Reply(Reply::Array(vec![bulk("q"), bulk("x")])))]);
    assert!(second.take_answered().is_empty());
    producer.run(NOW, [(2, KeyspaceCall::Run(push("q", "y")))]);
    // It is gone before the disk has its element.
    drop(second);
    broker.round().unwrap();
    assert_eq!(producer.take_answered().len(), 1);
    assert_eq!(
        broker.ask(&mut producer, KeyspaceCall::Run(length("q"))),
        KeyspaceAnswer::Reply(Reply::Integer(1))
    );
    first.run(NOW, [(9, KeyspaceCall::Wait(pop("empty")))]);
    first.run(NOW, [(0, KeyspaceCall::GiveUp { waiting: 9 })]);
    assert_eq!(first.take_answered(), [(9, KeyspaceAnswer::Reply(Reply::NullArray))]);
}

#[test]
fn a_watched_key_that_changes_stops_the_transaction() {
    let mut broker = Broker::start(&MemoryDisk::new(), settings()).unwrap();
    let (mut one, mut other) = (broker.client(), broker.client());
    let watch = || KeyspaceCall::Watch(vec![Bytes::from_static(b"k")]);
    assert_eq!(broker.ask(&mut one, watch()), KeyspaceAnswer::Reply(Reply::Ok));
    broker.ask(&mut other, KeyspaceCall::Run(set("k", 1)));
    assert_eq!(
        broker.ask(&mut one, KeyspaceCall::Transaction(vec![set("k", 2)])),
        KeyspaceAnswer::Transaction(None)
    );
    broker.ask(&mut one, watch());
    let done = broker.ask(&mut one, KeyspaceCall::Transaction(vec![set("k", 3), get("k")]));
    assert_eq!(done, KeyspaceAnswer::Transaction(Some(vec![Reply::Ok, bulk("3")])));
    // Created and deleted again is a change as well.
    let created = KeyspaceCall::Watch(vec![Bytes::from_static(b"new")]);
    broker.ask(&mut one, created);
    broker.ask(&mut other, KeyspaceCall::Run(set("new", 1)));
    broker.ask(&mut other, KeyspaceCall::Run(delete("new")));
    assert_eq!(
        broker.ask(&mut one, KeyspaceCall::Transaction(vec![get("k")])),
        KeyspaceAnswer::Transaction(None)
    );
}

#[test]
fn a_key_ends_with_its_time_also_over_a_restart() {
    let disk = MemoryDisk::new();
    let mut broker = Broker::start(&disk, settings()).unwrap();
    let mut client = broker.client();
    broker.ask(&mut client, KeyspaceCall::Run(set("k", 1)));
    let expire = KeyCommand::ExpireAfter {
        key: Bytes::from_static(b"k"),
        millis: 1_000,
        condition: ExpireCondition::Always,
        command: "pexpire",
    };
    assert_eq!(
        broker.ask(&mut client, KeyspaceCall::Run(Command::Key(expire))),
        KeyspaceAnswer::Reply(Reply::Integer(1))
    );
    drop((client, broker));
    let disk = disk.reopen();
    let mut broker = Broker::start(&disk, settings()).unwrap();
    let mut client = broker.client();
    assert_eq!(broker.ask(&mut client, KeyspaceCall::Run(get("k"))), KeyspaceAnswer::Reply(bulk("1")));
    client.run(NOW + Duration::from_secs(1), [(1, KeyspaceCall::Run(get("k")))]);
    assert_eq!(client.take_answered(), [(1, KeyspaceAnswer::Reply(Reply::Null))]);
    broker.keyspaces.expire(KeyTime(NOW.0 + 1_000));
    assert_eq!(broker.keyspaces.figures("default").keys, 0);
}

#[test]
fn a_full_disk_refuses_writes_by_name_and_takes_them_when_there_is_room() {
    let disk = MemoryDisk::new();
    let mut broker = Broker::start(&disk, settings()).unwrap();
    let mut client = broker.client();
    broker.ask(&mut client, KeyspaceCall::Run(set("k", 1)));
    disk.limit_capacity(Some(0));
    client.run(NOW, [(1, KeyspaceCall::Run(set("k", 2)))]);
    assert_eq!(broker.round().unwrap(), Round::DiskFull);
    assert_eq!(client.take_answered(), [(1, KeyspaceAnswer::Failed(KeyspaceFailure::Unwritten))]);
    client.run(NOW, [(2, KeyspaceCall::Run(set("k", 3)))]);
    assert_eq!(client.take_answered(), [(2, KeyspaceAnswer::Failed(KeyspaceFailure::DiskFull))]);
    disk.limit_capacity(None);
    broker.round().unwrap();
    assert_eq!(broker.ask(&mut client, KeyspaceCall::Run(get("k"))), KeyspaceAnswer::Reply(bulk("2")));
}

#[test]
fn a_namespace_holds_no_more_than_its_limits() {
    let mut limits = settings();
    limits.limits.keys_max = 2;
    let mut broker = Broker::start(&MemoryDisk::new(), limits).unwrap();
    let mut client = broker.client();
    broker.ask(&mut client, KeyspaceCall::Run(set("a", 1)));
    broker.ask(&mut client, KeyspaceCall::Run(set("b", 1)));
    let refused = broker.ask(&mut client, KeyspaceCall::Run(set("c", 1)));
    assert_eq!(refused, KeyspaceAnswer::Reply(Reply::Refused(KeyspaceRefusal::TooManyKeys { limit: 2 })));
    let mut elsewhere = broker.keyspaces.connect(&"other".into()).unwrap();
    assert_eq!(broker.ask(&mut elsewhere, KeyspaceCall::Run(set("c", 1))), KeyspaceAnswer::Reply(Reply::Ok));
}
