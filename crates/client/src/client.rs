//! The client: one connection shared by everybody who has a clone, and every verb on it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tenure_wire::hello::Welcome;
use tenure_wire::{Name, Reply, Request, Timestamp};
use tokio::sync::{Notify, Semaphore, oneshot};

use crate::builder::ClientBuilder;
use crate::error::Error;
use crate::in_flight::{InFlightTable, OutgoingRequest, Repeat};
use crate::peer::PeerOptions;

/// How many requests of one client are under way at once; further ones wait their turn. Less if the broker says so.
pub const REQUESTS_MAX: usize = 4_096;
/// How many bytes of requests may wait to be written; further requests wait their turn.
pub const UNSENT_BYTES_MAX: usize = 64 << 20;

/// A client of the broker. Cheap to clone: all clones share one connection, and their requests are pipelined over it.
///
/// If the connection is lost it comes back by itself, after 100 ms at first and after 10 s at most, to each address in
/// turn. Meanwhile requests wait, as long as the [connect timeout](ClientBuilder::connect_timeout) lasts. What was
/// under way is repeated if that is safe: queries, waits, and submissions of which every task carries a name. Anything
/// else fails with [`Error::UnknownOutcome`].
///
/// ```no_run
/// use tenure_client::{Client, Submission};
///
/// # async fn example() -> Result<(), tenure_client::Error> {
/// let client = Client::connect("127.0.0.1:7171").await?;
/// let accepted = client.submit(Submission::to("images").body("scan 7").name("scan-7")).await?;
/// let ended = client.wait(accepted.task).await?;
/// println!("{} with exit code {}", ended.state, ended.exit_code);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    owner: Arc<Owner>,
}

/// Dropped with the last clone, and then the connection ends.
#[derive(Debug)]
struct Owner {
    shared: Arc<ClientShared>,
}

/// What the clones share with the task that drives the connection.
#[derive(Debug)]
pub(crate) struct ClientShared {
    in_flight: Mutex<InFlightTable>,
    welcome: Mutex<Arc<Welcome>>,
    pub(crate) peer: PeerOptions,
    pub(crate) connect_timeout: Duration,
    /// The driver has something to look at.
    pub(crate) wake: Notify,
    /// Bytes have gone out, so there is room for more.
    pub(crate) room: Notify,
    requests: Arc<Semaphore>,
}

impl Client {
    /// Connects to a broker: `host:port`, `host`, `unix:/path`, or several with commas between them.
    pub async fn connect(addresses: &str) -> Result<Client, Error> {
        Client::builder().address(addresses).connect().await
    }

    /// For everything else there is to say about a connection.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// What the broker said at the last handshake.
    pub fn welcome(&self) -> Arc<Welcome> {
        Arc::clone(&self.shared().welcome.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The name under which this client's submissions can be watched.
    pub fn identity(&self) -> Name {
        self.welcome().identity.clone()
    }

    pub fn namespace(&self) -> Name {
        self.welcome().namespace.clone()
    }

    /// Whether a connection stands at this moment.
    pub fn is_connected(&self) -> bool {
        self.shared().in_flight().is_connected()
    }

    /// Asks whether the broker is there. Its clock comes back.
    pub async fn ping(&self) -> Result<Timestamp, Error> {
        match self.ask("ping", Request::Ping, Repeat::Safe).await? {
            Reply::Pong(pong) => Ok(pong.now),
            other => Err(unexpected("ping", &other)),
        }
    }

    /// Ends the connection, for all clones. What is under way fails with [`Error::Closed`].
    pub fn close(&self) {
        self.shared().in_flight().close();
        self.shared().wake.notify_one();
    }

    pub(crate) fn new(shared: Arc<ClientShared>) -> Client {
        Client { owner: Arc::new(Owner { shared }) }
    }

    pub(crate) fn shared(&self) -> &Arc<ClientShared> {
        &self.owner.shared
    }

    /// Asks and waits for the answer.
    pub(crate) async fn ask(
        &self,
        verb: &'static str,
        request: Request,
        repeat: Repeat,
    ) -> Result<Reply, Error> {
        let (_, answered) = self.send(verb, request, repeat).await?;
        answered.await.unwrap_or(Err(Error::Closed))
    }

    /// Asks. The number is there if the request is on its way already; the answer comes through the channel.
    pub(crate) async fn send(
        &self,
        verb: &'static str,
        request: Request,
        repeat: Repeat,
    ) -> Result<(Option<u64>, oneshot::Receiver<Result<Reply, Error>>), Error> {
        let shared = self.shared();
        let permit = Arc::clone(&shared.requests).acquire_owned().await.map_err(|_| Error::Closed)?;
        let (answer, answered) = oneshot::channel();
        while shared.in_flight().out.len() >= UNSENT_BYTES_MAX {
            // The driver notifies after every write, so nobody who comes late waits for long.
            let _ = tokio::time::timeout(Duration::from_millis(100), shared.room.notified()).await;
        }
        let question = OutgoingRequest { verb, request, repeat };
        let (number, was_empty) = {
            let mut in_flight = shared.in_flight();
            let was_empty = in_flight.out.is_empty();
            (in_flight.ask(Instant::now(), question, answer, Some(permit)), was_empty)
        };
        if was_empty {
            shared.wake.notify_one();
        }
        Ok((number, answered))
    }

    /// For verbs that are answered with `done`.
    pub(crate) async fn command(&self, verb: &'static str, request: Request) -> Result<(), Error> {
        match self.ask(verb, request, Repeat::Unsafe).await? {
            Reply::Done => Ok(()),
            other => Err(unexpected(verb, &other)),
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shared.in_flight().close();
        self.shared.wake.notify_one();
    }
}

impl ClientShared {
    pub(crate) fn new(peer: PeerOptions, connect_timeout: Duration, welcome: Arc<Welcome>) -> ClientShared {
        let allowed = usize::try_from(welcome.limits.open_requests).unwrap_or(REQUESTS_MAX);
        ClientShared {
            in_flight: Mutex::default(),
            welcome: Mutex::new(welcome),
            peer,
            connect_timeout,
            wake: Notify::new(),
            room: Notify::new(),
            requests: Arc::new(Semaphore::new(allowed.clamp(1, REQUESTS_MAX))),
        }
    }

    pub(crate) fn in_flight(&self) -> MutexGuard<'_, InFlightTable> {
        // Nothing under the lock panics half-way, so a poisoned lock guards a sound value.
        self.in_flight.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_welcome(&self, welcome: Arc<Welcome>) {
        *self.welcome.lock().unwrap_or_else(PoisonError::into_inner) = welcome;
    }
}

/// The broker answered with something that is no answer to this question.
pub(crate) fn unexpected(verb: &str, reply: &Reply) -> Error {
    Error::protocol(format!("`{verb}` was answered with `{}`", reply.kind()))
}
