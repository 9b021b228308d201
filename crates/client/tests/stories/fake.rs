//! A broker that hangs up at the worst moment: what a client says twice, and what it does not.

use bytes::BytesMut;
use tenure_client::wire::hello::{PeerLimits, Welcome};
use tenure_client::wire::reply::Submitted;
use tenure_client::wire::task::Accepted;
use tenure_client::wire::verdict::Verdict;
use tenure_client::wire::{self, Reply, Request, ToBroker};
use tenure_client::{Client, Error, StateName, Submission, TaskId, Timestamp};
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
        let (stream, _) = listener.accept().await.unwrap();
        let mut peer = Peer { stream, arrived: BytesMut::new(), waiting: Vec::new() };
        let hello = peer.next().await;
        assert!(matches!(hello.request, Request::Hello(_)));
        let limits =
            PeerLimits { frame_bytes: 1 << 20, entries: 100, body_bytes: 1 << 20, open_requests: 100 };
        let welcome = Welcome {
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
async fn who_is_no_broker_is_recognised() {
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
