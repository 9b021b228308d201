//! The sockets, and nothing else: what arrives goes to the session, what the session says goes out.
//!
//! One task per connection, and one per worker's desk (`desks.rs`). A connection reads whatever has arrived, hands all
//! questions to the hub at once, and writes all answers at once. While its peer waits in a blocking command it costs a
//! task that sleeps and no buffer.

mod channels;
mod desks;

use std::collections::HashMap;
use std::future::pending;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tenure_hub::topics::Delivery as TopicDelivery;
use tenure_hub::words::{Name, Timestamp};
use tenure_hub::{Delivery, HubHandle};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::task::TaskTracker;

use crate::channel::ChannelAct;
use crate::session::{Admission, Gate, Output, Session};
use crate::settings::Settings;
use crate::throttle::Throttle;
use crate::upkeep::Upkeep;
use channels::{Ears, Heard, Patterns};
use desks::{Desk, Desks, News, Route};

/// What is read at once: little for single commands, more for a peer that fills it.
const READ_BYTES_MIN: usize = 1024;
const READ_BYTES_MAX: usize = 16 * 1024;
/// How much may be unsent before nothing more is read or taken.
const UNSENT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// How long a peer may leave answers unread.
const READ_WITHIN: Duration = Duration::from_secs(60);
/// How long a connection lives on after the broker has said goodbye.
const GOODBYE: Duration = Duration::from_millis(500);
/// How long to wait after a connection could not be accepted: usually there are no more file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// A peer whose machine is gone is noticed after this much silence on the wire.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// Serves RESP over TCP until the hub stops, then waits for the conversations to end.
pub async fn serve(listener: TcpListener, hub: HubHandle, settings: Settings) -> io::Result<()> {
    let door = Arc::new(Door {
        desks: Desks::new(hub.clone(), settings.clone()),
        hub,
        settings,
        throttle: Arc::default(),
        upkeep: Arc::default(),
        patterns: Arc::default(),
        addresses: Mutex::default(),
        next_connection: AtomicU64::new(1),
        conversations: TaskTracker::new(),
    });
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = door.hub.stopped() => break,
        };
        match accepted {
            Ok((stream, address)) => door.welcome(stream, address.ip()),
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    door.conversations.close();
    door.conversations.wait().await;
    Ok(())
}

struct Door {
    hub: HubHandle,
    settings: Settings,
    desks: Arc<Desks>,
    throttle: Arc<Mutex<Throttle>>,
    upkeep: Arc<Upkeep>,
    patterns: Arc<Patterns>,
    addresses: Mutex<Addresses>,
    next_connection: AtomicU64,
    conversations: TaskTracker,
}

/// How many connections there are, of all and of each address.
#[derive(Default)]
struct Addresses {
    all: usize,
    each: HashMap<IpAddr, usize>,
}

impl Door {
    fn welcome(self: &Arc<Self>, stream: TcpStream, address: IpAddr) {
        if !self.has_room(address) {
            tracing::warn!(%address, "too many connections, one turned away");
            // A new socket has room for one line; if not, it is just closed.
            let _ = stream.try_write(b"-ERR max number of clients reached\r\n");
            return;
        }
        // Answers are small and waited for.
        let _ = stream.set_nodelay(true);
        let keepalive = socket2::TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE / 4);
        let _ = socket2::SockRef::from(&stream).set_tcp_keepalive(&keepalive);
        let door = Arc::clone(self);
        self.conversations.spawn(async move {
            let id = door.next_connection.fetch_add(1, Ordering::Relaxed);
            let ended = Conversation::new(Arc::clone(&door), id, address).run(stream).await;
            if let Err(error) = ended {
                tracing::debug!(%error, connection = id, "a connection broke");
            }
            door.leave(address);
        });
    }

    fn has_room(&self, address: IpAddr) -> bool {
        let mut addresses = locked(&self.addresses);
        let Addresses { all, each } = &mut *addresses;
        let own = each.get(&address).copied().unwrap_or(0);
        if *all >= self.settings.connections_max || own >= self.settings.connections_per_address_max {
            return false;
        }
        *all += 1;
        each.insert(address, own + 1);
        true
    }

    fn leave(&self, address: IpAddr) {
        let mut addresses = locked(&self.addresses);
        addresses.all -= 1;
        if let Some(own) = addresses.each.get_mut(&address) {
            *own -= 1;
            if *own == 0 {
                addresses.each.remove(&address);
            }
        }
    }
}

/// Who may come in from one address.
struct HubGate {
    hub: HubHandle,
    throttle: Arc<Mutex<Throttle>>,
    address: IpAddr,
}

impl Gate for HubGate {
    fn wants_keys(&self) -> bool {
        self.hub.wants_keys()
    }

    fn admit(&self, now: Timestamp, key: &[u8]) -> Admission {
        let mut throttle = locked(&self.throttle);
        if let Some(wait) = throttle.must_wait(now, self.address) {
            return Admission::Wait(wait);
        }
        match self.hub.admit(Some(key)) {
            Some(grant) => {
                throttle.right(self.address);
                Admission::Granted(grant)
            }
            None => {
                throttle.wrong(now, self.address);
                tracing::warn!(address = %self.address, "a wrong key was shown");
                Admission::Wrong
            }
        }
    }
}

/// One connection.
struct Conversation {
    door: Arc<Door>,
    session: Session,
    gate: HubGate,
    /// Its session with the hub, and the namespace that is for.
    inside: Option<(Name, tenure_hub::Session)>,
    out: Output,
    route: Route,
    news: mpsc::UnboundedReceiver<News>,
    desks: HashMap<Name, Arc<Desk>>,
    ears: Ears,
    deliveries: Vec<Delivery>,
    /// How much is read at once.
    appetite: usize,
    heard_all: bool,
    until: Option<Timestamp>,
    read_at: Timestamp,
}

impl Conversation {
    fn new(door: Arc<Door>, id: u64, address: IpAddr) -> Self {
        let gate = HubGate { hub: door.hub.clone(), throttle: Arc::clone(&door.throttle), address };
        let session = Session::new(id, address, door.settings.clone(), Arc::clone(&door.upkeep), &gate);
        let (sender, news) = mpsc::unbounded_channel();
        let ears = Ears::new(door.hub.topics().clone(), Arc::clone(&door.patterns));
        Self {
            door,
            session,
            gate,
            inside: None,
            out: Output::default(),
            route: Route { connection: id, sender },
            news,
            desks: HashMap::new(),
            ears,
            deliveries: Vec::new(),
            appetite: READ_BYTES_MIN,
            heard_all: false,
            until: None,
            read_at: wall_clock(),
        }
    }

    async fn run(mut self, mut stream: TcpStream) -> io::Result<()> {
        let ended = self.converse(&mut stream).await;
        for desk in std::mem::take(&mut self.desks).into_values() {
            desk.detach(&self.route).await;
        }
        ended
    }

    async fn converse(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        let (read, mut write) = stream.split();
        let mut alarm = pin!(sleep_until(Instant::now()));
        loop {
            if self.is_over() {
                return write.shutdown().await;
            }
            let now = wall_clock();
            let deadline = self.deadline();
            if let Some(deadline) = deadline {
                alarm.as_mut().reset(Instant::now() + deadline.since(now));
            }
            let may_write = !self.out.bytes.is_empty();
            let may_take = self.out.bytes.len() < UNSENT_BYTES_MAX;
            let may_read = !self.heard_all && !self.out.close && may_take && self.session.is_hungry();
            self.session.rest();
            tokio::select! {
                biased;
                written = write.write_buf(&mut self.out.bytes), if may_write => self.has_written(written?)?,
                () = mail(self.inside.as_ref()), if may_take => self.take_mail(),
                Some(news) = self.news.recv() => self.hear(news),
                heard = self.ears.hear(), if may_take => self.listen(&heard),
                ready = read.readable(), if may_read => {
                    ready?;
                    let input = self.session.input();
                    input.reserve(self.appetite);
                    match read.try_read_buf(input) {
                        Ok(0) => self.heard_all = true,
                        Ok(count) if count >= self.appetite => {
                            self.appetite = (2 * self.appetite).min(READ_BYTES_MAX);
                        }
                        Ok(count) => {
                            self.appetite = count.next_power_of_two().clamp(READ_BYTES_MIN, READ_BYTES_MAX);
                        }
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                        Err(error) => return Err(error),
                    }
                }
                () = &mut alarm, if deadline.is_some() => self.ring()?,
            }
            self.work().await;
        }
    }

    /// Everything has been said, or nothing more can be.
    fn is_over(&self) -> bool {
        let nothing_left = self.out.bytes.is_empty();
        let hub_is_gone = self.inside.as_ref().is_some_and(|(_, inside)| inside.mailbox().is_closed());
        if self.heard_all && (self.session.is_blocked() || !self.session.owes_answers()) {
            return nothing_left || self.session.is_blocked();
        }
        nothing_left && (self.out.close || hub_is_gone)
    }

    /// Goes on until somebody else has to say something.
    async fn work(&mut self) {
        loop {
            self.session.receive(wall_clock(), &self.gate, &mut self.out);
            self.leave_desks().await;
            self.attend_channels().await;
            if self.out.asks.is_empty() && self.out.calls.is_empty() && self.out.reads.is_empty() {
                return;
            }
            self.ask().await;
            for (token, blob) in std::mem::take(&mut self.out.reads) {
                let bytes = match self.door.hub.cached(blob) {
                    Some(bytes) => Ok(bytes),
                    None => self.door.hub.read(blob).await,
                };
                self.session.has_read(wall_clock(), token, bytes, &mut self.out);
            }
            for call in std::mem::take(&mut self.out.calls) {
                let (namespace, _) = self.session.identity();
                let worker = call.worker.clone();
                if let Some(desk) = self.door.desks.call(namespace, call, &self.route).await {
                    self.desks.insert(worker, desk);
                }
            }
            while let Ok(news) = self.news.try_recv() {
                self.hear(news);
            }
        }
    }

    async fn leave_desks(&mut self) {
        for worker in std::mem::take(&mut self.out.leaves) {
            if let Some(desk) = self.desks.remove(&worker) {
                desk.detach(&self.route).await;
            }
        }
    }

    /// Begins and ends listening, and publishes. An answer that has to wait comes as news.
    async fn attend_channels(&mut self) {
        if self.out.channels.is_empty() {
            return;
        }
        let (namespace, identity) = self.session.identity();
        for act in std::mem::take(&mut self.out.channels) {
            match act {
                ChannelAct::Begin { listener, filter } => {
                    if let Err(refusal) = self.ears.begin(namespace.clone(), listener, filter, &identity) {
                        self.session.cannot_listen(&refusal.to_string(), &mut self.out);
                    }
                }
                ChannelAct::End(listener) => self.ears.end(&listener),
                ChannelAct::Publish { token, channel, message } => {
                    let outcome = match self.ears.publish(&namespace, &channel, message) {
                        Ok(sent) if sent.is_settled() => sent.heard_by().await,
                        Ok(sent) => {
                            let sender = self.route.sender.clone();
                            tokio::spawn(async move {
                                let outcome = sent.heard_by().await;
                                let _ = sender.send(News::Published { token, outcome });
                            });
                            continue;
                        }
                        Err(refusal) => Err(refusal.to_string()),
                    };
                    self.session.published(token, outcome, &mut self.out);
                }
            }
        }
    }

    fn listen(&mut self, heard: &Heard) {
        let Heard { listener, deliveries } = heard;
        for delivery in deliveries {
            match delivery {
                TopicDelivery::Message { message, .. } => {
                    self.session.heard(listener, &message.topic, &message.payload, &mut self.out);
                }
                TopicDelivery::Gap(gap) => {
                    let (first, last) = (gap.first_missed.0, gap.last_missed.0);
                    self.session.missed(listener, &gap.topic, first, last, &mut self.out);
                }
                TopicDelivery::ReplayComplete(_) | TopicDelivery::Warning(_) => {}
            }
        }
    }

    /// Hands all questions to the hub, which may take its time.
    async fn ask(&mut self) {
        if self.out.asks.is_empty() {
            return;
        }
        let asks = std::mem::take(&mut self.out.asks);
        let (namespace, identity) = self.session.identity();
        if self.inside.as_ref().is_none_or(|(known, _)| *known != namespace) {
            match self.door.hub.open(namespace.clone(), identity) {
                Ok(inside) => self.inside = Some((namespace, inside)),
                Err(refusal) => {
                    for ask in asks {
                        let reply = Err(refusal.clone());
                        let delivery = Delivery::Reply { token: ask.token, reply };
                        self.session.deliver(wall_clock(), delivery, &mut self.out);
                    }
                    return;
                }
            }
        }
        let Some((_, inside)) = &self.inside else { return };
        if inside.send(asks).await.is_err() {
            self.out.close = true;
        }
    }

    fn take_mail(&mut self) {
        let Some((_, inside)) = &self.inside else { return };
        let mut deliveries = std::mem::take(&mut self.deliveries);
        inside.mailbox().take(&mut deliveries);
        let now = wall_clock();
        for delivery in deliveries.drain(..) {
            if matches!(delivery, Delivery::Goodbye) {
                self.until = Some(now + GOODBYE);
            }
            self.session.deliver(now, delivery, &mut self.out);
        }
        self.deliveries = deliveries;
    }

    fn hear(&mut self, news: News) {
        match news {
            News::Answer { token, answer } => {
                self.session.desk_answered(wall_clock(), token, answer, &mut self.out);
            }
            News::Published { token, outcome } => self.session.published(token, outcome, &mut self.out),
            News::Wish { job, wanted } => self.session.wish(&job, wanted, &mut self.out),
        }
    }

    fn has_written(&mut self, count: usize) -> io::Result<()> {
        if count == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.read_at = wall_clock();
        if self.out.bytes.is_empty() {
            self.out.bytes = bytes::BytesMut::new();
        }
        Ok(())
    }

    fn deadline(&self) -> Option<Timestamp> {
        let slow = (!self.out.bytes.is_empty()).then(|| self.read_at + READ_WITHIN);
        self.session.next_deadline().into_iter().chain(slow).chain(self.until).min()
    }

    /// Something is due, or has taken too long.
    fn ring(&mut self) -> io::Result<()> {
        let now = wall_clock();
        let is_slow = !self.out.bytes.is_empty() && self.read_at + READ_WITHIN <= now;
        if is_slow || self.until.is_some_and(|until| until <= now) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.session.tick(now, &mut self.out);
        Ok(())
    }
}

async fn mail(inside: Option<&(Name, tenure_hub::Session)>) {
    match inside {
        Some((_, inside)) => inside.mailbox().arrived().await,
        None => pending().await,
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is behind these locks is whole between any two statements, whoever panicked.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wall_clock() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
