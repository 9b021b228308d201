//! The topic load, the same for every server: one publisher, many subscribers, no acknowledgements.
//!
//! The publisher is never more than a window ahead of the slowest subscriber, so that no server has to drop
//! anything and each is measured by what it delivers. Every subscriber reads each message it gets.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use tenure_client::Address;
use tenure_client::wire::hello::Hello;
use tenure_client::wire::topic::{NewMessage, Publish, Subscribe, look_at_messages};
use tenure_client::wire::{Request, VERSION, encode_request, limits, split_frames};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::load::BODY_BYTES;
use crate::exit::Failure;

/// How many subscribers there are, and what the figures are called.
pub(crate) const CROWDS: [(&str, &str, usize); 2] = [
    ("topic to 10 subscribers", "10 subscribers, server CPU", 10),
    ("topic to 100 subscribers", "100 subscribers, server CPU", 100),
];
/// Number of deliveries for every task of `--tasks`: deliveries are that much faster.
pub(crate) const DELIVERIES_PER_TASK: usize = 20;
/// How many messages the publisher may be ahead of the slowest subscriber.
const WINDOW: usize = 2_000;
/// How many messages are written at once.
const CHUNK: usize = 50;
const READ_BYTES: usize = 64 << 10;
pub(crate) const TOPIC: &str = "bench.topic";

pub(crate) type Counter = fn(&mut BytesMut) -> Result<usize, Failure>;

/// How a server is spoken to.
pub(crate) trait Server {
    /// A connection that is ready to publish.
    async fn publisher(&self) -> Result<TcpStream, Failure>;

    /// A connection that is subscribed, and what has arrived on it beyond that.
    async fn subscriber(&self) -> Result<(TcpStream, BytesMut), Failure>;

    /// This many messages, encoded for publishing.
    fn messages(&self, count: usize) -> Bytes;

    /// Takes all complete messages off the front of what has arrived, and says how many there were.
    fn counter(&self) -> Counter;
}

/// Publishes this many messages and returns when every subscriber has all of them.
pub(crate) async fn run<S: Server>(
    server: S,
    subscribers: usize,
    messages: usize,
) -> Result<Duration, Failure> {
    let progress = Arc::new(Progress::new(subscribers));
    let mut reading = JoinSet::new();
    for index in 0..subscribers {
        let (stream, arrived) = server.subscriber().await?;
        reading.spawn(read(stream, arrived, server.counter(), Arc::clone(&progress), index, messages));
    }
    let mut publisher = server.publisher().await?;
    let chunk = server.messages(CHUNK);
    let last = server.messages(messages % CHUNK);
    let begun = Instant::now();
    let mut published = 0;
    while published < messages {
        progress.until(published.saturating_sub(WINDOW)).await;
        let count = CHUNK.min(messages - published);
        publisher.write_all(if count == CHUNK { &chunk } else { &last }).await?;
        published += count;
    }
    while let Some(ended) = reading.join_next().await {
        ended.map_err(|error| Failure::internal(error.to_string()))??;
    }
    Ok(begun.elapsed())
}

async fn read(
    mut stream: TcpStream,
    mut arrived: BytesMut,
    count: Counter,
    progress: Arc<Progress>,
    index: usize,
    messages: usize,
) -> Result<(), Failure> {
    let mut seen = 0;
    loop {
        let more = count(&mut arrived)?;
        if more > 0 {
            seen += more;
            progress.report(index, seen);
        }
        if seen >= messages {
            return Ok(());
        }
        arrived.reserve(READ_BYTES);
        if stream.read_buf(&mut arrived).await? == 0 {
            return Err(Failure::internal(format!(
                "a subscriber was cut off after {seen} of {messages} messages"
            )));
        }
    }
}

/// How far each subscriber is.
struct Progress {
    seen: Vec<AtomicUsize>,
    moved: Notify,
}

impl Progress {
    fn new(subscribers: usize) -> Progress {
        Progress { seen: (0..subscribers).map(|_| AtomicUsize::new(0)).collect(), moved: Notify::new() }
    }

    fn report(&self, index: usize, seen: usize) {
        self.seen[index].store(seen, Ordering::Relaxed);
        self.moved.notify_one();
    }

    /// Waits until every subscriber has seen this many.
    async fn until(&self, wanted: usize) {
        while self.seen.iter().any(|seen| seen.load(Ordering::Relaxed) < wanted) {
            self.moved.notified().await;
        }
    }
}

/// Tenure, over its native protocol.
pub(crate) struct Native<'a>(pub(crate) &'a Address);

impl Native<'_> {
    async fn connect(&self) -> Result<TcpStream, Failure> {
        let Address::Tcp(address) = self.0 else {
            return Err(Failure::internal("the broker of a benchmark listens on TCP"));
        };
        let mut stream = TcpStream::connect(&**address).await?;
        stream.set_nodelay(true)?;
        let hello = Hello { version: VERSION, ..Hello::default() };
        ask(&mut stream, &Request::Hello(Box::new(hello))).await?;
        Ok(stream)
    }
}

impl Server for Native<'_> {
    async fn publisher(&self) -> Result<TcpStream, Failure> {
        self.connect().await
    }

    async fn subscriber(&self) -> Result<(TcpStream, BytesMut), Failure> {
        let mut stream = self.connect().await?;
        let subscribe = Subscribe { topics: vec![TOPIC.into()], ..Subscribe::default() };
        let arrived = ask(&mut stream, &Request::Subscribe(Box::new(subscribe))).await?;
        Ok((stream, arrived))
    }

    fn messages(&self, count: usize) -> Bytes {
        let message = NewMessage::new(TOPIC, vec![b'x'; BODY_BYTES]);
        let mut frame = BytesMut::new();
        encode_request(&mut frame, 0, &Request::Publish(Publish { messages: vec![message; count] }));
        frame.freeze()
    }

    fn counter(&self) -> Counter {
        count
    }
}

fn count(arrived: &mut BytesMut) -> Result<usize, Failure> {
    let unexpected_reply =
        |error: &dyn std::fmt::Display| Failure::internal(format!("an invalid frame: {error}"));
    let mut count = 0;
    for frame in split_frames(arrived, limits::FRAME_BYTES_MAX).map_err(|error| unexpected_reply(&error))? {
        let looked =
            look_at_messages(&frame, |_, _, payload| count += usize::from(payload.len() == BODY_BYTES));
        if !looked.map_err(|error| unexpected_reply(&error))? {
            return Err(Failure::internal("the broker dropped something"));
        }
    }
    Ok(count)
}

/// Asks, and waits for one frame. What comes after it is handed back.
async fn ask(stream: &mut TcpStream, request: &Request) -> Result<BytesMut, Failure> {
    let mut out = BytesMut::new();
    encode_request(&mut out, 1, request);
    stream.write_all(&out).await?;
    let mut arrived = BytesMut::new();
    loop {
        if stream.read_buf(&mut arrived).await? == 0 {
            return Err(Failure::internal("the broker closed the connection"));
        }
        if arrived.len() >= 4 {
            let length = 4 + u32::from_be_bytes([arrived[0], arrived[1], arrived[2], arrived[3]]) as usize;
            if arrived.len() >= length {
                let _ = arrived.split_to(length);
                return Ok(arrived);
            }
        }
    }
}
