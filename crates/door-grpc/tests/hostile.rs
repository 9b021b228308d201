//! Peers that mean no good, or know no better: garbage, silence, too much at once.

#[path = "support/raw.rs"]
mod raw;
mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use prost::Message as _;
use raw::Raw;
use support::Broker;
use tenure_door_grpc::Settings;
use tenure_door_grpc::codec::{FIELDS_MAX, decode};
use tenure_door_grpc::proto::sidecar as sidecar_pb;
use tenure_door_grpc::proto::sidecar::sidecar_service_client::SidecarServiceClient;
use tenure_door_grpc::proto::tenure::v1 as pb;
use tenure_door_grpc::proto::tenure::v1::broker_client::BrokerClient;
use tenure_door_grpc::proto::tenure::v1::tasks_client::TasksClient;
use tenure_door_kit::{ByteBudget, DoorSettings};
use tenure_hub::Keys;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::Code;
use tonic::codegen::http::uri::PathAndQuery;

/// Reads until the other side closes, however rudely.
async fn closes(stream: &mut TcpStream) -> bool {
    let mut heard = Vec::new();
    tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut heard)).await.is_ok()
}

async fn still_answers(broker: &Broker) {
    let mut client = BrokerClient::new(broker.channel().await);
    client.counts(pb::CountsRequest {}).await.expect("the broker answers");
}

fn with_door(door: DoorSettings) -> Settings {
    Settings { door, ..Settings::default() }
}

#[tokio::test]
async fn garbage_ends_its_own_connection_only() {
    let broker = Broker::start().await;
    let long = vec![0xff; 100_000];
    let frames: [&[u8]; 4] = [
        b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
        b"\x00\x01\x02\x03 this is nothing at all, and long enough to be looked at",
        &long,
        // The right beginning, and then a frame of an impossible length.
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\x04\x00\x00\x00\x00\x00",
    ];
    for bytes in frames {
        let mut stream = TcpStream::connect(broker.address).await.expect("a door");
        let _ = stream.write_all(bytes).await;
        assert!(closes(&mut stream).await, "{:?}", &bytes[..20]);
    }
    still_answers(&broker).await;
}

#[tokio::test]
async fn a_peer_without_an_admitted_call_is_disconnected() {
    let within = Duration::from_secs(2);
    let settings = with_door(DoorSettings { login_within: within, ..DoorSettings::default() });
    let broker = Broker::with(settings, Keys::default()).await;
    let mut client = BrokerClient::new(broker.channel().await);
    client.counts(pb::CountsRequest {}).await.expect("the broker answers");
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let began = Instant::now();
    let mut strangers = Vec::new();
    for bytes in [&b""[..], b"P", preface] {
        let mut stranger = TcpStream::connect(broker.address).await.expect("a door");
        stranger.write_all(bytes).await.expect("it is taken");
        strangers.push(stranger);
    }
    for stranger in &mut strangers {
        assert!(closes(stranger).await);
    }
    assert!(began.elapsed() >= within);
    // The connection of a client lives on.
    client.counts(pb::CountsRequest {}).await.expect("the broker answers");
    still_answers(&broker).await;
}

#[tokio::test]
async fn one_connection_too_many_is_closed_and_its_place_comes_back() {
    let settings = with_door(DoorSettings { connections_max: 2, ..DoorSettings::default() });
    let broker = Broker::with(settings, Keys::default()).await;
    let first = TcpStream::connect(broker.address).await.expect("a door");
    let second = TcpStream::connect(broker.address).await.expect("a door");
    let mut third = TcpStream::connect(broker.address).await.expect("a door");
    assert!(closes(&mut third).await);
    drop((first, second));
    // The places are free as soon as the broker has noticed.
    for _ in 0..200 {
        let address = format!("http://{}", broker.address);
        let channel = tonic::transport::Endpoint::from_shared(address).unwrap().connect().await;
        if let Ok(channel) = channel
            && BrokerClient::new(channel).counts(pb::CountsRequest {}).await.is_ok()
        {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("no place became free");
}

#[tokio::test]
async fn bytes_that_are_no_message_are_refused_by_name() {
    let broker = Broker::start().await;
    let mut grpc = tonic::client::Grpc::new(broker.channel().await);
    grpc.ready().await.expect("it is ready");
    let path = PathAndQuery::from_static("/tenure.v1.Tasks/Show");
    // Field 1 is a text; these are the bytes of a text that is none.
    let codec = tonic_prost::ProstCodec::<NotAText, pb::Task>::default();
    let refused = grpc.unary(tonic::Request::new(NotAText { bytes: vec![0xff, 0xfe] }), path, codec).await;
    assert_eq!(refused.expect_err("it is refused").code(), Code::InvalidArgument);
    still_answers(&broker).await;
}

#[derive(Clone, PartialEq, prost::Message)]
struct NotAText {
    #[prost(bytes = "vec", tag = "1")]
    bytes: Vec<u8>,
}

#[test]
fn a_message_of_countless_empty_parts_is_refused_before_it_takes_memory() {
    // Empty tasks, two bytes each; a worker's message has its own one level further down.
    let tasks = vec![[0x12, 0x00]; FIELDS_MAX + 1].concat();
    let refused = decode::<pb::SubmitRequest>(Bytes::from(tasks.clone())).expect_err("it is refused");
    assert_eq!(refused.code(), Code::InvalidArgument);
    let empty_attempts = vec![[0x0a, 0x00]; FIELDS_MAX + 1].concat();
    let mut start = vec![0x22];
    prost::encoding::encode_varint(empty_attempts.len() as u64, &mut start);
    start.extend(empty_attempts);
    assert!(decode::<pb::WorkerMessage>(Bytes::from(start)).is_err());
    // The broker does not look into the same bytes as a body.
    let body = pb::NewTask { body: tasks.into(), ..pb::NewTask::default() };
    let request = pb::SubmitRequest { terms: Vec::new(), tasks: vec![body] };
    assert_eq!(decode::<pb::SubmitRequest>(request.encode_to_vec().into()).expect("it is fine"), request);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_does_not_read_slows_no_other_and_learns_what_it_missed() {
    const COUNT: i64 = 40_000;
    let broker = Broker::start().await;
    let mut slow = SidecarServiceClient::new(broker.channel().await);
    let mut quick = SidecarServiceClient::new(broker.channel().await);
    let subscribe = |limit| sidecar_pb::SubscribeRequest {
        topics: vec!["news".to_owned()],
        max_buffer_size: limit,
        ..sidecar_pb::SubscribeRequest::default()
    };
    let mut not_reading = slow.subscribe(subscribe(100)).await.expect("it may").into_inner();
    let mut reading = quick.subscribe(subscribe(0)).await.expect("it may").into_inner();
    let namespace = "default".into();
    let (mut sent, mut next) = (0, 1);
    while next <= COUNT {
        // Never further ahead than the queue of the one that reads is long.
        while sent < COUNT && sent < next + 2_000 {
            let id = tenure_hub::topics::fresh_message_id();
            let publish = tenure_hub::topics::Publish::new("news", id, vec![b'x'; 1024]);
            broker.hub.topics().publish(&namespace, publish).await.expect("it is published");
            sent += 1;
        }
        let event = reading.message().await.expect("it goes on").expect("there is more");
        if event.field == 2 {
            let message = sidecar_pb::Message::decode(event.message).expect("a message");
            assert_eq!(message.sequence_number, next, "the one that reads misses nothing");
            next += 1;
        }
    }
    // Now the other one reads: messages and gaps together are all there was, in order, each once.
    let (mut next, mut missed, mut warned) = (1, 0, false);
    while next <= COUNT {
        let event = not_reading.message().await.expect("it goes on").expect("there is more");
        match event.field {
            2 => {
                let message = sidecar_pb::Message::decode(event.message).expect("a message");
                assert_eq!(message.sequence_number, next);
                next += 1;
            }
            8 => {
                let gap = sidecar_pb::Gap::decode(event.message).expect("a gap");
                assert_eq!(gap.first_missed, next);
                missed += gap.last_missed - gap.first_missed + 1;
                next = gap.last_missed + 1;
            }
            7 => warned = true,
            _ => {}
        }
    }
    assert!(missed > 0 && warned, "{missed} missed");
}

#[tokio::test]
async fn an_unauthenticated_peer_is_refused_before_its_message_is_read() {
    let broker = Broker::with_keys().await;
    for path in ["/tenure.v1.Tasks/Submit", "/nexusd.sidecar.SidecarService/Publish"] {
        // It never says what it wants to submit.
        let mut client = Raw::connect(broker.address).await;
        client.begin(1, path).await;
        assert!(client.ends(1).await, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_that_are_never_finished_wait_outside() {
    const LENGTH: u32 = 16 << 20;
    let broker = Broker::start().await;
    let mut peer = Raw::connect(broker.address).await;
    let calls: Vec<u32> = (0..10).map(|number| 2 * number + 1).collect();
    for call in &calls {
        peer.begin(*call, "/tenure.v1.Tasks/Submit").await;
    }
    // Each message lacks its last bytes.
    let taken = peer.press(&calls, LENGTH - 1000).await;
    assert!(taken < 5 * LENGTH as usize, "{taken} bytes were taken");
    // A caller that gives up makes room, and the connection goes on.
    let rest = peer.give_up(&calls).await;
    assert!(rest, "the connection lives");
    peer.begin(101, "/tenure.v1.Broker/Counts").await;
    peer.say(101, &[0; 5]).await;
    assert!(peer.ends(101).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_are_not_read_are_bounded() {
    let broker = Broker::start().await;
    let mut client = TasksClient::new(broker.channel().await);
    let body = Bytes::from(vec![b'x'; 16 << 20]);
    let terms = vec![pb::Terms { queue: "big".to_owned(), ..pb::Terms::default() }];
    let tasks = vec![pb::NewTask { body, ..pb::NewTask::default() }];
    let submitted = client.submit(pb::SubmitRequest { terms, tasks }).await.expect("it may").into_inner();
    let Some(pb::verdict::Verdict::Accepted(accepted)) = submitted.tasks[0].verdict.clone() else {
        panic!("{submitted:?}")
    };
    // A message with one field: the id of the task.
    let request = pb::TaskRequest { task: accepted.task }.encode_to_vec();
    let message = [&[0, 0, 0, 0, request.len() as u8], &request[..]].concat();
    let mut peer = Raw::connect(broker.address).await;
    let calls: Vec<u32> = (0..12).map(|number| 2 * number + 1).collect();
    for call in &calls {
        peer.begin(*call, "/tenure.v1.Tasks/Body").await;
        peer.say(*call, &message).await;
    }
    // This peer opens no window, so nothing of an answer leaves but its beginning: four have room.
    let begun = peer.answers_that_begin().await;
    assert!(begun <= 4, "{begun} answers have begun");
    // A caller that gives up makes room for the next ones.
    assert!(peer.give_up(&calls[..10]).await);
    assert!(peer.begins(calls[10]).await && peer.begins(calls[11]).await);
}

/// Each of several peers makes many calls and reads nothing. The budget of all of them holds, what does not fit is
/// refused, and what they give up is free again.
async fn unread_calls_share_a_budget(broker: &Broker, budget: &ByteBudget, path: &str, message: &[u8]) {
    const PEERS: usize = 3;
    const CALLS: u32 = 40;
    let limit = budget.limit();
    let mut peers = Vec::new();
    for _ in 0..PEERS {
        let mut peer = Raw::connect(broker.address).await;
        for call in 0..CALLS {
            peer.begin(2 * call + 1, path).await;
            peer.say(2 * call + 1, message).await;
        }
        peers.push(peer);
    }
    let mut refused = 0;
    for peer in &mut peers {
        peer.answers_that_begin().await;
        refused += peer.ended().len();
    }
    assert!(refused > 0, "nothing was refused");
    let used = budget.used();
    assert!(used > limit / 4 && used <= limit, "{used} of {limit} bytes are counted");
    drop(peers);
    let free = async {
        while budget.used() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), free).await.expect("what the peers held is free again");
    let mut peer = Raw::connect(broker.address).await;
    peer.begin(1, path).await;
    peer.say(1, message).await;
    assert!(peer.begins(1).await && peer.ended().is_empty(), "a later call is answered");
}

fn framed(message: &impl prost::Message) -> Vec<u8> {
    let bytes = message.encode_to_vec();
    let length = u32::try_from(bytes.len()).expect("it is short").to_be_bytes();
    [&[0], &length[..], &bytes].concat()
}

async fn small(limit: usize) -> (Broker, Arc<ByteBudget>) {
    let budget = ByteBudget::new(limit);
    let door = DoorSettings { budget: Arc::clone(&budget), ..DoorSettings::default() };
    (Broker::with(with_door(door), Keys::default()).await, budget)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_bodies_of_all_connections_share_a_budget() {
    let (broker, budget) = small(40 << 20).await;
    let mut client = TasksClient::new(broker.channel().await);
    let terms = vec![pb::Terms { queue: "big".to_owned(), ..pb::Terms::default() }];
    let tasks = vec![pb::NewTask { body: Bytes::from(vec![b'x'; 2 << 20]), ..pb::NewTask::default() }];
    let submitted = client.submit(pb::SubmitRequest { terms, tasks }).await.expect("it may").into_inner();
    let Some(pb::verdict::Verdict::Accepted(accepted)) = submitted.tasks[0].verdict.clone() else {
        panic!("{submitted:?}")
    };
    let message = framed(&pb::TaskRequest { task: accepted.task });
    unread_calls_share_a_budget(&broker, &budget, "/tenure.v1.Tasks/Body", &message).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_lists_of_all_connections_share_a_budget() {
    let (broker, budget) = small(2 << 20).await;
    let mut client = TasksClient::new(broker.channel().await);
    let terms = vec![pb::Terms { queue: "many".to_owned(), ..pb::Terms::default() }];
    let tasks = vec![pb::NewTask::default(); 1_000];
    client.submit(pb::SubmitRequest { terms, tasks }).await.expect("it may");
    let message = framed(&pb::ListRequest { limit: 1_000, ..pb::ListRequest::default() });
    unread_calls_share_a_budget(&broker, &budget, "/tenure.v1.Tasks/List", &message).await;
}
