//! A broker that hangs up at the worst moment: what a client says twice, and what it does not.

use bytes::BytesMut;
use tenure_client::wire::hello::{PeerLimits, Welcome};
use tenure_client::wire::notice::{Gap, Live};
use tenure_client::wire::reply::{Submitted, WatchOpened};
use tenure_client::wire::task::Accepted;
use tenure_client::wire::verdict::Verdict;
use tenure_client::wire::{self, Notice, Reply, Request, ToBroker};
use tenure_client::{Client, Code, Error, Refusal, StateName, Submission, TaskId, Timestamp, Watch, Watched};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// One connection of the fake broker, after the handshake.
struct Peer {
    stream: TcpStream,
    arrived: BytesMut,
    waiting: Vec<ToBroker>,
}

impl Peer {
    async fn accept(listener: &TcpListener) -> Peer {
        Peer::accept_in(listener, None).await
    }

    /// A broker of another group refuses the client, with the address of this one.
    async fn refuse(listener: &TcpListener, address: &str) {
        let (stream, _) = listener.accept().await.unwrap();
        let mut peer = Peer { stream, arrived: BytesMut::new(), waiting: Vec::new() };
        let hello = peer.next().await;
        let refusal = Refusal {
            name: Some("g2".into()),
            addresses: vec![address.into()],
            ..Refusal::new(Code::Elsewhere, "the namespace default belongs to the group g2")
        };
        peer.say(hello.number, &Reply::Refused(Box::new(refusal))).await;
    }

    async fn accept_in(listener: &TcpListener, group: Option<&str>) -> Peer {
        let (stream, _) = listener.accept().await.unwrap();
        let mut peer = Peer { stream, arrived: BytesMut::new(), waiting: Vec::new() };
        let hello = peer.next().await;
        assert!(matches!(hello.request, Request::Hello(_)));
        let limits =
            PeerLimits { frame_bytes: 1 << 20, entries: 100, body_bytes: 1 << 20, open_requests: 100 };
        let welcome = Welcome {
            leader: None,
            group: group.map(Into::into),
            members: Vec::new(),
            machine: None,
            local_address: None,
            remote_address: None,
            version: 1,
            identity: "ada".into(),
            namespace: "default".into(),
            session: 1,
            features: Vec::new(),
            limits,
            now: Timestamp(0),
            software: None,
        };
        peer.say(hello.number, &Reply::Welcome(Box::new(welcome))).await;
        peer
    }

    async fn next(&mut self) -> ToBroker {
        while self.waiting.is_empty() {
            assert_ne!(self.stream.read_buf(&mut self.arrived).await.unwrap(), 0, "the client hung up");
            let frames = wire::split_frames(&mut self.arrived, 1 << 20).unwrap();
            self.waiting = frames.map(|frame| wire::decode_to_broker(&frame).unwrap()).collect();
        }
        self.waiting.remove(0)
    }

    async fn tell(&mut self, notice: &Notice) {
        let mut out = BytesMut::new();
        wire::encode_notice(&mut out, notice);
        self.stream.write_all(&out).await.unwrap();
    }

    async fn say(&mut self, number: u64, reply: &Reply) {
        let mut out = BytesMut::new();
        wire::encode_reply(&mut out, number, reply);
        self.stream.write_all(&out).await.unwrap();
    }
}

fn accepted(task: TaskId) -> Reply {
    let accepted = Accepted { task, state: StateName::Ready, known: true, unserved: None };
    Reply::Submitted(Submitted { tasks: vec![Verdict(Ok(accepted))] })
}

#[tokio::test]
async fn a_named_submission_is_repeated_and_an_unnamed_one_is_not() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let task = TaskId::new();
    let fake = tokio::spawn(async move {
        let mut peer = Peer::accept(&listener).await;
        let mut seen = Vec::new();
        while seen.len() < 3 {
            seen.push(peer.next().await.request);
        }
        // It has read everything and answers nothing.
        drop(peer);
        let mut peer = Peer::accept(&listener).await;
        let again = peer.next().await;
        let Request::Submit(submit) = &again.request else { panic!("a submission is repeated: {again:?}") };
        assert_eq!(submit.tasks[0].name.as_deref(), Some("scan-7"));
        peer.say(again.number, &accepted(task)).await;
        let query = peer.next().await;
        assert_eq!(query.request, Request::Counts);
        // Nothing else follows.
        let more = tokio::time::timeout(std::time::Duration::from_millis(100), peer.next()).await;
        assert!(more.is_err(), "{more:?}");
    });
    let client = Client::connect(&address).await.unwrap();
    let (named, unnamed, _query) = tokio::join!(
        client.submit(Submission::to("images").name("scan-7")),
        client.submit(Submission::to("images")),
        tokio::time::timeout(std::time::Duration::from_secs(1), client.counts()),
    );
    assert_eq!(named.unwrap().task, task);
    let unknown = unnamed.unwrap_err();
    assert!(matches!(unknown, Error::UnknownOutcome { verb: "submit", .. }), "{unknown}");
    fake.await.unwrap();
}

#[tokio::test]
async fn a_server_that_is_no_broker_is_recognised() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        stream.read_u8().await
    });
    let error = Client::connect(&address).await.unwrap_err();
    assert!(matches!(error, Error::Protocol { .. }), "{error}");
}

#[tokio::test]
async fn a_watch_that_is_refused_says_why() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let fake = tokio::spawn(async move {
        let _client = Peer::accept(&listener).await;
        let mut peer = Peer::accept(&listener).await;
        let watch = peer.next().await;
        assert!(matches!(watch.request, Request::Watch(_)));
        let refusal = Refusal::new(Code::NotAllowed, "the key does not allow to watch");
        peer.say(watch.number, &Reply::Refused(Box::new(refusal))).await;
        peer.stream.read_u8().await
    });
    let client = Client::connect(&address).await.unwrap();
    let refused = client.watch(Watch::default()).await.unwrap_err();
    assert!(refused.is(&Code::NotAllowed), "{refused}");
    assert!(fake.await.unwrap().is_err(), "the connection is closed");
}

#[tokio::test]
async fn a_gap_in_the_events_is_reported() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let fake = tokio::spawn(async move {
        let _client = Peer::accept(&listener).await;
        let mut peer = Peer::accept(&listener).await;
        let watch = peer.next().await;
        let Request::Watch(asked) = watch.request else { panic!("a watch is asked for") };
        assert_eq!(asked.from, Some(5));
        peer.say(watch.number, &Reply::Watching(WatchOpened { from: Some(5) })).await;
        peer.tell(&Notice::Gap(Gap { watch: watch.number, from: 5, to: 9 })).await;
        drop(peer);
        let mut peer = Peer::accept(&listener).await;
        let Request::Watch(again) = peer.next().await.request else { panic!("it is asked for again") };
        assert_eq!(again.from, Some(10));
    });
    let client = Client::connect(&address).await.unwrap();
    let mut watcher = client.watch(Watch::default().from(5)).await.unwrap();
    assert_eq!(watcher.next().await.unwrap().unwrap(), Watched::Gap { from: 5, to: 9 });
    assert_eq!(watcher.position(), 10);
    fake.await.unwrap();
}

#[tokio::test]
async fn a_client_goes_to_the_group_of_its_namespace_and_its_watch_begins_again_there() {
    let (old, new) =
        (TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let [old_at, new_at] = [&old, &new].map(|listener| listener.local_addr().unwrap().to_string());
    let fake = tokio::spawn(async move {
        let _client = Peer::accept_in(&old, Some("g1")).await;
        let mut peer = Peer::accept_in(&old, Some("g1")).await;
        let watch = peer.next().await;
        peer.say(watch.number, &Reply::Watching(WatchOpened { from: Some(500) })).await;
        peer.tell(&Notice::Live(Live { watch: watch.number, next: 500 })).await;
        drop(peer);
        // The namespace has moved meanwhile.
        Peer::refuse(&old, &new_at).await;
        let mut peer = Peer::accept_in(&new, Some("g2")).await;
        let watch = peer.next().await;
        let Request::Watch(asked) = watch.request else { panic!("a watch is asked for") };
        assert_eq!(asked.from, None, "the number is of another group");
        peer.say(watch.number, &Reply::Watching(WatchOpened { from: Some(42) })).await;
        peer.tell(&Notice::Live(Live { watch: watch.number, next: 42 })).await;
        let _ = peer.stream.read_u8().await;
    });
    let client = Client::connect(&old_at).await.unwrap();
    let mut watcher = client.watch(Watch::default().from(500)).await.unwrap();
    assert_eq!(watcher.next().await.unwrap().unwrap(), Watched::Gap { from: 1, to: 41 });
    assert_eq!(watcher.position(), 42);
    drop((watcher, client));
    fake.await.unwrap();
}
