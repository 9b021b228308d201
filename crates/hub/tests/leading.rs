//! The hub of a leader: what it says is committed in the journal that the group shares, and when another broker leads
//! it ends without another word.

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tenure_hub::store::{
    LeaderClaim, Member, MemoryDisk, MemoryJournal, Opened, Replica, ReplicaSettings, StoreSettings,
};
use tenure_hub::words::{NewTask, Query, Settings, Timestamp};
use tenure_hub::{
    Delivery, Hub, HubEnd, HubSettings, Keys, Request, Response, Submission, fresh_id, monotonic_clock,
};

use support::TIMEOUT;
use support::test_client::TestClient;

/// Long enough for a busy machine: where a lease has to end, the journal's clock is set.
const LEASE: Duration = Duration::from_secs(600);

fn opened(journal: &MemoryJournal, name: &str, instance: u64) -> Opened {
    let member = Member { name: name.to_owned(), instance, lease: LEASE, doors: String::new() };
    let settings = ReplicaSettings { member, store: StoreSettings::default(), mutation: None };
    let mut replica =
        Replica::open(Arc::new(MemoryDisk::new()), Arc::new(journal.clone()), settings).unwrap();
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
    assert!(mail.is_empty(), "{mail:?}");
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
