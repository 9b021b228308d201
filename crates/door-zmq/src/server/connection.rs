//! One connection: reads, lets the session answer, writes, and detects that the peer is gone.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::pin::pin;
use std::time::Duration;

use bytes::BytesMut;
use tenure_door_kit::{
    Charge, DoorReader, DoorStream, DoorWriter, FREE_BYTES, LoginError, ReadSizer, flush_before_close,
    read_into, read_secret_into, wipe_taken,
};
use tenure_hub::limits::{SESSION_REQUESTS_MAX, UNSENT_BYTES_MAX};
use tenure_hub::{ClockReading, Delivery, HubHandle, Principal, Session, fresh_id, monotonic_clock};
use tokio::io::AsyncWriteExt;
use tokio::time::Instant;

use super::identities::Holder;
use super::{Door, Ended};
use crate::codec::{CodecError, Identity, PeerAdmission, ZmtpEvent, ZmtpPeer};
use crate::session::{PeerOutput, PeerSession};
use crate::settings::Transport;

/// How much is read at once.
const READ_BYTES_MIN: usize = 2 << 10;
const READ_BYTES_MAX: usize = 32 << 10;
/// An empty send buffer larger than this is freed.
const SPARE_BYTES_MAX: usize = 16 << 10;
/// How many requests are collected before they go to the hub.
const ASKS_AT_ONCE: usize = 256;
/// A peer with more than this unread, of what was sent since it was last heard, may be on a slow line or busy: a peer
/// that does not read does not answer either.
const UNREAD_BYTES_MIN: usize = 16 << 10;
/// The time to live announced to the peer. It is long because a message on a slow line takes long to arrive.
const PEER_TIMEOUT: Duration = Duration::from_secs(300);
/// Minimum rate of a message that has taken longer than the time any message may take.
const MESSAGE_BYTES_A_SECOND: usize = 16 << 10;
/// How often a connection that waits for memory retries.
const MEMORY_RETRY: Duration = Duration::from_millis(50);

/// A socket with its codec, what is unsent, and when it was last heard.
pub(super) struct Connection<'a> {
    reading: DoorReader,
    writing: DoorWriter,
    address: Option<IpAddr>,
    door: &'a Door,
    transport: &'a Transport,
    peer: ZmtpPeer,
    unsent: BytesMut,
    sizer: ReadSizer,
    /// Its share of the byte budgets: an unfinished message, and what its peer has not read.
    unfinished: Charge,
    unread: Charge,
    /// There is no memory for the next message to its peer.
    waits_to_send: bool,
    /// Since when it waits for memory of other connections before it reads more.
    waits_to_read: Option<Instant>,
    /// Since when the peer has not finished its current message.
    unfinished_since: Instant,
    /// When the peer last sent something, or read something that had not fitted into its socket.
    heard_at: Instant,
    /// How many bytes of messages were sent since it was last heard.
    unread_bytes: usize,
    asked_at: Option<Instant>,
    /// Whether the loop reads from the peer now.
    is_listening: bool,
    /// The time to live that the peer announced.
    ttl: Option<Duration>,
}

impl<'a> Connection<'a> {
    pub(super) fn new(stream: DoorStream, address: Option<IpAddr>, door: &'a Door) -> Connection<'a> {
        let wants_keys = door.kit.authenticator.wants_keys();
        let admission = if wants_keys { PeerAdmission::Credentials } else { PeerAdmission::Anyone };
        let mut unsent = BytesMut::new();
        let peer = ZmtpPeer::new(admission, door.transport.limits, &mut unsent);
        let (reading, writing) = stream.into_split();
        Connection {
            reading,
            writing,
            address,
            door,
            transport: &door.transport,
            peer,
            unsent,
            sizer: ReadSizer::between(READ_BYTES_MIN, READ_BYTES_MAX),
            unfinished: door.kit.settings.budget.charge(),
            unread: door.transport.unread_budget.charge(),
            waits_to_send: false,
            waits_to_read: None,
            unfinished_since: Instant::now(),
            heard_at: Instant::now(),
            unread_bytes: 0,
            asked_at: None,
            is_listening: true,
            ttl: None,
        }
    }

    /// Greeting and handshake. Returns `None` if the peer disconnected.
    pub(super) async fn introduce(&mut self) -> Result<Option<(Identity, Principal)>, Ended> {
        let mut principal = None;
        loop {
            let capacity = self.peer.input().capacity();
            match self.peer.next_event(&mut self.unsent) {
                Ok(Some(ZmtpEvent::Credentials { username, password })) => {
                    let login = self.login(Some(&password.0));
                    drop((username, password));
                    wipe_taken(self.peer.input(), capacity);
                    match login {
                        Ok(who) => {
                            principal = Some(who);
                            self.peer.admit(&mut self.unsent);
                        }
                        Err(LoginError::NoKey) => self.peer.refuse(&mut self.unsent),
                        Err(LoginError::WrongKey { wait, .. }) => {
                            tokio::time::sleep(wait).await;
                            self.peer.refuse(&mut self.unsent);
                        }
                    }
                    continue;
                }
                Ok(Some(ZmtpEvent::Joined { identity, .. })) => {
                    let Some(principal) = principal.or_else(|| self.login(None).ok()) else {
                        return Err(CodecError::CredentialsRefused.into());
                    };
                    let number = u128::from_be_bytes(*fresh_id().as_bytes());
                    return Ok(Some((identity.unwrap_or_else(|| Identity::given(number)), principal)));
                }
                Ok(Some(_)) => continue,
                Ok(None) => {}
                Err(error) => {
                    if matches!(error, CodecError::Mechanism { .. })
                        && self.door.kit.authenticator.wants_keys()
                    {
                        // This login fails; it counts and logs a peer without a key.
                        let _ = self.login(None);
                    }
                    self.flush_unsent().await;
                    return Err(error.into());
                }
            }
            if !self.unsent.is_empty() && self.writing.write_all_buf(&mut self.unsent).await.is_err() {
                return Ok(None);
            }
            let read = read_secret_into(&mut self.reading, self.peer.input(), READ_BYTES_MIN).await;
            if !matches!(read, Ok(1..)) {
                return Ok(None);
            }
        }
    }

    fn login(&self, key: Option<&[u8]>) -> Result<Principal, LoginError> {
        self.door.kit.authenticator.login(ClockReading::now(), self.address, key)
    }

    pub(super) async fn talk(
        &mut self,
        session: &Session,
        conversation: &mut impl PeerSession,
        holder: &Holder,
    ) -> Result<(), Ended> {
        let hub = session.hub();
        // Both are polled in every round, so they are created once.
        let mut stopped = pin!(hub.stopped());
        let mut alarm = pin!(tokio::time::sleep_until(self.wake_at(conversation)));
        let mut out = PeerOutput::default();
        let mut arrived: Vec<Delivery> = Vec::new();
        let mut deliveries: VecDeque<Delivery> = VecDeque::new();
        conversation.begin(ClockReading::now(), &mut out);
        loop {
            let Some(is_dry) = self.take_messages(session, conversation, &mut out).await? else {
                return Ok(());
            };
            let has_room = self.has_room();
            let may_ask =
                has_room && conversation.unanswered() < SESSION_REQUESTS_MAX && !conversation.is_held_back();
            let may_read = may_ask && is_dry && self.has_memory_to_read();
            // A peer that the loop does not read from is neither silent nor slow.
            if has_room && !may_ask || self.waits_to_read.is_some() {
                (self.heard_at, self.unfinished_since) = (Instant::now(), Instant::now());
            }
            self.is_listening = may_read;
            let has_work =
                (may_ask && !is_dry) || (has_room && !self.waits_to_send && !deliveries.is_empty());
            let wake = self.wake_at(conversation);
            // An early wakeup does no harm, and resetting the timer costs.
            if wake < alarm.deadline() || alarm.is_elapsed() {
                alarm.as_mut().reset(wake);
            }
            tokio::select! {
                () = holder.is_wanted().cancelled() => {
                    conversation.replaced(ClockReading::now(), &mut out);
                    self.send_requests(session, &mut out).await;
                    return Ok(());
                }
                () = &mut stopped => out.close = true,
                read = read_into(&mut self.reading, self.peer.input(), self.sizer.bytes()), if may_read => {
                    let Ok(count @ 1..) = read else { return Ok(()) };
                    self.sizer.has_read(count);
                    (self.heard_at, self.unread_bytes, self.asked_at) = (Instant::now(), 0, None);
                }
                written = self.writing.write_buf(&mut self.unsent), if !self.unsent.is_empty() => {
                    let Ok(1..) = written else { return Ok(()) };
                    // The rest is written as the peer reads.
                    if !self.unsent.is_empty() {
                        self.heard_at = Instant::now();
                    }
                    if self.unsent.is_empty() && self.unsent.capacity() > SPARE_BYTES_MAX {
                        self.unsent = BytesMut::new();
                    }
                }
                () = session.mailbox().arrived(), if has_room && deliveries.is_empty() => {
                    session.mailbox().take(&mut arrived);
                    if arrived.is_empty() && session.mailbox().is_closed() {
                        return Ok(());
                    }
                    deliveries.extend(arrived.drain(..));
                }
                () = &mut alarm => self.keep_alive(conversation, holder, &mut out)?,
                // Bytes and deliveries that are already here must not wait.
                () = std::future::ready(()), if has_work => {}
            }
            self.deliver(hub, &mut deliveries, conversation, &mut out).await;
        }
    }

    /// Takes the messages that have arrived and sends their requests to the hub. Returns whether none is left, or
    /// `None` if the connection is to be closed.
    async fn take_messages(
        &mut self,
        session: &Session,
        conversation: &mut impl PeerSession,
        out: &mut PeerOutput,
    ) -> Result<Option<bool>, Ended> {
        let understood = self.listen(conversation, out);
        let has_hub = self.send_requests(session, out).await;
        match understood {
            Ok(is_dry) if has_hub && !out.close => Ok(Some(is_dry)),
            Ok(_) => {
                self.flush_unsent().await;
                Ok(None)
            }
            Err(error) => {
                if matches!(error, CodecError::FrameTooLong { .. } | CodecError::MessageTooLong { .. }) {
                    conversation.too_long(ClockReading::now(), out);
                    self.send_requests(session, out).await;
                }
                self.flush_unsent().await;
                Err(error.into())
            }
        }
    }

    /// Takes deliveries of the hub, until the peer has too much unread. Results can be large, so the rest stays on
    /// disk.
    async fn deliver(
        &mut self,
        hub: &HubHandle,
        deliveries: &mut VecDeque<Delivery>,
        conversation: &mut impl PeerSession,
        out: &mut PeerOutput,
    ) {
        while self.has_room() && out.asks.len() < ASKS_AT_ONCE {
            let needed = deliveries.front().and_then(|delivery| conversation.needs(delivery));
            if needed.is_some_and(|blob| !self.has_memory_to_send(blob.bytes() as usize)) {
                return;
            }
            let Some(delivery) = deliveries.pop_front() else {
                conversation.all_delivered(ClockReading::now(), out);
                return self.compose(out);
            };
            let bytes = match needed {
                Some(blob) => match hub.cached(blob) {
                    Some(bytes) => Ok(bytes),
                    None => hub.read(blob).await,
                },
                None => Ok(bytes::Bytes::new()),
            };
            conversation.deliver(ClockReading::now(), delivery, bytes, out);
            self.compose(out);
        }
    }

    /// Whether more may be sent to the peer. What is buffered already counts; if the budget has no room for it,
    /// nothing is added.
    fn has_room(&mut self) -> bool {
        let is_free = self.unsent.len() <= FREE_BYTES;
        self.unsent.len() < UNSENT_BYTES_MAX && (self.unread.set(self.unsent.len()).is_ok() || is_free)
    }

    /// Whether there is memory for the next read. A small amount is always available.
    fn has_memory_to_read(&mut self) -> bool {
        let has_memory = self.unfinished.set(self.peer.held_bytes() + self.sizer.bytes()).is_ok();
        if has_memory {
            self.waits_to_read = None;
        } else if self.waits_to_read.is_none() {
            self.door.kit.counters.count("memory");
            self.waits_to_read = Some(Instant::now());
        }
        has_memory
    }

    /// Whether there is memory for this many more bytes that the peer has to read.
    fn has_memory_to_send(&mut self, bytes: usize) -> bool {
        let has_memory = bytes <= FREE_BYTES || self.unread.set(self.unsent.len() + bytes).is_ok();
        if !has_memory && !self.waits_to_send {
            self.door.kit.counters.count("memory");
        }
        self.waits_to_send = !has_memory;
        has_memory
    }

    /// Processes the messages that were read, up to a limited number of requests. Returns whether all were processed.
    fn listen(
        &mut self,
        conversation: &mut impl PeerSession,
        out: &mut PeerOutput,
    ) -> Result<bool, CodecError> {
        let now = ClockReading::now();
        while out.asks.len() < ASKS_AT_ONCE && self.unsent.len() < UNSENT_BYTES_MAX {
            match self.peer.next_event(&mut self.unsent)? {
                Some(ZmtpEvent::Message(frames)) => {
                    self.unfinished_since = Instant::now();
                    conversation.receive(now, frames, out);
                }
                Some(ZmtpEvent::Ping { ttl }) => self.ttl = ttl.or(self.ttl),
                Some(_) => {}
                None => return Ok(true),
            }
        }
        Ok(false)
    }

    /// Sends the session's requests to the hub. Returns whether the hub still runs.
    async fn send_requests(&mut self, session: &Session, out: &mut PeerOutput) -> bool {
        self.compose(out);
        out.asks.is_empty() || session.send(std::mem::take(&mut out.asks)).await.is_ok()
    }

    /// Puts messages into the bytes that are to be sent.
    fn compose(&mut self, out: &mut PeerOutput) {
        let before = self.unsent.len();
        for message in out.messages.drain(..) {
            self.peer.send(&message, &mut self.unsent);
        }
        self.unread_bytes += self.unsent.len() - before;
    }

    /// Time has passed: sends heartbeats of the protocol, and checks that the peer is alive.
    fn keep_alive(
        &mut self,
        conversation: &mut impl PeerSession,
        holder: &Holder,
        out: &mut PeerOutput,
    ) -> Result<(), Ended> {
        let silence = self.heard_at.elapsed();
        let timeout = match self.unread_bytes {
            0..=UNREAD_BYTES_MIN => self.transport.ping_timeout,
            // It may be a broken connection whose peer is back on another.
            _ if holder.is_disputed() => self.transport.ping_timeout,
            // Others need the memory.
            _ if self.transport.unread_budget.is_short() => self.transport.ping_timeout,
            // It may read as slowly as a peer of any other door.
            _ => self.transport.ping_timeout.max(self.door.kit.settings.read_within),
        };
        let asked_in_vain = self.asked_at.is_some() && silence >= timeout;
        // A peer of any version must finish a message it began.
        let stopped_halfway = self.peer.held_bytes() > 0 && silence >= self.transport.ping_timeout;
        let is_overdue = self.ttl.is_some_and(|ttl| silence >= ttl.max(self.transport.ping));
        if asked_in_vain || (self.is_listening && (stopped_halfway || is_overdue)) {
            return Err(Ended::Silent);
        }
        let held = self.peer.held_bytes();
        // It holds memory that other connections need, while it waits for theirs.
        let waits_too_long = self.waits_to_read.is_some_and(|at| at.elapsed() >= self.transport.ping_timeout);
        if waits_too_long && held > FREE_BYTES {
            return Err(Ended::Memory);
        }
        let is_slow = held > 0 && self.unfinished_since.elapsed() >= self.time_for(held);
        if self.is_listening && is_slow {
            return Err(Ended::Slow);
        }
        if self.asked_at.is_none_or(|at| at.elapsed() >= self.transport.ping)
            && silence >= self.transport.ping
        {
            self.asked_at = Some(Instant::now());
            let ttl = self.transport.ping_timeout.max(PEER_TIMEOUT);
            let is_halfway = self.peer.held_bytes() > 0;
            if !self.peer.ping(ttl, &mut self.unsent) && !is_halfway {
                // A peer whose version has no PING counts as alive until its connection closes.
                self.asked_at = None;
                self.heard_at = Instant::now();
            }
        }
        // A peer that does not read gets no further heartbeats.
        if self.unsent.is_empty() {
            conversation.tick(ClockReading::now(), out);
        }
        Ok(())
    }

    /// How long a peer may take for this many bytes of a message.
    fn time_for(&self, bytes: usize) -> Duration {
        self.transport.message_timeout + Duration::from_secs((bytes / MESSAGE_BYTES_A_SECOND) as u64)
    }

    /// The next time at which there is work even if nothing arrives.
    fn wake_at(&self, conversation: &impl PeerSession) -> Instant {
        if self.waits_to_send || self.waits_to_read.is_some() {
            return Instant::now() + MEMORY_RETRY;
        }
        let ping_at = self.asked_at.unwrap_or(self.heard_at) + self.transport.ping;
        let is_writable = self.unsent.is_empty();
        let tick_at = conversation
            .deadline()
            .filter(|_| is_writable)
            .map(|at| Instant::now() + at.since(monotonic_clock()));
        tick_at.map_or(ping_at, |tick_at| tick_at.min(ping_at))
    }

    /// Tries to send what is unsent before the connection is closed.
    async fn flush_unsent(&mut self) {
        flush_before_close(&mut self.writing, &mut self.unsent).await;
    }
}
