//! How much one connection may make the broker hold.

/// The limits of one connection. They are checked before memory is given, so that a peer that only announces much
/// costs nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The longest single frame.
    pub frame_bytes: usize,
    /// The most frames in one message. A frame costs memory even when it is empty.
    pub frames: usize,
    /// The most bytes in one message, all frames together.
    pub message_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { frame_bytes: 64 << 20, frames: crate::body::FRAMES_MAX, message_bytes: 64 << 20 }
    }
}

/// The longest command. Commands are a handshake's few properties and heartbeats; nothing honest comes near this.
pub(super) const COMMAND_BYTES_MAX: usize = 8 << 10;
