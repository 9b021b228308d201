//! What the door is told at its start. Addresses are not among it: whoever starts the door binds them.

use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Settings {
    /// How long a stranger may take to introduce itself.
    pub hello_within: Duration,
    /// How long a peer may leave what it is sent unread.
    pub read_within: Duration,
    /// How many connections may be open at once, strangers included.
    pub connections_max: usize,
    /// How many tasks a worker of the older dialect is sent at once: it has no way to say.
    pub older_worker_slots: u32,
    /// How the broker calls itself, for people to read.
    pub software: Box<str>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            hello_within: Duration::from_secs(10),
            read_within: Duration::from_secs(30),
            connections_max: 100_000,
            older_worker_slots: 200,
            software: concat!("tenure ", env!("CARGO_PKG_VERSION")).into(),
        }
    }
}
