//! The message of a call. The library allocates a whole message as soon as its length is announced, so the length
//! counts against the byte budget, and a message that stays unfinished ends its call.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use http_body::{Frame, SizeHint};
use tenure_door_kit::{Charge, Door};
use tokio::time::{Instant, Sleep, sleep};
use tonic::Status;
use tonic::body::Body;

use crate::flow::no_memory;

pub(super) struct Incoming {
    body: Body,
    door: Arc<Door>,
    /// The size of its largest message, until the call is over: the library keeps that much.
    charge: Charge,
    scan: Scan,
    within: Duration,
    /// Set again with each piece of an unfinished message.
    unfinished: Pin<Box<Sleep>>,
}

impl Incoming {
    pub(super) fn new(body: Body, door: &Arc<Door>) -> Incoming {
        let within = door.settings.frame_within;
        Incoming {
            body,
            door: Arc::clone(door),
            charge: door.settings.budget.charge(),
            scan: Scan::default(),
            within,
            unfinished: Box::pin(sleep(within)),
        }
    }

    /// Counts the lengths announced in a piece.
    fn take(&mut self, piece: &Bytes) -> Result<(), Status> {
        self.scan.feed(piece.clone());
        self.unfinished.as_mut().reset(Instant::now() + self.within);
        self.charge.set(self.scan.largest).map_err(|exhausted| {
            self.door.counters.count("no_memory");
            tracing::warn!(door = self.door.name, %exhausted, "call refused: the connection buffers are full");
            no_memory()
        })
    }
}

impl http_body::Body for Incoming {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(piece) = frame.data_ref()
                    && let Err(no) = self.take(piece)
                {
                    return Poll::Ready(Some(Err(no)));
                }
            }
            Poll::Ready(_) => {}
            Poll::Pending if self.scan.is_within() && self.unfinished.as_mut().poll(cx).is_ready() => {
                self.door.counters.count("unfinished");
                let no = Status::deadline_exceeded("the message was not complete in time");
                return Poll::Ready(Some(Err(no)));
            }
            Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Finds the lengths of messages: one byte for the compression, four for the length, then that many bytes.
#[derive(Debug, Default)]
struct Scan {
    head: Vec<u8>,
    missing: usize,
    largest: usize,
}

const HEAD_BYTES: usize = 5;

impl Scan {
    fn feed(&mut self, mut piece: Bytes) {
        while !piece.is_empty() {
            let body = piece.len().min(self.missing);
            piece.advance(body);
            self.missing -= body;
            if self.missing > 0 || piece.is_empty() {
                continue;
            }
            let head = piece.split_to(piece.len().min(HEAD_BYTES - self.head.len()));
            self.head.extend_from_slice(&head);
            if let [_, length @ ..] = &self.head[..]
                && let Ok(length) = <[u8; 4]>::try_from(length)
            {
                self.missing = u32::from_be_bytes(length) as usize;
                self.largest = self.largest.max(self.missing);
                self.head.clear();
            }
        }
    }

    /// Whether a message is incomplete.
    fn is_within(&self) -> bool {
        self.missing > 0 || !self.head.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_found_however_the_bytes_are_cut() {
        let bytes: Vec<u8> =
            [&[0, 0, 0, 0, 3][..], b"abc", &[0, 0, 0, 0, 0], &[0, 0, 0, 1, 0], &[7; 256]].concat();
        for size in 1..bytes.len() {
            let mut scan = Scan::default();
            for piece in bytes.chunks(size) {
                scan.feed(Bytes::copy_from_slice(piece));
            }
            assert!(!scan.is_within(), "{size}: {scan:?}");
            assert_eq!(scan.largest, 256);
        }
        let mut scan = Scan::default();
        scan.feed(Bytes::from_static(&[0, 1, 0, 0, 0]));
        assert!(scan.is_within() && scan.largest == 16 << 20);
    }
}
