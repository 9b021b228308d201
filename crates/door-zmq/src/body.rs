//! How the frames of a body become the bytes of a task, and back.
//!
//! Everywhere else in the broker a body or result is one string of bytes. A body of one frame *is* those bytes,
//! untouched, so a worker behind any other door sees exactly what the ZeroMQ client sent. A body of several frames (or
//! of none) is packed:
//!
//! ```text
//! F5 'f' 'r' 'a' 'm' 'e' 's' 01   then for each frame: length (4 bytes, big end first), bytes
//! ```
//!
//! Coming back, bytes that have exactly this form are several frames and anything else is one. A single frame that
//! happens to begin with the mark is packed too, so unpacking what was packed always gives the same frames. The mark
//! begins with a byte no UTF-8 text contains.

use bytes::{BufMut, Bytes, BytesMut};

/// The most frames a body may have.
pub const FRAMES_MAX: usize = 65_536;

const MARK: &[u8; 8] = b"\xf5frames\x01";
const LENGTH_BYTES: usize = 4;

/// The bytes of a task, from frames.
pub fn pack(frames: &[Bytes]) -> Bytes {
    match frames {
        [single] if !single.starts_with(MARK) => single.clone(),
        _ => {
            let size = frames.iter().map(|frame| LENGTH_BYTES + frame.len()).sum::<usize>();
            let mut packed = BytesMut::with_capacity(MARK.len() + size);
            packed.put_slice(MARK);
            for frame in frames {
                packed.put_u32(frame.len() as u32);
                packed.put_slice(frame);
            }
            packed.freeze()
        }
    }
}

/// The frames of a task's bytes. Nothing is copied.
pub fn unpack(bytes: &Bytes) -> Vec<Bytes> {
    read_packed(bytes).unwrap_or_else(|| vec![bytes.clone()])
}

fn read_packed(bytes: &Bytes) -> Option<Vec<Bytes>> {
    if !bytes.starts_with(MARK) {
        return None;
    }
    let mut rest = bytes.slice(MARK.len()..);
    let mut frames = Vec::new();
    while !rest.is_empty() {
        let length = rest.first_chunk::<LENGTH_BYTES>()?;
        let end = LENGTH_BYTES.checked_add(u32::from_be_bytes(*length) as usize)?;
        if rest.len() < end || frames.len() == FRAMES_MAX {
            return None;
        }
        frames.push(rest.split_to(end).slice(LENGTH_BYTES..));
    }
    Some(frames)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(parts: &[&'static [u8]]) -> Vec<Bytes> {
        parts.iter().map(|part| Bytes::from_static(part)).collect()
    }

    #[test]
    fn a_single_frame_passes_through_as_its_bytes() {
        for part in [&b""[..], b"hello", b"\xf5", b"\xf5frames", &[0; 300]] {
            assert_eq!(pack(&[Bytes::copy_from_slice(part)]), part);
        }
    }

    #[test]
    fn several_frames_have_a_form_that_can_be_read_byte_by_byte() {
        let packed = pack(&frames(&[b"ab", b"", b"c"]));
        assert_eq!(&packed[..], b"\xf5frames\x01\0\0\0\x02ab\0\0\0\0\0\0\0\x01c");
    }

    #[test]
    fn whatever_was_packed_comes_back_as_the_same_frames() {
        let marked: &[u8] = b"\xf5frames\x01\0\0\0\x01x";
        let (empty, mark): (&[u8], &[u8]) = (b"", MARK);
        let cases: [&[&[u8]]; 7] =
            [&[], &[empty], &[b"a", b"b"], &[empty, empty], &[mark], &[marked], &[marked, empty]];
        for parts in cases {
            let frames = frames(parts);
            assert_eq!(unpack(&pack(&frames)), frames);
        }
    }

    #[test]
    fn bytes_that_only_look_packed_stay_one_frame() {
        for bytes in
            [&b"\xf5frames\x01\0\0\0\x02a"[..], b"\xf5frames\x01\0\0", b"\xf5frames\x01\xff\xff\xff\xffa"]
        {
            assert_eq!(unpack(&Bytes::from_static(bytes)), [Bytes::from_static(bytes)]);
        }
    }

    #[test]
    fn a_peer_cannot_make_millions_of_frames_out_of_zero_bytes() {
        let mut bytes = MARK.to_vec();
        bytes.resize(MARK.len() + 4 * (FRAMES_MAX + 1), 0);
        assert_eq!(unpack(&bytes.into()).len(), 1);
    }
}
