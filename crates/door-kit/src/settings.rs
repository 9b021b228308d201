//! Settings that all doors share. They contain no addresses, because the caller binds the listeners.

use std::sync::Arc;
use std::time::Duration;

use crate::budget::ByteBudget;
use crate::connections::Connections;
use crate::forward::DoorGroup;
use crate::tls::Tls;

/// Bytes that all connections together may buffer beyond a small allowance each.
const BUFFERED_BYTES_MAX: usize = 256 << 20;
const CONNECTIONS_MAX: usize = 100_000;

/// The limits and timeouts of one door.
#[derive(Clone, Debug)]
pub struct DoorSettings {
    /// Maximum number of connections of this door, including those without a login.
    pub connections_max: usize,
    /// How many of them may come from one address.
    pub connections_per_address_max: usize,
    /// How long an untrusted peer may take for TLS handshake and login together.
    pub login_within: Duration,
    /// How long an unfinished frame may wait for its next byte.
    pub frame_within: Duration,
    /// How long a peer may leave sent data unread.
    pub read_within: Duration,
    /// The certificate of a TCP door with TLS.
    pub tls: Option<Tls>,
    /// The group whose members may forward connections to this door.
    pub group: Option<DoorGroup>,
    /// Shared by all doors of a broker.
    pub connections: Arc<Connections>,
    /// Shared by all doors of a broker.
    pub budget: Arc<ByteBudget>,
}

impl DoorSettings {
    /// Whether the door uses TLS.
    pub fn speaks_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Combines a door's own settings with those that all doors share.
    pub fn with_shared(&self, shared: &DoorSettings) -> DoorSettings {
        let per_address = self.connections_per_address_max.min(shared.connections_per_address_max);
        DoorSettings {
            connections_max: self.connections_max,
            connections_per_address_max: per_address,
            login_within: self.login_within,
            ..shared.clone()
        }
    }
}

impl Default for DoorSettings {
    fn default() -> DoorSettings {
        DoorSettings {
            connections_max: CONNECTIONS_MAX,
            connections_per_address_max: CONNECTIONS_MAX,
            login_within: Duration::from_secs(10),
            frame_within: Duration::from_secs(30),
            read_within: Duration::from_secs(60),
            tls: None,
            group: None,
            connections: Connections::new(CONNECTIONS_MAX),
            budget: ByteBudget::new(BUFFERED_BYTES_MAX),
        }
    }
}
