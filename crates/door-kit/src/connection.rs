//! The connection loop: what arrives goes to the protocol, what the protocol says goes out.
//!
//! One task per connection. It reads what has arrived, hands all requests to the hub at once, delivers what the hub has put
//! into the mailbox, and writes all of it at once. When the peer does not read, or has asked more than has been answered,
//! nothing more is read from it: that is the back-pressure.

use std::collections::VecDeque;
use std::future::{pending, poll_fn};
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tenure_hub::limits::{SESSION_REQUESTS_MAX, UNSENT_BYTES_MAX};
use tenure_hub::topics::Topics;
use tenure_hub::words::{Blob, Name, Refusal, SessionId, Timestamp};
use tenure_hub::{Ask, Delivery, Grant, Principal, wall_clock};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::time::{Instant, sleep_until};

use crate::accept::Door;
use crate::authenticator::LoginError;
use crate::budget::Charge;
use crate::read_sizer::ReadSizer;
use crate::stream::{read_into, send};

/// What is read at once: little for the many that are idle, more for a peer that fills it.
const READ_BYTES_MIN: usize = 4 << 10;
const READ_BYTES_MAX: usize = 32 << 10;
/// A buffer that has grown beyond this is given back once it has been sent.
const OUT_BYTES_KEPT: usize = 64 << 10;
/// How many bytes of bodies are fetched at a time.
const FETCH_BYTES: usize = UNSENT_BYTES_MAX;
/// As long as this much waits to be read by the peer, nothing is taken from its subscriptions.
const TOPIC_BYTES_UNSENT_MAX: usize = 256 << 10;
/// How long a connection lives on after the broker has said goodbye, for what is still to be said.
const GOODBYE: Duration = Duration::from_millis(500);

/// What comes out of one turn of a protocol: bytes for the peer, requests for the hub.
#[derive(Debug, Default)]
pub struct Turn {
    pub out: BytesMut,
    pub asks: Vec<Ask>,
    /// When `out` has been sent, the connection ends.
    pub close: bool,
    /// `out` is sent after this wait: a wrong key is answered slowly.
    pub hold: Option<Duration>,
}

/// One peer's side of a protocol: pure, with time as an argument.
pub trait Protocol {
    /// The peer has just connected.
    fn begin(&mut self, _turn: &mut Turn) {}

    /// Takes all complete frames out of what has arrived. What it leaves is an unfinished frame.
    fn receive(
        &mut self,
        now: Timestamp,
        arrived: &mut BytesMut,
        entrance: &mut dyn Entrance,
        turn: &mut Turn,
    );

    /// Which bytes the loop has to bring along with this delivery.
    fn needs(&self, delivery: &Delivery) -> Option<Blob>;

    /// Takes one delivery of the hub, with the bytes that it needs.
    fn deliver(&mut self, delivery: Delivery, bytes: Option<Result<Bytes, Refusal>>, turn: &mut Turn);

    /// All that arrived together has been delivered: what was collected goes out.
    fn flush(&mut self, turn: &mut Turn);

    /// Requests that the hub has not answered. Those that wait for other peers do not count.
    fn open_requests(&self) -> usize;

    fn next_deadline(&self) -> Option<Timestamp>;

    /// Ready when something has happened on a topic, for `take_topics` to deal with.
    fn poll_topics(&mut self, _context: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    /// Takes what subscriptions hold, and answers what was under way.
    fn take_topics(&mut self, _turn: &mut Turn) {}

    /// Does what is due, and gives up what has taken too long.
    fn tick(&mut self, now: Timestamp, turn: &mut Turn);
}

/// The way into the hub, as far as a handshake needs it.
pub trait Entrance {
    /// What a peer may do that shows this key.
    fn login(&mut self, now: Timestamp, key: Option<&[u8]>) -> Result<Principal, LoginError>;

    /// Begins the hub's session for this peer.
    fn open(&mut self, principal: Principal, namespace: Name, identity: Name) -> Result<SessionId, Refusal>;

    /// Whether a grant may use a worker id.
    fn may_work_as(&self, grant: &Grant, worker: &str) -> Result<(), Refusal>;

    fn topics(&self) -> Topics;
}

/// One connection.
pub struct Connection<P> {
    protocol: P,
    entrance: DoorEntrance,
    turn: Turn,
    arrived: BytesMut,
    /// What this connection's buffers hold of the broker's budget.
    charge: Charge,
    sizer: ReadSizer,
    /// Taken from the mailbox, not yet delivered.
    deliveries: VecDeque<Delivery>,
    spare: Vec<Delivery>,
    /// The stream holds bytes that it has not passed on.
    unflushed: bool,
    /// The peer will say no more.
    heard_all: bool,
    /// The hub will say no more.
    mail_is_over: bool,
    /// Nothing is sent before this.
    hold_until: Option<Timestamp>,
    /// When the connection ends whatever else happens: the broker has said goodbye.
    until: Option<Timestamp>,
    /// When the peer last read something.
    read_at: Timestamp,
    /// When the peer last said something.
    heard_at: Timestamp,
}

/// The hub's side of a connection, as far as it has begun.
struct DoorEntrance {
    door: Arc<Door>,
    address: Option<IpAddr>,
    session: Option<tenure_hub::Session>,
}

impl Entrance for DoorEntrance {
    fn login(&mut self, now: Timestamp, key: Option<&[u8]>) -> Result<Principal, LoginError> {
        self.door.authenticator.login(now, self.address, key)
    }

    fn open(&mut self, principal: Principal, namespace: Name, identity: Name) -> Result<SessionId, Refusal> {
        let session = self.door.hub.open(principal, namespace, identity)?;
        let id = session.id();
        self.session = Some(session);
        Ok(id)
    }

    fn may_work_as(&self, grant: &Grant, worker: &str) -> Result<(), Refusal> {
        self.door.hub.may_work_as(grant, worker)
    }

    fn topics(&self) -> Topics {
        self.door.hub.topics().clone()
    }
}

impl DoorEntrance {
    async fn mail_arrived(&self) {
        match &self.session {
            Some(session) => session.mailbox().arrived().await,
            None => pending().await,
        }
    }
}

impl<P: Protocol> Connection<P> {
    pub fn new(protocol: P, door: Arc<Door>, address: Option<IpAddr>) -> Connection<P> {
        let now = wall_clock();
        Connection {
            protocol,
            turn: Turn::default(),
            arrived: BytesMut::new(),
            charge: door.settings.budget.charge(),
            entrance: DoorEntrance { door, address, session: None },
            sizer: ReadSizer::between(READ_BYTES_MIN, READ_BYTES_MAX),
            deliveries: VecDeque::new(),
            spare: Vec::new(),
            unflushed: false,
            heard_all: false,
            mail_is_over: false,
            hold_until: None,
            until: None,
            read_at: now,
            heard_at: now,
        }
    }

    /// Talks with the peer until one of the two has had enough.
    pub async fn run(
        mut self,
        mut read: impl AsyncRead + Unpin,
        mut write: impl AsyncWrite + Unpin,
    ) -> io::Result<()> {
        self.protocol.begin(&mut self.turn);
        let mut alarm = pin!(sleep_until(Instant::now()));
        let mut alarm_at = None;
        loop {
            if self.is_over() {
                return write.shutdown().await;
            }
            let now = wall_clock();
            let deadline = self.deadline();
            if deadline != alarm_at {
                alarm_at = deadline;
                if let Some(deadline) = deadline {
                    alarm.as_mut().reset(Instant::now() + deadline.since(now));
                }
            }
            let may_write = self.has_unsent() && self.hold_until.is_none();
            let may_take =
                !self.mail_is_over && self.deliveries.is_empty() && self.turn.out.len() < UNSENT_BYTES_MAX;
            // Messages wait in the queue of their subscription, where its policy holds, and not here.
            let may_take_topics = self.turn.out.len() < TOPIC_BYTES_UNSENT_MAX && !self.turn.close;
            let is_stranger = self.entrance.session.is_none();
            let may_read = self.may_read();
            tokio::select! {
                biased;
                sent = send(&mut write, &mut self.turn.out, &mut self.unflushed), if may_write => {
                    sent?;
                    self.has_sent();
                }
                () = self.entrance.mail_arrived(), if may_take => self.take_mail(),
                count = read_into(&mut read, &mut self.arrived, self.sizer.bytes()), if may_read => {
                    self.has_read(count?);
                }
                () = poll_fn(|context| self.protocol.poll_topics(context)), if may_take_topics => {
                    self.protocol.take_topics(&mut self.turn);
                }
                () = &mut alarm, if alarm_at.is_some() => {
                    alarm_at = None;
                    self.ring()?;
                }
                // A peer that is known hears it from its mailbox.
                () = self.entrance.door.hub.stopped(), if is_stranger => self.turn.close = true,
            }
            self.deliver().await;
            self.take_topics();
            self.ask().await;
            self.settle()?;
        }
    }

    /// A peer that never stops talking gets its messages all the same.
    fn take_topics(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        if self.turn.out.len() < TOPIC_BYTES_UNSENT_MAX && self.protocol.poll_topics(&mut context).is_ready()
        {
            self.protocol.take_topics(&mut self.turn);
        }
    }

    /// Everything has been said, or nothing more can be.
    fn is_over(&self) -> bool {
        let nothing_left = !self.has_unsent() && self.deliveries.is_empty();
        if self.turn.close || (self.heard_all && self.protocol.open_requests() == 0) {
            return nothing_left;
        }
        self.mail_is_over && nothing_left
    }

    fn may_read(&self) -> bool {
        !self.heard_all
            && !self.turn.close
            && self.until.is_none()
            && self.turn.out.len() < UNSENT_BYTES_MAX
            && self.protocol.open_requests() < SESSION_REQUESTS_MAX
    }

    fn has_read(&mut self, count: usize) {
        if count == 0 {
            self.heard_all = true;
            return;
        }
        self.sizer.has_read(count);
        self.heard_at = wall_clock();
        self.protocol.receive(self.heard_at, &mut self.arrived, &mut self.entrance, &mut self.turn);
        if self.arrived.is_empty() {
            self.arrived = BytesMut::new();
        }
    }

    fn has_sent(&mut self) {
        self.read_at = wall_clock();
        if self.turn.out.is_empty() && self.turn.out.capacity() > OUT_BYTES_KEPT {
            self.turn.out = BytesMut::new();
        }
    }

    fn has_unsent(&self) -> bool {
        !self.turn.out.is_empty() || self.unflushed
    }

    /// Keeps the account of what this turn has changed.
    fn settle(&mut self) -> io::Result<()> {
        if let Some(wait) = self.turn.hold.take() {
            self.hold_until = Some(wall_clock() + wait);
        }
        self.charge.set(self.arrived.capacity() + self.turn.out.capacity()).map_err(|exhausted| {
            self.entrance.door.counters.count("no_memory");
            tracing::warn!(door = self.entrance.door.name, %exhausted, "a connection is closed to free memory");
            io::Error::from(io::ErrorKind::OutOfMemory)
        })
    }

    fn take_mail(&mut self) {
        let Some(session) = &self.entrance.session else { return };
        self.mail_is_over = session.mailbox().is_closed();
        session.mailbox().take(&mut self.spare);
        if self.turn.out.is_empty() {
            // A peer that had nothing to read cannot have been slow.
            self.read_at = wall_clock();
        }
        self.deliveries.extend(self.spare.drain(..));
    }

    /// Delivers what is there, as much as may wait to be sent.
    async fn deliver(&mut self) {
        if self.deliveries.is_empty() {
            return;
        }
        while !self.deliveries.is_empty() && self.turn.out.len() < UNSENT_BYTES_MAX {
            let (count, mut fetched) = self.fetch().await;
            for delivery in self.deliveries.drain(..count) {
                let needs_bytes = self.protocol.needs(&delivery).is_some();
                let bytes = if needs_bytes { fetched.pop_front() } else { None };
                if matches!(delivery, Delivery::Goodbye | Delivery::Ended(_)) {
                    self.until = Some(wall_clock() + GOODBYE);
                }
                self.protocol.deliver(delivery, bytes, &mut self.turn);
            }
        }
        self.protocol.flush(&mut self.turn);
    }

    /// The bytes that the next deliveries need, in their order, and how many deliveries that is.
    async fn fetch(&mut self) -> (usize, VecDeque<Result<Bytes, Refusal>>) {
        let mut blobs = Vec::new();
        let mut bytes = 0;
        let mut count = 0;
        for delivery in &self.deliveries {
            if let Some(blob) = self.protocol.needs(delivery) {
                bytes += blob.bytes() as usize;
                if count > 0 && bytes > FETCH_BYTES {
                    break;
                }
                blobs.push(blob);
            }
            count += 1;
        }
        if blobs.is_empty() {
            return (count, VecDeque::new());
        }
        (count, self.entrance.door.hub.read_many(blobs).await.into())
    }

    /// Hands everything that was asked to the hub, which may take its time.
    async fn ask(&mut self) {
        if self.turn.asks.is_empty() {
            return;
        }
        let asks = std::mem::take(&mut self.turn.asks);
        let Some(session) = &self.entrance.session else { return };
        if session.send(asks).await.is_err() {
            self.turn.close = true;
        }
    }

    fn deadline(&self) -> Option<Timestamp> {
        let settings = &self.entrance.door.settings;
        let slow = self.has_unsent().then(|| self.read_at + settings.read_within);
        let unfinished = (!self.arrived.is_empty()).then(|| self.heard_at + settings.frame_within);
        let times = [self.protocol.next_deadline(), slow, unfinished, self.hold_until, self.until];
        times.into_iter().flatten().min()
    }

    /// Something is due, or has taken too long.
    fn ring(&mut self) -> io::Result<()> {
        let now = wall_clock();
        let settings = &self.entrance.door.settings;
        let is_slow = self.has_unsent() && self.read_at + settings.read_within <= now;
        let is_unfinished =
            !self.arrived.is_empty() && self.may_read() && self.heard_at + settings.frame_within <= now;
        if is_slow || is_unfinished || self.until.is_some_and(|until| until <= now) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        if self.hold_until.is_some_and(|until| until <= now) {
            self.hold_until = None;
            self.read_at = now;
        }
        if !self.may_read() {
            // A peer that is not listened to is not silent.
            self.heard_at = now;
        }
        self.protocol.tick(now, &mut self.turn);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tenure_hub::store::{MemoryDisk, StoreSettings};
    use tenure_hub::{Counters, Hub, Keys};

    use super::*;
    use crate::settings::DoorSettings;

    struct Silent;

    impl Protocol for Silent {
        fn receive(&mut self, _: Timestamp, _: &mut BytesMut, _: &mut dyn Entrance, _: &mut Turn) {}
        fn needs(&self, _: &Delivery) -> Option<Blob> {
            None
        }
        fn deliver(&mut self, _: Delivery, _: Option<Result<Bytes, Refusal>>, _: &mut Turn) {}
        fn flush(&mut self, _: &mut Turn) {}
        fn open_requests(&self) -> usize {
            0
        }
        fn next_deadline(&self) -> Option<Timestamp> {
            None
        }
        fn tick(&mut self, _: Timestamp, _: &mut Turn) {}
    }

    fn door(settings: DoorSettings) -> Arc<Door> {
        let disk = Arc::new(MemoryDisk::new());
        let hub = Hub::start(disk, StoreSettings::default(), Default::default(), Keys::default()).unwrap();
        let counters = Arc::new(Counters::new("test"));
        Arc::new(Door::new("test", hub.handle().clone(), settings, counters))
    }

    #[tokio::test]
    async fn an_idle_connection_is_small() {
        let connection = Connection::new(Silent, door(DoorSettings::default()), None);
        let running = connection.run(tokio::io::empty(), tokio::io::sink());
        let bytes = size_of_val(&running);
        assert!(bytes < 4 << 10, "{bytes}");
    }

    #[tokio::test]
    async fn a_frame_that_is_never_finished_ends_the_connection() {
        use tokio::io::AsyncWriteExt as _;
        let settings = DoorSettings { frame_within: Duration::from_millis(20), ..DoorSettings::default() };
        let (mut peer, stream) = tokio::io::duplex(64);
        let (read, write) = tokio::io::split(stream);
        peer.write_all(b"the beginning of").await.unwrap();
        let ended = Connection::new(Silent, door(settings), None).run(read, write).await;
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn unfinished_frames_of_all_connections_share_a_budget() {
        use tokio::io::AsyncWriteExt as _;
        let budget = crate::budget::ByteBudget::new(100 << 10);
        let settings = DoorSettings { budget: Arc::clone(&budget), ..DoorSettings::default() };
        let (mut peer, stream) = tokio::io::duplex(64 << 10);
        let (read, write) = tokio::io::split(stream);
        let running = tokio::spawn(Connection::new(Silent, door(settings), None).run(read, write));
        while peer.write_all(&[0; 1 << 10]).await.is_ok() {}
        assert_eq!(running.await.unwrap().unwrap_err().kind(), io::ErrorKind::OutOfMemory);
        assert_eq!(budget.used(), 0, "it is given back");
    }
}
