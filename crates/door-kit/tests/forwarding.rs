//! A standby's door and a leader's door, over real sockets. The leader's protocol answers with the address that it sees,
//! and then echoes.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tenure_door_kit::forward::{DoorGroup, ForwardHeader, Forwarder, GroupMember, GroupSecret, GroupView};
use tenure_door_kit::{Door, DoorListener, DoorSettings, DoorStream, duplicate_tcp};
use tenure_hub::store::{MemoryDisk, StoreSettings};
use tenure_hub::{Counters, Hub, HubHandle, Keys};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

/// Far beyond what anything here takes, even on a busy machine.
const SOON: Duration = Duration::from_secs(20);

fn secret() -> GroupSecret {
    GroupSecret::new(b"the secret of this group").unwrap()
}

fn view_of(address: SocketAddr, name: &str, instance: u64) -> GroupView {
    let doors = format!("echo={address}").parse().unwrap();
    let leader = GroupMember { name: name.into(), instance, doors };
    GroupView { leader: Some(leader.clone()), members: vec![leader] }
}

/// A door that echoes, behind a hub of its own.
struct Leader {
    hub: HubHandle,
    address: SocketAddr,
    counters: Arc<Counters>,
    _hub: Hub,
}

impl Leader {
    async fn start(settings: DoorSettings) -> Leader {
        Leader::start_on(TcpListener::bind("127.0.0.1:0").await.unwrap(), settings)
    }

    fn start_on(listener: TcpListener, settings: DoorSettings) -> Leader {
        let disk = Arc::new(MemoryDisk::new());
        let hub = Hub::start(disk, StoreSettings::default(), Default::default(), Keys::default()).unwrap();
        let counters = Arc::new(Counters::new("echo"));
        let address = listener.local_addr().unwrap();
        let door = Arc::new(Door::new("echo", hub.handle().clone(), settings, Arc::clone(&counters)));
        tokio::spawn(async move { door.accept(DoorListener::Tcp(listener), echo).await });
        Leader { hub: hub.handle().clone(), address, counters, _hub: hub }
    }
}

/// Answers the first bytes with the address of the peer, and echoes everything.
async fn echo(mut stream: DoorStream, address: Option<IpAddr>, _: Instant) {
    let mut bytes = vec![0; 64 << 10];
    let mut is_first = true;
    while let Ok(count @ 1..) = stream.read(&mut bytes).await {
        let greeting = if is_first { format!("{address:?} ") } else { String::new() };
        is_first = false;
        let answer = [greeting.as_bytes(), &bytes[..count]].concat();
        if stream.write_all(&answer).await.is_err() {
            return;
        }
    }
}

fn in_group(view: &watch::Receiver<GroupView>) -> DoorSettings {
    let group = DoorGroup { group: "g1".into(), name: "b1".into(), secret: secret(), view: view.clone() };
    DoorSettings { group: Some(group), ..DoorSettings::default() }
}

/// A standby that forwards until its token is cancelled.
async fn standby(
    view: watch::Receiver<GroupView>,
    settings: DoorSettings,
) -> (SocketAddr, CancellationToken) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
    run_standby(listener, view, settings, stop.clone());
    (address, stop)
}

fn run_standby(
    listener: TcpListener,
    view: watch::Receiver<GroupView>,
    settings: DoorSettings,
    stop: CancellationToken,
) -> tokio::task::JoinHandle<()> {
    let group = DoorGroup { group: "g1".into(), name: "b2".into(), secret: secret(), view };
    let mut forwarder = Forwarder::new("echo", "echo", group, settings, Arc::new(Counters::new("echo")));
    forwarder.leader_within = Duration::from_millis(500);
    tokio::spawn(forwarder.run(DoorListener::Tcp(listener), async move { stop.cancelled().await }))
}

async fn connect_from(source: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((IpAddr::from(source), 0).into()).unwrap();
    socket.connect(to).await.unwrap()
}

async fn ask(stream: &mut TcpStream, text: &str) -> String {
    stream.write_all(text.as_bytes()).await.unwrap();
    hear(stream).await
}

async fn hear(stream: &mut TcpStream) -> String {
    let mut bytes = [0; 1024];
    let count = timeout(SOON, stream.read(&mut bytes)).await.expect("an answer in time").unwrap_or(0);
    String::from_utf8_lossy(&bytes[..count]).into_owned()
}

/// Whether the peer closes the connection without a word.
async fn is_closed(stream: &mut TcpStream) -> bool {
    let mut bytes = [0; 16];
    matches!(timeout(SOON, stream.read(&mut bytes)).await.expect("closed in time"), Ok(0) | Err(_))
}

#[tokio::test]
async fn a_client_of_a_standby_talks_to_the_leader_which_sees_its_address() {
    let (told, view) = watch::channel(GroupView::default());
    let leader = Leader::start(in_group(&view)).await;
    told.send_replace(view_of(leader.address, "b1", 1));
    let (standby, _stop) = standby(view, DoorSettings::default()).await;
    let mut client = connect_from([127, 0, 0, 9], standby).await;
    assert_eq!(ask(&mut client, "hello").await, "Some(127.0.0.9) hello");
    assert_eq!(ask(&mut client, "again").await, "again");
    client.shutdown().await.unwrap();
    assert!(is_closed(&mut client).await, "the leader's end of the stream arrives");

    let mut direct = connect_from([127, 0, 0, 8], leader.address).await;
    assert_eq!(ask(&mut direct, "\r\n\r").await, "Some(127.0.0.8) \r\n\r", "it only begins like a header");
    assert_eq!(leader.counters.get("forwarded"), 1);
}

#[tokio::test]
async fn a_stranger_cannot_choose_its_address() {
    let (_told, view) = watch::channel(GroupView::default());
    let leader = Leader::start(in_group(&view)).await;
    let addresses = Some(("192.0.2.7:40000".parse().unwrap(), leader.address));
    let header = ForwardHeader { addresses, member: "b2".into() };
    let good = header.encode(&secret());
    let other = header.encode(&GroupSecret::new(b"the secret of another group").unwrap());
    let plain = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x07\xc0\0\x02\x08\x9c\x40\x1c\x03".to_vec();
    let mut changed = good.clone();
    changed[16] ^= 1;
    let mut endless = good.clone();
    endless[14..16].copy_from_slice(&[0xff, 0xff]);
    let twice = [&good[..], &good[..]].concat();
    for (name, bytes) in
        [("another group", other), ("no code", plain), ("changed", changed), ("too long", endless)]
    {
        let mut client = TcpStream::connect(leader.address).await.unwrap();
        client.write_all(&bytes).await.unwrap();
        let _ = client.write_all(b"hello").await;
        assert!(is_closed(&mut client).await, "{name}");
    }
    let mut client = TcpStream::connect(leader.address).await.unwrap();
    client.write_all(&twice).await.unwrap();
    let answer = hear(&mut client).await;
    assert!(answer.starts_with("Some(192.0.2.7) \r\n\r\n"), "the second one is no header: {answer:?}");
}

#[tokio::test]
async fn a_header_may_arrive_byte_by_byte_and_a_torn_one_is_closed() {
    let (_told, view) = watch::channel(GroupView::default());
    let leader = Leader::start(in_group(&view)).await;
    let good = ForwardHeader { addresses: None, member: "b2".into() }.encode(&secret());
    let mut client = TcpStream::connect(leader.address).await.unwrap();
    client.set_nodelay(true).unwrap();
    for byte in &good {
        client.write_all(&[*byte]).await.unwrap();
        tokio::task::yield_now().await;
    }
    assert_eq!(ask(&mut client, "x").await, "None x", "a Unix socket has no address");
    let mut torn = TcpStream::connect(leader.address).await.unwrap();
    torn.write_all(&good[..good.len() - 1]).await.unwrap();
    torn.shutdown().await.unwrap();
    assert!(is_closed(&mut torn).await);
}

#[tokio::test]
async fn a_door_outside_a_group_takes_no_header() {
    let leader = Leader::start(DoorSettings::default()).await;
    let good = ForwardHeader { addresses: None, member: "b2".into() }.encode(&secret());
    let mut client = TcpStream::connect(leader.address).await.unwrap();
    client.write_all(&good).await.unwrap();
    let answer = hear(&mut client).await;
    assert!(answer.starts_with("Some(127.0.0.1) \r\n\r\n"), "{answer:?}");
}

#[tokio::test]
async fn a_connection_is_forwarded_once() {
    // The first standby takes the second one for the leader.
    let (told, view) = watch::channel(GroupView::default());
    let leader = Leader::start(in_group(&view)).await;
    told.send_replace(view_of(leader.address, "b1", 1));
    let (second, _stop) = standby(view, DoorSettings::default()).await;
    let (_wrong, mistaken) = watch::channel(view_of(second, "b3", 1));
    let (first, _stop) = standby(mistaken, DoorSettings::default()).await;
    let mut client = TcpStream::connect(first).await.unwrap();
    client.write_all(b"hello").await.unwrap();
    assert!(is_closed(&mut client).await);
}

#[tokio::test]
async fn connections_close_when_another_process_leads_and_stay_while_none_is_known() {
    let (told, view) = watch::channel(GroupView::default());
    let leader = Leader::start(in_group(&view)).await;
    told.send_replace(view_of(leader.address, "b1", 1));
    let (standby, _stop) = standby(view.clone(), DoorSettings::default()).await;
    let mut client = TcpStream::connect(standby).await.unwrap();
    assert!(ask(&mut client, "one").await.ends_with("one"));
    told.send_replace(GroupView::default());
    assert_eq!(ask(&mut client, "two").await, "two");
    told.send_replace(view_of(leader.address, "b1", 1));
    assert_eq!(ask(&mut client, "three").await, "three");
    told.send_replace(view_of(leader.address, "b1", 2));
    assert!(is_closed(&mut client).await, "the same name, another process");
    let mut client = TcpStream::connect(standby).await.unwrap();
    assert!(ask(&mut client, "four").await.ends_with("four"));
}

#[tokio::test]
async fn a_connection_waits_for_a_leader_for_a_limited_time() {
    let (told, view) = watch::channel(GroupView::default());
    let leader = Leader::start(in_group(&view)).await;
    let (standby, _stop) = standby(view, DoorSettings::default()).await;
    let mut early = TcpStream::connect(standby).await.unwrap();
    early.write_all(b"hello").await.unwrap();
    assert!(is_closed(&mut early).await, "no leader came");
    let mut client = TcpStream::connect(standby).await.unwrap();
    client.write_all(b"hello").await.unwrap();
    // Nothing listens at the first address: a leader that has just died.
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    told.send_replace(view_of(gone, "b0", 1));
    tokio::time::sleep(Duration::from_millis(50)).await;
    told.send_replace(view_of(leader.address, "b1", 1));
    assert_eq!(hear(&mut client).await, "Some(127.0.0.1) hello");
}

#[tokio::test]
async fn one_address_stays_the_same_from_standby_to_leader_and_back() {
    let (told, view) = watch::channel(GroupView::default());
    let other = Leader::start(in_group(&view)).await;
    told.send_replace(view_of(other.address, "b1", 1));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    for term in 2..4 {
        let stop = CancellationToken::new();
        let forwarding = run_standby(
            duplicate_tcp(&listener).unwrap(),
            view.clone(),
            DoorSettings::default(),
            stop.clone(),
        );
        let mut client = TcpStream::connect(address).await.unwrap();
        assert!(ask(&mut client, "standby").await.ends_with("standby"));
        stop.cancel();
        timeout(SOON, forwarding).await.expect("it ends").unwrap();
        assert!(is_closed(&mut client).await, "its connections are closed");
        // A client that comes now waits.
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(b"hello").await.unwrap();
        let leading = Leader::start_on(duplicate_tcp(&listener).unwrap(), in_group(&view));
        assert_eq!(hear(&mut client).await, "Some(127.0.0.1) hello");
        told.send_replace(view_of(address, "b2", term));
        drop(client);
        leading.hub.stop();
        leading.hub.stopped().await;
        told.send_replace(view_of(other.address, "b1", term));
    }
}

#[tokio::test]
async fn limits_count_the_clients_own_address() {
    let (told, view) = watch::channel(GroupView::default());
    let leader = Leader::start(DoorSettings { connections_per_address_max: 1, ..in_group(&view) }).await;
    told.send_replace(view_of(leader.address, "b1", 1));
    let (standby, _stop) = standby(view, DoorSettings::default()).await;
    let mut first = connect_from([127, 0, 0, 4], standby).await;
    assert!(ask(&mut first, "one").await.ends_with("one"));
    let mut second = connect_from([127, 0, 0, 4], standby).await;
    second.write_all(b"two").await.unwrap();
    assert!(is_closed(&mut second).await, "a second one of the same client");
    let mut other = connect_from([127, 0, 0, 5], standby).await;
    assert!(ask(&mut other, "three").await.ends_with("three"));
}

#[tokio::test]
async fn a_client_that_does_not_read_is_closed_and_holds_little() {
    let (told, view) = watch::channel(GroupView::default());
    let leader = Leader::start(in_group(&view)).await;
    told.send_replace(view_of(leader.address, "b1", 1));
    let settings = DoorSettings { read_within: Duration::from_millis(300), ..DoorSettings::default() };
    let (standby, _stop) = standby(view, settings).await;
    let mut client = TcpStream::connect(standby).await.unwrap();
    // It sends and never reads: the echoes fill every buffer, then the standby stops reading, then it closes.
    let bytes = vec![b'x'; 1 << 20];
    let sending = async { while client.write_all(&bytes).await.is_ok() {} };
    timeout(SOON, sending).await.expect("it is closed");
}
