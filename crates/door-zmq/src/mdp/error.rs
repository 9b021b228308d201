//! Why a message is dropped.

/// A message that is not valid Majordomo. The door drops and counts it; the connection stays open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum MdpError {
    #[error("a message without frames")]
    Empty,
    #[error("no header of a known dialect")]
    UnknownHeader,
    #[error("an unknown command byte")]
    UnknownCommand,
    #[error("a command that only the broker sends")]
    NotForBroker,
    #[error("a message with too few or too many frames")]
    FrameCount,
    #[error("a service name that is empty, too long or not printable")]
    ServiceName,
    #[error("a number was expected")]
    Number,
    #[error("an address frame that is empty or not followed by an empty frame")]
    Envelope,
    #[error("a registration that exceeds a limit")]
    Registration,
    #[error("parameters that are not a CBOR map within the limits")]
    Cbor,
}

impl MdpError {
    /// A short constant word for counters and log fields.
    pub fn kind(self) -> &'static str {
        match self {
            MdpError::Empty => "empty",
            MdpError::UnknownHeader => "unknown_header",
            MdpError::UnknownCommand => "unknown_command",
            MdpError::NotForBroker => "not_for_broker",
            MdpError::FrameCount => "frame_count",
            MdpError::ServiceName => "service_name",
            MdpError::Number => "number",
            MdpError::Envelope => "envelope",
            MdpError::Registration => "registration",
            MdpError::Cbor => "cbor",
        }
    }
}
