//! Bytes ↔ frames and messages. The native protocol lives in a crate of its own, because clients speak it too.

pub use tenure_wire::limits::FRAME_BYTES_MAX;
pub use tenure_wire::{
    DecodeError, FrameError, Frames, decode_to_broker, encode_notice, encode_reply, split_frames,
};
