//! The connection loop: passes received bytes to the protocol and writes what the protocol produces.
//!
//! One task per connection. It reads what has arrived, hands all requests to the hub at once, delivers what the hub
//! has put into the mailbox, and writes everything at once, without waiting if the socket accepts it.
//! Back-pressure: the loop stops reading from a peer that does not read, or that has too many unanswered requests.
//! A waiting connection holds no buffer.

mod access;
mod clock;
mod fetched;
mod protocol;

use std::collections::VecDeque;
use std::future::{Future, pending};
use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::{Buf as _, BytesMut};
use tenure_hub::limits::UNSENT_BYTES_MAX;
use tenure_hub::{ClockReading, Delivery, monotonic_clock};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::time::{Instant, sleep_until};

use crate::accept::Door;
use crate::budget::Charge;
use crate::read_sizer::ReadSizer;
use crate::stream::{StreamEnds, is_flushed, read_into, read_secret_into, send, wipe_taken};

pub use protocol::{ConnectionAccess, Protocol, Turn};

use access::{DisconnectReason, DoorAccess};
use clock::{ConnectionClock, Due, GOODBYE};
use fetched::Fetched;

/// Read size: small for the many idle connections, larger for a peer that fills it.
const READ_BYTES_MIN: usize = 4 << 10;
const READ_BYTES_MAX: usize = 32 << 10;
/// Buffer space reserved for each of several deliveries.
const DELIVERY_BYTES: usize = 64;
/// How many bytes of bodies are fetched at a time.
const FETCH_BYTES: usize = UNSENT_BYTES_MAX;
/// How many deliveries are encoded before other connections get a turn.
const DELIVERIES_AT_ONCE: usize = 256;
/// While the peer has this much unread, nothing is taken from its subscriptions.
const TOPIC_BYTES_UNSENT_MAX: usize = 256 << 10;

/// One connection.
pub struct Connection<P> {
    protocol: P,
    access: DoorAccess,
    turn: Turn,
    arrived: BytesMut,
    /// The share of the byte budget that this connection's buffers hold.
    charge: Charge,
    sizer: ReadSizer,
    /// Taken from the mailbox, not yet delivered.
    deliveries: VecDeque<Delivery>,
    spare: Vec<Delivery>,
    clock: ConnectionClock,
    /// The stream holds bytes that it has not passed on.
    unflushed: bool,
    /// The peer has closed its sending side.
    heard_all: bool,
    /// The hub sends nothing more.
    mail_is_over: bool,
}

impl<P: Protocol> Connection<P> {
    /// A connection whose bytes the protocol reads and writes.
    pub fn new(protocol: P, door: Arc<Door>, address: Option<IpAddr>) -> Connection<P> {
        Connection {
            protocol,
            turn: Turn::default(),
            arrived: BytesMut::new(),
            charge: door.settings.budget.charge(),
            clock: ConnectionClock::new(&door.settings, monotonic_clock()),
            access: DoorAccess::new(door, address),
            sizer: ReadSizer::between(READ_BYTES_MIN, READ_BYTES_MAX),
            deliveries: VecDeque::new(),
            spare: Vec::new(),
            unflushed: false,
            heard_all: false,
            mail_is_over: false,
        }
    }

    /// Lets the protocol know the ends of the TCP connection.
    #[must_use]
    pub fn with_ends(mut self, ends: Option<StreamEnds>) -> Connection<P> {
        self.access.ends = ends;
        self
    }

    /// The peer has until this moment for its login, of which a TLS handshake may have taken a part.
    #[must_use]
    pub fn with_login_by(mut self, login_by: Instant) -> Connection<P> {
        let left = login_by.saturating_duration_since(Instant::now());
        self.clock.set_login_by(monotonic_clock() + left);
        self
    }

    /// Runs until the peer or the broker ends the connection.
    pub async fn run(
        mut self,
        mut read: impl AsyncRead + Unpin,
        mut write: impl AsyncWrite + Unpin,
    ) -> io::Result<()> {
        let ended = self.talk(&mut read, &mut write).await;
        self.protocol.end().await;
        ended
    }

    async fn talk(
        &mut self,
        read: &mut (impl AsyncRead + Unpin),
        write: &mut (impl AsyncWrite + Unpin),
    ) -> io::Result<()> {
        self.protocol.begin(&mut self.turn);
        let mut alarm = pin!(sleep_until(Instant::now()));
        let mut alarm_at = None;
        let mut dismissed = None;
        loop {
            self.work(write).await?;
            if !self.deliveries.is_empty() && self.has_room() {
                self.deliver().await;
                continue;
            }
            if self.is_over() {
                return write.shutdown().await;
            }
            let may_read = self.may_read();
            self.note_expectations(may_read);
            let deadline = self.clock.next_deadline(self.protocol.next_deadline());
            if deadline != alarm_at {
                alarm_at = deadline;
                if let Some(deadline) = deadline {
                    alarm.as_mut().reset(Instant::now() + deadline.since(monotonic_clock()));
                }
            }
            let may_write = self.has_unsent() && !self.clock.is_held();
            let may_take = !self.mail_is_over && self.deliveries.is_empty() && self.has_room();
            let has_topic_room = self.has_topic_room();
            let is_stranger = !self.protocol.is_known();
            // A peer with a session learns from its mailbox that it has to go.
            let is_leaving = self.turn.close || self.clock.is_closing();
            if is_leaving || self.access.session.is_some() {
                dismissed = None;
            } else if dismissed.is_none() || self.access.takes_new_grant() {
                dismissed = Some(self.access.wait_for_disconnect());
            }
            tokio::select! {
                biased;
                sent = send(write, &mut self.turn.out, &mut self.unflushed), if may_write => {
                    sent?;
                    self.has_sent();
                }
                () = self.access.mail_arrived(), if may_take => self.take_mail(),
                count = read_from(read, &mut self.arrived, self.sizer.bytes(), is_stranger), if may_read => {
                    self.has_read(count?);
                }
                event = self.protocol.happens(has_topic_room), if !self.turn.close => {
                    self.protocol.happened(ClockReading::now(), event, &mut self.turn).await;
                    continue;
                }
                () = &mut alarm, if alarm_at.is_some() => {
                    alarm_at = None;
                    self.ring()?;
                }
                why = wait_for(&mut dismissed) => match why {
                    DisconnectReason::Stopped => self.clock.start_closing(monotonic_clock()),
                    DisconnectReason::Revoked => self.turn.close = true,
                },
            }
            self.deliver().await;
            if !self.turn.close
                && let Some(event) = self.protocol.has_happened(self.has_topic_room())
            {
                self.protocol.happened(ClockReading::now(), event, &mut self.turn).await;
            }
        }
    }

    /// Runs until it must wait for the peer or the hub.
    async fn work(&mut self, write: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        loop {
            if self.may_receive() {
                let Connection { protocol, arrived, access, turn, .. } = self;
                let is_stranger = !protocol.is_known();
                let capacity = arrived.capacity();
                protocol.receive(ClockReading::now(), arrived, access, turn);
                if is_stranger {
                    wipe_taken(arrived, capacity);
                }
                if self.arrived.is_empty() {
                    self.arrived = BytesMut::new();
                }
            }
            self.update_budget()?;
            self.protocol.prepare(&mut self.access, &mut self.turn).await;
            self.ask().await;
            if self.protocol.work(&mut self.turn).await {
                continue;
            }
            // Frames may have waited for buffer space, or for earlier replies.
            if self.write_at_once(write)? && (self.has_unsent() || self.may_receive()) {
                continue;
            }
            return self.update_budget();
        }
    }

    /// Everything has been sent, or nothing more can be.
    fn is_over(&self) -> bool {
        if self.heard_all && self.protocol.is_blocked() {
            return true;
        }
        let will_go = self.heard_all || (self.clock.is_closing() && self.access.session.is_none());
        let is_done = self.turn.close || self.mail_is_over || (will_go && !self.protocol.owes_answers());
        is_done && !self.has_unsent() && self.deliveries.is_empty()
    }

    fn may_receive(&self) -> bool {
        !self.turn.close && !self.clock.is_held() && self.protocol.may_receive(self.arrived.len())
    }

    fn may_read(&self) -> bool {
        !self.heard_all
            && !self.turn.close
            && !self.clock.is_held()
            && !self.clock.is_closing()
            && self.has_room()
            && self.protocol.may_read(self.arrived.len(), self.turn.out.len())
    }

    /// Whether the peer has read enough to be sent more.
    fn has_room(&self) -> bool {
        self.turn.out.len() < UNSENT_BYTES_MAX
    }

    /// Messages wait in the queue of their subscription, where its policy applies, and not here.
    fn has_topic_room(&self) -> bool {
        self.turn.out.len() < TOPIC_BYTES_UNSENT_MAX
    }

    fn has_read(&mut self, count: usize) {
        self.clock.bytes_arrived();
        match count {
            0 => self.heard_all = true,
            _ => self.sizer.has_read(count),
        }
    }

    fn has_unsent(&self) -> bool {
        !self.turn.out.is_empty() || self.unflushed
    }

    /// Takes more output if the peer has read enough. It comes before later messages of topics.
    fn refill(&mut self) {
        if self.has_room() {
            self.protocol.continue_output(&mut self.turn);
        }
    }

    fn has_sent(&mut self) {
        self.refill();
        if self.has_unsent() {
            self.clock.has_read_some(monotonic_clock());
        } else {
            self.clock.has_read_all();
        }
        if self.turn.out.is_empty() {
            self.turn.out = BytesMut::new();
        }
    }

    /// Writes as much as the stream accepts without waiting. Returns whether something was written and nothing is
    /// left.
    fn write_at_once(&mut self, to: &mut (impl AsyncWrite + Unpin)) -> io::Result<bool> {
        let unsent = self.turn.out.len();
        if unsent == 0 || self.clock.is_held() {
            return Ok(false);
        }
        let mut context = Context::from_waker(Waker::noop());
        while !self.turn.out.is_empty() {
            match Pin::new(&mut *to).poll_write(&mut context, &self.turn.out) {
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(count) => self.turn.out.advance(count?),
                Poll::Pending => {
                    if self.turn.out.len() < unsent {
                        self.clock.has_read_some(monotonic_clock());
                        self.refill();
                    } else {
                        self.clock.has_unsent(monotonic_clock);
                    }
                    return Ok(false);
                }
            }
        }
        self.turn.out = BytesMut::new();
        self.unflushed = !is_flushed(to)?;
        if self.unflushed {
            self.clock.has_read_some(monotonic_clock());
        } else {
            self.clock.has_read_all();
            self.refill();
        }
        Ok(!self.unflushed)
    }

    /// Updates the budget after this turn.
    fn update_budget(&mut self) -> io::Result<()> {
        if let Some(wait) = self.turn.hold.take() {
            self.clock.hold(monotonic_clock(), wait);
        }
        let held = self.arrived.capacity() + self.turn.out.capacity() + self.protocol.waiting_bytes();
        self.charge.set(held).map_err(|exhausted| {
            self.access.door.counters.count("no_memory");
            tracing::warn!(door = self.access.door.name, %exhausted, "connection closed to free memory");
            io::Error::from(io::ErrorKind::OutOfMemory)
        })
    }

    fn take_mail(&mut self) {
        let Some(session) = &self.access.session else { return };
        self.mail_is_over = session.mailbox().is_closed();
        session.mailbox().take(&mut self.spare);
        self.deliveries.extend(self.spare.drain(..));
    }

    /// Delivers what has arrived, as much as may wait to be sent.
    async fn deliver(&mut self) {
        if self.deliveries.is_empty() {
            return;
        }
        while self.has_room() {
            let (count, mut fetched) = self.fetch().await;
            if count > 1 {
                self.turn.out.reserve((count * DELIVERY_BYTES).min(READ_BYTES_MAX));
            }
            let now = ClockReading::now();
            for (place, delivery) in self.deliveries.drain(..count).enumerate() {
                let bytes = fetched.take(place);
                if matches!(delivery, Delivery::Goodbye | Delivery::Ended(_)) {
                    self.clock.start_closing(now.steady);
                }
                self.protocol.deliver(now, delivery, bytes, &mut self.turn);
            }
            if self.deliveries.is_empty() {
                break;
            }
            // Encoding a full mailbox takes long. Other connections of this thread get a turn in between.
            tokio::task::yield_now().await;
        }
        self.protocol.flush(&mut self.turn);
    }

    /// The bytes that the next deliveries need, and how many deliveries that is.
    async fn fetch(&mut self) -> (usize, Fetched) {
        let (mut blobs, mut places) = (Vec::new(), Vec::new());
        let mut bytes = 0;
        let mut count = 0;
        for delivery in self.deliveries.iter().take(DELIVERIES_AT_ONCE) {
            if let Some(blob) = self.protocol.needs(delivery) {
                if blobs.is_empty() {
                    let left = self.deliveries.len().min(DELIVERIES_AT_ONCE) - count;
                    blobs.reserve(left);
                    places.reserve(left);
                }
                bytes += blob.bytes() as usize;
                if count > 0 && bytes > FETCH_BYTES {
                    break;
                }
                blobs.push(blob);
                places.push(count);
            }
            count += 1;
        }
        if blobs.is_empty() {
            return (count, Fetched::default());
        }
        (count, Fetched::new(places, self.access.door.hub.read_many(blobs).await))
    }

    /// Passes all requests to the hub, which may make the connection wait.
    async fn ask(&mut self) {
        if self.turn.asks.is_empty() {
            return;
        }
        let asks = std::mem::take(&mut self.turn.asks);
        let Some(session) = &self.access.session else { return };
        if session.send(asks).await.is_err() {
            self.turn.close = true;
        }
    }

    /// Records what the peer is expected to do, for the deadlines.
    fn note_expectations(&mut self, may_read: bool) {
        let is_halfway = may_read && self.protocol.is_halfway(self.arrived.len(), self.turn.out.len());
        let is_known = self.turn.close || self.protocol.is_known();
        self.clock.note_expectations(is_halfway, is_known, monotonic_clock);
    }

    /// Handles a deadline that has passed.
    fn ring(&mut self) -> io::Result<()> {
        let now = ClockReading::now();
        match self.clock.ring(now.steady) {
            Some(Due::End) => return Err(io::ErrorKind::TimedOut.into()),
            Some(Due::Login) => {
                self.protocol.login_is_late(&mut self.turn);
                self.turn.close = true;
            }
            None => {}
        }
        self.protocol.tick(now, &mut self.turn);
        Ok(())
    }
}

/// Reads what has arrived; a peer that has not logged in may send its key.
async fn read_from(
    stream: &mut (impl AsyncRead + Unpin),
    input: &mut BytesMut,
    most: usize,
    is_stranger: bool,
) -> io::Result<usize> {
    if is_stranger {
        read_secret_into(stream, input, most).await
    } else {
        read_into(stream, input, most).await
    }
}

/// Sends what is left before the connection is closed, as far as the peer reads it within the goodbye timeout.
pub async fn flush_before_close(write: &mut (impl AsyncWrite + Unpin), out: &mut BytesMut) {
    let _ = tokio::time::timeout(GOODBYE, write.write_all_buf(out)).await;
}

/// Waits for a future, if there is one.
async fn wait_for<T>(future: &mut Option<Pin<Box<dyn Future<Output = T> + Send>>>) -> T {
    match future {
        Some(future) => future.await,
        None => pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use tenure_hub::store::{MemoryDisk, StoreSettings};
    use tenure_hub::{Counters, Hub, HubRefusal, Keys};

    use super::*;
    use crate::settings::DoorSettings;

    struct Silent;

    impl Protocol for Silent {
        type Event = ();

        fn receive(&mut self, _: ClockReading, _: &mut BytesMut, _: &mut dyn ConnectionAccess, _: &mut Turn) {
        }
        fn deliver(
            &mut self,
            _: ClockReading,
            _: Delivery,
            _: Option<Result<Bytes, HubRefusal>>,
            _: &mut Turn,
        ) {
        }
        fn is_known(&self) -> bool {
            true
        }
        fn open_requests(&self) -> usize {
            0
        }
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
