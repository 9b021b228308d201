//! How much one connection may make the broker hold.

use tenure_hub::limits::BODY_BYTES_MAX;

/// The limits of one connection. They are checked before memory is given, so that a peer that only announces much
/// costs nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZmtpLimits {
    /// The longest single frame.
    pub frame_bytes: usize,
    /// The most frames in one message. A frame costs memory even when it is empty.
    pub frames: usize,
    /// The most bytes in one message, all frames together.
    pub message_bytes: usize,
}

impl Default for ZmtpLimits {
    fn default() -> ZmtpLimits {
        // Twice what a body or result may have: whoever is a little over is told so, and a batch has many bodies.
        let bytes = 2 * BODY_BYTES_MAX;
        ZmtpLimits { frame_bytes: bytes, frames: crate::body::FRAMES_MAX, message_bytes: bytes }
    }
}

/// The longest command. Commands are a handshake's few properties and heartbeats; nothing honest comes near this.
pub(super) const COMMAND_BYTES_MAX: usize = 8 << 10;
