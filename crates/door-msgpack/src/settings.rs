//! What the door is told at its start. Addresses are not among it: whoever starts the door binds them.

use tenure_door_kit::DoorSettings;

#[derive(Clone, Debug)]
pub struct Settings {
    /// What every door is told: caps, deadlines, TLS.
    pub door: DoorSettings,
    /// How many tasks a worker of the older dialect is sent at once: it has no way to say.
    pub older_worker_slots: u32,
    /// How the broker calls itself, for people to read.
    pub software: Box<str>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            door: DoorSettings::default(),
            older_worker_slots: 200,
            software: concat!("tenure ", env!("CARGO_PKG_VERSION")).into(),
        }
    }
}
