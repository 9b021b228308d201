//! The hub of a leader: what it says is committed in the journal that the group shares, and when another broker leads
//! it ends without another word.

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tenure_hub::topics::{TopicFilter, TopicSettings};
use tenure_hub::words::{Command, NewTask, Query, Settings, Timestamp};
use tenure_hub::{
    Delivery, Hub, HubEnd, HubRefusal, HubSettings, Keys, Request, Response, Submission, fresh_id,
    monotonic_clock,
};
use tenure_store::{
    LeaderClaim, Member, MemoryDisk, MemoryJournal, Opened, Replica, ReplicaSettings, StoreError,
    StoreSettings,
};

use support::test_client::TestClient;
use support::{TIMEOUT, publish};

/// Long enough for a busy machine: where a lease has to end, the journal's clock is set.
const LEASE: Duration = Duration::from_secs(600);

fn replica(
    journal: &MemoryJournal,
    disk: &MemoryDisk,
    name: &str,
    instance: u64,
) -> Result<Replica, StoreError> {
    let member = Member { name: name.to_owned(), instance, lease: LEASE, doors: String::new() };
    // Small batches, so that the queue of the writer is soon full.
    let store = StoreSettings { batch_bytes: 256, ..StoreSettings::default() };
    let settings = ReplicaSettings { member, store, mutation: None };
    Replica::open(Arc::new(disk.clone()), Arc::new(journal.clone()), settings)
}

fn opened(journal: &MemoryJournal, name: &str, instance: u64) -> Opened {
    opened_on(&MemoryDisk::new(), journal, name, instance)
}

fn opened_on(disk: &MemoryDisk, journal: &MemoryJournal, name: &str, instance: u64) -> Opened {
    let mut replica = replica(journal, disk, name, instance).unwrap();
    replica.follow().unwrap();
    let now = monotonic_clock();
    let led = replica.lead(LeaderClaim::LeaseEnded, Settings::default(), now, now).unwrap();
    led.expect("the lease of the last leader has ended")
}

fn start(journal: &MemoryJournal, name: &str, instance: u64) -> Hub {
    let opened = opened(journal, name, instance);
    Hub::start_opened(opened, Instant::now(), HubSettings::default(), Keys::default()).expect("it starts")
}

fn submission() -> Request {
    Request::Submit(vec![Submission::new(NewTask::new(fresh_id(), "q"), Bytes::from_static(b"body"))])
}

#[tokio::test]
async fn what_a_leader_acknowledges_is_known_to_the_next_one() {
    let journal = MemoryJournal::new(1);
    let hub = start(&journal, "b1", 1);
    let mut client = TestClient::new(hub.handle(), "ada");
    for _ in 0..20 {
        client.submit(1).await;
    }
    journal.set_now(Timestamp(0) + LEASE);
    let next = opened(&journal, "b2", 2);
    assert_eq!(next.engine.task_count(), 20);
}

#[tokio::test]
async fn a_leader_that_another_has_replaced_ends_without_a_reply() {
    let journal = MemoryJournal::new(2);
    let hub = start(&journal, "b1", 1);
    let mut client = TestClient::new(hub.handle(), "ada");
    client.submit(1).await;
    journal.set_now(Timestamp(0) + LEASE);
    let next = opened(&journal, "b2", 2);
    client.ask(2, submission()).await;
    let ended = tokio::time::timeout(TIMEOUT, hub.ended()).await.expect("it ends").expect("no failure");
    assert_eq!(ended, HubEnd::Deposed { holder: "b2".to_owned(), epoch: 2 });
    let mut mail = Vec::new();
    client.session.mailbox().take(&mut mail);
    let [Delivery::Ended(HubRefusal::Deposed { holder })] = &mail[..] else {
        panic!("it says who leads and nothing else: {mail:?}")
    };
    assert_eq!(&**holder, "b2");
    assert!(client.session.mailbox().is_closed());
    assert_eq!(next.engine.task_count(), 1);
}

#[tokio::test]
async fn a_journal_that_is_away_holds_up_and_loses_nothing() {
    let journal = MemoryJournal::new(3);
    let hub = start(&journal, "b1", 1);
    let mut client = TestClient::new(hub.handle(), "ada");
    client.submit(1).await;
    journal.go_away_until(Timestamp(1_000));
    client.ask(2, submission()).await;
    let early = tokio::time::timeout(Duration::from_millis(200), client.session.mailbox().arrived()).await;
    assert!(early.is_err(), "nothing is acknowledged before it is committed");
    journal.set_now(Timestamp(1_000));
    let Delivery::Reply { token: 2, reply: Ok(_) } = client.next().await else { panic!("it is accepted") };
    client.ask(3, Request::Query(Query::Queues)).await;
    let Delivery::Reply { token: 3, reply: Ok(Response::Answer(_)) } = client.next().await else {
        panic!("the lease holds, so a query is answered")
    };
    hub.handle().stop();
    let ended = tokio::time::timeout(TIMEOUT, hub.ended()).await.expect("it ends").expect("no failure");
    assert_eq!(ended, HubEnd::Stopped);
    assert_eq!(opened(&journal, "b2", 2).engine.task_count(), 2, "a clean end releases the lease");
}

#[tokio::test]
async fn a_journal_that_stays_away_refuses_new_tasks_and_keeps_what_was_decided_open() {
    let journal = MemoryJournal::new(4);
    let hub = start(&journal, "b1", 1);
    let (mut first, mut second) =
        (TestClient::new(hub.handle(), "ada"), TestClient::new(hub.handle(), "bob"));
    journal.go_away_until(Timestamp(1_000));
    first.ask(1, submission()).await;
    // The writer has to notice before the hub knows.
    tokio::time::sleep(Duration::from_millis(300)).await;
    second.ask(2, submission()).await;
    let Delivery::Reply { token: 2, reply: Err(HubRefusal::JournalAway) } = second.next().await else {
        panic!("it is refused")
    };
    journal.set_now(Timestamp(1_000));
    let Delivery::Reply { token: 1, reply: Ok(_) } = first.next().await else { panic!("it is committed") };
    second.ask(3, submission()).await;
    let Delivery::Reply { token: 3, reply: Ok(_) } = second.next().await else { panic!("it is accepted") };
    hub.handle().stop();
    let ended = tokio::time::timeout(TIMEOUT, hub.ended()).await.expect("it ends").expect("no failure");
    assert_eq!(ended, HubEnd::Stopped);
    assert_eq!(opened(&journal, "b2", 2).engine.task_count(), 2);
}

/// A commit that waits for a standby, and a server that is stopped, give no error.
#[tokio::test]
async fn a_journal_that_gives_no_answer_counts_as_away_long_before_the_lease_ends() {
    let journal = MemoryJournal::new(6);
    let hub = start(&journal, "b1", 1);
    let (mut first, mut second) =
        (TestClient::new(hub.handle(), "ada"), TestClient::new(hub.handle(), "bob"));
    first.submit(1).await;
    assert!(!hub.handle().is_journal_away());
    journal.freeze(true);
    first.ask(2, submission()).await;
    let since = Instant::now();
    while !hub.handle().is_journal_away() {
        assert!(since.elapsed() < TIMEOUT, "the hub does not notice");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    second.ask(3, submission()).await;
    let Delivery::Reply { token: 3, reply: Err(HubRefusal::JournalAway) } = second.next().await else {
        panic!("it is refused")
    };
    journal.freeze(false);
    let Delivery::Reply { token: 2, reply: Ok(_) } = first.next().await else { panic!("it is committed") };
    assert!(!hub.handle().is_journal_away());
    second.submit(1).await;
    hub.handle().stop();
    let ended = tokio::time::timeout(TIMEOUT, hub.ended()).await.expect("it ends").expect("no failure");
    assert_eq!(ended, HubEnd::Stopped);
    assert_eq!(opened(&journal, "b2", 2).engine.task_count(), 3);
}

#[tokio::test]
async fn a_stop_is_heard_with_a_full_queue_and_does_not_wait_for_a_journal_that_stays_away() {
    let journal = MemoryJournal::new(5);
    let hub = start(&journal, "b1", 1);
    let client = TestClient::new(hub.handle(), "ada");
    journal.go_away_until(Timestamp(1_000));
    for number in 0..200 {
        let limit = Command::SetLimit { tag: "licence".into(), limit: Some(number) };
        client.ask(number.into(), Request::Command(limit)).await;
    }
    let handle = hub.handle().clone();
    let ended = tokio::spawn(hub.ended());
    // The writer has to notice, and its queue has to fill.
    tokio::time::sleep(Duration::from_millis(300)).await;
    handle.stop();
    let ended = tokio::time::timeout(TIMEOUT, ended).await.expect("it ends").unwrap().expect("no failure");
    assert_eq!(ended, HubEnd::Stopped);
    let mut mail = Vec::new();
    client.session.mailbox().take(&mut mail);
    assert!(
        !mail.iter().any(|one| matches!(one, Delivery::Reply { .. })),
        "nothing is acknowledged: {mail:?}"
    );
}

#[tokio::test]
async fn a_deposed_leader_lets_go_of_its_disk_while_a_message_is_in_doubt() {
    let (journal, disk) = (MemoryJournal::new(6), MemoryDisk::new());
    let durable = vec![TopicFilter::parse("audit.>").expect("a filter")];
    let topics = TopicSettings { durable, ..TopicSettings::default() };
    let settings = HubSettings { topics, ..HubSettings::default() };
    let opened_first = opened_on(&disk, &journal, "b1", 1);
    let hub = Hub::start_opened(opened_first, Instant::now(), settings, Keys::default()).expect("it starts");
    let client = TestClient::new(hub.handle(), "ada");
    journal.set_now(Timestamp(0) + LEASE);
    let _next = opened(&journal, "b2", 2);
    let topics = hub.handle().topics().clone();
    let publishing = tokio::spawn(async move { publish(&topics, "audit.log", "1").await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    client.ask(2, submission()).await;
    let ended = tokio::time::timeout(TIMEOUT, hub.ended()).await.expect("it ends").expect("no failure");
    assert_eq!(ended, HubEnd::Deposed { holder: "b2".to_owned(), epoch: 2 });
    assert!(!publishing.is_finished(), "the message is neither published nor refused");
    // Its connections are closed.
    publishing.abort();
    drop(client);
    let since = Instant::now();
    while let Err(error) = replica(&journal, &disk, "b1", 1) {
        assert!(matches!(error, StoreError::Locked { .. }) && since.elapsed() < TIMEOUT, "{error}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
