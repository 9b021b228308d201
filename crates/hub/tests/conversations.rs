//! The running hub, as doors use it: watches, calls, broadcasts, stopping and coming back.

mod support;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tenure_hub::store::MemoryDisk;
use tenure_hub::words::{DEFAULT_NAMESPACE, EventData, EventFilter, Name, NewTask, Refusal};
use tenure_hub::{
    Broadcast, CallAnswer, Counters, Delivery, HubRefusal, PlacedNamespace, Placement, Request, Response,
    Submission, Watch, fresh_id, limits,
};

use support::test_client::{TestClient, start_hub};

fn watch(from: Option<u64>) -> Request {
    Request::Watch(Watch { watch: 1, filter: EventFilter::default(), from })
}

#[tokio::test]
async fn a_watch_hears_what_was_before_and_then_what_comes() {
    let hub = start_hub(&MemoryDisk::new());
    let mut client = TestClient::new(hub.handle(), "client");
    client.submit(10).await;
    let mut watcher = TestClient::new(hub.handle(), "watcher");
    watcher.ask(1, watch(Some(4))).await;
    assert_eq!(watcher.events(7).await, [4, 5, 6, 7, 8, 9, 10]);
    client.submit(2).await;
    assert_eq!(watcher.events(2).await, [11, 12]);
}

#[tokio::test]
async fn a_watch_from_now_on_hears_only_what_comes() {
    let hub = start_hub(&MemoryDisk::new());
    let mut client = TestClient::new(hub.handle(), "client");
    client.submit(5).await;
    let mut watcher = TestClient::new(hub.handle(), "watcher");
    watcher.ask(1, watch(None)).await;
    assert!(matches!(watcher.next().await, Delivery::Reply { reply: Ok(Response::Done), .. }));
    client.submit(1).await;
    assert_eq!(watcher.events(1).await, [6]);
}

#[tokio::test]
async fn a_watcher_that_does_not_read_misses_nothing_and_delays_no_other() {
    let hub = start_hub(&MemoryDisk::new());
    let mut watcher = TestClient::new(hub.handle(), "watcher");
    watcher.ask(1, watch(Some(1))).await;
    let mut client = TestClient::new(hub.handle(), "client");
    let total = limits::MAILBOX_EVENTS_MAX * 3;
    for _ in 0..total / 256 {
        client.submit(256).await;
    }
    let numbers = watcher.events(total).await;
    assert!(numbers.iter().copied().eq(1..=total as u64), "every number once and in order");
}

#[tokio::test]
async fn a_filter_lets_through_what_it_names() {
    let hub = start_hub(&MemoryDisk::new());
    let mut client = TestClient::new(hub.handle(), "client");
    let id = fresh_id();
    let mut watcher = TestClient::new(hub.handle(), "watcher");
    let filter = EventFilter { task: Some(id), ..EventFilter::default() };
    watcher.ask(1, Request::Watch(Watch { watch: 9, filter, from: Some(1) })).await;
    client.submit(3).await;
    client.ask(1, Request::Submit(vec![Submission::new(NewTask::new(id, "q"), Bytes::new())])).await;
    client.next().await;
    loop {
        if let Delivery::Event { watch, event } = watcher.next().await {
            assert_eq!((watch, event.task()), (9, Some(id)));
            assert!(matches!(event.kind, EventData::Submitted { .. }));
            break;
        }
    }
}

#[tokio::test]
async fn a_call_is_answered_by_its_one_receiver() {
    let hub = start_hub(&MemoryDisk::new());
    let (mut caller, mut receiver) =
        (TestClient::new(hub.handle(), "caller"), TestClient::new(hub.handle(), "receiver"));
    let address: Name = "process.1".into();
    caller.ask(1, Request::Call { address: address.clone(), body: Bytes::from_static(b"?") }).await;
    assert!(matches!(
        caller.next().await,
        Delivery::Reply { token: 1, reply: Err(HubRefusal::NoListener { .. }) }
    ));
    receiver.ask(1, Request::Listen { address: address.clone() }).await;
    receiver.next().await;
    caller.ask(1, Request::Listen { address: address.clone() }).await;
    assert!(matches!(caller.next().await, Delivery::Reply { reply: Err(_), .. }), "at most one listens");
    caller.ask(2, Request::Call { address, body: Bytes::from_static(b"?") }).await;
    let Delivery::Call { call, body, .. } = receiver.next().await else { panic!("a call arrives") };
    assert_eq!(body, "?");
    for answer in [CallAnswer::Pending, CallAnswer::Result(Bytes::from_static(b"!"))] {
        receiver.ask(2, Request::CallAnswer { call, answer: answer.clone() }).await;
        match caller.next().await {
            Delivery::CallAnswered { token: 2, answer: heard } => assert_eq!(heard, answer),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_call_fails_when_its_receiver_is_gone() {
    let hub = start_hub(&MemoryDisk::new());
    let (mut caller, mut receiver) =
        (TestClient::new(hub.handle(), "caller"), TestClient::new(hub.handle(), "receiver"));
    receiver.ask(1, Request::Listen { address: "here".into() }).await;
    receiver.next().await;
    caller.ask(5, Request::Call { address: "here".into(), body: Bytes::new() }).await;
    assert!(matches!(receiver.next().await, Delivery::Call { .. }));
    drop(receiver);
    assert!(matches!(
        caller.next().await,
        Delivery::Reply { token: 5, reply: Err(HubRefusal::NoListener { .. }) }
    ));
}

#[tokio::test]
async fn the_receiver_learns_that_the_caller_no_longer_waits() {
    let hub = start_hub(&MemoryDisk::new());
    let (mut caller, mut receiver) =
        (TestClient::new(hub.handle(), "caller"), TestClient::new(hub.handle(), "receiver"));
    receiver.ask(1, Request::Listen { address: "here".into() }).await;
    receiver.next().await;
    // One caller says so, the other one is gone.
    for token in [5, 6] {
        caller.ask(token, Request::Call { address: "here".into(), body: Bytes::new() }).await;
        let Delivery::Call { call, .. } = receiver.next().await else { panic!("a call arrives") };
        if token == 5 {
            caller.ask(7, Request::GiveUpCall { token }).await;
            assert!(matches!(caller.next().await, Delivery::Reply { token: 7, reply: Ok(Response::Done) }));
        } else {
            drop(std::mem::replace(&mut caller, TestClient::new(hub.handle(), "another")));
        }
        assert!(matches!(receiver.next().await, Delivery::CallGivenUp { call: over } if over == call));
        receiver.ask(2, Request::CallAnswer { call, answer: CallAnswer::Cancelled }).await;
        let answered = receiver.next().await;
        assert!(
            matches!(
                answered,
                Delivery::Reply { reply: Err(HubRefusal::Engine(Refusal::BadValue { .. })), .. }
            ),
            "{answered:?}"
        );
    }
    // Giving up what was never called changes nothing.
    caller.ask(1, Request::GiveUpCall { token: 99 }).await;
    assert!(matches!(caller.next().await, Delivery::Reply { reply: Ok(Response::Done), .. }));
}

#[tokio::test]
async fn a_watch_that_is_taken_back_reads_the_log_no_further() {
    let hub = start_hub(&MemoryDisk::new());
    let mut client = TestClient::new(hub.handle(), "client");
    for _ in 0..12 {
        client.submit(1_000).await;
    }
    let watcher = TestClient::new(hub.handle(), "watcher");
    watcher.ask(1, watch(Some(1))).await;
    // It reads as far as its mailbox has room, and would go on as soon as that is emptied.
    let mut taken = Vec::new();
    while taken.len() < 2_000 {
        watcher.session.mailbox().arrived().await;
        watcher.session.mailbox().take(&mut taken);
    }
    watcher.ask(2, Request::Unwatch { watch: 9 }).await;
    while !taken.iter().any(|delivery| matches!(delivery, Delivery::Reply { token: 2, .. })) {
        watcher.session.mailbox().arrived().await;
        watcher.session.mailbox().take(&mut taken);
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    watcher.session.mailbox().take(&mut taken);
    assert!(taken.len() < 12_000, "{} deliveries", taken.len());
}

#[tokio::test]
async fn a_broadcast_reaches_all_listeners_of_the_namespace() {
    let hub = start_hub(&MemoryDisk::new());
    let mut broadcast_receivers =
        [TestClient::new(hub.handle(), "one"), TestClient::new(hub.handle(), "two")];
    for hearer in &mut broadcast_receivers {
        hearer.ask(1, Request::ReceiveBroadcasts { hear: true }).await;
        hearer.next().await;
    }
    let mut speaker = TestClient::new(hub.handle(), "speaker");
    let broadcast = Broadcast {
        sender: Some("me".into()),
        subject: Some("news".into()),
        correlation: None,
        body: Bytes::from_static(b"hear"),
    };
    speaker.ask(1, Request::Broadcast(broadcast.clone())).await;
    assert!(matches!(speaker.next().await, Delivery::Reply { reply: Ok(Response::Heard(2)), .. }));
    for hearer in &mut broadcast_receivers {
        assert!(matches!(hearer.next().await, Delivery::Broadcast(heard) if heard == broadcast));
    }
}

#[tokio::test]
async fn what_doors_count_is_among_the_figures() {
    let hub = start_hub(&MemoryDisk::new());
    let (mdp, resp) = (Arc::new(Counters::new("mdp")), Arc::new(Counters::new("resp")));
    mdp.count("stale");
    hub.handle().show(Arc::clone(&mdp)).await;
    hub.handle().show(Arc::clone(&resp)).await;
    mdp.count("stale");
    resp.count("too-long");
    let mut client = TestClient::new(hub.handle(), "client");
    client.ask(1, Request::Stats).await;
    let Delivery::Reply { reply: Ok(Response::Stats(stats)), .. } = client.next().await else {
        panic!("no figures");
    };
    let text = stats.render();
    assert!(text.contains("tenure_door_total{door=\"mdp\",what=\"stale\"} 2\n"), "{text}");
    assert!(text.contains("tenure_door_total{door=\"resp\",what=\"too-long\"} 1\n"), "{text}");
    assert_eq!(stats.sessions, 1, "a door is no peer");
}

#[tokio::test]
async fn a_hub_that_is_stopped_says_goodbye_and_comes_back_with_everything() {
    let disk = MemoryDisk::new();
    let hub = start_hub(&disk);
    let mut client = TestClient::new(hub.handle(), "client");
    client.submit(100).await;
    hub.handle().stop();
    assert!(matches!(client.next().await, Delivery::Goodbye));
    hub.ended().await.expect("a clean end");
    drop(client);
    let hub = start_hub(&disk.reopen());
    let mut watcher = TestClient::new(hub.handle(), "watcher");
    watcher.ask(1, watch(Some(1))).await;
    assert_eq!(watcher.events(100).await.len(), 100);
    watcher.ask(2, Request::Stats).await;
    loop {
        if let Delivery::Reply { token: 2, reply: Ok(Response::Stats(stats)) } = watcher.next().await {
            assert_eq!((stats.tasks, stats.last_event), (100, 100));
            let text = stats.render();
            assert!(text.contains("tenure_tasks 100\n"), "{text}");
            assert!(text.contains("tenure_tasks_by_state{state=\"ready\"} 100\n"), "{text}");
            break;
        }
    }
}

#[tokio::test]
async fn a_watch_from_beyond_the_end_of_the_log_hears_that_the_log_begins_again() {
    let hub = start_hub(&MemoryDisk::new());
    let mut client = TestClient::new(hub.handle(), "client");
    client.submit(10).await;
    let mut watcher = TestClient::new(hub.handle(), "watcher");
    watcher.ask(1, watch(Some(100_000))).await;
    loop {
        match watcher.next().await {
            Delivery::Gap { from, oldest, .. } => {
                assert_eq!((from, oldest), (100_000, 11));
                break;
            }
            Delivery::Live { next, .. } => panic!("live from {next} on, without a gap"),
            _ => {}
        }
    }
    client.submit(2).await;
    assert_eq!(watcher.events(2).await, [11, 12]);
    // The next number is not beyond the end.
    let mut other = TestClient::new(hub.handle(), "other");
    other.ask(1, watch(Some(13))).await;
    loop {
        match other.next().await {
            Delivery::Live { next, .. } => break assert_eq!(next, 13),
            Delivery::Gap { from, .. } => panic!("a gap from {from}"),
            _ => {}
        }
    }
}

#[tokio::test]
async fn a_watch_that_begins_before_its_namespace_came_here_hears_of_a_gap() {
    let hub = start_hub(&MemoryDisk::new());
    let mut client = TestClient::new(hub.handle(), "client");
    client.submit(10).await;
    let placed = PlacedNamespace { group: "g1".into(), first_event: 8 };
    hub.handle().set_placement(Some(Placement {
        group: "g1".into(),
        default_group: "g1".into(),
        namespaces: HashMap::from([(DEFAULT_NAMESPACE.into(), placed)]),
        ..Placement::default()
    }));
    let mut watcher = TestClient::new(hub.handle(), "watcher");
    watcher.ask(1, watch(Some(4))).await;
    loop {
        match watcher.next().await {
            Delivery::Gap { from, oldest, .. } => {
                assert_eq!((from, oldest), (4, 8));
                break;
            }
            Delivery::Event { event, .. } => panic!("event {} comes before the gap", event.seq),
            _ => {}
        }
    }
    assert_eq!(watcher.events(3).await, [8, 9, 10]);
}
