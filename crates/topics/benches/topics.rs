//! What a publish and a delivery cost, and how much memory an idle topic takes.
//!
//! `cargo bench -p tenure-topics`. Plain measurements on one thread: the best of a few rounds.

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tenure_topics::{
    Delivery, Filter, MessageId, Publish, Settings, Shard, Subscribe, SubscriptionId, SubscriptionKey,
    Timestamp,
};

const ROUNDS: usize = 5;
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
    let messages = (2_000_000 / subscribers).clamp(2_000, 200_000);
    let (mut publish, mut take) = (Duration::MAX, Duration::MAX);
    let mut wake = Vec::new();
    let mut out: Vec<Delivery> = Vec::with_capacity(128);
    for _ in 0..ROUNDS {
        let (mut publishing, mut taking) = (Duration::ZERO, Duration::ZERO);
        for batch in 0..messages / 64 {
            let start = Instant::now();
            for number in 0..64 {
                send(&mut shard, "sensor.kitchen.temp", batch * 64 + number, &mut wake);
            }
            publishing += start.elapsed();
            wake.clear();
            let start = Instant::now();
            for &key in &keys {
                shard.take(key, 100, NOW, &mut out).unwrap();
                black_box(&out);
                out.clear();
            }
            taking += start.elapsed();
        }
        (publish, take) = (publish.min(publishing), take.min(taking));
    }
    let published = messages / 64 * 64;
    let deliveries = published * subscribers;
    println!(
        "{:>12} {:>10.1} {:>10.1} {:>10.1}  {kind}",
        subscribers,
        nanos(publish, deliveries),
        nanos(take, deliveries),
        nanos(publish, published)
    );
}

fn full_queues() {
    let mut shard = Shard::new(Settings { queue_messages: 1000, ..Settings::default() });
    for number in 0..100 {
        subscribe(&mut shard, number, "a");
    }
    let mut wake = Vec::new();
    let mut publish = |count: usize| {
        let start = Instant::now();
        for number in 0..count {
            send(&mut shard, "a", number, &mut wake);
            wake.clear();
        }
        start.elapsed()
    };
    publish(2000);
    let best = (0..ROUNDS).map(|_| publish(5000)).min().unwrap();
    println!("drop-oldest at 100 full queues: {:.1} ns per delivery", nanos(best, 5000 * 100));
}

fn many_topics() {
    let names: Vec<String> = (0..MILLION).map(|n| format!("site.{}.sensor.{n}", n % 1000)).collect();
    let mut shard = Shard::new(Settings::default());
    let mut wake = Vec::new();
    let start = Instant::now();
    for (number, name) in names.iter().enumerate() {
        send(&mut shard, name, number, &mut wake);
    }
    println!("a million new topics: {:.0} ns per publish", nanos(start.elapsed(), MILLION));
    let mut best = Duration::MAX;
    let mut at = 1;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for number in 0..200_000 {
            at = (at * 48_271 + 11) % MILLION;
            send(&mut shard, &names[at], number, &mut wake);
        }
        best = best.min(start.elapsed());
    }
    println!("a random one of a million topics: {:.0} ns per publish", nanos(best, 200_000));
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for number in 0..200_000 {
            send(&mut shard, &names[number % 16], number, &mut wake);
        }
        best = best.min(start.elapsed());
    }
    println!("one of 16 busy ones among a million: {:.0} ns per publish", nanos(best, 200_000));
}

fn many_patterns() {
    let mut shard = Shard::new(Settings::default());
    for number in 0..50_000 {
        subscribe(&mut shard, number, &format!("site.{number}.>"));
        subscribe(&mut shard, 50_000 + number, &format!("site.*.sensor.{number}"));
    }
    let names: Vec<String> = (0..50_000).map(|n| format!("site.{n}.sensor.{}", (n * 7) % 50_000)).collect();
    let mut wake = Vec::new();
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for number in 0..50_000 {
            send(&mut shard, &names[number], number, &mut wake);
            wake.clear();
        }
        best = best.min(start.elapsed());
    }
    println!("two of 100,000 patterns match: {:.0} ns per publish", nanos(best, 50_000));
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
    shard.subscribe(Subscribe::new(id, vec![Filter::parse(filter).unwrap()]), NOW).unwrap()
}

fn send(shard: &mut Shard, topic: &str, number: usize, wake: &mut Vec<SubscriptionKey>) {
    static PAYLOAD: [u8; 128] = [7; 128];
    let publish = Publish::new(topic, MessageId(number as u128), Bytes::from_static(&PAYLOAD));
    black_box(shard.publish(publish, NOW, wake).unwrap());
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
