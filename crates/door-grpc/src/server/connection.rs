//! Passes connections from the kit to the HTTP/2 server, and drops those that do not log in.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tenure_door_kit::{Door, DoorListener, LoginDeadline, LoginStream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};
use tonic::transport::server::Connected;

use crate::flow::Flow;

/// How many accepted connections may wait for the server.
const ACCEPTED_MAX: usize = 16;

/// Accepts connections until the hub stops. When the sender of `is_open` is dropped, those that are still open break: the
/// library has tasks of its own for them, which would keep the hub for as long as their peers like.
pub(super) fn incoming(
    listener: TcpListener,
    door: Arc<Door>,
    is_open: watch::Receiver<()>,
) -> impl futures::Stream<Item = io::Result<Connection>> + Send + 'static {
    let (sender, mut receiver) = mpsc::channel(ACCEPTED_MAX);
    tokio::spawn(async move {
        let settings = door.settings.clone();
        let serve = move |stream, address, login_by| {
            let sender = sender.clone();
            let flow = Flow::new(address, LoginDeadline::by(login_by), &settings);
            let mut is_open = is_open.clone();
            async move {
                let (alive, ended) = oneshot::channel();
                let stream = LoginStream::new(stream, flow.login.clone());
                let is_closed = Box::pin(async move { while is_open.changed().await.is_ok() {} });
                let connection = Connection { stream, flow, is_closed, _alive: alive };
                // The slot of the connection is free again when the server has dropped it.
                if sender.send(Ok(connection)).await.is_ok() {
                    let _ = ended.await;
                }
            }
        };
        door.accept(DoorListener::Tcp(listener), serve).await;
    });
    futures::stream::poll_fn(move |context| receiver.poll_recv(context))
}

/// A connection with its slot.
pub(super) struct Connection {
    stream: LoginStream,
    /// Its memory limits.
    flow: Flow,
    /// The door is over.
    is_closed: Pin<Box<dyn Future<Output = ()> + Send>>,
    _alive: oneshot::Sender<()>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("stream", &self.stream).finish_non_exhaustive()
    }
}

impl Connection {
    /// Fails once the door is over, and wakes its task then.
    fn check_open(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        // The future may not be polled again after it is ready.
        if self.is_closed.as_mut().poll(cx).is_ready() {
            self.is_closed = Box::pin(std::future::ready(()));
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Ok(())
    }
}

impl Connected for Connection {
    type ConnectInfo = Flow;

    fn connect_info(&self) -> Flow {
        self.flow.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check_open(cx)?;
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.check_open(cx)?;
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check_open(cx)?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check_open(cx)?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
