//! One peer's conversation: what it says becomes requests to the hub, what the hub delivers becomes messages to it.
//!
//! Everything here is pure. Time comes in as an argument, bytes of bodies and results are handed in, and what is to be
//! done goes into [`Out`]: the server does it.

mod asked;
mod client;
mod inquiry;
mod jobs;
mod majordomo;
mod ping_pong_client;
mod ping_pong_worker;
mod telling;
mod worker;

use bytes::Bytes;
use tenure_hub::words::{Blob, Name, Refusal, Timestamp};
use tenure_hub::{Ask, Delivery, Grant};

pub use majordomo::Majordomo;
pub use ping_pong_client::PingPongClient;
pub use ping_pong_worker::PingPongWorker;

/// What a turn of a conversation asks for.
#[derive(Debug, Default)]
pub struct Out {
    /// Messages to the peer.
    pub messages: Vec<Vec<Bytes>>,
    /// Requests to the hub.
    pub asks: Vec<Ask>,
    /// The connection is to be closed when the messages are written.
    pub close: bool,
}

/// Who the peer is.
#[derive(Clone, Debug)]
pub struct Me {
    /// Its name in the broker.
    pub name: Name,
    /// Whether it chose its identity and may come back under it.
    pub is_chosen: bool,
    pub grant: Grant,
}

/// A conversation, whatever the protocol.
pub trait Conversation: Send {
    /// The connection is open.
    fn begin(&mut self, _now: Timestamp, _out: &mut Out) {}

    /// The peer sent a message.
    fn receive(&mut self, now: Timestamp, frames: Vec<Bytes>, out: &mut Out);

    /// Which bytes are needed to take this delivery.
    fn needs(&self, delivery: &Delivery) -> Option<Blob>;

    /// The hub delivered something, here with the bytes that were needed.
    fn deliver(&mut self, now: Timestamp, delivery: Delivery, bytes: Result<Bytes, Refusal>, out: &mut Out);

    /// Everything that has arrived was delivered.
    fn settle(&mut self, _now: Timestamp, _out: &mut Out) {}

    /// Time has passed.
    fn tick(&mut self, _now: Timestamp, _out: &mut Out) {}

    /// When [`Conversation::tick`] has something to do.
    fn deadline(&self) -> Option<Timestamp> {
        None
    }

    /// How many requests the hub has not answered.
    fn unanswered(&self) -> usize;

    /// The connection is gone. What is to be asked of the hub before it hears of that goes into `out`.
    fn end(&mut self, _now: Timestamp, _out: &mut Out) {}
}
