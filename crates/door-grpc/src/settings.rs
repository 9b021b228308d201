//! The settings of the door. They contain no addresses, because the caller binds the listeners.

use std::time::Duration;

use tenure_door_kit::DoorSettings;

/// The settings of the gRPC door.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Settings that all doors share: limits, deadlines, TLS.
    pub door: DoorSettings,
    /// Maximum number of calls and streams in flight on one connection.
    pub streams_max: u32,
    /// How often the broker pings a silent connection, and how long the peer may take to answer.
    pub ping: Duration,
    /// How long the peer may take to answer a ping.
    pub ping_timeout: Duration,
    /// A subscriber gets a heartbeat after this much silence.
    pub heartbeat: Duration,
    /// Maximum number of topics in one reply to `GetTopics`.
    pub listed_topics_max: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            door: DoorSettings::default(),
            streams_max: 1_000,
            ping: Duration::from_secs(20),
            ping_timeout: Duration::from_secs(20),
            heartbeat: Duration::from_secs(30),
            listed_topics_max: 100_000,
        }
    }
}
