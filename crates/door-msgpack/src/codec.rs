//! Bytes ↔ frames and messages. The native protocol has its own crate, because clients use it too.

pub use tenure_wire::limits::FRAME_BYTES_MAX;
pub use tenure_wire::{
    DecodeError, FrameError, Frames, decode_to_broker, encode_notice, encode_reply, split_frames,
};
