//! Entry point for fuzzers: any bytes, and the invariants that must hold.

use bytes::BytesMut;

use super::{CodecError, PeerAdmission, ZmtpEvent, ZmtpLimits, ZmtpPeer};

/// Feeds `bytes` to a connection and checks what holds for every input: no panic, the same events however the
/// stream is split, no more memory than the limits allow, and every message decoded or refused by name.
///
/// The first byte chooses the admission and the split, so that a fuzzer reaches all combinations.
pub fn fuzz(bytes: &[u8]) {
    let Some((&choice, stream)) = bytes.split_first() else { return };
    let admission = if choice & 1 == 0 { PeerAdmission::Anyone } else { PeerAdmission::Credentials };
    let piece = usize::from(choice >> 1).max(1);

    let whole = run(stream, stream.len().max(1), admission);
    let cut = run(stream, piece, admission);
    assert_eq!(whole, cut, "how a stream is cut does not change what it says");

    for event in whole.events {
        if let ZmtpEvent::Message(frames) = event {
            let packed = crate::body::pack(&frames);
            assert_eq!(crate::body::unpack(&packed), frames, "a packed body comes back as it was");
            let _ = crate::pingpong::parse_worker(frames.clone());
            let _ = crate::pingpong::parse_client(frames.clone());
            crate::mdp::probe(frames);
        }
    }
}

/// Small limits, so that a fuzzer's short inputs reach them.
const LIMITS: ZmtpLimits = ZmtpLimits { frame_bytes: 1 << 10, frames: 32, message_bytes: 2 << 10 };

#[derive(Debug, PartialEq, Eq)]
struct Run {
    events: Vec<ZmtpEvent>,
    out: BytesMut,
    error: Option<CodecError>,
}

fn run(stream: &[u8], piece: usize, admission: PeerAdmission) -> Run {
    let mut out = BytesMut::new();
    let mut peer = ZmtpPeer::new(admission, LIMITS, &mut out);
    let mut events = Vec::new();
    for chunk in stream.chunks(piece) {
        if let Err(error) = receive(&mut peer, chunk, &mut out, &mut events) {
            assert_eq!(peer.held_bytes(), 0, "a connection that is over holds nothing");
            return Run { events, out, error: Some(error) };
        }
        // One whole message, the header of the next frame, and what was just read.
        let bound = LIMITS.message_bytes + LIMITS.frames * size_of::<bytes::Bytes>() + (9 << 10) + piece;
        assert!(peer.held_bytes() <= bound, "{} bytes held", peer.held_bytes());
    }
    Run { events, out, error: None }
}

/// Receives and, since the stream cannot wait, admits every peer with credentials at once.
fn receive(
    peer: &mut ZmtpPeer,
    chunk: &[u8],
    out: &mut BytesMut,
    events: &mut Vec<ZmtpEvent>,
) -> Result<(), CodecError> {
    peer.input().extend_from_slice(chunk);
    while let Some(event) = peer.next_event(out)? {
        if matches!(event, ZmtpEvent::Credentials { .. }) {
            peer.admit(out);
        }
        events.push(event);
    }
    Ok(())
}
