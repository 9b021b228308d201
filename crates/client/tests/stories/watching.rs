//! Watching, without a hole.

use tenure_client::{Event, EventKind, Outcome, Submission, Watch, Watched, Watcher};

use crate::broker::{Broker, LONG};

async fn next(watcher: &mut Watcher) -> Event {
    match tokio::time::timeout(LONG, watcher.next()).await.expect("an event comes") {
        Some(Ok(Watched::Event(event))) => event,
        other => panic!("an event was expected: {other:?}"),
    }
}

#[tokio::test]
async fn a_watch_tells_what_happens_after_it_stands() {
    let broker = Broker::start();
    let client = broker.client().await;
    client.submit(Submission::to("images").body("before")).await.unwrap();
    let mut watcher = client.watch_mine().await.unwrap();
    let _worker = broker.worker("w1").handle(async |_| Outcome::complete("42")).start().await.unwrap();
    let task = client.submit(Submission::to("images")).await.unwrap().task;
    let mut kinds = Vec::new();
    loop {
        let event = next(&mut watcher).await;
        if event.task == Some(task) {
            kinds.push(event.kind.clone());
            if event.is_end() {
                break;
            }
        }
    }
    assert_eq!(kinds, [EventKind::Submitted, EventKind::Assigned, EventKind::Started, EventKind::Completed]);
}

#[tokio::test]
async fn a_watch_goes_on_in_another_program_where_the_first_stopped() {
    let broker = Broker::start();
    let client = broker.client().await;
    let mut watcher = client.watch(Watch::default().from(1).kinds([EventKind::Submitted])).await.unwrap();
    let one = client.submit(Submission::to("images")).await.unwrap().task;
    assert_eq!(next(&mut watcher).await.task, Some(one));
    let position = watcher.position();
    drop(watcher);
    let two = client.submit(Submission::to("images")).await.unwrap().task;
    let again = Watch::default().from(position).kinds([EventKind::Submitted]);
    let mut watcher = client.watch(again).await.unwrap();
    assert_eq!(next(&mut watcher).await.task, Some(two));
}

#[tokio::test]
async fn a_watch_survives_restarts_of_the_broker_without_a_gap() {
    let mut broker = Broker::start();
    let client = broker.client().await;
    let mut watcher =
        client.watch(Watch::default().queue("images").kinds([EventKind::Submitted])).await.unwrap();
    let mut tasks = Vec::new();
    let submit = async |round: u32, number: u32| {
        // The name lets the client say it again if the broker goes away before it has answered.
        let submission = Submission::to("images").name(format!("{round}-{number}"));
        client.submit(submission).await.unwrap().task
    };
    for round in 0..3 {
        for number in 0..50 {
            tasks.push(submit(round, number).await);
        }
        // Some of them are heard before the connection breaks, some after.
        if round == 1 {
            broker.kill();
        } else {
            broker.stop();
        }
        broker.start_again();
    }
    tasks.push(submit(3, 0).await);
    let mut last = 0;
    for task in tasks {
        let event = next(&mut watcher).await;
        assert_eq!(event.task, Some(task));
        assert!(event.seq > last);
        last = event.seq;
    }
}

#[tokio::test]
async fn a_slow_watcher_misses_nothing() {
    let broker = Broker::start();
    let client = broker.client().await;
    let mut watcher = client.watch(Watch::default().kinds([EventKind::Submitted])).await.unwrap();
    // More than the broker holds for one mailbox and more than fits between the two.
    let submissions = (0..30_000).map(|_| Submission::to("images"));
    let submitted = client.submit_many(submissions).await.unwrap();
    for accepted in submitted {
        assert_eq!(next(&mut watcher).await.task, Some(accepted.unwrap().task));
    }
}
