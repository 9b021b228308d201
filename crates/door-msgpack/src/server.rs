//! The sockets, and nothing else: what arrives goes to the session, what the session says goes out.
//!
//! One task per connection. It reads whatever has arrived, takes all frames of it, hands all asks to the hub at once,
//! delivers whatever the hub has put into the mailbox, and writes all of it at once. When the peer does not read, or
//! has asked more than has been answered, nothing more is read from it: that is the back-pressure.

use std::collections::VecDeque;
use std::future::{Future, pending, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tenure_hub::limits::{SESSION_REQUESTS_MAX, UNSENT_BYTES_MAX};
use tenure_hub::topics::Topics;
use tenure_hub::words::{Name, Refusal, SessionId, Timestamp};
use tenure_hub::{Appetite, Delivery, Grant, HubHandle, Principal, wall_clock};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::task::TaskTracker;

use crate::codec::split_frames;
use crate::session::{Entrance, Session, Talk, Turn};
use crate::settings::Settings;

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
/// How long to wait after a connection could not be accepted: usually there are no more file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves the native protocol over TCP until the hub stops, then waits for the conversations to end.
pub async fn serve(listener: TcpListener, hub: HubHandle, settings: Settings) -> io::Result<()> {
    serve_with(listener, hub, settings, Session::new).await
}

/// The same on a Unix socket.
#[cfg(unix)]
pub async fn serve_unix(
    listener: tokio::net::UnixListener,
    hub: HubHandle,
    settings: Settings,
) -> io::Result<()> {
    let door = Door::new(hub, settings);
    while let Some(accepted) = door.unless_stopped(listener.accept()).await {
        match accepted {
            Ok((mut stream, _)) => door.spawn(async move |door| {
                let (read, write) = stream.split();
                door.converse(Session::new, read, write).await;
            }),
            Err(error) => door.cannot_accept(&error).await,
        }
    }
    door.finish().await;
    Ok(())
}

/// Serves any dialect over TCP.
pub(crate) async fn serve_with<T: Talk + Send + 'static>(
    listener: TcpListener,
    hub: HubHandle,
    settings: Settings,
    begin: fn(Timestamp, Arc<Settings>) -> T,
) -> io::Result<()> {
    let door = Door::new(hub, settings);
    while let Some(accepted) = door.unless_stopped(listener.accept()).await {
        match accepted {
            Ok((mut stream, _)) => {
                // Answers are small and waited for.
                let _ = stream.set_nodelay(true);
                door.spawn(async move |door| {
                    let (read, write) = stream.split();
                    door.converse(begin, read, write).await;
                });
            }
            Err(error) => door.cannot_accept(&error).await,
        }
    }
    door.finish().await;
    Ok(())
}

#[derive(Clone)]
struct Door {
    hub: HubHandle,
    settings: Arc<Settings>,
    places: Arc<Semaphore>,
    conversations: TaskTracker,
}

impl Door {
    fn new(hub: HubHandle, settings: Settings) -> Door {
        let places = Arc::new(Semaphore::new(settings.connections_max));
        Door { hub, settings: Arc::new(settings), places, conversations: TaskTracker::new() }
    }

    fn spawn<F: Future<Output = ()> + Send + 'static>(&self, conversation: impl FnOnce(Door) -> F) {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            tracing::warn!(limit = self.settings.connections_max, "too many connections, one turned away");
            return;
        };
        let conversation = conversation(self.clone());
        self.conversations.spawn(async move {
            conversation.await;
            drop(place);
        });
    }

    async fn cannot_accept(&self, error: &io::Error) {
        tracing::warn!(%error, "a connection could not be accepted");
        sleep(ACCEPT_PAUSE).await;
    }

    async fn finish(self) {
        self.conversations.close();
        self.conversations.wait().await;
    }

    /// What was accepted next, or nothing once the hub stops.
    async fn unless_stopped<T>(&self, accept: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            accepted = accept => Some(accepted),
            () = self.hub.stopped() => None,
        }
    }

    async fn converse<T: Talk>(
        self,
        begin: fn(Timestamp, Arc<Settings>) -> T,
        read: impl AsyncRead + Unpin,
        write: impl AsyncWrite + Unpin,
    ) {
        let session = begin(wall_clock(), Arc::clone(&self.settings));
        let ended = Conversation::new(session, self.hub, self.settings).run(read, write).await;
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection broke");
        }
    }
}

/// One connection.
struct Conversation<T> {
    session: T,
    way_in: WayIn,
    settings: Arc<Settings>,
    turn: Turn,
    arrived: BytesMut,
    appetite: Appetite,
    /// Taken from the mailbox, not yet delivered.
    deliveries: VecDeque<Delivery>,
    spare: Vec<Delivery>,
    /// The peer will say no more.
    heard_all: bool,
    /// The hub will say no more.
    mail_is_over: bool,
    /// When the connection ends whatever else happens: the broker has said goodbye.
    until: Option<Timestamp>,
    /// When the peer last read something.
    read_at: Timestamp,
}

/// The hub's side of a conversation, as far as it has begun.
struct WayIn {
    hub: HubHandle,
    session: Option<tenure_hub::Session>,
}

impl Entrance for WayIn {
    fn admit(&mut self, key: Option<&[u8]>) -> Option<Arc<Grant>> {
        self.hub.admit(key)
    }

    fn open(&mut self, grant: &Arc<Grant>, namespace: Name, identity: Name) -> Result<SessionId, Refusal> {
        let principal = Principal { grant: Arc::clone(grant), door: "native", address: None };
        let session = self.hub.open(principal, namespace, identity)?;
        let id = session.id();
        self.session = Some(session);
        Ok(id)
    }

    fn may_work_as(&self, grant: &Grant, worker: &str) -> Result<(), Refusal> {
        self.hub.may_work_as(grant, worker)
    }

    fn topics(&self) -> Topics {
        self.hub.topics().clone()
    }
}

impl WayIn {
    async fn mail_arrived(&self) {
        match &self.session {
            Some(session) => session.mailbox().arrived().await,
            None => pending().await,
        }
    }
}

impl<T: Talk> Conversation<T> {
    fn new(session: T, hub: HubHandle, settings: Arc<Settings>) -> Conversation<T> {
        let now = wall_clock();
        Conversation {
            session,
            way_in: WayIn { hub, session: None },
            settings,
            turn: Turn::default(),
            arrived: BytesMut::new(),
            appetite: Appetite::between(READ_BYTES_MIN, READ_BYTES_MAX),
            deliveries: VecDeque::new(),
            spare: Vec::new(),
            heard_all: false,
            mail_is_over: false,
            until: None,
            read_at: now,
        }
    }

    async fn run(
        mut self,
        mut read: impl AsyncRead + Unpin,
        mut write: impl AsyncWrite + Unpin,
    ) -> io::Result<()> {
        self.session.begin(&mut self.turn);
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
            let may_write = !self.turn.out.is_empty();
            let may_take =
                !self.mail_is_over && self.deliveries.is_empty() && self.turn.out.len() < UNSENT_BYTES_MAX;
            // Messages wait in the queue of their subscription, where its policy holds, and not here.
            let may_take_topics = self.turn.out.len() < TOPIC_BYTES_UNSENT_MAX && !self.turn.close;
            let is_stranger = self.way_in.session.is_none();
            let may_read = self.may_read();
            if may_read {
                self.make_room();
            }
            tokio::select! {
                biased;
                written = write.write_buf(&mut self.turn.out), if may_write => {
                    self.has_written(written?)?;
                }
                () = self.way_in.mail_arrived(), if may_take => self.take_mail(),
                count = read.read_buf(&mut self.arrived), if may_read => self.has_read(count?),
                () = poll_fn(|context| self.session.poll_topics(context)), if may_take_topics => {
                    self.session.take_topics(&mut self.turn);
                }
                () = &mut alarm, if alarm_at.is_some() => {
                    alarm_at = None;
                    self.ring()?;
                }
                // A peer that is known hears it from its mailbox.
                () = self.way_in.hub.stopped(), if is_stranger => self.turn.close = true,
            }
            self.deliver().await;
            self.take_topics();
            self.ask().await;
        }
    }

    /// A peer that never stops talking gets its messages all the same.
    fn take_topics(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        if self.turn.out.len() < TOPIC_BYTES_UNSENT_MAX && self.session.poll_topics(&mut context).is_ready() {
            self.session.take_topics(&mut self.turn);
        }
    }

    /// Everything has been said, or nothing more can be.
    fn is_over(&self) -> bool {
        let nothing_left = self.turn.out.is_empty() && self.deliveries.is_empty();
        if self.turn.close || (self.heard_all && self.session.open_requests() == 0) {
            return nothing_left;
        }
        self.mail_is_over && nothing_left
    }

    fn may_read(&self) -> bool {
        !self.heard_all
            && !self.turn.close
            && self.until.is_none()
            && self.turn.out.len() < UNSENT_BYTES_MAX
            && self.session.open_requests() < SESSION_REQUESTS_MAX
    }

    /// An idle connection holds a small buffer only.
    fn make_room(&mut self) {
        if self.arrived.is_empty() && self.arrived.capacity() > 2 * self.appetite.bytes() {
            self.arrived = BytesMut::new();
        }
        self.arrived.reserve(self.appetite.bytes());
    }

    fn has_read(&mut self, count: usize) {
        if count == 0 {
            self.heard_all = true;
            return;
        }
        self.appetite.has_read(count);
        let now = wall_clock();
        loop {
            match split_frames(&mut self.arrived, T::FRAME_BYTES_MAX) {
                Ok(frames) if frames.is_empty() => return,
                Ok(frames) => {
                    for frame in frames {
                        if self.turn.close {
                            return;
                        }
                        self.session.receive(now, &frame, &mut self.way_in, &mut self.turn);
                    }
                }
                Err(error) => return self.session.lost_track(&error, &mut self.turn),
            }
        }
    }

    fn has_written(&mut self, count: usize) -> io::Result<()> {
        if count == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.read_at = wall_clock();
        if self.turn.out.is_empty() && self.turn.out.capacity() > OUT_BYTES_KEPT {
            self.turn.out = BytesMut::new();
        }
        Ok(())
    }

    fn take_mail(&mut self) {
        let Some(session) = &self.way_in.session else { return };
        self.mail_is_over = session.mailbox().is_closed();
        session.mailbox().take(&mut self.spare);
        if self.turn.out.is_empty() {
            // Whoever had nothing to read cannot have been slow.
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
                let bytes = if self.session.needs(&delivery).is_some() { fetched.pop_front() } else { None };
                if matches!(delivery, Delivery::Goodbye) {
                    self.until = Some(wall_clock() + GOODBYE);
                }
                self.session.deliver(delivery, bytes, &mut self.turn);
            }
        }
        self.session.flush(&mut self.turn);
    }

    /// The bytes that the next deliveries need, in their order, and how many deliveries that is.
    async fn fetch(&mut self) -> (usize, VecDeque<Result<Bytes, Refusal>>) {
        let mut blobs = Vec::new();
        let mut bytes = 0;
        let mut count = 0;
        for delivery in &self.deliveries {
            if let Some(blob) = self.session.needs(delivery) {
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
        (count, self.way_in.hub.read_many(blobs).await.into())
    }

    /// Hands everything that was asked to the hub, which may take its time.
    async fn ask(&mut self) {
        if self.turn.asks.is_empty() {
            return;
        }
        let asks = std::mem::take(&mut self.turn.asks);
        let Some(session) = &self.way_in.session else { return };
        if session.send(asks).await.is_err() {
            self.turn.close = true;
        }
    }

    fn deadline(&self) -> Option<Timestamp> {
        let slow = (!self.turn.out.is_empty()).then(|| self.read_at + self.settings.read_within);
        self.session.next_deadline().into_iter().chain(slow).chain(self.until).min()
    }

    /// Something has taken too long.
    fn ring(&mut self) -> io::Result<()> {
        let now = wall_clock();
        let is_slow = !self.turn.out.is_empty() && self.read_at + self.settings.read_within <= now;
        if is_slow || self.until.is_some_and(|until| until <= now) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.session.tick(now, &mut self.turn);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tenure_hub::store::{MemoryDisk, StoreSettings};
    use tenure_hub::{Hub, Keys};

    use super::*;

    #[tokio::test]
    async fn an_idle_connection_is_small() {
        let disk = Arc::new(MemoryDisk::new());
        let hub = Hub::start(disk, StoreSettings::default(), Default::default(), Keys::default()).unwrap();
        let settings = Arc::new(Settings::default());
        let session = Session::new(wall_clock(), Arc::clone(&settings));
        let conversation = Conversation::new(session, hub.handle().clone(), settings);
        let running = conversation.run(tokio::io::empty(), tokio::io::sink());
        let bytes = size_of_val(&running);
        assert!(bytes < 4 << 10, "{bytes}");
    }
}
