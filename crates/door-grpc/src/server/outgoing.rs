//! A reply on its way out: it keeps its room until its last byte is sent or the client drops it.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;

use crate::flow::FlowPermit;

pub(super) struct Outgoing {
    body: Body,
    room: FlowPermit,
}

impl Outgoing {
    pub(super) fn new(body: Body, room: FlowPermit) -> Outgoing {
        Outgoing { body, room }
    }
}

impl http_body::Body for Outgoing {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let room = self.room.clone();
        let kept = |bytes| Bytes::from_owner(Kept { bytes, _room: room });
        Pin::new(&mut self.body).poll_frame(cx).map_ok(|frame| frame.map_data(kept))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The server reads the whole body at once and then drops it, so the bytes themselves hold the room.
struct Kept {
    bytes: Bytes,
    _room: FlowPermit,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
