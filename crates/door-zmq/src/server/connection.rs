//! One connection: reads, lets the conversation answer, writes, and notices when the peer is gone.

use std::collections::VecDeque;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tenure_hub::limits::{SESSION_REQUESTS_MAX, UNSENT_BYTES_MAX};
use tenure_hub::{Counters, Delivery, Grant, HubHandle, Session, fresh_id, wall_clock};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::budget::{FREE_BYTES, Share};
use super::identities::Holder;
use super::{Door, Ended};
use crate::codec::{Admission, CodecError, Event, Identity, Peer};
use crate::session::{Conversation, Out};
use crate::settings::Transport;

/// How much is read at once: little from a peer that says little, since thousands of them may be idle, and more and
/// more from one that fills its buffer.
const READ_BYTES_MIN: usize = 2 << 10;
const READ_BYTES_MAX: usize = 64 << 10;
/// A send buffer that is empty and larger than this is given back.
const SPARE_BYTES_MAX: usize = 16 << 10;
/// How many requests are gathered before they go to the hub.
const ASKS_AT_ONCE: usize = 256;
/// A peer that has more than this to read, of what was sent since it was last heard, may be on a slow line or busy with
/// something else: whoever does not read does not answer either.
const UNREAD_BYTES_MIN: usize = 16 << 10;
/// How long such a peer may take nothing at all before its connection is given up.
const UNREAD_PATIENCE: Duration = Duration::from_secs(300);
/// How fast a message comes at least, once it has taken longer than the time that any message may take.
const MESSAGE_BYTES_A_SECOND: usize = 16 << 10;
/// How soon a connection that waits for memory looks again.
const MEMORY_RETRY: Duration = Duration::from_millis(50);
/// How long last words may take.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A socket with its codec, what is unsent, and when it was last heard.
pub(super) struct Connection<'a> {
    stream: TcpStream,
    transport: &'a Transport,
    counters: &'a Counters,
    peer: Peer,
    unsent: BytesMut,
    read_bytes: usize,
    /// What it holds of the door's budgets.
    unfinished_share: Share,
    unsent_share: Share,
    /// Since when it waits for other connections to give memory back, before more is read from its peer.
    waits_to_read: Option<Instant>,
    /// Since when it has not finished the message that it sends.
    unfinished_since: Instant,
    /// When it last said something, or took something that had not fitted into its socket.
    heard_at: Instant,
    /// How many bytes of messages were sent since it was last heard.
    unread_bytes: usize,
    asked_at: Option<Instant>,
    /// Whether anything it says would be heard now.
    is_listening: bool,
    /// How much silence the peer itself calls its end.
    ttl: Option<Duration>,
}

impl<'a> Connection<'a> {
    pub(super) fn new(stream: TcpStream, door: &'a Door) -> Connection<'a> {
        let admission = if door.hub.wants_keys() { Admission::Credentials } else { Admission::Anyone };
        let mut unsent = BytesMut::new();
        let peer = Peer::new(admission, door.transport.limits, &mut unsent);
        Connection {
            stream,
            transport: &door.transport,
            counters: &door.counters,
            peer,
            unsent,
            read_bytes: READ_BYTES_MIN,
            unfinished_share: door.unfinished.share(),
            unsent_share: door.unsent.share(),
            waits_to_read: None,
            unfinished_since: Instant::now(),
            heard_at: Instant::now(),
            unread_bytes: 0,
            asked_at: None,
            is_listening: true,
            ttl: None,
        }
    }

    /// Greeting and handshake. Gives nothing if the peer went away.
    pub(super) async fn introduce(
        &mut self,
        hub: &HubHandle,
    ) -> Result<Option<(Identity, Arc<Grant>)>, Ended> {
        let mut grant = None;
        loop {
            match self.peer.next_event(&mut self.unsent) {
                Ok(Some(Event::Credentials { password, .. })) => {
                    grant = hub.admit(Some(&password.0));
                    match grant {
                        Some(_) => self.peer.admit(&mut self.unsent),
                        None => self.peer.refuse(&mut self.unsent),
                    }
                    continue;
                }
                Ok(Some(Event::Joined { identity, .. })) => {
                    let Some(grant) = grant.or_else(|| hub.admit(None)) else {
                        return Err(CodecError::CredentialsRefused.into());
                    };
                    let number = u128::from_be_bytes(*fresh_id().as_bytes());
                    return Ok(Some((identity.unwrap_or_else(|| Identity::given(number)), grant)));
                }
                Ok(Some(_)) => continue,
                Ok(None) => {}
                Err(error) => {
                    self.last_words().await;
                    return Err(error.into());
                }
            }
            if !self.unsent.is_empty() && self.stream.write_all_buf(&mut self.unsent).await.is_err() {
                return Ok(None);
            }
            if !matches!(self.stream.read_buf(self.peer.input()).await, Ok(1..)) {
                return Ok(None);
            }
        }
    }

    pub(super) async fn talk(
        &mut self,
        session: &Session,
        conversation: &mut impl Conversation,
        holder: &Holder,
    ) -> Result<(), Ended> {
        let hub = session.hub();
        // Both are asked in every round, so they are made once.
        let mut stopped = pin!(hub.stopped());
        let mut alarm = pin!(tokio::time::sleep_until(self.wake_at(conversation)));
        let mut out = Out::default();
        let mut arrived: Vec<Delivery> = Vec::new();
        let mut deliveries: VecDeque<Delivery> = VecDeque::new();
        conversation.begin(wall_clock(), &mut out);
        loop {
            let understood = self.listen(conversation, &mut out);
            let has_hub = self.speak(session, &mut out).await;
            let is_dry = match understood {
                Ok(is_dry) if has_hub && !out.close => is_dry,
                Ok(_) => {
                    self.last_words().await;
                    return Ok(());
                }
                Err(error) => {
                    if matches!(error, CodecError::FrameTooLong { .. } | CodecError::MessageTooLong { .. }) {
                        conversation.too_long(wall_clock(), &mut out);
                        self.speak(session, &mut out).await;
                    }
                    self.last_words().await;
                    return Err(error.into());
                }
            };
            let has_room = self.unsent.len() < UNSENT_BYTES_MAX;
            let may_ask =
                has_room && conversation.unanswered() < SESSION_REQUESTS_MAX && !conversation.is_held_back();
            let may_read = may_ask && is_dry && self.has_memory_to_read();
            // A peer that is not read from is neither silent nor slow.
            if has_room && !may_ask || self.waits_to_read.is_some() {
                (self.heard_at, self.unfinished_since) = (Instant::now(), Instant::now());
            }
            self.is_listening = may_read;
            let has_work = (may_ask && !is_dry)
                || (has_room && !self.unsent_share.is_waiting() && !deliveries.is_empty());
            let wake = self.wake_at(conversation);
            // An alarm that goes off too early does no harm, and setting it costs.
            if wake < alarm.deadline() || alarm.is_elapsed() {
                alarm.as_mut().reset(wake);
            }
            let (mut reading, mut writing) = self.stream.split();
            tokio::select! {
                () = holder.is_wanted().cancelled() => {
                    conversation.replaced(wall_clock(), &mut out);
                    self.speak(session, &mut out).await;
                    return Ok(());
                }
                () = &mut stopped => out.close = true,
                read = read_some(&mut reading, self.peer.input(), self.read_bytes), if may_read => {
                    let Ok(count @ 1..) = read else { return Ok(()) };
                    self.read_bytes = next_read(self.read_bytes, count);
                    (self.heard_at, self.unread_bytes, self.asked_at) = (Instant::now(), 0, None);
                }
                written = writing.write_buf(&mut self.unsent), if !self.unsent.is_empty() => {
                    let Ok(1..) = written else { return Ok(()) };
                    // What does not fit at once goes on as the peer takes what it has.
                    if !self.unsent.is_empty() {
                        self.heard_at = Instant::now();
                    }
                    if self.unsent.is_empty() && self.unsent.capacity() > SPARE_BYTES_MAX {
                        self.unsent = BytesMut::new();
                    }
                    self.unsent_share.set(self.unsent.len());
                }
                () = session.mailbox().arrived(), if has_room && deliveries.is_empty() => {
                    session.mailbox().take(&mut arrived);
                    if arrived.is_empty() && session.mailbox().is_closed() {
                        return Ok(());
                    }
                    deliveries.extend(arrived.drain(..));
                }
                () = &mut alarm => self.look_around(conversation, holder, &mut out)?,
                // What was read or has arrived and was not looked at yet does not wait for anything.
                () = std::future::ready(()), if has_work => {}
            }
            self.deliver(hub, &mut deliveries, conversation, &mut out).await;
        }
    }

    /// Takes what has arrived from the hub, until the peer has more to read than it may. Results can be large, so the rest
    /// stays where it is: on disk.
    async fn deliver(
        &mut self,
        hub: &HubHandle,
        deliveries: &mut VecDeque<Delivery>,
        conversation: &mut impl Conversation,
        out: &mut Out,
    ) {
        while self.unsent.len() < UNSENT_BYTES_MAX && out.asks.len() < ASKS_AT_ONCE {
            let needed = deliveries.front().and_then(|delivery| conversation.needs(delivery));
            if needed.is_some_and(|blob| !self.has_memory_to_send(blob.bytes() as usize)) {
                return;
            }
            let Some(delivery) = deliveries.pop_front() else {
                conversation.settle(wall_clock(), out);
                return self.compose(out);
            };
            let bytes = match needed {
                Some(blob) => match hub.cached(blob) {
                    Some(bytes) => Ok(bytes),
                    None => hub.read(blob).await,
                },
                None => Ok(bytes::Bytes::new()),
            };
            conversation.deliver(wall_clock(), delivery, bytes, out);
            self.compose(out);
        }
    }

    /// Whether the door has memory for what is read next. Little is always there.
    fn has_memory_to_read(&mut self) -> bool {
        let has_memory = self.unfinished_share.try_grow(self.peer.held_bytes() + self.read_bytes);
        if has_memory {
            self.waits_to_read = None;
        } else if self.waits_to_read.is_none() {
            self.counters.count("memory");
            self.waits_to_read = Some(Instant::now());
        }
        has_memory
    }

    /// Whether the door has memory for so much more that its peer has to read.
    fn has_memory_to_send(&mut self, bytes: usize) -> bool {
        let waited = self.unsent_share.is_waiting();
        let has_memory = self.unsent_share.try_grow(self.unsent.len() + bytes);
        if !has_memory && !waited {
            self.counters.count("memory");
        }
        has_memory
    }

    /// Takes the messages that were read, up to a handful of requests. Says whether everything was taken.
    fn listen(&mut self, conversation: &mut impl Conversation, out: &mut Out) -> Result<bool, CodecError> {
        let now = wall_clock();
        while out.asks.len() < ASKS_AT_ONCE && self.unsent.len() < UNSENT_BYTES_MAX {
            match self.peer.next_event(&mut self.unsent)? {
                Some(Event::Message(frames)) => {
                    self.unfinished_since = Instant::now();
                    conversation.receive(now, frames, out);
                }
                Some(Event::Ping { ttl }) => self.ttl = ttl.or(self.ttl),
                Some(_) => {}
                None => {
                    self.unfinished_share.set(self.peer.held_bytes());
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Hands over what the conversation asked for. Says whether the hub is still there.
    async fn speak(&mut self, session: &Session, out: &mut Out) -> bool {
        self.compose(out);
        out.asks.is_empty() || session.send(std::mem::take(&mut out.asks)).await.is_ok()
    }

    /// Puts messages into the bytes that are to be sent.
    fn compose(&mut self, out: &mut Out) {
        let before = self.unsent.len();
        for message in out.messages.drain(..) {
            self.peer.send(&message, &mut self.unsent);
        }
        self.unread_bytes += self.unsent.len() - before;
        self.unsent_share.set(self.unsent.len());
    }

    /// Time has passed: heartbeats of the protocol, signs of life of the connection.
    fn look_around(
        &mut self,
        conversation: &mut impl Conversation,
        holder: &Holder,
        out: &mut Out,
    ) -> Result<(), Ended> {
        let silence = self.heard_at.elapsed();
        let patience = match self.unread_bytes {
            0..=UNREAD_BYTES_MIN => self.transport.ping_timeout,
            // It may be the end of a broken line, and its peer be back on another.
            _ if holder.is_disputed() => self.transport.ping_timeout,
            // Others need the memory.
            _ if self.unsent_share.budget().is_short() => self.transport.ping_timeout,
            _ => self.transport.ping_timeout.max(UNREAD_PATIENCE),
        };
        let asked_in_vain = self.asked_at.is_some() && silence >= patience;
        // A peer of any age finishes what it began to say.
        let stopped_halfway = self.peer.held_bytes() > 0 && silence >= self.transport.ping_timeout;
        let is_overdue = self.ttl.is_some_and(|ttl| silence >= ttl.max(self.transport.ping));
        if asked_in_vain || (self.is_listening && (stopped_halfway || is_overdue)) {
            return Err(Ended::Silent);
        }
        let held = self.peer.held_bytes();
        // It keeps memory that others need to go on, as it needs theirs.
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
            // How long it may hear nothing: as long as a message on a slow line takes to arrive.
            let ttl = self.transport.ping_timeout.max(UNREAD_PATIENCE);
            let is_halfway = self.peer.held_bytes() > 0;
            if !self.peer.ping(ttl, &mut self.unsent) && !is_halfway {
                // A peer too old to be asked is believed until its connection closes.
                self.asked_at = None;
                self.heard_at = Instant::now();
            }
        }
        // A peer that does not read gets no heartbeats on top of what it has not read.
        if self.unsent.is_empty() {
            conversation.tick(wall_clock(), out);
        }
        Ok(())
    }

    /// How long a peer may take for so much of a message.
    fn time_for(&self, bytes: usize) -> Duration {
        self.transport.message_timeout + Duration::from_secs((bytes / MESSAGE_BYTES_A_SECOND) as u64)
    }

    /// When there is something to do even if nothing happens.
    fn wake_at(&self, conversation: &impl Conversation) -> Instant {
        if self.unsent_share.is_waiting() || self.waits_to_read.is_some() {
            return Instant::now() + MEMORY_RETRY;
        }
        let ping_at = self.asked_at.unwrap_or(self.heard_at) + self.transport.ping;
        let is_writable = self.unsent.is_empty();
        let tick_at =
            conversation.deadline().filter(|_| is_writable).map(|at| Instant::now() + at.since(wall_clock()));
        tick_at.map_or(ping_at, |tick_at| tick_at.min(ping_at))
    }

    /// Tries to get out what is unsent before the connection is closed.
    async fn last_words(&mut self) {
        let _ = tokio::time::timeout(LAST_WORDS, self.stream.write_all_buf(&mut self.unsent)).await;
    }
}

async fn read_some(
    reading: &mut (impl AsyncReadExt + Unpin),
    input: &mut BytesMut,
    bytes: usize,
) -> io::Result<usize> {
    if input.is_empty() && input.capacity() > bytes {
        *input = BytesMut::with_capacity(bytes);
    } else {
        input.reserve(bytes);
    }
    reading.read_buf(input).await
}

/// How much to read next, after so much came.
fn next_read(bytes: usize, came: usize) -> usize {
    if came >= bytes {
        (bytes * 4).min(READ_BYTES_MAX)
    } else if came < bytes / 8 {
        (bytes / 4).max(READ_BYTES_MIN)
    } else {
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_says_much_is_read_in_larger_pieces_and_one_that_falls_silent_in_small_ones() {
        let mut bytes = READ_BYTES_MIN;
        for _ in 0..5 {
            bytes = next_read(bytes, bytes);
        }
        assert_eq!(bytes, READ_BYTES_MAX);
        assert_eq!(next_read(bytes, bytes / 2), READ_BYTES_MAX);
        for _ in 0..5 {
            bytes = next_read(bytes, 20);
        }
        assert_eq!(bytes, READ_BYTES_MIN);
    }
}
