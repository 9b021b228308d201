//! What the door is told at its start. Addresses are not among it: whoever starts the door binds them.

use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Settings {
    /// How long a stranger may take to say its first words.
    pub hello_within: Duration,
    /// How many connections may be open at once, strangers included.
    pub connections_max: usize,
    /// How many calls and streams one connection may have under way.
    pub streams_max: u32,
    /// How often a silent connection is asked whether it is still there, and how long it may take to say so.
    pub ping: Duration,
    pub ping_timeout: Duration,
    /// After so long without anything else, a subscriber hears a heartbeat.
    pub heartbeat: Duration,
    /// The certificate and its key, if the door speaks TLS.
    pub tls: Option<Tls>,
}

/// A certificate chain and its private key, both in PEM.
#[derive(Clone)]
pub struct Tls {
    pub certificate: Vec<u8>,
    pub key: Vec<u8>,
}

/// The key stays out of logs.
impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            hello_within: Duration::from_secs(10),
            connections_max: 100_000,
            streams_max: 1_000,
            ping: Duration::from_secs(20),
            ping_timeout: Duration::from_secs(20),
            heartbeat: Duration::from_secs(30),
            tls: None,
        }
    }
}
