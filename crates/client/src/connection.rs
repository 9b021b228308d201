//! One connection, frame by frame: for the client and the worker above it, and for latency-critical programs.
//!
//! The connection encodes requests into one output buffer. [`Connection::turn`] writes the whole buffer at once and
//! returns all replies and notices that have arrived. There is no task and no channel in between, and no reconnection.

use std::future::poll_fn;
use std::io::ErrorKind;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tenure_wire::hello::{Hello, Welcome};
use tenure_wire::limits::FRAME_BYTES_MAX;
use tenure_wire::{FromBroker, Notice, Reply, Request, decode_from_broker, encode_request, split_frames};

use crate::address::Address;
use crate::error::Error;
use crate::inherited::ListedSocket;
use crate::socket::Socket;

/// Maximum time for connecting and the handshake together.
pub const DIAL_TIMEOUT: Duration = Duration::from_secs(10);
/// Buffer space reserved for each read.
const READ_BYTES: usize = 64 << 10;
/// An empty output buffer larger than this is freed.
const OUT_KEPT_BYTES: usize = 1 << 20;

/// A connection after its handshake.
///
/// ```no_run
/// use tenure_client::{Connection, wire::{Request, hello::Hello}};
///
/// # async fn example() -> Result<(), tenure_client::Error> {
/// let mut connection = Connection::open(&"127.0.0.1".parse()?, Hello::default()).await?;
/// let number = connection.ask(&Request::Counts);
/// let mut arrived = Vec::new();
/// connection.turn(&mut arrived).await?;
/// println!("{number}: {arrived:?}");
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Connection {
    // Before the socket: fields are dropped in this order.
    _listed: ListedSocket,
    socket: Socket,
    out: BytesMut,
    arrived: BytesMut,
    asked: u64,
    welcome: Arc<Welcome>,
}

impl Connection {
    /// Connects and performs the handshake within [`DIAL_TIMEOUT`]. Sets the protocol version in `hello`.
    pub async fn open(address: &Address, hello: Hello) -> Result<Connection, Error> {
        let opened = tokio::time::timeout(DIAL_TIMEOUT, Connection::open_until_ready(address, hello));
        opened.await.unwrap_or_else(|_| Err(Error::lost("no welcome within 10 s")))
    }

    async fn open_until_ready(address: &Address, mut hello: Hello) -> Result<Connection, Error> {
        hello.version = tenure_wire::VERSION;
        let socket = Socket::connect(address, hello.member).await.map_err(not_connected)?;
        let welcome = Arc::new(placeholder_welcome());
        let mut connection = Connection {
            _listed: ListedSocket::new(&socket),
            socket,
            out: BytesMut::new(),
            arrived: BytesMut::new(),
            asked: 0,
            welcome,
        };
        connection.ask(&Request::Hello(Box::new(hello)));
        let mut arrived = Vec::new();
        loop {
            connection.turn(&mut arrived).await?;
            match arrived.drain(..).next() {
                Some(FromBroker::Reply { reply: Reply::Welcome(welcome), .. }) => {
                    connection.welcome = Arc::from(welcome);
                    return Ok(connection);
                }
                Some(
                    FromBroker::Reply { reply: Reply::Refused(refusal), .. }
                    | FromBroker::Notice(Notice::Bye(refusal)),
                ) => {
                    return Err(refusal.into());
                }
                Some(other) => {
                    return Err(Error::protocol(format!(
                        "received {} instead of a welcome",
                        kind_of(&other)
                    )));
                }
                None => {}
            }
        }
    }

    /// Returns the broker's reply to the handshake.
    pub fn welcome(&self) -> &Arc<Welcome> {
        &self.welcome
    }

    /// Whether the broker runs on this machine and nothing lies between, such as a tunnel or a proxy: then the connection
    /// closes only if one of the two ends, and a refused one means that no broker listens there.
    pub fn is_direct(&self) -> bool {
        self.socket.ends_at(&self.welcome)
    }

    /// Adds a request to the output and returns the number that its reply will carry. Sends nothing yet.
    pub fn ask(&mut self, request: &Request) -> u64 {
        self.asked += 1;
        encode_request(&mut self.out, self.asked, request);
        self.asked
    }

    /// Adds a request under a number that the caller chooses: not 0, and not one in flight.
    pub fn ask_as(&mut self, number: u64, request: &Request) {
        encode_request(&mut self.out, number, request);
    }

    /// Adds a request that needs no reply. A refusal still comes, with the number 0.
    pub fn send_without_reply(&mut self, request: &Request) {
        encode_request(&mut self.out, 0, request);
    }

    /// Adds frames that are already encoded. Leaves `frames` empty.
    pub fn queue(&mut self, frames: &mut BytesMut) {
        if self.out.is_empty() {
            std::mem::swap(&mut self.out, frames);
        } else {
            self.out.extend_from_slice(frames);
        }
        frames.clear();
    }

    /// Returns how many bytes the socket has not accepted yet.
    pub fn unsent(&self) -> usize {
        self.out.len()
    }

    /// Writes the output buffer and waits until something arrives. Appends everything that has arrived to `into`.
    ///
    /// Cancel-safe: nothing is lost if the future is dropped.
    pub async fn turn(&mut self, into: &mut Vec<FromBroker>) -> Result<(), Error> {
        poll_fn(|context| {
            // A socket that accepts no more bytes for now must not prevent reading.
            if let Poll::Ready(Err(error)) = self.poll_flush(context) {
                return Poll::Ready(Err(error));
            }
            self.poll_arrived(context, into)
        })
        .await
    }

    /// Writes the whole output buffer without reading. With many requests in flight use [`turn`](Self::turn), which
    /// reads as well. Cancel-safe.
    pub async fn flush(&mut self) -> Result<(), Error> {
        poll_fn(|context| self.poll_flush(context)).await
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        while !self.out.is_empty() {
            let written = ready!(self.socket.poll_write(context, &self.out)).map_err(lost)?;
            self.out.advance(written);
        }
        if self.out.capacity() > OUT_KEPT_BYTES {
            self.out = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_arrived(
        &mut self,
        context: &mut Context<'_>,
        into: &mut Vec<FromBroker>,
    ) -> Poll<Result<(), Error>> {
        let before = into.len();
        while into.len() == before {
            self.arrived.reserve(READ_BYTES);
            if ready!(self.socket.poll_read(context, &mut self.arrived)).map_err(lost)? == 0 {
                return Poll::Ready(Err(Error::lost("the broker closed the connection")));
            }
            let frames = split_frames(&mut self.arrived, FRAME_BYTES_MAX);
            for frame in frames.map_err(|error| Error::protocol(error.to_string()))? {
                into.push(decode_from_broker(&frame).map_err(|error| Error::protocol(error.to_string()))?);
            }
        }
        Poll::Ready(Ok(()))
    }
}

fn not_connected(error: std::io::Error) -> Error {
    match error.kind() {
        ErrorKind::ConnectionRefused | ErrorKind::NotFound => {
            Error::NotListening { why: error.to_string().into() }
        }
        _ => lost(error),
    }
}

#[allow(clippy::needless_pass_by_value)]
fn lost(error: std::io::Error) -> Error {
    Error::lost(&error.to_string())
}

fn kind_of(message: &FromBroker) -> &str {
    match message {
        FromBroker::Reply { reply, .. } => reply.kind(),
        FromBroker::Notice(notice) => notice.kind(),
    }
}

/// Placeholder until the broker's welcome arrives.
pub(crate) fn placeholder_welcome() -> Welcome {
    let limits =
        tenure_wire::hello::PeerLimits { frame_bytes: 0, entries: 0, body_bytes: 0, open_requests: 0 };
    Welcome {
        version: 0,
        identity: "".into(),
        namespace: "".into(),
        session: 0,
        features: Vec::new(),
        limits,
        now: tenure_wire::Timestamp(0),
        software: None,
        leader: None,
        group: None,
        members: Vec::new(),
        machine: None,
        local_address: None,
        remote_address: None,
    }
}
