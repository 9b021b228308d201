//! Connections: so many at once, and none that says nothing.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};
use tonic::transport::server::Connected;

use crate::flow::Flow;
use crate::settings::Settings;

/// How long to wait after a connection could not be accepted: usually there are no more file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Accepts connections as long as it is asked to. One too many is closed at once.
pub(super) fn incoming(
    listener: TcpListener,
    settings: &Settings,
) -> impl Stream<Item = io::Result<Connection>> + Send + 'static {
    let places = Arc::new(Semaphore::new(settings.connections_max));
    let (limit, hello_within) = (settings.connections_max, settings.hello_within);
    futures::stream::unfold((listener, places), move |(listener, places)| async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => match Arc::clone(&places).try_acquire_owned() {
                    Ok(place) => {
                        // Answers are small and waited for.
                        let _ = stream.set_nodelay(true);
                        let hello = Some(Box::pin(sleep(hello_within)));
                        let flow = Flow::default();
                        let connection = Connection { stream, hello, flow, _place: place };
                        return Some((Ok(connection), (listener, places)));
                    }
                    Err(_) => tracing::warn!(limit, "too many connections, one turned away"),
                },
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    })
}

/// A connection with its place among those that may be open.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    /// Until when the first words have to come; nothing once they have.
    hello: Option<Pin<Box<Sleep>>>,
    /// What it may make the broker hold.
    flow: Flow,
    _place: OwnedSemaphorePermit,
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
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if read.is_ready() {
            self.hello = None;
        } else if let Some(hello) = &mut self.hello
            && hello.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
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
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
