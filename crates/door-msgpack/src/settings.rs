//! The settings of the door. They contain no addresses, because the caller binds the listeners.

use tenure_door_kit::DoorSettings;

use crate::xmessage::XmessageSettings;

/// The settings of the native door.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Settings that all doors share: limits, deadlines, TLS.
    pub door: DoorSettings,
    /// Defaults for peers of the older dialect.
    pub xmessage: XmessageSettings,
    /// The broker's name and version, for people to read.
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
