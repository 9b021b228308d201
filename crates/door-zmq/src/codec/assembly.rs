//! Assembles frames into messages, within limits.

use bytes::Bytes;

use super::{CodecError, ZmtpLimits};

/// The frames of an incomplete message.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    frames: Vec<Bytes>,
    bytes: usize,
}

impl Assembly {
    /// Adds a frame; returns the message if this was its last.
    pub(super) fn add(
        &mut self,
        body: Bytes,
        more: bool,
        limits: &ZmtpLimits,
    ) -> Result<Option<Vec<Bytes>>, CodecError> {
        if self.frames.len() >= limits.frames {
            return Err(CodecError::TooManyFrames { limit: limits.frames });
        }
        if body.len() > limits.message_bytes - self.bytes {
            return Err(CodecError::MessageTooLong { limit: limits.message_bytes });
        }
        self.bytes += body.len();
        self.frames.push(body);
        if more {
            return Ok(None);
        }
        self.bytes = 0;
        Ok(Some(std::mem::take(&mut self.frames)))
    }

    /// How much is held for the unfinished message.
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.frames.len() * size_of::<Bytes>()
    }
}
