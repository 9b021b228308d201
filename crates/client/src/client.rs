//! The client: one connection shared by all its clones, and the requests that can be sent over it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tenure_wire::hello::Welcome;
use tenure_wire::{Name, Reply, Request, Timestamp};
use tokio::sync::{Notify, Semaphore, oneshot};

use crate::builder::ClientBuilder;
use crate::error::Error;
use crate::in_flight::{InFlightTable, OutgoingRequest, Repeat};
use crate::peer::PeerOptions;

/// Maximum number of requests that one client has in flight; further requests wait. The broker may set a lower limit.
pub const REQUESTS_MAX: usize = 4_096;
/// Maximum number of request bytes waiting to be written; further requests wait.
pub const UNSENT_BYTES_MAX: usize = 64 << 20;

/// A client of the broker. Cheap to clone: all clones share one connection, and their requests are pipelined over it.
///
/// If the connection is lost, the client reconnects, trying each address in turn, after 100 ms at first and 10 s at
/// most. Meanwhile requests wait for at most the [connect timeout](ClientBuilder::connect_timeout). The client repeats
/// requests in flight where that is safe: queries, waits, and submissions in which every task has a name. Any other
/// request fails with [`Error::UnknownOutcome`].
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

/// Dropped with the last clone, which closes the connection.
#[derive(Debug)]
struct Owner {
    shared: Arc<ClientShared>,
}

/// The state that the clones share with the task that drives the connection.
#[derive(Debug)]
pub(crate) struct ClientShared {
    in_flight: Mutex<InFlightTable>,
    welcome: Mutex<Arc<Welcome>>,
    pub(crate) peer: PeerOptions,
    pub(crate) connect_timeout: Duration,
    /// Wakes the driver.
    pub(crate) wake: Notify,
    /// Notified when bytes have been written and the buffer has room for more.
    pub(crate) room: Notify,
    requests: Arc<Semaphore>,
}

impl Client {
    /// Connects to a broker at `host:port`, `host`, `unix:/path`, or a comma-separated list of these.
    pub async fn connect(addresses: &str) -> Result<Client, Error> {
        Client::builder().address(addresses).connect().await
    }

    /// Returns a builder, to set more than the address.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// Returns the broker's reply to the last handshake.
    pub fn welcome(&self) -> Arc<Welcome> {
        Arc::clone(&self.shared().welcome.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the name under which this client's submissions can be watched.
    pub fn identity(&self) -> Name {
        self.welcome().identity.clone()
    }

    /// The namespace of this connection, as the broker confirmed it.
    pub fn namespace(&self) -> Name {
        self.welcome().namespace.clone()
    }

    /// Reports whether the client is connected now.
    pub fn is_connected(&self) -> bool {
        self.shared().in_flight().is_connected()
    }

    /// Checks that the broker answers. Returns the broker's clock.
    pub async fn ping(&self) -> Result<Timestamp, Error> {
        match self.ask("ping", Request::Ping, Repeat::Safe).await? {
            Reply::Pong(pong) => Ok(pong.now),
            other => Err(unexpected("ping", &other)),
        }
    }

    /// Closes the connection for all clones. Requests in flight fail with [`Error::Closed`].
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

    /// Sends a request and waits for the reply.
    pub(crate) async fn ask(
        &self,
        verb: &'static str,
        request: Request,
        repeat: Repeat,
    ) -> Result<Reply, Error> {
        let (_, answered) = self.send(verb, request, repeat).await?;
        answered.await.unwrap_or(Err(Error::Closed))
    }

    /// Sends a request. Returns its number if it is already on the wire; the reply comes through the channel.
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
            // The driver notifies after every write, so a request that misses one notification waits for the next or
            // for this timeout.
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

    /// For requests that the broker answers with `done`.
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
        // No code panics while it holds the lock, so a poisoned lock still guards a consistent value.
        self.in_flight.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_welcome(&self, welcome: Arc<Welcome>) {
        *self.welcome.lock().unwrap_or_else(PoisonError::into_inner) = welcome;
    }
}

/// The broker's reply does not fit the request.
pub(crate) fn unexpected(verb: &str, reply: &Reply) -> Error {
    Error::protocol(format!("`{verb}` was answered with `{}`", reply.kind()))
}
