//! One publisher, many subscribers: this door against a bare tonic server that broadcasts the same messages, in turns.
//!
//! Both have the same clients, in this process, on loopback. The publisher runs ahead of the slowest subscriber by a
//! window that fits into every buffer, so that nothing is dropped and all deliveries count.

mod bare;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt as _;
use tenure_door_grpc::proto::sidecar as pb;
use tenure_door_grpc::proto::sidecar::sidecar_service_client::SidecarServiceClient;
use tenure_door_grpc::{Settings, serve};
use tenure_hub::store::{MemoryDisk, StoreSettings};
use tenure_hub::{Hub, Keys};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tonic::transport::{Channel, Endpoint};

const PAYLOAD_BYTES: usize = 256;
/// How many messages the publisher is ahead of the slowest subscriber at most.
const WINDOW: u64 = 4_000;
/// How many calls of the publisher are under way.
const PUBLISHING: usize = 64;
const ROUNDS: usize = 3;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("threads");
    runtime.block_on(async {
        for (subscribers, messages) in [(10, 60_000), (100, 12_000)] {
            compare(subscribers, messages).await;
        }
    });
}

async fn compare(subscribers: usize, messages: u64) {
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let order = if round % 2 == 0 { [true, false] } else { [false, true] };
        for is_ours in order {
            let (rates, address) =
                if is_ours { (&mut ours, tenure().await) } else { (&mut bare, bare::start().await) };
            rates.push(deliveries_per_second(address, subscribers, messages).await);
        }
    }
    let (ours, bare) = (median(ours), median(bare));
    println!(
        "{subscribers:>4} subscribers: {ours:>9.0} deliveries/s, bare tonic {bare:>9.0}, ratio {:.2}",
        ours / bare
    );
}

async fn tenure() -> SocketAddr {
    let engine = tenure_hub::words::Settings::default();
    let hub = Hub::start(Arc::new(MemoryDisk::new()), StoreSettings::default(), engine, Keys::default())
        .expect("a hub");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let handle = hub.handle().clone();
    tokio::spawn(async move {
        let _hub = hub;
        serve(listener, handle, Settings::default()).await
    });
    address
}

async fn connect(address: SocketAddr) -> SidecarServiceClient<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
    SidecarServiceClient::new(endpoint.tcp_nodelay(true).connect().await.expect("a server"))
}

async fn deliveries_per_second(address: SocketAddr, subscribers: usize, messages: u64) -> f64 {
    let heard: Arc<Vec<AtomicU64>> = Arc::new((0..subscribers).map(|_| AtomicU64::new(0)).collect());
    let progress = Arc::new(Notify::new());
    let mut readers = Vec::new();
    for index in 0..subscribers {
        let mut client = connect(address).await;
        let topics = vec!["news".to_owned()];
        let request = pb::SubscribeRequest { topics, ..pb::SubscribeRequest::default() };
        let mut events = client.subscribe(request).await.expect("a stream").into_inner();
        let (heard, progress) = (Arc::clone(&heard), Arc::clone(&progress));
        readers.push(tokio::spawn(async move {
            let _client = client;
            let mut count = 0;
            while count < messages {
                let event = events.message().await.expect("it goes on").expect("there is more");
                assert!(event.field != 8, "something was dropped");
                if event.field == 2 {
                    count += 1;
                    heard[index].store(count, Ordering::Relaxed);
                    if count % 1_000 == 0 || count == messages {
                        progress.notify_one();
                    }
                }
            }
        }));
    }
    let client = connect(address).await;
    let payload = Bytes::from(vec![b'x'; PAYLOAD_BYTES]);
    let began = Instant::now();
    let numbers = futures::stream::iter(0..messages).then(|number| {
        let (heard, progress) = (&heard, &progress);
        async move {
            while number
                >= heard.iter().map(|count| count.load(Ordering::Relaxed)).min().unwrap_or(0) + WINDOW
            {
                let _ = tokio::time::timeout(Duration::from_millis(5), progress.notified()).await;
            }
        }
    });
    let publish = numbers.map(|()| {
        let (mut client, payload) = (client.clone(), payload.clone());
        let request =
            pb::PublishRequest { topic: "news".to_owned(), payload, ..pb::PublishRequest::default() };
        async move { client.publish(request).await.expect("it is published") }
    });
    publish.buffer_unordered(PUBLISHING).for_each(|_| std::future::ready(())).await;
    for reader in readers {
        reader.await.expect("all is heard");
    }
    (subscribers as u64 * messages) as f64 / began.elapsed().as_secs_f64()
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}
