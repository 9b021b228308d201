//! How a client is set up.

use std::sync::Arc;
use std::time::Duration;

use tenure_wire::Name;
use tokio::time::Instant;

use crate::client::{Client, ClientShared};
use crate::dialer::Dialer;
use crate::driver::drive;
use crate::error::Error;
use crate::peer::{PeerOptions, peer_setters};

/// Default time that a request waits for a connection.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Settings of a [`Client`].
///
/// ```no_run
/// use tenure_client::Client;
///
/// # async fn example() -> Result<(), tenure_client::Error> {
/// let client = Client::builder().addresses(["one:7171", "two:7171"]).namespace("lab").identity("ada").connect().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct ClientBuilder {
    peer: PeerOptions,
    connect_timeout: Duration,
}

impl Default for ClientBuilder {
    fn default() -> ClientBuilder {
        ClientBuilder { peer: PeerOptions::default(), connect_timeout: CONNECT_TIMEOUT }
    }
}

impl ClientBuilder {
    peer_setters!();

    /// Sets the name under which this client's submissions can be watched, now and after a restart of the program.
    /// Without one, the broker chooses a name and the client keeps it across reconnects.
    #[must_use]
    pub fn identity(mut self, identity: impl Into<Name>) -> ClientBuilder {
        self.peer.identity = Some(identity.into());
        self
    }

    /// Sets how long a request, or the first connection attempt, waits for a connection before it fails with
    /// [`Error::Unreachable`].
    #[must_use]
    pub fn connect_timeout(mut self, connect_timeout: Duration) -> ClientBuilder {
        self.connect_timeout = connect_timeout;
        self
    }

    /// Stays at the member of a group of brokers that it has connected to, instead of going to the leader. While that
    /// member stands by, it answers only [`Client::backup`].
    #[must_use]
    pub fn stay_at_member(mut self) -> ClientBuilder {
        self.peer.stays_at_member = true;
        self
    }

    /// Connects. Fails at once if the broker refuses, and with [`Error::Unreachable`] if no broker answers in time.
    /// Call it inside a tokio runtime: a task on that runtime drives the connection.
    pub async fn connect(self) -> Result<Client, Error> {
        self.peer.check()?;
        let mut dialer = Dialer::new(self.peer);
        let connection = dialer.dial(Some(Instant::now() + self.connect_timeout)).await?;
        let welcome = Arc::clone(connection.welcome());
        // Reconnects use the same name, even if the broker chose it.
        dialer.peer.identity = Some(welcome.identity.clone());
        let shared = Arc::new(ClientShared::new(dialer.peer.clone(), self.connect_timeout, welcome));
        tokio::spawn(drive(Arc::clone(&shared), dialer, connection));
        Ok(Client::new(shared))
    }
}
