//! The output of a command, on its way to the broker while it runs.
//!
//! A short command sends nothing: its output is in the result. A longer one soon sends what it printed first, and then, less
//! and less often, what it printed last. Pieces carry their place in the stream, so a reader sees what is missing.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use tenure_client::LogStream;
use tokio::time::Instant;

/// A command that ends before this sends nothing: its result has everything, and it would cost the broker a piece. It is
/// short, so that a command that takes its worker down leaves what it printed before.
const FIRST_AFTER: Duration = Duration::from_millis(100);
/// How often the beginning is sent.
const EVERY: Duration = Duration::from_millis(500);
/// How much is sent at that pace.
const HEAD_BYTES: u64 = 1 << 20;
/// After that, the pauses double up to this.
const EVERY_MAX: Duration = Duration::from_secs(300);
/// How much of each stream waits to be sent: its end.
const WAITING_BYTES: usize = 64 << 10;
/// How much of each stream is sent at a time once there was much.
const TAIL_BYTES: usize = 16 << 10;
/// The longest piece that the broker takes.
const PIECE_BYTES_MAX: usize = 64 << 10;

/// The output of one attempt.
#[derive(Debug)]
pub(crate) struct Live {
    stdout: UnsentOutput,
    stderr: UnsentOutput,
    sent_bytes: u64,
    next_at: Instant,
    pause: Duration,
}

/// The output of a stream that is not sent yet.
#[derive(Debug, Default)]
struct UnsentOutput {
    bytes: VecDeque<u8>,
    /// Where they begin in the stream.
    offset: u64,
}

/// A piece to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Printed {
    pub(crate) stream: LogStream,
    pub(crate) offset: u64,
    pub(crate) bytes: Bytes,
}

impl Live {
    pub(crate) fn new(now: Instant) -> Live {
        Live {
            stdout: UnsentOutput::default(),
            stderr: UnsentOutput::default(),
            sent_bytes: 0,
            next_at: now + FIRST_AFTER,
            pause: EVERY,
        }
    }

    pub(crate) fn add(&mut self, stream: LogStream, bytes: &[u8]) {
        match stream {
            LogStream::Stdout => self.stdout.add(bytes),
            LogStream::Stderr => self.stderr.add(bytes),
        }
    }

    /// When the next pieces are due, if there are any.
    pub(crate) fn due(&self) -> Option<Instant> {
        (!self.stdout.bytes.is_empty() || !self.stderr.bytes.is_empty()).then_some(self.next_at)
    }

    /// The pieces that are sent now.
    pub(crate) fn take(&mut self, now: Instant) -> Vec<Printed> {
        let is_head = self.sent_bytes < HEAD_BYTES;
        let limit = if is_head { WAITING_BYTES } else { TAIL_BYTES };
        let pieces = self.pieces(limit);
        if !is_head {
            self.pause = (self.pause * 2).min(EVERY_MAX);
        }
        self.next_at = now + self.pause;
        pieces
    }

    /// The last pieces of an attempt. One that completed without having sent anything has all of it in its result.
    pub(crate) fn finish(&mut self, completed: bool) -> Vec<Printed> {
        if completed && self.sent_bytes == 0 {
            return Vec::new();
        }
        self.pieces(WAITING_BYTES)
    }

    fn pieces(&mut self, limit: usize) -> Vec<Printed> {
        let mut pieces = Vec::new();
        for (stream, waiting) in
            [(LogStream::Stdout, &mut self.stdout), (LogStream::Stderr, &mut self.stderr)]
        {
            pieces.extend(waiting.take(stream, limit));
        }
        self.sent_bytes += pieces.iter().map(|piece| piece.bytes.len() as u64).sum::<u64>();
        pieces
    }
}

impl UnsentOutput {
    fn add(&mut self, bytes: &[u8]) {
        // Of a long piece only its end can stay.
        let skipped = bytes.len().saturating_sub(WAITING_BYTES);
        self.bytes.extend(&bytes[skipped..]);
        self.drop_front(skipped, WAITING_BYTES);
    }

    /// Leaves the last bytes. `skipped` more were never here.
    fn drop_front(&mut self, skipped: usize, left: usize) {
        let surplus = self.bytes.len().saturating_sub(left);
        self.bytes.drain(..surplus);
        self.offset += (skipped + surplus) as u64;
    }

    fn take(&mut self, stream: LogStream, limit: usize) -> Option<Printed> {
        self.drop_front(0, limit.min(PIECE_BYTES_MAX));
        if self.bytes.is_empty() {
            return None;
        }
        let bytes: Bytes = std::mem::take(&mut self.bytes).into_iter().collect::<Vec<u8>>().into();
        let offset = self.offset;
        self.offset += bytes.len() as u64;
        Some(Printed { stream, offset, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_command_that_completes_sends_nothing() {
        let now = Instant::now();
        let mut live = Live::new(now);
        assert_eq!(live.due(), None);
        live.add(LogStream::Stdout, b"hello");
        assert_eq!(live.due(), Some(now + Duration::from_millis(100)));
        assert!(live.finish(true).is_empty());
        let rest = live.finish(false);
        assert_eq!((rest[0].offset, &rest[0].bytes[..]), (0, &b"hello"[..]));
    }

    #[test]
    fn pieces_say_where_they_begin_also_behind_a_hole() {
        let now = Instant::now();
        let mut live = Live::new(now);
        live.add(LogStream::Stderr, b"one");
        assert_eq!(live.take(now)[0].offset, 0);
        live.add(LogStream::Stderr, &vec![b'x'; WAITING_BYTES + 10]);
        let piece = &live.take(now)[0];
        assert_eq!((piece.offset, piece.bytes.len()), (13, WAITING_BYTES));
        live.add(LogStream::Stderr, b"end");
        assert_eq!(live.finish(true)[0].offset, 13 + WAITING_BYTES as u64);
    }

    #[test]
    fn a_chatty_command_is_heard_ever_more_rarely() {
        let mut now = Instant::now();
        let mut live = Live::new(now);
        let (mut sent, mut times) = (0, 0);
        let end = now + Duration::from_secs(24 * 3600);
        while now < end {
            live.add(LogStream::Stdout, &[b'x'; 100 << 10]);
            now = live.due().unwrap();
            sent += live.take(now).iter().map(|piece| piece.bytes.len()).sum::<usize>();
            times += 1;
        }
        assert!(sent < 8 << 20 && times < 500, "{sent} bytes in {times} pieces in a day");
    }
}
