//! The running hub and its disk: nobody is told "yes" before the sync, a full disk holds up and loses nothing, a failed
//! one ends the hub. A lone asker's batches are written on the spot, a crowd's by the writer's thread; all this is true of
//! both.

mod support;

use std::time::Duration;

use bytes::Bytes;
use tenure_hub::store::{MemoryDisk, StoreSettings};
use tenure_hub::words::{NewTask, Reply};
use tenure_hub::{Delivery, Hub, Request, Response, Submission, fresh_id};

use support::PATIENCE;
use support::talk::{Talk, start_hub, start_hub_with};

/// Enough turns of one message each.
const ONE_BY_ONE: usize = 20;

/// How many tasks there are on a disk whose power has failed.
async fn tasks_after_power_failure(disk: &MemoryDisk) -> u64 {
    let hub = start_hub(&disk.crash(7));
    let mut talk = Talk::new(hub.handle(), "inspector");
    talk.ask(1, Request::Stats).await;
    let Delivery::Reply { reply: Ok(Response::Stats(stats)), .. } = talk.next().await else {
        panic!("figures");
    };
    stats.tasks
}

async fn lone_asker(hub: &Hub) -> Talk {
    let mut talk = Talk::new(hub.handle(), "ada");
    for _ in 0..ONE_BY_ONE {
        talk.submit(1).await;
    }
    talk
}

fn submission(bytes: usize) -> Request {
    Request::Submit(vec![Submission::new(NewTask::new(fresh_id(), "q"), Bytes::from(vec![b'x'; bytes]))])
}

#[tokio::test]
async fn whoever_asks_alone_is_answered_after_the_sync() {
    let disk = MemoryDisk::new();
    let hub = start_hub(&disk);
    let mut talk = lone_asker(&hub).await;
    for more in 1..=5 {
        talk.submit(1).await;
        assert_eq!(tasks_after_power_failure(&disk).await, (ONE_BY_ONE + more) as u64);
    }
}

#[tokio::test]
async fn many_who_ask_at_once_are_answered_after_the_sync() {
    let disk = MemoryDisk::new();
    let hub = start_hub(&disk);
    let mut talks: Vec<Talk> =
        (0..8).map(|number| Talk::new(hub.handle(), &format!("ada{number}"))).collect();
    for _ in 0..ONE_BY_ONE {
        for talk in &talks {
            talk.ask(1, submission(10)).await;
        }
        for talk in &mut talks {
            let Delivery::Reply { reply: Ok(Response::Command(Reply::Submitted(_))), .. } = talk.next().await
            else {
                panic!("it is accepted");
            };
        }
    }
    assert_eq!(tasks_after_power_failure(&disk).await, (8 * ONE_BY_ONE) as u64);
}

#[tokio::test]
async fn a_failed_sync_ends_the_hub_and_answers_nobody() {
    let disk = MemoryDisk::new();
    let hub = start_hub(&disk);
    let talk = lone_asker(&hub).await;
    disk.fail_sync_after(0);
    talk.ask(2, submission(10)).await;
    let ended = tokio::time::timeout(PATIENCE, hub.ended()).await.expect("it ends");
    assert!(ended.is_err(), "{ended:?}");
    let mut mail = Vec::new();
    talk.session.mailbox().take(&mut mail);
    assert!(mail.is_empty(), "{mail:?}");
}

#[tokio::test]
async fn a_full_disk_holds_up_and_loses_nothing() {
    let disk = MemoryDisk::new();
    // Files are made before they are needed: what is larger than one finds no room in it.
    let hub = start_hub_with(&disk, StoreSettings { segment_bytes: 4 << 10, ..StoreSettings::default() });
    let mut talk = lone_asker(&hub).await;
    disk.limit_capacity(Some(0));
    talk.ask(2, submission(8 << 10)).await;
    let early = tokio::time::timeout(Duration::from_millis(300), talk.session.mailbox().arrived()).await;
    assert!(early.is_err(), "nobody is told anything before it is written");
    disk.limit_capacity(None);
    let Delivery::Reply { token: 2, reply: Ok(_) } = talk.next().await else { panic!("it is accepted") };
    assert_eq!(tasks_after_power_failure(&disk).await, ONE_BY_ONE as u64 + 1);
}
