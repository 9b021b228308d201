//! What a publish and a delivery cost, and how much memory an idle topic takes.
//!
//! `cargo bench -p tenure-topics`. Plain measurements on one thread: the median of many small batches,
//! so that a busy machine disturbs little.

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tenure_topics::{
    Delivery, MessageId, Publish, Settings, Shard, Subscribe, SubscriptionId, SubscriptionKey, Timestamp,
    TopicFilter,
};

/// Messages per measurement.
const BATCH: usize = 64;
const MILLION: usize = 1_000_000;
const NOW: Timestamp = Timestamp(1_000_000);

fn main() {
    // First, while nothing that was freed can be taken again.
    idle_topics();
    println!("fan-out, 128-byte payload, queues drained every 64 messages (ns per delivery)");
    println!("{:>12} {:>10} {:>10} {:>10}", "subscribers", "publish", "take", "per msg");
    for subscribers in [1, 10, 100, 1000] {
        fan_out(subscribers, "exact", |_| "sensor.kitchen.temp".to_owned());
    }
    fan_out(100, "pattern", |number| if number % 2 == 0 { "sensor.*.temp" } else { "sensor.>" }.to_owned());
    full_queues();
    many_topics();
    many_patterns();
}

fn fan_out(subscribers: usize, kind: &str, filter: impl Fn(usize) -> String) {
    let mut shard = Shard::new(Settings::default());
    let keys: Vec<SubscriptionKey> = (0..subscribers).map(|n| subscribe(&mut shard, n, &filter(n))).collect();
    let mut wake = Vec::new();
    let mut out: Vec<Delivery> = Vec::with_capacity(128);
    let (mut publishing, mut taking) = (Vec::new(), Vec::new());
    for batch in 0..(20_000 / subscribers).clamp(200, 2000) {
        publishing.push(time(|| {
            for number in 0..BATCH {
                send(&mut shard, "sensor.kitchen.temp", batch * BATCH + number, &mut wake);
            }
        }));
        wake.clear();
        taking.push(time(|| {
            for &key in &keys {
                shard.take(key, 2 * BATCH, NOW, &mut out).unwrap();
                black_box(&out);
                out.clear();
            }
        }));
    }
    let (publish, take) = (median(publishing), median(taking));
    println!(
        "{subscribers:>12} {:>10.1} {:>10.1} {:>10.1}  {kind}",
        nanos(publish, BATCH * subscribers),
        nanos(take, BATCH * subscribers),
        nanos(publish, BATCH)
    );
}

fn full_queues() {
    let mut shard = Shard::new(Settings { queue_messages: 1000, ..Settings::default() });
    for number in 0..100 {
        subscribe(&mut shard, number, "a");
    }
    let mut wake = Vec::new();
    let mut times = Vec::new();
    for batch in 0..100 {
        times.push(time(|| {
            for number in 0..BATCH {
                send(&mut shard, "a", batch * BATCH + number, &mut wake);
            }
        }));
        wake.clear();
    }
    println!("drop-oldest at 100 full queues: {:.1} ns per delivery", nanos(median(times), BATCH * 100));
}

fn many_topics() {
    let names: Vec<String> = (0..MILLION).map(|n| format!("site.{}.sensor.{n}", n % 1000)).collect();
    let mut shard = Shard::new(Settings::default());
    let mut publish = |choose: &mut dyn FnMut(usize) -> usize, count: usize| {
        let mut wake = Vec::new();
        let mut times = Vec::new();
        for batch in 0..count / BATCH {
            times.push(time(|| {
                for number in 0..BATCH {
                    let number = batch * BATCH + number;
                    send(&mut shard, &names[choose(number)], number, &mut wake);
                }
            }));
        }
        nanos(median(times), BATCH)
    };
    println!("a million new topics: {:.0} ns per publish", publish(&mut |number| number, MILLION));
    let mut at = 1;
    let mut random = |_| {
        at = (at * 48_271 + 11) % MILLION;
        at
    };
    println!("a random one of a million topics: {:.0} ns per publish", publish(&mut random, 500_000));
    println!(
        "one of 16 busy ones among a million: {:.0} ns per publish",
        publish(&mut |number| number % 16, 500_000)
    );
}

fn many_patterns() {
    let mut shard = Shard::new(Settings::default());
    for number in 0..50_000 {
        subscribe(&mut shard, number, &format!("site.{number}.>"));
        subscribe(&mut shard, 50_000 + number, &format!("site.*.sensor.{number}"));
    }
    let names: Vec<String> = (0..50_000).map(|n| format!("site.{n}.sensor.{}", (n * 7) % 50_000)).collect();
    let mut wake = Vec::new();
    let mut times = Vec::new();
    for chunk in names.chunks_exact(BATCH).cycle().take(2000) {
        times.push(time(|| {
            for (number, name) in chunk.iter().enumerate() {
                send(&mut shard, name, number, &mut wake);
            }
        }));
        wake.clear();
    }
    println!("two of 100,000 patterns match: {:.0} ns per publish", nanos(median(times), BATCH));
}

fn idle_topics() {
    let names: Vec<String> = (0..MILLION).map(|n| format!("site.{}.sensor.{n}", n % 1000)).collect();
    let before = resident_bytes();
    // Without room for buffers every topic is idle as soon as its message is delivered.
    let mut shard = Shard::new(Settings { ring_bytes: 0, ..Settings::default() });
    let mut wake = Vec::new();
    for (number, name) in names.iter().enumerate() {
        send(&mut shard, name, number, &mut wake);
    }
    assert_eq!(shard.stats().topics, MILLION);
    match (before, resident_bytes()) {
        (Some(before), Some(after)) => {
            println!("a million idle topics: {} bytes each, name included", (after - before) / MILLION);
        }
        _ => println!("a million idle topics: this system does not tell how much memory is resident"),
    }
    black_box(&shard);
}

fn subscribe(shard: &mut Shard, number: usize, filter: &str) -> SubscriptionKey {
    let id = SubscriptionId::parse(&format!("s{number}")).unwrap();
    shard.subscribe(Subscribe::new(id, vec![TopicFilter::parse(filter).unwrap()]), NOW).unwrap()
}

fn send(shard: &mut Shard, topic: &str, number: usize, wake: &mut Vec<SubscriptionKey>) {
    static PAYLOAD: [u8; 128] = [7; 128];
    let publish = Publish::new(topic, MessageId(number as u128), Bytes::from_static(&PAYLOAD));
    black_box(shard.publish(publish, NOW, wake).unwrap());
}

fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn nanos(duration: Duration, count: usize) -> f64 {
    duration.as_secs_f64() * 1e9 / count as f64
}

/// The second number in `statm` is the resident set, in pages.
fn resident_bytes() -> Option<usize> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: usize = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * 4096)
}
