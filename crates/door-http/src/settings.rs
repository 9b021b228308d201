//! The settings of the door. They contain no addresses, because the caller binds the listener.

use std::time::Duration;

use tenure_door_kit::DoorSettings;
use tenure_hub::limits::BODY_BYTES_MAX;

/// The settings of the HTTP door.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Settings that all doors share: limits, deadlines, TLS.
    pub door: DoorSettings,
    /// Names under which browsers and clients may reach the door, beside addresses and `localhost`.
    pub hosts: Vec<String>,
    /// Refuses requests that change something, whatever the key allows: for a dashboard that many people may open.
    pub read_only: bool,
    /// Maximum length of the body of a request.
    pub request_bytes_max: usize,
    /// How long a connection may stay without a request.
    pub idle: Duration,
    /// Maximum time that one request may wait for a task to end or to arrive.
    pub wait_max: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            door: DoorSettings::default(),
            hosts: Vec::new(),
            read_only: false,
            request_bytes_max: REQUEST_BYTES_MAX,
            idle: Duration::from_secs(75),
            wait_max: Duration::from_secs(300),
        }
    }
}

/// A body of the largest size in base64, and the JSON around it.
pub(crate) const REQUEST_BYTES_MAX: usize = BODY_BYTES_MAX / 3 * 4 + (64 << 10);
