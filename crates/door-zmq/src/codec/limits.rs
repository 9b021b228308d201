//! How much memory one connection may use.

use tenure_hub::limits::BODY_BYTES_MAX;

/// The limits of one connection. They are checked before memory is allocated, so that an announced length alone costs
/// nothing.
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
        // Twice the limit of a body or result: a message slightly above it still gets a proper refusal, and a batch
        // has many bodies.
        let bytes = 2 * BODY_BYTES_MAX;
        ZmtpLimits { frame_bytes: bytes, frames: crate::body::FRAMES_MAX, message_bytes: bytes }
    }
}

/// The longest command. Commands are the few properties of a handshake and heartbeats, which are far shorter.
pub(super) const COMMAND_BYTES_MAX: usize = 8 << 10;
