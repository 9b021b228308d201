//! Pub/sub on the running hub: how many deliveries a second from one publisher to many subscribers, each a task of its
//! own.
//!
//! `cargo bench -p tenure-hub --bench topics`. Each row is the median of five turns; all rows take turns, so that a
//! busy machine disturbs them alike. CPU is that of the whole process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tenure_hub::store::{MemoryDisk, RealDisk, StoreSettings};
use tenure_hub::topics::{
    Policy, Publish, Subscribe, SubscriptionId, TopicFilter, TopicSettings, Topics, fresh_message_id,
};
use tenure_hub::words::{Name, Settings};
use tenure_hub::{Hub, Keys};

const TURNS: usize = 5;
const PAYLOAD_BYTES: usize = 128;
/// How many messages a publisher hands over at once.
const BATCH: usize = 64;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("it starts");
    runtime.block_on(async {
        let shapes = [(1, 400_000), (10, 100_000), (100, 20_000)];
        let mut figures = vec![Vec::new(); shapes.len()];
        for _ in 0..TURNS {
            for (index, (subscribers, messages)) in shapes.into_iter().enumerate() {
                figures[index].push(fan_out(subscribers, messages).await);
            }
        }
        println!("{:>12} {:>16} {:>22}", "subscribers", "deliveries/s", "CPU ns per delivery");
        for ((subscribers, messages), mut turns) in shapes.into_iter().zip(figures) {
            turns.sort_by_key(|(elapsed, _)| *elapsed);
            let (elapsed, cpu) = turns[TURNS / 2];
            let deliveries = (subscribers * messages) as f64;
            println!(
                "{subscribers:>12} {:>16.0} {:>22.0}",
                deliveries / elapsed.as_secs_f64(),
                cpu.as_nanos() as f64 / deliveries
            );
        }
        durable().await;
    });
}

/// One publisher; the subscribers block it, so that every message is delivered to all.
async fn fan_out(subscribers: usize, messages: usize) -> (Duration, Duration) {
    let disk = Arc::new(MemoryDisk::new());
    let hub =
        Hub::start(disk, StoreSettings::default(), Settings::default(), Keys::default()).expect("it starts");
    let topics = hub.handle().topics();
    let (begun, cpu) = (Instant::now(), cpu());
    let readers: Vec<_> =
        (0..subscribers).map(|number| tokio::spawn(read(topics.clone(), number, messages))).collect();
    while topics.stats().subscriptions < subscribers {
        tokio::task::yield_now().await;
    }
    let payload = Bytes::from(vec![7; PAYLOAD_BYTES]);
    let default = Name::from("default");
    for _ in 0..messages.div_ceil(BATCH) {
        let batch = (0..BATCH).map(|_| Publish::new("news", fresh_message_id(), payload.clone())).collect();
        for receipt in topics.publish_many(&default, batch) {
            receipt.expect("it is published").settled().await.expect("it is settled");
        }
    }
    for reader in readers {
        reader.await.expect("it reads to the end");
    }
    let took = (begun.elapsed(), self::cpu() - cpu);
    hub.handle().stop();
    hub.ended().await.expect("it stops");
    took
}

async fn read(topics: Topics, number: usize, messages: usize) {
    let id = SubscriptionId::parse(&number.to_string()).expect("a short text");
    let mut subscribe = Subscribe::new(id, vec![TopicFilter::parse("news").expect("a name")]);
    subscribe.policy = Some(Policy::Block);
    let (mut subscription, _) = topics.subscribe(&Name::from("default"), subscribe).expect("there is room");
    let mut out = Vec::new();
    let mut heard = 0;
    while heard < messages {
        subscription.take(256, 1 << 20, &mut out).await.expect("the stream goes on");
        heard += out.len();
        out.clear();
    }
}

/// A durable topic on real files, with few and with many publishers: they share the syncs.
async fn durable() {
    let dir = tempfile::tempdir().expect("a directory");
    let disk = Arc::new(RealDisk::new(dir.path()).expect("it opens"));
    let settings = TopicSettings {
        durable: vec![TopicFilter::parse("audit").expect("a name")],
        ..TopicSettings::default()
    };
    let hub = Hub::start_with_topics(
        disk,
        StoreSettings::default(),
        Settings::default(),
        settings,
        Keys::default(),
    )
    .expect("it starts");
    println!("{:>12} {:>16}", "publishers", "durable/s");
    for publishers in [1, 10, 100, 1000] {
        let begun = Instant::now();
        let each = 2_000 / publishers.clamp(1, 100);
        let tasks: Vec<_> = (0..publishers)
            .map(|_| {
                let topics = hub.handle().topics().clone();
                tokio::spawn(async move {
                    for _ in 0..each {
                        let publish = Publish::new("audit", fresh_message_id(), vec![7; PAYLOAD_BYTES]);
                        topics.publish(&Name::from("default"), publish).await.expect("it is on disk");
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("it publishes to the end");
        }
        println!("{publishers:>12} {:>16.0}", (each * publishers) as f64 / begun.elapsed().as_secs_f64());
    }
}

/// CPU of this process so far, from the kernel's clock ticks of a hundredth of a second.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux tells");
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 =
        after_name.split_whitespace().skip(11).take(2).filter_map(|word| word.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}
