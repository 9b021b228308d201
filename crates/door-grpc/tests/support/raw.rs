//! A peer that speaks HTTP/2 by hand, and so may leave things unfinished.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const INITIAL_WINDOW_SIZE: u16 = 4;
const HEAD: usize = 9;
const FRAME_MAX: usize = 16_384;
/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(20);
/// After so long without a word, the other side takes no more.
const SILENCE: Duration = Duration::from_secs(1);

pub(crate) struct Raw {
    stream: TcpStream,
    /// How much may be sent: on the connection, and on each stream.
    connection: usize,
    streams: BTreeMap<u32, usize>,
    initial: usize,
    /// The streams that the other side has begun to answer, and those that it has ended.
    begun: Vec<u32>,
    ended: Vec<u32>,
    /// Heard and not yet understood.
    heard: Vec<u8>,
}

impl Raw {
    pub(crate) async fn connect(address: SocketAddr) -> Raw {
        let mut stream = TcpStream::connect(address).await.expect("a door");
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.expect("it listens");
        let mut raw = Raw {
            stream,
            connection: 65_535,
            streams: BTreeMap::new(),
            initial: 65_535,
            begun: Vec::new(),
            ended: Vec::new(),
            heard: Vec::new(),
        };
        raw.frame(SETTINGS, 0, 0, &[]).await;
        raw
    }

    /// Begins a call that will not be finished by itself.
    pub(crate) async fn begin(&mut self, stream: u32, path: &str) {
        let mut block = Vec::new();
        let fields = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", path),
            (":authority", "here"),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        ];
        for (name, value) in fields {
            block.push(0);
            for text in [name, value] {
                block.push(u8::try_from(text.len()).expect("it is short"));
                block.extend(text.as_bytes());
            }
        }
        self.streams.insert(stream, self.initial);
        self.frame(HEADERS, END_HEADERS, stream, &block).await;
    }

    /// All that a call has to say.
    pub(crate) async fn say(&mut self, stream: u32, message: &[u8]) {
        self.frame(DATA, END_STREAM, stream, message).await;
    }

    /// How many calls the other side has begun to answer, when it says no more.
    pub(crate) async fn answers_that_begin(&mut self) -> usize {
        while tokio::time::timeout(SILENCE, self.arrives()).await.is_ok() {
            self.hear().await;
        }
        self.begun.len()
    }

    /// The calls that the other side has ended.
    pub(crate) fn ended(&self) -> &[u32] {
        &self.ended
    }

    /// Whether the other side begins to answer the call.
    pub(crate) async fn begins(&mut self, stream: u32) -> bool {
        let begun = async {
            while !self.begun.contains(&stream) {
                self.hear().await;
            }
        };
        tokio::time::timeout(TIMEOUT, begun).await.is_ok()
    }

    /// Whether the other side ends the call.
    pub(crate) async fn ends(&mut self, stream: u32) -> bool {
        let ended = async {
            while !self.ended.contains(&stream) {
                self.hear().await;
            }
        };
        tokio::time::timeout(TIMEOUT, ended).await.is_ok()
    }

    /// Sends a message without its end on each of the calls, in turns and as far as it is let. Says how much that was.
    pub(crate) async fn press(&mut self, calls: &[u32], length: u32) -> usize {
        let mut sent: BTreeMap<u32, usize> = calls.iter().map(|call| (*call, 0)).collect();
        let length = length as usize;
        loop {
            let mut moved = false;
            for (call, sent) in &mut sent {
                let room = self.connection.min(self.streams[call]).min(length - *sent).min(FRAME_MAX);
                // The length of a message stands at its beginning.
                if room < 5 {
                    continue;
                }
                let mut data = vec![0; room];
                if *sent == 0 {
                    data[1..5].copy_from_slice(&(16u32 << 20).to_be_bytes());
                }
                self.frame(DATA, 0, *call, &data).await;
                self.connection -= room;
                *self.streams.get_mut(call).expect("it has begun") -= room;
                *sent += room;
                moved = true;
            }
            if moved {
                continue;
            }
            if tokio::time::timeout(SILENCE, self.arrives()).await.is_err() {
                return sent.values().sum();
            }
            self.hear().await;
        }
    }

    /// Gives calls up. Says whether the other side is still there.
    pub(crate) async fn give_up(&mut self, calls: &[u32]) -> bool {
        for call in calls {
            self.frame(RESET, 0, *call, &8u32.to_be_bytes()).await;
        }
        self.frame(PING, 0, 0, b"are you?").await;
        let answered = async { while !matches!(self.hear().await, (PING, ACK)) {} };
        tokio::time::timeout(TIMEOUT, answered).await.is_ok()
    }

    async fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = u32::try_from(payload.len()).expect("it is short").to_be_bytes();
        let mut frame = vec![length[1], length[2], length[3], kind, flags];
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        self.stream.write_all(&frame).await.expect("it listens");
    }

    /// Waits for a whole frame. Nothing is lost if that is given up.
    async fn arrives(&mut self) {
        while self.length().is_none_or(|length| self.heard.len() < length) {
            let read = self.stream.read_buf(&mut self.heard).await.expect("it is there");
            assert_ne!(read, 0, "the other side has closed");
        }
    }

    /// How long the frame is that comes next, as soon as that is known.
    fn length(&self) -> Option<usize> {
        let head = self.heard.get(..HEAD)?;
        Some(HEAD + u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize)
    }

    /// One frame of the other side: its kind and flags.
    async fn hear(&mut self) -> (u8, u8) {
        self.arrives().await;
        let length = self.length().expect("a whole frame is there");
        let frame: Vec<u8> = self.heard.drain(..length).collect();
        let (head, payload) = frame.split_at(HEAD);
        let (kind, flags) = (head[3], head[4]);
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        match kind {
            SETTINGS if flags & ACK == 0 => {
                for setting in payload.chunks_exact(6) {
                    let value = u32::from_be_bytes([setting[2], setting[3], setting[4], setting[5]]) as usize;
                    if u16::from_be_bytes([setting[0], setting[1]]) == INITIAL_WINDOW_SIZE {
                        for window in self.streams.values_mut() {
                            *window = *window + value - self.initial;
                        }
                        self.initial = value;
                    }
                }
                self.frame(SETTINGS, ACK, 0, &[]).await;
            }
            WINDOW_UPDATE => {
                let more = u32::from_be_bytes([payload[0], payload[1], payload[2], payload[3]]) as usize;
                match stream {
                    0 => self.connection += more,
                    _ => *self.streams.entry(stream).or_default() += more,
                }
            }
            PING if flags & ACK == 0 => self.frame(PING, ACK, 0, payload).await,
            HEADERS if flags & END_STREAM != 0 => self.ended.push(stream),
            HEADERS => self.begun.push(stream),
            RESET => self.ended.push(stream),
            _ => {}
        }
        (kind, flags)
    }
}
