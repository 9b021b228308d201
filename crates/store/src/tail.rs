//! A cache of the newest frames. A waiting worker gets its task right after the submission, so most bodies
//! are read from here. The writer adds each frame as it is, without copying any body.

use std::collections::VecDeque;
use std::sync::RwLock;

use bytes::{Bytes, BytesMut};
use tenure_engine::Blob;

#[derive(Debug)]
pub(crate) struct Tail {
    limit_bytes: usize,
    frames: RwLock<Frames>,
}

#[derive(Debug, Default)]
struct Frames {
    /// Ordered by position.
    frames: VecDeque<(u64, Bytes)>,
    bytes: usize,
}

/// A body that makes up less than one part in this many of its frame is copied, so that a slow reader of a
/// small body does not keep a large frame alive.
const SHARED_IF_ONE_IN: usize = 4;

impl Tail {
    pub(crate) fn new(limit_bytes: usize) -> Tail {
        Tail { limit_bytes, frames: RwLock::default() }
    }

    /// Adds the newest frame. Returns the buffer of an evicted frame if no reader uses it any more.
    pub(crate) fn push(&self, position: u64, frame: Bytes) -> Option<BytesMut> {
        let mut frames = self.frames.write().expect("no holder of the lock panics");
        let mut spent = None;
        frames.bytes += frame.len();
        frames.frames.push_back((position, frame));
        while frames.bytes > self.limit_bytes {
            let Some((_, oldest)) = frames.frames.pop_front() else { break };
            frames.bytes -= oldest.len();
            spent = oldest.try_into_mut().ok().or(spent);
        }
        spent
    }

    pub(crate) fn read(&self, blob: Blob) -> Option<Bytes> {
        let frames = self.frames.read().expect("no holder of the lock panics");
        let after = frames.frames.partition_point(|(position, _)| *position <= blob.at());
        let (position, frame) = frames.frames.get(after.checked_sub(1)?)?;
        let start = (blob.at() - position) as usize;
        let end = start + blob.bytes() as usize;
        if end > frame.len() {
            return None;
        }
        if blob.bytes() as usize * SHARED_IF_ONE_IN < frame.len() {
            return Some(Bytes::copy_from_slice(&frame[start..end]));
        }
        Some(frame.slice(start..end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_frames_are_found_and_the_oldest_fall_out() {
        let tail = Tail::new(20);
        tail.push(100, Bytes::from_static(b"0123456789"));
        tail.push(110, Bytes::from_static(b"abcdefghij"));
        assert_eq!(tail.read(Blob::new(103, 2)).unwrap(), "34");
        assert_eq!(tail.read(Blob::new(112, 8)).unwrap(), "cdefghij");
        assert_eq!(tail.read(Blob::new(112, 9)), None, "it would reach past the frame");
        assert_eq!(tail.read(Blob::new(99, 1)), None);
        tail.push(120, Bytes::from_static(b"x"));
        assert_eq!(tail.read(Blob::new(103, 2)), None, "the oldest fell out");
        assert_eq!(tail.read(Blob::new(120, 1)).unwrap(), "x");
    }
}
