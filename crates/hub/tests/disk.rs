//! The running hub and its disk: no peer hears "yes" before the sync, a full disk holds up and loses nothing, a failed
//! one ends the hub. A lone asker's batches are written on the spot, a crowd's by the writer's thread; all this is true
//! of both.

mod support;

use std::time::Duration;

use bytes::Bytes;
use tenure_hub::store::{Disk, MemoryDisk, StoreSettings};
use tenure_hub::words::{Command, Held, NewTask, Query, Reply, Settings};
use tenure_hub::{Delivery, Done, Hub, HubRefusal, Request, Response, Submission, fresh_id};

use support::TIMEOUT;
use support::test_client::{TestClient, start_hub, start_hub_with};

/// Enough turns of one message each.
const ONE_BY_ONE: usize = 20;

/// How many tasks there are on a disk whose power has failed.
async fn tasks_after_power_failure(disk: &MemoryDisk) -> u64 {
    let hub = start_hub(&disk.crash(7));
    let mut client = TestClient::new(hub.handle(), "inspector");
    client.ask(1, Request::Stats).await;
    let Delivery::Reply { reply: Ok(Response::Stats(stats)), .. } = client.next().await else {
        panic!("figures");
    };
    stats.tasks
}

async fn lone_asker(hub: &Hub) -> TestClient {
    let mut client = TestClient::new(hub.handle(), "ada");
    for _ in 0..ONE_BY_ONE {
        client.submit(1).await;
    }
    client
}

fn submission(bytes: usize) -> Request {
    Request::Submit(vec![Submission::new(NewTask::new(fresh_id(), "q"), Bytes::from(vec![b'x'; bytes]))])
}

#[tokio::test]
async fn a_single_client_is_answered_after_the_sync() {
    let disk = MemoryDisk::new();
    let hub = start_hub(&disk);
    let mut client = lone_asker(&hub).await;
    for more in 1..=5 {
        client.submit(1).await;
        assert_eq!(tasks_after_power_failure(&disk).await, (ONE_BY_ONE + more) as u64);
    }
}

#[tokio::test]
async fn many_who_ask_at_once_are_answered_after_the_sync() {
    let disk = MemoryDisk::new();
    let hub = start_hub(&disk);
    let mut clients: Vec<TestClient> =
        (0..8).map(|number| TestClient::new(hub.handle(), &format!("ada{number}"))).collect();
    for _ in 0..ONE_BY_ONE {
        for client in &clients {
            client.ask(1, submission(10)).await;
        }
        for client in &mut clients {
            let Delivery::Reply { reply: Ok(Response::Command(Reply::Submitted(_))), .. } =
                client.next().await
            else {
                panic!("it is accepted");
            };
        }
    }
    assert_eq!(tasks_after_power_failure(&disk).await, (8 * ONE_BY_ONE) as u64);
}

#[tokio::test]
async fn a_failed_sync_stops_the_hub_without_any_reply() {
    let disk = MemoryDisk::new();
    let hub = start_hub(&disk);
    let client = lone_asker(&hub).await;
    disk.fail_sync_after(0);
    client.ask(2, submission(10)).await;
    let ended = tokio::time::timeout(TIMEOUT, hub.ended()).await.expect("it ends");
    assert!(ended.is_err(), "{ended:?}");
    let mut mail = Vec::new();
    client.session.mailbox().take(&mut mail);
    assert!(mail.is_empty(), "{mail:?}");
}

#[tokio::test]
async fn a_full_disk_holds_up_and_loses_nothing() {
    let disk = MemoryDisk::new();
    // Files are made before they are needed: what is larger than one finds no room in it.
    let hub = start_hub_with(&disk, StoreSettings { segment_bytes: 4 << 10, ..StoreSettings::default() });
    let mut client = lone_asker(&hub).await;
    disk.limit_capacity(Some(0));
    client.ask(2, submission(8 << 10)).await;
    let early = tokio::time::timeout(Duration::from_millis(300), client.session.mailbox().arrived()).await;
    assert!(early.is_err(), "no peer hears anything before it is written");
    disk.limit_capacity(None);
    let Delivery::Reply { token: 2, reply: Ok(_) } = client.next().await else { panic!("it is accepted") };
    assert_eq!(tasks_after_power_failure(&disk).await, ONE_BY_ONE as u64 + 1);
}

/// Asks as a new peer.
async fn answer(hub: &Hub, request: Request) -> Result<Response, HubRefusal> {
    let mut client = TestClient::new(hub.handle(), "newcomer");
    client.ask(1, request).await;
    match client.next().await {
        Delivery::Reply { token: 1, reply } => reply,
        other => panic!("{other:?}"),
    }
}

/// The same until the hub knows that the disk is full: what is submitted before waits for the disk.
async fn answer_of_a_full_disk(hub: &Hub, request: impl Fn() -> Request) -> Result<Response, HubRefusal> {
    let begun = std::time::Instant::now();
    while begun.elapsed() < TIMEOUT {
        let mut client = TestClient::new(hub.handle(), "newcomer");
        client.ask(1, request()).await;
        if let Ok(Delivery::Reply { token: 1, reply }) =
            tokio::time::timeout(Duration::from_millis(500), client.next()).await
        {
            return reply;
        }
    }
    panic!("a request that needs no record waits for a full disk");
}

#[tokio::test]
async fn a_full_disk_delays_no_request_that_needs_no_record() {
    let disk = MemoryDisk::new();
    let hub = start_hub_with(&disk, StoreSettings { segment_bytes: 4 << 10, ..StoreSettings::default() });
    let mut client = lone_asker(&hub).await;
    disk.limit_capacity(Some(0));
    client.ask(2, submission(8 << 10)).await;
    for _ in 0..2 {
        // What is in memory may not be on disk: no peer hears of it, whether it is known already that there is no room
        // or not.
        let counts = answer(&hub, Request::Query(Query::Counts)).await;
        assert!(matches!(counts, Err(HubRefusal::DiskFull)), "{counts:?}");
        let figures = answer(&hub, Request::Stats).await;
        assert!(matches!(figures, Ok(Response::Stats(stats)) if stats.disk_full));
        let submitted = answer_of_a_full_disk(&hub, || submission(1)).await;
        assert!(matches!(submitted, Err(HubRefusal::DiskFull)), "{submitted:?}");
        // Reports of work go on to be taken, until there is no room for them even in memory.
        for token in 10..22 {
            let held = Held { task: fresh_id(), attempt: 1 };
            let done = Done { held, result: Bytes::from(vec![b'x'; 1 << 20]) };
            client.ask(token, Request::Complete(vec![done])).await;
        }
    }
    disk.limit_capacity(None);
    let tokens = std::iter::once(2).chain(10..22).chain(10..22);
    for expected in tokens {
        let Delivery::Reply { token, .. } = client.next().await else { panic!("an answer") };
        assert_eq!(token, expected, "each is answered in its turn");
    }
    assert_eq!(tasks_after_power_failure(&disk).await, ONE_BY_ONE as u64 + 1);
    client.submit(1).await;
}

#[tokio::test]
async fn keeping_fewer_ended_tasks_frees_room_while_new_ones_are_refused() {
    let disk = MemoryDisk::new();
    let hub = start_hub_with(&disk, StoreSettings { segment_bytes: 4 << 10, ..StoreSettings::default() });
    let mut client = TestClient::new(hub.handle(), "ada");
    for _ in 0..60 {
        let task = NewTask::new(fresh_id(), "q");
        let id = task.id;
        client.ask(1, Request::Submit(vec![Submission::new(task, Bytes::from(vec![b'x'; 1000]))])).await;
        client.next().await;
        client.ask(2, Request::Command(Command::Cancel { task: id, reason: None })).await;
        client.next().await;
    }
    let files = || disk.list().expect("the disk is there");
    let used: usize = files().iter().filter_map(|name| disk.content(name)).map(|bytes| bytes.len()).sum();
    let segments = || files().iter().filter(|name| name.starts_with("journal")).count();
    let before = segments();
    assert!(before > 10, "{before}");
    // Less than the reserve is left.
    disk.limit_capacity(Some(used as u64 + (1 << 20)));
    let refused = answer_until_refused(&hub).await;
    assert!(matches!(refused, Err(HubRefusal::DiskFull)), "{refused:?}");
    hub.handle().configure(Settings { ended_kept: 2, ..Settings::default() });
    let begun = std::time::Instant::now();
    while segments() > 4 {
        assert!(begun.elapsed() < TIMEOUT, "{:?}", files());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn answer_until_refused(hub: &Hub) -> Result<Response, HubRefusal> {
    let begun = std::time::Instant::now();
    loop {
        let reply = answer(hub, submission(1)).await;
        if reply.is_err() || begun.elapsed() > TIMEOUT {
            return reply;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
