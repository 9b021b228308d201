//! One connection, frame by frame: for the client and the worker above it, and for programs that count microseconds.
//!
//! Requests are encoded straight into one output buffer; [`Connection::turn`] writes all of it at once and hands out
//! all replies and notices that have arrived. There is no task and no channel in between, and nothing reconnects.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tenure_wire::hello::{Hello, Welcome};
use tenure_wire::limits::FRAME_BYTES_MAX;
use tenure_wire::{FromBroker, Notice, Reply, Request, decode_from_broker, encode_request, split_frames};

use crate::address::Address;
use crate::error::Error;
use crate::socket::Socket;

/// How long connecting and shaking hands may take together.
pub const DIAL_TIMEOUT: Duration = Duration::from_secs(10);
/// Room that is made for each read.
const READ_BYTES: usize = 64 << 10;
/// An empty output buffer larger than this is given back to the system.
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
    socket: Socket,
    out: BytesMut,
    arrived: BytesMut,
    asked: u64,
    welcome: Arc<Welcome>,
}

impl Connection {
    /// Connects and shakes hands, within [`DIAL_TIMEOUT`]. The version is filled in.
    pub async fn open(address: &Address, hello: Hello) -> Result<Connection, Error> {
        let opened = tokio::time::timeout(DIAL_TIMEOUT, Connection::open_patiently(address, hello));
        opened.await.unwrap_or_else(|_| Err(Error::lost("no welcome within 10 s")))
    }

    async fn open_patiently(address: &Address, mut hello: Hello) -> Result<Connection, Error> {
        hello.version = tenure_wire::VERSION;
        let socket = Socket::connect(address).await.map_err(lost)?;
        let welcome = Arc::new(nobody());
        let mut connection =
            Connection { socket, out: BytesMut::new(), arrived: BytesMut::new(), asked: 0, welcome };
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
                    return Err(Error::protocol(format!("{} instead of a welcome", kind_of(&other))));
                }
                None => {}
            }
        }
    }

    /// What the broker said at the handshake.
    pub fn welcome(&self) -> &Arc<Welcome> {
        &self.welcome
    }

    /// Adds a request to the output and returns the number that its reply will carry. Sends nothing yet.
    pub fn ask(&mut self, request: &Request) -> u64 {
        self.asked += 1;
        encode_request(&mut self.out, self.asked, request);
        self.asked
    }

    /// Adds a request under a number of the caller's, not 0 and not one that is under way.
    pub fn ask_as(&mut self, number: u64, request: &Request) {
        encode_request(&mut self.out, number, request);
    }

    /// Adds a request that wants no reply. A refusal comes all the same, with the number 0.
    pub fn tell(&mut self, request: &Request) {
        encode_request(&mut self.out, 0, request);
    }

    /// Adds frames that are encoded already. `frames` is left empty.
    pub fn queue(&mut self, frames: &mut BytesMut) {
        if self.out.is_empty() {
            std::mem::swap(&mut self.out, frames);
        } else {
            self.out.extend_from_slice(frames);
        }
        frames.clear();
    }

    /// How many bytes the socket has not taken yet.
    pub fn unsent(&self) -> usize {
        self.out.len()
    }

    /// Writes what there is to say, and waits until something has come. All that has come is added to `into`.
    ///
    /// Cancel-safe: nothing is lost if the future is dropped.
    pub async fn turn(&mut self, into: &mut Vec<FromBroker>) -> Result<(), Error> {
        poll_fn(|context| {
            // If the socket takes no more for now, that must not keep anybody from reading.
            if let Poll::Ready(Err(error)) = self.poll_flush(context) {
                return Poll::Ready(Err(error));
            }
            self.poll_arrived(context, into)
        })
        .await
    }

    /// Writes all there is to say. What arrives meanwhile stays in the socket, so with much under way use
    /// [`turn`](Self::turn). Cancel-safe.
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

/// Stands where the welcome will be, until it has come.
fn nobody() -> Welcome {
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
    }
}
