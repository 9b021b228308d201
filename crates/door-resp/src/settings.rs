//! What the door is told at its start.

use std::time::Duration;

use crate::codec::Limits;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long a job submitted here may run, unless it says otherwise.
    pub run_limit: Duration,
    /// Bytes of one message.
    pub message_bytes_max: usize,
    /// Connections at the same time, of all and of one address.
    pub connections_max: usize,
    pub connections_per_address_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            run_limit: Duration::from_secs(3600),
            message_bytes_max: Limits::MESSAGE_BYTES_MAX,
            connections_max: 50_000,
            connections_per_address_max: 50_000,
        }
    }
}
