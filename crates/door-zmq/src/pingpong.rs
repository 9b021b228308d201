//! READY / PING / PONG: the frames of this small protocol as typed messages, and back.
//!
//! Workers use one socket, clients the other. Every message begins with an empty frame. There are three commands;
//! any other message is work or a result.

use bytes::Bytes;

/// The most routing frames before a client's empty frame.
pub const ROUTE_FRAMES_MAX: usize = 4;

const READY: &[u8] = b"READY";
const PING: &[u8] = b"PING";
const PONG: &[u8] = b"PONG";
const EXIT: &[u8] = b"EXIT";
/// The first frame of the older form of a result.
const JOB_COMPLETE: &[u8] = b"JOB COMPLETE";

/// A message from a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FromWorker {
    /// It can take a job.
    Ready,
    /// It is alive, and checks whether the broker is.
    Ping,
    /// The result of the job it was given.
    Result {
        /// In the older form: the address from the job, or one of the worker's own.
        address: Option<Bytes>,
        /// The frames of the result.
        body: Vec<Bytes>,
    },
}

/// Work from a client, with the frames that lead back to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Work {
    /// The frames that lead back to the client.
    pub route: Vec<Bytes>,
    /// The frames of the work.
    pub body: Vec<Bytes>,
}

/// Why a message is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[allow(missing_docs, reason = "the texts say it")]
pub enum PingPongError {
    #[error("a message that does not begin with an empty frame")]
    NoDelimiter,
    #[error("a message with nothing after its empty frame")]
    NoBody,
    #[error("a body that a worker would read as PONG")]
    ControlWord,
}

impl PingPongError {
    /// A short constant word for counters and log fields.
    pub fn kind(self) -> &'static str {
        match self {
            PingPongError::NoDelimiter => "no_delimiter",
            PingPongError::NoBody => "no_body",
            PingPongError::ControlWord => "control_word",
        }
    }
}

/// Parses a message on the workers' socket. A result that equals a command is read as that command.
pub fn parse_worker(mut frames: Vec<Bytes>) -> Result<FromWorker, PingPongError> {
    if !frames.first().is_some_and(Bytes::is_empty) {
        return Err(PingPongError::NoDelimiter);
    }
    let body = frames.split_off(1);
    match &body[..] {
        [] => Err(PingPongError::NoBody),
        [word] if word.as_ref() == READY => Ok(FromWorker::Ready),
        [word] if word.as_ref() == PING => Ok(FromWorker::Ping),
        [word, address, delimiter, result @ ..] if word.as_ref() == JOB_COMPLETE && delimiter.is_empty() => {
            Ok(FromWorker::Result { address: Some(address.clone()), body: result.to_vec() })
        }
        _ => Ok(FromWorker::Result { address: None, body }),
    }
}

/// Reads a message on the clients' socket.
pub fn parse_client(mut frames: Vec<Bytes>) -> Result<Work, PingPongError> {
    let delimiter = frames
        .iter()
        .take(ROUTE_FRAMES_MAX + 1)
        .position(Bytes::is_empty)
        .ok_or(PingPongError::NoDelimiter)?;
    let body = frames.split_off(delimiter + 1);
    frames.truncate(delimiter);
    if body.is_empty() {
        return Err(PingPongError::NoBody);
    }
    if !can_be_sent(&body) {
        return Err(PingPongError::ControlWord);
    }
    Ok(Work { route: frames, body })
}

/// Whether a worker reads this as a job: everything but PONG.
pub fn can_be_sent(body: &[Bytes]) -> bool {
    !matches!(body, [word] if word.as_ref() == PONG)
}

/// Whether a worker that knows EXIT would read this as EXIT.
pub fn is_exit(body: &[Bytes]) -> bool {
    matches!(body, [word] if word.as_ref() == EXIT)
}

/// Ends a drained worker.
pub fn exit() -> Vec<Bytes> {
    vec![Bytes::new(), Bytes::from_static(EXIT)]
}

/// The answer to PING.
pub fn pong() -> Vec<Bytes> {
    vec![Bytes::new(), Bytes::from_static(PONG)]
}

/// A job for a worker.
pub fn job(body: &[Bytes]) -> Vec<Bytes> {
    delimited(&[], body)
}

/// A job in the older form, with an address that comes back with the result.
pub fn addressed_job(address: Bytes, body: &[Bytes]) -> Vec<Bytes> {
    [&[Bytes::new(), address, Bytes::new()], body].concat()
}

/// A result for the client that sent the work.
pub fn result(route: &[Bytes], body: &[Bytes]) -> Vec<Bytes> {
    delimited(route, body)
}

fn delimited(route: &[Bytes], body: &[Bytes]) -> Vec<Bytes> {
    let mut frames = Vec::with_capacity(route.len() + 1 + body.len());
    frames.extend_from_slice(route);
    frames.push(Bytes::new());
    frames.extend_from_slice(body);
    frames
}
