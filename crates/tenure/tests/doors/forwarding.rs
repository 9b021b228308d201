//! A standby forwards the connections of every door to the leader's same door, and an SDK finds the leader itself.

use std::sync::Arc;
use std::time::Duration;

use tenure_client::{Client, Submission};
use tenure_door_http::{BrokerStatus, StandbyStatus, StatusDoor};
use tenure_door_kit::forward::{DoorGroup, Forwarder, GroupMember, GroupSecret, GroupView};
use tenure_door_kit::{DoorListener, DoorSettings, Tls};
use tenure_hub::{Counters, Hub, HubHandle, Keys};
use tenure_store::{MemoryDisk, StoreSettings};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(30);

/// A group of a leader with every door and a standby that forwards to all of them.
struct TestGroup {
    leader: GroupMember,
    standby: GroupMember,
    /// What the leader tells its clients.
    told: watch::Sender<GroupView>,
    /// The connections of the standby's native door.
    forwarded: Arc<Counters>,
    _view: watch::Sender<GroupView>,
    _hub: Hub,
}

/// The doors, with the name under which the standby looks for them.
const DOORS: [(&str, &str); 8] = [
    ("native", "native"),
    ("xmessage", "xmessage"),
    ("resp", "resp"),
    ("mdp", "mdp"),
    ("pingpong", "pingpong"),
    ("pingpong", "pingpong_workers"),
    ("grpc", "grpc"),
    ("http", "http"),
];

impl TestGroup {
    async fn start(tls: Option<Tls>) -> TestGroup {
        let disk = Arc::new(MemoryDisk::new());
        let hub = Hub::start(disk, StoreSettings::default(), Default::default(), Keys::default()).unwrap();
        let (told, of_leader) = watch::channel(GroupView::default());
        let (true_view, of_standby) = watch::channel(GroupView::default());
        let secret = GroupSecret::new(b"the secret of this group").unwrap();
        let group = |name: &str, view: &watch::Receiver<GroupView>| DoorGroup {
            group: "g1".to_owned(),
            name: name.into(),
            secret: secret.clone(),
            view: view.clone(),
        };
        let forwarded = Arc::new(Counters::new("native"));
        let mut leader = GroupMember { name: "b1".into(), instance: 1, ..GroupMember::default() };
        let mut standby = GroupMember { name: "b2".into(), instance: 2, ..GroupMember::default() };
        let settings = DoorSettings { group: Some(group("b1", &of_leader)), tls, ..DoorSettings::default() };
        let mut listeners = Vec::new();
        for (name, to) in DOORS {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            leader.doors.set(to, &address(&listener)).unwrap();
            listeners.push(listener);
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            standby.doors.set(to, &address(&listener)).unwrap();
            let counters = match name {
                "native" => Arc::clone(&forwarded),
                _ => Arc::new(Counters::new(name)),
            };
            let group = group("b2", &of_standby);
            let mut forwarder = Forwarder::new(name, to, group, DoorSettings::default(), counters);
            if name == "http" {
                let (status, settings) = (standby_status(), tenure_door_http::Settings::default());
                let itself =
                    StatusDoor::new(watch::channel(status).1, &settings, watch::channel(Keys::default()).1);
                forwarder.itself = Some(Arc::new(itself));
            }
            tokio::spawn(forwarder.run(DoorListener::Tcp(listener), std::future::pending()));
        }
        serve(listeners, hub.handle(), &settings);
        let test = TestGroup { leader, standby, told, forwarded, _view: true_view, _hub: hub };
        test.told.send_replace(test.view());
        test._view.send_replace(test.view());
        test
    }

    fn view(&self) -> GroupView {
        let members = vec![self.leader.clone(), self.standby.clone()];
        GroupView { leader: Some(self.leader.clone()), members }
    }

    /// Waits until the standby forwards this many native connections.
    async fn forwards(&self, count: u64) {
        let waiting = async {
            while self.forwarded.connections().open != count {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(SOON, waiting).await.expect("the standby forwards this many");
    }

    /// What the leader answers to these bytes through the standby.
    async fn exchange(&self, door: &str, bytes: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(self.standby.doors.get(door).unwrap()).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut answer = vec![0; 4096];
        let count = timeout(SOON, stream.read(&mut answer)).await.expect("an answer in time").unwrap();
        answer.truncate(count);
        answer
    }
}

/// How the standby is.
fn standby_status() -> BrokerStatus {
    BrokerStatus::Standby(StandbyStatus {
        group: "lab".to_owned(),
        name: "b2".to_owned(),
        leader: Some("b1".to_owned()),
        lag_bytes: 17,
        ..StandbyStatus::default()
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_says_how_it_is_itself_and_forwards_all_other_requests() {
    let group = TestGroup::start(None).await;
    let get = async |path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        let mut stream = TcpStream::connect(group.standby.doors.get("http").unwrap()).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        timeout(SOON, stream.read_to_string(&mut answer)).await.expect("an answer in time").unwrap();
        answer
    };
    let ready = get("/readyz").await;
    assert!(ready.starts_with("HTTP/1.1 503") && ready.contains("\"reasons\":[\"standby\"]"), "{ready}");
    assert!(ready.contains("\"leader\":\"b1\"") && ready.contains("\"lag_bytes\":17"), "{ready}");
    assert!(get("/healthz").await.starts_with("HTTP/1.1 200"));
    assert!(get("/metrics").await.contains("tenure_standby_lag_bytes 17"));
    // The leader has tasks; the standby has none.
    assert!(get("/v1/counts").await.contains("\"ready\""));
    assert!(get("/metricsx").await.starts_with("HTTP/1.1 404"), "of the leader");
    // The first bytes may come one by one.
    let mut stream = TcpStream::connect(group.standby.doors.get("http").unwrap()).await.unwrap();
    stream.set_nodelay(true).unwrap();
    for byte in b"GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n" {
        stream.write_all(&[*byte]).await.unwrap();
        tokio::task::yield_now().await;
    }
    let mut answer = String::new();
    timeout(SOON, stream.read_to_string(&mut answer)).await.expect("an answer in time").unwrap();
    assert!(answer.contains("\"standby\""), "{answer}");
}

fn address(listener: &TcpListener) -> String {
    listener.local_addr().unwrap().to_string()
}

fn serve(listeners: Vec<TcpListener>, hub: &HubHandle, settings: &DoorSettings) {
    let [native, xmessage, resp, mdp, clients, workers, grpc, http]: [TcpListener; 8] =
        listeners.try_into().expect("one for each door");
    let door = || settings.clone();
    let plain = || DoorSettings { tls: None, ..settings.clone() };
    let messages = |door| tenure_door_msgpack::Settings { door, ..tenure_door_msgpack::Settings::default() };
    tokio::spawn(tenure_door_msgpack::serve(native, hub.clone(), messages(door())));
    tokio::spawn(tenure_door_msgpack::xmessage::serve(xmessage, hub.clone(), messages(plain())));
    let of_resp = tenure_door_resp::Settings { door: door(), ..tenure_door_resp::Settings::default() };
    tokio::spawn(tenure_door_resp::serve(resp, hub.clone(), of_resp));
    let mut of_mdp = tenure_door_zmq::Settings::default();
    of_mdp.transport.door = plain();
    tokio::spawn(tenure_door_zmq::serve(mdp, hub.clone(), of_mdp));
    let mut of_pingpong = tenure_door_zmq::PingPongSettings::default();
    of_pingpong.transport.door = plain();
    tokio::spawn(tenure_door_zmq::serve_ping_pong(clients, workers, hub.clone(), of_pingpong));
    let of_grpc = tenure_door_grpc::Settings { door: door(), ..tenure_door_grpc::Settings::default() };
    tokio::spawn(tenure_door_grpc::serve(grpc, hub.clone(), of_grpc));
    let of_http = tenure_door_http::Settings { door: door(), ..tenure_door_http::Settings::default() };
    tokio::spawn(tenure_door_http::serve(http, hub.clone(), of_http));
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// A frame of the native protocol: `[1, "hello", {"version": 1}]`.
const HELLO: &[u8] = b"\0\0\0\x12\x93\x01\xa5hello\x81\xa7version\x01";
/// The first bytes of a ZeroMQ library.
const ZMTP: &[u8] = b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\0";
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

#[tokio::test]
async fn every_door_of_a_standby_leads_to_the_same_door_of_the_leader() {
    let group = TestGroup::start(None).await;
    let welcome = group.exchange("native", HELLO).await;
    assert!(contains(&welcome, b"welcome"), "{welcome:?}");
    let question = group.exchange("xmessage", b"").await;
    assert!(contains(&question, b"Who you are?"), "the broker speaks first: {question:?}");
    assert_eq!(group.exchange("resp", b"PING\r\n").await, b"+PONG\r\n");
    for door in ["mdp", "pingpong", "pingpong_workers"] {
        let greeting = group.exchange(door, ZMTP).await;
        assert_eq!((greeting[0], greeting[9]), (0xff, 0x7f), "{door}: {greeting:?}");
    }
    let settings = group.exchange("grpc", HTTP2).await;
    assert_eq!(settings[3], 4, "a SETTINGS frame: {settings:?}");
    let answer = group.exchange("http", b"GET /v1/counts HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
}

#[tokio::test]
async fn a_client_that_connects_to_a_standby_goes_straight_to_the_leader() {
    let group = TestGroup::start(None).await;
    let (leader, standby) = (group.leader.doors.get("native"), group.standby.doors.get("native").unwrap());
    let client = Client::connect(standby).await.unwrap();
    let welcome = client.welcome();
    assert_eq!(welcome.leader.as_deref(), leader);
    assert_eq!(welcome.members.iter().map(|name| &**name).collect::<Vec<_>>(), [leader.unwrap(), standby]);
    group.forwards(0).await;
    assert!(client.submit(Submission::to("q").body("body")).await.is_ok());
    assert_eq!(group.forwarded.connections().accepted, 1, "the first connection alone went through it");
}

#[tokio::test]
async fn a_client_stays_with_the_standby_if_it_cannot_reach_the_leader() {
    let group = TestGroup::start(None).await;
    let mut hidden = group.leader.clone();
    let nothing_listens = address(&TcpListener::bind("127.0.0.1:0").await.unwrap());
    hidden.doors.set("native", &nothing_listens).unwrap();
    group.told.send_replace(GroupView { leader: Some(hidden), ..group.view() });
    let client = Client::connect(group.standby.doors.get("native").unwrap()).await.unwrap();
    group.forwards(1).await;
    assert!(client.submit(Submission::to("q").body("body")).await.is_ok());
}

#[tokio::test]
async fn tls_passes_through_a_standby_untouched() {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let tls = Tls::new(certificate.as_bytes(), key.as_bytes(), None).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let ca = dir.path().join("ca.pem");
    std::fs::write(&ca, certificate).unwrap();
    let group = TestGroup::start(Some(tls)).await;
    let port = group.standby.doors.get("native").unwrap().rsplit_once(':').unwrap().1;
    let address = format!("tls://localhost:{port}?ca={}", ca.display());
    let client = Client::connect(&address).await.expect("the certificate is the leader's");
    assert!(client.submit(Submission::to("q").body("body")).await.is_ok());
    let plain = timeout(SOON, group.exchange("resp", b"PING\r\n")).await.expect("an answer");
    assert!(!plain.starts_with(b"+PONG"), "the leader's door wants TLS: {plain:?}");
}
