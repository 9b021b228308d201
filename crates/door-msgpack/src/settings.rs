//! What the door is told at its start. Addresses are not among it: whoever starts the door binds them.

use tenure_door_kit::DoorSettings;

use crate::xmessage::XmessageSettings;

#[derive(Clone, Debug)]
pub struct Settings {
    /// What every door is told: caps, deadlines, TLS.
    pub door: DoorSettings,
    /// Defaults for peers of the older dialect.
    pub xmessage: XmessageSettings,
    /// How the broker calls itself, for people to read.
    pub software: Box<str>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            door: DoorSettings::default(),
            xmessage: XmessageSettings::default(),
            software: concat!("tenure ", env!("CARGO_PKG_VERSION")).into(),
        }
    }
}
