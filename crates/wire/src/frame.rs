//! Frames: a big-endian length of four bytes, then that many bytes. Splits off all complete frames at once, so that a
//! read of many small frames costs one step.

use bytes::{Buf, Bytes, BytesMut};

use crate::error::FrameError;

/// The bytes in front of every frame.
pub const LENGTH_BYTES: usize = 4;

/// Buffer space reserved for any frame that has started to arrive.
const ROOM_BYTES: usize = 16 << 10;

/// Splits every complete frame off the front of `arrived`. The rest is the start of the next frame.
///
/// The buffer for a large frame grows as its bytes arrive, doubling each time, so that a length alone takes no memory.
pub fn split_frames(arrived: &mut BytesMut, bytes_max: usize) -> Result<Frames, FrameError> {
    let mut end = 0;
    while let Some(length) = length_at(arrived, end) {
        if length > bytes_max {
            // The frames before it are valid: they are returned first, and the error follows at the next call.
            if end > 0 {
                break;
            }
            return Err(FrameError::TooLong { length, limit: bytes_max });
        }
        let next = end + LENGTH_BYTES + length;
        if next > arrived.len() {
            let missing = next - arrived.len();
            let complete = arrived.split_to(end).freeze();
            arrived.reserve(missing.min(arrived.len().max(ROOM_BYTES)));
            return Ok(Frames { complete });
        }
        end = next;
    }
    Ok(Frames { complete: arrived.split_to(end).freeze() })
}

/// Complete frames in the order in which they arrived, without their lengths.
#[derive(Clone, Debug, Default)]
pub struct Frames {
    complete: Bytes,
}

impl Frames {
    /// Whether all frames have been read.
    pub fn is_empty(&self) -> bool {
        self.complete.is_empty()
    }
}

impl Iterator for Frames {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.complete.is_empty() {
            return None;
        }
        let length = self.complete.get_u32() as usize;
        Some(self.complete.split_to(length))
    }
}

/// Starts a frame at the end of `out`; [`finish`] fills in its length.
pub(crate) fn begin(out: &mut BytesMut) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; LENGTH_BYTES]);
    start
}

/// Writes the length of the frame that began at `start`.
pub(crate) fn finish(out: &mut BytesMut, start: usize) {
    let length = out.len() - start - LENGTH_BYTES;
    let length = u32::try_from(length).expect("a message is far smaller than 4 GiB");
    out[start..start + LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
}

fn length_at(arrived: &[u8], at: usize) -> Option<usize> {
    let word = arrived.get(at..)?.first_chunk::<LENGTH_BYTES>()?;
    Some(u32::from_be_bytes(*word) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(bodies: &[&[u8]]) -> BytesMut {
        let mut out = BytesMut::new();
        for body in bodies {
            let start = begin(&mut out);
            out.extend_from_slice(body);
            finish(&mut out, start);
        }
        out
    }

    #[test]
    fn all_complete_frames_come_out_and_the_rest_waits() {
        let mut arrived = framed(&[b"one", b"", b"three"]);
        arrived.extend_from_slice(&[0, 0, 0, 9, b'x']);
        let frames: Vec<Bytes> = split_frames(&mut arrived, 100).unwrap().collect();
        assert_eq!(frames, [&b"one"[..], b"", b"three"]);
        assert_eq!(&arrived[..], [0, 0, 0, 9, b'x']);
        arrived.extend_from_slice(b"yyyyyyyy");
        let frames: Vec<Bytes> = split_frames(&mut arrived, 100).unwrap().collect();
        assert_eq!(frames, [&b"xyyyyyyyy"[..]]);
        assert!(arrived.is_empty());
    }

    #[test]
    fn frames_come_out_alike_however_the_stream_is_cut() {
        let stream = framed(&[b"a", b"bb", b"", b"cccccccccc"]);
        for step in 1..stream.len() {
            let mut arrived = BytesMut::new();
            let mut frames = Vec::new();
            for chunk in stream.chunks(step) {
                arrived.extend_from_slice(chunk);
                frames.extend(split_frames(&mut arrived, 10).unwrap());
            }
            assert_eq!(frames, [&b"a"[..], b"bb", b"", b"cccccccccc"], "in steps of {step}");
        }
    }

    #[test]
    fn a_frame_that_is_too_long_is_refused_by_its_length_alone_after_the_good_ones() {
        let mut arrived = framed(&[b"good"]);
        arrived.extend_from_slice(&u32::MAX.to_be_bytes());
        assert_eq!(split_frames(&mut arrived, 100).unwrap().count(), 1);
        let refused = split_frames(&mut arrived, 100).unwrap_err();
        assert_eq!(refused, FrameError::TooLong { length: u32::MAX as usize, limit: 100 });
    }

    #[test]
    fn an_announcement_alone_takes_no_memory() {
        let mut arrived = BytesMut::new();
        arrived.extend_from_slice(&(16_u32 << 20).to_be_bytes());
        assert!(split_frames(&mut arrived, 16 << 20).unwrap().is_empty());
        assert!(arrived.capacity() < 64 << 10, "{}", arrived.capacity());
    }
}
