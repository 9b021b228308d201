//! What a peer leaves unread is bounded in bytes, for each session and for all of them together.

mod support;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tenure_hub::store::{MemoryDisk, StoreSettings};
use tenure_hub::words::{EventFilter, ListQuery, NewTask, Query, Refusal, Settings};
use tenure_hub::{
    Ask, Delivery, Hub, HubRefusal, HubSettings, Keys, Mailbox, Request, Response, Submission, UnreadLimits,
    Watch, fresh_id,
};

use tenure_hub::limits::SAME_WATCHES_MAX;

use support::TIMEOUT;
use support::test_client::{TestClient, start_hub};

const MB: usize = 1024 * 1024;

fn watch(watch: u64) -> Ask {
    let request = Request::Watch(Watch { watch, filter: EventFilter::default(), from: Some(1) });
    Ask { token: watch, request }
}

/// A question with an answer of about a megabyte, once there are tasks that are large to tell of.
fn list(token: u64) -> Ask {
    let query = ListQuery { limit: 1_000, ..ListQuery::default() };
    Ask { token, request: Request::Query(Query::List(Box::new(query))) }
}

async fn submit_large(hub: &Hub) {
    let names = |letter: &str| (0..32).map(|number| format!("{letter}{number:0>250}").into()).collect();
    let large = || NewTask { needs: names("n"), tags: names("t"), ..NewTask::new(fresh_id(), "q") };
    let mut client = TestClient::new(hub.handle(), "client");
    let all = (0..100).map(|_| Submission::new(large(), Bytes::new())).collect();
    client.ask(1, Request::Submit(all)).await;
    client.next().await;
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, waiting).await.unwrap_or_else(|_| panic!("{what}"));
}

fn mailbox(client: &TestClient) -> &Mailbox {
    client.session.mailbox()
}

/// Each event is compared with every watch that may want it, so their number is bounded by what they follow.
#[tokio::test]
async fn a_session_follows_the_same_thing_only_so_often() {
    let hub = start_hub(&MemoryDisk::new());
    let mut client = TestClient::new(hub.handle(), "client");
    let task = fresh_id();
    let of_task = |number| {
        let filter = EventFilter { task: Some(task), ..EventFilter::default() };
        Request::Watch(Watch { watch: number, filter, from: None })
    };
    let of_submitter = |number| {
        let filter = EventFilter { submitter: Some("client".into()), ..EventFilter::default() };
        Request::Watch(Watch { watch: number, filter, from: None })
    };
    let everything =
        |number| Request::Watch(Watch { watch: number, filter: EventFilter::default(), from: None });
    for (which, begin) in [(0, &of_task as &dyn Fn(u64) -> Request), (1, &of_submitter), (2, &everything)] {
        for number in 0..SAME_WATCHES_MAX as u64 {
            answered(&mut client, begin(1_000 * which + number)).await.unwrap();
        }
        let no = answered(&mut client, begin(1_000 * which + 999)).await.unwrap_err();
        assert!(matches!(no, HubRefusal::Engine(Refusal::TooMany { limit: SAME_WATCHES_MAX, .. })), "{no:?}");
        answered(&mut client, Request::Unwatch { watch: 1_000 * which }).await.unwrap();
        answered(&mut client, begin(1_000 * which + 999)).await.unwrap();
    }
    // Other tasks are other things.
    let filter = EventFilter { task: Some(fresh_id()), ..EventFilter::default() };
    answered(&mut client, Request::Watch(Watch { watch: 9_999, filter, from: None })).await.unwrap();
}

/// The reply to a request; that watches are live is passed over.
async fn answered(client: &mut TestClient, request: Request) -> Result<(), HubRefusal> {
    client.ask(1, request).await;
    loop {
        if let Delivery::Reply { reply, .. } = client.next().await {
            return reply.map(drop);
        }
    }
}

#[tokio::test]
async fn many_watches_of_a_session_that_does_not_read_fill_one_mailbox_only() {
    let hub = start_hub(&MemoryDisk::new());
    let mut client = TestClient::new(hub.handle(), "client");
    for _ in 0..12 {
        client.submit(1_000).await;
    }
    let mut watcher = TestClient::new(hub.handle(), "watcher");
    watcher.session.send((0..64).map(watch).collect()).await.expect("the hub is there");
    until("events arrive", || mailbox(&watcher).unread_bytes() > MB).await;
    for _ in 0..30 {
        assert!(mailbox(&watcher).unread_bytes() < 3 * MB, "{} bytes", mailbox(&watcher).unread_bytes());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Once it reads, each of its watches hears everything.
    let mut heard = [0; 64];
    while heard.iter().any(|next| *next < 12_000) {
        if let Delivery::Event { watch, event } = watcher.next().await {
            heard[watch as usize] += 1;
            assert_eq!(event.seq, heard[watch as usize], "of watch {watch}");
        }
    }
}

#[tokio::test]
async fn questions_are_refused_while_too_much_is_unread() {
    let hub = start_hub(&MemoryDisk::new());
    submit_large(&hub).await;
    let mut reader = TestClient::new(hub.handle(), "reader");
    reader.session.send((0..100).map(list).collect()).await.expect("the hub is there");
    until("all are answered", || mailbox(&reader).waiting() == 100).await;
    let mut refused = 0;
    for number in 0..100 {
        match reader.next().await {
            Delivery::Reply { token, reply: Ok(Response::Answer(_)) } => assert_eq!(token, number),
            Delivery::Reply { token, reply: Err(HubRefusal::Engine(Refusal::TooMany { .. })) } => {
                assert_eq!(token, number);
                refused += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(refused > 50, "{refused} are refused");
    reader.ask(1, list(1).request).await;
    let answered = reader.next().await;
    assert!(matches!(answered, Delivery::Reply { reply: Ok(Response::Answer(_)), .. }), "{answered:?}");
}

#[tokio::test]
async fn the_largest_holder_is_ended_when_all_together_hold_too_much() {
    let unread = UnreadLimits { session: 2 * MB, total: 5 * MB / 2 };
    let settings = HubSettings { unread, ..HubSettings::default() };
    let disk = Arc::new(MemoryDisk::new());
    let hub = Hub::start_with(disk, StoreSettings::default(), Settings::default(), settings, Keys::default())
        .expect("the disk opens");
    submit_large(&hub).await;
    let (mut small, mut large) =
        (TestClient::new(hub.handle(), "small"), TestClient::new(hub.handle(), "large"));
    small.ask(1, list(1).request).await;
    until("an answer arrives", || mailbox(&small).unread_bytes() > MB).await;
    large.session.send(vec![list(1), list(2)]).await.expect("the hub is there");
    let ended = large.next().await;
    assert!(matches!(ended, Delivery::Ended(HubRefusal::Engine(Refusal::TooMany { .. }))), "{ended:?}");
    assert!(mailbox(&large).is_closed());
    let answered = small.next().await;
    assert!(matches!(answered, Delivery::Reply { reply: Ok(Response::Answer(_)), .. }), "{answered:?}");
}
