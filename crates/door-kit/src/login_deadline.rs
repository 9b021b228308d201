//! The time that a peer has for its first admitted request, at doors whose protocol library reads the stream itself.
//! Bytes alone do not extend it: a peer without a key can send some.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::stream::DoorStream;

/// How long a connection lives on to send its last answer.
const GOODBYE: Duration = Duration::from_millis(500);

/// The deadline of one connection.
#[derive(Clone, Debug)]
pub struct LoginDeadline(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    phase: Phase,
    /// The task of the connection.
    waker: Option<Waker>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No request has been admitted yet.
    Unknown(Instant),
    Admitted,
    Ending(Instant),
}

impl Phase {
    fn admit(&mut self) {
        if matches!(self, Phase::Unknown(_)) {
            *self = Phase::Admitted;
        }
    }

    fn hold(&mut self, now: Instant, wait: Duration) {
        if let Phase::Unknown(until) = self {
            *until = (*until).max(now + wait + GOODBYE);
        }
    }

    fn end(&mut self, now: Instant) {
        if !matches!(self, Phase::Ending(_)) {
            *self = Phase::Ending(now + GOODBYE);
        }
    }

    fn ends_at(self) -> Option<Instant> {
        match self {
            Phase::Unknown(until) | Phase::Ending(until) => Some(until),
            Phase::Admitted => None,
        }
    }
}

impl LoginDeadline {
    /// The peer has this long.
    pub fn new(within: Duration) -> LoginDeadline {
        LoginDeadline::by(Instant::now() + within)
    }

    /// The peer has until this moment.
    pub fn by(login_by: Instant) -> LoginDeadline {
        let phase = Phase::Unknown(login_by);
        LoginDeadline(Arc::new(Mutex::new(State { phase, waker: None })))
    }

    /// The key of a request is valid, or the broker needs none.
    pub fn admit(&self) {
        self.lock().phase.admit();
    }

    /// The broker holds back the refusal of a wrong key, and the peer may read it.
    pub fn hold(&self, wait: Duration) {
        self.lock().phase.hold(Instant::now(), wait);
    }

    /// The connection ends, admitted or not, when there was time to send its last answer.
    pub fn end(&self) {
        let mut state = self.lock();
        state.phase.end(Instant::now());
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    /// When the connection ends; `waker` hears of an earlier time.
    fn ends_at(&self, waker: &Waker) -> Option<Instant> {
        let mut state = self.lock();
        match &mut state.waker {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
        state.phase.ends_at()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No statement leaves the state inconsistent, so a poisoned lock is safe to use.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stream that fails at its deadline.
#[derive(Debug)]
pub struct LoginStream<S = DoorStream> {
    stream: S,
    deadline: LoginDeadline,
    alarm: Pin<Box<Sleep>>,
}

impl<S> LoginStream<S> {
    /// The stream of a new connection.
    pub fn new(stream: S, deadline: LoginDeadline) -> LoginStream<S> {
        // The first poll sets it.
        LoginStream { stream, deadline, alarm: Box::pin(sleep_until(Instant::now())) }
    }

    /// Fails once the deadline has passed. Every poll checks it: a peer that reads nothing keeps the library from reading.
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let Some(ends_at) = self.deadline.ends_at(context.waker()) else { return Ok(()) };
        if self.alarm.deadline() != ends_at {
            self.alarm.as_mut().reset(ends_at);
        }
        match self.alarm.as_mut().poll(context) {
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LoginStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for LoginStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// How long a peer is listened to that sends these bytes and no more.
    async fn fails_after(deadline: LoginDeadline, bytes: &[u8]) -> Duration {
        let begun = Instant::now();
        let (mut peer, stream) = duplex(1 << 10);
        peer.write_all(bytes).await.expect("there is room");
        let ended = LoginStream::new(stream, deadline).read_to_end(&mut Vec::new()).await;
        assert_eq!(ended.map_err(|error| error.kind()), Err(io::ErrorKind::TimedOut));
        begun.elapsed()
    }

    #[tokio::test]
    async fn bytes_are_no_login() {
        let within = Duration::from_millis(20);
        for bytes in [&b""[..], b"P", b"PRI * HTTP/2.0"] {
            assert!(fails_after(LoginDeadline::new(within), bytes).await >= within);
        }
    }

    #[tokio::test]
    async fn a_stream_that_waits_hears_that_it_has_to_end() {
        let deadline = LoginDeadline::new(3600 * SECOND);
        deadline.admit();
        let (fails, ()) = tokio::join!(fails_after(deadline.clone(), b"x"), async { deadline.end() });
        assert!(fails >= GOODBYE);
    }

    #[test]
    fn an_admitted_request_takes_the_deadline_away_and_a_held_refusal_moves_it() {
        let begun = Instant::now();
        let by = begun + 10 * SECOND;
        let mut phase = Phase::Unknown(by);
        phase.hold(begun, 2 * SECOND);
        assert_eq!(phase.ends_at(), Some(by), "there is time left");
        phase.hold(by, 8 * SECOND);
        assert_eq!(phase.ends_at(), Some(by + 8 * SECOND + GOODBYE));
        phase.admit();
        assert_eq!(phase.ends_at(), None);
        phase.hold(by, 8 * SECOND);
        assert_eq!(phase.ends_at(), None);
        phase.end(by);
        assert_eq!(phase.ends_at(), Some(by + GOODBYE));
        phase.admit();
        phase.end(by + SECOND);
        assert_eq!(phase.ends_at(), Some(by + GOODBYE), "it stays so");
    }
}
