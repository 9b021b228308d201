//! What the door is told at its start. Addresses are not among it: the caller binds them.

use std::time::Duration;

use tenure_door_kit::DoorSettings;

#[derive(Clone, Debug)]
pub struct Settings {
    /// What every door is told: caps, deadlines, TLS.
    pub door: DoorSettings,
    /// How many calls and streams one connection may have under way.
    pub streams_max: u32,
    /// How often a silent connection is asked whether it is still there, and how long it may take to say so.
    pub ping: Duration,
    pub ping_timeout: Duration,
    /// After so long without anything else, a subscriber hears a heartbeat.
    pub heartbeat: Duration,
    /// How many topics one answer of `GetTopics` lists.
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
