//! Takes the frames of both dialects out of the received bytes.

use bytes::{Bytes, BytesMut};
use tenure_door_kit::Turn;

use crate::codec::{FrameError, split_frames};

/// The longest frame of a peer that has not logged in.
pub(crate) const UNAUTHENTICATED_FRAME_BYTES_MAX: usize = 16 << 10;

/// Passes complete frames to a session until there are no more or the connection closes. `most` is the current frame
/// limit: a login raises it.
pub(crate) fn take_frames<S>(
    session: &mut S,
    arrived: &mut BytesMut,
    turn: &mut Turn,
    most: impl Fn(&S) -> usize,
    mut take: impl FnMut(&mut S, &Bytes, &mut Turn),
) -> Result<(), FrameError> {
    loop {
        let limit = most(session);
        let frames = split_frames(arrived, limit)?;
        if frames.is_empty() {
            return Ok(());
        }
        for frame in frames {
            if turn.close {
                return Ok(());
            }
            take(session, &frame, turn);
        }
    }
}
